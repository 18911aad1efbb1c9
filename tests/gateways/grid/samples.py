"""The paper's event and its values, and messages that hold them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ecode.types import FLOAT64, INT64, STRING, Field, Notes, record
from pbio_spark.gateways.grid.protocol.messages import (
    EVENTS,
    PARAMETERS,
    Event,
    EventName,
    EventNamesReply,
    EventNamesRequest,
    Message,
    QueryReply,
    QueryRequest,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.plan import record_to_plan

NAME = "UptimeCPULoad"
TIME = Field("TimeStamp", INT64, Notes(logical="timestamp"))
LOAD = record(
    NAME,
    [Field("Load1", FLOAT64), Field("Load5", FLOAT64), Field("Load15", FLOAT64), Field("HostName", STRING), TIME],
)
PLAN = record_to_plan(LOAD, NAME, EVENTS)
VALUES: dict[str, Any] = {
    "Load1": 1.5,
    "Load5": 1.6,
    "Load15": 1.3,
    "HostName": "foo.gov",
    "TimeStamp": datetime(2000, 11, 9, 21, 51, 45, tzinfo=UTC),
}
TYPES = {NAME: LOAD}

_TEXTS = (("Load1", "1.5"), ("Load5", "1.6"), ("Load15", "1.3"), ("HostName", "foo.gov"))
EVENT = XmlElement(
    NAME, EVENTS, "", (), tuple(XmlElement(n, EVENTS, t) for n, t in (*_TEXTS, ("TimeStamp", "2000-11-09T21:51:45Z")))
)
ASKED = XmlElement(NAME, PARAMETERS, "", (), (XmlElement("Period", PARAMETERS, "600", (("units", "sec"),)),))

MESSAGES: dict[str, Message] = {
    "SubscribeRequest": SubscribeRequest("1", "12", ASKED),
    "SubscribeReply": SubscribeReply("1", True, None, "1234"),
    "SubscribeReply, failed": SubscribeReply("1", False, "there are no events 'UptimeCPULoda'; did you mean 'x'?"),
    "Event": Event("12", EVENT),
    "Event, error": Event("12", None, "PBIO_BAD_VALUE", "XML 1.0 cannot hold the character U+0000"),
    "UnsubscribeRequest": UnsubscribeRequest("9", "1234"),
    "UnsubscribeReply": UnsubscribeReply("9", True),
    "UnsubscribeReply, failed": UnsubscribeReply("9", False, "there is no subscription '1234'"),
    "QueryRequest": QueryRequest("15", XmlElement(NAME, PARAMETERS)),
    "QueryReply": QueryReply("15", True, None, EVENT),
    "QueryReply, failed": QueryReply("15", False, "there has been no event 'UptimeCPULoad' yet"),
    "EventNamesRequest": EventNamesRequest("15"),
    "EventNamesReply": EventNamesReply(
        "15", True, None, (EventName(NAME), EventName("Humidity", "http://www.example.org/weather"))
    ),
    "EventNamesReply, none": EventNamesReply("16", True, "no events yet"),
}


def xml(body: str, name: str = "Event", attributes: str = "") -> bytes:
    """A message by hand."""
    return f'<{name} xmlns="http://www.gridforum.org/Performance/Protocol"{attributes}>{body}</{name}>'.encode()


def event_xml(inside: str, subscription: str = "12") -> bytes:
    """An event of the paper's name, with some elements in it."""
    return xml(f'<SubscriptionID>{subscription}</SubscriptionID><{NAME} xmlns="{EVENTS}">{inside}</{NAME}>')
