"""`GridConsumer`: gets events from any producer that speaks the protocol, with or without a channel space."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ecode.suggest import did_you_mean
from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.asking import Asked, to_parameters
from pbio_spark.gateways.grid.peers.connecting import Connection, connect, listening
from pbio_spark.gateways.grid.peers.events import GridEvent, item_to_event, node_to_event, to_name
from pbio_spark.gateways.grid.peers.handed import Handed
from pbio_spark.gateways.grid.peers.session import REPLY_TIME, Session
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Item, Outgoing
from pbio_spark.gateways.grid.protocol.messages import (
    EVENTS,
    PARAMETERS,
    EventName,
    EventNamesRequest,
    QueryRequest,
    SubscribeRequest,
)
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.plan import EventPlan, record_to_plan
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.keywords import suggesting

if TYPE_CHECKING:
    from pbio_spark.gateways.grid.peers.blocking import BlockingConsumer
    from pbio_spark.gateways.peer import Peer

Types = Mapping["str | EventName", Record]
"""Record types by the name of the event: a string is one of the working group's name space."""


class GridSubscription:
    """Events of one subscription: an asynchronous iterator of `GridEvent`, and a context manager that ends it.

    It ends when the producer ends it. It raises PBIO_DISCONNECTED if the connection is lost. PBIO_BAD_VALUE for an
    event that cannot be read, and PBIO_REFUSED for one that the producer could not make, are of that event only.
    """

    def __init__(self, session: Session, incoming: Incoming) -> None:
        self._session = session
        self._incoming = incoming

    @property
    def id(self) -> str:
        """The ID that this side made."""
        return self._incoming.own

    async def unsubscribe(self) -> None:
        """Request no more events. Events that arrived before the producer's answer remain for the iterator."""
        await self._session.unsubscribe(self._incoming)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GridEvent:
        item = await self._incoming.next()
        if item is None:
            raise StopAsyncIteration
        return item_to_event(item, self._incoming)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._incoming.is_over:
            await self.unsubscribe()


class _Plans:
    """Plans of events by name."""

    def __init__(self, types: Types | None) -> None:
        names = {to_name(name): record for name, record in (types or {}).items()}
        self.plans = {name: record_to_plan(record, name.name, name.namespace) for name, record in names.items()}

    def find(self, name: EventName) -> EventPlan | None:
        return self.plans.get(name)


