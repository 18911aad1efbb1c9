"""What C's operators do to numbers (ecode-language 5 and 6), applied to Python numbers. No other module repeats these
rules.

Integers are Python integers inside the range of their type; a `float32` is the double of its value.
"""

from __future__ import annotations

import math
from ctypes import c_float

from ecode.types import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Basic, Kind

Number = int | float


def plain(type_: Basic) -> Basic | None:
    """The integer or floating type in which a program computes a field of a basic type; None if it cannot.

    >>> print(plain(Basic(Kind.CHAR, 1)), plain(Basic(Kind.BOOLEAN, 1)), plain(Basic(Kind.FLOAT, 16)))
    int8 uint8 None
    """
    match type_.kind:
        case Kind.INTEGER | Kind.CHAR | Kind.ENUMERATION if type_.size in (1, 2, 4, 8):
            return Basic(Kind.INTEGER, type_.size)
        case Kind.UNSIGNED | Kind.BOOLEAN if type_.size in (1, 2, 4, 8):
            return Basic(Kind.UNSIGNED, type_.size)
        case Kind.FLOAT if type_.size in (4, 8):
            return type_
    return None


def is_floating(type_: Basic) -> bool:
    return type_.kind is Kind.FLOAT


def is_signed(type_: Basic) -> bool:
    return type_.kind is Kind.INTEGER


def limits(type_: Basic) -> tuple[int, int]:
    """The least and the greatest value of a plain integer type."""
    bits = 8 * type_.size
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(type_) else (0, (1 << bits) - 1)


def promote(type_: Basic) -> Basic:
    """Integer promotion of a plain type."""
    return INT32 if not is_floating(type_) and type_.size < 4 else type_


def usual(left: Basic, right: Basic) -> Basic:
    """The usual arithmetic conversions of two plain types.

    >>> print(usual(INT64, UINT32), usual(INT32, UINT32), usual(FLOAT32, INT64))
    int64 uint32 float32
    """
    left, right = promote(left), promote(right)
    for candidate in (FLOAT64, FLOAT32, UINT64, INT64, UINT32):
        if candidate in (left, right):
            return candidate
    return INT32


def wrap(value: int, type_: Basic) -> int:
    """The low bits of an integer, as a value of the type."""
    bits = 8 * type_.size
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed(type_) and value >> bits - 1 else value


def round_single(value: float) -> float:
    return c_float(value).value


def convert(value: Number, type_: Basic) -> Number:
    """Assignment conversion: integers keep low bits, floats truncate and saturate (NaN is 0), floats round once."""
    if isinstance(value, int):
        if type_ == FLOAT64:
            return float(value)
        if type_ == FLOAT32:
            # The leading bits, with the rest folded into the last one, round to single as the integer does.
            excess = max(abs(value).bit_length() - 50, 0)
            sticky = (abs(value) >> excess) | bool(abs(value) & ((1 << excess) - 1))
            return math.copysign(round_single(float(sticky << excess)), value)
        return wrap(value, type_)
    if type_ == FLOAT64:
        return value
    if type_ == FLOAT32:
        return round_single(value)
    if math.isnan(value):
        return 0
    low, high = limits(type_)
    return low if value <= low else high if value >= high else int(value)


def compute(op: str, left: Number, right: Number, type_: Basic) -> Number:
    """`left op right` for operands of one plain type; the right operand of a shift may be any integer.

    Raises:
        ZeroDivisionError: integer division by zero.
    """
    if is_floating(type_):
        value = _compute_floating(op, float(left), float(right))
        return round_single(value) if type_ == FLOAT32 else value
    return wrap(_compute_integer(op, int(left), int(right), 8 * type_.size), type_)


def _compute_integer(op: str, left: int, right: int, bits: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case "%":
            remainder = abs(left) % abs(right)
            return -remainder if left < 0 else remainder
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<":
            return left << (right & bits - 1)
        case ">>":
            return left >> (right & bits - 1)
    raise ValueError(op)


def _compute_floating(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            if right != 0:
                return left / right
            if left == 0 or math.isnan(left):
                return math.nan
            return math.copysign(math.inf, left) * math.copysign(1, right)
    raise ValueError(op)


def compare(op: str, left: Number, right: Number) -> int:
    """0 or 1; with NaN only `!=` is true."""
    match op:
        case "<":
            return int(left < right)
        case "<=":
            return int(left <= right)
        case ">":
            return int(left > right)
        case ">=":
            return int(left >= right)
        case "==":
            return int(left == right)
        case "!=":
            return int(left != right)
    raise ValueError(op)
