"""The messages, and `MESSAGES`: the one table of their parts, by which they are written, read, documented and tested
(grid-events 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from pbio_spark.gateways.grid.protocol.nodes import XmlElement

EVENTS: Final = "http://www.gridforum.org/Performance/Events"
"""The name space of events that the working group defines."""
PARAMETERS: Final = "http://www.gridforum.org/Performance/EventParameters"
"""That of parameters which may be given when asking for them."""
PROTOCOL: Final = "http://www.gridforum.org/Performance/Protocol"
"""That of the messages."""


@dataclass(frozen=True, slots=True)
class EventName:
    """The name of an event that a producer has, and its name space."""

    name: str
    namespace: str = EVENTS


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """A consumer asks a producer for events; or a producer asks a consumer to take some.

    Attributes:
        request_id: unlike that of any open request of the sender.
        subscription_id: unlike that of any subscription that the sender has on this connection.
        parameters: named like the event, in a name space of parameters.
    """

    request_id: str
    subscription_id: str
    parameters: XmlElement


@dataclass(frozen=True, slots=True)
class SubscribeReply:
    """
    Attributes:
        request_id: of the request.
        success: whether the subscription is made.
        detail: for people.
        subscription_id: unlike that of any other subscription of the sender; there exactly if it is made.
    """

    request_id: str
    success: bool
    detail: str | None = None
    subscription_id: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a subscription, or an error.

    Attributes:
        subscription_id: that the consumer made.
        event: None exactly if there is an error.
        error, error_detail: the error of one event; the subscription continues.
    """

    subscription_id: str
    event: XmlElement | None = None
    error: str | None = None
    error_detail: str | None = None


@dataclass(frozen=True, slots=True)
class UnsubscribeRequest:
    """Either side ends a subscription.

    Attributes:
        request_id: unlike that of any open request of the sender.
        subscription_id: that the receiver made.
    """

    request_id: str
    subscription_id: str


@dataclass(frozen=True, slots=True)
class UnsubscribeReply:
    """After this no event of the subscription comes. From an archive: all events before it are durable."""

    request_id: str
    success: bool
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A consumer asks for one event. Attributes: as of `SubscribeRequest`."""

    request_id: str
    parameters: XmlElement


@dataclass(frozen=True, slots=True)
class QueryReply:
    """The answer: an event exactly if `success`."""

    request_id: str
    success: bool
    detail: str | None = None
    event: XmlElement | None = None


@dataclass(frozen=True, slots=True)
class EventNamesRequest:
    """A consumer asks which events a producer has."""

    request_id: str


@dataclass(frozen=True, slots=True)
class EventNamesReply:
    """The answer."""

    request_id: str
    success: bool
    detail: str | None = None
    names: tuple[EventName, ...] = ()


Message: TypeAlias = (
    SubscribeRequest
    | SubscribeReply
    | Event
    | UnsubscribeRequest
    | UnsubscribeReply
    | QueryRequest
    | QueryReply
    | EventNamesRequest
    | EventNamesReply
)
Request: TypeAlias = SubscribeRequest | UnsubscribeRequest | QueryRequest | EventNamesRequest
Reply: TypeAlias = SubscribeReply | UnsubscribeReply | QueryReply | EventNamesReply


class What(StrEnum):
    """The kind of a part of a message."""

    ATTRIBUTE = "attribute"
    """An attribute of the message's element."""
    TEXT = "element with text"
    """An element of the protocol's name space."""
    RETURN = "`Success` or `Failure`"
    """The element `Return`."""
    CONTENT = "element of another name space"
    """An event, or parameters."""
    NAMES = "elements `Event` with `name` and `namespace`"
    """Names of events."""


class When(StrEnum):
    """When a part is present."""

    ALWAYS = "always"
    MAYBE = "optional"
    SUCCESS = "exactly with `Success`"
    NO_ERROR = "exactly without `Error`"
    ERROR = "only with `Error`"
    """Optional, and nothing without an `Error`."""


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a message.

    Attributes:
        field: of the dataclass.
        what: it is.
        name: of the attribute or the element; empty for content, which has its own.
        when: it is present.
    """

    field: str
    what: What
    name: str = ""
    when: When = When.ALWAYS


_REQUEST = MessagePart("request_id", What.ATTRIBUTE, "requestID")
_SUBSCRIPTION = MessagePart("subscription_id", What.TEXT, "SubscriptionID")
_RETURN = (MessagePart("success", What.RETURN, "Return"), MessagePart("detail", What.TEXT, "ReturnDetail", When.MAYBE))
_ASKED = MessagePart("parameters", What.CONTENT)

MESSAGES: Final[Mapping[type[Message], tuple[MessagePart, ...]]] = {
    SubscribeRequest: (_REQUEST, _SUBSCRIPTION, _ASKED),
    SubscribeReply: (_REQUEST, *_RETURN, MessagePart("subscription_id", What.TEXT, "SubscriptionID", When.SUCCESS)),
    Event: (
        _SUBSCRIPTION,
        MessagePart("event", What.CONTENT, when=When.NO_ERROR),
        MessagePart("error", What.TEXT, "Error", When.MAYBE),
        MessagePart("error_detail", What.TEXT, "ErrorDetail", When.ERROR),
    ),
    UnsubscribeRequest: (_REQUEST, _SUBSCRIPTION),
    UnsubscribeReply: (_REQUEST, *_RETURN),
    QueryRequest: (_REQUEST, _ASKED),
    QueryReply: (_REQUEST, *_RETURN, MessagePart("event", What.CONTENT, when=When.SUCCESS)),
    EventNamesRequest: (_REQUEST,),
    EventNamesReply: (_REQUEST, *_RETURN, MessagePart("names", What.NAMES, "Event")),
}
"""The parts of each message, in order. The name of its element is that of the class."""

REPLIES: Final[Mapping[type[Message], type[Message]]] = {
    SubscribeRequest: SubscribeReply,
    UnsubscribeRequest: UnsubscribeReply,
    QueryRequest: QueryReply,
    EventNamesRequest: EventNamesReply,
}
"""The reply to each request."""


def to_failure(request: type[Message] | None, request_id: str, detail: str) -> Reply | None:
    """The answer that a request of some kind fails; None for what is not a request."""
    if request is SubscribeRequest:
        return SubscribeReply(request_id, False, detail)
    if request is UnsubscribeRequest:
        return UnsubscribeReply(request_id, False, detail)
    if request is QueryRequest:
        return QueryReply(request_id, False, detail)
    return EventNamesReply(request_id, False, detail) if request is EventNamesRequest else None


def is_there(part: MessagePart, message: Message) -> bool | None:
    """Whether a message must have a part; None if it may."""
    match part.when:
        case When.ALWAYS:
            return True
        case When.MAYBE:
            return None
        case When.SUCCESS:
            return bool(getattr(message, "success", True))
        case When.NO_ERROR:
            return getattr(message, "error", None) is None
        case When.ERROR:
            return None if getattr(message, "error", None) is not None else False
