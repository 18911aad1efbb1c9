"""Events as subscribers get them: one by one, or as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from pbio_spark.channels.commits.groups import Group, Int64s
from pbio_spark.channels.position import Position
from pbio_spark.channels.publish.submission import to_datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        position: its identity in the space.
        values: of its fields.
        type: the name of the subscriber's type that it reached; None for the rest, which have their own type.
        producer, sequence, event_time: as submitted.
        published: when it was committed.
        derivation: of an event of a derived channel, the version of the commit since which it is made in this way.
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
        type: as of an `Event`.
        version: of their commit.
        ordinals: int64, of the events among all records of their file.
        group: their group in the commit.
        published: when they were committed.
    """

    batch: pa.RecordBatch
    type: str | None
    version: int
    ordinals: Int64s
    group: Group
    published: datetime

    def events(self) -> Iterator[Event]:
        """The same, one by one."""
        group, count = self.group, len(self.ordinals)
        sequences, times = group.sequence_of(self.ordinals), group.event_times_of(self.ordinals)
        numbers = [None] * count if sequences is None else sequences.tolist()
        instants = [None] * count if times is None else [to_datetime(time) for time in times.tolist()]
        for ordinal, values, number, instant in zip(
            self.ordinals.tolist(), self.batch.to_pylist(), numbers, instants, strict=True
        ):
            position = Position(self.version, group.file, ordinal)
            yield Event(position, values, self.type, group.producer, number, instant, self.published, group.derivation)

    @property
    def end(self) -> Position:
        """The position after the last event."""
        return Position(self.version, self.group.file, int(self.ordinals[-1])).next
