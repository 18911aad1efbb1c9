"""What counts as a match: thresholds, weights, conversions, limits. Two policies are ready: `PAPER` and `FFS`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ecode.suggest import did_you_mean
from morph.comparison.convertible import CONVERTIBLE, SAME_KIND, Conversions
from morph.errors import MorphError

NOMINAL_SIZE = 100
"""Elements of an array, and rounds of a loop that nobody can count, where costs are compared with a limit."""


class Rule(StrEnum):
    """Which algorithm chooses."""

    PAPER = "paper"
    FFS = "ffs"


class Criterion(StrEnum):
    """What one candidate may be better by; less is better."""

    MISMATCH_RATIO = "mismatch_ratio"
    DIFF = "diff"
    HOPS = "hops"


@dataclass(frozen=True, slots=True)
class Policy:
    """How a reader wants its types matched. Raises MORPH_BAD_POLICY for what cannot be followed.

    Attributes:
        diff_threshold: the most that `diff(incoming, wanted)` may be: fields that the reader would not see.
        mismatch_threshold: the most that Mr may be, 0 to 1: the share of wanted fields that stay empty.
        field_weights: (path, weight) of fields by importance, e.g. `("position.x", 5)`, in place of what the record
            type itself says; the weight of a structure multiplies those of its fields.
        convertible: (from, to) of the kinds that may become each other.
        same_name: a record type only matches one of its own name.
        max_hops: the most transforms in a row.
        max_cost: the most operations of one transform for one record, each array of which has `NOMINAL_SIZE` elements;
            with a limit, a transform whose loops have no bound is not taken.
        prefer: what makes a candidate better, most important first; equals are decided by their keys.
        rule: the paper's algorithm, or FFS's, which heeds nothing here but `convertible`.
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
            raise _bad("diff_threshold", f"{self.diff_threshold!r} is not a number from 0")
        if not 0 <= self.mismatch_threshold <= 1:
            raise _bad("mismatch_threshold", f"{self.mismatch_threshold!r} is not a number from 0 to 1")
        if self.max_hops < 0:
            raise _bad("max_hops", f"{self.max_hops!r} is negative")
        if not self.max_cost >= 0:
            raise _bad("max_cost", f"{self.max_cost!r} is not a number from 0")
        for path, weight in self.field_weights:
            if not 0 <= weight <= 1e9:
                raise _bad("field_weights", f"the weight {weight!r} of {path!r} is not a number from 0 to 1e9")
        if len(dict(self.field_weights)) < len(self.field_weights):
            raise _bad("field_weights", "a path has two weights")
        if len(set(self.prefer)) < len(self.prefer):
            raise _bad("prefer", "a criterion is named twice")


def _bad(setting: str, reason: str) -> MorphError:
    return MorphError("MORPH_BAD_POLICY", reason, setting)


PAPER = Policy()
"""Algorithms 1 and 2 of *Morphable Messaging* with the project's thresholds."""

FFS = Policy(convertible=SAME_KIND, rule=Rule.FFS)
"""What the FFS library does by itself (ffs-wire-format 8.2)."""

POLICIES = {"paper": PAPER, "ffs": FFS}


def policy_named(name: str) -> Policy:
    """A policy by its name. Raises MORPH_BAD_POLICY.

    >>> policy_named("ffs").rule
    <Rule.FFS: 'ffs'>
    """
    if name not in POLICIES:
        hint = did_you_mean(name, POLICIES) or f"there are: {', '.join(POLICIES)}"
        raise MorphError("MORPH_BAD_POLICY", f"no policy is called {name!r}", hint=hint)
    return POLICIES[name]
