"""Events of a channel -> a consumer: one task for each subscription. What is not sent yet waits in the log."""

from __future__ import annotations

import asyncio
import logging
import time
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

log = logging.getLogger("pbio_spark.gateways")

_MOST_EVENTS, _MOST_CHARS = 512, 1 << 18
_LONGEST_WAIT = 30.0
"""Seconds after which an idle subscription looks for events anyway, which also shows that it is there."""


@dataclass(slots=True)
class Reading:
    """Where the events of a wish come from.

    Attributes:
        subscription: to the channel, or to one that is derived for the wish.
        writer: of its events.
        wish: what the consumer wants.
    """

    subscription: Subscription
    writer: EventWriter
    wish: Wish
    _events: Iterator[ChannelEvent] | None = None

    def texts(self) -> list[str | PbioError]:
        """Some of the events that are there now, as XML; an error for one that XML cannot show. It blocks.

        Raises PbioError if there will be no more.
        """
        found: list[str | PbioError] = []
        size = 0
        if self._events is None:
            self._events = self.subscription.events(timeout=0)
        while len(found) < _MOST_EVENTS and size < _MOST_CHARS:
            event = next(self._events, None)
            if event is None:
                self._events = None
                break
            text = self.to_text(event)
            found.append(text)
            size += len(text) if isinstance(text, str) else 100
        return found

    def to_text(self, event: ChannelEvent) -> str | PbioError:
        """The XML of an event's element, or why there is none."""
        values = self.writer.plan.some(event.values) if self.wish.fields else event.values
        try:
            text = self.writer.write(values, event.event_time or event.published)
        except PbioError as error:
            return error
        if self.wish.after is None:
            return text
        # A consumer that comes back says where it was.
        tail = f"</{self.writer.plan.name}>"
        where = f'<{POSITION} xmlns="{CHANNELS}">{event.position}</{POSITION}>'
        return f"{text.removesuffix(tail)}{where}{tail}"


def open_reading(
    catalog: Catalog, offered: Offered, wish: Wish, settings: GridSettings, since: Position | None = None
) -> Reading:
    """Subscribe to what a consumer wants. It blocks.

    A `Filter` makes a channel that is derived at the sources, shared with equal ones. From an earlier position on, the
    events are there already, and are filtered here. Without `After` they begin at `since`, or now.

    Raises PbioError for a wish that cannot be fulfilled.
    """
    channel = offered.channel
    record = channel.format.record
    writer = catalog.writer(offered.name, record, wish.fields)
    if wish.filter is not None:
        check_filter(wish.filter, record, settings)
    if wish.others:
        if not settings.set_parameters:
            raise PbioError("PBIO_REFUSED", f"the parameters {', '.join(wish.others)} cannot be set from here")
        channel.space.set_parameters(channel.name, wish.others)
    if wish.filter is not None and wish.after in (None, NOW):
        modulator = Modulator(filter=wish.filter, max_cost=settings.filter_cost)
        subscription: Subscription = channel.subscribe(modulator=modulator, mode="DROPMALFORMED")
    else:
        start = (since or NOW) if wish.after is None else wish.after
        subscription = channel.subscribe(start=start, filter=wish.filter, mode="DROPMALFORMED")
    return Reading(subscription, writer, wish)


class Feed:
    """Sends the events of a subscription until it ends."""

    def __init__(self, session: Session, outgoing: Outgoing, reading: Reading, news: News) -> None:
        self._session = session
        self._outgoing = outgoing
        self._reading = reading
        self._news = news
        self._left = reading.wish.count
        self._held: str | PbioError | None = None
        self._next = 0.0

    async def run(self) -> None:
        """Send events until the subscription ends, or is cancelled."""
        closing = asyncio.to_thread(self._reading.subscription.close)
        try:
            await self._run()
        except PbioError as error:
            if error.code == "PBIO_LIMIT":  # the peer does not read, and cannot be told anything
                self._session.fail(error)
            else:
                await self._end(error)
        except OSError:
            self._session.link.abort()
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("grid: %s: the gateway has a defect; a subscription ends", self._session.link.address)
            await self._end(PbioError("PBIO_DISCONNECTED", "the gateway has a defect"))
        finally:
            await asyncio.shield(asyncio.ensure_future(closing))

    async def _run(self) -> None:
        while True:
            version = self._news.version
            texts = await asyncio.shield(asyncio.to_thread(self._reading.texts))
            for text in texts:
                if not self._reading.wish.period:
                    if await self._send(text):
                        return
                else:
                    self._held = text
                    if time.monotonic() >= self._next and await self._send_held():
                        return
            if texts:
                continue
            wait = _LONGEST_WAIT if self._held is None else max(0.0, self._next - time.monotonic())
            await self._news.wait(version, wait)
            if self._held is not None and time.monotonic() >= self._next and await self._send_held():
                return

    async def _send_held(self) -> bool:
        text, self._held = self._held, None
        self._next = time.monotonic() + self._reading.wish.period
        assert text is not None
        return await self._send(text)

    async def _send(self, text: str | PbioError) -> bool:
        """Send an event, or why there is none; whether it was the last."""
        if isinstance(text, PbioError):
            where = f" ({text.field})" if text.field else ""
            await self._session.send(Event(self._outgoing.theirs, None, text.code, f"{text.reason}{where}"))
        else:
            await self._session.send_event(self._outgoing, text)
        if self._left is None:
            return False
        self._left -= 1
        if self._left == 0:
            await self._session.unsubscribe(self._outgoing)
        return self._left == 0

    async def _end(self, error: PbioError) -> None:
        """Tell the consumer why no more events come."""
        log.warning("grid: %s: a subscription ends: %s", self._session.link.address, error.reason)
        try:
            await self._session.send(Event(self._outgoing.theirs, None, error.code, error.reason))
            await self._session.unsubscribe(self._outgoing)
        except (PbioError, OSError):
            self._session.link.abort()
