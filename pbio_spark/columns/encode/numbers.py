"""Which columns may fill which numbers, and which values must be checked.

A column fills a number of its own kind: integers of any width fill integers, and doubles fill floats, checked value by
value if the column's type has more values; dates, times and decimals fill fields noted as such. Nothing is rounded.
"""

from __future__ import annotations

import pyarrow as pa

from ecode.types import Basic, Kind, Notes
from pbio_spark.formats.arrow.schema import decimal_type

_TIMES = {
    "timestamp": lambda arrow: pa.types.is_timestamp(arrow) and arrow.unit == "us" and arrow.tz is not None,
    "timestamp_ntz": lambda arrow: arrow == pa.timestamp("us"),
    "date": pa.types.is_date32,
}


def number_to_load(basic: Basic, notes: Notes, arrow: pa.DataType) -> str | None:
    """How a column's values are loaded (see `encode_plan.Number`) to be stored as `basic`; None if that is not
    allowed."""
    is_whole = basic.kind in (Kind.INTEGER, Kind.UNSIGNED, Kind.CHAR, Kind.ENUMERATION)
    if basic.kind is Kind.BOOLEAN:
        return "bool" if pa.types.is_boolean(arrow) else None
    if basic.kind is Kind.FLOAT:
        fits = basic.size < 16 and (pa.types.is_float32(arrow) or pa.types.is_float64(arrow))
        return f"float{arrow.bit_width}" if fits else None
    if notes.logical in _TIMES:
        return f"int{arrow.bit_width}" if _TIMES[notes.logical](arrow) else None
    if pa.types.is_decimal128(arrow):
        return "decimal" if is_narrower_decimal(arrow, notes) else None
    if decimal_type(notes.logical) is not None or not is_whole:
        return None
    if pa.types.is_integer(arrow):
        return str(arrow)
    return "binary" if pa.types.is_binary(arrow) and basic == Basic(Kind.UNSIGNED, 8) else None


def is_narrower_decimal(arrow: pa.DataType, notes: Notes) -> bool:
    """Whether each value of the column's type is one of the field's; a plain integer has no fraction."""
    decimal = decimal_type(notes.logical) or pa.decimal128(38, 0)
    return bool(pa.types.is_decimal128(arrow) and arrow.scale == decimal.scale and arrow.precision <= decimal.precision)


def number_bounds(basic: Basic, load: str) -> tuple[int | None, int | None]:
    """The least and the greatest allowed value, as int64; None if no check is needed.

    An unsigned 64-bit integer is compared as a signed one, so a negative one is too large for anything narrower.
    """
    if basic.kind is Kind.FLOAT or load in ("bool", "binary"):
        return None, None
    low, high = _range(basic.kind is Kind.INTEGER, 8 * basic.size)
    if load == "uint64":
        return (None, None) if high == 2**64 - 1 else (0, high)
    if load == "decimal":
        # Values beyond 64 bits are found separately.
        least, greatest = _range(high != 2**64 - 1, 64)
    else:
        least, greatest = _range(load[0] != "u", int(load.lstrip("uint")))
    return low if low > least else None, high if high < greatest else None


def _range(is_signed: bool, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
