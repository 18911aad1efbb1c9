"""The CRC-32 of many records, as in `zlib.crc32`, at the speed of machine code."""

from __future__ import annotations

import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel, Table, compile_kernel, loads

if TYPE_CHECKING:
    from pbio_spark.columns.encode.encoder import Encoded

FEW = 2000
"""The least number of records for which a kernel is compiled."""

_POLYNOMIAL = 0xEDB88320
_WORD = "" if sys.byteorder == "little" else "_swapped"

TOGETHER = 4
"""How many records a kernel processes at once, since each step waits for the previous one in its record."""


def _step(number: int) -> str:
    """The text for eight more bytes of one of the records."""
    parts = " ^ ".join(f"at(tables, {7 - n}, (word{number} >> {8 * n}) & 255)" for n in range(8))
    return f"""
            word{number} = as_int64(load_uint64{_WORD}(place{number})) ^ crc{number}
            place{number} += 8
            crc{number} = {parts}"""


def _records(numbers: range) -> str:
    """The checksums of the records from `i` on: together as far as all of them go, then each to its end."""
    begin = "".join(
        f"""
        place{n} = data + load_int64(offsets + 8 * (i + {n}))
        end{n} = data + load_int64(offsets + 8 * (i + {n}) + 8)
        crc{n} = 0xFFFFFFFF
        least = min(least, end{n} - place{n})"""
        for n in numbers
    )
    rest = "".join(
        f"""
        while end{n} - place{n} >= 8:{_step(n)}
        while place{n} < end{n}:
            crc{n} = at(tables, 0, (crc{n} ^ as_int64(load_uint8(place{n}))) & 255) ^ (crc{n} >> 8)
            place{n} += 1
        store_int64(sums + 8 * (i + {n}), crc{n} ^ 0xFFFFFFFF)"""
        for n in numbers
    )
    return f"""
        least = 0x7FFFFFFFFFFFFFFF{begin}
        for _ in range(least >> 3):{"".join(map(_step, numbers))}{rest}
        i += {len(numbers)}"""


SOURCE = f"""
@inline
def at(tables, number, byte):
    return as_int64(load_uint32(tables + 1024 * number + 4 * byte))


def kernel(count, table):
{loads(("data", "offsets", "tables", "sums"))}
    i = 0
    while i + {TOGETHER} <= count:{_records(range(TOGETHER))}
    while i < count:{_records(range(1))}
    return 0
"""


@cache
def checksum_kernel() -> Kernel:
    """The kernel that computes the checksums. It pickles with its machine code, as all kernels do."""
    return compile_kernel(SOURCE)


def record_checksums(encoded: Encoded, kernel: Kernel | None = None) -> npt.NDArray[np.uint64]:
    """The CRC-32 of each record.

    Args:
        kernel: from `checksum_kernel`; by default it is compiled here if there are many records.
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
    """uint32[8, 256]: the contribution of a byte that is followed by 0 to 7 other bytes."""
    tables = np.zeros((8, 256), np.uint32)
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, (row >> 1) ^ np.uint32(_POLYNOMIAL), row >> 1).astype(np.uint32)
    tables[0] = row
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ row[tables[k - 1] & 255]
    return tables
