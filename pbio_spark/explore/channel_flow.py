"""`channel_flow`: the events on the channels of a space, commit by commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pbio_spark.explore.axes import BLUE, INK, LABEL, LIGHT_BLUE, ORANGE, PALE, axes_of, short, shortened, width_of
from pbio_spark.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pbio_spark.channels import ChannelInfo, ChannelSpace

MAX_CHANNELS = 100
"""The most channels that are drawn by default."""
MAX_COMMITS = 1000
"""The number of recent commits that are drawn."""
COUNT: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 6, "color": INK}
COLUMNS = 3
"""Of the legend."""
COLORS = (BLUE, ORANGE, "#2f855a", "#805ad5", "#b7791f", "#c53030")


def channel_flow(space: ChannelSpace, channels: Iterable[str] | None = None, ax: Axes | None = None) -> Axes:
    """A line for each channel from its creation on, a dot for its events in each commit, larger for more.

    The colour of a dot is that of the events' format. A dashed arrow leads to a derived channel, labelled with how many
    events its code processed, how many it produced, and how many bytes that saved; a triangle shows how far a named
    subscriber has acknowledged.

    Args:
        channels: the names of the channels to draw; None for all.

    Raises PBIO_MISSING_EXTRA, PBIO_UNKNOWN_CHANNEL.
    """
    known = space.channels()
    infos = known[:MAX_CHANNELS] if channels is None else [space.channel(name).info for name in channels]
    infos.sort(key=lambda info: info.id)
    lines = {info.id: y for y, info in enumerate(infos)}
    last = space.history.catch_up().version
    first = max(1, last - MAX_COMMITS + 1)
    flows = flows_of(space, lines, first, last)
    counts = counts_of(space, infos)
    names = [shortened(info.name, LABEL) for info in infos]
    keys = _keys(space, list(dict.fromkeys(format_id for _, _, format_id in flows)))
    legend = min(len(keys), COLUMNS) * (0.4 + width_of(keys.values(), 7))
    width = max(3 + min(0.12 * (last - first + 1), 9), legend)
    ax = axes_of(ax, 0.3 + width_of(names) + width, 1.2 + 0.15 * len(keys) / COLUMNS + 0.6 * max(len(infos), 1))
    for info in infos:
        y, start = lines[info.id], max(info.id, first)
        ax.plot((start, last + 0.5), (y, y), color=PALE, linewidth=1, zorder=0)
        parent = None if info.derivation is None else lines.get(info.derivation.parent)
        if parent is not None:
            arrow = {"arrowstyle": "-|>", "color": INK, "linestyle": "--", "linewidth": 0.8}
            ax.annotate("", (start, y), (start, parent), arrowprops=arrow)
            if info.id in counts:
                between = y - 0.5 if parent < y else y + 0.5
                ax.annotate(counts[info.id], (start, between), (4, 0), **COUNT)
    _draw_events(ax, keys, flows, lines)
    _draw_subscribers(ax, space, lines, first, last)
    ax.set_yticks(range(len(infos)), names)
    ax.set_ylim(max(len(infos), 1) - 0.4, -0.6)
    ax.set_xlim(first - 0.5, last + 1.5)
    ax.xaxis.set_major_locator(require("matplotlib.ticker", "viz").MaxNLocator(integer=True))
    ax.set_xlabel("commit", fontsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _keys(space: ChannelSpace, formats: Sequence[str]) -> dict[str, str]:
    """What the legend calls formats, by ID: with the ends of IDs where names are not enough."""
    found = {format_id: space.formats.get(bytes.fromhex(format_id)) for format_id in formats}
    names = {key: key if form is None else f"{form.name}, {form.machine}" for key, form in found.items()}
    times = Counter(names.values())
    return {key: shortened(name, LABEL) + (f", {short(key)}" if times[name] > 1 else "") for key, name in names.items()}


def _draw_subscribers(ax: Axes, space: ChannelSpace, lines: Mapping[int, int], first: int, last: int) -> None:
    """A triangle for those of a channel that have come equally far, with their names."""
    there: dict[tuple[int, int], list[str]] = {}
    for subscriber in space.subscribers():
        if subscriber.channel in lines:
            version = min(max(subscriber.position.version, first), last + 1)
            there.setdefault((lines[subscriber.channel], version), []).append(subscriber.name)
    middle = (first + last) / 2
    # Names of neighbours take turns in two lines, and lead from the triangle to where there is room.
    for number, ((y, version), names) in enumerate(sorted(there.items())):
        place, is_right = (version - 0.5, y + 0.28), version <= middle
        ax.plot(*place, marker="^", color=LIGHT_BLUE, markeredgecolor=INK, markersize=6, zorder=3)
        text = f"{names[0]} +{len(names) - 1}" if len(names) > 1 else names[0]
        offset = (6 if is_right else -6, -3 if number % 2 == 0 else -10)
        side = "left" if is_right else "right"
        how: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "color": INK, "ha": side}
        ax.annotate(shortened(text, LABEL), place, offset, **how)


def _draw_events(
    ax: Axes, keys: Mapping[str, str], flows: Mapping[tuple[int, int, str], int], lines: Mapping[int, int]
) -> None:
    """The dots of each format, and the legend of their colours; `lines` has the positions of the channels."""
    most = max(flows.values(), default=1)
    for number, (format_id, label) in enumerate(keys.items()):
        dots = [(version, lines[channel], n) for (version, channel, of), n in flows.items() if of == format_id]
        x, y, counts = zip(*dots, strict=True)
        sizes = [15 + 135 * count / most for count in counts]
        ax.scatter(x, y, s=sizes, color=COLORS[number % len(COLORS)], label=label, zorder=2)
    if keys:
        ax.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=COLUMNS, frameon=False)


def counts_of(space: ChannelSpace, infos: Iterable[ChannelInfo]) -> dict[int, str]:
    """How many events went into and came out of derived channels, by ID; channels without reports are left out."""
    wanted = {info.name: info.id for info in infos}
    rows = [row for row in space.derivations() if row.channel in wanted and row.reported is not None]
    seen: Counter[int] = Counter()
    made: Counter[int] = Counter()
    saved: Counter[int] = Counter()
    for row in rows:
        seen[wanted[row.channel]] += row.seen
        made[wanted[row.channel]] += row.made
        saved[wanted[row.channel]] += row.parent_bytes - row.bytes
    return {channel: f"{seen[channel]} in, {made[channel]} out, {_saved(saved[channel])}" for channel in seen}


def _saved(size: int) -> str:
    """
    >>> _saved(999), _saved(25_300), _saved(-4_000_000)
    ('999 B saved', '25.3 KB saved', '4.0 MB more')
    """
    power = min((len(str(abs(size))) - 1) // 3, 4)
    number = f"{abs(size) / 1000**power:.1f}" if power else str(abs(size))
    return f"{number} {'KMGT'[power - 1] if power else ''}B {'more' if size < 0 else 'saved'}"


def flows_of(space: ChannelSpace, channels: Iterable[int], first: int, last: int) -> Counter[tuple[int, int, str]]:
    """The number of events, by the version of the commit, the ID of the channel, and the ID of the format."""
    from pbio_spark.channels import Data

    found: Counter[tuple[int, int, str]] = Counter()
    wanted = set(channels)
    for version in range(first, last + 1):
        entry = space.history.entry(version)
        if entry is not None and isinstance(entry.change, Data):
            for group in space.history.groups(entry.change, wanted):
                found[version, group.channel, group.format] += group.count
    return found
