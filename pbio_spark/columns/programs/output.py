"""Columns that an E-code program made -> a record batch of the wanted schema.

The program's output is of a record type like any other: what its fields become as columns follows the same rules as for
records that are decoded (`planner`, `numbers`). A field that the program never writes is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.columns import Column
from ecode.columns.column import ITEMS, TARGET
from ecode.types import (
    CHAR,
    INT64,
    NO_NOTES,
    Array,
    Basic,
    Default,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Type,
    flat,
)
from pbio_spark.columns.decode.assemble import bitmap, nested_lists
from pbio_spark.columns.decode.planner import NOTHING, absent, find_field, path_to_text
from pbio_spark.columns.numbers import INT128, Conversion, field_to_conversion
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import BINARY, DEFAULT, ITEM, Presentation, decimal_type

Mask: TypeAlias = npt.NDArray[np.bool_] | None
Rows: TypeAlias = Callable[[], npt.NDArray[np.int64]]
"""The rows that values belong to, which matter only where a value does not fit."""
Path: TypeAlias = tuple[str, ...]

_MOST_LISTS = 1 << 22
"""How many lists of a batch may belong to arrays without elements: no element bounds them."""

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class MadeColumns:
    """Turns a program's output columns into batches.

    Args:
        record: the type of the output.
        schema: the columns wanted.
        presentation, aliases, defaults, counts: see `format_to_plan`.

    Attributes:
        unfilled: the paths of columns that the program never fills, known once there was a batch.
    """

    def __init__(
        self,
        record: Record,
        schema: pa.Schema,
        presentation: Presentation = DEFAULT,
        aliases: Mapping[str, str] = NOTHING,
        defaults: Mapping[str, Default] = NOTHING,
        counts: Mapping[str, tuple[str, int]] = NOTHING,
    ) -> None:
        self.record, self.schema, self.choice = record, schema, presentation
        self.aliases, self.defaults, self.counts = aliases, defaults, counts
        self.unfilled: set[str] = set()
        self._structs = {struct.name: struct for struct in self.record.structs}
        self._bad: list[npt.NDArray[np.int64]] = []
        self._found: dict[Path, Field | None] = {}

    def to_batch(self, column: Column) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The batch of an output, and the rows whose values do not fit their columns.

        Raises OverflowError if it is more than one batch should hold.
        """
        self._bad = []
        arrays = self._fields(
            self.record.name, list(self.schema), column, None, lambda: np.arange(column.length, dtype=np.int64), ()
        )
        whole = pa.Array.from_buffers(pa.struct(list(self.schema)), column.length, [None], children=arrays)
        bad = np.unique(np.concatenate(self._bad)) if self._bad else np.empty(0, np.int64)
        return pa.RecordBatch.from_struct_array(whole), bad

    def _fields(
        self, struct: str, wanted: list[pa.Field], column: Column, present: Mask, rows: Rows, path: Path
    ) -> list[pa.Array]:
        arrays = []
        for want in wanted:
            here = (*path, want.name)
            if here not in self._found:
                self._found[here] = find_field(self._structs[struct], want.name, self.aliases, here)
            field = self._found[here]
            made = None if field is None else column.children.get(field.name)
            count = self._count(struct, here, column) if field is None else None
            if count is not None:
                arrays.append(self._number(INT64, NO_NOTES, want.type, count, present, rows, here))
            elif field is None or made is None:
                value = absent(want, self.defaults, here).value
                if value is None:
                    self.unfilled.add(".".join(here))
                arrays.append(_constant(value, want.type, column.length))
            else:
                arrays.append(self._value(field.type, field.notes, want.type, made, column, present, rows, here))
        return arrays

    def _count(self, struct: str, path: Path, column: Column) -> npt.NDArray[np.int64] | None:
        """The lengths of an array of a structure, where that is what a column asks for."""
        name, axis = self.counts.get(".".join(path), ("", 0))
        array = find_field(self._structs[struct], name, self.aliases, (*path[:-1], name)) if name else None
        made = None if array is None else column.children.get(array.name)
        if array is None or made is None or not isinstance(whole := flat(array.type), Array):
            return None
        inner = array.type
        while isinstance(inner, Pointer):
            inner = inner.target
        assert isinstance(inner, Array)
        extents = _extents(inner, whole, made, column)
        return extents[axis] if axis < len(extents) else None

    def _value(
        self,
        type_: Type,
        notes: Notes,
        want: pa.DataType,
        made: Column,
        owner: Column,
        present: Mask,
        rows: Rows,
        path: Path,
    ) -> pa.Array:
        """The array of a field's value or of a part of it; `owner` is the column of its structure."""
        match type_:
            case Basic(Kind.STRING):
                return self._text(want, made, rows, path)
            case Basic():
                return self._number(type_, notes, want, made.data, present, rows, path)
            case Ref(name):
                visible = [f for f in self._structs[name].fields if not f.notes.hidden]
                if notes.logical == ITEM and len(visible) == 1:
                    (item,) = visible
                    inner = made.children[item.name]
                    return self._value(item.type, item.notes, want, inner, made, present, rows, path)
                if not pa.types.is_struct(want):
                    self._refuse(path, f"a structure cannot become {want}")
                fields = [want.field(i) for i in range(want.num_fields)]
                children = self._fields(name, fields, made, present, rows, path)
                return pa.Array.from_buffers(want, made.length, [bitmap(present)], children=children)
            case Pointer(target) if isinstance(flat(type_), Array):
                return self._value(target, notes, want, made, owner, present, rows, path)
            case Pointer(target):
                there = np.ones(made.length, np.bool_) if made.present is None else made.present.astype(np.bool_)
                there = there if present is None else there & present
                return self._value(target, notes, want, made.children[TARGET], owner, there, rows, path)
            case Array():
                whole = flat(type_)
                assert isinstance(whole, Array)
                extents = _extents(type_, whole, made, owner)
                return self._array(whole, notes, want, made, extents, present, rows, path)

    def _text(self, want: pa.DataType, made: Column, rows: Rows, path: Path) -> pa.Array:
        if not (pa.types.is_string(want) or pa.types.is_binary(want)):
            self._refuse(path, f"a string cannot become {want}")
        there = None if made.present is None else made.present.astype(np.bool_)
        buffers = [bitmap(there), pa.py_buffer(made.offsets), pa.py_buffer(made.data)]
        return self._as_text(pa.Array.from_buffers(pa.binary(), made.length, buffers), want, rows)

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
            texts = [_utf8(value) for value in array.to_pylist()]
            self._bad.append(rows()[[isinstance(text, UnicodeDecodeError) for text in texts]])
            return pa.array([None if isinstance(text, UnicodeDecodeError) else text for text in texts], want)

    def _number(
        self, basic: Basic, notes: Notes, want: pa.DataType, data: Any, present: Mask, rows: Rows, path: Path
    ) -> pa.Array:
        conversion = self._conversion(basic, notes, want, path)
        if basic.kind is not Kind.INTEGER and basic.kind is not Kind.FLOAT:
            data = data.view(_UNSIGNED[basic.size])  # in E-code characters and enumerations have a sign
        validity, count = bitmap(present), len(data)
        if conversion.store == "symbol":
            return self._symbols(notes, data, want, present, rows)
        if pa.types.is_boolean(want):
            return pa.Array.from_buffers(
                want, count, [validity, pa.py_buffer(np.packbits(data != 0, bitorder="little"))]
            )
        if conversion.store == "binary":
            offsets = np.arange(0, 8 * count + 1, 8, dtype=np.int32)
            buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data.astype(">u8"))]
            return pa.Array.from_buffers(want, count, buffers)
        if not (conversion.is_checked or conversion.store in ("bool", "decimal")):
            return pa.Array.from_buffers(
                want, count, [validity, pa.py_buffer(np.ascontiguousarray(data, conversion.store))]
            )
        return self._converted(conversion, data != 0 if conversion.store == "bool" else data, present, rows)

    def _conversion(self, basic: Basic, notes: Notes, want: pa.DataType, path: Path) -> Conversion:
        conversion = field_to_conversion(basic, notes, want, self.choice.unsigned_long_as)
        if isinstance(conversion, str):
            self._refuse(path, conversion)
        return conversion

    def _converted(self, conversion: Conversion, numbers: Any, present: Mask, rows: Rows) -> pa.Array:
        array, bad = conversion.to_array(numbers, bitmap(present))
        if bad is not None:
            self._bad.append(rows()[bad if present is None else bad & present])
        return array

    def _symbols(self, notes: Notes, data: Any, want: pa.DataType, present: Mask, rows: Rows) -> pa.Array:
        names = {value: symbol for symbol, value in reversed(notes.symbols)}
        values = [names.get(int(value)) for value in data]
        unknown = np.array([value is None for value in values], np.bool_)
        self._bad.append(rows()[unknown if present is None else unknown & present])
        return pa.array(values, want, mask=None if present is None else ~present)

    def _array(
        self,
        array: Array,
        notes: Notes,
        want: pa.DataType,
        made: Column,
        extents: list[npt.NDArray[np.int64]],
        present: Mask,
        rows: Rows,
        path: Path,
    ) -> pa.Array:
        items = made.children[ITEMS]
        if _empty_lists(extents) > _MOST_LISTS:
            raise OverflowError("arrays without elements make more lists than a batch should hold")
        if array.element == CHAR and not pa.types.is_list(want):
            return self._chars(array, notes, want, items, extents, present, rows, path)
        sizes = np.prod(extents, axis=0)

        def below() -> npt.NDArray[np.int64]:
            return np.repeat(rows(), sizes)

        if pa.types.is_map(want) and isinstance(array.element, Ref) and len(extents) == 1:
            return nested_lists(want, extents, present, self._entries(array.element.name, want, items, below, path))
        is_text = array.element == CHAR and _depth(want) == len(extents) - 1
        inner = want
        for _ in extents[: len(extents) - is_text]:
            if not pa.types.is_list(inner):
                self._refuse(path, f"an array of {len(extents)} dimensions cannot become {want}")
            inner = inner.value_type
        if is_text:
            *outer, last = extents
            texts = np.prod(outer, axis=0)
            chars, lengths = Array(CHAR, array.dims[-1:]), [np.repeat(last, texts)]
            part = self._chars(chars, notes, inner, items, lengths, None, lambda: np.repeat(rows(), texts), path)
            return nested_lists(want, outer, present, part)
        return nested_lists(
            want, extents, present, self._value(array.element, notes, inner, items, items, None, below, path)
        )

    def _entries(self, struct: str, want: pa.MapType, items: Column, rows: Rows, path: Path) -> pa.Array:
        """The entries of maps: structures whose visible fields are key and value."""
        fields = [f for f in self._structs[struct].fields if not f.notes.hidden]
        wanted = (want.key_field, want.item_field)
        if len(fields) != 2:
            self._refuse(path, f"a structure of {len(fields)} fields cannot be an entry of {want}")
        children = [
            self._value(f.type, f.notes, w.type, items.children[f.name], items, None, rows, path)
            for f, w in zip(fields, wanted, strict=True)
        ]
        return pa.Array.from_buffers(pa.struct(wanted), items.length, [None], children=children)

    def _chars(
        self,
        array: Array,
        notes: Notes,
        want: pa.DataType,
        items: Column,
        extents: list[Any],
        present: Mask,
        rows: Rows,
        path: Path,
    ) -> pa.Array:
        if len(extents) != 1:
            self._refuse(path, f"characters in {len(extents)} dimensions cannot become {want}")
        assert items.data is not None
        decimal = decimal_type(notes.logical)
        if decimal is not None and array.dims == (16,):
            halves = np.frombuffer(items.data, np.int64, 2 * len(extents[0])).reshape(-1, 2)
            return self._converted(self._conversion(INT128, notes, want, path), halves, present, rows)
        if not (pa.types.is_string(want) or pa.types.is_binary(want)):
            self._refuse(path, f"characters cannot become {want}")
        offsets = np.zeros(len(extents[0]) + 1, np.int32)
        np.cumsum(extents[0], out=offsets[1:])
        buffers = [bitmap(present), pa.py_buffer(offsets), pa.py_buffer(items.data)]
        whole = pa.Array.from_buffers(pa.binary(), len(extents[0]), buffers)
        if notes.logical != BINARY and pa.types.is_string(want):
            whole = pa.array([v if v is None else v.partition(b"\0")[0] for v in whole.to_pylist()], pa.binary())
        return self._as_text(whole, want, rows)

    def _refuse(self, path: Path, reason: str) -> NoReturn:
        raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, format=self.record.name, field=path_to_text(path))


