"""Transforms between record types: E-code that fills a record of one type from a record of another, as a graph.

A format is a record type and a layout. An opaque string, the key, names a format; whether keys are format IDs does not
matter here. A transform names two formats and serves all formats of their record types (DESIGN decision 32), whatever
machines they are laid out for.

    >>> from ecode.types import INT32, Field, record
    >>> graph = TransformGraph()
    >>> graph.add_format("v1", record("load", [Field("average", INT32)]))
    >>> graph.add_format("v2", record("load", [Field("total", INT32), Field("cpus", INT32)]))
    >>> graph.add_transform(Transform("v2", "v1", "{ old.average = new.total / new.cpus; }"))
    >>> [hop.target for hop in graph.routes("v2")["v1"]]
    ['v1']
    >>> graph.program(graph.routes("v2")["v1"][0]).run({"new": {"total": 6, "cpus": 2}}).outputs
    {'old': {'average': 3}}
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import ecode
from ecode.suggest import did_you_mean
from ecode.types import INT32, Record, Struct
from morph.errors import MorphError, Problem
from morph.in_place import in_place
from morph.policy import NOMINAL_SIZE, PAPER

Key: TypeAlias = str
"""The name of a format, e.g. its ID in hexadecimal. Keys break ties, so use the same keys everywhere."""


FFS_NAMES = ("new", "old")
"""FFS's names for the arriving record and the record to fill, whichever is older."""

NAMES = (FFS_NAMES, ("from", "to"), ("input", "output"))
"""The names that a reader's own transform may use for the two records."""


@dataclass(frozen=True, slots=True)
class Transform:
    """E-code that converts one format to another, not necessarily to an older one.

    Attributes:
        source, target: keys of the formats.
        ecode: the program. FFS's programs lack braces, which are added.
        is_own: whether it is the reader's own: it takes precedence over transforms that formats carry, and may use all
            of `NAMES`.
    """

    source: Key
    target: Key
    ecode: str
    is_own: bool = False

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


Route: TypeAlias = tuple[Transform, ...]
"""Transforms in the order in which a record passes through them; empty for an unchanged record."""


@lru_cache(maxsize=1 << 12)
def record_to_meaning(record: Record) -> Record:
    """The part of a record type that all its formats share: without the order of fields, and without defaults, weights
    and other notes that do not change the meaning of a value.

    >>> from ecode.types import Field, Notes, record
    >>> a, b = Field("a", INT32), Field("b", INT32)
    >>> light = Field("b", INT32, Notes(weight=0.5))
    >>> record_to_meaning(record("r", [a, b])) == record_to_meaning(record("r", [light, a]))
    True
    """

    def meant(struct: Struct) -> Struct:
        fields = (
            replace(f, notes=replace(f.notes, default=None, weight=None, accuracy=None, hidden=False))
            for f in struct.fields
        )
        return Struct(struct.name, tuple(sorted(fields, key=lambda f: f.name)))

    top, *inner = map(meant, record.structs)
    return Record((top, *sorted(inner, key=lambda struct: struct.name)))


def compile_transform(text: str, new: Record, old: Record, *, is_own: bool = False) -> ecode.Program:
    """The checked program of a transform from `new` to `old`.

    A transform returns nothing; a `return expression;`, which FFS requires, is accepted and ignored (ecode-language
    1.2).

    Args:
        is_own: whether it is the reader's, which may use any of `NAMES`; transforms of formats use FFS's. The reader's
            transform may treat a pointer to a number as the number, since readers do not know how senders write nulls.

    Raises MORPH_BAD_TRANSFORM with all mistakes, and the original error as its cause.
    """
    if not text.lstrip().startswith(("{", "#", "//", "/*")):
        text = f"{{{text}\n}}"
    first: tuple[ecode.EcodeError, tuple[str, str]] | None = None
    for source, target in _likely(text) if is_own else (FFS_NAMES,):
        for record in dict.fromkeys((new, in_place(new)) if is_own else (new,)):
            params = [ecode.Param(source, record), ecode.Param(target, old, ecode.Mode.OUT)]
            for returns in (None, INT32):
                try:
                    return ecode.compile(text, params, returns)
                except ecode.EcodeError as error:
                    first = first or (error, (source, target))
    assert first is not None
    cause, (source, target) = first
    raise MorphError(
        "MORPH_BAD_TRANSFORM",
        f"the transform does not compile: {cause.summary}",
        f"the transform from {new.name} to {old.name}",
        cause.hint or f"`{source}` is the record that arrives, `{target}` the record to fill",
    ) from cause


def _likely(text: str) -> list[tuple[str, str]]:
    """The pairs of names, the pair that a program seems to use first."""
    words = Counter(re.findall(r"(?<![\w.>])[a-z]+(?=\s*(?:[.\[=]|->))", text))
    return sorted(NAMES, key=lambda pair: -sum(words[name] for name in pair))


