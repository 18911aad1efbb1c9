"""Calls as Python closures: the function, its cost, its entry in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ecode.analysis.work import BYTES, shortest_text
from ecode.environment import Function
from ecode.errors import TrapKind
from ecode.interpreter.memory import Closure, Frame, PointerValue, StringValue, Trapped, spend, take
from ecode.semantics import printf
from ecode.semantics.arithmetic import convert, is_floating
from ecode.semantics.layout import align
from ecode.typed import Call, ValueType
from ecode.types import STRING, Basic, Pointer

if TYPE_CHECKING:
    from ecode.interpreter.expressions import Expressions


def called(code: Expressions, node: Call) -> Closure:
    """A closure that calls a function, charges for it and logs it."""
    function, at = node.function, node.at
    arguments = [code.value(argument) for argument in node.arguments]
    finish = _finish(function, node.type)
    needed = [i for i, p in enumerate(function.parameters) if p == STRING] if function.needs_strings else []
    charge = None if shortest_text(node) is not None else function.charge

    def call(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        if needed and any(values[i] is None for i in needed):
            raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
        try:
            units, size = (0, 0) if charge is None else charge.call(*values)
            spend(frame, units, at)
            take(frame, size, at)
        except Trapped as trapped:
            raise Trapped(trapped.kind, at) from None
        if function.is_logged:
            size = _logged_bytes(values)
            spend(frame, size // BYTES, at)
            take(frame, size, at)
            frame.log.append((function.name, _logged(function, values)))
        try:
            result = function.call(*values)
        except Trapped as trapped:
            raise Trapped(trapped.kind, at) from None
        return finish(result, values)

    return call


def _finish(function: Function, type_: ValueType | None) -> Callable[[Any, list[Any]], Any]:
    """Converts a function's Python result to a value of the program."""
    if type_ is None:
        return lambda result, values: None
    if isinstance(type_, Pointer):
        # The result is an offset into the first argument.
        return lambda result, values: None if result is None else PointerValue(values[0], result, 0, len(values[0]) + 1)
    if type_ == STRING:
        return lambda result, values: (
            None if result is None else StringValue(result.encode() if isinstance(result, str) else result)
        )
    if isinstance(type_, Basic):
        number = type_
        return lambda result, values: convert(float(result) if is_floating(number) else result, number)
    return lambda result, values: result


def _logged(function: Function, values: list[Any]) -> tuple[Any, ...]:
    if function.name == "printf":
        return (printf.formatted(values[0], values[1:]),)
    return tuple(bytes(value) if isinstance(value, bytes) else value for value in values)


def _logged_bytes(values: list[Any]) -> int:
    """The bytes that a call takes in the log of generated code."""
    return 24 + sum(16 + (align(len(value), 8) if isinstance(value, bytes) else 0) for value in values)
