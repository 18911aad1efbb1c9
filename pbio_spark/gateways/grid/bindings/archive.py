"""Events of producers -> channels, in commits of many (grid-events 7).

The protocol does not acknowledge events. A producer can rely on the answer to an `UnsubscribeRequest`: with `Success`,
all events that it sent before are durable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from pbio_spark.channels import Channel, ChannelSpace, Columns, Submission
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.bindings.news import News
from pbio_spark.gateways.grid.peers.events import node_to_event
from pbio_spark.gateways.grid.peers.handed import Handed
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Item
from pbio_spark.gateways.grid.protocol.messages import Event
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.settings import GridSettings
from pbio_spark.gateways.grid.values.shapes import ReceivedEvent
from pbio_spark.gateways.text import unpublished

log = logging.getLogger("pbio_spark.gateways")

_SEQUENCE, _TIME = "\0sequence", "\0time"
_MOST_WAITING = 16
_RISING = "number the events of a subscription upwards, or leave Sequence out of all"
"""How many batches may wait before the gateway stops reading from producers."""
_TRIES, _PAUSE = 5, 0.2


class PendingEvent(NamedTuple):
    """An event to be published."""

    values: dict[str, Any]
    time: datetime
    sequence: int | None


@dataclass(eq=False, slots=True)
class Inflow:
    """The events that one subscription hands over.

    Attributes:
        channel: for its events.
        producer: the name of their producer.
        refused: how many events could not be read, and the first reason.
        dropped: how many elements have no field in the channel's type.
        known: how many events were already published.
        last: the last sequence number received.
        error: why no more events are accepted.
        failed: called once, when that happens.
        waiting: how many events are not yet committed.
    """

    channel: Channel
    producer: str
    refused: int = 0
    reason: str = ""
    dropped: int = 0
    known: int = 0
    published: int = 0
    last: int = -1
    error: PbioError | None = None
    failed: Callable[[], None] | None = None
    waiting: int = 0
    rows: list[PendingEvent] = field(default_factory=list)
    bytes: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def refuse(self, error: PbioError) -> None:
        """Note an event that cannot be accepted."""
        self.refused += 1
        where = f" ({error.field})" if error.field else ""
        self.reason = self.reason or f"{error.reason}{where}"
        if self.refused & (self.refused - 1) == 0:
            log.warning(
                "grid: %s: an event is refused: %s%s (so far: %d)", self.producer, error.reason, where, self.refused
            )

    def tell(self) -> None:
        """Report that no more events are accepted, if so."""
        if self.error is not None and self.failed is not None:
            failed, self.failed = self.failed, None
            log.warning("grid: %s: nothing more is archived: %s", self.producer, self.error.reason)
            failed()

    def said(self) -> str | None:
        """What a producer is told at the end, as readable text."""
        return Handed(self.refused, self.reason, self.known, self.producer, self.dropped).to_text()


class Archive:
    """Commits the events of inflows, once one has waited for `linger` seconds or enough have arrived."""

    def __init__(self, space: ChannelSpace, settings: GridSettings, news: News) -> None:
        self._space = space
        self._settings = settings
        self._news = news
        self._waiting: dict[Inflow, None] = {}
        self._bytes = 0
        self._came, self._hurry, self._room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Commit pending events, and end."""
        self._is_ending = True
        self._came.set()
        self._hurry.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def take(self, inflow: Inflow, subscription: Incoming, item: Item, size: int) -> None:
        """Add an event; waits while too much is uncommitted."""
        if inflow.error is not None:
            return
        try:
            row = _to_row(item, subscription)
            if row.sequence is not None:
                if row.sequence <= inflow.last:
                    reason = f"event {row.sequence} comes after event {inflow.last} of the subscription"
                    raise PbioError("PBIO_OUT_OF_ORDER", reason, field="$.Sequence", hint=_RISING)
                inflow.last = row.sequence
        except PbioError as error:
            inflow.refuse(error)
            return
        inflow.dropped += item.dropped if isinstance(item, ReceivedEvent) else 0
        inflow.rows.append(row)
        inflow.waiting += 1
        inflow.bytes += size
        self._bytes += size
        self._waiting[inflow] = None
        self._came.set()
        if self._bytes >= self._settings.batch:
            self._hurry.set()
            while self._bytes >= _MOST_WAITING * self._settings.batch and not self._is_ending:
                self._room.clear()
                await self._room.wait()

    async def settle(self, inflow: Inflow) -> str | None:
        """Commit the inflow's pending events; returns what to tell its producer. Raises PbioError for lost events."""
        while inflow.waiting and inflow.error is None:
            if self._task is None or self._task.done():
                hint = "send them again when it has restarted; with sequence numbers, none is published twice"
                raise PbioError(
                    "PBIO_DISCONNECTED", "the gateway stops, and the last events are not durable", hint=hint
                )
            self._hurry.set()
            inflow.changed.clear()
            await inflow.changed.wait()
        if inflow.error is not None:
            raise inflow.error
        return inflow.said()

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            if not self._waiting:
                if self._is_ending:
                    return
                continue
            if not self._is_ending:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.linger):
                        await self._hurry.wait()
            self._hurry.clear()
            await self._commit()
            if self._waiting or self._is_ending:
                self._came.set()

    async def _commit(self) -> None:
        taken = [(inflow, inflow.rows) for inflow in self._waiting]
        size, self._waiting = self._bytes, {}
        for inflow, _ in taken:
            inflow.rows, inflow.bytes = [], 0
        try:
            await asyncio.to_thread(self._publish, taken)
        except Exception as error:
            log.exception("grid: the gateway has a defect; %d producers are dismissed", len(taken))
            for inflow, _ in taken:
                inflow.error = unpublished(error)
        self._bytes -= size
        self._room.set()
        for inflow, rows in taken:
            inflow.waiting -= len(rows)
            inflow.changed.set()
            inflow.tell()

    def _publish(self, taken: Sequence[tuple[Inflow, list[PendingEvent]]]) -> None:
        """Publish all in one commit; if that fails, each inflow separately, so that none blocks another."""
        made: list[tuple[Inflow, list[Submission], int]] = []
        for inflow, rows in taken:
            try:
                made.append((inflow, rows_to_submissions(inflow, rows), len(rows)))
            except PbioError as error:
                self._one_by_one(inflow, rows, error)
        try:
            self._try([one for _, submissions, _ in made for one in submissions], made)
            return
        except PbioError as error:
            if len(made) == 1 and error.code not in _OF_EVENTS:
                made[0][0].error = error
                return
            unknown = error if error.code == "PBIO_OUTCOME_UNKNOWN" else None
        by_inflow = dict(taken)
        for alone in made:
            if unknown is not None and not _are_numbered(alone[1]):
                alone[0].error = unknown  # publishing again could duplicate them
                continue
            try:
                self._try(alone[1], [alone])
            except PbioError as error:
                if error.code in _OF_EVENTS:
                    self._one_by_one(alone[0], by_inflow[alone[0]], error)
                else:
                    alone[0].error = error

    def _one_by_one(self, inflow: Inflow, rows: Sequence[PendingEvent], error: PbioError) -> None:
        """Publish those events that suit the channel."""
        if len(rows) == 1:
            inflow.refuse(error)
            return
        middle = len(rows) // 2
        for half in (rows[:middle], rows[middle:]):
            try:
                self._try(rows_to_submissions(inflow, half), [(inflow, [], len(half))])
            except PbioError as again:
                if again.code not in _OF_EVENTS:
                    inflow.error = again
                    return
                self._one_by_one(inflow, half, again)

    def _try(self, submissions: list[Submission], made: Sequence[tuple[Inflow, list[Submission], int]]) -> None:
        """Publish; if the outcome is unknown, retry, provided that the events have numbers."""
        for left in reversed(range(_TRIES)):
            try:
                published = self._space.publish(submissions) if submissions else None
                break
            except PbioError as error:
                if error.code != "PBIO_OUTCOME_UNKNOWN" or not _are_numbered(submissions) or not left:
                    raise
                time.sleep(_PAUSE)
        if published is None:
            return
        for inflow, _, count in made:
            inflow.published += count
            if len(made) == 1:
                inflow.known += published.known
        if published.version is not None:
            self._news_came(published.version)

    def _news_came(self, version: int) -> None:
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._news.tell, version)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop | None:
        return None if self._task is None or self._task.done() else self._task.get_loop()


