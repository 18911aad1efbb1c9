"""Lossless conversion of numbers: the one rule by which values become columns (DESIGN decision 35).

A number survives if the other type has exactly that number: 2^53 + 1 is not a double, 0.1 as a double is not a float,
1.50 is not an integer but 2.00 is. NaN, the infinities and -0.0 are values of every floating type. Numbers that do not
survive are reported by their places; their stand-ins are undefined.

`numbers_to_array` converts many, `exactly` one; `numbers` says for which types conversion can succeed at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers: TypeAlias = npt.NDArray[Any]
"""Integers, floats or truth values; or, of shape (n, 2), the low and high int64 halves of 128-bit integers."""

Mask: TypeAlias = npt.NDArray[np.bool_]

_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_MAX_EXPONENT = 400
"""No number of any type has more digits than this before or after the point."""

_MAX_SHIFT = 18
"""The most digits by which an int64 can be shifted: 10^18 is the greatest power of ten that it holds."""


def numbers_to_array(
    numbers: Numbers, scale: int, want: pa.DataType, validity: pa.Buffer | None
) -> tuple[pa.Array, Mask | None]:
    """Numbers as an array of a type, and which of them do not survive (None: all do).

    Args:
        numbers: each is divided by 10**scale.
        want: signed integer, floating or decimal.
        validity: the array's. Invalid places should hold zeros, which survive.

    >>> numbers_to_array(np.array([150, 200]), 2, pa.int64(), None)[1].tolist()
    [True, False]
    """
    if numbers.dtype.kind == "f":
        data, bad = _float_to_float(numbers, want)
    elif numbers.ndim == 2:
        data, bad = _wide(numbers, scale, want)
    else:
        whole = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64, copy=False)
        data, bad = _whole(whole, scale, want)
    array = pa.Array.from_buffers(want, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(data))])
    return array, bad if bad.any() else None


def exactly(number: int, scale: int, want: pa.DataType) -> int | float | None:
    """number / 10**scale as a value of a type (of a decimal: unscaled); None if the type lacks it.

    >>> exactly(150, 2, pa.float64()), exactly(10, 2, pa.float64()), exactly(150, 2, pa.decimal128(5, 1))
    (1.5, None, 15)
    """
    if pa.types.is_floating(want):
        exact = Fraction(number, 10**scale)
        try:
            rounded = float(np.dtype(f"f{want.bit_width // 8}").type(float(exact)))
        except OverflowError:
            return None
        return rounded if np.isfinite(rounded) and Fraction(rounded) == exact else None
    shift = (want.scale if pa.types.is_decimal(want) else 0) - scale
    whole, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if pa.types.is_decimal(want):
        fits = abs(whole) < 10**want.precision
    else:
        fits = -(1 << want.bit_width - 1) <= whole < 1 << want.bit_width - 1
    return whole if fits and not rest else None


def text_to_number(text: str) -> tuple[int, int]:
    """The number in a string, with any digits, as an integer divided by a power of ten.

    Raises ValueError.

    >>> text_to_number("1.50"), text_to_number("-2e3")
    ((150, 2), (-2000, 0))
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a number")
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    if not whole + fraction or abs(exponent) > _MAX_EXPONENT or len(text) > _MAX_EXPONENT:
        raise ValueError(f"{text[:80]!r} is not a number")
    number, scale = int(sign + whole + fraction), len(fraction) - exponent
    return (number * 10**-scale, 0) if scale < 0 else (number, scale)


def beyond_precision(array: pa.Array) -> Mask | None:
    """Which decimals of 16 bytes have more digits than their type; None if none do."""
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    bad = _beyond(halves.reshape(-1, 2), array.type.precision)
    if array.null_count:
        bad &= array.is_valid().to_numpy(zero_copy_only=False)
    return bad if bad.any() else None


def _float_to_float(numbers: Numbers, want: pa.DataType) -> tuple[Numbers, Mask]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        data = numbers.astype(f"f{want.bit_width // 8}")
        return data, (data.astype(numbers.dtype) != numbers) & ~np.isnan(numbers)


