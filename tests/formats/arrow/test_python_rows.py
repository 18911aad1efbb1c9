"""Batches as rows of Python values, one bad value at a time."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pbio_spark
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.python_rows import batch_to_rows, check_years, sound_rows, text_to_time, time_to_text

UTC_TIME = pa.timestamp("us", "UTC")
FIRST, LAST = -62135596800000000, 253402300799999999
"""The microseconds of the first and the last time that Python has."""


def made(type_: pa.DataType, *values: Any) -> pa.Array:
    """An array from numbers, where times are wanted: Python has no such times to give."""
    if pa.types.is_struct(type_):
        parts = [made(part.type, *(value[part.name] for value in values)) for part in type_]
        return pa.StructArray.from_arrays(parts, fields=list(type_))
    if pa.types.is_map(type_):
        pairs = [pair for value in values for pair in value]
        ends = [sum(map(len, values[:n])) for n in range(len(values) + 1)]
        keys, items = zip(*pairs, strict=True)
        return pa.MapArray.from_arrays(ends, made(type_.key_type, *keys), made(type_.item_type, *items), type=type_)
    if pa.types.is_list(type_):
        ends = [sum(map(len, values[:n])) for n in range(len(values) + 1)]
        flat = made(type_.value_type, *(one for value in values for one in value))
        return pa.ListArray.from_arrays(ends, flat, type=type_)
    return pa.array(values, type_)


def rows(type_: pa.DataType, *values: Any) -> list[Any]:
    return [
        (row.code, row.field) if isinstance(row, PbioError) else row["v"]
        for row in batch_to_rows(pa.record_batch({"v": made(type_, *values)}))
    ]


def test_the_years_of_python_are_the_limit() -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    bad = ("PBIO_BAD_VALUE", "$.v")
    assert rows(UTC_TIME, FIRST, LAST, None, FIRST - 1, LAST + 1) == [first, last, None, bad, bad]
    assert rows(pa.timestamp("us"), FIRST - 1, FIRST) == [bad, first.replace(tzinfo=None)]
    assert rows(pa.date32(), -719162, -719163, 2932896, 2932897, 2**31 - 1) == [date.min, bad, date.max, bad, bad]


@example(-12687428)
@example(-12687429)
@example(11248737)
@example(11248738)
@example(2932897)
@example(-719163)
@given(st.integers(-(2**31), 2**31 - 1))
def test_a_date_comes_back_from_its_text(days: int) -> None:
    day = pa.scalar(days, pa.date32())
    text = time_to_text(day)
    if -12687428 <= days <= 11248737:  # the years -32767 to 32767
        assert pa.scalar(text_to_time(text, day.type), day.type) == day
    else:
        assert text == f"{days} d since 1970-01-01"


@example(2**62)
@example(-1232966233749480540)
@example(LAST + 1)
@example(FIRST - 1)
@given(st.integers(-(2**63), 2**63 - 1))
def test_a_time_comes_back_from_its_text(moment: int) -> None:
    for type_ in (UTC_TIME, pa.timestamp("us")):
        text = time_to_text(pa.scalar(moment, type_))
        if not text.endswith(" us since 1970-01-01"):
            (back,) = pa.array([text_to_time(text, type_)], type_)
            assert back.value == moment
        else:
            assert text == f"{moment} us since 1970-01-01"
            assert abs(moment) > 970000000000000000
            with pytest.raises(PbioError, match="more than five digits"):
                check_years(pa.array([0, moment], type_), "at")


@pytest.mark.parametrize("text", ["10000-13-01", "10000-01-01x", "10000", "-1-01-01", "100000-01-01", ""])
def test_a_value_that_is_not_a_date_is_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of Python
        text_to_time(text, pa.date32())


@pytest.mark.parametrize(
    ("type_", "good", "bad", "path"),
    [
        (pa.list_(pa.date32()), [1], [1, 2932897], "$.v[1]"),
        (pa.struct([("a b", pa.date32())]), {"a b": 1}, {"a b": -(2**31)}, '$.v["a b"]'),
        (pa.map_(pa.string(), pa.date32()), [("k", 1)], [("k", 1), ("l", 2932897)], "$.v[1].value"),
        (pa.list_(pa.list_(pa.struct([("t", UTC_TIME)]))), [[{"t": 0}]], [[], [{"t": 2**62}]], "$.v[1][0].t"),
    ],
    ids=["list", "struct", "map", "nested"],
)
def test_what_is_inside_others_is_named_and_costs_its_row_alone(type_: Any, good: Any, bad: Any, path: str) -> None:
    array = made(type_, good, bad, good)
    found = batch_to_rows(pa.record_batch({"v": array}))
    assert [isinstance(row, PbioError) for row in found] == [False, True, False]
    assert rows(type_, good, bad)[1] == ("PBIO_BAD_VALUE", path)
    (sound,) = pa.record_batch({"v": array.slice(2)}).to_pylist()
    assert found[0] == found[2] == sound
    shown = batch_to_rows(pa.record_batch({"v": array}), lambda value: value.value)
    assert shown[0] == sound
    assert isinstance(shown[1], dict)


def test_maps_as_dicts_have_each_key_once() -> None:
    maps = made(pa.map_(pa.string(), pa.date32()), [("k", 0)], [("k", 0), ("k", 1)], [("k", 2932897)])
    found = batch_to_rows(pa.record_batch({"v": maps}), time_to_text, maps_as_dicts=True)
    assert found[0] == {"v": {"k": date(1970, 1, 1)}}
    assert isinstance(found[1], PbioError)
    assert found[1].code == "PBIO_BAD_VALUE"
    assert found[2] == {"v": {"k": "10000-01-01"}}


def test_rows_before_the_bad_one_come() -> None:
    batch = pa.record_batch({"n": [0, 1, 2], "v": pa.array([0, 2932897, 0], pa.date32())})
    found = sound_rows(batch, file="a.ffs", first=40, hint="so")
    assert next(found)["n"] == 0
    with pytest.raises(PbioError) as raised:
        next(found)
    error = raised.value
    assert (error.file, error.record, error.field, error.hint) == ("a.ffs", 41, "$.v", "so")


def test_a_year_of_six_digits_has_no_text() -> None:
    days = pa.array([None, 2**31 - 1], pa.date32())
    assert time_to_text(days[1]) == "2147483647 d since 1970-01-01"
    with pytest.raises(PbioError, match="2147483647") as raised:
        check_years(days, "day")
    assert (raised.value.code, raised.value.field) == ("PBIO_BAD_VALUE", "$.day")
    for column in (days.slice(0, 1), days.slice(0, 0), pa.array([2**63 - 1]), pa.array([2932897], pa.date32())):
        check_years(column, "day")


def test_no_other_module_makes_rows_of_batches() -> None:
    package = Path(pbio_spark.__file__).parent
    whole = re.compile(r"\b(batch|table|reader)(\([^()]*(\([^()]*\))?[^()]*\))?\.to_pylist\(")
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if whole.search(path.read_text())}
    assert found == {"formats/arrow/python_rows.py"}
