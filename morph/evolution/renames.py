"""`suspected_renames`: fields that may have been renamed between two versions of a record type.

MaxMatch never guesses: a renamed field is missing. This module suggests the earlier name to people.

>>> from ecode.types import FLOAT64, INT64, Field, record
>>> old = record("sensor", [Field("id", INT64), Field("temp", FLOAT64)])
>>> new = record("sensor", [Field("id", INT64), Field("temperature_k", FLOAT64)])
>>> suspected_renames(old, new)
{'temperature_k': 'temp'}
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from ecode.types import Basic, Field, Record, Struct
from morph.comparison.convertible import CONVERTIBLE, extents_fit, field_fits, shape

SIMILAR = 0.6
"""The least ratio of similar names."""


def suspected_renames(source: Record, wanted: Record) -> dict[str, str]:
    """For each wanted field that a type lacks, by path, the unmatched field that it may be.

    That field has a fitting type, and either a similar name or the same place between the same neighbours. Matching
    structures are compared too, in place or in an array.
    """
    found: dict[str, str] = {}
    met: set[tuple[str, str]] = set()

    def walk(one: str, other: str, path: str) -> None:
        if (one, other) in met:
            return
        met.add((one, other))
        mine, theirs = source.struct(one), wanted.struct(other)
        found.update({path + new: old for new, old in _pairs(mine, theirs).items()})
        for want in theirs.fields:
            have = mine.find(want.name)
            inner = [shape(f.type).core for f in (have, want) if f is not None]
            if len(inner) == 2 and isinstance(inner[0], str) and isinstance(inner[1], str):
                walk(inner[0], inner[1], f"{path}{want.name}.")

    walk(source.name, wanted.name, "")
    return found


def similar_name(name: str, known: Collection[str]) -> str | None:
    """The most similar of some names, or None: similar in letters, or one begins or ends with the other.

    >>> similar_name("tmep", ["temp", "place"]), similar_name("temperature_k", ["t", "temp"]), similar_name("x", ["y"])
    ('temp', 'temp', None)
    """
    rated = {other: _similarity(name, other) for other in known}
    best = max(rated, key=rated.__getitem__, default=None)
    return best if best is not None and rated[best] >= SIMILAR else None


def _similarity(one: str, other: str) -> float:
    one, other = one.casefold(), other.casefold()
    ratio = difflib.SequenceMatcher(None, one, other).ratio()
    short, long = sorted((one, other), key=len)
    # Names of one or two letters are prefixes or suffixes of many others.
    is_part = len(short) > 2 and (long.startswith(short) or long.endswith(short))
    return max(ratio, SIMILAR + ratio / 10) if is_part else ratio


def _pairs(mine: Struct, theirs: Struct) -> Mapping[str, str]:
    names, wanted = {f.name for f in mine.fields}, {f.name for f in theirs.fields}
    free = {f.name: f for f in mine.fields if f.name not in wanted and not f.notes.hidden}
    pairs: dict[str, str] = {}
    for number, want in enumerate(theirs.fields):
        if want.name in names or want.notes.hidden:
            continue
        fitting = [name for name, have in free.items() if name not in pairs.values() and _fits(have, want)]
        likely = similar_name(want.name, fitting)
        if likely is None and number < len(mine.fields) and mine.fields[number].name in fitting:
            likely = mine.fields[number].name if _neighbours(mine, number) == _neighbours(theirs, number) else None
        if likely is not None:
            pairs[want.name] = likely
    return pairs


def _neighbours(struct: Struct, number: int) -> tuple[str | None, str | None]:
    names = [None, *(f.name for f in struct.fields), None]
    return names[number], names[number + 2]


def _fits(have: Field, want: Field) -> bool:
    one, other = shape(have.type), shape(want.type)
    if isinstance(one.core, Basic) and isinstance(other.core, Basic):
        return field_fits(have, want, CONVERTIBLE)
    return isinstance(one.core, str) and isinstance(other.core, str) and extents_fit(one.dims, other.dims)
