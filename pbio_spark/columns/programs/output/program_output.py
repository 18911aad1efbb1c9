"""The output of an E-code program -> a record batch of the wanted schema.

The output is of a record type like any other, so the same mapping says which field fills which column, and by which
rule; here each rule becomes an array. A field that the program never writes is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.columns import Column
from ecode.columns.column import ITEMS, TARGET
from ecode.columns.layout import FilledBuffers, OutputBuffers
from ecode.types import INT64, Array, Basic, Default, Field, Kind, Record, Ref, Struct
from pbio_spark.columns.decode.assemble import bitmap, nested_lists
from pbio_spark.columns.defaults import default_of
from pbio_spark.columns.numbers import INT128, Conversion, field_to_conversion
from pbio_spark.columns.programs.output.cut import Cut, Cutter
from pbio_spark.columns.rows import columns_to_batch
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.mapping import ColumnSpec, FieldRule, Mapped, map_columns, refuse_type
from pbio_spark.formats.arrow.schema import BINARY

Mask: TypeAlias = npt.NDArray[np.bool_] | None
Rows: TypeAlias = Callable[[], npt.NDArray[np.int64]]
"""The rows that values belong to, which matter only where a value does not fit."""

_MOST_LISTS = 1 << 22
"""How many lists of a batch may belong to arrays without elements: no element bounds them."""

_MOST_CONVERSIONS = 4096
"""How many columns' conversions an output remembers."""

_NO_ROWS = np.empty(0, np.int64)

