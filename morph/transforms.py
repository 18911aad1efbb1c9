"""Transforms between formats: E-code that fills a record of one format from a record of another, as a graph.

Formats are known by opaque texts, their keys; morph does not care that these are IDs.

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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import ecode
from ecode.suggest import did_you_mean
from ecode.types import INT32, Record
from morph.errors import MorphError, Problem
from morph.policy import NOMINAL_SIZE, PAPER

if TYPE_CHECKING:
    import networkx as nx

Key: TypeAlias = str
"""What a format is known by, e.g. its ID in hexadecimal. Keys break ties, so they should be the same everywhere."""


@dataclass(frozen=True, slots=True)
class Transform:
    """E-code from one format (`new` in the program) to another (`old`), which need not be older.

    Attributes:
        source, target: keys of the formats.
        ecode: the program. FFS's own carry no braces; they are put around it.
    """

    source: Key
    target: Key
    ecode: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


Route: TypeAlias = tuple[Transform, ...]
"""Transforms in the order in which a record goes through them; none for a record that stays as it is."""


def compile_transform(text: str, new: Record, old: Record) -> ecode.Program:
    """The checked program of a transform from `new` to `old`.

    A transform returns nothing; a `return expression;`, which FFS asks for, is taken and ignored (ecode-language 1.2).

    Raises MORPH_BAD_TRANSFORM with all mistakes, and the original error as its cause.
    """
    if not text.lstrip().startswith(("{", "#", "//", "/*")):
        text = f"{{{text}\n}}"
    params = [ecode.Param("new", new), ecode.Param("old", old, ecode.Mode.OUT)]
    try:
        return ecode.compile(text, params, None)
    except ecode.EcodeError as error:
        try:
            return ecode.compile(text, params, INT32)
        except ecode.EcodeError:
            raise MorphError(
                "MORPH_BAD_TRANSFORM",
                str(error),
                f"the transform from {new.name} to {old.name}",
                "`new` is the record that arrives, `old` the one to fill",
            ) from error


def nominal_cost(program: ecode.Program) -> float:
    """The most operations of a transform for a record whose arrays have `NOMINAL_SIZE` elements; inf without bound.

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
    """Formats and the transforms between them; chains, branches and cycles are all fine.

    What is wrong with them is collected in `problems` and stops nothing else.

    Attributes:
        graph: the `networkx.DiGraph` of keys; a node has its `record` or None, an edge its `transform`.
    """

    def __init__(self, records: Mapping[Key, Record] | None = None, transforms: Collection[Transform] = ()) -> None:
        import networkx as nx

        self.graph: nx.DiGraph[Key] = nx.DiGraph()
        self._reported: list[Problem] = []
        self._programs: dict[Transform, ecode.Program | MorphError] = {}
        for key, record in (records or {}).items():
            self.add_format(key, record)
        for transform in transforms:
            self.add_transform(transform)

    def add_format(self, key: Key, record: Record) -> None:
        """Say what a key stands for. Raises MORPH_FORMAT_CONFLICT if it stands for another record type already."""
        if self.record(key) not in (None, record):
            raise MorphError("MORPH_FORMAT_CONFLICT", "the key stands for two different record types", key)
        self.graph.add_node(key, record=record)

    def add_transform(self, transform: Transform) -> None:
        """Add a transform; its formats may be described later or never.

        Of two between the same formats that differ, the first one counts and the second is a problem.
        """
        source, target = transform.source, transform.target
        for key in (source, target):
            if key not in self.graph:
                self.graph.add_node(key, record=None)
        known = self.graph.edges.get((source, target), {}).get("transform", transform)
        if known.ecode != transform.ecode:
            reason = "a second transform between them has other E-code and is not used"
            self.report(Problem("MORPH_TRANSFORMS_DISAGREE", reason, str(transform)))
        self.graph.add_edge(source, target, transform=known)

    def report(self, problem: Problem) -> None:
        """Add a problem, told of with every answer that has to do with the format or transform where it is."""
        self._reported.append(problem)

    def record(self, key: Key) -> Record | None:
        """The record type of a format; None if nobody has described it."""
        found: Record | None = self.graph.nodes[key]["record"] if key in self.graph else None
        return found

    def known(self, key: Key) -> Record:
        """The record type of a format. Raises MORPH_UNKNOWN_FORMAT."""
        record = self.record(key)
        if record is None:
            hint = did_you_mean(key, (other for other in self.graph if self.record(other) is not None))
            raise MorphError("MORPH_UNKNOWN_FORMAT", f"no format {key!r} is known", hint=hint)
        return record

    @property
    def records(self) -> dict[Key, Record]:
        """The formats that are described, in the order of adding."""
        return {key: record for key in self.graph if (record := self.record(key)) is not None}

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """All transforms, those of one format together and in the order of adding."""
        return tuple(transform for _, _, transform in self.graph.edges(data="transform"))

    def transforms_of(self, key: Key) -> tuple[Transform, ...]:
        """The transforms from a format, in the order of adding."""
        return tuple(edge["transform"] for edge in self.graph.adj[key].values())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was reported, bodies that are missing, and of the programs compiled so far those that are wrong."""
        wrong = (
            Problem(failure.code, failure.reason, str(transform))
            for transform, failure in self._programs.items()
            if isinstance(failure, MorphError)
        )
        return (*self._reported, *self._missing_bodies(self.graph), *wrong)

    def problems_from(self, routes: Mapping[Key, Route]) -> tuple[Problem, ...]:
        """The problems of what can be reached: what was reported of it, and missing bodies next to it."""
        transforms = [transform for key in routes for transform in self.transforms_of(key)]
        places = {*routes, *map(str, transforms)}
        reported = (problem for problem in self._reported if problem.at in places)
        return (*reported, *self._missing_bodies(sorted({transform.target for transform in transforms})))

    def _missing_bodies(self, keys: Collection[Key]) -> Iterator[Problem]:
        for key in keys:
            if self.record(key) is None:
                sources = ", ".join(sorted(self.graph.pred[key]))
                reason = "nobody has described it" + (f"; transforms lead to it from {sources}" if sources else "")
                yield Problem("MORPH_MISSING_BODY", reason, key)

    def routes(
        self, source: Key, max_hops: int = PAPER.max_hops, without: Collection[Transform] = ()
    ) -> dict[Key, Route]:
        """The way to every described format that a format can be transformed into, itself included: F_t of the paper.

        The way with the fewest hops, of equals the one whose keys come first; transforms in `without` are not used.
        """
        routes: dict[Key, Route] = {source: ()}
        edge: list[Key] = [source]
        for _ in range(max_hops):
            further: list[Key] = []
            # The keys of `edge` are in the order of their routes, so the first way found is the first in order.
            for key in edge:
                for target, data in sorted(self.graph.adj[key].items()):
                    transform = data["transform"]
                    if target not in routes and self.record(target) is not None and transform not in without:
                        routes[target] = (*routes[key], transform)
                        further.append(target)
            edge = further
        return routes

    def program(self, transform: Transform) -> ecode.Program:
        """The checked program of a transform, compiled once.

        Raises MORPH_UNKNOWN_FORMAT, MORPH_BAD_TRANSFORM.
        """
        if transform not in self._programs:
            new, old = self.known(transform.source), self.known(transform.target)
            try:
                self._programs[transform] = compile_transform(transform.ecode, new, old)
            except MorphError as error:
                self._programs[transform] = error
        found = self._programs[transform]
        if isinstance(found, MorphError):
            raise found
        return found
