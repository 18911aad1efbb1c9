"""`GridEvent`: an event as consumers get it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Item
from pbio_spark.gateways.grid.protocol.messages import EventName
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.plan import CHANNELS, POSITION, SEQUENCE, EventPlan
from pbio_spark.gateways.grid.values.reading import read_event, read_position, read_time, text_to_sequence
from pbio_spark.gateways.grid.values.shapes import ReceivedEvent


@dataclass(frozen=True, slots=True)
class GridEvent:
    """An event.

    Attributes:
        name, namespace: of the event.
        values: by field. Without a type they are as received: strings, mappings for nested elements,
            lists for repeated elements.
        time: its TimeStamp, in UTC.
        sequence: its Sequence, if it has one.
        position: in the channel space of a gateway, if `After` or `Subscriber` is asked for: where to come back to.
        node: the element, with units and accuracy; None for an event with a type.
    """

    name: str
    namespace: str
    values: dict[str, Any]
    time: datetime
    sequence: int | None = None
    position: str | None = None
    node: XmlElement | None = None


def item_to_event(item: Item, subscription: Incoming) -> GridEvent:
    """An event that came for a subscription.

    Raises PBIO_BAD_VALUE for one that cannot be read, PBIO_REFUSED for an error that the producer reports.
    """
    if isinstance(item, PbioError):
        raise item
    name = subscription.name
    if isinstance(item, ReceivedEvent):
        return GridEvent(name.name, name.namespace, item.values, item.time, item.sequence, item.position)
    if item.event is None:
        detail = f": {item.error_detail}" if item.error_detail else ""
        raise PbioError("PBIO_REFUSED", f"the producer could not make an event: {item.error or 'no reason'}{detail}")
    return node_to_event(item.event, subscription.plan)


def node_to_event(node: XmlElement, plan: EventPlan | None = None) -> GridEvent:
    """An event's element as an event. Raises PBIO_BAD_VALUE."""
    if plan is not None and (plan.name, plan.namespace) == (node.name, node.namespace):
        read = read_event(plan, node)
        return GridEvent(node.name, node.namespace, read.values, read.time, read.sequence, read.position)
    said = [child for child in node.children if (child.name, child.namespace) == (SEQUENCE, node.namespace)]
    sequence = text_to_sequence(said[0].text) if said else None
    values = untyped(node)
    made = values if isinstance(values, dict) else {}
    return GridEvent(node.name, node.namespace, made, read_time(node), sequence, read_position(node), node)


def untyped(node: XmlElement) -> Any:
    """An element without a type: its text, or its elements by name.

    >>> untyped(XmlElement("a", children=(XmlElement("b", text="1"), XmlElement("c"), XmlElement("b", text="2"))))
    {'b': ['1', '2'], 'c': ''}
    """
    if not node.children:
        return node.text
    found: dict[str, list[Any]] = {}
    for child in node.children:
        if (child.name, child.namespace) == (POSITION, CHANNELS):
            continue
        found.setdefault(child.name, []).append(untyped(child))
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def to_name(name: str | EventName, namespace: str | None = None) -> EventName:
    """The name that is meant; without a name space, the working group's."""
    if isinstance(name, EventName):
        return name
    return EventName(name) if namespace is None else EventName(name, namespace)
