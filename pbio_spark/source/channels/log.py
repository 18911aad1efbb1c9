"""Which channels are read, from where, and what the log has of them: options -> channels, places, pieces.

One `ChannelLog` reads one log forward, and reads a commit once, as far as it is used one step after the other.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat

from ecode.suggest import did_you_mean
from pbio_spark.channels import ChannelSpace, Position
from pbio_spark.channels.commits.entries import Create, Data, Drop, Entry
from pbio_spark.channels.log.blocks import Block, Placed
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.subscribe.reading import Piece, gone_to_error
from pbio_spark.errors import PbioError
from pbio_spark.source.channels.place import Place
from pbio_spark.source.options.options import Options

log = logging.getLogger("pbio_spark.source")

PASSED = 1000
"""How many commits without events for us are passed by before a stream notes that in its checkpoint."""

READERS = 16
READ_AHEAD = 128
"""How many commits are asked for at once, and ahead of what is needed, where each takes a request to a server."""

SHOWN = 10
"""How many names of channels an error lists."""


class ChannelLog:
    """The log of a space, as the channels see it that options name.

    Attributes:
        space: that it is of.
        ids: of the channels that are read.
        infos: by ID, these channels, and those that were read until they were dropped.

    Raises PBIO_UNKNOWN_CHANNEL for names that no channel has, and what `ChannelSpace.open` raises.
    """

    def __init__(self, root: str, options: Options) -> None:
        self.space = ChannelSpace.open(root)
        self._options = options
        with self.space.history.lock:
            state = self.space.history.catch_up()
            self.version = state.version
            self.infos = _chosen(state.channels, options, root)
        self._pattern = None if options.channel_pattern is None else re.compile(options.channel_pattern)
        self.ids = set(self.infos)
        self._pieces: dict[int, Sequence[Piece]] = {}
        """By version, what is known of commits that a batch may soon be made of."""
        self._dropped: tuple[int, ChannelInfo] | None = None
        """A channel that was asked for by its name, and the commit that dropped it."""
        self._drops: dict[int, int] = {}
        """The commits that dropped channels, as far as they were read."""
        self._gone: dict[int, str] = {}
        """The names of channels that were read and then dropped, before their last events may have been read."""
        self._lost: set[int] = set()
        self._looked: tuple[Place, int] | None = None
        """A place behind which there is no event of ours, up to a version."""

    @property
    def end(self) -> Position:
        """The position behind all that was there when the log was opened."""
        return Position(self.version + 1)

    def start(self, default: str) -> Place:
        """Where options say that reading begins; `default` is `earliest` or `latest`."""
        said = self._options.starting_offsets or default
        since = self._options.starting_timestamp
        if since is None and said == "latest":
            return Place(self.end, channels=frozenset(self.ids))
        if since is None and not isinstance(said, str):
            return Place(self.checked(Position(*said)), channels=frozenset(self.ids))
        first = 0 if since is None else self.space.history.first_since(since, 1)
        return Place.of({info.id: Position(max(first, info.first)) for info in self.infos.values()}, self.end)

    def resumed(self, place: Place) -> Place:
        """A place that was kept, for the channels that are read now.

        A channel goes on where it was left, however long ago; one that was never read, but was there, begins with its
        first event. Raises PBIO_EVENTS_GONE if a channel that is named was dropped and made anew.
        """
        if place.channels is None:
            return replace(place, channels=frozenset(self.ids))
        left = dict(place.left)
        channels = set(place.channels)
        for channel in place.channels - self.infos.keys() - self._gone.keys():
            channels.remove(channel)
            if channel in self.space.history.state.channels:
                left[channel] = place.start(channel)
            elif self._is_missed(channel):
                channels.add(channel)
        starts = {channel: left.pop(channel, None) for channel in self.ids - place.channels}
        if not starts:
            return place if channels == place.channels else replace(place, channels=frozenset(channels), left=left)
        for channel, start in starts.items():
            starts[channel] = start or Position(max(self.infos[channel].first, channel + 1))
        starts |= {channel: place.start(channel) for channel in channels}
        return replace(Place.of(starts, place.position), left=left, formats=place.formats)  # type: ignore[arg-type]

    def _is_missed(self, channel: int) -> bool:
        """Whether a channel that was dropped would still be read. Raises PBIO_EVENTS_GONE if it was named."""
        entry = self.space.history.entry(channel)
        name = entry.change.name if entry is not None and isinstance(entry.change, Create) else ""
        if self._pattern is not None:
            if self._pattern.fullmatch(name) is None:
                return False
            self._gone[channel] = name
            return True
        anew = next((info.id for info in self.infos.values() if info.name == name), None)
        if anew is not None:
            self._miss(channel, f"the channel {name!r} was dropped and made anew: it is number {anew}, not {channel}")
        return False

    def checked(self, position: Position) -> Position:
        """A position that somebody said. Raises PBIO_BAD_OFFSET if the log does not reach it."""
        if position > self.end and position > (end := self.now()):
            raise PbioError(
                "PBIO_BAD_OFFSET",
                f"{position} is after the end of the space, {end}",
                file=self.space.root,
                hint="it may be a position of another space, or of one that was there before",
            )
        return position

    def now(self) -> Position:
        """The position behind all that there is."""
        return Position(self.space.history.catch_up().version + 1)

    def channels_in(self, end: Position) -> set[int]:
        """The channels that commits in front of a position have events of, as far as they were lately looked at."""
        known = (pieces for version, pieces in self._pieces.items() if Position(version) < end)
        return {piece.group.channel for pieces in known for piece in pieces}

    def pieces(self, start: Place, end: Position) -> Iterator[Piece]:
        """The events from one place to another, in the order of the log. Raises PBIO_EVENTS_GONE, PBIO_BAD_OFFSET."""
        self.checked(end)
        # There are no events of channels in front of the channels.
        version = max(start.position.version, min(self.infos, default=end.version))
        while Position(version) < end and (pieces := self._commit(version, start)) is not None:
            for piece in pieces:
                cut = _cut(piece, start.start(piece.group.channel), end)
                if cut is not None:
                    yield cut
            version += 1

    def latest(self, start: Place, end: Position | None, most_events: int | None, most_bytes: int | None) -> Place:
        """How far a batch that begins at `start` can read; `start` itself if there is nothing for it to read.

        Args:
            end: that it must not go behind; None for all that there is.

        Raises PBIO_EVENTS_GONE; PBIO_UNKNOWN_CHANNEL when a channel that was named has been dropped, and all its events
        were read.
        """
        version = start.position.version
        self._pieces = {known: pieces for known, pieces in self._pieces.items() if known >= version}
        if self._looked is not None and self._looked[0] == start:
            version = self._looked[1]
        events = size = 0
        formats: set[str] = set()
        while end is None or Position(version) < end:
            pieces = self._commit(version, start)
            if pieces is None:
                break
            if self._dropped is not None and self._dropped[0] == version:
                if events:
                    break
                raise PbioError("PBIO_UNKNOWN_CHANNEL", f"the channel {self._dropped[1].name!r} has been dropped")
            for whole in pieces:
                piece = _cut(whole, start.start(whole.group.channel), end)
                if piece is None:
                    continue
                room = piece.events if most_events is None else most_events - events
                if most_bytes is not None:
                    room = min(room, (most_bytes - size) * piece.events // max(piece.bytes, 1))
                room = max(room, 0 if events else 1)
                if room:
                    formats.add(piece.group.format)
                if room < piece.events:
                    return self._at(start, Position(version, piece.group.file, piece.first + room), formats)
                events += piece.events
                size += piece.bytes
            version += 1
        if not events and version - start.position.version <= PASSED:
            self._looked = start, version
            return start
        return self._at(start, Position(version) if end is None else min(Position(version), end), formats)

    def _at(self, start: Place, position: Position, formats: set[str]) -> Place:
        """A place further on, with the channels that came and went on the way, and the formats that were met."""
        channels = (start.channels or frozenset()) | self.ids
        gone = {channel for channel, version in self._drops.items() if version < position.version}
        met = start.formats if start.formats is None and not formats else (start.formats or frozenset()) | formats
        return replace(start.at(position), channels=channels - gone, formats=met)

    def _commit(self, version: int, start: Place) -> Sequence[Piece] | None:
        """All events of our channels in a commit that are kept; None if there is no such commit yet.

        Raises PBIO_BAD_LOG, and PBIO_EVENTS_GONE.
        """
        if version not in self._pieces and (block := self.space.history.block(version)) is not None:
            self._read_block(block, version, start)
        elif version not in self._pieces:
            if version >= self.version or self.space.folder.is_local:
                self._read(version, start)
            else:
                with ThreadPoolExecutor(READERS) as pool:
                    ahead = range(version, min(version + READ_AHEAD, self.version + 1))
                    list(pool.map(self._read, ahead, repeat(start)))
        if version not in self._pieces and self.space.history.check_end(version):
            self._read(version, start)
        return self._pieces.get(version)

    def _read(self, version: int, start: Place) -> None:
        entry = self.space.history.entry(version)
        if entry is not None:
            self._follow(version, entry)
            self._pieces[version] = list(self._entry_to_pieces(version, entry, start))

    def _read_block(self, block: Block, version: int, start: Place) -> None:
        """Look at commits from a version on that lie in a block."""
        end = min(block.last + 1, version + READ_AHEAD)
        found: dict[int, list[Piece]] = {one: [] for one in range(version, end)}
        for one in block.walk(self.ids | self._gone.keys(), version, end):
            if isinstance(one, int):
                before = set(self.ids)
                self._read(one, start)
                del found[one]
                if self.ids != before:  # what follows has to be looked at anew
                    end = one + 1
                    found = {version: pieces for version, pieces in found.items() if version < end}
                    break
            else:
                found[one.version] += self._group_to_pieces(one, start)
        self._pieces |= found
        self.version = max(self.version, end - 1)

    def _follow(self, version: int, entry: Entry) -> None:
        """Take note of channels that come and go."""
        change = entry.change
        if isinstance(change, Drop):
            self._drops[change.channel] = version
        if version <= self.version:
            return
        self.version = version
        if isinstance(change, Create) and self._pattern is not None and self._pattern.fullmatch(change.name):
            self.infos[version] = ChannelInfo(version, change.name, change.format, entry.time, first=version + 1)
            self.ids.add(version)
        elif isinstance(change, Drop) and change.channel in self.ids:
            if self._pattern is None:
                self._dropped = version, self.infos[change.channel]
            self.ids.remove(change.channel)

    def _entry_to_pieces(self, version: int, entry: Entry, start: Place) -> Iterator[Piece]:
        if not isinstance(entry.change, Data):
            return
        for group in self.space.history.groups(entry.change, self.ids | self._gone.keys()):
            placed = Placed(group, version, entry.time, entry.change.files[group.file].path)
            yield from self._group_to_pieces(placed, start)

    def _group_to_pieces(self, placed: Placed, start: Place) -> Iterator[Piece]:
        group, version, published, path = placed
        end = group.end_in(version)
        if group.channel in self._gone:
            name, first = self._gone[group.channel], start.start(group.channel)
            if end > first:
                self._miss(group.channel, f"{name!r} was dropped before its events from {first} on were read")
            return
        info = self.infos[group.channel]
        if version < info.first:
            if end > start.start(info.id):
                self._lose(info)
            return
        path, further = self.space.history.located(version, path) or (path, 0)
        yield Piece(group, version, published, path, further, group.ordinal, end.ordinal)

    def _lose(self, info: ChannelInfo) -> None:
        if self._options.fail_on_data_loss:
            raise gone_to_error(info)
        self._warn(info.id, f"events of the channel {info.name} before {info.gone} are no longer kept")

    def _miss(self, channel: int, reason: str) -> None:
        """Raise PBIO_EVENTS_GONE for a channel that was dropped, or warn."""
        if self._options.fail_on_data_loss:
            hint = "failOnDataLoss=false goes on without the events that were not read"
            raise PbioError("PBIO_EVENTS_GONE", reason, file=self.space.root, hint=hint)
        self._warn(channel, reason)

    def _warn(self, channel: int, reason: str) -> None:
        if channel not in self._lost:
            log.warning("%s: %s", self.space.root, reason)
            self._lost.add(channel)


def _chosen(channels: Mapping[int, ChannelInfo], options: Options, root: str) -> dict[int, ChannelInfo]:
    """The channels that options name, by ID."""
    by_name = {info.name: info for info in channels.values()}
    if options.channel_pattern is not None:
        names = [name for name in by_name if re.fullmatch(options.channel_pattern, name)]
    else:
        names = list(dict.fromkeys(options.channels or (options.channel or "",)))
    for name in names:
        if name not in by_name:
            raise PbioError(
                "PBIO_UNKNOWN_CHANNEL",
                f"there is no channel {name!r}",
                file=root,
                hint="several channels: option channels"
                if name == options.channel and "," in name
                else did_you_mean(name, by_name) or channels_hint(by_name),
            )
    return {by_name[name].id: by_name[name] for name in names}


def channels_hint(names: Collection[str]) -> str:
    """
    >>> channels_hint(["stocks"])
    'there are channels stocks'
    """
    shown = ", ".join(sorted(names)[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"there are channels {shown}{more}" if names else "there are no channels yet"


def _cut(piece: Piece, start: Position, end: Position | None) -> Piece | None:
    """What of a piece lies between two positions; None if nothing does."""
    first, stop = piece.first, piece.stop
    place = piece.version, piece.group.file
    if place <= (start.version, start.file):
        first = max(first, start.ordinal) if place == (start.version, start.file) else stop
    if end is not None and place >= (end.version, end.file):
        stop = min(stop, end.ordinal) if place == (end.version, end.file) else first
    if (first, stop) == (piece.first, piece.stop):
        return piece
    return replace(piece, first=first, stop=stop) if first < stop else None
