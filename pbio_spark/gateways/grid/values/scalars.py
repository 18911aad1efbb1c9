"""Values of basic fields <-> text, as XML Schema writes them (grid-events 6).

Each `ValueSyntax` reads and writes one kind of value with all checks. It also has expressions for generated code, which
take the common case only: anything else makes them raise, and the careful functions decide.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from ecode.types import Basic, Kind
from pbio_spark.gateways.grid.protocol.nodes import to_text
from pbio_spark.gateways.grid.values.times import text_to_time, time_to_text

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SPECIAL = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class ValueSyntax:
    """The syntax of one kind of value.

    Attributes:
        what: it is, for people.
        read: the value of a text. Raises ValueError with what is wrong.
        write: the text of a value, not yet escaped. Raises ValueError, TypeError and the like.
        fast_write: an expression for the escaped text of the value `x`, where `x` is as usual.
        fast_read: an expression for the value of the text `x`, where `x` is as usual.
        is_number: whether what `fast_read` gives is to be checked together with other numbers; see `shapes`.
        names: what the expressions use.
        exact: for numbers, the value of an exact number that was converted from other units. Raises ValueError.
    """

    what: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    fast_write: str = ""
    fast_read: str = ""
    is_number: bool = False
    names: Mapping[str, Any] = field(default_factory=dict)
    exact: Callable[[Decimal], Any] | None = None


class NotPlainError(Exception):
    """A value that fast code leaves to the careful one."""


def not_plain(*_: object) -> Any:
    """Raise NotPlainError."""
    raise NotPlainError


# floats


def _read_float(text: str) -> float:
    stripped = text.strip(_BLANKS)
    if stripped in _SPECIAL:
        return _SPECIAL[stripped]
    if _FLOAT.fullmatch(stripped) is None:
        raise ValueError("not a number")
    value = float(stripped)
    if math.isinf(value):
        raise ValueError("too large for a float of 8 bytes")
    return value


def _read_float32(text: str) -> float:
    return _to_float32(_read_float(text))


def _to_float32(value: float) -> float:
    with np.errstate(over="ignore"):
        short = float(np.float32(value))
    if math.isinf(short) and not math.isinf(value):
        raise ValueError("too large for a float of 4 bytes")
    return short


def _write_float(value: Any) -> str:
    number = _float(value)
    return _special(number) or float.__repr__(number)


def _write_float32(value: Any) -> str:
    number = _float(value)
    if _special(number):
        return _special(number)
    short = _to_float32(number)
    if short != number:
        raise ValueError("not a float of 4 bytes")
    return str(np.float32(short))


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise TypeError("not a number")
    number = float(value)
    if isinstance(value, int | np.integer) and int(number) != int(value):
        raise ValueError("no float has this value")
    return number


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("INF" if value > 0 else "-INF") if math.isinf(value) else ""


_FLOAT_SPECIAL = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}

FLOAT64 = ValueSyntax(
    "a number",
    _read_float,
    _write_float,
    "r if 'n' not in (r := FLOAT(x)) else SPECIAL[r]",
    "float(x)",
    True,
    {"FLOAT": float.__repr__, "SPECIAL": _FLOAT_SPECIAL},
    lambda exact: _read_float(str(exact)),
)
FLOAT32 = ValueSyntax(
    "a number",
    _read_float32,
    _write_float32,
    "FLOAT32(x)",
    "FLOAT32_OF(x)",
    False,
    {"FLOAT32": _write_float32, "FLOAT32_OF": _read_float32},
    lambda exact: _read_float32(str(exact)),
)


# whole numbers, and what is kept as such


def integer(type_: Basic) -> ValueSyntax:
    """Whole numbers of a basic type."""
    bits = 8 * type_.size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_.kind is Kind.INTEGER else (0, (1 << bits) - 1)
    make: Callable[[int], Any] = Decimal if type_.kind is not Kind.INTEGER and type_.size == 8 else int
    what = f"a whole number from {low} to {high}"

    def checked(number: int) -> int:
        if not low <= number <= high:
            raise ValueError(f"not {what}")
        return number

    def read(text: str) -> Any:
        stripped = text.strip(_BLANKS)
        if _INTEGER.fullmatch(stripped) is None:
            raise ValueError(f"not {what}")
        return make(checked(int(stripped)))

    def write(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | np.integer | np.floating):
            raise TypeError(f"not {what}")
        if value != int(value):
            raise ValueError(f"not {what}")
        return str(checked(int(value)))

    def exact(number: Decimal) -> Any:
        if number != number.to_integral_value():
            raise ValueError("not whole in the units of the field")
        return make(checked(int(number)))

    fast = f"INT(x) if {low} <= x <= {high} else SLOW()" if make is int else "WRITE(x)"
    names = {"INT": int.__repr__, "SLOW": not_plain} if make is int else {"WRITE": write}
    return ValueSyntax(what, read, write, fast, "", False, names, exact)


def _read_boolean(text: str) -> bool:
    said = text.strip(_BLANKS)
    if said not in ("true", "false", "1", "0"):
        raise ValueError("not true or false")
    return said in ("true", "1")


def _write_boolean(value: Any) -> str:
    if not isinstance(value, bool | np.bool_):
        raise TypeError("not true or false")
    return "true" if value else "false"


BOOLEAN = ValueSyntax("true or false", _read_boolean, _write_boolean, "BOOLEAN(x)", names={"BOOLEAN": _write_boolean})


def decimal(precision: int, scale: int) -> ValueSyntax:
    """Decimals of a precision and a scale."""
    what = f"a decimal of {precision} digits, {scale} of them after the point"

    def checked(number: Decimal) -> Decimal:
        if not number.is_finite() or number != round(number, scale) or abs(number) >= 10 ** (precision - scale):
            raise ValueError(f"not {what}")
        return number.quantize(Decimal(1).scaleb(-scale))

    def read(text: str) -> Decimal:
        stripped = text.strip(_BLANKS)
        if len(stripped) > 200 or _DECIMAL.fullmatch(stripped) is None:
            raise ValueError(f"not {what}")
        return _wide(checked, Decimal(stripped))

    def write(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise TypeError(f"not {what}")
        return f"{_wide(checked, Decimal(value)):f}"

    return ValueSyntax(what, read, write, "DECIMAL(x)", names={"DECIMAL": write}, exact=lambda d: _wide(checked, d))


def _wide(function: Callable[[Decimal], Decimal], value: Decimal) -> Decimal:
    """Call it where no digit is lost."""
    from decimal import Context, localcontext

    with localcontext(Context(prec=400)):
        return function(value)


# text


def _write_string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


_FAST_STRING = "x if x.isprintable() and '<' not in x and '&' not in x and '>' not in x else TEXT(x)"
STRING = ValueSyntax(
    "text",
    lambda text: text,
    _write_string,
    _FAST_STRING,
    "x",
    names={"TEXT": to_text},
)


def chars(length: int) -> ValueSyntax:
    """Text in an array of characters of a fixed length."""

    def checked(value: Any) -> str:
        text = _write_string(value)
        if len(text.encode()) > length:
            raise ValueError(f"longer than {length} bytes")
        return text

    return ValueSyntax("text", checked, checked, "TEXT(WRITE(x))", names={"TEXT": to_text, "WRITE": checked})


def symbol(symbols: tuple[tuple[str, int], ...]) -> ValueSyntax:
    """The names of an enumeration's values."""
    names = {name for name, _ in symbols}
    what = f"one of {', '.join(sorted(names)[:20])}"

    def checked(value: Any) -> str:
        if value not in names:
            raise ValueError(f"not {what}")
        return str(value)

    def read(text: str) -> str:
        return checked(text if text in names else text.strip(_BLANKS))

    return ValueSyntax(what, read, checked, "TEXT(WRITE(x))", names={"TEXT": to_text, "WRITE": checked})


