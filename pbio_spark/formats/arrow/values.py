"""One record as `decode` has it <-> as tables show it: the plain twin of what `columns` does with batches.

`decode` gives a timestamp as microseconds, a decimal as its unscaled number, chars as numbers, and every hidden count.
Here these are `datetime`, `Decimal` and `str`, and hidden fields are gone.

    >>> from pbio_spark.formats.layout import record_to_format
    >>> from pbio_spark.formats.record_json import json_to_record
    >>> order = json_to_record({"Order": {"day": "date", "prices": "decimal(10,2)[]", "by": "char[4]"}})
    >>> both = Shown(record_to_format(order))
    >>> both.shown({"day": 1, "prices_count": 1, "prices": [150], "by": [97, 100, 97, 0]})
    {'day': datetime.date(1970, 1, 2), 'prices': [Decimal('1.50')], 'by': 'ada'}
    >>> both.stored({"day": date(1970, 1, 2), "prices": [Decimal("1.5")], "by": "ada"})
    {'day': 1, 'prices': [150], 'by': [97, 100, 97, 0]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from ecode.types import UINT64, Array, Pointer, Type
from pbio_spark.errors import PbioError, step_to_text
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.given import misfit
from pbio_spark.formats.arrow.schema import How, SchemaColumn, record_to_columns

Change: TypeAlias = Callable[[Any], Any]
"""Converts one value. Raises ValueError, TypeError and the like for one without a counterpart."""

Way: TypeAlias = "Callable[[SchemaColumn], Change | None]"
"""A column -> the conversion of its values; None if they stay as they are."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=60, traps=[Inexact])


class Shown:
    """The two directions for a format.

    Raises what `record_to_columns` raises: a recursive format, or a long double, is not shown in tables.
    """

    def __init__(self, form: Format) -> None:
        columns = record_to_columns(form.record)
        self._shown, self._stored = _structure(columns, _to_shown), _structure(columns, _to_stored)

    def shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Stored values as tables show them.

        Raises PBIO_BAD_VALUE, with the field, for a value that Python lacks, such as a date in the year 10000.
        """
        made: dict[str, Any] = self._shown(values)
        return made

    def stored(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values as tables show them, in the form that `encode` takes; `encode` handles missing names.

        Raises PBIO_BAD_VALUE, with the field, for a value that would lose a part: a digit, a time of day.
        """
        made: dict[str, Any] = self._stored(values)
        return made


