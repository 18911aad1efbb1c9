"""Commits -> the events of some channels, in the order of the log: read by `Subscription` and by Spark's sources.

A `LogFollower` moves forward through one log and reads each commit once, if its steps are used in order.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

from pbio_spark.channels.commits.commit import Commit, Create, Data, Drop
from pbio_spark.channels.log.blocks import FoldBlock, Placed
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.position import Position
from pbio_spark.channels.subscribe.data_files import gone_to_error, loss_to_error
from pbio_spark.channels.subscribe.offset import LogOffset
from pbio_spark.channels.subscribe.reading import Piece
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

PASSED = 1000
"""How many commits without wanted events are passed before `latest` returns a later offset."""

READERS = 16
READ_AHEAD = 128
"""How many commits are requested at once, in advance, where each takes a request to a server."""


class LogFollower:
    """The log of a space, as seen by readers of some of its channels.

    Attributes:
        ids: of the channels that are read.
        infos: by ID, these channels, and those read until they were dropped.
        end: the position after all commits at the time of creation.
        dropped: a channel read by name, and the version of the commit that dropped it, once read.
    """

    def __init__(
        self,
        folder: Folder,
        history: History,
        infos: Iterable[ChannelInfo],
        *,
        pattern: str | None = None,
        fail_on_loss: bool = True,
        known: int | None = None,
    ) -> None:
        """
        Args:
            infos: the channels to begin with.
            pattern: channels with matching names join when created and leave when dropped; without a pattern, channels
                are read by their names.
            fail_on_loss: whether events that are no longer kept are an error, or are skipped with a warning.
            known: the version up to which the creation and dropping of channels is reflected in `infos`; by default the
                last one.
        """
        self._folder = folder
        self._history = history
        with history.lock:
            self._version = history.catch_up().version
        self.end = Position(self._version + 1)
        self.infos = {info.id: info for info in infos}
        self.ids = set(self.infos)
        self.dropped: tuple[ChannelInfo, int] | None = None
        self._pattern = None if pattern is None else re.compile(pattern)
        self._fail_on_loss = fail_on_loss
        self._followed = self._version if known is None else known
        self._pieces: dict[int, Sequence[Piece]] = {}
        """By version, the events of cached commits."""
        self._drops: dict[int, int] = {}
        """The commits read so far that dropped channels."""
        self._gone: dict[int, str] = {}
        """The names of dropped channels whose last events may not have been read yet."""
        self._warned: set[int] = set()
        self._looked: tuple[LogOffset, int] | None = None
        """An offset without wanted events after it, up to a version."""

    def start(self, where: Literal["earliest", "latest"] | Position | int) -> LogOffset:
        """Where reading begins; an integer is a time of publication, in microseconds since 1970 UTC.

        Raises PBIO_BAD_OFFSET for a position after the end of the log.
        """
        if where == "latest":
            return LogOffset(self.end, channels=frozenset(self.ids))
        if isinstance(where, Position):
            return LogOffset(self.checked(where), channels=frozenset(self.ids))
        first = self._history.first_since(where, 1) if isinstance(where, int) else 0
        return LogOffset.of({info.id: Position(max(first, info.first)) for info in self.infos.values()}, self.end)

    def resumed(self, offset: LogOffset) -> LogOffset:
        """A stored offset, for the channels that are read now.

        A channel resumes where it was left, however long ago. A channel that existed but was never read starts with its
        first event. Raises PBIO_EVENTS_GONE if a channel read by name was dropped and created again.
        """
        if offset.channels is None:
            return replace(offset, channels=frozenset(self.ids))
        left = dict(offset.left)
        channels = set(offset.channels)
        for channel in offset.channels - self.infos.keys() - self._gone.keys():
            channels.remove(channel)
            if channel in self._history.state.channels:
                left[channel] = offset.start(channel)
            elif self._is_missed(channel):
                channels.add(channel)
        new = self.ids - offset.channels
        if not new:
            return offset if channels == offset.channels else replace(offset, channels=frozenset(channels), left=left)
        firsts = {channel: Position(max(self.infos[channel].first, channel + 1)) for channel in new}
        starts = {channel: left.pop(channel, first) for channel, first in firsts.items()}
        starts |= {channel: offset.start(channel) for channel in channels}
        return replace(LogOffset.of(starts, offset.position), left=left, formats=offset.formats)

    def _is_missed(self, channel: int) -> bool:
        """Whether a dropped channel would still be read. Raises PBIO_EVENTS_GONE if it is read by name."""
        entry = self._history.entry(channel)
        name = entry.change.name if entry is not None and isinstance(entry.change, Create) else ""
        if self._pattern is not None:
            if self._pattern.fullmatch(name) is None:
                return False
            self._gone[channel] = name
            return True
        successor = next((info.id for info in self.infos.values() if info.name == name), None)
        if successor is not None:
            self._miss(
                channel, f"the channel {name!r} was dropped and created again: it is number {successor}, not {channel}"
            )
        return False

    def checked(self, position: Position) -> Position:
        """A given position. Raises PBIO_BAD_OFFSET if it is after the end of the log."""
        if position > self.end and position > (end := self.now()):
            raise PbioError(
                "PBIO_BAD_OFFSET",
                f"{position} is after the end of the space, {end}",
                file=self._folder.root,
                hint="it may belong to another space, or to an earlier one at this path; a named subscriber's is "
                "forgotten by `unsubscribe`",
            )
        return position

    def now(self) -> Position:
        """The position after all current commits."""
        return Position(self._history.catch_up().version + 1)

    def channels_in(self, end: Position) -> set[int]:
        """The channels with events in recently read commits before a position."""
        known = (pieces for version, pieces in self._pieces.items() if Position(version) < end)
        return {piece.group.channel for pieces in known for piece in pieces}

    def pieces(self, start: LogOffset, end: Position) -> Iterator[Piece]:
        """The events from one place to another, in the order of the log. Raises PBIO_EVENTS_GONE, PBIO_BAD_OFFSET."""
        self.checked(end)
        # Channels have no events from before their creation.
        version = max(start.position.version, min(self.infos, default=end.version))
        while Position(version) < end and (pieces := self.read(version, start)) is not None:
            for piece in pieces:
                cut = piece.between(start.start(piece.group.channel), end)
                whole = None if cut is None else self.resolved(cut)
                if whole is not None:
                    yield whole
            version += 1

    def latest(
        self, start: LogOffset, end: Position | None, most_events: int | None, most_bytes: int | None
    ) -> LogOffset:
        """How far a batch from `start` can read; `start` itself if it has nothing to read.

        Args:
            end: the limit; None for no limit.

        Raises PBIO_EVENTS_GONE; PBIO_UNKNOWN_CHANNEL when a channel read by name has been dropped and all its events
        have been read.
        """
        version = start.position.version
        self.forget(version)
        if self._looked is not None and self._looked[0] == start:
            version = self._looked[1]
        events = size = 0
        formats: set[str] = set()
        while end is None or Position(version) < end:
            pieces = self.read(version, start)
            if pieces is None:
                break
            if self.dropped is not None and self.dropped[1] == version:
                if events:
                    break
                raise PbioError(
                    "PBIO_UNKNOWN_CHANNEL",
                    f"the channel {self.dropped[0].name!r} has been dropped",
                    hint="channels() of the space lists those that exist",
                )
            for whole in pieces:
                piece = whole.between(start.start(whole.group.channel), end)
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

    def _at(self, start: LogOffset, position: Position, formats: set[str]) -> LogOffset:
        """A later offset, with the channels that were created and dropped up to there, and the formats seen."""
        channels = (start.channels or frozenset()) | self.ids
        gone = {channel for channel, version in self._drops.items() if version < position.version}
        met = start.formats if start.formats is None and not formats else (start.formats or frozenset()) | formats
        return replace(start.at(position), channels=channels - gone, formats=met)

    def forget(self, version: int) -> None:
        """Drop cached commits before a version."""
        self._pieces = {known: pieces for known, pieces in self._pieces.items() if known >= version}

    def is_near(self, version: int) -> bool:
        """Whether a commit can be read without its own file, because it was already read or has been folded."""
        return version in self._pieces or self._history.block(version) is not None

    def read(self, version: int, start: LogOffset) -> Sequence[Piece] | None:
        """All kept events of the channels in a commit; None if the commit does not exist yet.

        Args:
            start: it does not matter if events before it are no longer kept.

        Raises PBIO_BAD_LOG, and PBIO_EVENTS_GONE.
        """
        if version not in self._pieces and (block := self._history.block(version)) is not None:
            self._read_block(block, version, start)
        elif version not in self._pieces and version < self._version and not self._folder.is_local:
            self._read_ahead(version, start)
        if version not in self._pieces:
            self._read_commit(version, start)
        if version not in self._pieces and self._history.check_end(version):
            self._read_commit(version, start)
        return self._pieces.get(version)

    def _read_commit(self, version: int, start: LogOffset) -> None:
        entry = self._history.entry(version)
        if entry is not None:
            self._take(version, entry, start)

    def _read_ahead(self, version: int, start: LogOffset) -> None:
        """Read some commits at once, up to the first damaged one, which becomes an error when it is needed."""
        ahead = range(version, min(version + READ_AHEAD, self._version + 1))
        with ThreadPoolExecutor(READERS) as pool:
            entries = list(pool.map(self._entry_or_none, ahead))
        for number, entry in zip(ahead, entries, strict=True):
            try:
                if entry is None:
                    break
                self._take(number, entry, start)
            except PbioError:
                if number == version:
                    raise
                break

    def _entry_or_none(self, version: int) -> Commit | None:
        try:
            return self._history.entry(version)
        except PbioError:
            return None

    def _take(self, version: int, entry: Commit, start: LogOffset) -> None:
        self._follow(version, entry)
        self._pieces[version] = list(self._entry_to_pieces(version, entry, start))

    def _read_block(self, block: FoldBlock, version: int, start: LogOffset) -> None:
        """Read commits from a version on in a block."""
        end = min(block.last + 1, version + READ_AHEAD)
        found: dict[int, list[Piece]] = {one: [] for one in range(version, end)}
        for one in block.walk(self.ids | self._gone.keys(), version, end):
            if isinstance(one, int):
                before = set(self.ids)
                self._read_commit(one, start)
                del found[one]
                if self.ids != before:  # later commits must be read with the new set of channels
                    found = {version: pieces for version, pieces in found.items() if version <= one}
                    break
            else:
                found[one.version] += self._group_to_pieces(one, start)
        self._pieces |= found
        self._followed = max(self._followed, max(self._pieces))

    def _follow(self, version: int, entry: Commit) -> None:
        """Note created and dropped channels."""
        change = entry.change
        if isinstance(change, Drop):
            self._drops[change.channel] = version
        if version <= self._followed:
            return
        self._followed = version
        if isinstance(change, Create) and self._pattern is not None and self._pattern.fullmatch(change.name):
            self.infos[version] = ChannelInfo(version, change.name, change.format, entry.time, first=version + 1)
            self.ids.add(version)
        elif isinstance(change, Drop) and change.channel in self.ids:
            if self._pattern is None:
                self.dropped = self.infos[change.channel], version
            self.ids.remove(change.channel)

    def _entry_to_pieces(self, version: int, entry: Commit, start: LogOffset) -> Iterator[Piece]:
        if not isinstance(entry.change, Data):
            return
        for group in self._history.groups(entry.change, self.ids | self._gone.keys()):
            placed = Placed(group, version, entry.time, entry.change.files[group.file].path)
            yield from self._group_to_pieces(placed, start)

    def _group_to_pieces(self, placed: Placed, start: LogOffset) -> Iterator[Piece]:
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
        path, shift = self._history.located(version, path) or (path, 0)
        yield Piece(group, version, published, path, shift, group.ordinal, end.ordinal)

    def resolved(self, piece: Piece) -> Piece | None:
        """The piece with the sequence numbers and times of its events loaded; None if lost and loss is allowed.

        Raises PBIO_BAD_LOG, and the errors of `DataFiles` for lost events.
        """
        try:
            group = piece.group.resolved()
        except PbioError:
            channel = piece.group.channel
            loss = loss_to_error(self._history, channel, self.infos[channel].name, piece.version, piece.path)
            if loss.code == "PBIO_BAD_LOG":
                raise
            if self._fail_on_loss:
                raise loss from None
            self._warn(channel, str(loss))
            return None
        return piece if group is piece.group else replace(piece, group=group)

    def _lose(self, info: ChannelInfo) -> None:
        if self._fail_on_loss:
            raise gone_to_error(info)
        self._warn(info.id, f"events of the channel {info.name} before {info.gone} are no longer kept")

    def _miss(self, channel: int, reason: str) -> None:
        """Raise PBIO_EVENTS_GONE for a dropped channel, or warn."""
        if self._fail_on_loss:
            hint = "fail_on_loss=False, in Spark failOnDataLoss=false, continues without the unread events"
            raise PbioError("PBIO_EVENTS_GONE", reason, file=self._folder.root, hint=hint)
        self._warn(channel, reason)

    def _warn(self, channel: int, reason: str) -> None:
        if channel not in self._warned:
            log.warning("%s: %s", self._folder.root, reason)
            self._warned.add(channel)
