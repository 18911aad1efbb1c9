"""Arrow batches -> rows of Python values, and errors for values that Python cannot represent.

Arrow's dates and times reach beyond the years 1 to 9999, and Python's do not. Such a value is an error of its row
only, or text replaces it; other rows are returned.

    >>> batch = pa.record_batch({"n": [1, 2], "day": pa.array([0, 2932897], pa.date32())})
    >>> first, second = batch_to_rows(batch)
    >>> first
    {'n': 1, 'day': datetime.date(1970, 1, 1)}
    >>> print(second)
    [PBIO_BAD_VALUE] 10000-01-01 is outside the years 1 to 9999, which Python's dates have
      at: field $.day
    >>> list(batch_to_rows(batch, time_to_text))[1]
    {'n': 2, 'day': '10000-01-01'}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pbio_spark.errors import PbioError, path_to_text

Show: TypeAlias = Callable[[pa.Scalar], Any]
"""The replacement of a time that Python cannot represent."""

_UNSHOWABLE: Final = (ArithmeticError, LookupError, ValueError, pa.ArrowException)
"""The errors of Arrow for a value that Python cannot represent, or not in the requested form."""

_FAR: Final = re.compile(r"(-\d{4,5}|\d{5}|0000)(-.*)", re.ASCII | re.DOTALL)
"""A date or a time of a year that Python lacks: the year, and the rest."""

_DAYS: Final = range(-12687428, 11248738)
"""Days since 1970 whose years have up to five digits and 16 bits; Arrow prints others wrongly, or not at all."""

_A_DAY: Final = {"d": 1, "s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}


def batch_to_rows(
    batch: pa.RecordBatch, show: Show | None = None, *, maps_as_dicts: bool = False
) -> list[dict[str, Any] | PbioError]:
    """The rows of a batch. In place of a row that Python cannot hold: PBIO_BAD_VALUE with the field.

    Args:
        show: what replaces a date or a time outside the years 1 to 9999, instead of the error.
        maps_as_dicts: maps become dicts, and a duplicate key is an error; otherwise they are lists of pairs.
    """
    maps = "strict" if maps_as_dicts else None
    try:
        rows: list[dict[str, Any] | PbioError] = batch.to_pylist(maps_as_pydicts=maps)
        return rows
    except _UNSHOWABLE:
        columns = [
            _values(column, name, show, maps) for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
    rows = []
    for values in zip(*columns, strict=True):
        refused = next((value for value in values if isinstance(value, PbioError)), None)
        rows.append(refused or dict(zip(batch.schema.names, values, strict=True)))
    return rows


def sound_rows(
    batch: pa.RecordBatch, *, file: str | None = None, first: int = 0, hint: str | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a batch.

    Args:
        file, first: for errors, the file of the rows and the number of the first one in it.
        hint: what to do about a row that Python cannot hold.

    Raises PBIO_BAD_VALUE for a row that Python cannot hold, after those before it.
    """
    for number, row in enumerate(batch_to_rows(batch), first):
        if isinstance(row, PbioError):
            row.hint = hint or row.hint
            raise row.at(file=file, record=number)
        yield row


def time_to_text(value: pa.Scalar) -> str:
    """A date or a time of any year, as `isoformat` has it; as the stored number, if its year has more than five digits.

    >>> time_to_text(pa.scalar(-800000, pa.date32())), time_to_text(pa.scalar(2**58, pa.timestamp("us", "UTC")))
    ('-0221-09-04', '11103-08-29T17:22:31.711744+00:00')
    """
    if not _has_text(value):
        return f"{value.value} {_unit(value.type)} since 1970-01-01"
    text: str = value.cast(pa.string()).as_py()
    return text.replace(" ", "T").replace("Z", "+00:00").replace(".000000", "")


