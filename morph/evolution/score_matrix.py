"""`scores`: how well each of many record types fits each of many others, as a matrix.

>>> from ecode.types import INT32, Field, record
>>> a, b = Field("a", INT32), Field("b", INT32)
>>> print(scores({"v1": record("r", [a]), "v2": record("r", [a, b])}))
    v1    v2
v1  0.00  0.50
v2  0.00  0.00
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

from ecode.types import Record
from morph.comparison.differences import Comparison, compare_profiles, profile_weight
from morph.comparison.profile import record_to_profile
from morph.policy import PAPER, Policy
from morph.transforms import Key


@dataclass(frozen=True, slots=True)
class Scores:
    """A matrix of comparisons.

    Attributes:
        incoming: keys of the rows.
        wanted: keys of the columns.
        rows: one comparison for each pair, without transforms and without regard to names.
    """

    incoming: tuple[Key, ...]
    wanted: tuple[Key, ...]
    rows: tuple[tuple[Comparison, ...], ...]

    @property
    def mismatch_ratios(self) -> tuple[tuple[float, ...], ...]:
        """Mr of each pair, 0 to 1."""
        return tuple(tuple(comparison.mismatch_ratio for comparison in row) for row in self.rows)

    def __str__(self) -> str:
        table = [["", *self.wanted]]
        table += [
            [key, *(f"{ratio:.2f}" for ratio in row)]
            for key, row in zip(self.incoming, self.mismatch_ratios, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(key)}</th>" for key in ("", *self.wanted))
        body = "".join(
            f"<tr><th>{html.escape(key)}</th>{''.join(_cell(comparison) for comparison in row)}</tr>"
            for key, row in zip(self.incoming, self.rows, strict=True)
        )
        return f"<table><tr>{head}</tr>{body}</table>"


def _cell(comparison: Comparison) -> str:
    tooltip = f"diff {comparison.diff:g}, missing {comparison.missing:g} of {comparison.weight:g}"
    return f'<td title="{tooltip}">{comparison.mismatch_ratio:.2f}</td>'


def scores(
    incoming: Mapping[Key, Record], wanted: Mapping[Key, Record] | None = None, policy: Policy = PAPER
) -> Scores:
    """Compares all with all; one set of types with itself if `wanted` is missing. Only the weights and conversions of
    the policy count.

    Raises MORPH_TOO_COMPLEX.
    """
    wanted = incoming if wanted is None else wanted
    rows = {key: record_to_profile(record, policy.field_weights) for key, record in incoming.items()}
    columns = {key: record_to_profile(record, policy.field_weights) for key, record in wanted.items()}
    weights = {key: profile_weight(profile) for key, profile in columns.items()}
    return Scores(
        tuple(rows),
        tuple(columns),
        tuple(
            tuple(compare_profiles(row, column, weights[key], policy.convertible) for key, column in columns.items())
            for row in rows.values()
        ),
    )
