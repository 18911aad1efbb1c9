"""Columns that are already what a program wrote: Arrow arrays over the program's own buffers.

Which columns these are is known before the first batch: numbers that are stored as they are, strings, structures of
these, and arrays whose offsets the program wrote; nothing that a null bit or a mark may hide. They are cut to the rows
that there are, and only the bytes of text are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ecode.columns.column import ITEMS
from ecode.columns.layout import FilledBuffers, OutputBuffers
from ecode.types import Array, Basic, Kind, Ref, Struct
from pbio_spark.columns.decode.assemble import bitmap
from pbio_spark.formats.arrow.mapping import FieldRule, Mapped

Cut: TypeAlias = "Callable[[FilledBuffers], pa.Array | None]"
"""Makes the array of a column, from Arrow buffers. None if a text goes beyond ASCII, which has to be converted."""

Stored: TypeAlias = "Callable[[Basic, Mapped], np.dtype[np.generic] | None]"
"""The numpy type of a column's numbers; None if more is to be done than to store them."""


class Cutter:
    """Finds out how to cut the columns of an output.

    Args:
        layout: the buffers of the output.
        structs: the structures of its type, by name.
        stored: see `Stored`.
    """

    def __init__(self, layout: OutputBuffers, structs: Mapping[str, Struct], stored: Stored) -> None:
        self._layout, self._structs, self._stored = layout, structs, stored
        self._below = {(one.above, one.step): number for number, one in enumerate(layout.columns)}

    def column(self, mapped: Mapped, struct: Struct, above: int) -> Cut | None:
        """How to cut a column; None if it must be made in another way.

        Args:
            struct: the structure of its field.
            above: the number of the layout's column of such structures.
        """
        field, bits = mapped.field, struct.null_bits
        number = None if field is None else self._below.get((above, field.name))
        if field is None or number is None or mapped.rule is FieldRule.COUNT:
            return None
        may_be_null = field.notes.null_bit is not None and bits is not None and (above, bits.name) in self._below
        has_marks = field.notes.null_items is not None and (above, field.notes.null_items) in self._below
        return None if may_be_null or has_marks else self._value(mapped, number)

    def _value(self, mapped: Mapped, number: int) -> Cut | None:
        match mapped.rule, mapped.type:
            case FieldRule.NUMBER, Basic() as basic:
                return self._numbers(mapped, basic, number)
            case FieldRule.STRING, _:
                return self._strings(mapped.arrow, number)
            case ((FieldRule.STRUCT | FieldRule.ITEM), Ref(name)):
                return self._struct(mapped, self._structs[name], number)
            case FieldRule.LIST, Array(dims=(_,)) if self._layout.columns[number].opens:
                return self._lists(mapped, number)
        return None

    def _numbers(self, mapped: Mapped, basic: Basic, number: int) -> Cut | None:
        want, (entry, own) = mapped.arrow, self._buffer(number, "data")
        if basic.kind is not Kind.INTEGER and basic.kind is not Kind.FLOAT:
            own = np.dtype(f"u{own.itemsize}")  # in E-code characters and enumerations have a sign
        if self._stored(basic, mapped) != own:
            return None

        def cut(filled: FilledBuffers) -> pa.Array:
            count = filled.lengths[number]
            data = filled.memory[entry].slice(0, own.itemsize * count)
            return pa.Array.from_buffers(want, count, [None, data])

        return cut

    def _strings(self, want: pa.DataType, number: int) -> Cut | None:
        is_text = not pa.types.is_binary(want)
        offsets, present, data = (self._buffer(number, part)[0] for part in ("offsets", "present", "data"))

        def cut(filled: FilledBuffers) -> pa.Array | None:
            count, memory = filled.lengths[number], filled.memory
            text = memory[data].slice(0, filled.filled[number])
            if is_text and np.minimum.reduce(np.frombuffer(text, np.int8), initial=0) < 0:
                return None
            there = bitmap(np.frombuffer(memory[present], np.bool_, count))
            return pa.Array.from_buffers(want, count, [there, memory[offsets].slice(0, 4 * count + 4), text])

        return cut

    def _struct(self, mapped: Mapped, struct: Struct, number: int) -> Cut | None:
        want, parts = mapped.arrow, [self.column(part, struct, number) for part in mapped.parts]
        cuts = [part for part in parts if part is not None]
        if len(cuts) < len(parts):
            return None
        if mapped.rule is FieldRule.ITEM:
            return cuts[0]

        def cut(filled: FilledBuffers) -> pa.Array | None:
            children = [part(filled) for part in cuts]
            if any(child is None for child in children):
                return None
            return pa.Array.from_buffers(want, filled.lengths[number], [None], children=children)

        return cut

    def _lists(self, mapped: Mapped, number: int) -> Cut | None:
        want, items = mapped.arrow, self._below.get((number, ITEMS))
        part = None if items is None else self._value(mapped.parts[0], items)
        if part is None:
            return None
        item, (offsets, _) = part, self._buffer(number, "offsets")

        def cut(filled: FilledBuffers) -> pa.Array | None:
            made, count = item(filled), filled.lengths[number]
            if made is None:
                return None
            buffers = [None, filled.memory[offsets].slice(0, 4 * count + 4)]
            return pa.Array.from_buffers(want, count, buffers, children=[made])

        return cut

    def _buffer(self, number: int, part: str) -> tuple[str, np.dtype[np.generic]]:
        """The table entry of a column's buffer, and its type."""
        return next((entry, one.dtype) for entry, one in self._layout.columns[number].buffers if one.part == part)
