"""Events as delivered to subscribers: one by one, or as columns."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from pbio_spark.channels.commits.groups import Group, Int64s
from pbio_spark.channels.position import Position
from pbio_spark.channels.publish.submission import to_datetime
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.python_rows import Show, batch_to_rows
from pbio_spark.wire.resync import numbered

log = logging.getLogger("pbio_spark.channels")


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        position: its identity in the space.
        values: the values of its fields.
        type: the name of the subscriber's type that it reached; None for the rest, which have their own type.
        producer, sequence, event_time: as submitted.
        published: when it was committed.
        derivation: for an event of a derived channel, the version of the commit with the derivation that made it.
    """

    position: Position
    values: dict[str, Any]
    type: str | None
    producer: str | None
    sequence: int | None
    event_time: datetime | None
    published: datetime
    derivation: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Some events of one producer and one format, as columns.

    Attributes:
        batch: their fields.
        type: as in `Event`.
        version: of their commit.
        ordinals: int64, of the events among all records of their file.
        group: their group in the commit.
        published: when they were committed.
        channel: the name of their channel.
        mode: the subscriber's; what `events` does with an event that Python cannot represent.
    """

    batch: pa.RecordBatch
    type: str | None
    version: int
    ordinals: Int64s
    group: Group
    published: datetime
    channel: str
    mode: Literal["FAILFAST", "DROPMALFORMED"]

    def events(self, show: Show | None = None) -> Iterator[Event]:
        """The events, one by one.

        Args:
            show: what replaces a date or a time outside the years 1 to 9999, which Python's types cannot represent.
                Without it, such an event is left out under DROPMALFORMED, with a warning in the log.

        Raises PBIO_BAD_VALUE under FAILFAST, after the events before it.
        """
        group, count = self.group, len(self.ordinals)
        sequences, times = group.sequence_of(self.ordinals), group.event_times_of(self.ordinals)
        numbers = [None] * count if sequences is None else sequences.tolist()
        instants = [None] * count if times is None else times.tolist()
        dropped: list[PbioError] = []
        for ordinal, values, number, instant in zip(
            self.ordinals.tolist(), batch_to_rows(self.batch, show), numbers, instants, strict=True
        ):
            position = Position(self.version, group.file, ordinal)
            when = None if instant is None else _event_time(instant)
            if isinstance(values, PbioError):
                bad = values
            elif isinstance(when, PbioError):
                bad = when
            else:
                yield Event(position, values, self.type, group.producer, number, when, self.published, group.derivation)
                continue
            bad.at(file=f"channel {self.channel}", record=f"event {position}")
            if self.mode == "FAILFAST":
                bad.hint = "deliveries() keeps its values, in columns; to continue without the event subscribe with "
                bad.hint += f"mode='DROPMALFORMED', or seek({str(position.next)!r})"
                raise bad
            dropped.append(bad)
        if dropped:
            log.warning("channel %s: %s dropped: %s", self.channel, numbered(len(dropped), "event"), dropped[0])

    @property
    def start(self) -> Position:
        """The position of the first event."""
        return Position(self.version, self.group.file, int(self.ordinals[0]))

    @property
    def end(self) -> Position:
        """The position after the last event."""
        return Position(self.version, self.group.file, int(self.ordinals[-1])).next


def _event_time(microseconds: int) -> datetime | PbioError:
    try:
        return to_datetime(microseconds)
    except OverflowError:
        reason = f"the event time, {microseconds} µs since 1970, is outside the years 1 to 9999"
        return PbioError("PBIO_BAD_VALUE", reason, field="event_time")
