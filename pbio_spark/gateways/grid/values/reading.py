"""Elements -> the values of an event, carefully: what compiled code is made of, and what it leaves to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.plan import (
    ACCURACY,
    CHANNELS,
    ITEM,
    POSITION,
    SEQUENCE,
    TIME,
    ElementGroup,
    ElementPlan,
    EventPlan,
    FieldPlan,
    Leaf,
    RepeatedElement,
)
from pbio_spark.gateways.grid.values.scalars import ValueSyntax
from pbio_spark.gateways.grid.values.times import text_to_microseconds
from pbio_spark.gateways.grid.values.units import convert

_MOST_SEQUENCE = (1 << 63) - 1

Steps = tuple[str | int, ...]
Convert = Callable[[ValueSyntax, XmlElement, "str | None"], Any]
"""How the text of an element becomes a value; the last is the units that the field has."""


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """The content read from an event.

    Attributes:
        values: by field, as the rows of channels have them.
        time: its TimeStamp, in UTC, without a fraction of a microsecond.
        sequence: its Sequence, if it has one.
        dropped: how many elements the type has no field for.
        position: in the channel space of a gateway, of an event of a consumer that asked with `After`.
    """

    values: dict[str, Any]
    time: datetime
    sequence: int | None = None
    dropped: int = 0
    position: str | None = None


def node_to_value(scalar: ValueSyntax, node: XmlElement, units: str | None) -> Any:
    """The value of an element. Raises ValueError."""
    given = node.get("units")
    if units is None or given is None or given == units:
        return scalar.read(node.text)
    if scalar.exact is None:
        raise ValueError(f"{scalar.what} in {given[:40]!r}, where the field is in {units[:40]!r}")
    return scalar.exact(convert(node.text, given, units))


def read_event(plan: EventPlan, node: XmlElement, convert_with: Convert = node_to_value) -> ReadEvent:
    """The values of an event's element.

    Raises:
        PbioError: PBIO_BAD_VALUE for a text that is not a value of its field, units that do not fit, a field that is
            missing or there twice, an event without TimeStamp; `field` is its path.
    """
    return ElementReader(plan, convert_with).event(node)


def read_time(node: XmlElement) -> datetime:
    """The time of an event of whatever type. Raises PBIO_BAD_VALUE if it has none."""
    found = [child for child in node.children if (child.name, child.namespace) == (TIME, node.namespace)]
    if len(found) != 1:
        raise _bad("an event must have one TimeStamp", (TIME,))
    try:
        return text_to_microseconds(found[0].text)
    except ValueError as error:
        raise _bad(str(error), (TIME,), found[0].text) from None


def read_position(node: XmlElement) -> str | None:
    """The position that a gateway says an event has; None if it says none."""
    return next((one.text for one in node.children if (one.name, one.namespace) == (POSITION, CHANNELS)), None)


class ElementReader:
    """Walks an element and a plan together. A subclass may put something else in place of values (see `shapes`).

    Attributes:
        dropped: how many elements had no field so far.
    """

    def __init__(self, plan: EventPlan, convert_with: Convert) -> None:
        self.plan = plan
        self.convert = convert_with
        self.dropped = 0

    def event(self, node: XmlElement) -> ReadEvent:
        values = self.group(self.plan.group, node, ())
        if TIME not in self.plan.members:
            self.dropped -= 1
        time = self.time(node)
        sequence, position = self.sequence(node, values), self.position(node)
        return ReadEvent(values, time, sequence, self.dropped, position)

    def position(self, node: XmlElement) -> Any:
        found = read_position(node)
        self.dropped -= found is not None
        return found

    def time(self, node: XmlElement) -> Any:
        return read_time(node)

    def sequence(self, node: XmlElement, values: Mapping[str, Any]) -> Any:
        if SEQUENCE in self.plan.members:
            return to_sequence(values[SEQUENCE])
        found = [child for child in node.children if (child.name, child.namespace) == (SEQUENCE, node.namespace)]
        if not found:
            return None
        self.dropped -= 1
        return text_to_sequence(found[0].text)

    def group(self, group: ElementGroup, node: XmlElement, steps: Steps) -> Any:
        by_name: dict[str, list[XmlElement]] = {}
        if node.text.strip():
            raise _bad(f"text where elements are expected: {node.text.strip()[:40]!r}", steps)
        for child in node.children:
            if child.namespace == self.plan.namespace and child.name in group.members:
                by_name.setdefault(child.name, []).append(child)
            else:
                self.dropped += 1
        values: dict[str, Any] = {}
        for name, member in group.members.items():
            values[name] = self.member(member, by_name.get(name, []), (*steps, name), node)
            if member.accuracy is not None:
                values[f"{name}_{ACCURACY}"] = self.accuracy(member.accuracy, by_name.get(name, []), (*steps, name))
        return tuple(values.values()) if group.is_pair else values

    def member(self, member: FieldPlan, found: list[XmlElement], steps: Steps, parent: XmlElement) -> Any:
        if isinstance(member.part, RepeatedElement):
            return self.items(member.part, found, steps)
        if len(found) > 1:
            raise _bad(f"an element that may occur once occurs {len(found)} times", steps)
        if found:
            return self.value(member.part, found[0], steps)
        if member.is_required:
            self.lacking(steps, parent)
        return member.default

    def accuracy(self, scalar: ValueSyntax, found: list[XmlElement], steps: Steps) -> Any:
        said = found[0].get("accuracy") if found else None
        if said is None:
            return None
        return self.scalar(scalar, XmlElement("accuracy", text=said), None, (*steps, "@accuracy"))

    def items(self, items: RepeatedElement, found: list[XmlElement], steps: Steps) -> list[Any]:
        if items.length is not None and len(found) != items.length:
            raise _bad(f"expected {items.length} elements, not {len(found)}", steps)
        return [self.value(items.item, node, (*steps, number)) for number, node in enumerate(found)]

    def value(self, part: ElementPlan, node: XmlElement, steps: Steps) -> Any:
        match part:
            case Leaf():
                if node.children:
                    raise _bad(f"elements where {part.scalar.what} is expected", steps)
                return self.scalar(part.scalar, node, part.units, steps)
            case ElementGroup():
                return self.group(part, node, steps)
        if node.text.strip():
            raise _bad(f"text where elements {ITEM!r} are expected", steps)
        inner = [child for child in node.children if (child.namespace, child.name) == (self.plan.namespace, ITEM)]
        self.dropped += len(node.children) - len(inner)
        return self.items(part, inner, steps)

    def scalar(self, scalar: ValueSyntax, node: XmlElement, units: str | None, steps: Steps) -> Any:
        try:
            return self.convert(scalar, node, units)
        except (ValueError, ArithmeticError) as error:
            raise _bad(str(error), steps, node.text) from None

    def lacking(self, steps: Steps, parent: XmlElement) -> NoReturn:
        here = [str(child) for child in parent.children if child.name == steps[-1]]
        near = [child.name for child in parent.children]
        hint = f"{here[0]} is of another name space" if here else did_you_mean(str(steps[-1]), near)
        raise _bad("the element is missing", steps, hint=hint)


def text_to_sequence(text: str) -> int:
    """A sequence number. Raises PBIO_BAD_VALUE."""
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdecimal() and len(stripped) < 20):
        raise _bad("not a sequence number from 0", (SEQUENCE,), text)
    return _checked(int(stripped))


def to_sequence(value: Any) -> int | None:
    """The sequence number that a field holds, as a number or as text; None for null. Raises PBIO_BAD_VALUE."""
    if value is None:
        return None
    if isinstance(value, str):
        return text_to_sequence(value)
    if value != int(value):
        raise _bad("not a sequence number from 0", (SEQUENCE,), str(value))
    return _checked(int(value))


def _checked(number: int) -> int:
    if not 0 <= number <= _MOST_SEQUENCE:
        raise _bad("not a sequence number from 0", (SEQUENCE,), str(number))
    return number


def _bad(reason: str, steps: Steps, text: str | None = None, hint: str = "") -> PbioError:
    said = "" if text is None else f": {text[:40]!r}"
    return PbioError("PBIO_BAD_VALUE", reason + said, field=path_to_text(steps), hint=hint or None)
