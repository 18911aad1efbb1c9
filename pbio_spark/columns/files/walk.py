"""The compiled walk over the items of a file: finds its records and checks their headers.

It follows the rules of `pbio_spark.wire.container` and `wire.header`. The kernel handles the items that come in
millions, records, and comments and index blocks between them. At anything else it stops and reports where.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from textwrap import indent
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.native import Kernel, Table, compile_kernel, loads
from ecode.native.table import address_of
from pbio_spark.formats import Format
from pbio_spark.wire.header import length_word

_BIG = "_swapped" if sys.byteorder == "little" else ""


_HEADERS = """
@inline
def has_id(form, first, rest):
    # An ID is kept as its first 8 bytes and a number that its other bytes make, 0 to 4 of them.
    return load_int64(form) == first and load_int64(form + 8) == rest


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
"""

_NOTE = """\
first = 0
rest = 0
more = -1
if extent >= 8:
    first = load_int64(record)
    if load_uint32(record + 4) == 0:
        more = 0
    elif load_uint8(record) == 1 or load_uint8(record) == 2:
        more = 2 * as_int64(load_uint8(record))
if more > extent - 8:
    more = -1
for j in range(more):
    rest |= as_int64(load_uint8(record + 8 + j)) << 8 * j
rest |= more << 32
if which < 0 or not has_id(formats + {form} * which, first, rest):
    place = first * factor_of_first + rest * factor_of_rest >> 32 & mask
    which = as_int64(load_int32(places + 4 * place))
    while which >= 0 and not has_id(formats + {form} * which, first, rest):
        place = place + 1 & mask
        which = as_int64(load_int32(places + 4 * place))
store_int64(ends + 8 * count, record + extent)
store_int32(of_format + 4 * count, which)
if which < 0:
    store_int64(starts + 8 * count, record)
    store_uint8(rights + count, 0)
else:
    form = formats + {form} * which
    store_int64(starts + 8 * count, record + load_int64(form + 24))
    store_uint8(rights + count, 1 if is_right(form, record, extent) else 0)
count += 1
"""
"""Notes what the record of `extent` bytes at `record` is."""

_LOOKUP = ("formats", "places", "mask", "factor_of_first", "factor_of_rest")
_FOUND = ("starts", "ends", "of_format", "rights")
_OF_WALK = ("data", "length", "position", "count", *_LOOKUP, "positions", *_FOUND)
_OF_VALUES = ("data", "offsets", "width", *_LOOKUP, *_FOUND)
"""The tables of the two kernels, in this order."""

SOURCE = f"""{_HEADERS}

def kernel(most, table):
{loads(_OF_WALK)}
    which = -1
    why = 0
    while why == 0:
        item = data + position
        if length - position < 8:
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
        if size > length - position:
            why = {{end}}
            break
        if kind == 3:
            if count == most:
                why = {{full}}
                break
            record = item + 8
            extent = size - 8
            store_int64(positions + 8 * count, position)
{indent(_NOTE, " " * 12)}        position += size
    store_int64(table + 16, position)
    store_int64(table + 24, count)
    return why
"""

OF_VALUES = f"""{_HEADERS}

def kernel(most, table):
{loads(_OF_VALUES)}
    count = 0
    which = -1
    while count < most:
        if width == 4:
            begin = as_int64(load_int32(offsets + 4 * count))
            end = as_int64(load_int32(offsets + 4 * count + 4))
        else:
            begin = load_int64(offsets + 8 * count)
            end = load_int64(offsets + 8 * count + 8)
        record = data + begin
        extent = end - begin
{indent(_NOTE, " " * 8)}    return 0
"""


class Stop(IntEnum):
    """Why a walk stopped: the data end inside an item, the room is used up, or an item of another kind comes."""

    END = 1
    FULL = 2
    OTHER = 3


_FORM = 72
ITEM_HEAD = 8
"""The bytes before a record in a file; also counted for values, which have none."""


@cache
def walk_kernel() -> Kernel:
    return compile_kernel(SOURCE.format(end=int(Stop.END), full=int(Stop.FULL), other=int(Stop.OTHER), form=_FORM))


@cache
def values_kernel() -> Kernel:
    """The kernel for records as binary values of Arrow, one per value."""
    return compile_kernel(OF_VALUES.format(form=_FORM))


@dataclass(frozen=True, slots=True)
class Walked:
    """Records that a walk found, in the order of the file.

    Attributes:
        positions: int64, where their items begin, counted from the first byte of the data.
        starts, ends: int64 addresses of the base record's first byte and of the byte after the record.
        formats: int32, the index of their format among the walker's; -1 for an unknown ID.
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

    def without_last(self) -> Walked:
        """The result as if the walk had stopped at the last record."""
        return Walked(
            self.positions[:-1],
            self.starts[:-1],
            self.ends[:-1],
            self.formats[:-1],
            self.rights[:-1],
            int(self.positions[-1]),
            Stop.OTHER,
        )


