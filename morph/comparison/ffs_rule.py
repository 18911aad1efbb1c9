"""`ffs_match`: the choice of the FFS library (ffs-wire-format 8.2), for comparison with the paper's algorithm.

    >>> from ecode.types import INT32, Field, record
    >>> old = record("reading", [Field("id", INT32)])
    >>> new = record("reading", [Field("id", INT32), Field("t", INT32)])
    >>> ffs_match([("new", new)], [("old", old)], carries_transforms=False) is None
    True

After a single added field the library silently skips the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ecode.types import CHAR, Array, Basic, Field, Pointer, Record, Ref, Struct, Type, references
from morph.comparison.differences import Comparison, weight

THRESHOLD = 0.2
"""The winner's share of missing fields must be below this."""

START = 65535
"""The number of differences from which no candidate is accepted."""


@dataclass(frozen=True, slots=True)
class FfsMatch:
    """The pair that FFS chooses, by keys: `reached`, the incoming format or a prior one that it names, and `wanted`."""

    reached: str
    wanted: str
    comparison: Comparison


def ffs_match(
    reached: Iterable[tuple[str, Record]], wanted: Iterable[tuple[str, Record]], carries_transforms: bool
) -> FfsMatch | None:
    """What FFS would convert a record to, or None if it would skip it.

    Args:
        reached: the incoming format, then the prior formats that it names, in order, up to the first unknown one.
        wanted: the registered formats, in order; the first of several equals wins. A format matches only formats of its
            own name.
        carries_transforms: whether the incoming format names any prior format, known or not.
    """
    best: FfsMatch | None = None
    best_pair = (START, START)
    wanted = list(wanted)
    for key, record in reached:
        for want, candidate in wanted:
            if candidate.name != record.name:
                continue
            lost, missing = ffs_differences(record, candidate)
            if (missing, lost) < best_pair:
                best_pair = missing, lost
                best = FfsMatch(key, want, Comparison(lost, missing, ffs_weight(candidate)))
        if best_pair == (0, 0):
            return best
        if not carries_transforms:
            return None
    return best if best is not None and best.comparison.mismatch_ratio < THRESHOLD else None


def ffs_differences(incoming: Record, wanted: Record) -> tuple[int, int]:
    """(diff1, diff2): fields of the incoming type that the wanted one lacks, and the reverse."""
    lost = missing = 0
    others = {struct.name: struct for struct in wanted.structs[1:]}
    pairs = [(incoming.structs[0], wanted.structs[0])]
    pairs += [(s, others[s.name]) for s in incoming.structs[1:] if s.name in others]
    for one, other in pairs:
        mine = {f.name: f for f in one.fields}
        theirs = {f.name: f for f in other.fields}
        differing = sum(not _same(f.type, theirs[name].type) for name, f in mine.items() if name in theirs)
        lost += len(mine.keys() - theirs.keys()) + differing
        missing += len(theirs.keys() - mine.keys()) + differing
    return lost, missing


def ffs_weight(wanted: Record) -> float:
    """FFS's W: all fields, structures as well as the fields in them."""
    return weight(Record(tuple(Struct(s.name, tuple(_counted(s))) for s in wanted.structs)))


def _counted(struct: Struct) -> Iterator[Field]:
    """The fields without their own weights, and one more for each structure, to count the structure itself."""
    for f in struct.fields:
        yield Field(f.name, f.type)
        if any(references(f.type)):
            yield Field(f"{f.name}\0", CHAR)


def _same(one: Type, other: Type) -> bool:
    if _is_dynamic(one) or _is_dynamic(other):
        return _text(one) == _text(other)
    return _class(one) == _class(other)


def _is_dynamic(type_: Type) -> bool:
    match type_:
        case Pointer(target):
            return _is_dynamic(target)
        case Array(element):
            return type_.is_dynamic or _is_dynamic(element)
    return False


def _class(type_: Type) -> tuple[str, int]:
    """The class of a type, and its number of static elements; a pointer to it counts like the type itself."""
    match type_:
        case Basic(kind):
            return kind, 1
        case Ref():
            return "structure", 1
        case Pointer(target):
            return _class(target)
        case Array(element, dims):
            name, count = _class(element)
            return name, count * math.prod(dim for dim in dims if isinstance(dim, int))


def _text(type_: Type) -> str:
    """A type string without sizes and pointers."""
    match type_:
        case Basic(kind):
            return kind
        case Ref(name):
            return name
        case Pointer(target):
            return _text(target)
        case Array(element, dims):
            return _text(element) + "".join(f"[{dim}]" for dim in dims)
