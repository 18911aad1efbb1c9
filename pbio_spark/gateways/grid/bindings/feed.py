"""Events of a channel -> a consumer: one task for each subscription. Unsent events wait in the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from pbio_spark.channels import Event as ChannelEvent
from pbio_spark.channels import Modulator, Position, Subscription
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.bindings.catalog import Catalog, Offered
from pbio_spark.gateways.grid.bindings.news import News
from pbio_spark.gateways.grid.bindings.wishes import NOW, Wish, check_filter
from pbio_spark.gateways.grid.peers.session import Session
from pbio_spark.gateways.grid.peers.subscriptions import Outgoing
from pbio_spark.gateways.grid.protocol.messages import Event
from pbio_spark.gateways.grid.settings import GridSettings
from pbio_spark.gateways.grid.values.compiled import EventWriter
from pbio_spark.gateways.grid.values.plan import CHANNELS, POSITION
from pbio_spark.gateways.text import LOGGED

log = logging.getLogger("pbio_spark.gateways")

_MOST_EVENTS, _MOST_CHARS = 512, 1 << 18
_ACKNOWLEDGE_EVERY, _LAST_LOOKS = 0.5, 20
_LONGEST_WAIT = 30.0
"""Seconds after which an idle subscription checks for events anyway, which also records its presence."""


@dataclass(slots=True)
class ChannelReading:
    """The source of the events of a request.

    Attributes:
        subscription: to the channel, or to one derived for the request.
        writer: of its events.
        wish: the request of the consumer.
    """

    subscription: Subscription
    writer: EventWriter
    wish: Wish
    _events: Iterator[ChannelEvent] | None = None

    def messages(self) -> list[tuple[Position, str | PbioError]]:
        """Some available events as XML, or errors for those that XML cannot represent. Blocks.

        Raises PbioError if no more will come.
        """
        found: list[tuple[Position, str | PbioError]] = []
        size = 0
        if self._events is None:
            self._events = self.subscription.events(timeout=0)
        while len(found) < _MOST_EVENTS and size < _MOST_CHARS:
            try:
                event = next(self._events, None)
            except PbioError:
                if not found:
                    raise
                event = None  # raised again after the preceding events
            if event is None:
                self._events = None
                break
            text = self.to_text(event)
            found.append((event.position, text))
            size += len(text) if isinstance(text, str) else 100
        return found

    def to_text(self, event: ChannelEvent) -> str | PbioError:
        """The XML of an event's element, or the error."""
        values = self.writer.plan.some(event.values) if self.wish.fields else event.values
        try:
            text = self.writer.write(values, event.event_time or event.published)
        except PbioError as error:
            return error
        if self.wish.after is None and self.wish.subscriber is None:
            return text
        # A returning consumer names its position.
        tail = f"</{self.writer.plan.name}>"
        where = f'<{POSITION} xmlns="{CHANNELS}">{event.position}</{POSITION}>'
        return f"{text.removesuffix(tail)}{where}{tail}"


def open_reading(
    catalog: Catalog,
    offered: Offered,
    wish: Wish,
    settings: GridSettings,
    *,
    since: Position | None = None,
    name: str | None = None,
) -> ChannelReading:
    """Subscribe as a consumer requests. Blocks.

    A `Filter` makes a channel that is derived at the sources, shared with equal filters. From an earlier position on,
    and for a named subscriber, which may have been away, existing events are filtered here. Without `After`, events
    begin at `since`, or now.

    Args:
        name: a named subscriber's name in the space; it resumes where it left off, unless it gives a position.

    Raises PbioError for a request that cannot be fulfilled.
    """
    channel = offered.channel
    record = channel.format.record
    writer = catalog.writer(offered.name, record, wish.fields)
    if wish.filter is not None:
        check_filter(wish.filter, record, settings)
    if wish.others:
        if not settings.set_parameters:
            raise PbioError(
                "PBIO_REFUSED",
                f"the parameters {', '.join(wish.others)} cannot be set from here",
                hint="set_parameters = true in [grid] of the gateway's configuration allows it",
            )
        channel.space.set_parameters(channel.name, wish.others)
    if wish.filter is not None and wish.after in (None, NOW) and name is None:
        modulator = Modulator(filter=wish.filter, max_cost=settings.filter_cost)
        subscription: Subscription = channel.subscribe(modulator=modulator, mode="DROPMALFORMED")
    else:
        start = (since or NOW) if wish.after is None else wish.after
        subscription = channel.subscribe(name=name, start=start, filter=wish.filter, mode="DROPMALFORMED")
        if name is not None and isinstance(wish.after, Position):
            subscription.seek(wish.after)
    return ChannelReading(subscription, writer, wish)


