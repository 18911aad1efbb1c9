"""`map_fields`: which fields of a record type fill which fields of another, and what fills the rest.

>>> from ecode.types import FLOAT64, INT32, STRING, Field, Notes, record
>>> new = record("reading", [Field("id", INT32), Field("t", FLOAT64), Field("x", INT32)])
>>> old = record("reading", [Field("t", FLOAT64), Field("place", STRING, Notes(default="roof"))])
>>> print(*map_fields(new, old)[0].fields, sep="\\n")
t <- t
place <- 'roof'
>>> map_fields(new, old)[0].dropped
('id', 'x')
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ecode.types import Basic, Default, Field, Record
from morph.comparison.convertible import CONVERTIBLE, Conversions, extents_fit, field_fits, shape
from morph.errors import check_pairs


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where a wanted field comes from.

    Attributes:
        name: the wanted field.
        is_present: whether the field of that name in the arriving structure fills it.
        default: the value that fills it otherwise; None leaves it null.
    """

    name: str
    is_present: bool
    default: Default = None

    def __str__(self) -> str:
        if self.is_present:
            return f"{self.name} <- {self.name}"
        return f"{self.name} <- {'null' if self.default is None else repr(self.default)}"


@dataclass(frozen=True, slots=True)
class StructMap:
    """How a structure of the wanted type is filled from one of the arriving type.

    A present field that is itself a structure is filled by the map of its own pair of structures.

    Attributes:
        source, wanted: names of the structures.
        fields: of the wanted structure, in its order.
        dropped: fields of the arriving structure that the wanted one lacks, without hidden fields.
    """

    source: str
    wanted: str
    fields: tuple[FieldSource, ...]
    dropped: tuple[str, ...]


def map_fields(source: Record, wanted: Record, conversions: Conversions = CONVERTIBLE) -> tuple[StructMap, ...]:
    """The maps of all pairs of structures that meet, the top ones first.

    Fields match as for `diff`, which counts as missing exactly what is not present here. Raises MORPH_TOO_COMPLEX.
    """
    mine = {struct.name: struct for struct in source.structs}
    theirs = {struct.name: struct for struct in wanted.structs}
    met = {(source.name, wanted.name)}
    waiting = [(source.name, wanted.name)]
    maps = []
    for one, other in waiting:  # grows while it is walked
        fields = {f.name: f for f in mine[one].fields}
        sources = []
        present = set()
        for want in theirs[other].fields:
            have = fields.get(want.name)
            if have is not None and _fits(have, want, conversions):
                present.add(want.name)
                sources.append(FieldSource(want.name, True))
                for pair in _inner_pair(have, want):
                    if pair not in met:
                        met.add(pair)
                        waiting.append(pair)
                        check_pairs(len(met))
            else:
                sources.append(FieldSource(want.name, False, want.notes.default))
        dropped = tuple(name for name, f in fields.items() if name not in present and not f.notes.hidden)
        maps.append(StructMap(one, other, tuple(sources), dropped))
    return tuple(maps)


def _fits(have: Field, want: Field, conversions: Conversions) -> bool:
    one, other = shape(have.type), shape(want.type)
    if isinstance(one.core, str) and isinstance(other.core, str):
        return extents_fit(one.dims, other.dims)
    if isinstance(one.core, Basic) and isinstance(other.core, Basic):
        return field_fits(have, want, conversions)
    return False


def _inner_pair(have: Field, want: Field) -> Iterator[tuple[str, str]]:
    one, other = shape(have.type).core, shape(want.type).core
    if isinstance(one, str) and isinstance(other, str):
        yield one, other
