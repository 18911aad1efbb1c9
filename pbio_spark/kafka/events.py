"""`EventReader`: the events of a channel as records, byte for byte."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pbio_spark.channels import PUT_BACK, Channel, DataFiles, LogFollower, LogOffset, Piece, Position, Stretch
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import ItemKind, Scanner


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """An event.

    Attributes:
        position: in the space.
        format: of the record.
        record: its bytes, with the header.
        producer, sequence: as published.
        event_time: as published, in microseconds since 1970 UTC.
        published: the time of its publication, likewise.
    """

    position: Position
    format: Format
    record: bytes
    producer: str | None
    sequence: int | None
    event_time: int | None
    published: int


class EventReader:
    """Reads the events of a channel from a position on, whatever their formats."""

    def __init__(self, channel: Channel, position: Position) -> None:
        """Raises PBIO_BAD_OFFSET for a position after the end of the log."""
        space = channel.space
        self._name = channel.name
        self._formats = space.formats
        self._follower = LogFollower(space.folder, space.history, [channel.info])
        self._files = DataFiles(space.folder, space.history, fail_on_loss=True)
        self.position = self._follower.checked(position)

    def read(self, most_events: int, most_bytes: int) -> list[RecordEvent]:
        """Some of the next events, none if none are available; `position` is then after them.

        Raises PBIO_EVENTS_GONE; PBIO_UNKNOWN_CHANNEL once the channel is dropped and all were read; PBIO_BAD_LOG.
        """
        start = LogOffset(self.position, channels=frozenset(self._follower.ids))
        end = self._follower.latest(start, None, most_events, most_bytes)
        found = [event for piece in self._follower.pieces(start, end.position) for event in self._events(piece)]
        self.position = end.position
        return found

    def _events(self, piece: Piece) -> Iterator[RecordEvent]:
        group = piece.group
        stretch = Stretch.of([piece], {group.channel: self._name})
        items = self._files.read_bytes(stretch) or b""
        form = self._formats.get(bytes.fromhex(group.format))
        if form is None:
            reason = "the space has lost the body of this format"
            raise PbioError("PBIO_UNKNOWN_FORMAT", reason, format=group.format, hint=PUT_BACK)
        # An offset of 0 would mean that the bytes begin with a file's magic.
        scanner = Scanner(io.BytesIO(b"\0" + items), piece.path, offset=1, formats={form.id: form}, search=False)
        records = [item for item in scanner.items() if item.kind is ItemKind.DATA]
        if len(records) != group.count:
            reason = f"the file has {len(records)} events where the log has {group.count}"
            raise PbioError("PBIO_BAD_LOG", reason, file=piece.path, offset=piece.start, hint=PUT_BACK)
        ordinals = np.arange(piece.first, piece.stop)
        sequences, times = group.sequence_of(ordinals), group.event_times_of(ordinals)
        for i, ordinal in enumerate(ordinals.tolist()):
            item = records[ordinal - group.ordinal]
            yield RecordEvent(
                Position(piece.version, group.file, ordinal),
                form,
                items[item.payload - 1 : item.end - 1],
                group.producer,
                None if sequences is None else int(sequences[i]),
                None if times is None else int(times[i]),
                piece.published,
            )
