"""Algorithm 1 of Morphable Messaging as printed: a recursion over every path, for types without cycles."""

from __future__ import annotations

from ecode.types import Basic, Record
from morph.comparison.convertible import CONVERTIBLE, extents_fit, field_fits, shape


def by_the_paper(f1: Record, name1: str, f2: Record, name2: str, is_source: bool) -> int:
    """diff(f1, f2) of two structures; `is_source`: records of f1 are to become f2, else the other way round."""
    total = 0
    others = {f.name: f for f in f2.struct(name2).fields}
    for f in f1.struct(name1).fields:
        other = others.get(f.name)
        mine = shape(f.type)
        theirs = shape(other.type) if other is not None else None
        if isinstance(mine.core, Basic):
            pair = (f, other) if is_source else (other, f)
            total += not (theirs is not None and isinstance(theirs.core, Basic) and field_fits(*pair, CONVERTIBLE))
        elif theirs is not None and isinstance(theirs.core, str):
            dims = (mine.dims, theirs.dims) if is_source else (theirs.dims, mine.dims)
            if extents_fit(*dims):
                total += by_the_paper(f1, mine.core, f2, theirs.core, is_source)
            else:
                total += paths_below(f1, mine.core)
        else:
            total += paths_below(f1, mine.core)
    return total


def paths_below(f: Record, name: str) -> int:
    cores = [shape(field.type).core for field in f.struct(name).fields]
    return sum(1 if isinstance(core, Basic) else paths_below(f, core) for core in cores)
