"""`maxmatch`: of two sets of record types, the pair that fits best.

>>> from ecode.types import INT32, Field, record
>>> a, b, c = (Field(name, INT32) for name in "abc")
>>> best = maxmatch({"new": record("r", [a, b])}, {"x": record("r", [a, c]), "y": record("r", [a])})
>>> best.wanted, best.comparison.diff, best.comparison.mismatch_ratio
('y', 1, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ecode.types import Record
from morph.differences import Comparison, compare_profiles, profile_weight
from morph.policy import PAPER, Criterion, Policy
from morph.profile import Node, record_to_profile
from morph.resolution import Candidate, Verdict
from morph.transforms import Key


def maxmatch(reached: Mapping[Key, Record], wanted: Mapping[Key, Record], policy: Policy = PAPER) -> Candidate | None:
    """MaxMatch(F1, F2): the accepted pair with the least Mr, of equals the least diff, of those the first keys.

    None if no pair is within the thresholds. The order of the mappings never matters. Raises MORPH_TOO_COMPLEX.
    """
    matcher = Matcher(wanted, policy)
    pairs = [Candidate(key, 0, *score) for key, record in reached.items() for score in matcher.scores(record)]
    best = min(pairs, key=matcher.rank, default=None)
    return best if best is not None and best.verdict is Verdict.ACCEPTED else None


class Matcher:
    """Wanted types made ready to be compared with many others."""

    def __init__(self, wanted: Mapping[Key, Record], policy: Policy) -> None:
        self.policy = policy
        self.wanted = dict(wanted)
        self._by_name: dict[str, list[tuple[Key, Node, float]]] = {}
        for key, record in sorted(wanted.items(), key=lambda item: item[0]):
            profile = record_to_profile(record, policy.field_weights)
            name = record.name if policy.same_name else ""
            self._by_name.setdefault(name, []).append((key, profile, profile_weight(profile)))

    def scores(self, record: Record) -> list[tuple[Key, Comparison, Verdict]]:
        """How a record type compares with each wanted one that it may match by name, in the order of their keys."""
        rivals = self._by_name.get(record.name if self.policy.same_name else "", ())
        profile = record_to_profile(record, self.policy.field_weights)
        comparisons = (
            (key, compare_profiles(profile, wanted, weight, self.policy.convertible)) for key, wanted, weight in rivals
        )
        return [(key, comparison, self._verdict(comparison)) for key, comparison in comparisons]

    def _verdict(self, comparison: Comparison) -> Verdict:
        if comparison.diff > self.policy.diff_threshold:
            return Verdict.DIFF
        return (
            Verdict.MISMATCH_RATIO if comparison.mismatch_ratio > self.policy.mismatch_threshold else Verdict.ACCEPTED
        )

    def rank(self, candidate: Candidate) -> tuple[Any, ...]:
        """What candidates are sorted by, the best first."""
        return (
            candidate.verdict is not Verdict.ACCEPTED,
            *(_MEASURES[criterion](candidate) for criterion in self.policy.prefer),
            candidate.reached,
            candidate.wanted,
        )


_MEASURES: dict[Criterion, Callable[[Candidate], float]] = {
    Criterion.MISMATCH_RATIO: lambda candidate: candidate.comparison.mismatch_ratio,
    Criterion.DIFF: lambda candidate: candidate.comparison.diff,
    Criterion.HOPS: lambda candidate: candidate.hops,
}
