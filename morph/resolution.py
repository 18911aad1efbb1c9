"""The answer to "which wanted type does a record of this format reach, and how": a `Resolution` or a `Rejection`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, cast

from morph.as_json import from_json, to_json
from morph.comparison.differences import Comparison
from morph.errors import Problem
from morph.field_map import StructMap
from morph.transforms import Key, Route


class Verdict(StrEnum):
    """What the thresholds say to a candidate."""

    ACCEPTED = "accepted"
    DIFF = "diff over the threshold"
    MISMATCH_RATIO = "Mr over the threshold"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair that MaxMatch looked at.

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
    """What both answers say.

    Attributes:
        incoming: the format of the record.
        name: the name of its record type; empty where nobody has described it.
        considered: the best candidates, the best one first.
        passed_over: how many more there were.
        problems: of the transforms on the ways that were looked at.
    """

    incoming: Key
    name: str
    considered: tuple[Candidate, ...]
    passed_over: int
    problems: tuple[Problem, ...]

    def explain(self) -> str:
        """A few lines: the winner or the reason, who was considered and why it lost, what becomes of the fields."""
        from morph.explain import explain  # it reads what is defined here

        return explain(cast(Resolution | Rejection, self))

    def _repr_html_(self) -> str:
        from morph.explain import explain_html

        return explain_html(cast(Resolution | Rejection, self))

    def to_json(self) -> dict[str, Any]:
        """An object for `json.dumps`."""
        found: dict[str, Any] = to_json(self)
        return found

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The value that `to_json` made the object of. Raises MORPH_BAD_JSON."""
        return from_json(cls, data)


@dataclass(frozen=True, slots=True)
class Resolution(_Answer):
    """Records of the incoming format reach a wanted type.

    Attributes:
        route: the transforms that a record goes through, in order; none if it already is near enough.
        wanted: the key of the type.
        comparison: of the format at the end of the route and the wanted type.
        fields: how the wanted type is filled from there, the top structure first.
        unwritten: wanted fields that are there, but which the last transform never writes: they are null.
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
    """No wanted type is near enough to what records of the incoming format are or can become.

    Attributes:
        reason: one sentence.
        hint: what would help; may be empty.
    """

    reason: str
    hint: str = ""


def answer_from_json(data: Any) -> Resolution | Rejection:
    """Either answer from what its `to_json` made. Raises MORPH_BAD_JSON.

    >>> import json
    >>> nothing = Rejection("v1", "", (), 0, (), "nobody has described it")
    >>> answer_from_json(json.loads(json.dumps(nothing.to_json()))) == nothing
    True
    """
    kind: type[Resolution | Rejection] = Rejection if isinstance(data, dict) and "reason" in data else Resolution
    return kind.from_json(data)
