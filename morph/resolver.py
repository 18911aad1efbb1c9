"""`resolve`: Algorithm 2 of *Morphable Messaging*: which wanted type a record of a format can reach, and by which
transforms.

>>> from ecode.types import INT32, Field, record
>>> old = record("load", [Field("average", INT32)])
>>> new = record("load", [Field("total", INT32), Field("cpus", INT32)])
>>> back = Transform("v2", "v1", "{ old.average = new.total / new.cpus; }")
>>> print(resolve("v2", {"mine": old}, TransformGraph({"v1": old, "v2": new}, [back])).explain())
load v2 reaches mine through v1: a perfect match
     wanted  from  transforms  diff  Mr
  *  mine    v1    1           0     0.00  perfect
     mine    v2    0           2     1.00  Mr over the threshold
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from heapq import nsmallest
from types import MappingProxyType

from ecode.suggest import did_you_mean
from ecode.types import Record
from morph.comparison.ffs_rule import ffs_match
from morph.errors import MorphError, Problem
from morph.explain import describe
from morph.field_map import StructMap, map_fields
from morph.matcher import Matcher
from morph.policy import PAPER, Policy, Rule
from morph.resolution import Candidate, Rejection, Resolution, Verdict
from morph.transforms import Key, Route, Transform, TransformGraph, nominal_cost, output_name

NO_PROBLEMS: Mapping[Transform, Problem] = MappingProxyType({})

SHOWN = 8
"""The number of candidates that an answer keeps."""


def resolve(
    incoming: Key, wanted: Mapping[Key, Record], graph: TransformGraph, policy: Policy = PAPER
) -> Resolution | Rejection:
    """Which wanted type records of a format reach. For many formats, keep a `Resolver`."""
    return Resolver(wanted, graph, policy).resolve(incoming)


class Resolver:
    """A reader: the types that it wants, the transforms that it knows, its policy. It makes each comparison once.

    It takes into account formats and transforms that are added to the graph later.
    """

    def __init__(self, wanted: Mapping[Key, Record], graph: TransformGraph, policy: Policy = PAPER) -> None:
        self.graph = graph
        self.policy = policy
        self._matcher = Matcher(wanted, policy)
        self._scores: dict[Key, tuple[list[Candidate], int]] = {}

    def resolve(self, incoming: Key, unusable: Mapping[Transform, Problem] = NO_PROBLEMS) -> Resolution | Rejection:
        """Which wanted type records of a format reach.

        A transform is a problem if its program is wrong or costs too much, or if the caller knows that it is unusable;
        the next best route then wins.

        Raises MORPH_TOO_COMPLEX.
        """
        record = self.graph.record(incoming)
        if record is None:
            reason = "the description of the format is missing"
            return Rejection(
                incoming,
                "",
                (),
                0,
                (),
                reason,
                "supply its body: from a format store, or from the first file of the stream",
            )
        if self.policy.rule is Rule.FFS:
            return self._by_ffs(incoming, record)
        routes: dict[Key, Route] = {incoming: ()}
        considered, passed_over = self._candidates(routes)
        problems: tuple[Problem, ...] = ()
        if not (_is_accepted(considered) and considered[0].comparison.is_perfect):
            wrong = dict(unusable)
            while True:
                routes = self.graph.routes(incoming, self.policy.max_hops, wrong)
                considered, passed_over = self._candidates(routes)
                found = self._unusable(routes[considered[0].reached]) if _is_accepted(considered) else {}
                if not found:
                    break
                wrong |= found
            problems = (*self.graph.problems_from(routes), *wrong.values(), *self._beyond(routes, wrong))
        if not _is_accepted(considered):
            reason, hint = self._why(record.name, considered)
            return Rejection(incoming, record.name, considered, passed_over, problems, reason, hint)
        winner = considered[0]
        route, fields = routes[winner.reached], self._fields(winner.reached, winner.wanted)
        return Resolution(
            incoming,
            record.name,
            considered,
            passed_over,
            problems,
            route,
            winner.wanted,
            winner.comparison,
            fields,
            self._unwritten(route, fields),
        )

    def _candidates(self, routes: Mapping[Key, Route]) -> tuple[tuple[Candidate, ...], int]:
        """The best candidates among all reachable ones, the best first, and the number of others."""
        total = 0
        heads: list[tuple[Candidate, list[Candidate]]] = []
        for key, route in routes.items():
            scores, count = self._scores_of(key)
            total += count
            if scores:
                heads.append((replace(scores[0], hops=len(route)), scores[1:]))
        # The order of a format's candidates does not depend on the distance, so the best ones belong to the best
        # formats.
        best = []
        for head, others in nsmallest(SHOWN, heads, key=lambda pair: self._matcher.rank(pair[0])):
            best += [head, *(replace(other, hops=head.hops) for other in others)]
        best = nsmallest(SHOWN, best, key=self._matcher.rank)
        return tuple(best), total - len(best)

    def _scores_of(self, key: Key) -> tuple[list[Candidate], int]:
        """The best candidates of a format without transforms, and their total number."""
        if key not in self._scores:
            self._scores[key] = self._matcher.best(key, self.graph.known(key), SHOWN)
        return self._scores[key]

    def _unusable(self, route: Route) -> dict[Transform, Problem]:
        """The transforms of a route whose programs are wrong or cost too much."""
        found = {}
        for transform in route:
            try:
                program = self.graph.program(transform)
            except MorphError as error:
                found[transform] = Problem(error.code, error.reason, str(transform))
                continue
            cost = nominal_cost(program)
            if cost > self.policy.max_cost:
                reason = f"the transform may take {cost:g} operations, more than {self.policy.max_cost:g}"
                found[transform] = Problem("MORPH_TOO_COSTLY", reason, str(transform))
        return found

    def _beyond(self, routes: Mapping[Key, Route], wrong: Mapping[Transform, Problem]) -> tuple[Problem, ...]:
        """The formats that are more hops away than the policy allows."""
        last = (key for key, route in routes.items() if len(route) == self.policy.max_hops)
        beyond = {
            transform.target
            for key in last
            for transform in self.graph.transforms_from(key)
            if transform not in wrong and self.graph.record(transform.target) is not None
        }
        met = {self.graph.type_of(key) for key in routes}
        beyond = {key for key in beyond if self.graph.type_of(key) not in met}
        reason = f"the format is more than {self.policy.max_hops} transforms away"
        return tuple(Problem("MORPH_MAX_HOPS", reason, key) for key in sorted(beyond))

    def _why(self, name: str, considered: tuple[Candidate, ...]) -> tuple[str, str]:
        """Why nothing matches, and what would help."""
        if considered:
            best = considered[0]
            return (
                f"the nearest wanted type is {best.wanted} with {describe(best.comparison)}: {best.verdict}",
                "raise the threshold, or give its format a transform to a wanted type",
            )
        names = sorted({record.name for record in self._matcher.wanted.values()})
        near = f"the format is called {name!r}; is a wanted type misspelled?" if did_you_mean(name, names) else ""
        return (
            f"no wanted type has the name {name!r}; wanted: {', '.join(names) or 'nothing'}",
            near or "add a transform to a type of another name, or set `same_name` to False to ignore names",
        )

    def _fields(self, reached: Key, wanted: Key) -> tuple[StructMap, ...]:
        return map_fields(self.graph.known(reached), self._matcher.wanted[wanted], self.policy.convertible)

    def _unwritten(self, route: Route, fields: tuple[StructMap, ...]) -> tuple[str, ...]:
        """The top fields at the end of a route that its last transform never writes."""
        if not route:
            return ()
        from ecode.passes.written_fields import written_fields

        program = self.graph.program(route[-1])
        written = {path[:1] for path in written_fields(program.typed, output_name(program))}
        if () in written:  # the record was copied as a whole
            return ()
        return tuple(f.name for f in fields[0].fields if f.is_present and (f.name,) not in written)

    def _by_ffs(self, incoming: Key, record: Record) -> Resolution | Rejection:
        """What the FFS library would do; it does not say why."""
        transforms = self.graph.transforms_of(incoming)
        routes: dict[Key, Route] = {incoming: ()}
        for transform in transforms:
            if self.graph.record(transform.target) is None:
                break
            routes.setdefault(transform.target, (transform,))
        reached = [(key, self.graph.known(key)) for key in routes]
        match = ffs_match(reached, sorted(self._matcher.wanted.items(), key=lambda item: item[0]), bool(transforms))
        problems = self.graph.problems_from({incoming: ()})
        if match is None:
            reason = "the rule of FFS finds no match; the FFS library would skip the record silently"
            return Rejection(incoming, record.name, (), 0, problems, reason)
        route = routes[match.reached]
        return Resolution(
            incoming,
            record.name,
            (Candidate(match.reached, len(route), match.wanted, match.comparison, Verdict.ACCEPTED),),
            0,
            problems,
            route,
            match.wanted,
            match.comparison,
            self._fields(match.reached, match.wanted),
            (),
        )


def _is_accepted(considered: tuple[Candidate, ...]) -> bool:
    """Whether the best candidate is within the thresholds."""
    return bool(considered) and considered[0].verdict is Verdict.ACCEPTED