def _read_binary(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None


def _write_binary(value: Any) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("not bytes")
    return base64.b64encode(value).decode()


BINARY = ValueSyntax("base64", _read_binary, _write_binary, "BINARY(x)", names={"BINARY": _write_binary})


def binary(length: int) -> ValueSyntax:
    """Bytes in an array of characters of a fixed length."""

    def read(text: str) -> bytes:
        return checked(_read_binary(text))

    def write(value: Any) -> str:
        return _write_binary(checked(value))

    def checked(value: Any) -> bytes:
        if len(value) > length:
            raise ValueError(f"longer than {length} bytes")
        return bytes(value)

    return ValueSyntax("base64", read, write, "WRITE(x)", names={"WRITE": write})


# times


def _read_date(text: str) -> date:
    said = text.strip(_BLANKS)
    if _DATE.fullmatch(said) is None:
        raise ValueError("not a date such as 2000-11-09")
    return date.fromisoformat(said)


def _write_date(value: Any) -> str:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError("not a date")
    return value.isoformat()


def _read_local(text: str) -> datetime:
    said = text.strip(_BLANKS)
    return text_to_time(f"{said}Z").replace(tzinfo=None)


def _write_local(value: Any) -> str:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise TypeError("not a time without a zone")
    return value.isoformat()


DATE = ValueSyntax("a date", _read_date, _write_date, "DATE(x)", names={"DATE": _write_date})
LOCAL_TIME = ValueSyntax("a time without a zone", _read_local, _write_local, "LOCAL(x)", names={"LOCAL": _write_local})
TIME = ValueSyntax(
    "a time with a zone",
    text_to_time,
    time_to_text,
    "r[:-6] + 'Z' if (r := x.isoformat())[-6:] == '+00:00' else TIME(x)",
    "ISO(x) if x[4::3] == '--T::Z' else TIME_OF(x)",
    names={"TIME": time_to_text, "TIME_OF": text_to_time, "ISO": datetime.fromisoformat},
)
