"""Python values that Arrow would silently change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

Misfit: TypeAlias = tuple[str, str]
"""What is wrong with a value, and what to give instead."""

_MOST_FLOAT: Final = float(np.finfo(np.float32).max)
_LOSES: Final = "loses a part as {}", "give the column a wider type, or round the values"
_NOTHING: Final = ("NaTType", "NAType")
"""The names of pandas' missing values."""
_NOT_LISTS: Final = (str, bytes, bytearray, memoryview, Mapping, set, frozenset)


def misfit(values: Sequence[Any], type_: pa.DataType) -> Misfit | None:
    """The first error in the values of a column, if any.

    >>> misfit([5], pa.date32())
    ('is a number, not a date', 'give a date, such as date(2026, 1, 31)')
    >>> misfit(["abc"], pa.list_(pa.string()))
    ('is not a list', 'put a single value into one: [value]')
    >>> misfit([1.5], pa.int32())[0]
    'loses a part as int32'
    """
    is_ = pa.types
    if is_.is_temporal(type_):
        return _time_misfit(values, type_)
    if is_.is_integer(type_):
        return _lost(any(value % 1 for value in values if isinstance(value, float | np.floating | Decimal)), type_)
    if is_.is_floating(type_):
        if any(isinstance(value, bool | np.bool_) for value in values):
            return "is a truth value, not a number", "give 1.0 or 0.0"
        if not is_.is_float32(type_):
            return None
        floats = [float(value) for value in values if isinstance(value, float | np.floating)]
        return _lost(any(_MOST_FLOAT < abs(value) < math.inf for value in floats), type_)
    if is_.is_list(type_):
        if any(isinstance(value, _NOT_LISTS) for value in values):
            return "is not a list", "put a single value into one: [value]"
        given = [value for value in values if isinstance(value, Sequence | np.ndarray)]
        return misfit([one for value in given for one in value], type_.value_type)
    if is_.is_struct(type_):
        rows = [value for value in values if isinstance(value, Mapping)]
        return _first(misfit([row.get(field.name) for row in rows], field.type) for field in type_)
    if is_.is_map(type_):
        maps = [value for value in values if isinstance(value, Mapping | Sequence)]
        pairs = [pair for value in maps for pair in (value.items() if isinstance(value, Mapping) else value)]
        parts = type_.key_type, type_.item_type
        return _first(misfit([pair[i] for pair in pairs], part) for i, part in enumerate(parts))
    return None


def _time_misfit(values: Sequence[Any], type_: pa.DataType) -> Misfit | None:
    if any(type(value).__name__ in _NOTHING for value in values):
        return "is a missing value of pandas", what_to_give(
            next(v for v in values if type(v).__name__ in _NOTHING), type_
        )
    times = [value for value in values if isinstance(value, datetime)]
    is_date = pa.types.is_date(type_)
    if len(times) < len(values) and any(isinstance(value, int | float | Decimal | np.number) for value in values):
        if is_date:
            return "is a number, not a date", "give a date, such as date(2026, 1, 31)"
        zone = "" if type_.tz is None else ", UTC"
        return "is a number, not a time", f"give a datetime, such as datetime.fromtimestamp(seconds{zone})"
    if not is_date and type_.tz is None and any(value.tzinfo is not None for value in times):
        return "has a time zone, and the field has none", "remove it: value.replace(tzinfo=None)"
    if any(getattr(value, "nanosecond", 0) for value in times):
        return _lost(True, type_)
    if is_date and any(value.time() != time() for value in times):
        return "has a time of day, and the field has none", "give the date: value.date()"
    return None


def what_to_give(value: Any, type_: pa.DataType) -> str:
    """A hint for a value that Arrow refuses for a type.

    >>> what_to_give("2026-01-31", pa.date32()), what_to_give(True, pa.int32())
    ('give a date: date.fromisoformat(text)', 'give 1 or 0')
    """
    is_, kind = pa.types, type(value).__name__
    if kind in _NOTHING:
        return "give None for a missing value, if the field can be null"
    if isinstance(value, pa.Scalar):
        return "give what it holds: value.as_py()"
    if isinstance(value, np.datetime64):
        return "give a datetime: value.astype('datetime64[us]').item()"
    if is_.is_string(type_):
        return (
            "give UTF-8; bytes of another kind need a field of type binary"
            if isinstance(value, bytes | str)
            else "give str(value)"
        )
    if is_.is_boolean(type_):
        return "give True or False"
    if is_.is_date(type_):
        return "give a date: date.fromisoformat(text)" if isinstance(value, str) else "give a date"
    if is_.is_timestamp(type_):
        if isinstance(value, str):
            return "give a datetime: datetime.fromisoformat(text)"
        return "give a datetime" + (": datetime.combine(day, time())" if kind == "date" else "")
    if is_.is_decimal(type_):
        if isinstance(value, Decimal) and value.is_finite():
            return f"round it to {type_.scale} digits after the point, or give the field a wider decimal"
        return "give a Decimal, made from a string: Decimal('1.5')"
    if isinstance(value, bool):
        return "give 1 or 0"
    if isinstance(value, str | Decimal) and is_.is_floating(type_):
        return "give a number: float(value)"
    if isinstance(value, str) and is_.is_integer(type_):
        return "give a number: int(text)"
    if isinstance(value, Iterator):
        return "give a list: list(value)"
    return "convert the values, or give the field another type"


def _first(found: Iterable[Misfit | None]) -> Misfit | None:
    return next((one for one in found if one is not None), None)


def _lost(is_lost: bool, type_: pa.DataType) -> Misfit | None:
    return (_LOSES[0].format(type_), _LOSES[1]) if is_lost else None
