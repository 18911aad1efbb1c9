"""`GridGateway`: the channels of a space, for producers and consumers of Grid events."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pbio_spark.channels import Channel, ChannelSpace, Position
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.bindings.archive import Archive, Inflow, is_other, other_to_error
from pbio_spark.gateways.grid.bindings.catalog import Catalog, Offered
from pbio_spark.gateways.grid.bindings.directory import DirectoryEntry
from pbio_spark.gateways.grid.bindings.feed import Feed, open_reading
from pbio_spark.gateways.grid.bindings.made import node_to_record
from pbio_spark.gateways.grid.bindings.named import NamedSubscribers
from pbio_spark.gateways.grid.bindings.news import News
from pbio_spark.gateways.grid.bindings.wishes import KNOWN, Wish, node_to_wish, unknown
from pbio_spark.gateways.grid.peers.handed import Handed
from pbio_spark.gateways.grid.peers.session import Session
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Item, Outgoing
from pbio_spark.gateways.grid.protocol.messages import Event, EventName, QueryRequest, SubscribeRequest
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, parse
from pbio_spark.gateways.grid.settings import GridSettings
from pbio_spark.gateways.grid.values.reading import read_event
from pbio_spark.gateways.grid.values.shapes import ReceivedEvent
from pbio_spark.gateways.text import one_line

if TYPE_CHECKING:
    from pbio_spark.gateways.peer import Peer

log = logging.getLogger("pbio_spark.gateways")

_CONSUMERS = tuple(KNOWN)


class GridGateway:
    """Serves a space to Grid peers; a half of a `Server`.

    A producer and a consumer send the same `SubscribeRequest`. If the settings let peers hand over events of its name,
    a peer that requests nothing specific may be either, until it sends an event or `wait` is over.
    """

    name = "grid"

    def __init__(self, space: ChannelSpace, settings: GridSettings | None = None) -> None:
        self._space = space
        self._settings = settings or GridSettings()
        self._catalog = Catalog(space, self._settings)
        self._news = News(space)
        self._archive = Archive(space, self._settings, self._news)
        self._entry: DirectoryEntry | None = None
        self._producers: dict[tuple[str, str], Session] = {}
        self._named = NamedSubscribers(space, self._settings)

    async def start(self, address: str) -> None:
        """Start, and register the gateway in the directory."""
        await self._news.start()
        self._archive.start()
        for name, error in await asyncio.to_thread(self._catalog.lacking):
            log.warning("grid: events %s: %s", name.name, one_line(error))
        if not self._settings.entry:
            return
        entered = self._settings.entry_address(address)
        if entered is None:
            log.warning(
                "grid: no entry in the directory: nobody can connect to %s from elsewhere; [grid] advertise, or "
                "--advertise HOST:PORT, says where others find this gateway",
                address,
            )
            return
        self._entry = DirectoryEntry(self._space, entered, self._settings.entry, self._catalog.names)
        await self._entry.start()

    async def stop(self) -> None:
        """End; acknowledged events are durable."""
        await self._archive.stop()
        if self._entry is not None:
            await self._entry.stop()
        await self._news.stop()

    async def serve(self, peer: Peer) -> None:
        """Serve a connection; when the gateway stops, end its subscriptions properly."""
        session = Session(peer, self)
        running = asyncio.create_task(session.run())
        stopping = asyncio.create_task(peer.stopping.wait())
        try:
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._dismiss(session)
                running.cancel()
                await asyncio.wait([running])
            else:
                running.result()
        finally:
            stopping.cancel()
            if not running.done():
                running.cancel()
                await asyncio.wait([running])

    async def _dismiss(self, session: Session) -> None:
        """Unsubscribe on both sides; what producers have sent becomes durable."""

        async def end(one: Outgoing | Incoming) -> None:
            with suppress(PbioError, OSError):
                await session.unsubscribe(one)

        ending = [asyncio.create_task(end(one)) for one in [*session.subscriptions.values()]]
        if ending:
            await asyncio.wait(ending)

    # requests of peers

    async def named(self, session: Session) -> list[EventName]:
        """Part of `Role`."""
        return await asyncio.to_thread(self._catalog.names)

    async def queried(self, session: Session, request: QueryRequest) -> XmlElement:
        """Implements `Role`: the last event of the channel."""
        return await asyncio.to_thread(self._query, request.parameters)

    def _query(self, parameters: XmlElement) -> XmlElement:
        offered = self._catalog.find(self._catalog.asked(parameters))
        channel = offered.channel
        wish = node_to_wish(parameters, channel)
        if wish.filter is not None or wish.after is not None or wish.subscriber is not None or wish.others:
            reason = "a query takes no parameters but Fields; Period and Count are ignored"
            raise PbioError("PBIO_REFUSED", reason, hint="subscribe, to filter events or to resume after one")
        writer = self._catalog.writer(offered.name, channel.format.record, wish.fields)
        info = channel.info
        last = None
        if info.last:
            for event in channel.subscribe(
                start=Position(info.last), fail_on_loss=False, mode="DROPMALFORMED"
            ).events():
                last = event
        if last is None:
            raise PbioError(
                "PBIO_REFUSED",
                f"no event {offered.name.name!r} has been published yet",
                hint="subscribe to be given the first one, or ask again later",
            )
        values = writer.plan.some(last.values) if wish.fields else last.values
        return parse(writer.write(values, last.event_time or last.published).encode())

    async def subscribed(self, session: Session, request: SubscribeRequest, own: str) -> Outgoing | Incoming:
        """Implements `Role`: a subscriber, an archive, or either until that is known."""
        if len(session.subscriptions) >= self._settings.subscriptions:
            raise PbioError(
                "PBIO_LIMIT",
                f"a connection may have {self._settings.subscriptions} subscriptions",
                hint="open another connection, or raise subscriptions in [grid]",
            )
        parameters = request.parameters
        name = self._catalog.asked(parameters)
        given = {child.name for child in parameters.children}
        if self._settings.takes(name) and not given & set(_CONSUMERS):
            for one in given:
                raise unknown(one, KNOWN)
            return await self._either(session, request, name, own)
        offered, wish = await asyncio.to_thread(self._wish, name, parameters)
        outgoing = Outgoing(name, own)
        if wish.subscriber is None:
            outgoing.context = await asyncio.to_thread(open_reading, self._catalog, offered, wish, self._settings)
            return outgoing
        async with self._named.taking(session, outgoing, offered.channel, wish.subscriber) as stored:
            outgoing.context = await asyncio.to_thread(
                open_reading, self._catalog, offered, wish, self._settings, name=stored
            )
        return outgoing

    async def begun(self, session: Session, subscription: Outgoing | Incoming) -> None:
        """Part of `Role`."""
        if not isinstance(subscription, Outgoing):
            return
        if subscription.context.wish.subscriber is None or not self._named.has_lost(subscription):
            feed = Feed(session, subscription, subscription.context, self._news)
            subscription.feed = asyncio.create_task(feed.run())

    def _wish(self, name: EventName, parameters: XmlElement) -> tuple[Offered, Wish]:
        offered = self._catalog.find(name)
        return offered, node_to_wish(parameters, offered.channel)

    # producers

    async def _either(self, session: Session, request: SubscribeRequest, name: EventName, own: str) -> Incoming:
        """A subscription of a peer that may be a producer."""
        producer = f"{session.link.name}/{request.subscription_id}"
        channel = await asyncio.to_thread(self._channel, name)
        plan = None if channel is None else self._catalog.plan(name, channel.format.record)
        incoming = Incoming(name, own, request.subscription_id, plan)
        either = _Either(self, session, incoming, producer, channel)
        either.since = Position(await self._news.latest() + 1)
        incoming.take, incoming.settle = either.take, either.settle
        incoming.context = either
        if channel is not None:
            either.waiting = asyncio.create_task(either.wait(self._settings.wait))
        return incoming

    def _channel(self, name: EventName) -> Channel | None:
        try:
            return self._catalog.find(name).channel
        except PbioError as error:
            if error.code != "PBIO_REFUSED" or not self._settings.create or not self._catalog.channel_name(name):
                raise
            return None

    def create(self, name: EventName, event: XmlElement) -> Channel:
        """The channel for a new event, created from its first message. Blocks."""
        channel = self._catalog.channel_name(name)
        assert channel is not None
        return self._space.create_channel(channel, node_to_record(event, channel), exist_ok=True)

    @property
    def archive(self) -> Archive:
        """The archive that commits the events of producers."""
        return self._archive

    def claim(self, session: Session, channel: str, producer: str) -> None:
        """Claim the numbering of a producer's events on a channel. Raises PBIO_REFUSED if another connection has it."""
        owner = self._producers.setdefault((channel, producer), session)
        if owner is not session and not owner.is_over:
            reason = f"another connection hands over events to {channel!r} as {producer!r}"
            raise PbioError("PBIO_REFUSED", reason, hint="give the subscription an ID of its own")
        self._producers[channel, producer] = session

    def release(self, session: Session, channel: str, producer: str) -> None:
        """Release such a claim."""
        if self._producers.get((channel, producer)) is session:
            del self._producers[channel, producer]

    async def to_consumer(self, session: Session, incoming: Incoming, since: Position | None) -> None:
        """A peer that has sent nothing is a consumer: it gets the events since its request."""
        offered = await asyncio.to_thread(self._catalog.find, incoming.name)
        reading = await asyncio.to_thread(open_reading, self._catalog, offered, Wish(), self._settings, since=since)
        outgoing = Outgoing(incoming.name, incoming.own, incoming.theirs, context=reading)

        async def turn(item: Item, size: int) -> None:
            """The peer sends an event, so it is a producer."""
            await outgoing.stop()
            session.replace(incoming)
            await incoming.put(item, size)

        outgoing.turn = turn
        if session.subscriptions.get(incoming.own) is incoming:
            session.replace(outgoing)
            await self.begun(session, outgoing)


