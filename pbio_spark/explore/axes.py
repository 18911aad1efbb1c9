"""Axes to draw into, and the style of the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pbio_spark.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
PALE = "#cbd2d9"
BLUE = "#2b6cb0"
LIGHT_BLUE = "#bee3f8"
ORANGE = "#dd6b20"


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or new ones of a size in inches. Raises PBIO_MISSING_EXTRA."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "viz")
    made: Axes = pyplot.figure(figsize=(width, height), layout="constrained").add_subplot()
    return made


def short(key: str) -> str:
    """A shortened key: formats differ in the ends of their IDs, hardly in the beginnings.

    >>> short("0200001b54f71865393441e7"), short("old")
    ('…393441e7', 'old')
    """
    return key if len(key) <= 12 else f"…{key[-8:]}"


def slant(labels: list[str]) -> dict[str, Any]:
    """The rotation of labels below an axis: none while they are short.

    >>> slant(["1998", "2006"]), slant(["1998", "…393441e7"])
    ({}, {'rotation': 30, 'ha': 'right'})
    """
    return {"rotation": 30, "ha": "right"} if any(len(label) > 6 for label in labels) else {}
