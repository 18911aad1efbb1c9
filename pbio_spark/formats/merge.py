"""The union of the versions of a record type: every field of any version, each as wide as its widest.

>>> from ecode.types import FLOAT32, INT32, INT64, record
>>> old = record("reading", [Field("id", INT32), Field("v", INT32)])
>>> new = record("reading", [Field("id", INT64), Field("v", FLOAT32), Field("w", INT32)])
>>> print(merge([old, new]))
reading {
  id: int64
  v: float64
  w: int32
}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import TypeAlias, TypeVar

from ecode.types import CHAR, INT64, STRING, Array, Basic, Field, Kind, Notes, Pointer, Record, Ref, Struct, Type
from morph.comparison.convertible import DECIMAL
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.type_string import shorten

T = TypeVar("T")
Symbols: TypeAlias = tuple[tuple[str, int], ...]

MAX_PRECISION = 38
"""The most digits of a decimal."""

MAX_STRUCTS = 1000
"""The most structures in a union: hostile versions could pair each structure with each of the other version."""


def merge(records: Iterable[Record]) -> Record:
    """The record type that holds what any of the given record types (at least one, oldest first) holds.

    Fields pair by name, nested ones too, in the order of first appearance. Numbers widen as in Spark: 64-bit integers
    and floats become doubles, and decimals get enough digits for all decimals and integers. An extent is the largest,
    or dynamic if any is dynamic. A value that one version holds in place and another points to becomes a pointer. The
    values of an enumeration are its names; if the number of a later name is taken, the name gets the next free number.
    Other later notes override earlier ones, but units must be equal if both versions have them.

    A field that is null by a bit in one version becomes a pointer in the union of several.

    Raises PBIO_CANNOT_MERGE with the path of the field.
    """
    first, *others = records
    if not others:
        return first
    return reduce(lambda old, new: _Merger(old, new).merged(), map(_by_pointers, others), _by_pointers(first))


def _by_pointers(record: Record) -> Record:
    """The type with pointers in place of bits and marks for nulls, which belong to one format only."""
    return Record(
        tuple(
            Struct(s.name, tuple(_by_pointer(f) for f in s.fields if f.name not in unseen))
            for s in record.structs
            for unseen in (s.null_marks,)
        )
    )


def _by_pointer(field: Field) -> Field:
    notes, type_ = field.notes, field.type
    if notes.null_items is not None:
        type_ = _nullable(type_, is_whole=False)
    if notes.null_bit is not None:
        type_ = _nullable(type_, is_whole=True)
    return Field(field.name, type_, replace(notes, null_bit=None, null_items=None))


def _nullable(type_: Type, *, is_whole: bool) -> Type:
    """A type that may be null as a whole, or an array with nullable elements; 16 chars in a row are one number."""
    if is_whole:
        return type_ if isinstance(type_, Pointer) or type_ == STRING else Pointer(type_)
    assert isinstance(type_, Array)
    if type_.element == CHAR:
        return Array(Pointer(Array(CHAR, type_.dims[-1:])), type_.dims[:-1])
    return Array(_nullable(type_.element, is_whole=True), type_.dims)


class _Merger:
    """A union of two record types. Structures pair by the fields that lead to them, not by their names."""

    def __init__(self, old: Record, new: Record) -> None:
        self._old = {struct.name: struct for struct in old.structs}
        self._new = {struct.name: struct for struct in new.structs}
        self._top = old.name, new.name
        self._names: dict[tuple[str | None, str | None], str] = {}
        self._waiting: list[tuple[str | None, str | None, str]] = []

    def merged(self) -> Record:
        self._pair(*self._top, "$")
        structs = []
        for old, new, path in self._waiting:  # grows during the loop
            left = {f.name: f for f in self._old[old].fields} if old is not None else {}
            right = {f.name: f for f in self._new[new].fields} if new is not None else {}
            fields = tuple(self._field(left.get(n), right.get(n), f"{path}.{n}") for n in {**left, **right})
            _check_counts(fields, path)
            structs.append(Struct(self._names[old, new], fields))
        return Record(tuple(structs))

    def _pair(self, old: str | None, new: str | None, path: str) -> str:
        """The name of the union of two structures, or of the copy of one."""
        pair = old, new
        if pair not in self._names:
            if len(self._names) == MAX_STRUCTS:
                raise PbioError(
                    "PBIO_CANNOT_MERGE",
                    f"the union has more than {MAX_STRUCTS} structures",
                    field=path,
                    hint="read the versions in parts, with the option formatName or .schema(...)",
                )
            wanted, number = (old if old is not None else new) or "", 2
            name, taken = wanted, set(self._names.values())
            while name in taken:
                name, number = f"{wanted}_{number}", number + 1
            self._names[pair] = name
            self._waiting.append((old, new, path))
        return self._names[pair]

    def _field(self, old: Field | None, new: Field | None, path: str) -> Field:
        if old is not None and new is not None:
            if (decimal := _wider_decimal(old, new, path)) is not None:
                return decimal
            return Field(old.name, self._union(old.type, new.type, path), _union_of_notes(old.notes, new.notes, path))
        if old is not None:
            return Field(old.name, self._copy(old.type, True, path), old.notes)
        assert new is not None
        return Field(new.name, self._copy(new.type, False, path), new.notes)

    def _copy(self, type_: Type, is_old: bool, path: str) -> Type:
        match type_:
            case Pointer(target):
                return Pointer(self._copy(target, is_old, path))
            case Array(element, dims):
                return Array(self._copy(element, is_old, path + "[]"), dims)
            case Ref(name):
                return Ref(self._pair(name, None, path) if is_old else self._pair(None, name, path))
            case Basic():
                return type_

    def _union(self, old: Type, new: Type, path: str) -> Type:
        match old, new:
            case Pointer(a), Pointer(b):
                return Pointer(self._union(a, b, path))
            case Pointer(a), b:
                return Pointer(self._union(a, b, path))
            case a, Pointer(b):
                return Pointer(self._union(a, b, path))
            case Array(a, extents), Array(b, others) if len(extents) == len(others):
                dims = tuple(_extent(one, other) for one, other in zip(extents, others, strict=True))
                return Array(self._union(a, b, path + "[]"), dims)
            case Ref(a), Ref(b):
                return Ref(self._pair(a, b, path))
            case Basic(), Basic():
                wider = _wider(old, new)
                if wider is not None:
                    return wider
        raise _conflict(f"the type is {shorten(str(old))} in one version, {shorten(str(new))} in another", path)


def _extent(old: int | str, new: int | str) -> int | str:
    if isinstance(old, int) and isinstance(new, int):
        return max(old, new)
    return old if isinstance(old, str) else new


def _wider(old: Basic, new: Basic) -> Basic | None:
    """The narrowest basic type that holds the values of both; a float and anything else become a double."""
    kinds = {old.kind, new.kind}
    if len(kinds) == 1:
        return max(old, new, key=lambda basic: basic.size)
    if kinds == {Kind.INTEGER, Kind.UNSIGNED}:
        signed, unsigned = (old, new) if old.kind is Kind.INTEGER else (new, old)
        size = max(signed.size, 2 * unsigned.size)
        return Basic(Kind.INTEGER, size) if size <= 8 else None
    if Kind.FLOAT in kinds and kinds < {Kind.FLOAT, Kind.INTEGER, Kind.UNSIGNED}:
        return Basic(Kind.FLOAT, max(8, *(basic.size for basic in (old, new) if basic.kind is Kind.FLOAT)))
    return None


def _union_of_notes(old: Notes, new: Notes, path: str) -> Notes:
    if old.logical != new.logical:
        raise _conflict(f"the logical type is {old.logical} in one version, {new.logical} in another", path)
    if old.units and new.units and old.units != new.units:
        raise _conflict(f"the unit is {old.units} in one version, {new.units} in another", path)
    return Notes(
        logical=old.logical,
        symbols=_union_of_symbols(old.symbols, new.symbols),
        units=_later(old.units, new.units),
        accuracy=_later(old.accuracy, new.accuracy),
        default=_later(old.default, new.default),
        weight=_later(old.weight, new.weight),
        hidden=old.hidden and new.hidden,
    )


def _union_of_symbols(old: Symbols, new: Symbols) -> Symbols:
    """
    >>> _union_of_symbols((("red", 0), ("green", 1)), (("green", 0), ("blue", 1), ("red", 2)))
    (('red', 0), ('green', 1), ('blue', 2))
    """
    symbols = dict(old)
    for symbol, value in new:
        if symbol not in symbols:
            taken = set(symbols.values())
            symbols[symbol] = value if value not in taken else next(n for n in count() if n not in taken)
    return tuple(symbols.items())


def _wider_decimal(old: Field, new: Field, path: str) -> Field | None:
    """The field that holds the decimals, or decimals and integers, of both without loss; None for other types."""
    one, other = _to_digits(replace(old, type=_bare(old.type))), _to_digits(replace(new, type=_bare(new.type)))
    if one is None or other is None or old.notes.logical == new.notes.logical:
        return None
    (dims, whole, scale), (others, more, deeper) = one, other
    if len(dims) != len(others):
        return None
    scale = max(scale, deeper)
    precision = max(whole, more) + scale
    if precision > MAX_PRECISION:
        raise _conflict(f"the values of both versions would need a decimal of {precision} digits", path)
    logical = f"{DECIMAL}{precision},{scale})"
    notes = _union_of_notes(replace(old.notes, logical=logical), replace(new.notes, logical=logical), path)
    extents = tuple(_extent(a, b) for a, b in zip(dims, others, strict=True))
    type_: Type = Array(INT64, extents) if extents else INT64
    if precision > 18:
        type_ = Array(CHAR, (*extents, 16))
    if extents and any(isinstance(_elements(of.type), Pointer) for of in (old, new)):
        type_ = _nullable(type_, is_whole=False)
    if any(isinstance(of.type, Pointer) for of in (old, new)):
        type_ = Pointer(type_)
    return Field(old.name, type_, notes)


def _elements(type_: Type) -> Type | None:
    """The type of an array's elements, also of an array that a pointer leads to; None if it is not an array."""
    while isinstance(type_, Pointer):
        type_ = type_.target
    return type_.element if isinstance(type_, Array) else None


