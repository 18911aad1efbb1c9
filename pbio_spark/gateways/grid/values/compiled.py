"""A plan -> a function that writes events of usual values fast; `writing` does the rest, and says what is wrong.

What is generated can be printed: `EventWriter.source`. It takes values of the classes that channels deliver. For
anything else it raises, and the careful writer decides; both write the same elements.
"""

from __future__ import annotations

import linecache
import re
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import count
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import PROTOCOL
from pbio_spark.gateways.grid.protocol.nodes import node_to_xml, to_attribute, to_text
from pbio_spark.gateways.grid.values.plan import (
    ACCURACY,
    ITEM,
    TIME,
    ElementGroup,
    ElementPlan,
    EventPlan,
    FieldPlan,
    Leaf,
    RepeatedElement,
)
from pbio_spark.gateways.grid.values.scalars import STRING, NotPlainError, ValueSyntax, not_plain
from pbio_spark.gateways.grid.values.times import text_to_microseconds
from pbio_spark.gateways.grid.values.writing import event_to_node

_FILES = count(1)
_UNUSUAL = (NotPlainError, PbioError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError)


class EventWriter:
    """Writes the events of a plan.

    Attributes:
        plan: of the events.
        source: the text of the generated functions.
    """

    def __init__(self, plan: EventPlan) -> None:
        self.plan = plan
        generator = _Generator(plan)
        self.source = generator.source
        self._write: Callable[[Mapping[str, Any]], str] = compile_function(self.source, generator.names, "write")
        self._has_time = TIME in plan.members

    def write(self, values: Mapping[str, Any], time: datetime | None = None, sequence: int | None = None) -> str:
        """The XML of an event's element, as a part of a message.

        Args: as of `event_to_node`, and it raises what that raises.
        """
        if sequence is None and self._has_time:
            try:
                return self._write(values)
            except _UNUSUAL:
                pass
        return node_to_xml(event_to_node(self.plan, values, time, sequence), PROTOCOL)


def compile_function(source: str, names: Mapping[str, Any], name: str) -> Any:
    """A function of a generated text, which tracebacks show."""
    file = f"<grid {name} {next(_FILES)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    room: dict[str, Any] = dict(names)
    exec(compile(source, file, "exec"), room)  # noqa: S102 - the text is ours, with names of elements in it only
    weakref.finalize(room[name], linecache.cache.pop, file, None)
    return room[name]


def constant(text: str) -> str:
    """Text, escaped for an f-string in double quotes."""
    return text.encode("unicode_escape").decode().replace("{", "{{").replace("}", "}}").replace('"', '\\"')