class GridConsumer:
    """A consumer with a connection to a producer; see `connect`, `listen` and `open`."""

    def __init__(self, connection: Connection, plans: _Plans) -> None:
        """Use `connect` or `open`."""
        self._connection = connection
        self._plans = plans

    @classmethod
    @suggesting
    async def connect(
        cls,
        address: str,
        types: Types | None = None,
        *,
        limits: GatewayLimits | None = None,
        tls: ssl.SSLContext | None = None,
        reply_time: float = REPLY_TIME,
    ) -> Self:
        """Connect to a producer.

        Args:
            address: `HOST:PORT`.
            types: record types of events; without one, the values of an event are strings.
            reply_time: seconds after which a request without an answer has failed.

        Raises PBIO_NOT_LISTENING; PBIO_UNSUPPORTED_TYPE for a type that cannot be written in XML.
        """
        plans = _Plans(types)
        peer = await connect(address, limits or GatewayLimits(), tls)
        session = Session(peer, _Refusing(), reply_time=reply_time, is_client=True)
        return cls(Connection(peer, session), plans)

    @classmethod
    def open(cls, address: str, types: Types | None = None, **options: Any) -> BlockingConsumer:
        """`connect` without asyncio: a context manager whose methods block. Args: as for `connect`."""
        from pbio_spark.gateways.grid.peers.blocking import BlockingConsumer

        return BlockingConsumer(address, types, options)

    @classmethod
    @suggesting
    def listen(
        cls,
        address: str,
        types: Types | None = None,
        *,
        accept: Iterable[str | EventName] | None = None,
        limits: GatewayLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> AbstractAsyncContextManager[GridArchive]:
        """Wait for producers that want to send events, as an archive does.

        Args:
            accept: the names of the events that are taken; all if it is None.
            address, types: as for `connect`.
        """
        return _archive(address, _Plans(types), accept, limits or GatewayLimits(), tls)

    async def names(self) -> list[EventName]:
        """The events that the producer has. Raises PBIO_REFUSED, PBIO_NO_REPLY, PBIO_DISCONNECTED."""
        reply = await self._connection.session.ask(EventNamesRequest)
        return list(reply.names)

    async def query(
        self, name: str | EventName, parameters: Asked | None = None, *, namespace: str | None = None
    ) -> GridEvent:
        """One event. Args: as for `subscribe`. Raises what `names` raises, and PBIO_BAD_VALUE."""
        wanted = to_name(name, namespace)
        reply = await self._connection.session.ask(QueryRequest, to_parameters(wanted, parameters or {}))
        return node_to_event(reply.event, self._plans.find(EventName(reply.event.name, reply.event.namespace)))

    async def subscribe(
        self, name: str | EventName, parameters: Asked | None = None, *, namespace: str | None = None
    ) -> GridSubscription:
        """Subscribe to events.

        Args:
            name: of the events.
            parameters: by name, each a value or a pair of a value and its units, as in `{"Period": (600, "sec")}`.
            namespace: of a name that is a string; the working group's, if it is None.

        Raises what `names` raises.
        """
        wanted, session = to_name(name, namespace), self._connection.session
        plan = self._plans.find(wanted)
        if plan is not None and "Fields" in (parameters or {}):
            plan = plan.relaxed()
        incoming = Incoming(wanted, session.new_id(), plan=plan)
        await session.subscribe(incoming, to_parameters(wanted, parameters or {}))
        return GridSubscription(session, incoming)

    async def close(self) -> None:
        """End the connection, and its subscriptions with it."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Refusing:
    """The answers of a client that only consumes."""

    async def subscribed(self, session: Session, request: SubscribeRequest, own: str) -> Outgoing | Incoming:
        raise _no_producer()

    async def begun(self, session: Session, subscription: Outgoing | Incoming) -> None:
        """It does not come to this."""

    async def queried(self, session: Session, request: QueryRequest) -> XmlElement:
        raise _no_producer()

    async def named(self, session: Session) -> list[EventName]:
        return []


def _no_producer() -> PbioError:
    return PbioError("PBIO_REFUSED", "this is a consumer, and takes no subscriptions on this connection")


class GridArchive:
    """Events that producers hand over, of all subscriptions: an asynchronous iterator of `GridEvent`.

    Attributes:
        address: where it listens.
        refused: events that could not be read, which are left out.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.refused = 0
        self._events: asyncio.Queue[GridEvent] = asyncio.Queue(1000)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GridEvent:
        return await self._events.get()

    async def put(self, item: Item, incoming: Incoming) -> None:
        """Take an event that came; this waits while 1,000 others wait to be read."""
        try:
            event = item_to_event(item, incoming)
        except PbioError as error:
            self.refused += 1
            first: Handed = incoming.context or Handed(reason=error.reason)
            incoming.context = replace(first, refused=first.refused + 1)
            return
        await self._events.put(event)


class _Taking:
    """The answers of an archive."""

    def __init__(self, archive: GridArchive, plans: _Plans, accept: Iterable[str | EventName] | None) -> None:
        self._archive = archive
        self._plans = plans
        self._accept = None if accept is None else {to_name(name) for name in accept}

    async def subscribed(self, session: Session, request: SubscribeRequest, own: str) -> Outgoing | Incoming:
        parameters = request.parameters
        namespace = EVENTS if parameters.namespace == PARAMETERS else parameters.namespace
        name = EventName(parameters.name, namespace)
        if self._accept is not None and name not in self._accept:
            names = [one.name for one in self._accept]
            hint = did_you_mean(name.name, names) or f"it takes {', '.join(sorted(names)) or 'none'}"
            raise PbioError("PBIO_REFUSED", f"this consumer takes no events {name.name[:80]!r}", hint=hint)
        incoming = Incoming(name, own, plan=self._plans.find(name))

        async def take(item: Item, _: int) -> None:
            await self._archive.put(item, incoming)

        async def settle() -> str | None:
            handed: Handed | None = incoming.context
            return None if handed is None else handed.to_text()

        incoming.take, incoming.settle = take, settle
        return incoming

    async def begun(self, session: Session, subscription: Outgoing | Incoming) -> None:
        """Nothing is to be done: events will come."""

    async def queried(self, session: Session, request: QueryRequest) -> XmlElement:
        raise PbioError("PBIO_REFUSED", "this is a consumer, and has no events")

    async def named(self, session: Session) -> list[EventName]:
        return []


@asynccontextmanager
async def _archive(
    address: str,
    plans: _Plans,
    accept: Iterable[str | EventName] | None,
    limits: GatewayLimits,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[GridArchive]:
    archive = GridArchive("")
    role = _Taking(archive, plans, accept)

    async def serve(peer: Peer) -> None:
        await Session(peer, role).run()

    async with listening(address, serve, limits, tls) as bound:
        archive.address = bound
        yield archive