def _bare(type_: Type) -> Type:
    """A number or an array of numbers without the pointers that make it nullable."""
    while isinstance(type_, Pointer):
        type_ = type_.target
    if isinstance(type_, Array) and isinstance(type_.element, Pointer):
        match _bare(type_.element):
            case Array(element, dims):
                return Array(element, (*type_.dims, *dims))
            case element:
                return Array(element, type_.dims)
    return type_


def _to_digits(field: Field) -> tuple[tuple[int | str, ...], int, int] | None:
    """The extents of a decimal or integer field, and its digits before and after the point."""
    type_ = field.type.element if isinstance(field.type, Array) else field.type
    dims = field.type.dims if isinstance(field.type, Array) else ()
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", field.notes.logical or "")
    if match is not None and (type_ == INT64 or (type_ == CHAR and dims[-1:] == (16,))):
        return dims if type_ == INT64 else dims[:-1], int(match[1]) - int(match[2]), int(match[2])
    if field.notes.logical is None and isinstance(type_, Basic) and type_.kind in (Kind.INTEGER, Kind.UNSIGNED):
        return dims, len(str(1 << 8 * type_.size - (type_.kind is Kind.INTEGER))), 0
    return None


def _later(old: T, new: T) -> T:
    return old if new is None else new


def _check_counts(fields: Iterable[Field], path: str) -> None:
    """Refuses a count that is a float in the union."""
    by_name: Mapping[str, Type] = {field.name: field.type for field in fields}
    for field in fields:
        type_ = field.type
        while isinstance(type_, Array | Pointer):
            for dim in type_.dims if isinstance(type_, Array) else ():
                count = by_name[dim] if isinstance(dim, str) else None
                if count is not None and not (isinstance(count, Basic) and count.kind in (Kind.INTEGER, Kind.UNSIGNED)):
                    raise _conflict(
                        f"the count {shorten(str(dim))} is not an integer in all versions", f"{path}.{field.name}"
                    )
            type_ = type_.element if isinstance(type_, Array) else type_.target


def _conflict(reason: str, path: str) -> PbioError:
    return PbioError(
        "PBIO_CANNOT_MERGE",
        reason,
        field=path,
        hint="name the wanted record type with readerFormat, or one version with formatId",
    )
