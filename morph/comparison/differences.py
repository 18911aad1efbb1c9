"""`diff`, `weight`, `mismatch_ratio`: Algorithm 1 of *Morphable Messaging*, for every nesting.

Basic fields count, each with its weight; an array of basic values is one field. A structure (or an array of structures)
matches the field of the same name in the other record type if that is also a structure and its extents fit. Then their
fields are compared; otherwise all basic fields in it are missing. Names of structures do not matter.

Where structures contain each other, a walk follows the fields breadth first from the entry of the cycle and counts each
structure once: fields that lead back to a counted structure add nothing. So every W is finite, and every diff is at
most its W.

    >>> from ecode.types import FLOAT64, INT32, STRING, Field, record
    >>> old = record("reading", [Field("id", INT32), Field("t", FLOAT64), Field("place", STRING)])
    >>> new = record("reading", [Field("id", INT32), Field("t", FLOAT64), Field("x", INT32), Field("y", INT32)])
    >>> diff(new, old), diff(old, new), weight(old)
    (2, 1, 3)
    >>> round(mismatch_ratio(new, old), 3)
    0.333
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ecode.types import Record
from morph.comparison.convertible import Conversions, extents_fit, look_fits
from morph.comparison.profile import StructProfile, record_to_profile
from morph.errors import check_pairs, too_complex
from morph.policy import PAPER, Policy

MAX_WEIGHT = 1e300
"""No type may weigh more: the ratio of larger numbers is not exact."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How an arriving record type and a wanted one differ.

    Attributes:
        diff: diff(incoming, wanted): the weight of the fields that the wanted type lacks.
        missing: diff(wanted, incoming): the weight of the fields that the incoming type cannot fill.
        weight: W(wanted).
    """

    diff: float
    missing: float
    weight: float

    @property
    def mismatch_ratio(self) -> float:
        """Mr(incoming, wanted) = missing / W(wanted), 0 to 1; 0 if nothing is wanted."""
        return self.missing / self.weight if self.weight else 0.0

    @property
    def is_perfect(self) -> bool:
        return self.diff == 0 == self.missing


def diff(f1: Record, f2: Record, policy: Policy = PAPER) -> float:
    """diff(f1, f2): the weight of the basic fields of f1 that are not in f2, when records of f1 are to become f2.

    In the paper a field is in both types or not. Here an integer may become a float but not the reverse, so the
    direction
    matters: `compare` gives the paper's diff(f2, f1) as `missing`.

    Raises MORPH_TOO_COMPLEX.
    """
    return compare(f1, f2, policy).diff


def weight(f: Record, policy: Policy = PAPER) -> float:
    """W(f): the weight of all basic fields of f, nested ones included. Raises MORPH_TOO_COMPLEX."""
    return profile_weight(record_to_profile(f, policy.field_weights))


def mismatch_ratio(f1: Record, f2: Record, policy: Policy = PAPER) -> float:
    """Mr(f1, f2): the share of f2's weight that f1 cannot fill, 0 to 1. Raises MORPH_TOO_COMPLEX."""
    return compare(f1, f2, policy).mismatch_ratio


def compare(f1: Record, f2: Record, policy: Policy = PAPER) -> Comparison:
    """Both diffs and W(f2), where f1 arrives and f2 is wanted. Raises MORPH_TOO_COMPLEX."""
    incoming, wanted = (record_to_profile(f, policy.field_weights) for f in (f1, f2))
    return compare_profiles(incoming, wanted, profile_weight(wanted), policy.convertible)


def compare_profiles(
    incoming: StructProfile, wanted: StructProfile, wanted_weight: float, conversions: Conversions
) -> Comparison:
    """`compare`, for prepared record types."""
    return Comparison(
        _absent(incoming, wanted, conversions, is_source=True),
        _absent(wanted, incoming, conversions, is_source=False),
        wanted_weight,
    )


def profile_weight(node: StructProfile) -> float:
    """W of a prepared record type: its diff with nothing."""
    return _absent(node, None, frozenset(), is_source=True)


def _absent(top: StructProfile, other: StructProfile | None, conversions: Conversions, is_source: bool) -> float:
    """The weight of the basic fields below `top` that `other` lacks."""
    if not top.inner:
        return _total(_own(top, other, conversions, is_source))
    walks: dict[tuple[StructProfile, StructProfile | None], tuple[list[float], list[_Exit]]] = {}
    waiting = [(top, other)]
    while waiting:
        pair = waiting.pop()
        if pair not in walks:
            walks[pair] = _walk_cycle(*pair, conversions, is_source)
            waiting += [(node, partner) for node, partner, _ in walks[pair][1]]
            check_pairs(len(walks))
    totals: dict[tuple[StructProfile, StructProfile | None], float] = {}
    for pair in sorted(walks, key=lambda pair: pair[0].height):
        own, exits = walks[pair]
        totals[pair] = _total(own + [factor * totals[node, partner] for node, partner, factor in exits])
    return totals[top, other]


_Exit = tuple[StructProfile, StructProfile | None, float]


def _walk_cycle(
    node: StructProfile, other: StructProfile | None, conversions: Conversions, is_source: bool
) -> tuple[list[float], list[_Exit]]:
    """The absent fields of a structure and of its cycle, and the structures that they lead to."""
    own: list[float] = []
    exits: list[_Exit] = []
    met = {node.struct.name}
    waiting: list[_Exit] = [(node, other, 1)]
    for here, there, factor in waiting:  # grows while it is walked
        own += [factor * weight for weight in _own(here, there, conversions, is_source)]
        for name, inner in here.inner.items():
            found = there.inner.get(name) if there is not None else None
            dims = (inner.dims, found.dims) if found is not None else ((), ())
            partner = found.node if found is not None and extents_fit(*(dims if is_source else dims[::-1])) else None
            step = inner.node, partner, factor * inner.weight
            if not inner.is_back:
                exits.append(step)
            elif inner.node.struct.name not in met:
                met.add(inner.node.struct.name)
                waiting.append(step)
    return own, exits


def _own(node: StructProfile, other: StructProfile | None, conversions: Conversions, is_source: bool) -> list[float]:
    """The weights of a structure's own basic fields that another structure lacks."""
    if other is None:
        return list(node.weights.values())
    absent = []
    for mine in node.counted - other.all_basic:
        theirs = other.looks.get(mine.name)
        if theirs is None or not (
            look_fits(mine, theirs, conversions) if is_source else look_fits(theirs, mine, conversions)
        ):
            absent.append(node.weights[mine.name])
    return absent


def _total(weights: list[float]) -> float:
    """The sum, independent of the order of its parts."""
    total = sum(weights)
    if not total < MAX_WEIGHT:
        raise too_complex(f"the weight of the record types exceeds {MAX_WEIGHT:g}")
    return total if isinstance(total, int) else math.fsum(weights)
