"""The value of a column that no field fills: its default, if its type has exactly that value."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa

from ecode.types import Default
from pbio_spark.columns.lossless import exactly, text_to_number
from pbio_spark.formats.arrow.mapping import FieldRule, Mapped, refuse_type

_MAX_FLOAT = 3.4028235677973366e38
"""Halfway between the greatest float and its would-be successor."""


def default_of(node: Mapped) -> Default | Decimal:
    """The value of a column that no field fills, or of a count that is the extent of a type; None if it is null.

    Raises PBIO_INCOMPATIBLE_TYPE if its type does not have the value.
    """
    is_count = node.rule is FieldRule.COUNT
    default = int(node.dimension) if is_count else node.default
    try:
        return exact_default(default, node.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError):
        what = "count" if is_count else "default"
        refuse_type(
            node.where,
            f"the {what} {default!r} is not a value of type {node.arrow}",
            "ask for a wider type" if is_count else "give one that the column's type has",
        )


def exact_default(default: Default, want: pa.DataType) -> Default | Decimal:
    """A default in the form that `pa.scalar` takes; raises ValueError, or that function's errors, if the type lacks it.

    A fraction may have more digits than a floating type: 0.1 has no exact value.
    """
    is_decimal, is_floating = pa.types.is_decimal(want), pa.types.is_floating(want)
    if isinstance(default, int | float) and not isinstance(default, bool):
        if pa.types.is_integer(want) or is_decimal or (is_floating and isinstance(default, int)):
            number = exactly(*text_to_number(repr(default)), want)
            if number is None:
                raise ValueError(default)
            if not is_decimal:
                return number
            return Decimal((int(number < 0), tuple(map(int, str(abs(int(number))))), -want.scale))
        if pa.types.is_float32(want) and _MAX_FLOAT <= abs(default) < math.inf:
            raise ValueError(default)
    pa.scalar(default, want)
    return default
