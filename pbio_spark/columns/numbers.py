"""Which number may become which Arrow type, and how it is stored.

A number becomes only what can say all of its values, with two exceptions that are asked for: 64-bit integers become
doubles, as they do in Spark, and an unsigned long becomes a long with `unsignedLongAs=long`. A value that turns out not
to fit makes a bad record.
"""

from __future__ import annotations

import pyarrow as pa

from ecode.types import Basic, Kind, Notes
from pbio_spark.formats.arrow_schema import decimal_type

_DIGITS = {1: 3, 2: 5, 4: 10, 8: 20}
_EXACT_BITS = {32: 24, 64: 53}


def number_to_store(basic: Basic, notes: Notes, want: pa.DataType, unsigned_long_as: str) -> tuple[str, str]:
    """How a basic field becomes a wanted type.

    Returns:
        (store, ""), where store is one that `plan.Scalar` knows or `symbol`; or ("", the reason why not).
    """
    store = _store(basic, notes, want, unsigned_long_as)
    what = notes.logical or str(basic)
    return (store, "") if store else ("", f"{what} cannot become {want} without loss")


def _store(basic: Basic, notes: Notes, want: pa.DataType, unsigned_long_as: str) -> str:
    kind, size = basic.kind, basic.size
    match kind:
        case Kind.BOOLEAN:
            return "bool" if pa.types.is_boolean(want) else ""
        case Kind.FLOAT:
            return f"float{want.bit_width}" if pa.types.is_floating(want) and size * 8 <= want.bit_width else ""
        case _ if notes.symbols and pa.types.is_string(want):
            return "symbol"
    is_signed = kind is Kind.INTEGER
    if notes.logical is not None and is_signed:
        return _logical(notes.logical, size, want)
    if pa.types.is_signed_integer(want):
        if 8 * size < want.bit_width or (is_signed and 8 * size == want.bit_width):
            return f"int{want.bit_width}"
        return "int64!" if size == 8 and unsigned_long_as == "long" and pa.types.is_int64(want) else ""
    if pa.types.is_floating(want) and (8 * size <= _EXACT_BITS.get(want.bit_width, 0) or want.bit_width == 64):
        return f"float{want.bit_width}"
    if pa.types.is_decimal128(want):
        return "decimal" if want.scale == 0 and want.precision >= _DIGITS[size] else ""
    if pa.types.is_binary(want) and size == 8 and not is_signed and unsigned_long_as == "binary":
        return "binary"
    return ""


def _logical(logical: str, size: int, want: pa.DataType) -> str:
    if pa.types.is_int64(want):
        return "int64"
    decimal = decimal_type(logical)
    if decimal is not None:
        return "decimal" if is_wider_decimal(want, decimal) else ""
    times = {
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "date": pa.date32(),
    }
    return f"int{8 * size}" if times.get(logical) == want else ""


def is_wider_decimal(want: pa.DataType, decimal: pa.DataType) -> bool:
    """Whether every value of a decimal type is one of the wanted type, digit by digit."""
    return bool(pa.types.is_decimal128(want) and want.scale == decimal.scale and want.precision >= decimal.precision)
