"""`Session`: one connection and its state, the same for both roles (grid-events 5)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.answers import Answers, Role
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Outgoing
from pbio_spark.gateways.grid.protocol.codec import MessageError, encode
from pbio_spark.gateways.grid.protocol.frames import Frames, to_frame
from pbio_spark.gateways.grid.protocol.messages import (
    REPLIES,
    Event,
    EventNamesReply,
    Message,
    QueryReply,
    Reply,
    Request,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, to_text
from pbio_spark.gateways.grid.values.plan import EventPlan
from pbio_spark.gateways.grid.values.shapes import EventError, ReceivedEvent, ShapeReader
from pbio_spark.gateways.limits import GatewayLimits

log = logging.getLogger("pbio_spark.gateways")

MOST_STRAYS = 100
"""How many unrequested messages end a connection."""
REPLY_TIME = 30.0
"""Seconds after which a request without an answer has failed."""

_CHUNK = 1 << 16
_REMEMBERED = 1000


class Link(Protocol):
    """The part of a connection that a session needs; `Peer` is one."""

    name: str
    address: str
    limits: GatewayLimits
    written: int

    async def read(self, most: int, seconds: float | None = None) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def arrived(self) -> int: ...

    def abort(self) -> None: ...


class Session:
    """One connection.

    Attributes:
        link: the connection.
        subscriptions: by the ID that this side made.
        their_ids: the IDs that the peer made for them.
        strays: how many unrequested messages arrived.
    """

    def __init__(self, link: Link, role: Role, *, reply_time: float = REPLY_TIME, is_client: bool = False) -> None:
        self.link = link
        self.subscriptions: dict[str, Outgoing | Incoming] = {}
        self.strays = 0
        self._reply_time = reply_time
        self._is_client = is_client
        self._plans: dict[str, EventPlan] = {}
        self._reader = ShapeReader(self._plans)
        self._asked: dict[str, tuple[type[Message], asyncio.Future[Reply]]] = {}
        self._answers = Answers(self, role)
        self.their_ids: set[str] = set()
        self._ended: deque[str] = deque(maxlen=_REMEMBERED)
        self._numbers = count(1)
        self._failure: PbioError | None = None
        self._is_over = False
        self._has_heard = False

    # what this side asks

    async def ask(self, make: type[Request], *parts: Any) -> Any:
        """Send a request, and wait for the answer, which is one of success.

        Raises:
            PbioError: PBIO_REFUSED with what the peer says; PBIO_NO_REPLY; PBIO_DISCONNECTED.
        """
        if self._is_over:
            raise self._lost()
        number = str(next(self._numbers))
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[number] = REPLIES[make], answer
        try:
            await self.send(make(number, *parts))
            async with asyncio.timeout(self._reply_time or None):
                reply = await answer
        except TimeoutError:
            reason = f"the peer did not answer a {make.__name__} in {self._reply_time:g} s"
            raise PbioError("PBIO_NO_REPLY", reason, file=self.link.address, hint=self._doubt) from None
        except OSError as error:
            raise self._lost(str(error)) from None
        finally:
            self._asked.pop(number, None)
        if not reply.success:
            raise PbioError(
                "PBIO_REFUSED", f"the peer refused a {make.__name__}: {reply.detail or 'it does not say why'}"
            )
        return reply

    def new_id(self) -> str:
        """An ID for a subscription, unlike any other of this side."""
        return next(made for number in self._numbers if (made := str(number)) not in self.subscriptions)

    async def subscribe(self, subscription: Outgoing | Incoming, parameters: XmlElement) -> None:
        """Ask the peer for a subscription, or to take one. Raises what `ask` raises."""
        own = subscription.own
        self.add(subscription)
        try:
            reply = await self.ask(SubscribeRequest, own, parameters)
        except BaseException:
            self.drop(subscription)
            raise
        subscription.theirs = reply.subscription_id
        self.their_ids.add(reply.subscription_id)
        if isinstance(subscription, Incoming) and subscription.is_over:
            raise self._lost()

    async def unsubscribe(self, subscription: Outgoing | Incoming) -> str | None:
        """End a subscription, and tell the peer; returns its answer as text. Events that arrived before remain.

        Raises what `ask` raises. From an archive, success says that all events are durable.
        """
        if subscription.own not in self.subscriptions:
            return None
        if isinstance(subscription, Outgoing):
            await subscription.stop()
        try:
            reply = await self.ask(UnsubscribeRequest, subscription.theirs)
        finally:
            self.drop(subscription)
            await subscription.stop()
        return str(reply.detail) if reply.detail else None

    def add(self, subscription: Outgoing | Incoming) -> None:
        """Know a subscription from now on."""
        self.subscriptions[subscription.own] = subscription
        if isinstance(subscription, Incoming) and subscription.plan is not None:
            self._plans[subscription.own] = subscription.plan
            self._reader.learn_again()

    def replace(self, new: Outgoing | Incoming) -> None:
        """Have a subscription in place of one with the same ID, that has shown itself to be another."""
        self._plans.pop(new.own, None)
        self.add(new)

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended."""
        return self._is_over

    def drop(self, subscription: Outgoing | Incoming) -> None:
        """Know it no longer."""
        if self.subscriptions.pop(subscription.own, None) is not None:
            self._ended.append(subscription.own)
        self.their_ids.discard(subscription.theirs)
        if self._plans.pop(subscription.own, None) is not None:
            self._reader.learn_again()

    def has_ended(self, own: str) -> bool:
        """Whether a subscription of an ID of this side ended not long ago."""
        return own in self._ended

    async def send(self, message: Message) -> None:
        """Send a message. Raises PBIO_BAD_VALUE, PBIO_LIMIT, OSError."""
        await self.link.write(to_frame(encode(message)))

    async def send_event(self, subscription: Outgoing, event: str) -> None:
        """Send the XML of an event's element to the consumer. Raises PBIO_LIMIT, OSError."""
        await self.link.write(event_to_frame(subscription.theirs, event))

    # what the peer sends

    async def run(self) -> None:
        """Deal with what the peer sends until the connection ends.

        Raises PBIO_LIMIT, PBIO_BAD_MESSAGE, PBIO_DISCONNECTED for an end inside of a message, OSError.
        """
        frames = Frames(self.link.limits.frame)
        error: BaseException | None = None
        try:
            while data := await self.link.read(_CHUNK, self._patience(frames)):
                for message in frames.feed(data):
                    await self._take(message)
            if self._failure is None and frames.is_inside:
                raise PbioError("PBIO_DISCONNECTED", "the connection ended inside of a message")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.link.limits.slow or None):
                    await self._answers.finish()
            if self._failure is not None:
                raise self._failure
        except OSError as raised:
            error = self._failure or raised
            raise error from None
        except BaseException as raised:
            error = raised
            raise
        finally:
            await self._end(error)

    def _patience(self, frames: Frames) -> float | None:
        """The seconds of silence that are allowed: any, for who has subscriptions and no message half sent."""
        is_expected = frames.is_inside or not (self.subscriptions or self._is_client or self._answers.open)
        return None if is_expected else 0

    async def _take(self, message: bytes) -> None:
        try:
            made = self._reader.read(message)
            self._has_heard = True
        except EventError as error:
            await self._event(error.subscription_id, error, len(message))
            return
        except MessageError as error:
            self._has_heard = True
            asked = self._asked.get(error.request_id or "")
            if asked is not None and asked[0].__name__ == error.name and not asked[1].done():
                # The peer has answered, and will not do so again.
                asked[1].set_exception(PbioError(error.code, error.reason, file=self.link.address, hint=error.hint))
            elif not await self._answers.refuse(error):
                self._stray(f"no message: {error.reason}")
            return
        if isinstance(made, ReceivedEvent):
            await self._event(made.subscription_id, made, made.bytes)
        elif isinstance(made, Event):
            await self._event(made.subscription_id, made, len(message))
        elif isinstance(made, SubscribeReply | UnsubscribeReply | QueryReply | EventNamesReply):
            known = self._asked.get(made.request_id)
            if known is None or known[0] is not type(made) or known[1].done():
                self._stray(f"a {type(made).__name__} to {made.request_id[:40]!r}, which is not an open request")
            else:
                known[1].set_result(made)
        else:
            await self._answers.request(made)

    async def _event(self, own: str, item: ReceivedEvent | Event | EventError, size: int) -> None:
        subscription = self.subscriptions.get(own)
        if isinstance(subscription, Incoming):
            await subscription.put(item, size)
        elif isinstance(subscription, Outgoing) and subscription.turn is not None:
            await subscription.turn(item, size)
        elif own not in self._ended:
            self._stray(f"an event of the unknown subscription {own[:40]!r}")

    def _stray(self, what: str) -> None:
        self.strays += 1
        if self.strays & (self.strays - 1) == 0:
            log.warning("grid: %s: %s (so far: %d)", self.link.address, what, self.strays)
        if self.strays >= MOST_STRAYS:
            raise PbioError("PBIO_LIMIT", f"the peer sent {self.strays} messages that were not requested")

    # the end

    def fail(self, error: PbioError) -> None:
        """End the connection for a reason."""
        self._failure = self._failure or error
        self.link.abort()

    def _lost(self, why: str = "") -> PbioError:
        if self._failure is not None:
            return self._failure
        reason = f"the connection has ended{f': {why}' if why else ''}"
        return PbioError("PBIO_DISCONNECTED", reason, file=self.link.address, hint=self._doubt)

    @property
    def _doubt(self) -> str | None:
        """A hint, if the peer has never sent a message: it may speak something else."""
        return None if self._has_heard else "is this a Grid port? the peer has not sent a message"

    async def _end(self, error: BaseException | None) -> None:
        self._is_over = True
        if isinstance(error, PbioError):
            self._failure = self._failure or error
        elif error is not None and not isinstance(error, OSError | asyncio.CancelledError):
            log.error("grid: %s: a defect; the connection ends", self.link.address, exc_info=error)
        for _, answer in self._asked.values():
            if not answer.done():
                answer.set_exception(self._lost())
        await self._answers.stop()
        for subscription in [*self.subscriptions.values()]:
            if isinstance(subscription, Incoming):
                settle, subscription.settle = subscription.settle, None
                subscription.end(self._lost())
                if settle is not None:
                    with suppress(PbioError):
                        await settle()
            else:
                await subscription.stop()
        self.subscriptions.clear()


def event_to_frame(subscription: str, event: str) -> bytes:
    """The frame of an event for a consumer, from the XML of its element."""
    return to_frame(f"{EVENT_HEAD}{to_text(subscription)}</SubscriptionID>{event}</Event>".encode())


EVENT_HEAD = '<Event xmlns="http://www.gridforum.org/Performance/Protocol"><SubscriptionID>'
