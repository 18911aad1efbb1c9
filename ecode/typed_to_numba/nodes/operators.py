"""Operators whose operands are text already: arithmetic with its checks, pointers that move."""

from __future__ import annotations

from ecode.errors import TrapKind
from ecode.semantics.arithmetic import is_floating
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed_to_numba import numbers
from ecode.typed_to_numba.code import Code, Parts
from ecode.types import Basic, Pointer


def arithmetic(code: Code, op: str, left: str, right: str, type_: Basic, at: int) -> str:
    """The text of a binary operator; an integer division checks its divisor first."""
    if op in ("/", "%") and not is_floating(type_):
        right = code.emitter.named(right)
        if not right.lstrip("-").isdigit() or int(right) == 0:
            code.emitter.trap(f"{right} == 0", TrapKind.DIVISION_BY_ZERO, at)
    return numbers.combined(op, left, right, type_)


def moved(code: Code, pointer: Parts, offset: str, type_: Pointer, at: int) -> Parts:
    """A pointer moved by an offset: inside its object, or just past its end."""
    emitter = code.emitter
    size = MEMORY_LAYOUT.size(type_.target, code.program.structs)
    start, low, high = (emitter.temp(part) for part in pointer)
    by = emitter.temp(offset)
    # Compared in elements: a product might wrap around.
    least, most = (f"quotient_int64({end} - {start}, {max(size, 1)})" for end in (low, high))
    emitter.trap(f"{start} == 0 or not {least} <= {by} <= {most}", TrapKind.INDEX_OUT_OF_RANGE, at)
    return f"{start} + {size} * {by}", low, high
