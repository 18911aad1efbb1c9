"""The text of arithmetic. Operands are expressions of int64 (for unsigned 64-bit: the same bits), float32 or
float64."""

from __future__ import annotations

import math

from ecode.semantics.arithmetic import is_floating, is_signed, limits
from ecode.types import FLOAT32, INT32, UINT64, Basic

_BITS = (1 << 64) - 1
_NARROW = {"+": "add_int32", "-": "subtract_int32", "*": "multiply_int32"}


def constant(value: int | float, type_: Basic) -> str:
    """A number as text.

    >>> from ecode.types import FLOAT64, INT32
    >>> constant(-3, INT32), constant(0.5, FLOAT32), constant(math.inf, FLOAT64)
    ('-3', 'as_float32(0.5)', '(1e308 * 10.0)')
    """
    if not is_floating(type_):
        bits = int(value) & _BITS
        signed = bits - (1 << 64) if bits >> 63 else bits
        return "(-9223372036854775807 - 1)" if signed == -(1 << 63) else str(signed)
    number = float(value)
    if math.isnan(number):
        text = "(1e308 * 10.0 - 1e308 * 10.0)"
    elif math.isinf(number):
        text = "(1e308 * 10.0)" if number > 0 else "(-1e308 * 10.0)"
    else:
        text = repr(number)
    return f"as_float32({text})" if type_ == FLOAT32 else text


def wrapped(text: str, type_: Basic) -> str:
    """The low bits of an int64, as a value of an integer type."""
    if type_.size == 8:
        return text
    if is_signed(type_):
        return f"as_int{8 * type_.size}({text})"
    return f"(({text}) & {(1 << 8 * type_.size) - 1})"


def converted(text: str, source: Basic, type_: Basic) -> str:
    """Assignment conversion."""
    if source == type_:
        return text
    if is_floating(type_):
        if is_floating(source):
            return f"as_{type_}({text})"
        unsigned = f"as_uint64({text})" if source == UINT64 else f"as_int64({text})"
        return f"as_{type_}({unsigned})"
    if is_floating(source):
        return f"saturated_{type_}({text})"
    low, high = limits(source)
    wanted_low, wanted_high = limits(type_)
    if wanted_low <= low and high <= wanted_high:
        return text
    return wrapped(text, type_)


def combined(op: str, left: str, right: str, type_: Basic) -> str:
    """`left op right`; a divisor has already been checked."""
    if is_floating(type_):
        return f"({left} {op} {right})"
    if op in ("/", "%"):
        word = "quotient" if op == "/" else "remainder"
        width = "uint64" if type_ == UINT64 else "int32" if is_signed(type_) and type_.size < 8 else "int64"
        return f"{word}_{width}({left}, {right})"
    if op in ("<<", ">>"):
        count = f"({right} & {8 * type_.size - 1})"
        if op == ">>" and type_ == UINT64:
            return f"as_int64(as_uint64({left}) >> as_uint64{count})"
        shifted = f"({left} {op} {count})"
        return shifted if op == ">>" else wrapped(shifted, type_)
    if op in _NARROW and type_ == INT32:
        return f"{_NARROW[op]}({left}, {right})"
    text = f"({left} {op} {right})"
    return text if op in ("&", "|", "^") else wrapped(text, type_)


def compared(op: str, left: str, right: str, type_: Basic) -> str:
    """A condition."""
    if type_ == UINT64 and op not in ("==", "!="):
        return f"(as_uint64({left}) {op} as_uint64({right}))"
    return f"({left} {op} {right})"


def negated(text: str, type_: Basic) -> str:
    # Negation in the narrow type would leave its least value unchanged.
    return f"(-{text})" if is_floating(type_) else wrapped(f"(-as_int64({text}))", type_)


def inverted(text: str, type_: Basic) -> str:
    return wrapped(f"(~{text})", type_)
