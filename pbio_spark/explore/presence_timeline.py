"""`presence_timeline`: when the fields of a record type appear, change and disappear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from ecode.types import Field, Record, Type, references
from pbio_spark.explore.axes import (
    BLUE,
    INK,
    LABEL,
    LIGHT_BLUE,
    MANY,
    ORANGE,
    PALE,
    axes_of,
    short,
    shortened,
    slant,
    width_of,
)
from pbio_spark.explore.given import Formats, given_to_versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_FIELDS = 200
"""The most fields that are drawn."""
KEY = "light: present, dark: new, diamond: new type"


def presence_timeline(versions: Mapping[str, Record] | Formats, ax: Axes | None = None) -> Axes:
    """A bar for each field over the versions that have it, oldest first; a mark where its type changes.

    Args:
        versions: record types by their labels, oldest first; or formats, a graph of them, or paths of files.

    Raises PBIO_MISSING_EXTRA, PBIO_BAD_VALUE for anything else, and what `pbio.read_formats` raises.
    """
    versions = given_to_versions(versions)
    fields = [dict(islice(field_types(record), MAX_FIELDS)) for record in versions.values()]
    paths = list(dict.fromkeys(path for types in fields for path in types))[:MAX_FIELDS]
    labels, names = [short(key) for key in versions], [shortened(path, 2 * LABEL) for path in paths]
    is_narrow = len(versions) > MANY
    looks, below = slant(labels, is_narrow=is_narrow)
    width = max((0.3 if is_narrow else 1.0) * len(versions), width_of([KEY], 9))
    ax = axes_of(ax, 0.3 + width_of(names) + width, 0.7 + below + 0.3 * len(paths))
    for y, path in enumerate(paths):
        for x, types in enumerate(fields):
            if path not in types:
                continue
            before = fields[x - 1].get(path) if x else None
            is_changed = before is not None and before != types[path]
            ax.barh(y, 1, left=x - 0.5, height=0.7, color=LIGHT_BLUE if x == 0 or before is not None else BLUE)
            if is_changed:
                ax.plot(x - 0.5, y, marker="D", markersize=6, color=ORANGE)
                said = "" if is_narrow else shortened(str(types[path]), 14)
                ax.annotate(said, (x, y), ha="center", va="center", fontsize=8, color=INK)
    ax.set_xticks(range(len(versions)), labels, **looks)
    ax.set_yticks(range(len(paths)), names)
    ax.set_xlim(-0.5, max(len(versions), 1) - 0.5)
    ax.set_ylim(max(len(paths), 1) - 0.5, -0.5)
    ax.set_axisbelow(True)
    ax.grid(axis="y", color=PALE, linewidth=0.5)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_title(KEY, fontsize=9, loc="left")
    return ax


def field_types(record: Record) -> Iterator[tuple[str, Type]]:
    """The path and type of every field that readers see; the fields of a structure follow it. A structure inside itself
    is not entered again."""
    structs = {struct.name: struct for struct in record.structs}
    stack: list[tuple[Field, str, tuple[str, ...]]] = [(f, f.name, (record.name,)) for f in reversed(record.fields)]
    while stack:
        f, path, around = stack.pop()
        if f.notes.hidden:
            continue
        yield path, f.type
        for name in references(f.type):
            if name not in around:
                stack += [(g, f"{path}.{g.name}", (*around, name)) for g in reversed(structs[name].fields)]