def output_name(program: ecode.Program) -> str:
    """The name of the record to fill, in a transform."""
    return next(param.name for param in program.params if param.mode is ecode.Mode.OUT)


def nominal_cost(program: ecode.Program) -> float:
    """The most operations of a transform for a record whose arrays have `NOMINAL_SIZE` elements; inf if unbounded.

    >>> from ecode.types import INT32, Field, record
    >>> a = record("r", [Field("a", INT32)])
    >>> loop = compile_transform("{ int i; for (i = 0; i < new.a; i++) old.a += i; }", a, a)
    >>> simple = compile_transform("{ old.a = new.a; }", a, a)
    >>> nominal_cost(loop) > 100 * nominal_cost(simple)
    True
    """
    analysis = program.analysis
    sizes = {name: NOMINAL_SIZE for names in analysis.cost.terms for name in names}
    return analysis.cost.at(sizes) if analysis.is_bounded else math.inf


class TransformGraph:
    """Record types and the transforms between them; chains, branches and cycles are allowed.

    Formats of one record type are one node. `problems` collects what is wrong with formats and transforms; a problem
    affects nothing else.
    """

    def __init__(self, records: Mapping[Key, Record] | None = None, transforms: Collection[Transform] = ()) -> None:
        self._records: dict[Key, Record | None] = {}
        self._types: dict[Record, Key] = {}
        """For each record type, its first described format."""
        self._transforms: dict[tuple[Key, Key, bool], Transform] = {}
        self._from: dict[Key, list[Transform]] = {}
        """Transforms by their source format."""
        self._formats: dict[Key, list[Key]] = {}
        """All formats of a record type, by its first format."""
        self._reported: list[Problem] = []
        self._programs: dict[Transform, ecode.Program | MorphError] = {}
        for key, record in (records or {}).items():
            self.add_format(key, record)
        for transform in transforms:
            self.add_transform(transform)

    def add_format(self, key: Key, record: Record) -> None:
        """Describe the format of a key. Raises MORPH_FORMAT_CONFLICT if the key already belongs to another record
        type."""
        if self.record(key) not in (None, record):
            raise MorphError(
                "MORPH_FORMAT_CONFLICT",
                "the key names two different record types",
                key,
                hint="give each record type a key of its own, such as its format ID",
            )
        if self.record(key) is None:
            self._records[key] = record
            first = self._types.setdefault(record_to_meaning(record), key)
            self._formats.setdefault(first, []).append(key)

    def add_transform(self, transform: Transform) -> None:
        """Add a transform; its formats may be described later or never.

        Of two different transforms between the same formats, the first counts and the second is a problem; a reader's
        own counts before all others.
        """
        for key in (transform.source, transform.target):
            self._records.setdefault(key, None)
        known = self._transforms.setdefault((transform.source, transform.target, transform.is_own), transform)
        if known is transform:
            self._from.setdefault(transform.source, []).append(transform)
        elif known.ecode != transform.ecode:
            reason = "a second transform between these formats has different E-code and is not used"
            self.report(Problem("MORPH_TRANSFORMS_DISAGREE", reason, str(transform)))

    def report(self, problem: Problem) -> None:
        """Add a problem: every answer that involves its format or transform then lists it."""
        self._reported.append(problem)

    def record(self, key: Key) -> Record | None:
        """The record type of a format; None if its description is missing."""
        return self._records.get(key)

    def known(self, key: Key) -> Record:
        """The record type of a format. Raises MORPH_UNKNOWN_FORMAT."""
        record = self.record(key)
        if record is None:
            hint = did_you_mean(key, self.records)
            raise MorphError("MORPH_UNKNOWN_FORMAT", f"unknown format {key!r}", hint=hint)
        return record

    def type_of(self, key: Key) -> Key:
        """The format that represents a format's record type: the first described one; itself if none is described."""
        record = self.record(key)
        return key if record is None else self._types[record_to_meaning(record)]

    def formats_of(self, key: Key) -> tuple[Key, ...]:
        """All formats of a format's record type, in the order of adding."""
        return tuple(self._formats.get(self.type_of(key), (key,)))

    @property
    def keys(self) -> tuple[Key, ...]:
        """All formats, with and without a description, in the order of adding."""
        return tuple(self._records)

    @property
    def records(self) -> dict[Key, Record]:
        """The formats that are described, in the order of adding."""
        return {key: record for key, record in self._records.items() if record is not None}

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """All transforms, grouped by source format, in the order of adding."""
        return tuple(transform for key in self._records for transform in self.transforms_of(key))

    def transforms_of(self, key: Key) -> tuple[Transform, ...]:
        """The transforms whose source is exactly this format, in the order of adding."""
        return tuple(self._from.get(key, ()))

    def transforms_from(self, key: Key) -> tuple[Transform, ...]:
        """The transforms that records of a format may go through: those of all formats of its record type."""
        return tuple(transform for one in self.formats_of(key) for transform in self.transforms_of(one))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Reported problems, missing descriptions, and the wrong programs among those compiled so far."""
        wrong = (
            Problem(failure.code, failure.reason, str(transform))
            for transform, failure in self._programs.items()
            if isinstance(failure, MorphError)
        )
        return (*self._reported, *self._missing_bodies(self._records), *self._odd(self.transforms), *wrong)

    def problems_from(self, routes: Mapping[Key, Route]) -> tuple[Problem, ...]:
        """The problems along the routes: reported ones, and missing descriptions next to a route."""
        # The transforms that a format carries itself; if it carries none, those of its record type.
        carried = (one for key in routes for one in self.transforms_of(key) or self.transforms_from(key))
        transforms = sorted(carried, key=lambda one: (one.source, one.target, not one.is_own))
        places = {*routes, *map(str, transforms)}
        reported = (problem for problem in self._reported if problem.at in places)
        missing = self._missing_bodies(sorted({transform.target for transform in transforms}))
        return (*reported, *missing, *self._odd(transforms))

    def _missing_bodies(self, keys: Collection[Key]) -> Iterator[Problem]:
        for key in keys:
            if self.record(key) is None:
                sources = ", ".join(sorted(one.source for one in self.transforms if one.target == key))
                reason = "its description is missing" + (f"; transforms lead to it from {sources}" if sources else "")
                yield Problem("MORPH_MISSING_BODY", reason, key)

    def _odd(self, transforms: Collection[Transform]) -> Iterator[Problem]:
        """Transforms that are useless, or that other formats of their record type carry with different E-code."""
        for transform in dict.fromkeys(transforms):
            if self.is_loop(transform):
                yield Problem("MORPH_BAD_TRANSFORM", "the transform leads from a record type to itself", str(transform))
                continue
            others = sorted(str(one) for one in self._like(transform) if one.ecode != transform.ecode)
            if others:
                reason = f"formats of the same record types carry different E-code: {', '.join(others)}"
                yield Problem("MORPH_TRANSFORMS_DISAGREE", reason, str(transform))

    def is_loop(self, transform: Transform) -> bool:
        """Whether a transform leads from a record type to itself; no record uses it."""
        return self.type_of(transform.source) == self.type_of(transform.target)

    def _like(self, transform: Transform) -> Iterator[Transform]:
        """The transforms between the same record types, including those between other formats."""
        target = self.type_of(transform.target)
        for other in () if transform.is_own else self.transforms_from(transform.source):
            if not other.is_own and self.type_of(other.target) == target:
                yield other

    def routes(
        self, source: Key, max_hops: int = PAPER.max_hops, without: Collection[Transform] = ()
    ) -> dict[Key, Route]:
        """The route to every described record type that a format can reach, itself included: F_t of the paper. The
        key of a type is the format that the last transform names.

        The route has the fewest hops, and the first keys among equals; it uses no transform in `without`. Of several
        transforms between two record types, a reader's own comes first, then the one that the format itself carries.
        """
        routes: dict[Key, Route] = {source: ()}
        met = {self.type_of(source)}
        edge: list[Key] = [source]
        for _ in range(max_hops):
            beyond: list[Key] = []
            # The keys of `edge` are in the order of their routes, so the first route found is the first in order.
            for key in edge:
                found: dict[Key, Transform] = {}
                for transform in sorted(self.transforms_from(key), key=lambda one: _preference(one, key)):
                    if self.record(transform.target) is not None and transform not in without:
                        found.setdefault(self.type_of(transform.target), transform)
                for type_, transform in sorted(found.items(), key=lambda pair: pair[1].target):
                    if type_ not in met:
                        met.add(type_)
                        routes[transform.target] = (*routes[key], transform)
                        beyond.append(transform.target)
            edge = beyond
        return routes

    def program(self, transform: Transform) -> ecode.Program:
        """The checked program of a transform, compiled once.

        Raises MORPH_UNKNOWN_FORMAT, MORPH_BAD_TRANSFORM.
        """
        if transform not in self._programs:
            new, old = self.known(transform.source), self.known(transform.target)
            try:
                self._programs[transform] = compile_transform(transform.ecode, new, old, is_own=transform.is_own)
            except MorphError as error:
                self._programs[transform] = error
        found = self._programs[transform]
        if isinstance(found, MorphError):
            raise found
        return found


def _preference(transform: Transform, key: Key) -> tuple[bool, bool, Key, Key]:
    """The sort key of transforms from a format's record type to another one, the best first."""
    return (not transform.is_own, transform.source != key, transform.target, transform.source)
