"""What can go wrong when types are matched: errors, which are raised, and problems, which answers list.

>>> print(MorphError("MORPH_BAD_POLICY", "`max_hops` is negative", at="policy", hint="0 allows no transform"))
[MORPH_BAD_POLICY] `max_hops` is negative
  at: policy
  hint: 0 allows no transform
"""

from __future__ import annotations

from dataclasses import dataclass

from ecode.errors import valid_text

CODES: dict[str, str] = {
    "MORPH_BAD_POLICY": "A setting of a policy is out of its range.",
    "MORPH_BAD_TRANSFORM": "The E-code of a transform does not compile between the types that it connects.",
    "MORPH_FORMAT_CONFLICT": "One key names two record types.",
    "MORPH_MAX_HOPS": "A format is more transforms away than the policy allows, and is not considered.",
    "MORPH_MISSING_BODY": "A transform leads to a format whose description is missing.",
    "MORPH_TOO_COMPLEX": "Two record types nest too deeply, or in too many ways, for a comparison.",
    "MORPH_TOO_COSTLY": "A transform may take more operations for a record than the policy allows.",
    "MORPH_TRANSFORMS_DISAGREE": "Two transforms between the same formats have different E-code.",
    "MORPH_UNKNOWN_FORMAT": "No format with that key is known.",
}
"""The code of every error and problem of this package, with one line of meaning."""


class MorphError(Exception):
    """A request that cannot be met.

    Attributes:
        code: stable and searchable, one of `CODES`.
        reason: what is wrong, in one sentence.
        at: which format, field or setting; may be empty.
        hint: what to do about it; may be empty.
    """

    def __init__(self, code: str, reason: str, at: str = "", hint: str = "") -> None:
        self.code, self.reason, self.at, self.hint = code, reason, at, hint
        super().__init__(code, reason, at, hint)

    def __str__(self) -> str:
        place = f"\n  at: {self.at}" if self.at else ""
        return valid_text(f"[{self.code}] {self.reason}" + place + (f"\n  hint: {self.hint}" if self.hint else ""))


MAX_PAIRS = 100_000
"""The most pairs of structures in one comparison; hostile types could pair each structure with each."""


def check_pairs(count: int) -> None:
    """Raise MORPH_TOO_COMPLEX if there are too many pairs of structures."""
    if count > MAX_PAIRS:
        raise too_complex(f"the record types pair more than {MAX_PAIRS} structures")


def too_complex(reason: str) -> MorphError:
    """The error for types that are too complex to compare."""
    return MorphError("MORPH_TOO_COMPLEX", reason, hint="no program declares such types; the description is hostile")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the transforms. It stops no record that has another route.

    Attributes:
        code: one of `CODES`, or a code of an outer layer.
        reason: what is wrong.
        at: the formats or the transform that it is about.
    """

    code: str
    reason: str
    at: str

    def __str__(self) -> str:
        return valid_text(f"[{self.code}] {self.at}: {self.reason}")
