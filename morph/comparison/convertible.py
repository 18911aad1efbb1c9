"""Which fields can become which: the table of conversions, and the other conditions.

A value passes from a field to another of the same name if it keeps its meaning. Widths and precision do not matter
here: a value that does not fit the other field makes its record bad, but does not change which types match. Matching
and reading use the same function, `meaning_fits`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ecode.types import CHAR, Array, Basic, Field, Kind, Pointer, Ref, Type

Conversions: TypeAlias = frozenset[tuple[Kind, Kind]]

SAME_KIND: Conversions = frozenset((kind, kind) for kind in Kind)
"""Values keep their kind: FFS's rule (ffs-wire-format 8.1)."""

INT128 = Basic(Kind.INTEGER, 16)
"""The type that holds decimals of more than 18 digits."""

CONVERTIBLE: Conversions = SAME_KIND | {
    (source, wanted)
    for source, becomes in {
        Kind.INTEGER: (Kind.UNSIGNED, Kind.FLOAT),
        Kind.UNSIGNED: (Kind.INTEGER, Kind.FLOAT),
        Kind.CHAR: (Kind.INTEGER, Kind.UNSIGNED),
        Kind.BOOLEAN: (Kind.INTEGER, Kind.UNSIGNED),
        Kind.ENUMERATION: (Kind.INTEGER, Kind.UNSIGNED),
    }.items()
    for wanted in becomes
}
"""(from, to) pairs of kinds. A float never becomes an integer, nor a number a string, a name or a truth value.

Decimals count as integers: they convert to floats and to each other, and integers convert to decimals.
"""

DECIMAL = "decimal("
"""The prefix of the logical types of decimals."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a value means, whatever its width: kind, logical type, and whether the numbers of an enumeration have names.

    A decimal is an integer with a logical type, even if stored in 16 chars.
    """

    kind: Kind
    logical: str | None = None
    is_named: bool = False

    @property
    def is_decimal(self) -> bool:
        return self.logical is not None and self.logical.startswith(DECIMAL)


def meaning_fits(source: Meaning, wanted: Meaning, conversions: Conversions = CONVERTIBLE) -> bool:
    """Whether values of one meaning can become values of the other.

    >>> meaning_fits(Meaning(Kind.INTEGER, "decimal(10,2)"), Meaning(Kind.INTEGER))
    True
    >>> meaning_fits(Meaning(Kind.INTEGER, "timestamp"), Meaning(Kind.INTEGER))
    False
    >>> meaning_fits(Meaning(Kind.ENUMERATION, is_named=True), Meaning(Kind.STRING))
    True
    """
    one, other = (None if meaning.is_decimal else meaning.logical for meaning in (source, wanted))
    if one != other:
        return False
    return (source.kind, wanted.kind) in conversions or (source.is_named and wanted == _TEXT)


_TEXT = Meaning(Kind.STRING)


@dataclass(frozen=True, slots=True)
class TypeShape:
    """The part of a type that matters for a match: without pointers, names of counts, and the nesting of arrays.

    Attributes:
        dims: extents, outermost first; None is an extent that varies by record.
        core: the basic type of the elements, or the name of their structure.
    """

    dims: tuple[int | None, ...]
    core: Basic | str


def shape(type_: Type) -> TypeShape:
    """The shape of a type.

    >>> shape(Array(Pointer(Ref("point")), ("n", 2)))
    TypeShape(dims=(None, 2), core='point')
    """
    dims: tuple[int | None, ...] = ()
    while isinstance(type_, Array | Pointer):
        if isinstance(type_, Array):
            dims += tuple(dim if isinstance(dim, int) else None for dim in type_.dims)
            type_ = type_.element
        else:
            type_ = type_.target
    return TypeShape(dims, type_.name if isinstance(type_, Ref) else type_)


def extents_fit(source: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether an array of one shape fits the other: equal numbers of dimensions, each open or of equal extent.

    >>> extents_fit((3, 2), (None, 2)), extents_fit((None,), (3,)), extents_fit((), (1,))
    (True, False, False)
    """
    return len(source) == len(wanted) and all(w is None or w == s for s, w in zip(source, wanted, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The part of a basic field that matters for a match. Equal ones are mostly the same object, which makes sets of
    them fast."""

    name: str
    shape: TypeShape
    meaning: Meaning
    units: str | None


@lru_cache(maxsize=1 << 16)
def _look(name: str, type_: Type, logical: str | None, units: str | None, is_named: bool) -> Look:
    looks = shape(type_)
    assert isinstance(looks.core, Basic)
    meaning = Meaning(looks.core.kind, logical, is_named)
    if meaning.is_decimal and looks.core == CHAR and looks.dims[-1:] == (16,):
        looks, meaning = TypeShape(looks.dims[:-1], INT128), Meaning(Kind.INTEGER, logical)
    return Look(name, looks, meaning, units)


def field_to_look(field: Field) -> Look:
    """The part that matters for a match, of a basic field or an array of basic values."""
    return _look(field.name, field.type, field.notes.logical, field.notes.units, bool(field.notes.symbols))


def field_fits(source: Field, wanted: Field, conversions: Conversions = CONVERTIBLE) -> bool:
    """Whether values of one basic field (or array of basic values) can fill the other, whatever their names.

    Kinds must be convertible and extents must fit. An array of characters is text, which fits into a string and into
    an array of at least its size. Logical types must be equal, except for decimals, and so must units if both have
    them. Enumerations match by the names of their values, whatever numbers two versions give them.

    >>> from ecode.types import FLOAT64, INT32, STRING
    >>> field_fits(Field("v", INT32), Field("v", FLOAT64)), field_fits(Field("v", FLOAT64), Field("v", INT32))
    (True, False)
    >>> field_fits(Field("v", Array(CHAR, (16,))), Field("v", STRING))
    True
    """
    return look_fits(field_to_look(source), field_to_look(wanted), conversions)


@lru_cache(maxsize=1 << 16)
def look_fits(source: Look, wanted: Look, conversions: Conversions) -> bool:
    """`field_fits`, for prepared fields."""
    if source.units and wanted.units and source.units != wanted.units:
        return False
    from_, to = source.shape, wanted.shape
    needed, room = _characters(source), _characters(wanted)
    if needed is not None and room is not None:
        return needed <= room and source.meaning.logical == wanted.meaning.logical
    return meaning_fits(source.meaning, wanted.meaning, conversions) and extents_fit(from_.dims, to.dims)


def _characters(look: Look) -> float | None:
    """The capacity of a text field in characters; None for other fields."""
    core, dims = look.shape.core, look.shape.dims
    if isinstance(core, Basic) and core.kind is Kind.STRING and not dims:
        return math.inf
    if core == CHAR and len(dims) == 1:
        return math.inf if dims[0] is None else dims[0]
    return None