_CONVERTED = frozenset({"symbol", "binary", "bool", "decimal"})
"""Values of `Conversion.store` that are not numpy types."""

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where values lie.

    Attributes:
        made: the column of the structures whose fields they are, or whose fields are the extents of their arrays.
        struct: the type of these.
        present: which of the values are there, whatever lies in their place; None if all.
        rows: see `Rows`.
    """

    made: Column
    struct: Struct
    present: Mask
    rows: Rows


class ProgramOutput:
    """Turns a program's output columns into batches.

    Args:
        record: the type of the output.
        spec: the columns wanted.

    Attributes:
        unfilled: the paths of columns that the program never fills, known once there was a batch.

    Raises what `map_columns` raises.
    """

    def __init__(self, record: Record, spec: ColumnSpec) -> None:
        self.record, self.schema, self.choice = record, spec.schema, spec.presentation
        self.unfilled: set[str] = set()
        flattened = record.flattened()
        try:
            self._mapped = map_columns(flattened, spec)
        except PbioError as error:
            raise error.at(format=record.name) from None
        self._structs = {struct.name: struct for struct in flattened.structs}
        self._null_bits = {struct.name: struct.null_bits for struct in flattened.structs}
        self._bad: list[npt.NDArray[np.int64]] = []
        self._conversions: dict[int, tuple[Mapped, Basic, Conversion, np.dtype[Any] | None]] = {}
        self._cuts: tuple[OutputBuffers | None, list[Cut | None]] = None, []

    def __getstate__(self) -> dict[str, Any]:
        # Closures do not pickle; the next batch makes them again.
        return self.__dict__ | {"_cuts": (None, []), "_conversions": {}}

    def to_batch(self, column: Column) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The batch of an output, and the rows whose values do not fit their columns.

        Raises OverflowError if it is more than one batch should hold.
        """
        return self._batch([None] * len(self._mapped), lambda: column, column.length)

    def filled_to_batch(self, filled: FilledBuffers) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """As `to_batch`, from buffers of Arrow's. A column that needs no conversion is not copied."""
        layout, cuts = self._cuts
        if layout is not filled.layout:
            cuts = self._cuts_of(filled.layout)
        return self._batch([cut and cut(filled) for cut in cuts], filled.column, filled.lengths[0])

    def _batch(
        self, arrays: list[pa.Array | None], column: Callable[[], Column], rows: int
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The batch of an output with so many rows, of which some columns are made."""
        self._bad = []
        if any(array is None for array in arrays):
            struct = self._structs[self.record.name]
            place = _Place(column(), struct, None, lambda: np.arange(rows, dtype=np.int64))
            try:
                made = zip(self._mapped, arrays, strict=True)
                arrays = [self._column(one, place) if array is None else array for one, array in made]
            except PbioError as error:
                raise error.at(format=self.record.name) from None
        bad = np.unique(np.concatenate(self._bad)) if self._bad else _NO_ROWS
        return columns_to_batch(arrays, self.schema, rows), bad

    def _cuts_of(self, layout: OutputBuffers) -> list[Cut | None]:
        """How to cut each column; None where a column must be made."""

        def stored(basic: Basic, mapped: Mapped) -> np.dtype[Any] | None:
            return self._conversion(basic, mapped)[1]

        struct, cutter = self._structs[self.record.name], Cutter(layout, self._structs, stored)
        try:
            self._cuts = layout, [cutter.column(one, struct, 0) for one in self._mapped]
        except PbioError as error:
            raise error.at(format=self.record.name) from None
        return self._cuts[1]

    def _column(self, mapped: Mapped, place: _Place) -> pa.Array:
        """The array of a column whose field lies in the structure of a place."""
        made = None if mapped.field is None else place.made.children.get(mapped.field.name)
        if mapped.field is None or made is None:
            value = default_of(replace(mapped, rule=FieldRule.ABSENT))
            if value is None:
                self.unfilled.add(".".join(mapped.path))
            return _constant(value, mapped.arrow, place.made.length)
        if mapped.rule is FieldRule.COUNT:
            return self._count(mapped, made, place)
        present = _both(place.present, self._unmasked(mapped.field, place))
        return self._value(mapped, made, place if present is place.present else replace(place, present=present))

    def _count(self, mapped: Mapped, made: Column, place: _Place) -> pa.Array:
        """The lengths of an array of a structure, where that is what a column asks for."""
        if isinstance(mapped.dimension, int):
            return _constant(default_of(mapped), mapped.arrow, place.made.length)
        assert isinstance(mapped.type, Array)
        extents = _extents(mapped.type, made, place.made)
        return self._number(replace(mapped, type=INT64), extents[mapped.axis], place)

    def _unmasked(self, field: Field, place: _Place) -> Mask:
        """Where a bit of the structure does not say that a field is null; None if none can."""
        bits = self._null_bits[place.struct.name]
        made = None if bits is None else place.made.children.get(bits.name)
        if field.notes.null_bit is None or made is None or made.length == 0:
            return None
        byte, bit = divmod(field.notes.null_bit, 8)
        mask = np.asarray(made.children[ITEMS].data, np.uint8).reshape(made.length, -1)
        unmasked: npt.NDArray[np.bool_] = (mask[:, byte] >> bit & 1) == 0
        return unmasked

    def _value(self, mapped: Mapped, made: Column, place: _Place) -> pa.Array:
        """The array of a field's value or of a part of it."""
        match mapped.rule, mapped.type:
            case FieldRule.STRING, _:
                there = _both(place.present, None if made.present is None else made.present.view(np.bool_))
                buffers = [bitmap(there), pa.py_buffer(made.offsets), pa.py_buffer(made.data)]
                return self._as_text(pa.Array.from_buffers(pa.binary(), made.length, buffers), mapped.arrow, place.rows)
            case ((FieldRule.NUMBER | FieldRule.SYMBOL), _):
                return self._number(mapped, made.data, place)
            case ((FieldRule.ITEM | FieldRule.STRUCT), Ref(name)):
                below = _Place(made, self._structs[name], place.present, place.rows)
                children = [self._column(part, below) for part in mapped.parts]
                if mapped.rule is FieldRule.ITEM:
                    return children[0]
                return pa.Array.from_buffers(mapped.arrow, made.length, [bitmap(place.present)], children=children)
            case FieldRule.POINTER, _:
                there = _both(place.present, None if made.present is None else made.present.view(np.bool_))
                return self._value(mapped.parts[0], made.children[TARGET], replace(place, present=there))
            case _, Array() as array:
                return self._array(mapped, array, made, place)
        raise AssertionError(mapped.rule)

    def _as_text(self, array: pa.Array, want: pa.DataType, rows: Rows) -> pa.Array:
        """Binary values as the wanted type; those that are not in the encoding make bad rows."""
        if pa.types.is_binary(want):
            return array
        if self.choice.encoding == "ISO-8859-1":
            return pa.array([v and v.decode("latin-1") for v in array.to_pylist()], want)
        buffers = array.buffers()
        # Bytes below 128 are UTF-8 wherever one text ends and the next begins.
        if buffers[2] is None or np.frombuffer(buffers[2], np.int8).min(initial=0) >= 0:
            return pa.Array.from_buffers(want, len(array), buffers)
        try:
            return array.cast(want)
        except pa.ArrowInvalid:
            values = [_utf8(value) for value in array.to_pylist()]
            self._bad.append(rows()[[isinstance(value, UnicodeDecodeError) for value in values]])
            return pa.array([None if isinstance(value, UnicodeDecodeError) else value for value in values], want)

    def _number(self, mapped: Mapped, data: Any, place: _Place) -> pa.Array:
        assert isinstance(mapped.type, Basic)
        basic, want = mapped.type, mapped.arrow
        conversion, stored = self._conversion(basic, mapped)
        if basic.kind is not Kind.INTEGER and basic.kind is not Kind.FLOAT:
            data = data.view(_UNSIGNED[basic.size])  # in E-code characters and enumerations have a sign
        validity, count = bitmap(place.present), len(data)
        if stored is not None:
            return pa.Array.from_buffers(want, count, [validity, pa.py_buffer(np.ascontiguousarray(data, stored))])
        if conversion.store == "symbol":
            return self._symbols(mapped, data, place)
        if pa.types.is_boolean(want):
            packed = np.packbits(data != 0, bitorder="little")
            return pa.Array.from_buffers(want, count, [validity, pa.py_buffer(packed)])
        if conversion.store == "binary":
            offsets = np.arange(0, 8 * count + 1, 8, dtype=np.int32)
            buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data.astype(">u8"))]
            return pa.Array.from_buffers(want, count, buffers)
        return self._converted(conversion, data != 0 if conversion.store == "bool" else data, place)

    def _conversion(self, basic: Basic, mapped: Mapped) -> tuple[Conversion, np.dtype[Any] | None]:
        """How numbers become the values of a column, and their numpy type there if they are only stored."""
        # By identity, since to hash a field and its notes takes longer than to make its column.
        known = self._conversions.get(id(mapped))
        if known is not None and known[0] is mapped and known[1] is basic:
            return known[2], known[3]
        conversion = field_to_conversion(basic, mapped.notes, mapped.arrow, self.choice.unsigned_long_as)
        if isinstance(conversion, str):
            refuse_type(mapped.where, conversion)
        is_stored = not (conversion.is_checked or conversion.store in _CONVERTED or pa.types.is_boolean(mapped.arrow))
        stored = np.dtype(conversion.store) if is_stored else None
        if len(self._conversions) < _MOST_CONVERSIONS:
            self._conversions[id(mapped)] = mapped, basic, conversion, stored
        return conversion, stored

    def _converted(self, conversion: Conversion, numbers: Any, place: _Place) -> pa.Array:
        array, bad = conversion.to_array(numbers, bitmap(place.present))
        if bad is not None:
            self._bad.append(place.rows()[bad if place.present is None else bad & place.present])
        return array

    def _symbols(self, mapped: Mapped, data: Any, place: _Place) -> pa.Array:
        names = {value: symbol for symbol, value in reversed(mapped.notes.symbols)}
        values = [names.get(int(value)) for value in data]
        unknown = np.array([value is None for value in values], np.bool_)
        self._bad.append(place.rows()[unknown if place.present is None else unknown & place.present])
        return pa.array(values, mapped.arrow, mask=None if place.present is None else ~place.present)

    def _array(self, mapped: Mapped, array: Array, made: Column, place: _Place) -> pa.Array:
        if made.offsets is not None and len(array.dims) == 1 and mapped.rule in (FieldRule.LIST, FieldRule.MAP):
            return self._list(mapped, array, made, place)
        extents, items = _extents(array, made, place.made), made.children[ITEMS]
        if _empty_lists(extents) > _MOST_LISTS:
            raise OverflowError("arrays without elements make more lists than a batch should hold")
        if mapped.rule in (FieldRule.CHARS, FieldRule.DECIMAL):
            return self._chars(mapped, items, extents[0], place)
        outer = extents[:-1] if mapped.rule is FieldRule.ROWS else extents
        sizes = outer[0] if len(outer) == 1 else np.prod(outer, axis=0)
        marks = self._unmarked(mapped, items, place)

        def below() -> npt.NDArray[np.int64]:
            return np.repeat(place.rows(), sizes)

        if mapped.rule is FieldRule.ROWS:
            lengths = np.repeat(extents[-1], sizes)
            part = self._chars(mapped.parts[0], items, lengths, _Place(items, place.struct, None, below))
        else:
            part = self._items(mapped, array, items, _Place(items, place.struct, marks, below))
        return nested_lists(mapped.arrow, outer, place.present, part)

    def _list(self, mapped: Mapped, array: Array, made: Column, place: _Place) -> pa.Array:
        """An array of one dimension whose offsets the program wrote."""
        offsets, items = np.asarray(made.offsets, np.int32), made.children[ITEMS]

        def below() -> npt.NDArray[np.int64]:
            return np.repeat(place.rows(), np.diff(offsets))

        marks = self._unmarked(mapped, items, place)
        part = self._items(mapped, array, items, _Place(items, place.struct, marks, below))
        buffers = [bitmap(place.present), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(mapped.arrow, made.length, buffers, children=[part])

    def _items(self, mapped: Mapped, array: Array, items: Column, below: _Place) -> pa.Array:
        """The elements of all arrays of a list or a map."""
        if mapped.rule is not FieldRule.MAP:
            return self._value(mapped.parts[0], items, below)
        assert isinstance(array.element, Ref)
        inner = replace(below, struct=self._structs[array.element.name], present=None)
        children = [self._column(one, inner) for one in mapped.parts]
        wanted = pa.struct((mapped.arrow.key_field, mapped.arrow.item_field))
        return pa.Array.from_buffers(wanted, items.length, [None], children=children)

    def _unmarked(self, mapped: Mapped, items: Column, place: _Place) -> Mask:
        """Where the array beside one does not say that an element is null; None if none can be."""
        name = None if mapped.field is None else mapped.field.notes.null_items
        made = None if name is None else place.made.children.get(name)
        marks = None if made is None else np.asarray(made.children[ITEMS].data, np.uint8)
        return None if marks is None or len(marks) != items.length else marks == 0

    def _chars(self, mapped: Mapped, items: Column, lengths: npt.NDArray[np.int64], place: _Place) -> pa.Array:
        """Runs of characters of such lengths, one after the other."""
        assert items.data is not None
        want = mapped.arrow
        if mapped.rule is FieldRule.DECIMAL:
            halves = np.frombuffer(items.data, np.int64, 2 * len(lengths)).reshape(-1, 2)
            return self._converted(self._conversion(INT128, mapped)[0], halves, place)
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        buffers = [bitmap(place.present), pa.py_buffer(offsets), pa.py_buffer(items.data)]
        whole = pa.Array.from_buffers(pa.binary(), len(lengths), buffers)
        if mapped.notes.logical != BINARY and pa.types.is_string(want):
            whole = pa.array([v if v is None else v.partition(b"\0")[0] for v in whole.to_pylist()], pa.binary())
        return self._as_text(whole, want, place.rows)


def _both(one: Mask, other: Mask) -> Mask:
    return other if one is None else one if other is None else one & other


def _constant(value: Default | Decimal, type_: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)


def _extents(array: Array, made: Column, owner: Column) -> list[npt.NDArray[np.int64]]:
    """The extents of every array, dimension by dimension; `owner` is the column of its structure."""
    if made.offsets is not None and len(array.dims) == 1:
        return [np.diff(made.offsets).astype(np.int64)]
    extents = []
    for dim in array.dims:
        size = owner.children.get(dim) if isinstance(dim, str) else None
        data = None if size is None else size.data
        known = dim if isinstance(dim, int) else 0
        extents.append(np.full(made.length, known, np.int64) if data is None else data.astype(np.int64))
    return extents


def _empty_lists(extents: list[npt.NDArray[np.int64]]) -> float:
    """How many lists arrays without elements consist of. Sizes may be of 64 bits without a sign."""
    if len(extents) == 1:
        return 0.0
    lists, whole = np.zeros(len(extents[0])), np.ones(len(extents[0]))
    for extent in extents:
        whole = whole * np.where(extent < 0, 2.0**63, extent)
        lists = np.where(whole > 0, whole, lists)
    return float(lists[whole == 0].sum())


def _utf8(value: bytes | None) -> str | UnicodeDecodeError | None:
    try:
        return value if value is None else value.decode()
    except UnicodeDecodeError as error:
        return error