def _whole(numbers: Numbers, scale: int, want: pa.DataType) -> tuple[Numbers, Mask]:
    """`numbers_to_array` for int64 or uint64."""
    if pa.types.is_decimal(want):
        return _whole_to_decimal(numbers, scale, want)
    if pa.types.is_floating(want):
        # number / 10**scale is a binary fraction only if 5**scale divides number.
        quotients, bad = _divided(numbers, 5**scale)
        data = quotients.astype(f"f{want.bit_width // 8}")
        doubles = data.astype(np.float64)
        limit = 2.0**64 if numbers.dtype == np.uint64 else 2.0**63
        is_back = doubles < limit
        back = np.where(is_back, doubles, 0).astype(numbers.dtype)
        return np.ldexp(data, -scale), bad | ~is_back | (back != quotients)
    quotients, bad = _divided(numbers, 10**scale)
    least, greatest = -(1 << want.bit_width - 1), (1 << want.bit_width - 1) - 1
    if numbers.dtype == np.uint64:
        bad |= quotients > np.uint64(greatest)
    else:
        bad |= (quotients < least) | (quotients > greatest)
    return quotients.astype(f"i{want.bit_width // 8}"), bad


def _whole_to_decimal(numbers: Numbers, scale: int, want: pa.DataType) -> tuple[Numbers, Mask]:
    shift = want.scale - scale
    halves = np.zeros((len(numbers), 2), np.int64)
    if shift <= 0:
        quotients, bad = _divided(numbers, 10**-shift)
        halves[:, 0] = quotients.view(np.int64)
        if numbers.dtype != np.uint64:
            halves[:, 1] = quotients >> 63
        return halves, bad | _beyond(halves, want.precision)
    if shift <= _MAX_SHIFT:
        most = (2**63 - 1) // 10**shift
        fits = numbers <= np.uint64(most) if numbers.dtype == np.uint64 else (numbers <= most) & (numbers >= -most)
        halves[:, 0] = np.where(fits, numbers, 0).astype(np.int64) * 10**shift
        halves[:, 1] = halves[:, 0] >> 63
    else:
        fits = numbers == 0
    bad = _one_by_one(halves, ~fits, lambda i: int(numbers[i]), scale, want)
    return halves, bad | _beyond(halves, want.precision)


def _wide(numbers: Numbers, scale: int, want: pa.DataType) -> tuple[Numbers, Mask]:
    """`numbers_to_array` for 128-bit integers: int64 values together, others one by one."""
    if pa.types.is_decimal(want) and want.scale == scale:
        return numbers, _beyond(numbers, want.precision)
    low, high = numbers[:, 0], numbers[:, 1]
    is_narrow = high == low >> 63
    data, bad = _whole(np.where(is_narrow, low, 0), scale, want)

    def number(i: int) -> int:
        return (int(high[i]) << 64) + int(low[i].view(np.uint64))

    return data, bad | _one_by_one(data, ~is_narrow, number, scale, want)


def _one_by_one(data: Numbers, where: Mask, number: Callable[[int], int], scale: int, want: pa.DataType) -> Mask:
    """Fill in the places where numbers are too large for vectors; which of them do not survive."""
    bad = np.zeros(len(where), np.bool_)
    for i in np.flatnonzero(where).tolist():
        value = exactly(number(i), scale, want)
        if value is None:
            bad[i] = True
        elif pa.types.is_decimal(want):
            data[i] = np.frombuffer(int(value).to_bytes(16, "little", signed=True), np.int64)
        else:
            data[i] = value
    return bad


def _divided(numbers: Numbers, by: int) -> tuple[Numbers, Mask]:
    """The quotients, and which of them have a remainder."""
    if by == 1:
        return numbers, np.zeros(len(numbers), np.bool_)
    if by > 2**63 - 1:
        return np.zeros_like(numbers), numbers != 0
    quotients = numbers // numbers.dtype.type(by)
    return quotients, quotients * numbers.dtype.type(by) != numbers


def _beyond(halves: Numbers, precision: int) -> Mask:
    """Which 128-bit integers have more digits than `precision`."""
    low, high = halves[:, 0].view(np.uint64), halves[:, 1]

    def is_less(bound: int) -> Mask:
        bound_high, bound_low = bound >> 64, np.uint64(bound & (2**64 - 1))
        less: Mask = (high < bound_high) | ((high == bound_high) & (low < bound_low))
        return less

    return is_less(1 - 10**precision) | ~is_less(10**precision)