def _structure(columns: Sequence[SchemaColumn], way: Way) -> Change:
    """The dict of a structure. Showing leaves hidden fields out; storing keeps names that are not columns, or refuses
    them."""
    is_shown = way is _to_shown
    changes = {}
    for column in columns:
        names = (column.field.name, column.name)
        # Of a field that a bit marks as null, `decode` has None for a null only.
        counts = _controls(column.type) if is_shown and column.field.notes.null_bit is None else []
        changes[names[not is_shown]] = names[is_shown], way(column), column.arrow, counts

    def change(values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        made = {} if is_shown else {key: value for key, value in values.items() if key not in changes}
        for key, (name, inner, arrow, counts) in changes.items():
            if key in values:
                value = values[key]
                if any(values.get(count) == 0 for count in counts):
                    value = _emptied(value)
                try:
                    made[name] = value if value is None or inner is None else inner(value)
                except PbioError as error:
                    error.field = f"${step_to_text(key)}{(error.field or '$')[1:]}"
                    raise
                except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                    why = "" if isinstance(error, LookupError) else f": {error}"
                    said = f"{str(value)[:60]!r} does not fit {arrow}{why}"
                    raise PbioError(
                        "PBIO_BAD_VALUE",
                        said,
                        field=f"${step_to_text(key)}",
                        hint="" if is_shown else "give a value that the type holds exactly",
                    ) from None
        return made

    return change


def _listed(column: SchemaColumn, way: Way) -> Change | None:
    (item,) = column.children
    inner = way(item)
    if inner is None and way is _to_shown:
        return None
    change, levels, type_ = inner, 0, column.arrow
    while type_ != item.arrow:
        levels, type_ = levels + 1, type_.value_type

    def at(level: int, value: Any) -> Any:
        if value is None or not level:
            return value if value is None or change is None else change(value)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        return [at(level - 1, one) for one in value] if isinstance(value, list | tuple | range) else value

    return lambda value: at(levels, value)


def _nested(column: SchemaColumn, way: Way) -> Change | None:
    """The conversion of nested values."""
    is_shown = way is _to_shown
    if column.how is How.LIST:
        return _listed(column, way)
    whole = _structure(column.children, way)
    if column.how is How.STRUCT:
        return whole
    if column.how is How.ITEM:
        name = column.children[0].name
        return (lambda value: whole(value)[name]) if is_shown else (lambda value: whole({name: value}))
    key, item = (child.name for child in column.children)
    if is_shown:
        return lambda value: [(one[key], one[item]) for one in map(whole, value)]
    return lambda value: [whole({key: one, item: of}) for one, of in _pairs(value)]


def _to_shown(column: SchemaColumn) -> Change | None:
    match column.how:
        case How.STRUCT | How.ITEM | How.MAP | How.LIST:
            return _nested(column, _to_shown)
        case How.SYMBOL:
            return {number: name for name, number in column.field.notes.symbols}.__getitem__
        case How.BYTES:
            return bytes
        case How.TEXT if _is_run(column.type):
            return lambda value: bytes(value).partition(b"\0")[0].decode()
        case How.DECIMAL if _target(column.type) != UINT64:
            scale = column.arrow.scale
            return lambda value: Decimal(_number(value)).scaleb(-scale, _EXACT)
        case How.NUMBER if pa.types.is_date(column.arrow):
            return lambda value: _EPOCH.date() + timedelta(value)
        case How.NUMBER if pa.types.is_timestamp(column.arrow):
            epoch = _EPOCH if column.arrow.tz else _EPOCH.replace(tzinfo=None)
            return lambda value: epoch + value * _MICROSECOND
    return None


def _to_stored(column: SchemaColumn) -> Change | None:
    match column.how:
        case How.STRUCT | How.ITEM | How.MAP | How.LIST:
            return _nested(column, _to_stored)
        case How.SYMBOL:
            return dict(column.field.notes.symbols).__getitem__
        case How.BYTES:
            return lambda value: _chars(value, column.type)
        case How.TEXT if _is_run(column.type):
            return lambda value: _chars(_text(value), column.type)
        case How.DECIMAL if _target(column.type) != UINT64:
            return lambda value: _unscaled(value, column)
        case How.NUMBER if pa.types.is_date(column.arrow):
            return lambda value: _days(value, column.arrow)
        case How.NUMBER if pa.types.is_timestamp(column.arrow):
            return lambda value: _microseconds(value, column.arrow)
    return None


def _controls(type_: Type) -> list[str]:
    """The fields that hold the lengths of a type's arrays."""
    found: list[str] = []
    while isinstance(type_, Array):
        found += [dim for dim in type_.dims if isinstance(dim, str)]
        type_ = type_.element
    return found


def _emptied(value: Any) -> Any:
    """Arrays without elements, for which `decode` has None unless a bit marks the field as null: they take no room."""
    return [] if value is None else [_emptied(inner) for inner in value]


def _target(type_: Type) -> Type:
    while isinstance(type_, Pointer):
        type_ = type_.target
    return type_


def _is_run(type_: Type) -> bool:
    """Whether text is stored as chars, in its structure or after its count, and not as a string."""
    return isinstance(_target(type_), Array)


def _number(value: Any) -> int:
    """The unscaled number of a decimal."""
    return value if isinstance(value, int) else int.from_bytes(bytes(value), "little", signed=True)


def _unscaled(value: Any, column: SchemaColumn) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError("give a Decimal")
    if not (exact := Decimal(value)).is_finite():
        raise ValueError("it is not a finite number")
    try:
        exact = exact.scaleb(column.arrow.scale, _EXACT)
    except ArithmeticError:
        raise ValueError(f"it has more than {column.arrow.precision} digits") from None
    if exact != exact.to_integral_value():
        raise ValueError(f"it has more than {column.arrow.scale} digits after the point")
    number = int(exact)
    if abs(number) >= 10**column.arrow.precision:
        raise ValueError(f"it has more than {column.arrow.precision} digits")
    return list(number.to_bytes(16, "little", signed=True)) if _is_run(column.type) else number


def _chars(value: Any, type_: Type) -> list[int]:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("give bytes")
    array = _target(type_)
    assert isinstance(array, Array)
    room = array.dims[-1]
    if isinstance(room, int) and len(value) > room:
        raise ValueError(f"it takes {len(value)} bytes, but there is room for only {room}")
    return [*value, *bytes(room - len(value) if isinstance(room, int) else 0)]


def _text(value: Any) -> Any:
    text = value.encode() if isinstance(value, str) else value
    if isinstance(text, bytes) and 0 in text:
        raise ValueError("it holds a NUL, which would end it")
    return text


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, Mapping) else value


def _check_time(value: Any, arrow: pa.DataType) -> None:
    """Raise PBIO_BAD_VALUE, as rows do, for a value that is not a date or a time, or would lose a part."""
    wrong = misfit([value], arrow)
    if wrong is not None:
        reason, hint = wrong
        raise PbioError("PBIO_BAD_VALUE", f"{str(value)[:60]!r} {reason}", hint=hint)


def _days(value: Any, arrow: pa.DataType) -> int:
    _check_time(value, arrow)
    if isinstance(value, datetime):
        value = value.date()
    if not isinstance(value, date):
        raise TypeError("give a date")
    return (value - _EPOCH.date()).days


def _microseconds(value: Any, arrow: pa.DataType) -> int:
    """The time since 1970. Without a time zone it is taken as UTC."""
    _check_time(value, arrow)
    if not isinstance(value, datetime):
        raise TypeError("give a datetime")
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