class _Either:
    """A subscription of a peer that may be a producer or a consumer."""

    def __init__(
        self, gateway: GridGateway, session: Session, incoming: Incoming, producer: str, channel: Channel | None
    ) -> None:
        self._gateway = gateway
        self._session = session
        self._incoming = incoming
        self._inflow: Inflow | None = None
        self._producer = producer
        self._channel = channel
        self.waiting: asyncio.Task[None] | None = None
        self.since: Position | None = None
        self._others = 0
        """How many events of other names arrived before the channel existed."""
        self._reason = ""

    async def wait(self, seconds: float) -> None:
        """Treat the peer as a consumer after a number of seconds."""
        await asyncio.sleep(seconds)
        if self._inflow is None and not self._incoming.is_over:
            try:
                await self._gateway.to_consumer(self._session, self._incoming, self.since)
            except PbioError as error:
                with suppress(PbioError, OSError):
                    await self._session.send(Event(self._incoming.theirs, None, error.code, error.reason))
            except OSError:
                self._session.link.abort()

    async def take(self, item: Item, size: int) -> None:
        """An event arrives, so the peer is a producer."""
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None
        if self._channel is None:
            if not isinstance(item, Event) or item.event is None:
                return
            if is_other(item.event, self._incoming):
                self._others += 1
                self._reason = self._reason or other_to_error(item.event, self._incoming).reason
                return
            self._channel = await asyncio.to_thread(self._gateway.create, self._incoming.name, item.event)
            self._incoming.plan = self._gateway._catalog.plan(self._incoming.name, self._channel.format.record)
            self._session.add(self._incoming)
        if self._inflow is None:
            self._inflow = Inflow(self._channel, self._producer, self._others, self._reason, failed=self._failed)
        plan, event = self._incoming.plan, item.event if isinstance(item, Event) else None
        if plan is not None and event is not None and not is_other(event, self._incoming):
            try:
                read = read_event(plan, event)
            except PbioError as error:
                self._inflow.refuse(error)
                return
            item = ReceivedEvent(
                self._incoming.own, read.values, read.time, read.sequence, read.dropped, read.position, size
            )
        if isinstance(item, ReceivedEvent) and item.sequence is not None and self._inflow.error is None:
            # Other programs may have the same name, for instance on one host, but their numbers would collide.
            try:
                self._gateway.claim(self._session, self._channel.name, self._producer)
            except PbioError as error:
                self._inflow.error = error
                self._inflow.tell()
        await self._gateway.archive.take(self._inflow, self._incoming, item, size)

    def _failed(self) -> None:
        """No more events are accepted: inform the producer."""

        async def tell() -> None:
            with suppress(PbioError, OSError):
                await self._session.unsubscribe(self._incoming)

        self.waiting = asyncio.create_task(tell())

    async def settle(self) -> str | None:
        """The subscription ends."""
        if self._inflow is None:
            if self.waiting is not None:
                self.waiting.cancel()
            return Handed(self._others, self._reason).to_text()
        try:
            return await self._gateway.archive.settle(self._inflow)
        finally:
            assert self._channel is not None
            self._gateway.release(self._session, self._channel.name, self._producer)