def _constant(value: Default | Decimal, type_: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)


def _extents(array: Array, whole: Array, made: Column, owner: Column) -> list[npt.NDArray[np.int64]]:
    """The extents of every array, dimension by dimension.

    Args:
        array, whole: the type, and the same with one array where arrays lie in arrays.
    """
    if made.offsets is not None and len(whole.dims) == 1:
        return [np.diff(made.offsets).astype(np.int64)]
    extents: list[npt.NDArray[np.int64]] = []
    inner: Type = array
    while isinstance(inner, Array):
        own = []
        for dim in inner.dims:
            size = owner.children.get(dim) if isinstance(dim, str) else None
            data = None if size is None else size.data
            known = int(dim) if isinstance(dim, int) else 0
            own.append(np.full(made.length, known, np.int64) if data is None else data.astype(np.int64))
        extents += own
        inner = inner.element
        while isinstance(inner, Pointer) and isinstance(flat(inner), Array):
            inner = inner.target
    return extents


def _empty_lists(extents: list[npt.NDArray[np.int64]]) -> float:
    """How many lists arrays without elements consist of. Sizes may be of 64 bits without a sign."""
    lists, whole = np.zeros(len(extents[0])), np.ones(len(extents[0]))
    for extent in extents:
        whole = whole * np.where(extent < 0, 2.0**63, extent)
        lists = np.where(whole > 0, whole, lists)
    return float(lists[whole == 0].sum())


def _depth(type_: pa.DataType) -> int:
    return 1 + _depth(type_.value_type) if pa.types.is_list(type_) else 0


def _utf8(value: bytes | None) -> str | UnicodeDecodeError | None:
    try:
        return value if value is None else value.decode()
    except UnicodeDecodeError as error:
        return error
