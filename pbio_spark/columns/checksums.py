"""The CRC-32 of each of many records, as `zlib.crc32` has it, at the speed of machine code."""

from __future__ import annotations

import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel, Table, compile_kernel

if TYPE_CHECKING:
    from pbio_spark.columns.encode.encoder import Encoded

FEW = 2000
"""For fewer records no kernel is compiled."""

_POLYNOMIAL = 0xEDB88320
_WORD = "" if sys.byteorder == "little" else "_swapped"

SOURCE = f"""
@inline
def at(tables, number, byte):
    return as_int64(load_uint32(tables + 1024 * number + 4 * byte))


def kernel(count, table):
    data = load_int64(table)
    offsets = load_int64(table + 8)
    tables = load_int64(table + 16)
    sums = load_int64(table + 24)
    for i in range(count):
        place = data + load_int64(offsets + 8 * i)
        end = data + load_int64(offsets + 8 * i + 8)
        crc = 0xFFFFFFFF
        while end - place >= 8:
            word = as_int64(load_uint64{_WORD}(place)) ^ crc
            crc = at(tables, 7, word & 255) ^ at(tables, 6, (word >> 8) & 255)
            crc ^= at(tables, 5, (word >> 16) & 255) ^ at(tables, 4, (word >> 24) & 255)
            crc ^= at(tables, 3, (word >> 32) & 255) ^ at(tables, 2, (word >> 40) & 255)
            crc ^= at(tables, 1, (word >> 48) & 255) ^ at(tables, 0, (word >> 56) & 255)
            place += 8
        while place < end:
            crc = at(tables, 0, (crc ^ as_int64(load_uint8(place))) & 255) ^ (crc >> 8)
            place += 1
        store_int64(sums + 8 * i, crc ^ 0xFFFFFFFF)
    return 0
"""


@cache
def checksum_kernel() -> Kernel:
    """What computes the checksums. It pickles with its machine code, as all kernels do."""
    return compile_kernel(SOURCE)


def record_checksums(encoded: Encoded, kernel: Kernel | None = None) -> npt.NDArray[np.uint64]:
    """The CRC-32 of each record.

    Args:
        kernel: what `checksum_kernel` made elsewhere; without one, it is compiled here if the records are many.
    """
    count = len(encoded.offsets) - 1
    sums = np.zeros(count, np.uint64)
    if kernel is None and count < FEW:
        data, ends = memoryview(encoded.buffer), encoded.offsets.tolist()
        sums[:] = [crc32(data[start:end]) for start, end in pairwise(ends)]
    elif count:
        offsets = np.ascontiguousarray(encoded.offsets, np.int64)
        (kernel or checksum_kernel())(count, Table([encoded.buffer, offsets, _tables(), sums]))
    return sums


@cache
def _tables() -> npt.NDArray[np.uint32]:
    """uint32[8, 256]: what a byte contributes that 0 to 7 other bytes follow."""
    tables = np.zeros((8, 256), np.uint32)
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, (row >> 1) ^ np.uint32(_POLYNOMIAL), row >> 1).astype(np.uint32)
    tables[0] = row
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ row[tables[k - 1] & 255]
    return tables
