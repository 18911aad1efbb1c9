"""From an Arrow schema to the record type that stores its columns (DESIGN section 5 and decision 10).

    >>> schema = pa.schema([pa.field("t", pa.timestamp("us", "UTC")), pa.field("v", pa.list_(pa.float64()))])
    >>> print(arrow_to_record(schema, "reading"))
    reading {
      t: int64
      v_count: int32
      v: float64[v_count]
    }

`record_to_arrow` gives the schema back, with the nullability that reading has (decision 11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Never

import pyarrow as pa

from ecode.types import (
    CHAR,
    INT32,
    INT64,
    NULL_BITS,
    STRING,
    UINT8,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import BINARY, ITEM, MAP, MAX_NESTING, TABLE
from pbio_spark.formats.body.opt_info import Nulls
from pbio_spark.formats.body.type_string import BASE_TYPES

_WRITTEN = {row.arrow: row for row in TABLE if row.written}
_SPARK_ONLY = (b"variant", b"geometry", b"geography")
"""Keys in the metadata of a field by which Spark marks structures that represent other types."""


def arrow_to_record(schema: pa.Schema, name: str, nulls: Nulls = "none") -> Record:
    """The record type called `name` for the columns of a schema.

    An array, map or binary column gets a hidden field with its count before it. If one is inside another, the
    inner one becomes a structure, because its count differs from element to element. A column that may be null
    becomes a pointer if it is a structure. With `nulls`, every other column except strings, which are pointers already,
    becomes a pointer too; or it gets a bit in a hidden field at the end of its structure, and each element of an array
    a byte in a hidden array beside it (docs/decisions/0011-nulls.md). Without, the writer deals with other nulls.

    Raises PBIO_UNSUPPORTED_TYPE and PBIO_BAD_LAYOUT, with the path of the column, before anything is written.

    >>> print(arrow_to_record(pa.schema([("a", pa.int32()), ("v", pa.list_(pa.int8()))]), "p", "pointer"))
    p {
      a: *int32
      v_count: int32
      v: *(*int8)[v_count]
    }
    >>> print(arrow_to_record(pa.schema([("a", pa.int32()), ("v", pa.list_(pa.int8()))]), "m", "mask"))
    m {
      a: int32
      v_count: int32
      v: int8[v_count]
      v_nulls: uint8[v_count]
      nulls: uint8[1]
    }
    """
    builder = _Builder(name, nulls)
    builder.add(name, [(field.name, field) for field in schema], "$", 0)
    return Record(tuple(builder.structs.values()))


class _Builder:
    """The structures made so far, the record first."""

    def __init__(self, name: str, nulls: Nulls) -> None:
        self.structs: dict[str, Struct] = {name: Struct(name, ())}
        self.nulls = nulls

    def add(self, struct: str, columns: Iterable[tuple[str, pa.Field]], path: str, nesting: int) -> None:
        """Fill a structure with one field for each column, and their counts."""
        columns = list(columns)
        fields: list[Field] = []
        names = {name for name, _ in columns}
        if len(names) < len(columns):
            twice = next(name for i, (name, _) in enumerate(columns) if name in dict(columns[:i]))
            raise PbioError(
                "PBIO_BAD_LAYOUT", "two columns have this name", field=f"{path}.{twice}", hint="rename one of them"
            )
        bits = 0
        for name, column in columns:
            count = _unused(_plain(name) + "_count", names)
            type_, logical = self._type(f"{struct}_{name}", column, count, f"{path}.{name}", nesting + 1)
            if isinstance(type_, Array) and count in type_.dims:
                names.add(count)
                fields.append(Field(count, INT32, Notes(hidden=True)))
            notes, marks = Notes(logical=logical), None
            if self.nulls == "mask" and _has_null_elements(column, type_):
                marks = _unused(f"{_plain(name)}_nulls", names)
                names.add(marks)
                notes = replace(notes, null_items=marks)
            if column.nullable and not _is_null_already(type_):
                if self.nulls == "pointer":
                    type_ = Pointer(type_)
                elif self.nulls == "mask":
                    notes, bits = replace(notes, null_bit=bits), bits + 1
            fields.append(Field(name, type_, notes))
            if marks is not None:
                fields.append(Field(marks, Array(UINT8, (count,)), Notes(hidden=True)))
        if bits:
            notes = Notes(logical=NULL_BITS, hidden=True)
            fields.append(Field(_unused("nulls", names), Array(UINT8, (-(-bits // 8),)), notes))
        self.structs[struct] = Struct(struct, tuple(fields))

    def _type(self, struct: str, column: pa.Field, count: str, path: str, nesting: int) -> tuple[Type, str | None]:
        """The type of a column. `struct` names a structure made for it, `count` the field that counts its elements."""
        arrow = column.type
        if nesting > MAX_NESTING:
            raise PbioError(
                "PBIO_SCHEMA_TOO_LARGE",
                f"more than {MAX_NESTING} levels of columns",
                field=path[:200],
                hint="flatten the column, or write a part of it",
            )
        if pa.types.is_binary(arrow):
            return Array(CHAR, (count,)), BINARY
        if pa.types.is_list(arrow):
            element = arrow.value_field
            if _has_count(element.type):
                return Array(self._structure(struct, [("item", element)], path + "[]", nesting), (count,)), ITEM
            type_, logical = self._type(struct, element, count, path + "[]", nesting + 1)
            if self.nulls == "pointer" and element.nullable and not _is_null_already(type_):
                return Array(Pointer(type_), (count,)), logical
            if isinstance(type_, Array):  # the 16 chars of a decimal
                return Array(type_.element, (count, *type_.dims)), logical
            return Array(type_, (count,)), logical
        if pa.types.is_map(arrow):
            entry = [("key", arrow.key_field), ("value", arrow.item_field)]
            return Array(self._structure(struct, entry, path + "[]", nesting), (count,)), MAP
        if pa.types.is_struct(arrow):
            parts = list(arrow)
            if not parts or any(key in _SPARK_ONLY for part in parts for key in part.metadata or ()):
                _unsupported(arrow, path)
            reference = self._structure(struct, [(part.name, part) for part in parts], path, nesting)
            return (Pointer(reference) if column.nullable else reference), None
        return _basic(arrow, path)

    def _structure(self, name: str, columns: list[tuple[str, pa.Field]], path: str, nesting: int) -> Ref:
        name = _unused(_plain(name), self.structs.keys() | BASE_TYPES)
        self.structs[name] = Struct(name, ())
        self.add(name, columns, path, nesting)
        return Ref(name)


def _basic(arrow: pa.DataType, path: str) -> tuple[Type, str | None]:
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        arrow = pa.timestamp(arrow.unit, tz="UTC")  # the instant is the same in every zone
    if pa.types.is_decimal128(arrow) and 0 <= arrow.scale <= arrow.precision:
        type_ = INT64 if arrow.precision <= 18 else Array(CHAR, (16,))
        return type_, f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_unsigned_integer(arrow):
        return Basic(Kind.UNSIGNED, arrow.bit_width // 8), None
    row = _WRITTEN.get(arrow)
    if row is None:
        _unsupported(arrow, path)
    return row.type, row.logical


def _is_null_already(type_: Type) -> bool:
    """Whether values of the type can be null by themselves."""
    return isinstance(type_, Pointer) or type_ == STRING


def _has_null_elements(column: pa.Field, type_: Type) -> bool:
    """Whether a column is an array of numbers, some of which may be null."""
    if not (pa.types.is_list(column.type) and column.type.value_field.nullable and isinstance(type_, Array)):
        return False
    return not (_is_null_already(type_.element) or isinstance(type_.element, Ref))


def _has_count(arrow: pa.DataType) -> bool:
    """Whether values of the type have a length of their own that a field must hold."""
    return bool(pa.types.is_binary(arrow) or pa.types.is_list(arrow) or pa.types.is_map(arrow))


def _plain(name: str) -> str:
    """The name without what has a meaning in type strings, and not too long.

    The FFS library reads a dimension that begins like a number as a number.
    """
    plain = re.sub(r"[][()*\s]", "_", name)[:1000]
    return f"_{plain}" if plain[:1] in set("+-0123456789") else plain


def _unused(name: str, taken: Iterable[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _unsupported(arrow: pa.DataType, path: str) -> Never:
    raise PbioError(
        "PBIO_UNSUPPORTED_TYPE",
        f"columns of Arrow type {arrow} cannot be written",
        field=path,
        hint="cast the column, or leave it out",
    )