class Arrivals:
    """Tracks how many events of a named subscriber have reached the peer's machine, as the system tells.

    The protocol does not acknowledge events.

    Attributes:
        reached: the position before which all events are sent or unwanted.
    """

    def __init__(self, session: Session, subscription: Subscription) -> None:
        self.reached = subscription.position
        self._link = session.link
        self._subscription = subscription
        self._marks: deque[tuple[int, Position]] = deque()
        self._last = self.reached
        self._looked = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether sent events may not have arrived."""
        return bool(self._marks)

    def note(self) -> None:
        """Note how many bytes must arrive for all events before `reached`."""
        if self._subscription.name is not None and self.reached > self._last:
            self._last = self.reached
            self._marks.append((self._link.written, self.reached))

    async def acknowledge(self, every: float = _ACKNOWLEDGE_EVERY) -> None:
        """Acknowledge arrived events in the space, at most once in a number of seconds. Raises PbioError, OSError."""
        now = time.monotonic()
        if not self._marks or now - self._looked < every:
            return
        self._looked, arrived = now, self._link.arrived()
        there = [position for written, position in self._marks if written <= arrived]
        if there:
            await asyncio.shield(asyncio.to_thread(self._subscription.acknowledge, there[-1]))
            for _ in there:  # only now: if this is cancelled, it is repeated at the end
                self._marks.popleft()

    async def finish(self) -> None:
        """Acknowledge at the end, when sent bytes may need a moment. Raises PbioError."""
        self.note()
        for _ in range(_LAST_LOOKS):
            try:
                await self.acknowledge(0.0)
            except OSError:  # the connection has ended: what has not arrived is sent again later
                return
            if not self._marks:
                return
            await asyncio.sleep(0.025)


class Feed:
    """Sends the events of a subscription until it ends."""

    def __init__(self, session: Session, outgoing: Outgoing, reading: ChannelReading, news: News) -> None:
        self._session = session
        self._outgoing = outgoing
        self._reading = reading
        self._news = news
        self._left = reading.wish.count
        self._held: tuple[Position, str | PbioError] | None = None
        self._next = 0.0
        self._arrivals = Arrivals(session, reading.subscription)

    async def run(self) -> None:
        """Send events until the subscription ends, or is cancelled."""
        try:
            await self._run()
        except PbioError as error:
            if error.code == "PBIO_LIMIT":  # the peer does not read, so it cannot be informed
                self._session.fail(error)
            else:
                await self._end(error)
        except OSError:
            self._session.link.abort()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("grid: %s: the gateway has a defect; a subscription ends", self._session.link.address)
            await self._end(PbioError("PBIO_DISCONNECTED", "the gateway has a defect", hint=LOGGED))
        finally:
            await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _run(self) -> None:
        while True:
            version = self._news.version
            messages = await asyncio.shield(asyncio.to_thread(self._reading.messages))
            for position, text in messages:
                if not self._reading.wish.period:
                    if await self._send(position, text):
                        return
                else:
                    self._held = position, text
                    self._arrivals.reached = position
                    if time.monotonic() >= self._next and await self._send_held():
                        return
            self._arrivals.note()
            await self._arrivals.acknowledge()
            if messages:
                continue
            wait = _LONGEST_WAIT if self._held is None else max(0.0, self._next - time.monotonic())
            await self._news.wait(version, min(wait, _ACKNOWLEDGE_EVERY) if self._arrivals.is_waiting else wait)
            if self._held is not None and time.monotonic() >= self._next and await self._send_held():
                return

    async def _close(self) -> None:
        """End the subscription; acknowledge what has arrived."""
        try:
            await self._arrivals.finish()
        except (PbioError, OSError) as error:
            log.warning("grid: %s: where a subscriber was cannot be kept: %s", self._session.link.address, error)
        await asyncio.to_thread(self._reading.subscription.close)

    async def _send_held(self) -> bool:
        held, self._held = self._held, None
        self._next = time.monotonic() + self._reading.wish.period
        assert held is not None
        return await self._send(*held)

    async def _send(self, position: Position, text: str | PbioError) -> bool:
        """Send an event or its error; returns whether it was the last."""
        if isinstance(text, PbioError):
            where = f" ({text.field})" if text.field else ""
            await self._session.send(Event(self._outgoing.theirs, None, text.code, f"{text.reason}{where}"))
        else:
            await self._session.send_event(self._outgoing, text)
        self._arrivals.reached = position.next
        if self._left is None:
            return False
        self._left -= 1
        if self._left == 0:
            await self._arrivals.finish()  # now: the consumer may leave once it knows that this was the last
            await self._session.unsubscribe(self._outgoing)
        return self._left == 0

    async def _end(self, error: PbioError) -> None:
        """Tell the consumer why no more events will come."""
        log.warning("grid: %s: a subscription ends: %s", self._session.link.address, error.reason)
        try:
            await self._session.send(Event(self._outgoing.theirs, None, error.code, error.reason))
            await self._session.unsubscribe(self._outgoing)
        except (PbioError, OSError):
            self._session.link.abort()