class Walker:
    """Walks over data in memory, knowing some formats.

    Attributes:
        formats: the known formats, to whose indexes `Walked.formats` refers. `learn` adds to them.
    """

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel or walk_kernel()
        self.formats: list[Format] = []
        self._packed = np.zeros((8, _FORM // 8), np.int64)
        # Where each format is, by a hash of its ID: open addressing, at most half full. Each walker draws new factors,
        # so that no file can have IDs that collide on purpose.
        self._places = np.full(16, -1, np.int32)
        self._factors = [int.from_bytes(os.urandom(8), signed=True) | 1 for _ in range(2)]

    def learn(self, formats: Iterable[Format]) -> None:
        """Add formats. An ID that is already known keeps its format."""
        for form in formats:
            number = len(self.formats)
            if number == len(self._packed):
                self._packed = np.concatenate([self._packed, np.zeros_like(self._packed)])
                self._places = np.full(2 * len(self._places), -1, np.int32)
                for known in range(number):
                    self._enter(known)
            self._packed[number] = _pack(form)
            self.formats.append(form)
            self._enter(number)

    def _enter(self, number: int) -> None:
        """Enter a format under its ID, unless the ID is already taken."""
        first, rest = self._packed[number, :2].tolist()
        mask = len(self._places) - 1
        # As the kernel computes it, with wrapping arithmetic.
        place = (first * self._factors[0] + rest * self._factors[1] & 2**64 - 1) >> 32 & mask
        while (other := int(self._places[place])) >= 0:
            if self._packed[other, :2].tolist() == [first, rest]:
                return
            place = place + 1 & mask
        self._places[place] = number

    def walk(self, data: npt.NDArray[np.uint8], position: int, most: int) -> Walked:
        """Walk from an item boundary to the end of the data, to `most` records, or to an item of another kind."""
        most = min(most, len(data))  # an item takes bytes
        positions, starts, ends = (np.empty(most, np.int64) for _ in range(3))
        formats, rights = np.empty(most, np.int32), np.empty(most, np.bool_)
        self._outputs = positions, starts, ends, formats, rights
        known: list[Any] = [self._packed, self._places, len(self._places) - 1, *self._factors]
        self._table = Table([data, len(data), position, 0, *known, *self._outputs])
        return self._walked(most)

    def walk_on(self, position: int) -> Walked:
        """Continue the last walk at an item boundary after its end: the result has its records, too."""
        entries = self._table.array
        entries[2] = position
        entries[4], entries[5], entries[6] = address_of(self._packed), address_of(self._places), len(self._places) - 1
        return self._walked(len(self._outputs[0]))

    def _walked(self, most: int) -> Walked:
        stop = Stop(self.kernel(most, self._table))
        n = self._table[3]
        positions, starts, ends, formats, rights = self._outputs
        return Walked(positions[:n], starts[:n], ends[:n], formats[:n], rights[:n], self._table[2], stop)

    def walk_values(self, values: pa.Array, kernel: Kernel) -> Walked:
        """Look at binary values, none of them null, each of which is a record.

        Args:
            kernel: of `values_kernel`.
        """
        count = len(values)
        width = 8 if pa.types.is_large_binary(values.type) else 4
        _, offsets, data = values.buffers()
        starts, ends = (np.empty(count, np.int64) for _ in range(2))
        formats, rights = np.empty(count, np.int32), np.empty(count, np.bool_)
        at = 0 if offsets is None else offsets.address + width * values.offset
        known: list[Any] = [self._packed, self._places, len(self._places) - 1, *self._factors]
        kernel(count, Table([0 if data is None else data, at, width, *known, starts, ends, formats, rights]))
        positions = offsets_of(values)[:-1] - ITEM_HEAD
        return Walked(positions, starts, ends, formats, rights, 0, Stop.END)


def offsets_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """int64, where the bytes of each binary value begin in its buffer, and where those of the last end."""
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    _, offsets, _ = values.buffers()
    if offsets is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(offsets, kind)[values.offset : values.offset + len(values) + 1].astype(np.int64)


def _pack(form: Format) -> tuple[int, ...]:
    first = int.from_bytes(form.id[:8], sys.byteorder, signed=True)
    rest = int.from_bytes(form.id[8:], "little") | len(form.id) - 8 << 32
    base = form.base_length
    least, most = (-(-base // 8) * 8, 2**31 - 1) if form.is_variant else (base, base)
    at, size = length_word(form)
    return first, rest, 0, form.header_size, least, most, at, size, form.byte_order == "big"
