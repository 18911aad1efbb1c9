"""The two ends of a subscription."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import Event, EventName
from pbio_spark.gateways.grid.values.plan import EventPlan
from pbio_spark.gateways.grid.values.shapes import EventError, ReceivedEvent

MOST_WAITING = 1 << 20
"""How many bytes of events wait for their consumer before the connection stops reading."""


Item = ReceivedEvent | Event | EventError


@dataclass(eq=False, slots=True)
class Outgoing:
    """A subscription of which this side is the producer.

    Attributes:
        name: of the event.
        own: the ID that this side made.
        theirs: the ID that the consumer made, which its events carry.
        feed: what sends the events; ended before the subscription is.
        ended: called once, when it is over.
        turn: called with an event that the peer sends for it, where it may be the producer after all.
    """

    name: EventName
    own: str
    theirs: str = ""
    feed: asyncio.Task[None] | None = None
    ended: Callable[[], object] | None = None
    turn: Callable[[Item, int], Awaitable[None]] | None = None
    context: Any = None

    async def stop(self) -> str | None:
        """Send no more events; nothing is to be told to the peer."""
        ended, self.ended = self.ended, None
        if ended is not None:
            ended()
        feed, self.feed = self.feed, None
        if feed is not None and feed is not asyncio.current_task():
            feed.cancel()
            await asyncio.wait([feed])
        return None


@dataclass(eq=False, slots=True)
class Incoming:
    """A subscription of which this side is the consumer.

    Attributes:
        name: of the event.
        own: the ID that this side made, which its events carry.
        theirs: the ID that the producer made.
        plan: of the events; None if they stay as they are.
        take: called with each event; without it they wait until `next` has them.
        settle: called when the subscription ends; what it returns goes to the peer, for people. It raises if
            something is not durable that should be.
    """

    name: EventName
    own: str
    theirs: str = ""
    plan: EventPlan | None = None
    take: Callable[[Item, int], Awaitable[None]] | None = None
    settle: Callable[[], Awaitable[str | None]] | None = None
    error: PbioError | None = None
    is_over: bool = False
    context: Any = None
    _waiting: deque[tuple[Item, int]] = field(default_factory=deque)
    _bytes: int = 0
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, item: Item, size: int) -> None:
        """An event came; this waits while many others wait for the consumer."""
        if self.take is not None:
            await self.take(item, size)
            return
        self._waiting.append((item, size))
        self._bytes += size
        self._came.set()
        while self._bytes > MOST_WAITING and not self.is_over:
            self._room.clear()
            await self._room.wait()

    async def next(self) -> Item | None:
        """The next event; None when there are no more. Raises `error` if the subscription did not end in order."""
        while not self._waiting:
            if self.is_over:
                if self.error is not None:
                    raise self.error
                return None
            self._came.clear()
            await self._came.wait()
        item, size = self._waiting.popleft()
        self._bytes -= size
        if self._bytes <= MOST_WAITING:
            self._room.set()
        return item

    def end(self, error: PbioError | None = None) -> None:
        """No more events come."""
        if not self.is_over:
            self.is_over, self.error = True, error
            self._came.set()
            self._room.set()

    async def stop(self) -> str | None:
        """Settle it, and end it."""
        settle, self.settle = self.settle, None
        try:
            return await settle() if settle is not None else None
        finally:
            self.end()
