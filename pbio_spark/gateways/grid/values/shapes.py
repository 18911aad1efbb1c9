"""Events whose messages differ in their values only -> values, fast.

A producer writes all events of a subscription alike: the same tags, other values. What is new or odd is read carefully,
by expat and `reading`, and its *shape* is learned from what these found: the characters between its values. A message
with the same characters there, and with values in which nothing can be markup, is XML with the same elements; generated
code converts the values. So this decides nothing: it remembers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.codec import node_to_message
from pbio_spark.gateways.grid.protocol.messages import Event, Message
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, parse
from pbio_spark.gateways.grid.values.compiled import NameTable, compile_function
from pbio_spark.gateways.grid.values.plan import SEQUENCE, TIME, EventPlan
from pbio_spark.gateways.grid.values.reading import (
    ElementReader,
    node_to_value,
    read_event,
    text_to_sequence,
    to_sequence,
)
from pbio_spark.gateways.grid.values.scalars import NotPlainError, ValueSyntax, not_plain
from pbio_spark.gateways.grid.values.times import text_to_microseconds

MOST_SHAPES = 64
"""The most shapes learned per connection: a producer whose tags always differ is read carefully."""

_TEXT = "([^<>&\x00-\x1f\ufffe\uffff]+)"
"""Characters that mean themselves in XML, and of which expat makes one text: not line breaks, nor the end of `]]>`."""
_ENCODED = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml(?![^>]*encoding\s*=\s*["'](?i:utf-8)["'])[^>]*encoding""")
"""The first bytes of a message that is not in UTF-8."""
_LONGEST = 1 << 14
_MOST_TEXTS = 200


class ReceivedEvent(NamedTuple):
    """An event as it came.

    Attributes:
        subscription_id: that it is for.
        values, time, sequence, dropped, position: as of `Read`.
        bytes: of its message.
    """

    subscription_id: str
    values: dict[str, Any]
    time: datetime
    sequence: int | None
    dropped: int
    position: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class MessageForm:
    """Generated code for messages of one form.

    Attributes:
        plan: of their events.
        texts: the number of texts in such a message.
        source: the text of the code.
        read: takes a message; None if it is of another form, or not as usual.
    """

    plan: EventPlan
    texts: int
    source: str
    read: Callable[[bytes], ReceivedEvent | None]


class ShapeReader:
    """Reads the messages of one connection.

    Attributes:
        plans: of the events of subscriptions, by their IDs; events of others, or of other names, stay as they are.
    """

    def __init__(self, plans: Mapping[str, EventPlan]) -> None:
        self.plans = plans
        self._shapes: dict[int, list[MessageForm]] = {}
        self._last: MessageForm | None = None
        self._left = MOST_SHAPES

    @property
    def shapes(self) -> list[MessageForm]:
        """The known shapes."""
        return [shape for shapes in self._shapes.values() for shape in shapes]

    def read(self, message: bytes) -> Message | ReceivedEvent:
        """A message; an event of a subscription with a plan is read at once.

        Raises:
            PbioError: what `parse` and `node_to_message` raise.
            EventError: what `read_event` raises.
        """
        last = self._last
        if last is not None:
            arrived = last.read(message)
            if arrived is not None and self.plans.get(arrived.subscription_id) is last.plan:
                return arrived
        texts = _texts(message)
        for shape in self._shapes.get(len(texts), ()):
            arrived = shape.read(message) if shape is not last else None
            if arrived is not None and self.plans.get(arrived.subscription_id) is shape.plan:
                self._last = shape
                return arrived
        return self._read_carefully(message, texts)

    def learn_again(self) -> None:
        """Learn more shapes, since subscriptions have changed."""
        self._left = MOST_SHAPES
        known = [*self.plans.values()]
        self._shapes = {
            number: [one for one in shapes if any(one.plan is plan for plan in known)]
            for number, shapes in self._shapes.items()
        }
        self._last = None

    def _read_carefully(self, message: bytes, texts: list[str]) -> Message | ReceivedEvent:
        made = node_to_message(parse(message))
        if not isinstance(made, Event) or made.event is None:
            return made
        plan = self.plans.get(made.subscription_id)
        if plan is None or (plan.name, plan.namespace) != (made.event.name, made.event.namespace):
            return made  # a subscriber to another name refuses it
        try:
            read = read_event(plan, made.event)
        except PbioError as error:
            raise EventError(error, made.subscription_id) from None
        if texts and self._left:
            self._left -= 1
            shape = learn(plan, message, texts)
            if shape is not None:
                self._shapes.setdefault(len(texts), []).append(shape)
                self._last = shape
        return ReceivedEvent(
            made.subscription_id, read.values, read.time, read.sequence, read.dropped, read.position, len(message)
        )