def text_to_time(text: str, type_: pa.DataType) -> date | datetime | int:
    """The date, or the time in microseconds, that `time_to_text` or `isoformat` wrote; as Arrow's number if
    Python has no such year. Raises ValueError.

    >>> text_to_time("2026-01-31", pa.date32()), text_to_time("-0221-09-04", pa.date32())
    (datetime.date(2026, 1, 31), -800000)
    >>> text_to_time("10000-01-01T02:00:00+02:00", pa.timestamp("us", "UTC"))
    253402300800000000
    """
    kind = date if pa.types.is_date(type_) else datetime
    match = _FAR.fullmatch(text)
    if match is None:
        moment = kind.fromisoformat(text)
        is_naive = isinstance(moment, datetime) and type_.tz is not None and moment.tzinfo is None
        return moment.replace(tzinfo=UTC) if is_naive else moment  # type: ignore[call-arg]
    eras, year = divmod(int(match[1]), 400)
    near = kind.fromisoformat(f"{year + 2000}{match[2]}")  # the calendar is the same after 400 years
    days = (eras - 5) * 146097
    if not isinstance(near, datetime):
        return (near - date(1970, 1, 1)).days + days
    if near.tzinfo is not None and type_.tz is None:
        raise ValueError(f"{text} has a time zone, and the field has none")
    since = near.replace(tzinfo=near.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days)
    return since // timedelta(microseconds=1)


def check_years(column: pa.Array, name: str) -> None:
    """Raise PBIO_BAD_VALUE if a column of dates or times has one that Arrow does not write as text.

    >>> check_years(pa.array([2932897], pa.date32()), "day")
    """
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        return
    for value in pc.min_max(column).values():
        if value.is_valid and not _has_text(value):
            reason = f"{time_to_text(value)} has a year of more than five digits, which is not written as text"
            raise PbioError(
                "PBIO_BAD_VALUE",
                reason,
                field=path_to_text((name,)),
                hint="leave the column out, or write a Parquet or Arrow file",
            )


def _unit(type_: pa.DataType) -> str:
    return "ms" if pa.types.is_date64(type_) else str(getattr(type_, "unit", "d"))


def _has_text(value: pa.Scalar) -> bool:
    """Whether Arrow prints a date or a time correctly."""
    return value.value // _A_DAY[_unit(value.type)] in _DAYS


def _values(column: pa.Array, name: str, show: Show | None, maps: str | None) -> list[Any]:
    """The values of a column, or the error."""
    try:
        whole: list[Any] = column.to_pylist(maps_as_pydicts=maps)
        return whole
    except _UNSHOWABLE:
        return [_value_or_error(value, name, show, maps) for value in column]


def _value_or_error(value: pa.Scalar, name: str, show: Show | None, maps: str | None) -> Any:
    try:
        return _value(value, (name,), show, maps)
    except PbioError as error:
        return error


def _value(value: pa.Scalar, steps: tuple[str | int, ...], show: Show | None, maps: str | None) -> Any:
    """A value, with its nested values. Raises PBIO_BAD_VALUE."""
    try:
        return value.as_py(maps_as_pydicts=maps)
    except _UNSHOWABLE as error:
        problem = error
    if isinstance(value, pa.StructScalar):
        return {part.name: _value(value[i], (*steps, part.name), show, maps) for i, part in enumerate(value.type)}
    if isinstance(value, pa.MapScalar):
        entries = [_value(one, (*steps, i), show, maps) for i, one in enumerate(value.values)]
        pairs = [tuple(entry.values()) for entry in entries]
        if maps is None:
            return pairs
        if len(made := dict(pairs)) == len(pairs):
            return made
        raise PbioError(
            "PBIO_BAD_VALUE",
            "the map has a key twice",
            field=path_to_text(steps),
            hint="read it as a table or as batches, which keep both entries",
        )
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_value(one, (*steps, i), show, maps) for i, one in enumerate(value.values)]
    if not pa.types.is_temporal(value.type):
        raise PbioError(
            "PBIO_BAD_VALUE",
            f"Python has no such {value.type}: {problem}",
            field=path_to_text(steps),
            hint="read it as a table or as batches, which keep it",
        )
    if show is not None:
        return show(value)
    reason = f"{time_to_text(value)} is outside the years 1 to 9999, which Python's dates have"
    raise PbioError("PBIO_BAD_VALUE", reason, field=path_to_text(steps))
