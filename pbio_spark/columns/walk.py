"""The compiled walk over the items of a file: where its records are, and whether their headers are right.

The rules are those of `pbio_spark.wire.container` and `wire.header`. The kernel takes the items that come in millions,
records, and those that lie between them, comments and index blocks; at anything else it stops and says where.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel, Table, compile_kernel
from pbio_spark.formats import Format
from pbio_spark.wire.header import length_word

_BIG = "_swapped" if sys.byteorder == "little" else ""

SOURCE = f"""
@inline
def has_id(form, record, size):
    # An ID is kept as its first 8 bytes, the number of the others, and these.
    more = load_int64(form + 16)
    if size < 8 + more or load_int64(record) != load_int64(form):
        return False
    rest = 0
    for i in range(more):
        rest |= as_int64(load_uint8(record + 8 + i)) << 8 * i
    return rest == load_int64(form + 8)


@inline
def is_right(form, record, size):
    length = size - load_int64(form + 24)
    if length < load_int64(form + 32) or length > load_int64(form + 40):
        return False
    word_size = load_int64(form + 56)
    word = 0
    for i in range(word_size):
        byte = as_int64(load_uint8(record + load_int64(form + 48) + i))
        word = word << 8 | byte if load_int64(form + 64) else word | byte << 8 * i
    return word_size == 0 or word == length


def kernel(most, table):
    data = load_int64(table)
    length = load_int64(table + 8)
    position = load_int64(table + 16)
    count = load_int64(table + 24)
    known = load_int64(table + 32)
    formats = load_int64(table + 40)
    positions = load_int64(table + 48)
    starts = load_int64(table + 56)
    ends = load_int64(table + 64)
    of_format = load_int64(table + 72)
    rights = load_int64(table + 80)
    which = 0
    why = 0
    while why == 0:
        item = data + position
        if position + 8 > length:
            why = {{end}}
            break
        word = as_int64(load_uint32{_BIG}(item))
        kind = word >> 24
        size = word & 0xFFFFFF
        if kind == 1 and size >= 1:
            size += 4
        elif kind == 3 and size <= 0xFFFF:
            size = 8 + (size << 32 | as_int64(load_uint32{_BIG}(item + 4)))
        elif kind != 4 or size < 20:
            why = {{other}}
            break
        if position + size > length:
            why = {{end}}
            break
        if kind == 3:
            if count == most:
                why = {{full}}
                break
            record = item + 8
            tried = 0
            while tried < known and not has_id(formats + {{form}} * which, record, size - 8):
                which = (which + 1) % known
                tried += 1
            if tried == known:
                why = {{other}}
                break
            form = formats + {{form}} * which
            store_int64(positions + 8 * count, position)
            store_int64(starts + 8 * count, record + load_int64(form + 24))
            store_int64(ends + 8 * count, item + size)
            store_int32(of_format + 4 * count, which)
            store_uint8(rights + count, 1 if is_right(form, record, size - 8) else 0)
            count += 1
        position += size
    store_int64(table + 16, position)
    store_int64(table + 24, count)
    return why
"""


class Stop(IntEnum):
    """Why a walk stopped: the data end before the next item does, there is no room, or an item of another kind."""

    END = 1
    FULL = 2
    OTHER = 3


_FORM = 72


@cache
def walk_kernel() -> Kernel:
    return compile_kernel(SOURCE.format(end=int(Stop.END), full=int(Stop.FULL), other=int(Stop.OTHER), form=_FORM))


@dataclass(frozen=True, slots=True)
class Walked:
    """Records that a walk found, in the order of the file.

    Attributes:
        positions: int64, where their items begin, counted from the first byte of the data.
        starts, ends: int64 addresses of the base record's first byte and of the byte after the record.
        formats: int32, which of the walker's formats they have.
        rights: bool, whether the header agrees with the record and with its format.
        next: the position of the item at which the walk stopped.
    """

    positions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    formats: npt.NDArray[np.int32]
    rights: npt.NDArray[np.bool_]
    next: int
    stop: Stop


class Walker:
    """Walks over data in memory, knowing some formats."""

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel or walk_kernel()
        self.formats: list[Format] = []
        self._packed = np.zeros((0, _FORM // 8), np.int64)

    def learn(self, formats: Sequence[Format]) -> None:
        """Know formats from now on; their number in `Walked.formats` is their place in `self.formats`."""
        self.formats += formats
        self._packed = np.array([_pack(form) for form in self.formats], np.int64).reshape(-1, _FORM // 8)

    def walk(self, data: npt.NDArray[np.uint8], position: int, most: int) -> Walked:
        """Walk from an item boundary to the end of the data, to `most` records, or to an item of another kind."""
        positions, starts, ends = (np.empty(most, np.int64) for _ in range(3))
        formats, rights = np.empty(most, np.int32), np.empty(most, np.bool_)
        outputs: list[Any] = [positions, starts, ends, formats, rights]
        table = Table([data, len(data), position, 0, len(self.formats), self._packed, *outputs])
        stop = Stop(self.kernel(most, table))
        n = table[3]
        return Walked(positions[:n], starts[:n], ends[:n], formats[:n], rights[:n], table[2], stop)


def _pack(form: Format) -> tuple[int, ...]:
    first = int.from_bytes(form.id[:8], sys.byteorder, signed=True)
    rest = int.from_bytes(form.id[8:], "little")
    base = form.structs[0].record_length
    least, most = (-(-base // 8) * 8, 2**31 - 1) if form.is_variant else (base, base)
    at, size = length_word(form)
    return first, rest, len(form.id) - 8, form.header_size, least, most, at, size, form.byte_order == "big"
