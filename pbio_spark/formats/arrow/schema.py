"""Record types as columns: the table of DESIGN section 5, and the rules around it.

Here a record type makes its own schema; `mapping` says which of its fields fill the columns of any schema. The other
direction, Arrow to record types, is `arrow_to_record`; both read `TABLE`.

    >>> from ecode.types import record
    >>> mark = record("mark", [Field("n", INT32), Field("key", UINT64), Field("tag", Array(CHAR, (8,)))])
    >>> print(record_to_arrow(mark))
    n: int32
    key: decimal128(20, 0)
    tag: string

A value that is beyond its Arrow type (an unsigned long of 2**63 under `unsigned_long_as="long"`, an enumeration without
a symbol where some have one) makes a bad record, never another value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from ecode.types import CHAR, INT32, INT64, STRING, UINT64, Array, Basic, Field, Kind, Notes, Pointer, Record, Ref, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.type_string import shorten

MAX_COLUMNS: Final = 100_000
"""The most columns, nested ones included, that a record type may expand to: a small body can describe billions."""

MAX_NESTING: Final = 60
"""The deepest nesting of columns: Arrow's own formats end at 64."""

MAP, BINARY, ITEM = "map", "binary", "item"


class How(StrEnum):
    """The conversion of a field's bytes to a column."""

    NUMBER = "number"
    """The same number, date or time, in an Arrow type that may be wider."""
    BOOLEAN = "boolean"
    """True unless all bytes are zero."""
    DECIMAL = "decimal"
    """An unscaled number: an integer, or 16 chars that are a little-endian two's complement."""
    SYMBOL = "symbol"
    """The name of an enumeration's value, from the notes."""
    TEXT = "text"
    """Characters up to the first NUL: those that a pointer leads to, or a char array's, which need not hold a NUL."""
    BYTES = "bytes"
    """All bytes of a char array; or an unsigned long, most significant byte first."""
    LIST = "list"
    """As many list levels as the array has dimensions (one less if the last one went into a text or decimal)."""
    MAP = "map"
    """A list of structures whose two visible fields are key and value."""
    ITEM = "item"
    """A structure in place that represents its only visible field: the element of a ragged array."""
    STRUCT = "struct"
    """A structure in place; its children are its visible fields."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """The choices of the user; the names are those of the options in snake case (DESIGN decision 13).

    `recursive_depth` is Spark Avro's `recursiveFieldMaxDepth`: below 1 a recursive structure is an error, 1 drops
    the fields that recur, 2 lets them recur once, up to 15.
    """

    char_arrays_as: Literal["string", "binary", "array"] = "string"
    unsigned_long_as: Literal["decimal", "long", "binary"] = "decimal"
    encoding: Literal["UTF-8", "ISO-8859-1", "binary"] = "UTF-8"
    recursive_depth: int = -1


DEFAULT: Final = Presentation()


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One column, or a nested part of one.

    Attributes:
        name: in the table; a field's name whose bytes are not UTF-8 is shown with `\\xff` escapes.
        field: the field that the column presents or is a part of; its notes hold the symbols.
        type: of the field or of the part, with its pointers; the column is null if one of them is. The part of an
            array of strings, `char[3][n]`, is `char[n]`, which is in place although n is a name.
        arrow: the Arrow type.
        nullable: whether the Arrow field says so (DESIGN decision 11).
        how: how the bytes become values.
        children: of a list its element, of a map key and value, of an item or a structure its visible fields.
    """

    name: str
    field: Field
    type: Type
    arrow: pa.DataType
    nullable: bool
    how: How
    children: tuple[SchemaColumn, ...] = ()

    def to_arrow(self) -> pa.Field:
        return pa.field(self.name, self.arrow, self.nullable)


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One line of the table. `written` marks the type that our writer chooses for the Arrow type."""

    type: Basic
    logical: str | None
    arrow: pa.DataType
    how: How
    written: bool = False


def _rows(
    kind: Kind, how: How, *arrow_by_size: tuple[int, pa.DataType], written: tuple[int, ...] = ()
) -> list[TypeRow]:
    return [TypeRow(Basic(kind, size), None, arrow, how, size in written) for size, arrow in arrow_by_size]


_SIGNED = ((1, pa.int8()), (2, pa.int16()), (4, pa.int32()), (8, pa.int64()))
_WIDER = ((1, pa.int16()), (2, pa.int32()), (4, pa.int64()), (8, pa.decimal128(20, 0)))
TABLE: Final[tuple[TypeRow, ...]] = (
    *_rows(Kind.INTEGER, How.NUMBER, *_SIGNED, written=(1, 2, 4, 8)),
    *_rows(Kind.UNSIGNED, How.NUMBER, *_WIDER[:3]),
    *_rows(Kind.UNSIGNED, How.DECIMAL, *_WIDER[3:]),
    *_rows(Kind.FLOAT, How.NUMBER, (4, pa.float32()), (8, pa.float64()), written=(4, 8)),
    *_rows(Kind.CHAR, How.NUMBER, (1, pa.int16())),
    *_rows(Kind.BOOLEAN, How.BOOLEAN, *((size, pa.bool_()) for size in (1, 2, 4, 8)), written=(1,)),
    *_rows(Kind.ENUMERATION, How.NUMBER, *_WIDER[:3]),
    *_rows(Kind.ENUMERATION, How.DECIMAL, *_WIDER[3:]),
    *_rows(Kind.STRING, How.TEXT, (0, pa.string()), written=(0,)),
    TypeRow(INT64, "timestamp", pa.timestamp("us", tz="UTC"), How.NUMBER, written=True),
    TypeRow(INT64, "timestamp_ntz", pa.timestamp("us"), How.NUMBER, written=True),
    TypeRow(INT32, "date", pa.date32(), How.NUMBER, written=True),
)
"""Basic types, both ways. Decimals, binary, arrays, maps and structures have parameters or parts: see the code."""

_READ: Final = {(row.type, row.logical): row for row in TABLE}
_LOGICALS: Final = {row.logical for row in TABLE} - {None} | {MAP, BINARY, ITEM}
_DECIMAL: Final = re.compile(r"decimal\(([1-9]\d?),(\d{1,2})\)")


def decimal_type(logical: str | None) -> pa.DataType | None:
    """The Arrow type of a note such as `decimal(10,2)`, or None.

    >>> decimal_type("decimal(10,2)")
    Decimal128Type(decimal128(10, 2))
    """
    match = _DECIMAL.fullmatch(logical or "")
    if match is None or not int(match[2]) <= int(match[1]) <= 38:
        return None
    return pa.decimal128(int(match[1]), int(match[2]))


def is_decimal_in_place(array: Array, notes: Notes) -> bool:
    """Whether the last dimension of an array in place is the 16 bytes of a decimal."""
    is_decimal = decimal_type(notes.logical) is not None
    return is_decimal and array.element == CHAR and array.dims[-1] == 16 and not array.is_dynamic


def record_to_columns(record: Record, presentation: Presentation = DEFAULT) -> tuple[SchemaColumn, ...]:
    """The columns of a record type, in the order of its fields, hidden ones left out.

    Raises PBIO_UNSUPPORTED_TYPE, PBIO_RECURSIVE_FORMAT, PBIO_SCHEMA_TOO_LARGE and PBIO_BAD_OPT_INFO, with the path of
    the field.
    """
    return _Presenter(record, presentation).visible(record.name, "$", 0)


def record_to_arrow(record: Record, presentation: Presentation = DEFAULT) -> pa.Schema:
    """The Arrow schema of a record type: exactly what Spark's `to_arrow_schema(schema, timezone="UTC")` expects."""
    return pa.schema([column.to_arrow() for column in record_to_columns(record, presentation)])


