"""Units of one dimension, and exact conversion between them (grid-events 6)."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

from ecode.suggest import did_you_mean

_SECOND, _BIT, _KELVIN, _METRE, _KILOGRAM = "time", "bytes and bits", "temperature", "length", "mass"

_F = Fraction
_TABLE: Final[dict[str, dict[str, tuple[Fraction, Fraction]]]] = {
    _SECOND: {
        **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), (_F(1, 10**9), _F(0))),
        **dict.fromkeys(("us", "usec", "µs", "microsecond", "microseconds"), (_F(1, 10**6), _F(0))),
        **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), (_F(1, 1000), _F(0))),
        **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), (_F(1), _F(0))),
        **dict.fromkeys(("min", "mins", "minute", "minutes"), (_F(60), _F(0))),
        **dict.fromkeys(("h", "hr", "hour", "hours"), (_F(3600), _F(0))),
        **dict.fromkeys(("d", "day", "days"), (_F(86400), _F(0))),
    },
    _BIT: {
        **dict.fromkeys(("bit", "bits"), (_F(1), _F(0))),
        **dict.fromkeys(("B", "byte", "bytes"), (_F(8), _F(0))),
        **{f"{k}bit": (_F(1000**n), _F(0)) for n, k in enumerate("kMGTP", 1)},
        **{f"{k}B": (_F(8 * 1000**n), _F(0)) for n, k in enumerate("kMGTP", 1)},
        **{f"{k}ibit": (_F(1024**n), _F(0)) for n, k in enumerate("KMGTP", 1)},
        **{f"{k}iB": (_F(8 * 1024**n), _F(0)) for n, k in enumerate("KMGTP", 1)},
    },
    _KELVIN: {
        **dict.fromkeys(("K", "kelvin"), (_F(1), _F(0))),
        **dict.fromkeys(("C", "°C", "celsius", "Celsius"), (_F(1), _F(27315, 100))),
        **dict.fromkeys(("F", "°F", "fahrenheit", "Fahrenheit"), (_F(5, 9), _F(45967, 100) * _F(5, 9))),
    },
    _METRE: {
        **{name: (_F(factor), _F(0)) for name, factor in (("nm", "1/1000000000"), ("µm", "1/1000000"))},
        **{name: (_F(factor), _F(0)) for name, factor in (("mm", "1/1000"), ("cm", "1/100"), ("km", 1000))},
        **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), (_F(1), _F(0))),
        **dict.fromkeys(("in", "inch", "inches"), (_F(254, 10000), _F(0))),
        **dict.fromkeys(("ft", "foot", "feet"), (_F(3048, 10000), _F(0))),
        **dict.fromkeys(("mi", "mile", "miles"), (_F(1609344, 1000), _F(0))),
    },
    _KILOGRAM: {
        **{name: (_F(factor), _F(0)) for name, factor in (("mg", "1/1000000"), ("g", "1/1000"), ("t", 1000))},
        **dict.fromkeys(("kg", "kilogram", "kilograms"), (_F(1), _F(0))),
        **dict.fromkeys(("lb", "lbs", "pound", "pounds"), (_F(45359237, 10**8), _F(0))),
        **dict.fromkeys(("oz", "ounce", "ounces"), (_F(28349523125, 10**12), _F(0))),
    },
}
UNITS: Final = {name: (dimension, how) for dimension, names in _TABLE.items() for name, how in names.items()}
"""Name -> dimension, and the factor and the offset to its base unit."""


def convert(text: str, units: str, wanted: str) -> Decimal:
    """A number in some units as one in others, to 34 digits; whole where it is whole.

    Raises ValueError for what is not a number, and for units that are unknown or of different dimensions.

    >>> convert("10", "min", "sec"), convert("1.5", "KiB", "bytes"), convert("212", "F", "C")
    (Decimal('600'), Decimal('1536'), Decimal('100'))
    """
    other = _find(wanted)
    one = _find(units, other[0])
    if one[0] != other[0]:
        raise ValueError(f"{units[:40]!r} ({one[0]}) cannot become {wanted[:40]!r} ({other[0]})")
    stripped = text.strip(" \t\r\n")
    if len(stripped) > 400 or not stripped.isascii() or "_" in stripped:
        raise ValueError("not a number")
    try:
        exact = Decimal(stripped)
    except ArithmeticError:
        raise ValueError("not a number") from None
    if not exact.is_finite() or abs(exact.adjusted()) > 400:
        raise ValueError(f"cannot be converted from {units[:40]!r} to {wanted[:40]!r}")
    (factor, offset), (wanted_factor, wanted_offset) = one[1], other[1]
    made = (Fraction(exact) * factor + offset - wanted_offset) / wanted_factor
    with localcontext(Context(prec=34)):
        if made.denominator == 1 and abs(made.numerator) < 10**34:
            return Decimal(made.numerator)
        return Decimal(made.numerator) / Decimal(made.denominator)


def _find(name: str, dimension: str = "") -> tuple[str, tuple[Fraction, Fraction]]:
    if name not in UNITS:
        likely = _TABLE.get(dimension, {})
        hint = did_you_mean(name, likely) or did_you_mean(name, UNITS)
        raise ValueError(f"unknown units {name[:40]!r}" + (f"; {hint}" if hint else ""))
    return UNITS[name]
