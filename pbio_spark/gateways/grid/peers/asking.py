"""Parameters of subscriptions and queries: as programs give them, and as elements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import EVENTS, PARAMETERS, EventName
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.scalars import FLOAT64
from pbio_spark.gateways.grid.values.times import time_to_text
from pbio_spark.gateways.grid.values.units import convert

Asked: TypeAlias = "Mapping[str, Any]"
"""Parameters by name: a value, or a pair of a value and its units."""


def parameter_namespace(namespace: str) -> str:
    """The name space of the parameters of a name space of events: the working group's own, else the same."""
    return PARAMETERS if namespace == EVENTS else namespace


def to_parameters(name: EventName, asked: Asked) -> XmlElement:
    """The element that asks for an event. Raises PBIO_BAD_VALUE.

    >>> to_parameters(EventName("UptimeCPULoad"), {"Period": (600, "sec")}).children[0].attributes
    (('units', 'sec'),)
    """
    namespace = parameter_namespace(name.namespace)
    children = []
    for parameter, given in asked.items():
        value, units = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        attributes = (("units", str(units)),) if units else ()
        children.append(XmlElement(parameter, namespace, value_to_text(value, parameter), attributes))
    return XmlElement(name.name, namespace, "", (), tuple(children))


def value_to_text(value: Any, name: str) -> str:
    """A parameter's value as XML Schema writes it. Raises PBIO_BAD_VALUE."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | Decimal():
            return f"{value}"
        case float():
            return FLOAT64.write(value)
        case datetime() if value.tzinfo is not None:
            return time_to_text(value)
        case date() if not isinstance(value, datetime):
            return value.isoformat()
        case timedelta():
            return FLOAT64.write(value.total_seconds())
        case list():
            return " ".join(value_to_text(one, name) for one in value)
    raise PbioError(
        "PBIO_BAD_VALUE",
        f"not a value of a parameter: {value!r:.80}",
        field=name,
        hint="give a string, a number, a date, a timedelta, a datetime with a time zone, or a list of these",
    )


_EXAMPLE = "example: 600 sec"


def seconds_of(node: XmlElement, fallback: str = "sec") -> float:
    """The seconds that a parameter says, in whatever units of time. Raises PBIO_BAD_VALUE."""
    try:
        seconds = float(convert(node.text, node.get("units") or fallback, "sec"))
    except (ValueError, OverflowError) as error:
        raise PbioError("PBIO_BAD_VALUE", f"{node.name}: {error}: {node.text[:40]!r}", hint=_EXAMPLE) from None
    if not 0 < seconds < 1e9:
        raise PbioError("PBIO_BAD_VALUE", f"{node.name} cannot be {node.text[:40]!r}", hint=_EXAMPLE)
    return seconds


def count_of(node: XmlElement) -> int:
    """The positive whole number that a parameter says. Raises PBIO_BAD_VALUE."""
    text = node.text.strip()
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 19 and int(text)):
        raise PbioError("PBIO_BAD_VALUE", f"{node.name} cannot be {node.text[:40]!r}", hint="a positive whole number")
    return int(text)


def single(parameters: XmlElement) -> dict[str, XmlElement]:
    """The parameters by name. Raises PBIO_BAD_VALUE for a duplicate, or for one with elements."""
    found: dict[str, XmlElement] = {}
    for child in parameters.children:
        if child.name in found:
            raise PbioError(
                "PBIO_BAD_VALUE", f"duplicate parameter {child.name[:80]!r}", hint="give each parameter once"
            )
        if child.children:
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"the parameter {child.name[:80]!r} holds elements, not a value",
                hint="give its value as text",
            )
        found[child.name] = child
    return found
