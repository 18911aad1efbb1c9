"""`score_map`: the mismatch ratios of all pairs, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morph import Scores
from pbio_spark.errors import PbioError
from pbio_spark.explore.axes import INK, axes_of, short, slant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NUMBERS = 20
"""The most rows and columns for which the cells show numbers."""


def score_map(scores: Scores, ax: Axes | None = None) -> Axes:
    """A row for each incoming format, a column for each wanted type; the darker, the more fields stay empty.

    Raises PBIO_MISSING_EXTRA, and PBIO_BAD_VALUE for anything but scores.
    """
    if not isinstance(scores, Scores):
        reason = f"expected scores, not {type(scores).__name__}"
        raise PbioError("PBIO_BAD_VALUE", reason, hint="morph.scores(incoming, wanted) compares formats with types")
    rows, columns = len(scores.incoming), len(scores.wanted)
    ax = axes_of(ax, 1.6 + 0.7 * columns, 1.2 + 0.45 * rows)
    image = ax.imshow(scores.mismatch_ratios, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    labels = [short(key) for key in scores.wanted]
    ax.set_xticks(range(columns), labels, **slant(labels))
    ax.set_yticks(range(rows), [short(key) for key in scores.incoming])
    ax.set_xlabel("wanted")
    ax.set_ylabel("incoming")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    if max(rows, columns) <= MAX_NUMBERS:
        for y, row in enumerate(scores.rows):
            for x, comparison in enumerate(row):
                ratio = comparison.mismatch_ratio
                text = "✓" if comparison.is_perfect else f"{ratio:.2f}"
                ax.text(x, y, text, ha="center", va="center", color="white" if ratio > 0.6 else INK, fontsize=9)
    ax.figure.colorbar(image, ax=ax, label="mismatch ratio", shrink=0.9)
    return ax
