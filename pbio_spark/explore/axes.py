"""Axes to draw into, and the style of the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pbio_spark.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
PALE = "#cbd2d9"
BLUE = "#2b6cb0"
LIGHT_BLUE = "#bee3f8"
ORANGE = "#dd6b20"

LABEL = 24
"""The most letters of a label."""
MANY = 20
"""From how many rows or columns on, they are narrow, and nothing is written into them."""


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or new ones of a size in inches. Raises PBIO_MISSING_EXTRA."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "viz")
    made: Axes = pyplot.figure(figsize=(width, height), layout="constrained").add_subplot()
    return made


def short(key: str) -> str:
    """A shortened key: formats differ in the ends of their IDs, hardly in the beginnings; other names keep both.

    >>> short("0200001b54f71865393441e7"), short("MonitoringMsg@1")
    ('…393441e7', 'MonitoringMsg@1')
    """
    is_id = len(key) == 24 and all(letter in "0123456789abcdef" for letter in key)
    return f"…{key[-8:]}" if is_id else shortened(key, LABEL)


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters.

    >>> shortened("a_long_name@12", 10), shortened("short", 10)
    ('a_lo…me@12', 'short')
    """
    end = most // 2
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def width_of(labels: Iterable[str], size: float = 10) -> float:
    """The room that the longest of some labels needs, in inches.

    Args:
        size: of the letters, in points.
    """
    return 0.1 + 0.0095 * size * max((len(line) for label in labels for line in label.split("\n")), default=0)


def slant(labels: Sequence[str], *, is_narrow: bool = False) -> tuple[dict[str, Any], float]:
    """How labels below an axis stand, and how much room they take, in inches: upright only while they are short.

    Args:
        is_narrow: whether they stand so close that they run downwards.
    """
    if is_narrow:
        return {"rotation": 90, "fontsize": 8}, width_of(labels, 8)
    if any(len(label) > 6 for label in labels):
        return {"rotation": 30, "ha": "right"}, 0.2 + 0.5 * width_of(labels)
    return {}, 0.2
