"""Which blocks of a file hold no record that a filter lets pass: by what must hold of fields, and their values there.

The rules are those by which a program reads a record (see `binding`): names, aliases and defaults, nulls as zero. A
block in which a value would not fit the program's type is read, so that the error is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import ecode
from ecode.analysis.bounds import Bound, program_to_bounds
from ecode.semantics.arithmetic import limits
from ecode.typed import FieldOf, Parameter, Read, TypedProgram, walk
from ecode.types import FLOAT32, Array, Basic, Kind, Record
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.names import Names, Path, struct_to_counts, walk_path
from pbio_spark.wire.hints.ranges import Ranges

_EXACT = {4: 2**24, 8: 2**53}
_WHOLE = (Kind.INTEGER, Kind.UNSIGNED)


@dataclass(frozen=True, slots=True)
class Seen:
    """A number field as a program sees it.

    Attributes:
        wanted: its type in the program.
        path: of the field in the format; None if the format has none.
        found: its type there.
        value: what it reads as if the format has none.
    """

    wanted: Basic
    path: Path | None
    found: Basic | None = None
    value: int | float = 0

    def range(self, ranges: Ranges) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Least and most in each block, in the values of the format; None if that is not known."""
        if self.path is not None:
            return ranges.of(self.path)
        values = np.full(ranges.blocks, self.value)
        return values, values

    def fits(self, ranges: Ranges) -> npt.NDArray[np.bool_]:
        """In which blocks all values certainly have the program's type, too."""
        every = np.ones(ranges.blocks, np.bool_)
        if self.found is None or self.found == self.wanted:
            return every
        if self.found.kind is Kind.FLOAT:
            return every & (self.wanted.kind is Kind.FLOAT and self.wanted.size > self.found.size)
        known = self.range(ranges)
        if known is None:
            return ~every
        low, high = limits(self.wanted) if self.wanted.kind in _WHOLE else (0, _EXACT[self.wanted.size])
        low = low if self.wanted.kind in _WHOLE else -high
        pairs = zip(known[0].tolist(), known[1].tolist(), strict=True)
        return np.array([least > most or (low <= least and most <= high) for least, most in pairs], np.bool_)


@dataclass(frozen=True, slots=True)
class Excluding:
    """What a filter's first comparisons say of records of a format.

    Attributes:
        bounds: what must hold of which field.
        reads: all number fields that the program may read.
    """

    bounds: tuple[tuple[Seen, Bound], ...] = ()
    reads: tuple[Seen, ...] = ()

    def excluded(self, ranges: Ranges) -> npt.NDArray[np.bool_]:
        """Blocks of which no record passes, and none has a number that the program could not read."""
        out = np.zeros(ranges.blocks, np.bool_)
        for seen, bound in self.bounds:
            known = seen.range(ranges)
            if known is not None:
                out |= ~bound.may_hold(*known) | (known[0] > known[1])
        for seen in self.reads if out.any() else ():
            out &= seen.fits(ranges)
        return out


NOTHING_EXCLUDED = Excluding()


def program_to_excluding(program: ecode.Program, form: Format, names: Names) -> Excluding:
    """What the bounds of a filter, the first program that sees records of a format, exclude."""
    bounds = program_to_bounds(program.typed)
    first = program.params[0]
    if not bounds or not isinstance(first.type, Record):
        return NOTHING_EXCLUDED
    known = [(_seen(first.type, bound.path, bound.type, form, names), bound) for bound in bounds]
    usable = tuple((seen, bound) for seen, bound in known if seen is not None)
    if not usable:
        return NOTHING_EXCLUDED
    paths = dict(_reads(program.typed, first.name))
    reads = (_seen(first.type, path, type_, form, names) for path, type_ in paths.items())
    return Excluding(usable, tuple(seen for seen in reads if seen is not None))


def _reads(program: TypedProgram, name: str) -> Iterator[tuple[Path, Basic]]:
    """The number fields in place that a program reads of a parameter, with the sizes of arrays that it goes into."""
    for node in walk(program.body):
        if isinstance(node, Read) and isinstance(node.type, Basic) and node.type.kind is not Kind.STRING:
            path = _path(node.place, name)
            if path:
                yield path, node.type
        elif isinstance(node, FieldOf) and isinstance(node.type, Array):
            path = _path(node, name)
            for size in (program.structs[node.struct].find(dim) for dim in node.type.dims if isinstance(dim, str)):
                if path and size is not None and isinstance(size.type, Basic):
                    yield (*path[:-1], size.name), size.type


def _path(place: object, name: str) -> Path:
    """The names that lead to a place in a parameter through structures; () if others do."""
    path: list[str] = []
    while isinstance(place, FieldOf):
        path.append(place.name)
        place = place.record
    return tuple(reversed(path)) if isinstance(place, Parameter) and place.param.name == name else ()


def _seen(record: Record, path: Path, wanted: Basic, form: Format, names: Names) -> Seen | None:
    """The field of a format that a program's path leads to; None unless that is a number in place."""
    steps = walk_path(path, record, form.record, names)
    *outer, (name, inside, field, _, found) = steps
    if field is None or any(step.found is not None and step.found.notes.null_bit is not None for step in outer):
        return None
    if found is None:
        value = field.notes.default if len(steps) == len(path) else None
        if name in struct_to_counts(inside) or isinstance(value, str) or not (value is None or _has(wanted, value)):
            return None
        value = 0 if value is None else value
        return Seen(wanted, None, value=float(np.float32(value)) if wanted == FLOAT32 else value)
    if not isinstance(found.type, Basic) or found.type.kind not in (*_WHOLE, Kind.FLOAT, Kind.ENUMERATION):
        return None
    kind = Kind.UNSIGNED if found.type.kind is Kind.ENUMERATION else found.type.kind
    place = tuple(step.found.name for step in steps if step.found is not None)
    return Seen(wanted, place, Basic(kind, found.type.size)) if len(place) == len(path) else None


def _has(type_: Basic, value: object) -> bool:
    """Whether a default is a value of a type."""
    if type_.kind is Kind.FLOAT:
        return isinstance(value, int | float) and abs(value) <= _EXACT[type_.size]
    return isinstance(value, int) and type_.kind in _WHOLE and limits(type_)[0] <= value <= limits(type_)[1]