_Shape: TypeAlias = tuple[pa.DataType, How, tuple[SchemaColumn, ...]]


class _Presenter:
    """One walk over a record type: the structures around the current field, and the number of columns so far.

    A column that recursion drops is None, and so is one without any other part.
    """

    def __init__(self, record: Record, choice: Presentation) -> None:
        self._structs = {struct.name: struct for struct in record.structs}
        self._choice = choice
        self._text = pa.binary() if choice.encoding == "binary" else pa.string()
        self._inside = {record.name: 1}
        self._made = 0

    def visible(self, struct: str, path: str, nesting: int) -> tuple[SchemaColumn, ...]:
        columns = (self.field(f, path, nesting) for f in self._structs[struct].fields)
        return tuple(column for column in columns if column is not None)

    def field(self, field: Field, path: str, nesting: int) -> SchemaColumn | None:
        if field.notes.hidden:
            return None
        name = shown(field.name)
        return self._column(name, field, field.type, f"{path}.{name}", nesting + 1)

    def _column(self, name: str, field: Field, type_: Type, path: str, nesting: int) -> SchemaColumn | None:
        self._made += 1
        if self._made > MAX_COLUMNS or nesting > MAX_NESTING:
            raise PbioError(
                "PBIO_SCHEMA_TOO_LARGE",
                f"the record type expands to more than {MAX_COLUMNS} columns or {MAX_NESTING} levels of them",
                field=path[:200],
                hint="name the fields that you want with .schema()",
            )
        target = type_
        while isinstance(target, Pointer):
            target = target.target
        shape: _Shape | None
        match target:
            case Basic():
                shape = self._basic(field, target, path)
            case Ref(struct):
                shape = self._struct(field, struct, path, nesting)
            case Array():
                shape = self._array(field, target, path, nesting)
        return None if shape is None else SchemaColumn(name, field, type_, shape[0], True, *shape[1:])

    def _basic(self, field: Field, type_: Basic, path: str) -> _Shape:
        logical = field.notes.logical if is_known(field.notes.logical) else None
        if field.notes.symbols:
            return pa.string(), How.SYMBOL, ()
        if type_ == STRING and logical is None:
            return self._text, How.TEXT, ()
        if type_ == UINT64 and logical is None and self._choice.unsigned_long_as == "long":
            return pa.int64(), How.NUMBER, ()
        if type_ == UINT64 and logical is None and self._choice.unsigned_long_as == "binary":
            return pa.binary(), How.BYTES, ()
        decimal = decimal_type(logical)
        if decimal is not None and type_ == INT64 and decimal.precision <= 18:
            return decimal, How.DECIMAL, ()
        row = _READ.get((type_, logical))
        if row is not None:
            return row.arrow, row.how, ()
        if type_.size == 16:
            raise PbioError(
                "PBIO_UNSUPPORTED_TYPE",
                "a long double of 16 bytes means different numbers on different machines",
                field=path,
                hint="leave the field out with .schema()",
            )
        raise _misfit(field, type_, path)

    def _chars(self, field: Field, extent: int | str, path: str) -> _Shape | None:
        """A run of chars as one value, or None if it is to be an array."""
        logical = field.notes.logical
        decimal = decimal_type(logical)
        if decimal is not None and extent == 16:
            return decimal, How.DECIMAL, ()
        if logical == BINARY:
            return pa.binary(), How.BYTES, ()
        if is_known(logical):
            raise _misfit(field, Array(CHAR, (extent,)), path)
        match self._choice.char_arrays_as:
            case "string":
                return self._text, How.BYTES if self._choice.encoding == "binary" else How.TEXT, ()
            case "binary":
                return pa.binary(), How.BYTES, ()
            case "array":
                return None

    def _array(self, field: Field, array: Array, path: str, nesting: int) -> _Shape | None:
        element, dims = array.element, array.dims
        if element == CHAR:
            whole = self._chars(field, dims[-1], path)
            if whole is not None and len(dims) == 1:
                return whole
            if whole is not None:
                element, dims = Array(CHAR, dims[-1:]), dims[:-1]
        if field.notes.logical == MAP:
            return self._map(field, array, path, nesting)
        item = self._column("element", field, element, path + "[]", nesting + len(dims))
        if item is None:
            return None
        # Null only where the bytes can say so (DESIGN decision 11).
        item = replace(item, nullable=field.notes.null_items is not None or _has_null(item))
        arrow = pa.list_(item.to_arrow())
        for _ in dims[1:]:
            arrow = pa.list_(pa.field("element", arrow, nullable=False))
        return arrow, How.LIST, (item,)

    def _struct(self, field: Field, struct: str, path: str, nesting: int) -> _Shape | None:
        logical = field.notes.logical
        columns = self._enter(struct, path, nesting)
        if columns is None:
            return None
        if logical == ITEM and len(columns) == 1:
            return columns[0].arrow, How.ITEM, columns
        if is_known(logical):
            raise _misfit(field, Ref(struct), path)
        return pa.struct([column.to_arrow() for column in columns]), How.STRUCT, columns

    def _map(self, field: Field, array: Array, path: str, nesting: int) -> _Shape | None:
        entry = array.element
        columns = self._enter(entry.name, path + "[]", nesting) if isinstance(entry, Ref) else ()
        if columns is None:
            return None
        if len(columns) != 2 or len(array.dims) != 1:
            raise _misfit(field, array, path)
        key, value = replace(columns[0], nullable=False), replace(columns[1], nullable=_can_be_null(columns[1]))
        return pa.map_(key.to_arrow(), value.to_arrow()), How.MAP, (key, value)

    def _enter(self, struct: str, path: str, nesting: int) -> tuple[SchemaColumn, ...] | None:
        """The visible fields of a structure, unless the walk has been inside it too often already."""
        depth, limit = self._inside.get(struct, 0), self._choice.recursive_depth
        if depth and limit < 1:
            raise PbioError(
                "PBIO_RECURSIVE_FORMAT",
                f"structure {shorten(struct)} contains itself",
                field=path,
                hint="option recursiveFieldMaxDepth: 1 drops the fields that recur, 2 lets them recur once, up to 15",
            )
        if depth and depth >= limit:
            return None
        self._inside[struct] = depth + 1
        columns = self.visible(struct, path, nesting)
        self._inside[struct] = depth
        return columns


def _can_be_null(column: SchemaColumn) -> bool:
    """Whether the bytes of a structure can say that one of its fields is null."""
    return column.field.notes.null_bit is not None or _has_null(column)


def _has_null(column: SchemaColumn) -> bool:
    """Whether a type has a null of its own."""
    if column.how is How.ITEM:
        return _can_be_null(column.children[0])
    in_place = not isinstance(column.type, Pointer) and not (isinstance(column.type, Array) and column.type.is_dynamic)
    return not in_place or pa.types.is_string(column.arrow) or pa.types.is_binary(column.arrow)


def is_known(logical: str | None) -> bool:
    """Whether a logical type is known. An unknown one, from a later version, changes nothing."""
    return logical in _LOGICALS or decimal_type(logical) is not None


def shown(name: str) -> str:
    """A field's name as a column's: bytes that are not UTF-8 become visible.

    >>> print(shown("caf\\udce9"))
    caf\\xe9
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _misfit(field: Field, type_: Type, path: str) -> PbioError:
    return PbioError(
        "PBIO_BAD_OPT_INFO",
        f"the logical type {shorten(str(field.notes.logical))} does not fit the type {shorten(str(type_))}",
        field=path,
        hint="leave the field out with .schema()",
    )
