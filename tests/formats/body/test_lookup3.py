"""The hash, and the names made from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.errors import PbioError
from pbio_spark.formats.body.lookup3 import format_id, hashlittle2, id_length

MASK = 0xFFFFFFFF


def rot(x: int, k: int) -> int:
    return (x << k | x >> 32 - k) & MASK


def by_the_book(data: bytes) -> tuple[int, int]:
    """The pseudocode of ffs-wire-format 4.3, line by line."""
    a = b = c = (0xDEADBEEF + len(data)) & MASK
    if not data:
        return c, b
    while True:
        padded = data[:12].ljust(12, b"\0")
        a, b, c = ((x + int.from_bytes(padded[i : i + 4], "little")) & MASK for x, i in ((a, 0), (b, 4), (c, 8)))
        if len(data) <= 12:
            break
        data = data[12:]
        a = (a - c) & MASK ^ rot(c, 4)
        c = (c + b) & MASK
        b = (b - a) & MASK ^ rot(a, 6)
        a = (a + c) & MASK
        c = (c - b) & MASK ^ rot(b, 8)
        b = (b + a) & MASK
        a = (a - c) & MASK ^ rot(c, 16)
        c = (c + b) & MASK
        b = (b - a) & MASK ^ rot(a, 19)
        a = (a + c) & MASK
        c = (c - b) & MASK ^ rot(b, 4)
        b = (b + a) & MASK
    c = ((c ^ b) - rot(b, 14)) & MASK
    a = ((a ^ c) - rot(c, 11)) & MASK
    b = ((b ^ a) - rot(a, 25)) & MASK
    c = ((c ^ b) - rot(b, 16)) & MASK
    a = ((a ^ c) - rot(c, 4)) & MASK
    b = ((b ^ a) - rot(a, 14)) & MASK
    c = ((c ^ b) - rot(b, 24)) & MASK
    return c, b


@given(st.binary(max_size=100))
def test_the_fast_hash_is_the_specified_one(data: bytes) -> None:
    assert hashlittle2(data) == by_the_book(data)


def test_an_id_holds_version_length_and_hashes() -> None:
    body = bytes(4 * 0x12345)
    high, low = hashlittle2(body)
    assert format_id(body).hex() == f"02012345{high:08x}{low:08x}"


@pytest.mark.parametrize(
    ("prefix", "length"),
    [("deadbeef00000000", 8), ("0200000000000000", 8), ("0102030400000001", 10), ("0200001c64b9caa7", 12)],
)
def test_the_start_of_an_id_tells_its_length(prefix: str, length: int) -> None:
    assert id_length(bytes.fromhex(prefix)) == length


@pytest.mark.parametrize("prefix", ["", "02000000", "0300000000000001", "0000000000000001"])
def test_no_other_start_is_an_id(prefix: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_ID"):
        id_length(bytes.fromhex(prefix))