class NameTable:
    """The objects that generated code refers to, each under its own name."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def use(self, name: str, what: Any) -> str:
        """The name for a thing."""
        mine, number = name, 1
        while self.known.setdefault(mine, what) is not what:
            mine, number = f"{name}_{number}", number + 1
        return mine

    def expression(self, text: str, names: Mapping[str, Any], value: str) -> str:
        """An expression of `x` and of names, with a value in place of `x`."""
        mine = {name: self.use(name, what) for name, what in names.items()} | {"x": value}
        return re.sub(r"\b\w+\b", lambda word: mine.get(word[0], word[0]), text)


class _Generator:
    """Writes the text: a function for the event, and one for each structure and each array in it."""

    def __init__(self, plan: EventPlan) -> None:
        self._names = NameTable()
        self._names.known |= {"SLOW": not_plain}
        self._functions: list[str] = []
        self._made = count(1)
        declared = "" if plan.namespace == PROTOCOL else f' xmlns="{to_attribute(plan.namespace)}"'
        self._body("write", plan.group, (f"<{plan.name}{declared}>", f"</{plan.name}>"))
        self.source = "\n\n".join(self._functions)

    @property
    def names(self) -> Mapping[str, Any]:
        return self._names.known

    def _body(self, function: str, group: ElementGroup, around: tuple[str, str] = ("", "")) -> None:
        """Define a function of the values of a structure."""
        is_top = bool(around[0])
        names = {*group.members, *(f"{name}_{ACCURACY}" for name, one in group.members.items() if one.accuracy)}
        lines = [f"def {function}(v):"]
        if group.is_pair:
            lines += [f"    {', '.join(f'v{number}' for number in range(len(group.members)))} = v"]
        else:
            lines += [f"    if not v.keys() <= {self._names.use('FIELDS', frozenset(names))}: SLOW()", "    g = v.get"]
        parts = []
        for number, (name, member) in enumerate(group.members.items()):
            value = f"v{number}"
            if not group.is_pair:
                lines.append(f"    {value} = g({name!r})")
            text = self._member(name, member, value, is_time=is_top and name == TIME)
            if not member.is_required and not (is_top and name == TIME):
                lines.append(f"    {value} = '' if {value} is None else f\"{text}\"")
                text = f"{{{value}}}"
            parts.append(text)
        lines.append(f'    return f"{constant(around[0])}{"".join(parts)}{constant(around[1])}"')
        self._functions.append("\n".join(lines) + "\n")

    def _member(self, name: str, member: FieldPlan, value: str, *, is_time: bool) -> str:
        """The f-string part of a field."""
        if is_time and isinstance(member.part, Leaf) and member.part.scalar is STRING:
            return self._leaf(name, member.part, self._names.expression("TIME_TEXT(x)", {"TIME_TEXT": _time}, value))
        if member.accuracy is None or not isinstance(member.part, Leaf):
            return self._elements(name, member.part, value)
        write = self._names.use("ACCURACY", _Accuracy(member.accuracy, member.part.accuracy))
        said = f"g({f'{name}_{ACCURACY}'!r})"
        return self._leaf(name, member.part, self._scalar(member.part.scalar, value), f"{{{write}({said})}}")

    def _elements(self, name: str, part: ElementPlan, value: str) -> str:
        match part:
            case Leaf():
                return self._leaf(name, part, self._scalar(part.scalar, value))
            case ElementGroup():
                function = f"group{next(self._made)}"
                self._body(function, part)
                return f"<{name}>{{{function}({value})}}</{name}>"
        one = f"item{next(self._made)}"
        inside = (
            self._elements(name, part.item, "x")
            if not isinstance(part.item, RepeatedElement)
            else (f"<{name}>{self._elements(ITEM, part.item, 'x')}</{name}>")
        )
        self._functions.append(f'def {one}(x):\n    return f"{inside}"\n')
        lines = [f"def {one}s(v):", "    if v.__class__ is not list: SLOW()"]
        if part.length is not None:
            lines.append(f"    if len(v) != {part.length}: SLOW()")
        lines.append(f"    return ''.join([{one}(x) for x in v])")
        self._functions.append("\n".join(lines) + "\n")
        return f"{{{one}s({value})}}"

    def _scalar(self, scalar: ValueSyntax, value: str) -> str:
        return self._names.expression(scalar.fast_write, scalar.names, value)

    def _leaf(self, name: str, part: Leaf, expression: str, accuracy: str | None = None) -> str:
        units = constant(f' units="{to_attribute(part.units)}"' if part.units else "")
        if accuracy is None:
            accuracy = constant(f' accuracy="{to_attribute(part.accuracy)}"' if part.accuracy else "")
        return f"<{name}{units}{accuracy}>{{{expression}}}</{name}>"


class _Accuracy:
    """Writes the attribute of a value's own accuracy, or that which all values of its field have."""

    def __init__(self, scalar: ValueSyntax, others: str | None) -> None:
        self._write = scalar.write
        self._others = others

    def __call__(self, value: Any) -> str:
        text = self._others if value is None else self._write(value)
        return "" if text is None else f' accuracy="{to_attribute(text)}"'


def _time(value: Any) -> str:
    text_to_microseconds(value)
    return to_text(value)
