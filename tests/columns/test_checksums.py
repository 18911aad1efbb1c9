"""The kernel's checksums are zlib's."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.columns import Encoded, checksum_kernel, record_checksums
from pbio_spark.columns.checksums import FEW


def encoded(records: list[bytes], before: bytes = b"") -> Encoded:
    """Records that begin anywhere in memory."""
    offsets = np.cumsum([0, *map(len, records)], dtype=np.int64)
    return Encoded(pa.py_buffer(before + b"".join(records)).slice(len(before)), offsets)


@given(st.lists(st.binary(max_size=40), max_size=5), st.binary(max_size=9))
def test_checksums_are_those_of_zlib(records: list[bytes], before: bytes) -> None:
    wanted = [crc32(record) for record in records]
    assert record_checksums(encoded(records, before), checksum_kernel()).tolist() == wanted
    assert record_checksums(encoded(records, before)).tolist() == wanted


def test_many_records_and_long_ones() -> None:
    chance = np.random.default_rng(3)
    records = [chance.bytes(n % 300) for n in range(FEW + 1)] + [chance.bytes(1_000_003), b"\0" * 4096, b"\xff" * 4097]
    assert record_checksums(encoded(records)).tolist() == [crc32(record) for record in records]
