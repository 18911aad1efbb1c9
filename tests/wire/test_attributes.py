"""Attribute lists, in the bytes of the specification and beyond what the corpus shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.errors import PbioError
from pbio_spark.wire import Attribute, attribute, attributes_from_bytes, attributes_to_bytes

# ffs-wire-format 13.3
LISTED = bytes.fromhex("00010100 601d1840ffffffff 0036fd06 03000000 03006d6500000000")


def test_the_list_of_the_specification() -> None:
    attributes = (attribute("iteration", -1), attribute("who", "me"))
    assert attributes_from_bytes(LISTED) == attributes
    assert attributes_to_bytes(reversed(attributes), "little") == LISTED


@pytest.mark.parametrize(
    ("value", "type_"),
    [(1, "int4"), (-(2**31), "int4"), (2**31, "int8"), (0.5, "float8"), ("é", "string"), (b"", "opaque")],
)
def test_values_find_their_type(value: int | float | str | bytes, type_: str) -> None:
    made = attribute("name", value)
    assert made.type == type_
    assert attributes_from_bytes(attributes_to_bytes([made], "big")) == (made,)


def test_an_empty_list_is_its_head() -> None:
    assert attributes_to_bytes([], "big") == bytes.fromhex("01000000")
    assert attributes_from_bytes(bytes.fromhex("01000000")) == ()


int32 = st.integers(-(2**31), 2**31 - 1)
attributes = (
    st.builds(Attribute, int32, st.sampled_from(("int4", "atom")), int32)
    | st.builds(Attribute, int32, st.just("int8"), st.integers(-(2**63), 2**63 - 1))
    | st.builds(Attribute, int32, st.just("float8"), st.floats(allow_nan=False))
    | st.builds(Attribute, int32, st.sampled_from(("string", "opaque")), st.binary(max_size=9))
)


@given(st.lists(attributes, max_size=6, unique_by=lambda a: a.atom), st.sampled_from(("little", "big")))
def test_lists_survive(given_: list[Attribute], byte_order: str) -> None:
    listed = attributes_to_bytes(given_, byte_order)
    assert len(listed) % 4 == 0
    found = attributes_from_bytes(listed)
    assert sorted(found, key=lambda a: a.atom) == sorted(given_, key=lambda a: a.atom)
    assert list(found) == sorted(found, key=lambda a: (a.type != "int4", a.atom))
    assert [a.type == "int4" for a in found] == sorted((a.type == "int4" for a in given_), reverse=True)


@pytest.mark.parametrize(
    "listed",
    [
        "",
        "0200",
        "02000000",
        "00010000",
        "00000000 00",
        "00000100 0036fd06 01000000 00000000",  # an int4 in the second group
        "00000100 0036fd06 06000000",  # a list in the list
        "00000100 0036fd06 03000000 0300 6d65",  # a string that does not fit
        "00000100 0036fd06 03000000 0200 6d65",  # a string without NUL
        "00000100 0036fd06 04000000 ffff 0000",  # a negative length
        "00000100 0036fd06 02000000 00000000",  # half an int8
    ],
)
def test_damage(listed: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_ATTRIBUTES"):
        attributes_from_bytes(bytes.fromhex(listed))


@pytest.mark.parametrize(
    "refused",
    [
        [Attribute(1, "int4", 2**31)],
        [Attribute(1, "int4", 0), Attribute(1, "float8", 0.0)],
        [Attribute(1, "string", 5)],
        [Attribute(1, "opaque", bytes(2**15))],
        [Attribute(i, "int4", 0) for i in range(256)],
    ],
)
def test_what_has_no_bytes(refused: list[Attribute]) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_ATTRIBUTES"):
        attributes_to_bytes(refused, "little")
