"""`lineage_plot`: record types and the transforms between them, the oldest at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morph import Lineage
from pbio_spark.explore.axes import BLUE, INK, LABEL, LIGHT_BLUE, PALE, axes_of, short, shortened, width_of
from pbio_spark.explore.given import Formats, given_to_lineage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from morph.evolution.lineages import Relative


def lineage_plot(lineage: Lineage | Formats, ax: Axes | None = None) -> Axes:
    """A box for each record type, an arrow for each transform; a dashed box is a format without a description.

    Args:
        lineage: from `morph.lineage`, or its source: a graph, formats, or paths of files.

    Raises PBIO_MISSING_EXTRA, PBIO_BAD_VALUE for anything else, and what `pbio.read_formats` raises.
    """
    lineage = given_to_lineage(lineage)
    places = places_of(lineage)
    width = 1 + max((x for x, _ in places.values()), default=0)
    height = 1 + max((y for _, y in places.values()), default=0)
    texts = {relative.key: _text(relative) for relative in lineage.types}
    ax = axes_of(ax, max(0.5 + width_of(texts.values(), 9), 1.5) * width, 1.1 * height)
    for relative in lineage.types:
        for older in relative.older:
            _arrow(ax, places[relative.key], places[older])
    for relative in lineage.types:
        is_known = bool(relative.name)
        box = {
            "boxstyle": "round,pad=0.5",
            "facecolor": LIGHT_BLUE if is_known else "white",
            "edgecolor": BLUE if is_known else PALE,
            "linestyle": "solid" if is_known else "dashed",
        }
        ax.text(
            *places[relative.key],
            texts[relative.key],
            ha="center",
            va="center",
            fontsize=9,
            color=INK,
            bbox=box,
            zorder=3,
        )
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(-0.5, height - 0.5)
    ax.axis("off")
    return ax


def _text(relative: Relative) -> str:
    more = f" +{len(relative.others)}" if relative.others else ""
    return f"{shortened(relative.label, LABEL)}\n{short(relative.key)}{more}"


def places_of(lineage: Lineage) -> dict[str, tuple[float, float]]:
    """The position of each record type: above all types that it has transforms to, beside others of its height."""
    heights: dict[str, int] = {}
    for relative in lineage.types:  # oldest first, so a place can be unknown only in cycles
        below = [heights[key] for key in relative.older if key in heights]
        heights[relative.key] = 1 + max(below, default=-1)
    rows: dict[int, list[str]] = {}
    for key, height in heights.items():
        rows.setdefault(height, []).append(key)
    widest = max(map(len, rows.values()), default=0)
    return {
        key: (number + (widest - len(row)) / 2, float(height))
        for height, row in rows.items()
        for number, key in enumerate(row)
    }


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    # Straight between neighbours; a curve avoids boxes in between.
    is_far = abs(start[1] - end[1]) > 1 or start[1] <= end[1]
    style = {"arrowstyle": "-|>", "color": INK, "shrinkA": 22, "shrinkB": 22, "linewidth": 1}
    ax.annotate("", end, start, arrowprops={**style, "connectionstyle": f"arc3,rad={0.35 if is_far else 0}"})
