"""The answer to "which wanted type does a record of this format reach, and how": a `Resolution` or a `Rejection`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from morph.comparison.differences import Comparison
from morph.errors import Problem
from morph.field_map import StructMap
from morph.transforms import Key, Route


class Verdict(StrEnum):
    """Whether a candidate is within the thresholds."""

    ACCEPTED = "accepted"
    DIFF = "diff over the threshold"
    MISMATCH_RATIO = "Mr over the threshold"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair that MaxMatch considered.

    Attributes:
        reached: the format that a record would have after `hops` transforms; 0 for the incoming one.
        wanted: the type that it would be delivered as.
    """

    reached: Key
    hops: int
    wanted: Key
    comparison: Comparison
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Answer:
    """The common part of both kinds of answers.

    Attributes:
        incoming: the format of the record.
        name: the name of its record type; empty if its description is missing.
        considered: the best candidates, the best one first.
        passed_over: the number of other candidates.
        problems: problems of the transforms on the considered routes.
    """

    incoming: Key
    name: str
    considered: tuple[Candidate, ...]
    passed_over: int
    problems: tuple[Problem, ...]

    def explain(self) -> str:
        """A few lines: the winner or the reason, the candidates and why they lost, where fields come from and go."""
        from morph.explain import explain  # it imports this module

        return explain(cast(Resolution | Rejection, self))

    def _repr_html_(self) -> str:
        from morph.explain import explain_html

        return explain_html(cast(Resolution | Rejection, self))


@dataclass(frozen=True, slots=True)
class Resolution(_Answer):
    """Records of the incoming format reach a wanted type.

    Attributes:
        route: the transforms that a record goes through, in order; empty if the record is already close enough.
        wanted: the key of the type.
        comparison: compares the format at the end of the route with the wanted type.
        fields: how that format fills the wanted type, the top structure first.
        unwritten: wanted fields that the last transform never writes, although its format has them: they are null.
    """

    route: Route
    wanted: Key
    comparison: Comparison
    fields: tuple[StructMap, ...]
    unwritten: tuple[str, ...]

    @property
    def reached(self) -> Key:
        """The format at the end of the route."""
        return self.route[-1].target if self.route else self.incoming


@dataclass(frozen=True, slots=True)
class Rejection(_Answer):
    """No wanted type is close enough to the types that records of the incoming format have or can reach.

    Attributes:
        reason: one sentence.
        hint: what would help; may be empty.
    """

    reason: str
    hint: str = ""
