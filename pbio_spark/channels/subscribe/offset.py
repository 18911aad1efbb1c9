"""The offset of a stream over channels, as readable JSON.

    {"version": 1, "space": "5ac1e0...", "position": "12.0.7", "channels": [3, 5]}

All channels of a space share one order, so one position is enough, however many channels are read. If a stream starts
to read some channels later than others, the offset says so until it gets there: `"from": {"5": "14.0.0"}`. It also
keeps how far former channels were read: `"left": {"7": "9.0.2"}`. Channels are named by their IDs,
since a channel that is dropped and created again is a different one. The IDs of the formats seen (`"formats":
["0200..."]`) let the next run recognise a new format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pbio_spark.channels.position import Position
from pbio_spark.errors import PbioError

VERSION = 1


@dataclass(frozen=True, slots=True)
class LogOffset:
    """How far some channels of a space have been read.

    Attributes:
        position: of the next event to be read.
        starts: by channel ID, where reading it begins, if after `position`.
        channels: the IDs of the channels read; None in old offsets, which lack them.
        left: by ID, how far former channels were read.
        formats: the IDs of the formats of events so far, in hexadecimal; None before the first event.
    """

    position: Position
    starts: Mapping[int, Position] = field(default_factory=dict)
    channels: frozenset[int] | None = None
    left: Mapping[int, Position] = field(default_factory=dict)
    formats: frozenset[str] | None = None

    @classmethod
    def of(cls, starts: Mapping[int, Position], end: Position) -> LogOffset:
        """The offset for reading channels from given positions; `end` if there are none."""
        first = min(starts.values(), default=end)
        return cls(first, starts, frozenset(starts)).at(first)

    def at(self, position: Position) -> LogOffset:
        """The offset at a later position."""
        starts = {channel: start for channel, start in self.starts.items() if start > position}
        return replace(self, position=position, starts=starts)

    def start(self, channel: int) -> Position:
        """The position at which reading a channel continues."""
        return max(self.position, self.starts.get(channel, self.position))


def offset_to_json(offset: LogOffset, space: str) -> dict[str, Any]:
    """
    >>> channels, formats = frozenset([3, 5]), frozenset(["02"])
    >>> offset = LogOffset(Position(12, 0, 7), {3: Position(15)}, channels, {7: Position(9)}, formats)
    >>> json_to_offset(offset_to_json(offset, "5ac1e0"), "5ac1e0") == offset
    True
    """
    made: dict[str, Any] = {"version": VERSION, "space": space, "position": str(offset.position)}
    if offset.channels is not None:
        made["channels"] = sorted(offset.channels)
    if offset.formats is not None:
        made["formats"] = sorted(offset.formats)
    for name, positions in (("from", offset.starts), ("left", offset.left)):
        if positions:
            made[name] = {str(channel): str(position) for channel, position in positions.items()}
    return made


def json_to_offset(said: Mapping[str, Any], space: str) -> LogOffset:
    """Raises PBIO_BAD_OFFSET for an offset that is invalid or belongs to another space."""
    try:
        if said["version"] != VERSION:
            raise ValueError(f"version {said['version']}")
        starts, left = (
            {int(channel): Position.parse(position) for channel, position in said.get(name, {}).items()}
            for name in ("from", "left")
        )
        channels = frozenset(map(int, said["channels"])) if "channels" in said else None
        formats = frozenset(map(str, said["formats"])) if "formats" in said else None
        offset, other = LogOffset(Position.parse(said["position"]), starts, channels, left, formats), str(said["space"])
    except (LookupError, TypeError, ValueError, AttributeError, PbioError) as error:
        why = error.reason if isinstance(error, PbioError) else str(error)
        why = why if isinstance(error, PbioError | ValueError) else "it has another form"
        reason = f"the checkpoint's offset {str(said)[:200]} is not an offset of channels: {why}"
        hint = "the checkpoint is of another query; start with a new one"
        raise PbioError("PBIO_BAD_OFFSET", reason, hint=hint) from None
    if other != space:
        raise PbioError(
            "PBIO_BAD_OFFSET",
            f"the checkpoint belongs to the space {other[:40]}, and this is {space}: two spaces are mixed up",
            hint="give the query its own checkpoint, or the path of its space",
        )
    return offset
