"""`score_map`: the mismatch ratios of all pairs, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morph import Scores
from pbio_spark.errors import PbioError
from pbio_spark.explore.axes import INK, MANY, axes_of, short, slant, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def score_map(scores: Scores, ax: Axes | None = None) -> Axes:
    """A row for each incoming format, a column for each wanted type; the darker, the more fields stay empty.

    Raises PBIO_MISSING_EXTRA, and PBIO_BAD_VALUE for anything but scores of at least one format and type.
    """
    if not isinstance(scores, Scores):
        reason = f"expected scores, not {type(scores).__name__}"
        raise PbioError("PBIO_BAD_VALUE", reason, hint="morph.scores(incoming, wanted) compares formats with types")
    rows, columns = len(scores.incoming), len(scores.wanted)
    if not (rows and columns):
        raise PbioError("PBIO_BAD_VALUE", "the scores are empty", hint="give morph.scores at least one record type")
    left, labels = [short(key) for key in scores.incoming], [short(key) for key in scores.wanted]
    is_narrow = max(rows, columns) > MANY
    looks, below = slant(labels, is_narrow=is_narrow)
    # The bar of colours beside it needs a height for its own label.
    width, height = (0.25, 0.25) if is_narrow else (0.7, 0.45)
    ax = axes_of(ax, 2 + width_of(left) + width * columns, 0.5 + below + max(height * rows, 1.5))
    image = ax.imshow(scores.mismatch_ratios, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(columns), labels, **looks)
    ax.set_yticks(range(rows), left)
    ax.set_xlabel("wanted")
    ax.set_ylabel("incoming")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    if not is_narrow:
        for y, row in enumerate(scores.rows):
            for x, comparison in enumerate(row):
                ratio = comparison.mismatch_ratio
                text = "✓" if comparison.is_perfect else f"{ratio:.2f}"
                ax.text(x, y, text, ha="center", va="center", color="white" if ratio > 0.6 else INK, fontsize=9)
    ax.figure.colorbar(image, ax=ax, label="mismatch ratio", aspect=max(20, rows), fraction=0.05)
    return ax