_OF_EVENTS = {
    "PBIO_BAD_VALUE",
    "PBIO_CANNOT_BE_NULL",
    "PBIO_VALUE_BEYOND_TYPE",
    "PBIO_REJECTED",
    "PBIO_OUT_OF_ORDER",
    "PBIO_BAD_OPTION",
    "PBIO_RECORD_TOO_LARGE",
    "PBIO_BAD_STRING",
}
"""The codes of errors in events rather than in the space."""


def is_other(event: XmlElement, subscription: Incoming) -> bool:
    """Whether an event's name differs from that of its subscription."""
    return (event.name, event.namespace) != (subscription.name.name, subscription.name.namespace)


def other_to_error(event: XmlElement, subscription: Incoming) -> PbioError:
    """PBIO_BAD_VALUE for an event of another name."""
    own, name = subscription.name, event.name[:80]
    where = "" if event.name != own.name else f" of the name space {event.namespace[:120]!r}"
    return PbioError("PBIO_BAD_VALUE", f"the subscription is for {own.name!r}, but the event is {name!r}{where}")


def _are_numbered(submissions: Sequence[Submission]) -> bool:
    return all(one.columns.sequence is not None for one in submissions)


def _to_row(item: Item, subscription: Incoming) -> PendingEvent:
    """The row to publish for an event. Raises PbioError if it cannot be published."""
    if isinstance(item, PbioError):
        raise item
    if isinstance(item, ReceivedEvent):
        return PendingEvent(item.values, item.time, item.sequence)
    assert isinstance(item, Event)
    if item.event is None:
        raise PbioError("PBIO_REFUSED", f"the producer reports an error: {item.error} {item.error_detail or ''}")
    node_to_event(item.event)
    raise other_to_error(item.event, subscription)


def rows_to_submissions(inflow: Inflow, rows: Sequence[PendingEvent]) -> list[Submission]:
    """Events as submissions: those with numbers, and those without, in the order of arrival.

    Raises PBIO_BAD_VALUE for values that do not fit the channel's type.
    """
    import pyarrow as pa

    from pbio_spark.formats.arrow.schema import record_to_arrow

    schema = record_to_arrow(inflow.channel.format.record)
    made = []
    for is_numbered, some in groupby(rows, key=lambda row: row.sequence is not None):
        own = list(some)
        try:
            batch = pa.RecordBatch.from_pylist([row.values for row in own], schema=schema)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise PbioError("PBIO_BAD_VALUE", f"an event does not fit the channel's type: {error}") from None
        times = pa.array([row.time for row in own], pa.timestamp("us", "UTC"))
        arrays, names = [*batch.columns, times], [*schema.names, _TIME]
        if is_numbered:
            arrays.append(pa.array([row.sequence for row in own], pa.int64()))
            names.append(_SEQUENCE)
        columns = Columns(sequence=_SEQUENCE if is_numbered else None, event_time=_TIME)
        table = pa.RecordBatch.from_arrays(arrays, names=names)
        made.append(Submission(inflow.channel.name, table, producer=inflow.producer, columns=columns))
    return made