class EventError(PbioError):
    """An event that cannot be read; the connection is sound.

    Attributes:
        subscription_id: that it is for.
    """

    def __init__(self, error: PbioError, subscription_id: str) -> None:
        super().__init__(error.code, error.reason, field=error.field, hint=error.hint)
        self.subscription_id = subscription_id


def _texts(message: bytes) -> list[str]:
    """All texts of a message, as from expat; none if the message should not be remembered."""
    texts: list[str] = []
    if len(message) > _LONGEST or b"<!" in message:
        return texts
    parser = ParserCreate()
    parser.CharacterDataHandler = texts.append
    try:
        parser.Parse(message, True)
    except (ExpatError, ValueError, LookupError):
        return []
    return texts


class _Code:
    """A piece of generated code among values."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def learn(plan: EventPlan, message: bytes, texts: list[str]) -> MessageForm | None:
    """The shape of a message that was read with a plan; None if it is too odd to be remembered."""
    places = _places(message)
    if not 0 < len(texts) <= _MOST_TEXTS or len(places) != len(texts):
        return None
    if _ENCODED.match(message) is not None:
        return None  # its bytes may mean something else
    pieces: list[str] = []
    at = 0
    try:
        for place, text in zip(places, texts, strict=True):
            piece, own = message[at:place], text.encode()
            is_blank = not text.strip() and (not pieces or not texts[len(pieces) - 1].strip())
            if (not piece and not is_blank) or message[place : place + len(own)] != own or b"<" in own or b"&" in own:
                return None  # two texts in a row, as at a line break; or a text that is written otherwise
            pieces.append(piece.decode())
            at = place + len(own)
        pieces.append(message[at:].decode())
    except UnicodeError:
        return None
    return _generate(plan, pieces, texts)


def _places(message: bytes) -> list[int]:
    """The offsets of a message's texts."""
    places: list[int] = []
    parser = ParserCreate()
    parser.CharacterDataHandler = lambda _: places.append(parser.CurrentByteIndex)
    parser.Parse(message, True)
    return places


def _generate(plan: EventPlan, pieces: list[str], texts: list[str]) -> MessageForm | None:
    values = [number for number, one in enumerate(texts) if one.strip()]
    # The same message with the numbers of its texts in their place says which text is which value.
    numbered = "".join(
        piece + (f"t{number}" if number in values else text)
        for number, (piece, text) in enumerate(zip(pieces, [*texts, ""], strict=True))
    )
    made = node_to_message(parse(numbered.encode()))
    assert isinstance(made, Event)
    assert made.event is not None
    names = NameTable()
    numbers: list[str] = []

    def convert(scalar: ValueSyntax, node: XmlElement, units: str | None) -> Any:
        place = node.text
        if not place.strip():
            return constant_of(scalar.read(place))
        given = node.get("units")
        if scalar.fast_read and (units is None or given is None or units == given):
            expression = names.expression(scalar.fast_read, scalar.names, place)
            if not scalar.is_number:
                return _Code(expression)
            numbers.append(place)
            return _Code(f"f{place}")
        attributes = node.attributes
        how = names.use("READ", lambda text: node_to_value(scalar, XmlElement(node.name, "", text, attributes), units))
        return _Code(f"{how}({place})")

    try:
        read = _read_symbolically(plan, made.event, convert, names)
    except (PbioError, NotPlainError):
        return None
    pattern = "".join(
        re.escape(piece) + (_TEXT if number in values else re.escape(text))
        for number, (piece, text) in enumerate(zip(pieces, [*texts, ""], strict=True))
    )
    source = _source(pattern, values, numbers, made.subscription_id, read)
    known = {**names.known, **_GIVEN, "MATCH": re.compile(pattern).fullmatch}
    return MessageForm(plan, len(texts), source, compile_function(source, known, "read"))


