"""`GridProducer`: offers events to any consumer that speaks the protocol, with or without a channel space."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time as clock
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from ecode.suggest import did_you_mean
from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.asking import Asked, count_of, seconds_of, single, to_parameters
from pbio_spark.gateways.grid.peers.connecting import Connection, connect, listening
from pbio_spark.gateways.grid.peers.events import to_name
from pbio_spark.gateways.grid.peers.session import REPLY_TIME, Session
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Outgoing
from pbio_spark.gateways.grid.protocol.messages import EVENTS, PARAMETERS, EventName, QueryRequest, SubscribeRequest
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, parse
from pbio_spark.gateways.grid.values.compiled import EventWriter
from pbio_spark.gateways.grid.values.plan import record_to_plan
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.keywords import suggesting

if TYPE_CHECKING:
    from pbio_spark.gateways.grid.peers.blocking import BlockingProducer
    from pbio_spark.gateways.peer import Peer

log = logging.getLogger("pbio_spark.gateways")

KNOWN = ("Period", "Count")

_TURN = 16


@dataclass(slots=True)
class _Wish:
    """The request of a consumer.

    Attributes:
        period: seconds in which at most one event is sent, the last one; 0 for all.
        count: how many events are left to be sent; None for any number.
        held: an event that waits for its time, and the task that sends it.
    """

    period: float = 0.0
    count: int | None = None
    sent: float = float("-inf")
    held: str | None = None
    timer: asyncio.Task[None] | None = None
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


class GridProducer:
    """A producer of events.

    Consumers subscribe where it listens (`listen`); or it connects to a consumer, such as an archive, and has it
    subscribe (`connect`). `publish` sends an event to all of them. A consumer that does not read holds `publish` up
    until its connection is cut (`GatewayLimits.slow`).
    """

    def __init__(self, types: Mapping[str | EventName, Record]) -> None:
        """
        Args:
            types: the record types of its events, by name: a string is one of the working group's name space.

        Raises PBIO_UNSUPPORTED_TYPE for a type that cannot be written in XML.
        """
        names = {to_name(name): record for name, record in types.items()}
        self._writers = {
            name: EventWriter(record_to_plan(one, name.name, name.namespace)) for name, one in names.items()
        }
        self._last: dict[EventName, str] = {}
        self._subscriptions: dict[EventName, list[tuple[Session, Outgoing]]] = {name: [] for name in names}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._published = 0

    @suggesting
    def listen(
        self, address: str, *, limits: GatewayLimits | None = None, tls: ssl.SSLContext | None = None
    ) -> AbstractAsyncContextManager[str]:
        """Listen on `HOST:PORT`; port 0 takes any free port. The value of the context is the address."""
        return self._listen(address, limits or GatewayLimits(), tls)

    @asynccontextmanager
    async def _listen(self, address: str, limits: GatewayLimits, tls: ssl.SSLContext | None) -> AsyncIterator[str]:
        async def serve(peer: Peer) -> None:
            await Session(peer, _Offering(self)).run()

        async with listening(address, serve, limits, tls) as bound:
            yield bound

    @suggesting
    async def connect(
        self,
        address: str,
        *,
        limits: GatewayLimits | None = None,
        tls: ssl.SSLContext | None = None,
        reply_time: float = REPLY_TIME,
    ) -> ProducerConnection:
        """Connect to a consumer. Args: as for `GridConsumer.connect`. Raises PBIO_NOT_LISTENING."""
        peer = await connect(address, limits or GatewayLimits(), tls)
        session = Session(peer, _Offering(self), reply_time=reply_time, is_client=True)
        return ProducerConnection(self, Connection(peer, session))

    @classmethod
    def open(
        cls, types: Mapping[str | EventName, Record], address: str = "127.0.0.1:0", **options: Any
    ) -> BlockingProducer:
        """The producer without asyncio: a context manager that listens, and whose methods block.

        Args:
            types: as for the producer.
            address: where to listen.
            options: as for `listen`.
        """
        from pbio_spark.gateways.grid.peers.blocking import BlockingProducer

        return BlockingProducer(types, address, options)

    async def publish(
        self,
        name: str | EventName,
        values: Mapping[str, Any],
        *,
        time: datetime | None = None,
        sequence: int | None = None,
        namespace: str | None = None,
    ) -> int:
        """Send an event to all consumers that want it; returns how many.

        Args:
            name, namespace: of the event.
            values: by field.
            time: when it happened, if its values do not say in `TimeStamp`; the time of the call, if neither says.
            sequence: its number among the producer's, for archives to take it once.

        Raises:
            PbioError: PBIO_UNKNOWN_COLUMN, PBIO_BAD_VALUE, PBIO_CANNOT_BE_NULL; nothing is sent. PBIO_REFUSED for an
                event that this producer does not have.
        """
        wanted = to_name(name, namespace)
        writer = self._writer(wanted)
        if time is None and values.get("TimeStamp") is None:
            time = datetime.now(UTC)
        text = writer.write(values, time, sequence)
        self._last[wanted] = text
        self._published += 1
        if not self._published % _TURN:
            await asyncio.sleep(0)  # peers have a turn, also if nothing else makes this wait
        subscriptions = [*self._subscriptions[wanted]]
        for session, outgoing in subscriptions:
            await self._offer(session, outgoing, text)
        return len(subscriptions)

    def _writer(self, name: EventName) -> EventWriter:
        writer = self._writers.get(name)
        if writer is None:
            names = [one.name for one in self._writers]
            hint = did_you_mean(name.name, names) or f"it has {', '.join(sorted(names)) or 'none'}"
            where = "" if name.namespace == EVENTS else f" in the name space {name.namespace[:120]!r}"
            raise PbioError("PBIO_REFUSED", f"this producer has no events {name.name[:80]!r}{where}", hint=hint)
        return writer

    async def _offer(self, session: Session, outgoing: Outgoing, text: str) -> None:
        wish: _Wish = outgoing.context
        wait = wish.sent + wish.period - clock.monotonic()
        if not wish.period or wait <= 0:
            await self._send(session, outgoing, text)
            return
        is_first, wish.held = wish.held is None, text
        if is_first:
            wish.timer = asyncio.create_task(self._send_later(session, outgoing, wait))
            self._tasks.add(wish.timer)
            wish.timer.add_done_callback(self._tasks.discard)

    async def _send_later(self, session: Session, outgoing: Outgoing, wait: float) -> None:
        await asyncio.sleep(wait)
        wish: _Wish = outgoing.context
        text, wish.held = wish.held, None
        if text is not None:
            await self._send(session, outgoing, text)

    async def _send(self, session: Session, outgoing: Outgoing, text: str) -> None:
        wish: _Wish = outgoing.context
        if outgoing.own not in session.subscriptions or wish.count == 0:
            return
        wish.sent = clock.monotonic()
        if wish.count is not None:
            wish.count -= 1
        try:
            await session.send_event(outgoing, text)
            if wish.count == 0:
                await session.unsubscribe(outgoing)
        except (PbioError, OSError) as error:
            log.warning("grid: %s: a subscription ends: %s", session.link.address, error)
            session.drop(outgoing)
            await outgoing.stop()
            session.link.abort()

    # what consumers ask

    async def _subscribed(self, session: Session, request: SubscribeRequest, own: str) -> Outgoing | Incoming:
        """See `Role`."""
        name, wish = self._wish(request.parameters)
        return Outgoing(name, own, "", context=wish)

    async def _begun(self, session: Session, subscription: Outgoing | Incoming) -> None:
        """See `Role`."""
        assert isinstance(subscription, Outgoing)
        self._begin(session, subscription)

    def _begin(self, session: Session, subscription: Outgoing) -> None:
        entry = session, subscription
        subscribed = self._subscriptions[subscription.name]
        subscribed.append(entry)

        def ended() -> None:
            if entry in subscribed:
                subscribed.remove(entry)
            timer = subscription.context.timer
            if timer is not None and timer is not asyncio.current_task():
                timer.cancel()

        subscription.ended = ended

    async def _queried(self, session: Session, request: QueryRequest) -> XmlElement:
        """See `Role`: the last event."""
        name, _ = self._wish(request.parameters)
        if name not in self._last:
            raise PbioError(
                "PBIO_REFUSED",
                f"no event {name.name!r} has been published yet",
                hint="subscribe to be given the first one, or ask again later",
            )
        return parse(self._last[name].encode())

    async def _named(self, session: Session) -> list[EventName]:
        """See `Role`."""
        return sorted(self._writers, key=lambda one: (one.namespace, one.name))

    def _wish(self, parameters: XmlElement) -> tuple[EventName, _Wish]:
        name = EventName(parameters.name, EVENTS if parameters.namespace == PARAMETERS else parameters.namespace)
        self._writer(name)
        given = single(parameters)
        for one in given:
            if one not in KNOWN:
                hint = did_you_mean(one, KNOWN) or f"there are {', '.join(KNOWN)}"
                raise PbioError("PBIO_REFUSED", f"unknown parameter {one[:80]!r}", hint=hint)
        period = seconds_of(given["Period"]) if "Period" in given else 0.0
        return name, _Wish(period, count_of(given["Count"]) if "Count" in given else None)


class _Offering:
    """The answers of a producer."""

    def __init__(self, producer: GridProducer) -> None:
        self.subscribed = producer._subscribed
        self.begun = producer._begun
        self.queried = producer._queried
        self.named = producer._named


class ProducerConnection:
    """A connection of a producer to a consumer: a context manager that ends it."""

    def __init__(self, producer: GridProducer, connection: Connection) -> None:
        """Use `GridProducer.connect`."""
        self._producer = producer
        self._connection = connection

    async def subscribe(
        self,
        name: str | EventName,
        parameters: Asked | None = None,
        *,
        namespace: str | None = None,
        subscription_id: str | None = None,
    ) -> ProducerSubscription:
        """Have the consumer take events from now on: a producer-initiated subscription.

        Args:
            name, parameters, namespace: as for `GridConsumer.subscribe`.
            subscription_id: by which an archive knows the producer again; a producer that comes back, and repeats
                numbered events, gives the same one.

        Raises PBIO_REFUSED, PBIO_NO_REPLY, PBIO_DISCONNECTED; PBIO_BAD_OPTION for an ID that is in use.
        """
        wanted, session = to_name(name, namespace), self._connection.session
        asked = to_parameters(wanted, parameters or {})
        _, wish = self._producer._wish(asked)
        if subscription_id is not None and (subscription_id in session.subscriptions or not subscription_id.strip()):
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"a subscription cannot have the ID {subscription_id!r} now",
                hint="give an ID that is not empty and that no other subscription of this connection uses",
            )
        outgoing = Outgoing(wanted, subscription_id or session.new_id(), context=wish)
        await session.subscribe(outgoing, asked)
        self._producer._begin(session, outgoing)
        return ProducerSubscription(session, outgoing)

    async def close(self) -> None:
        """End the connection; nothing says whether its last events arrived."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class ProducerSubscription:
    """A subscription that a producer initiated."""

    def __init__(self, session: Session, outgoing: Outgoing) -> None:
        self._session = session
        self._outgoing = outgoing

    @property
    def is_over(self) -> bool:
        """Whether it has ended, from whichever side."""
        return self._outgoing.own not in self._session.subscriptions

    async def unsubscribe(self) -> str | None:
        """End it. When this returns, an archive has all events durably; what it says beside that, for people.

        Raises PBIO_REFUSED if it has not, PBIO_NO_REPLY and PBIO_DISCONNECTED if that is unknown.
        """
        if self.is_over:
            hint = "an archive may lack its last events: look there, or publish them again with their sequence numbers"
            reason = "the consumer has ended the subscription, or the connection is lost"
            raise PbioError("PBIO_DISCONNECTED", reason, hint=hint)
        return await self._session.unsubscribe(self._outgoing)
