"""What counts as a match: thresholds, weights, conversions, limits. Two policies are ready: `PAPER` and `FFS`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from morph.comparison.convertible import CONVERTIBLE, SAME_KIND, Conversions
from morph.errors import MorphError

NOMINAL_SIZE = 100
"""The assumed size of arrays, and rounds of uncountable loops, when a cost is compared with a limit."""


class Rule(StrEnum):
    """Which algorithm chooses."""

    PAPER = "paper"
    FFS = "ffs"


class Criterion(StrEnum):
    """A measure of candidates; less is better."""

    MISMATCH_RATIO = "mismatch_ratio"
    DIFF = "diff"
    HOPS = "hops"


@dataclass(frozen=True, slots=True)
class Policy:
    """How a reader matches types. Raises MORPH_BAD_POLICY for a setting out of its range.

    Attributes:
        diff_threshold: the largest accepted `diff(incoming, wanted)`: the fields that the reader would not see.
        mismatch_threshold: the largest accepted Mr, 0 to 1: the share of wanted fields that stay empty.
        field_weights: (path, weight) of fields by importance, e.g. `("position.x", 5)`, in place of the weights
            in the record type; the weight of a structure multiplies those of its fields.
        convertible: (from, to) pairs of kinds: values of one kind may become values of the other.
        same_name: whether a record type matches only types of its own name.
        max_hops: the most transforms in a row.
        max_cost: the most operations of one transform for one record, each array of which has `NOMINAL_SIZE` elements;
            with a limit, transforms with unbounded loops are not used.
        prefer: what makes a candidate better, the most important first; keys break ties.
        rule: the paper's algorithm, or FFS's, which uses only `convertible`.
    """

    diff_threshold: float = math.inf
    mismatch_threshold: float = 0.5
    field_weights: tuple[tuple[str, float], ...] = ()
    convertible: Conversions = CONVERTIBLE
    same_name: bool = True
    max_hops: int = 32
    max_cost: float = math.inf
    prefer: tuple[Criterion, ...] = (Criterion.MISMATCH_RATIO, Criterion.DIFF, Criterion.HOPS)
    rule: Rule = Rule.PAPER

    def __post_init__(self) -> None:
        if not self.diff_threshold >= 0:
            raise _bad("diff_threshold", f"{self.diff_threshold!r} is not a number of at least 0")
        if not 0 <= self.mismatch_threshold <= 1:
            raise _bad("mismatch_threshold", f"{self.mismatch_threshold!r} is not a number from 0 to 1")
        if self.max_hops < 0:
            raise _bad("max_hops", f"{self.max_hops!r} is negative")
        if not self.max_cost >= 0:
            raise _bad("max_cost", f"{self.max_cost!r} is not a number of at least 0")
        for path, weight in self.field_weights:
            if not 0 <= weight <= 1e9:
                raise _bad("field_weights", f"the weight {weight!r} of {path!r} is not a number from 0 to 1e9")
        if len(dict(self.field_weights)) < len(self.field_weights):
            raise _bad("field_weights", "a path has two weights")
        if len(set(self.prefer)) < len(self.prefer):
            raise _bad("prefer", "a criterion appears twice")


def _bad(setting: str, reason: str) -> MorphError:
    return MorphError("MORPH_BAD_POLICY", reason, setting)


PAPER = Policy()
"""Algorithms 1 and 2 of *Morphable Messaging* with the project's thresholds."""

FFS = Policy(convertible=SAME_KIND, rule=Rule.FFS)
"""What the FFS library does (ffs-wire-format 8.2)."""
