"""Which numbers may become which Arrow types, and how.

Kinds and logical types decide whether a field can become a column at all, by the same function as in matching. Then
each value decides (`lossless`). If the column's type has every value of the field, nothing is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ecode.types import UINT64, Basic, Kind, Notes
from morph.comparison.convertible import INT128, Meaning, meaning_fits
from pbio_spark.columns.lossless import Mask, Numbers, beyond_precision, numbers_to_array
from pbio_spark.formats.arrow.schema import decimal_type, is_known

__all__ = ["INT128", "Conversion", "field_to_conversion"]

_EXACT_BITS = {32: 24, 64: 53}


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the numbers of a field become a column.

    Attributes:
        store: what a kernel stores, or how a program's numbers are taken: a memory type, `bool`, `decimal` (16 bytes),
            `binary` (8 bytes, the most significant first), `bytes` (16 that are kept as they are), or `symbol`.
        want: the type of the column.
        scale: the stored value is divided by 10**scale.
        is_checked: some stored values may not fit `want`.
    """

    store: str
    want: pa.DataType
    scale: int = 0
    is_checked: bool = False

    def to_array(self, numbers: Numbers, validity: pa.Buffer | None) -> tuple[pa.Array, Mask | None]:
        """Numbers as the column, and which of them do not fit; None if all fit."""
        return numbers_to_array(numbers, self.scale, self.want, validity)

    def stored_to_array(self, data: pa.Buffer, count: int, validity: pa.Buffer | None) -> tuple[pa.Array, Mask | None]:
        """`to_array` for a kernel's output, which may already be the column's memory."""
        is_same = (
            pa.types.is_decimal128(self.want) and self.store in ("decimal", "bytes") and self.want.scale == self.scale
        )
        if (self.is_checked or self.store == "bool") and not is_same:
            return self.to_array(_stored_to_numbers(data, self.store, count), validity)
        array = pa.Array.from_buffers(self.want, count, [validity, data])
        return array, beyond_precision(array) if self.is_checked else None


@lru_cache(maxsize=1024)
def field_to_conversion(basic: Basic, notes: Notes, want: pa.DataType, unsigned_long_as: str) -> Conversion | str:
    """How a basic field (`INT128` for 16 chars that are a decimal) becomes a wanted type, or the reason why not."""
    logical = notes.logical if is_known(notes.logical) and basic.kind is Kind.INTEGER else None
    source, wanted = Meaning(basic.kind, logical, bool(notes.symbols)), _meaning(want)
    if pa.types.is_binary(want) and basic == UINT64 and unsigned_long_as == "binary":
        return Conversion("binary", want)
    if wanted is None or not meaning_fits(source, wanted) or (basic.kind is Kind.FLOAT and basic.size == 16):
        return f"{logical or basic} cannot become {want}"
    if wanted.kind is Kind.STRING:
        return Conversion("symbol", want, is_checked=True)
    if wanted.logical is not None and not wanted.is_decimal:
        is_its = 8 * basic.size == want.bit_width
        return Conversion(f"int{want.bit_width}", want) if is_its else f"{logical} of {basic} cannot become {want}"
    decimal = decimal_type(logical)
    return _number(basic, decimal, want)


def _number(basic: Basic, decimal: pa.DataType | None, want: pa.DataType) -> Conversion:
    scale = 0 if decimal is None else decimal.scale
    bits = 8 * basic.size
    if basic.kind is Kind.FLOAT:
        if bits <= want.bit_width:
            return Conversion(f"float{want.bit_width}", want)
        return Conversion(f"float{bits}", want, is_checked=True)
    if basic.kind is Kind.BOOLEAN:
        return Conversion("bool", want, is_checked=pa.types.is_decimal128(want) and want.precision == want.scale)
    is_signed = basic.kind is Kind.INTEGER
    if pa.types.is_decimal128(want) and want.scale == scale:
        greatest = 2 ** (bits - is_signed)
        return Conversion(
            "bytes" if basic == INT128 else "decimal", want, scale, is_checked=greatest > 10**want.precision
        )
    if scale == 0 and basic != INT128:
        if pa.types.is_integer(want) and bits + (not is_signed) <= want.bit_width:
            return Conversion(f"int{want.bit_width}", want)
        if pa.types.is_floating(want) and bits - is_signed <= _EXACT_BITS[want.bit_width]:
            return Conversion(f"float{want.bit_width}", want)
    natural = "bytes" if basic == INT128 else "int64" if is_signed or bits < 64 else "uint64"
    return Conversion(natural, want, scale, is_checked=True)


def _stored_to_numbers(data: pa.Buffer, store: str, count: int) -> Numbers:
    """A kernel's output as numbers."""
    if store == "bytes":
        return np.frombuffer(data, np.int64, 2 * count).reshape(-1, 2)
    return np.frombuffer(data, np.uint8 if store == "bool" else store, count)


def _meaning(want: pa.DataType) -> Meaning | None:
    """The meaning of a column's values; None for a type that no number becomes."""
    types = pa.types
    if types.is_boolean(want):
        return Meaning(Kind.BOOLEAN)
    if types.is_signed_integer(want):
        return Meaning(Kind.INTEGER)
    if types.is_float32(want) or types.is_float64(want):
        return Meaning(Kind.FLOAT)
    if types.is_string(want):
        return Meaning(Kind.STRING)
    if types.is_decimal128(want) and 0 <= want.scale <= want.precision:
        return Meaning(Kind.INTEGER, f"decimal({want.precision},{want.scale})")
    return next((Meaning(Kind.INTEGER, logical) for logical, arrow in _TIMES.items() if arrow == want), None)


_TIMES = {"timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"), "date": pa.date32()}