_UNUSUAL = (PbioError, ValueError, ArithmeticError, LookupError)
_GIVEN = {"NEW": tuple.__new__, "ReceivedEvent": ReceivedEvent, "UNUSUAL": _UNUSUAL}


def constant_of(value: Any) -> Any:
    """A value that all events of a shape have; only a string or None. Raises NotPlainError."""
    return value if isinstance(value, str | None) else not_plain()


def _read_symbolically(plan: EventPlan, event: XmlElement, convert: Any, names: NameTable) -> tuple[Any, ...]:
    """The result of `read_event` for an event whose texts are `t0`, `t1` ...: code instead of values."""

    class Symbolic(ElementReader):
        def time(self, node: XmlElement) -> Any:
            (found,) = [one for one in node.children if (one.name, one.namespace) == (TIME, node.namespace)]
            how = names.use("TIME_OF_EVENT", text_to_microseconds)
            return _Code(f"{how}({found.text})") if found.text.strip() else not_plain()

        def accuracy(self, scalar: ValueSyntax, found: list[XmlElement], steps: Any) -> Any:
            self.convert = node_to_value  # of an attribute, which is a part of the shape
            value = super().accuracy(scalar, found, steps)
            self.convert = convert
            return constant_of(value)

        def position(self, node: XmlElement) -> Any:
            said = super().position(node)
            return None if said is None else _Code(said.strip() or not_plain())

        def sequence(self, node: XmlElement, values: Mapping[str, Any]) -> Any:
            if SEQUENCE in self.plan.members:
                how = names.use("TO_SEQUENCE", to_sequence)
                return _Code(f"{how}({values[SEQUENCE]!r})")
            found = [one for one in node.children if (one.name, one.namespace) == (SEQUENCE, node.namespace)]
            if not found:
                return None
            self.dropped -= 1
            return _Code(f"{names.use('SEQUENCE_OF', text_to_sequence)}({found[0].text.strip() or not_plain()})")

    reader = Symbolic(plan, convert)
    read = reader.event(event)
    if TIME in read.values and isinstance(read.values[TIME], _Code) and "TIME_OF(" in read.values[TIME].text:
        return read.values, _Code("TIMED"), read.sequence, read.dropped, read.position, TIME
    return read.values, read.time, read.sequence, read.dropped, read.position, None


def _source(pattern: str, values: list[int], numbers: list[str], subscription: str, read: tuple[Any, ...]) -> str:
    all_values, time, sequence, dropped, position, timed = read
    unpacked = ", ".join(f"t{number}" for number in values)
    lines = ["def read(message):", f"    # {pattern!r}", "    try:", "        found = MATCH(message.decode())"]
    lines += ["        if found is None:", "            return None", f"        {unpacked}, = found.groups()"]
    lines += [f"        f{place} = float({place})" for place in numbers]
    if numbers:
        joined, total = " + ".join(numbers), " + ".join(f"f{place}" for place in numbers)
        lines += [f"        n = {joined}", f"        if '_' in n or not n.isascii() or ({total}) * 0.0 != 0.0:"]
        lines += ["            return None"]
    if timed is not None:
        lines.append(f"        TIMED = {all_values[timed]!r}")
        all_values = {**all_values, timed: _Code("TIMED")}
    made = f"({subscription}, {all_values!r}, {time!r}, {sequence!r}, {dropped!r}, {position!r}, len(message))"
    lines += [f"        return NEW(ReceivedEvent, {made})", "    except UNUSUAL:", "        return None", ""]
    return "\n".join(lines)


__all__ = ["MOST_SHAPES", "EventError", "MessageForm", "ReceivedEvent", "ShapeReader", "learn"]
