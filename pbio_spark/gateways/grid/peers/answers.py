"""What a session does with the requests of its peer: each in a separate task, so that events continue meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Outgoing
from pbio_spark.gateways.grid.protocol.codec import CLASSES, MessageError
from pbio_spark.gateways.grid.protocol.messages import (
    EventName,
    EventNamesReply,
    EventNamesRequest,
    QueryReply,
    QueryRequest,
    Reply,
    Request,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
    to_failure,
)
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.text import LOGGED

if TYPE_CHECKING:
    from pbio_spark.gateways.grid.peers.session import Session

log = logging.getLogger("pbio_spark.gateways")

MOST_OPEN = 100
"""How many requests of a peer are processed at once; others wait in the network."""


class Role(Protocol):
    """Answers a session's requests. Each method raises PbioError for a Failure with that reason."""

    async def subscribed(self, session: Session, request: SubscribeRequest, own: str) -> Outgoing | Incoming:
        """The peer wants a subscription; `own` is the ID that this side is to have for it."""

    async def begun(self, session: Session, subscription: Outgoing | Incoming) -> None:
        """The peer has been told that it has it."""

    async def queried(self, session: Session, request: QueryRequest) -> XmlElement:
        """The peer wants one event."""

    async def named(self, session: Session) -> list[EventName]:
        """The peer wants the names of all events."""


class Answers:
    """Deals with the requests of a session's peer.

    Attributes:
        open: the IDs of requests without an answer.
    """

    def __init__(self, session: Session, role: Role) -> None:
        self.open: set[str] = set()
        self._session = session
        self._role = role
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Answer nothing more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def finish(self) -> None:
        """Give the answers that are being made: a peer may have said all that it has to say, and still read."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def refuse(self, error: MessageError) -> bool:
        """Answer a request that is not as it should be; False if it is not a request, or cannot be answered."""
        reply = None if error.request_id is None else to_failure(CLASSES.get(error.name), error.request_id, said(error))
        if reply is not None:
            await self._spawn(self._session.send(reply))
        return reply is not None

    async def request(self, request: Request) -> None:
        """Start processing a request."""
        if request.request_id in self.open:
            detail = f"requestID {request.request_id[:80]!r} is that of an open request"
            reply = to_failure(type(request), request.request_id, detail)
            assert reply is not None
            await self._spawn(self._session.send(reply))
            return
        self.open.add(request.request_id)
        match request:
            case SubscribeRequest():
                made = self._subscribed(request)
            case UnsubscribeRequest():
                made = self._unsubscribed(request)
            case QueryRequest():
                made = self._queried(request)
            case EventNamesRequest():
                made = self._named(request)
        await self._spawn(made)

    async def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= MOST_OPEN:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            if not isinstance(error, OSError | PbioError):
                log.error("grid: %s: a defect; the connection ends", self._session.link.address, exc_info=error)
                error = PbioError("PBIO_DISCONNECTED", f"this side has a defect: {error!r}", hint=LOGGED)
            elif isinstance(error, OSError):
                error = PbioError("PBIO_DISCONNECTED", f"the connection broke: {error}")
            self._session.fail(error)

    async def _answer(self, reply: Reply) -> None:
        self.open.discard(reply.request_id)
        await self._session.send(reply)

    async def _subscribed(self, request: SubscribeRequest) -> None:
        theirs = request.subscription_id
        if theirs in self._session.their_ids:
            detail = f"SubscriptionID {theirs[:80]!r} belongs to another subscription"
            await self._answer(SubscribeReply(request.request_id, False, detail))
            return
        self._session.their_ids.add(theirs)
        own = self._session.new_id()
        try:
            made = await self._role.subscribed(self._session, request, own)
        except PbioError as error:
            self._session.their_ids.discard(theirs)
            await self._answer(SubscribeReply(request.request_id, False, said(error)))
            return
        made.theirs = theirs
        self._session.add(made)
        await self._answer(SubscribeReply(request.request_id, True, None, own))
        await self._role.begun(self._session, made)

    async def _unsubscribed(self, request: UnsubscribeRequest) -> None:
        own = request.subscription_id
        subscription = self._session.subscriptions.get(own)
        if subscription is None:
            is_known = self._session.has_ended(own)  # both sides may end it at once
            detail = None if is_known else self._no_subscription(own)
            await self._answer(UnsubscribeReply(request.request_id, is_known, detail))
            return
        try:
            detail, success = await subscription.stop(), True
        except PbioError as error:
            detail, success = said(error), False
        self._session.drop(subscription)
        await self._answer(UnsubscribeReply(request.request_id, success, detail))

    def _no_subscription(self, said: str) -> str:
        """The answer to an ID that this side does not know."""
        reason = f"there is no subscription {said[:80]!r}"
        meant = [own for own, one in self._session.subscriptions.items() if one.theirs == said]
        if not meant:
            return reason
        return f"{reason}; that is the ID of the sender, the one of the receiver of this request is {meant[0]!r}"

    async def _queried(self, request: QueryRequest) -> None:
        try:
            reply = QueryReply(request.request_id, True, None, await self._role.queried(self._session, request))
        except PbioError as error:
            reply = QueryReply(request.request_id, False, said(error))
        await self._answer(reply)

    async def _named(self, request: EventNamesRequest) -> None:
        try:
            reply = EventNamesReply(request.request_id, True, None, tuple(await self._role.named(self._session)))
        except PbioError as error:
            reply = EventNamesReply(request.request_id, False, said(error))
        await self._answer(reply)


def said(error: PbioError) -> str:
    """An error for the peer's people: what is wrong, and what to do about it, without where this side's files are."""
    place = f" ({error.field})" if error.field else ""
    hint = f"; {error.hint}" if error.hint else ""
    said = f"{error.reason}{place}{hint}"
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in said)
