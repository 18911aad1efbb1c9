"""Arrow batches -> rows of Python values, and what becomes of a value that Python has nothing for.

Arrow's dates and times reach beyond the years 1 to 9999, and Python's do not. Such a value is an error of its row
alone, or a text stands in its place; the rows beside it come.

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

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pbio_spark.errors import PbioError, path_to_text

Show: TypeAlias = Callable[[pa.Scalar], Any]
"""What stands for a time that Python has nothing for."""

_UNSHOWABLE: Final = (ArithmeticError, LookupError, ValueError, pa.ArrowException)
"""What Arrow raises for a value that Python has nothing for, or has not as it is asked for."""

_BEYOND: Final = "out of range"
"""In Arrow's text of a time that it has no text for."""


def batch_to_rows(
    batch: pa.RecordBatch, show: Show | None = None, *, maps_as_dicts: bool = False
) -> list[dict[str, Any] | PbioError]:
    """The rows of a batch, and in the place of each that Python cannot hold PBIO_BAD_VALUE with its field.

    Args:
        show: what stands for a date or a time outside the years 1 to 9999, instead of the error.
        maps_as_dicts: a map with a key twice is an error too; else maps are lists of pairs.
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
        file: of which they are, and `first` the number of the first of them in it, for errors.
        hint: what to do about a row that Python cannot hold.

    Raises PBIO_BAD_VALUE for a row that Python cannot hold, after those before it.
    """
    for number, row in enumerate(batch_to_rows(batch), first):
        if isinstance(row, PbioError):
            row.hint = hint
            raise row.at(file=file, record=number)
        yield row


def time_to_text(value: pa.Scalar) -> str:
    """A date or a time of any year, as `isoformat` has it; as the stored number, if its year has more than five digits.

    >>> time_to_text(pa.scalar(-800000, pa.date32())), time_to_text(pa.scalar(2**62, pa.timestamp("us", "UTC")))
    ('-0221-09-04', '17036-07-06T14:00:27.387904+00:00')
    """
    text: str = value.cast(pa.string()).as_py()
    if _BEYOND in text:
        unit = getattr(value.type, "unit", "d")
        return f"{value.value} {unit} since 1970-01-01"
    return text.replace(" ", "T").replace("Z", "+00:00").replace(".000000", "")


def check_years(column: pa.Array, name: str) -> None:
    """Raise PBIO_BAD_VALUE if a column of dates or times has one that Arrow does not write as text.

    >>> check_years(pa.array([2932897], pa.date32()), "day")
    """
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        return
    for value in pc.min_max(column).values():
        if value.is_valid and _BEYOND in value.cast(pa.string()).as_py():
            reason = f"{time_to_text(value)} has a year of more than five digits, which is not written as text"
            raise PbioError("PBIO_BAD_VALUE", reason, field=path_to_text((name,)))


def _values(column: pa.Array, name: str, show: Show | None, maps: str | None) -> list[Any]:
    """The values of a column, or why there is none."""
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
    """A value with what is inside it. Raises PBIO_BAD_VALUE."""
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
        raise PbioError("PBIO_BAD_VALUE", "the map has a key twice", field=path_to_text(steps))
    if isinstance(value, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_value(one, (*steps, i), show, maps) for i, one in enumerate(value.values)]
    if not pa.types.is_temporal(value.type):
        raise PbioError("PBIO_BAD_VALUE", f"Python has no such {value.type}: {problem}", field=path_to_text(steps))
    if show is not None:
        return show(value)
    reason = f"{time_to_text(value)} is outside the years 1 to 9999, which Python's dates have"
    raise PbioError("PBIO_BAD_VALUE", reason, field=path_to_text(steps))
