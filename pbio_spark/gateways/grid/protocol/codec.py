"""Messages -> XML and back, as the table `MESSAGES` says.

>>> encode(EventNamesRequest("15")).decode()
'<EventNamesRequest xmlns="http://www.gridforum.org/Performance/Protocol" requestID="15"/>'
>>> decode(encode(EventNamesRequest("15")))
EventNamesRequest(request_id='15')
"""

from __future__ import annotations

from typing import Any, NoReturn

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import (
    MESSAGES,
    PROTOCOL,
    EventName,
    EventNamesRequest,
    Message,
    MessagePart,
    What,
    is_there,
)
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, node_to_xml, parse

CLASSES: dict[str, type[Message]] = {cls.__name__: cls for cls in MESSAGES}

__all__ = ["EventNamesRequest", "MessageError", "decode", "encode", "message_to_node", "node_to_message"]


class MessageError(PbioError):
    """PBIO_BAD_MESSAGE for what is XML, but not as the protocol has it.

    Attributes:
        name: of the message, if it is one.
        request_id: its, by which it can be answered; None if it has none.
    """

    def __init__(self, reason: str, name: str = "", request_id: str | None = None, hint: str | None = None) -> None:
        super().__init__("PBIO_BAD_MESSAGE", reason, hint=hint)
        self.name = name
        self.request_id = request_id


def encode(message: Message) -> bytes:
    """The XML of a message, in UTF-8, without a declaration.

    Raises PBIO_BAD_VALUE for characters that XML cannot hold, and MessageError for parts that contradict each other.
    """
    return node_to_xml(message_to_node(message)).encode()


def message_to_node(message: Message) -> XmlElement:
    """The element of a message. Raises MessageError."""
    name = type(message).__name__
    attributes: list[tuple[str, str]] = []
    children: list[XmlElement] = []
    for part in MESSAGES[type(message)]:
        value: Any = getattr(message, part.field)
        must = is_there(part, message)
        if value is None:
            if must:
                raise MessageError(f"{name} lacks {described(part)}", name)
            continue
        if must is False and value:
            raise MessageError(f"{name} cannot have {described(part)}", name)
        match part.what:
            case What.ATTRIBUTE:
                attributes.append((part.name, value))
            case What.TEXT:
                children.append(XmlElement(part.name, PROTOCOL, value))
            case What.RETURN:
                children.append(XmlElement(part.name, PROTOCOL, "Success" if value else "Failure"))
            case What.CONTENT:
                children.append(value)
            case What.NAMES:
                children += [
                    XmlElement(part.name, PROTOCOL, "", (("name", one.name), ("namespace", one.namespace)))
                    for one in value
                ]
    return XmlElement(name, PROTOCOL, "", tuple(attributes), tuple(children))


def described(part: MessagePart) -> str:
    """A part, for people."""
    if part.what is What.ATTRIBUTE:
        return f"the attribute {part.name}"
    return f"the element {part.name}" if part.name else "an element with an event or parameters"


def decode(message: bytes) -> Message:
    """The message that XML holds.

    Raises PBIO_BAD_MESSAGE and PBIO_LIMIT, as `parse` does, and MessageError for what is XML but not a message.
    """
    return node_to_message(parse(message))


def node_to_message(node: XmlElement) -> Message:
    """The message of an element. Raises MessageError."""
    if node.namespace != PROTOCOL:
        hint = f"its name space is to be {PROTOCOL}" if node.name in CLASSES else None
        raise MessageError(f"an element {node!s:.200} is not a message", hint=hint)
    cls = CLASSES.get(node.name)
    if cls is None:
        raise MessageError(f"unknown message {node.name[:80]!r}", hint=did_you_mean(node.name, CLASSES))
    request_id = node.get("requestID")
    try:
        return _Reading(node, cls).read()
    except MessageError as error:
        error.name, error.request_id = node.name, request_id
        raise


class _Reading:
    """Reads one message. Parts may come in any order; attributes of no part are ignored, elements are not."""

    def __init__(self, node: XmlElement, cls: type[Message]) -> None:
        self.node = node
        self.cls = cls
        self.own = [child for child in node.children if child.namespace == PROTOCOL]
        self.foreign = [child for child in node.children if child.namespace != PROTOCOL]

    def read(self) -> Message:
        parts = MESSAGES[self.cls]
        if self.node.text.strip():
            self.fail(f"has text of its own: {self.node.text.strip()[:40]!r}")
        known = {part.name for part in parts if part.what is not What.ATTRIBUTE}
        for child in self.own:
            if child.name not in known:
                self.fail(f"has an unknown element {child.name[:80]!r}", did_you_mean(child.name, known))
        if self.foreign and not any(part.what is What.CONTENT for part in parts):
            self.fail(f"has an element {self.foreign[0]!s:.200}, which is not of the protocol")
        values: dict[str, Any] = {part.field: self.part(part) for part in parts}
        made = self.cls(**values)
        for part in parts:
            must, value = is_there(part, made), values[part.field]
            if must and value is None:
                self.fail(f"lacks {described(part)}")
            if must is False and value is not None:
                self.fail(f"cannot have {described(part)}, as it is")
        return made

    def part(self, part: MessagePart) -> Any:
        match part.what:
            case What.ATTRIBUTE:
                return self.node.get(part.name)
            case What.CONTENT:
                return self.single(self.foreign, part)
            case What.NAMES:
                return tuple(map(self.event_name, self.own_of(part)))
        child = self.single(self.own_of(part), part)
        if child is None:
            return False if part.what is What.RETURN and self.fail("lacks the element Return") else None
        if child.children:
            self.fail(f"has elements in {part.name}, which holds text")
        if part.what is What.TEXT:
            return child.text.strip() if part.name == "SubscriptionID" else child.text
        said = child.text.strip()
        if said not in ("Success", "Failure"):
            self.fail(f"has {said[:40]!r} as Return", "it is Success or Failure")
        return said == "Success"

    def own_of(self, part: MessagePart) -> list[XmlElement]:
        return [child for child in self.own if child.name == part.name]

    def single(self, found: list[XmlElement], part: MessagePart) -> XmlElement | None:
        if len(found) > 1:
            self.fail(f"has {described(part)} {len(found)} times")
        return found[0] if found else None

    def event_name(self, node: XmlElement) -> EventName:
        name, namespace = node.get("name"), node.get("namespace")
        if name is None or namespace is None:
            self.fail("has an Event without name or namespace")
        return EventName(name, namespace)

    def fail(self, what: str, hint: str = "") -> NoReturn:
        raise MessageError(f"{self.node.name} {what}", hint=hint or None)
