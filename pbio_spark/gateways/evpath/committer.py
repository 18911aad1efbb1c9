"""Commits what connections have sent, many of them together, by time and by size.

Archives of Grid events have a separate loop (`grid.bindings.archive`): it refuses single events, relies on their
numbers if the outcome of a commit is unknown, and informs producers. Here a stream ends at its first bad record,
commits have their own numbers, and the loop waits for a full disk, since it cannot inform anyone. Only the waiting
would be common.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from pbio_spark.channels import ChannelSpace, Columns, Records
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath.entries import CommitPart, EntryPublisher
from pbio_spark.gateways.evpath.settings import Stone, ThinSettings
from pbio_spark.gateways.evpath.stream import Taken
from pbio_spark.gateways.text import unpublished

log = logging.getLogger("pbio_spark.gateways")


class Backlog:
    """The unpublished records of one connection.

    Attributes:
        stone: the stone that they were sent to.
        events, bytes: those not published yet.
        published: the number of published events.
        error: why no more are published.
    """

    def __init__(self, stone: Stone, producer: str, formats: Sequence[Format]) -> None:
        """
        Args:
            producer: the name of its events' producer.
            formats: of its records; it may grow.
        """
        self.stone = stone
        self.events = self.bytes = self.published = 0
        self.error: PbioError | None = None
        self._producer = producer
        self._formats = formats
        self._parts: deque[Taken] = deque()
        self._changed = asyncio.Event()

    def put(self, taken: Taken) -> None:
        """Add received records."""
        self._parts.append(taken)
        self.events += len(taken)
        self.bytes += len(taken.items)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to take."""
        return not self._parts

    def take(self, most: int) -> CommitPart:
        """Take about `most` bytes."""
        parts = [self._parts.popleft()]
        size = len(parts[0].items)
        while self._parts and size + len(self._parts[0].items) <= most:
            parts.append(self._parts.popleft())
            size += len(parts[-1].items)
        offsets = np.concatenate([[0], *(part.lengths for part in parts)]).cumsum()
        numbers = np.concatenate([part.numbers for part in parts])
        items = b"".join(part.items for part in parts)
        stone, formats = self.stone, tuple(self._formats)
        records = Records(stone.channel, items, offsets, formats, numbers, self._producer, columns_of(stone))
        return CommitPart(records, self.published)

    def done(self, entry: CommitPart, events: int, size: int) -> None:
        """Note the outcome of an entry with the given numbers of events and bytes."""
        self.events -= events
        self.bytes -= size
        self.published += entry.published
        if entry.error is not None:
            self.error = entry.error
            self._parts.clear()
            self.events = self.bytes = 0
        self._changed.set()

    async def until(self, most: int) -> None:
        """Wait until at most a number of bytes is unpublished. Raises the error of the stream."""
        while self.error is None and self.bytes > most:
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error


def columns_of(stone: Stone) -> Columns:
    """The fields with metadata of events."""
    return Columns(None, stone.producer_field or None, stone.sequence or None, stone.event_time or None)


class Committer:
    """Commits what sources have, once an event has waited for `linger` seconds or enough have come."""

    def __init__(self, space: ChannelSpace, settings: ThinSettings) -> None:
        self._space = space
        self._settings = settings
        self._waiting: dict[Backlog, float] = {}
        """The sources with pending records, and since when."""
        self._events = self._bytes = 0
        self._wake, self._hurry = asyncio.Event(), asyncio.Event()
        self._ending = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, address: str) -> None:
        """Start; `address` is where the gateway listens."""
        self._task = asyncio.create_task(self._run(EntryPublisher(self._space, f"gateway {address}", self._ending)))

    async def stop(self) -> None:
        """Commit everything pending, and end. What cannot be committed now is lost, and logged."""
        self._ending.set()
        self._hurry.set()
        self._wake.set()
        if self._task is not None:
            await self._task

    def put(self, source: Backlog, taken: Taken) -> None:
        """Queue records to be committed."""
        source.put(taken)
        self._events += len(taken)
        self._bytes += len(taken.items)
        self._waiting.setdefault(source, time.monotonic())
        self._wake.set()
        if self._events >= self._settings.batch_events or self._bytes >= self._settings.batch_bytes:
            self._hurry.set()

    async def finish(self, source: Backlog) -> None:
        """Commit all records of a source now. Raises their error."""
        if source in self._waiting:
            self._hurry.set()
        await source.until(0)

    async def _run(self, publisher: EntryPublisher) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._waiting:
                if self._ending.is_set():
                    return
                continue
            left = min(self._waiting.values()) + self._settings.linger - time.monotonic()
            if left > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._hurry.wait()
            self._hurry.clear()
            await self._commit(publisher, self._take())
            if self._waiting or self._ending.is_set():
                self._wake.set()

    def _take(self) -> list[tuple[Backlog, CommitPart]]:
        """The content of the next commit: records of each source, together about as much as a batch allows."""
        most = self._settings.batch_bytes // len(self._waiting)
        taken = [(source, source.take(most)) for source in self._waiting if not source.is_empty]
        self._waiting = dict.fromkeys((source for source in self._waiting if not source.is_empty), 0.0)
        self._events = self._bytes = 0
        return taken

    async def _commit(self, publisher: EntryPublisher, taken: list[tuple[Backlog, CommitPart]]) -> None:
        """Publish records, and inform each source."""
        sizes = [(len(entry.records), len(entry.records.items)) for _, entry in taken]
        entries = [entry for _, entry in taken]
        try:
            await asyncio.to_thread(publisher.publish, entries)
        except Exception as error:
            log.exception("evpath: the gateway has a defect, and %d events are lost", sum(size[0] for size in sizes))
            for entry in entries:
                entry.error = unpublished(error)
        for (source, entry), size in zip(taken, sizes, strict=True):
            source.done(entry, *size)
        self._waiting = {source: since for source, since in self._waiting.items() if not source.is_empty}
        self._events = sum(source.events for source in self._waiting)
        self._bytes = sum(source.bytes for source in self._waiting)
