"""`OutputBuffers`: the buffers that a program fills for an output, and the columns that they make."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ecode.columns.column import ITEMS, TARGET, Column, static_count
from ecode.typed import Structs, ValueType
from ecode.types import Array, Pointer, Ref

OFFSET = struct.Struct("i")
"""An offset: int32, as in Arrow."""


@dataclass(frozen=True, slots=True)
class OutputBuffer:
    """A buffer that the host allocates for an output.

    Attributes:
        path: the column that it belongs to; `part` is the attribute of `Column`.
        level: the capacity entry with the number of places; "" for one place per row.
        per_place: values in each place; offsets have one more in total.
        dtype: the numpy type.
        opens: for offsets, the capacity entry of what they point into.
    """

    path: tuple[str, ...]
    part: str
    level: str
    per_place: int
    dtype: np.dtype[Any]
    opens: str = ""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column with all of its buffers.

    Attributes:
        above: the number of the column whose child it is; -1 for the output itself.
        step: its name there.
        each: how many values it has for each of the column above; None if the offsets there say it.
        buffers: table entry and buffer, offsets first.
    """

    above: int
    step: str
    each: int | None
    buffers: tuple[tuple[str, OutputBuffer], ...]

    @property
    def opens(self) -> str:
        """The capacity entry of what its offsets point into; "" if it has none."""
        return self.buffers[0][1].opens if self.buffers else ""


@dataclass(frozen=True, slots=True)
class OutputBuffers:
    """The buffers of one output parameter, with what every run needs to know of them.

    Attributes:
        capacities: the entries that hold the number of places in a growing column.
        columns: the columns that have buffers, and those above them, which come first.
        bytes_of: the bytes that a place of each level takes in all buffers.
    """

    name: str
    buffers: Mapping[str, OutputBuffer]
    capacities: tuple[str, ...]
    columns: tuple[OutputColumn, ...] = field(compare=False, repr=False)
    bytes_of: Mapping[str, int] = field(compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        type_: ValueType | None,
        structs: Structs,
        buffers: Mapping[str, OutputBuffer],
        capacities: tuple[str, ...],
    ) -> OutputBuffers:
        """`type_` is the type of the parameter, in `structs`."""
        bytes_of = dict[str, int]()
        for buffer in buffers.values():
            bytes_of[buffer.level] = bytes_of.get(buffer.level, 0) + buffer.per_place * buffer.dtype.itemsize
        return cls(name, dict(buffers), capacities, _columns(type_, structs, buffers), bytes_of)

    def measured(self, rows: int, memory: Mapping[str, Any], opened: Callable[[str, int], None]) -> FilledBuffers:
        """The buffers after a run, with how much of them it wrote.

        Args:
            rows: the rows of the output.
            memory: the buffer of each table entry.
            opened: told how many places of each capacity were filled.
        """
        lengths: list[int] = []
        filled: list[int] = []
        for one in self.columns:
            length = rows if one.above < 0 else filled[one.above] if one.each is None else lengths[one.above] * one.each
            lengths.append(length)
            if one.opens:
                (length,) = OFFSET.unpack_from(memory[one.buffers[0][0]], OFFSET.size * length)
                opened(one.opens, length)
            filled.append(length)
        return FilledBuffers(self, memory, lengths, filled)


@dataclass(frozen=True, slots=True)
class FilledBuffers:
    """The buffers of an output after a run. They may be longer than what was written.

    Attributes:
        memory: the buffer of each table entry.
        lengths: how many values each of the layout's columns has.
        filled: how many places the offsets of each column reach; its length if it has no offsets.
    """

    layout: OutputBuffers
    memory: Mapping[str, Any] = field(repr=False)
    lengths: list[int]
    filled: list[int]

    def column(self) -> Column:
        """The columns, cut to what was written."""
        made: list[Column] = []
        for one, length, filled in zip(self.layout.columns, self.lengths, self.filled, strict=True):
            column = Column(length)
            if one.above >= 0:
                made[one.above].children[one.step] = column
            for entry, buffer in one.buffers:
                size = length + 1 if buffer.opens else length if buffer.part == "present" else filled
                setattr(column, buffer.part, np.frombuffer(self.memory[entry], buffer.dtype, size))
            made.append(column)
        return made[0]


def _columns(
    type_: ValueType | None, structs: Structs, buffers: Mapping[str, OutputBuffer]
) -> tuple[OutputColumn, ...]:
    of_path: dict[tuple[str, ...], list[tuple[str, OutputBuffer]]] = {}
    above = set[tuple[str, ...]]()
    for entry, buffer in buffers.items():
        of_path.setdefault(buffer.path, []).append((entry, buffer))
        above.update(buffer.path[:depth] for depth in range(len(buffer.path) + 1))
    made: list[OutputColumn] = []

    def walk(path: tuple[str, ...], type_: ValueType | None, number: int, each: int | None) -> None:
        own = sorted(of_path.get(path, ()), key=lambda one: not one[1].opens)
        made.append(OutputColumn(number, path[-1] if path else "", each, tuple(own)))
        number = len(made) - 1
        has_offsets = bool(own) and bool(own[0][1].opens)
        for step, inner, many in _below(type_, structs):
            if (*path, step) in above:
                walk((*path, step), inner, number, None if step == ITEMS and has_offsets else many)

    walk((), type_, -1, 1)
    return tuple(made)


def _below(type_: ValueType | None, structs: Structs) -> Iterator[tuple[str, ValueType, int]]:
    """The children of a column: name, type, and how many values for each one of it, if all arrays are static."""
    match type_:
        case Ref():
            yield from ((one.name, one.type, 1) for one in structs[type_.name].fields)
        case Array():
            yield ITEMS, type_.element, static_count(type_)
        case Pointer():
            yield TARGET, type_.target, 1
