"""`maxmatch`: the best pair of two sets of record types.

>>> from ecode.types import INT32, Field, record
>>> a, b, c = (Field(name, INT32) for name in "abc")
>>> best = maxmatch({"new": record("r", [a, b])}, {"x": record("r", [a, c]), "y": record("r", [a])})
>>> best.wanted, best.comparison.diff, best.comparison.mismatch_ratio
('y', 1, 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import Any

from ecode.types import Record
from morph.comparison.differences import Comparison, compare_profiles, profile_weight
from morph.comparison.profile import StructProfile, record_to_profile
from morph.policy import PAPER, Criterion, Policy
from morph.resolution import Candidate, Verdict
from morph.transforms import Key


def maxmatch(reached: Mapping[Key, Record], wanted: Mapping[Key, Record], policy: Policy = PAPER) -> Candidate | None:
    """MaxMatch(F1, F2): the accepted pair with the least Mr; ties go to the least diff, then to the first keys.

    None if no pair is within the thresholds. The order of the mappings does not matter. Raises MORPH_TOO_COMPLEX.
    """
    matcher = Matcher(wanted, policy)
    pairs = [pair for key, record in reached.items() for pair in matcher.best(key, record, 1)[0]]
    best = min(pairs, key=matcher.rank, default=None)
    return best if best is not None and best.verdict is Verdict.ACCEPTED else None


class Matcher:
    """Wanted types, prepared for comparison with many others."""

    def __init__(self, wanted: Mapping[Key, Record], policy: Policy) -> None:
        self.policy = policy
        self.wanted = dict(wanted)
        self._places = [list(Criterion).index(criterion) for criterion in policy.prefer]
        self._by_name: dict[str, list[tuple[Key, StructProfile, float]]] = {}
        for key, record in wanted.items():
            profile = record_to_profile(record, policy.field_weights)
            name = record.name if policy.same_name else ""
            self._by_name.setdefault(name, []).append((key, profile, profile_weight(profile)))

    def best(self, key: Key, record: Record, limit: int) -> tuple[list[Candidate], int]:
        """The best pairs of a record type with wanted types of a matching name, and the number of all pairs."""
        rivals = self._by_name.get(record.name if self.policy.same_name else "", ())
        profile = record_to_profile(record, self.policy.field_weights)
        pairs = []
        for wanted, other, weight in rivals:
            comparison = compare_profiles(profile, other, weight, self.policy.convertible)
            pairs.append((self._order(comparison, 0), wanted, comparison))
        return [
            Candidate(key, 0, wanted, comparison, self._verdict(comparison))
            for _, wanted, comparison in nsmallest(limit, pairs)
        ], len(pairs)

    def rank(self, candidate: Candidate) -> tuple[Any, ...]:
        """The sort key of candidates, the best first."""
        return (*self._order(candidate.comparison, candidate.hops), candidate.reached, candidate.wanted)

    def _order(self, comparison: Comparison, hops: int) -> tuple[float, ...]:
        measures = (comparison.mismatch_ratio, comparison.diff, hops)  # in the order of `Criterion`
        is_refused = self._verdict(comparison) is not Verdict.ACCEPTED
        return (is_refused, *[measures[place] for place in self._places])

    def _verdict(self, comparison: Comparison) -> Verdict:
        if comparison.diff > self.policy.diff_threshold:
            return Verdict.DIFF
        if comparison.mismatch_ratio > self.policy.mismatch_threshold:
            return Verdict.MISMATCH_RATIO
        return Verdict.ACCEPTED
