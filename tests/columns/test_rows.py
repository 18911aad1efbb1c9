"""Rows and columns of a program become batches for the encoder, or errors that name the value and the reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pbio_spark as pbio
from ecode.types import FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, Array, Field, Ref, Struct, record
from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.columns import rows_to_batch
from pbio_spark.errors import PbioError
from pbio_spark.tables import open_writer

READING = record(
    "reading",
    [
        Field("x", INT64),
        Field("n", INT32),
        Field("v", Array(FLOAT64, ("n",))),
        Field("parts", Array(Ref("part"), (2,))),
    ],
    [Struct("part", (Field("k", UINT32), Field("w", Array(FLOAT32, ("k",))), Field("unit", STRING)))],
)
PARTS = [{"w": [1.0], "unit": "m"}, {"w": []}]
ROW: dict[str, Any] = {"x": 1, "v": [1.0, 2.0], "parts": PARTS}


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return ChannelSpace.create(str(tmp_path / "space")).create_channel("readings", READING)


def seen(channel: Channel) -> list[dict[str, Any]]:
    with channel.subscribe(start="earliest") as subscription:
        return [event.values for event in subscription.events()]


@pytest.mark.parametrize(
    ("changed", "reason", "field"),
    [
        ({"x": 10**30}, r"row 1: 1000000000000000000000000000000 does not fit int64$", "$.x"),
        ({"x": 1.5}, "row 1: 1.5 loses a part as int64$", "$.x"),
        ({"x": "a"}, "row 1: 'a' does not fit int64: Could not convert", "$.x"),
        ({"v": [1.0, "k"]}, r"row 1: \[1.0, 'k'\] does not fit list<.*'k'", "$.v"),
        ({"v": [10.0] * 100 + [None, "x"]}, r"row 1: \[10.0, .*\.\.\. does not fit", "$.v"),
        ({"X": 1}, "row 1: unknown field 'X'", None),
        ({"parts": [{"w": [], "Unit": "m"}, PARTS[1]]}, "row 1: unknown field 'Unit'", "$.parts[]"),
        ({"parts": [5, 6]}, "row 1: expected a mapping of fields to values, not '5'", "$.parts[]"),
    ],
)
def test_errors_name_row_field_and_value(changed: dict[str, Any], reason: str, field: str | None) -> None:
    with pytest.raises(PbioError) as caught:
        rows_to_batch([ROW, {**ROW, **changed}, {**ROW, "x": "later"}], pbio.Format.of(READING))
    caught.match(reason.removesuffix("$") if "$" not in reason else reason.removesuffix("$") + r"\n")
    assert caught.value.field == field


def test_arrays_say_their_counts(channel: Channel) -> None:
    """In rows, in structures, and in columns; a count that is given is checked."""
    channel.submit(ROW)
    channel.submit({**ROW, "n": 2})
    columns = pa.table({"x": [1], "v": [[1.0, 2.0]], "parts": [PARTS]})
    channel.submit(columns.set_column(2, "parts", pa.array([PARTS])))
    parts = [{"k": 1, "w": [1.0], "unit": "m"}, {"k": 0, "w": [], "unit": None}]
    assert seen(channel) == [{"x": 1, "n": 2, "v": [1.0, 2.0], "parts": parts}] * 3
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE.*2 elements do not match the length or the count"):
        channel.submit({**ROW, "n": 3})
    with pytest.raises(PbioError, match=r"PBIO_CANNOT_BE_NULL.*row 0 has no 'n'"):
        channel.submit([ROW, {**ROW, "n": 2}])


TIMES = [datetime(2026, 1, 1), None]
FOREIGN = {
    "large_string": (pa.array(["a", None], pa.large_string()), ["a", None]),
    "string_view": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "categories": (pa.array(["a", None]).dictionary_encode(), ["a", None]),
    "large_list": (pa.array([[1], None], pa.large_list(pa.int64())), [[1], None]),
    "fixed_size_list": (pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), [[1, 2], [3, 4]]),
    "half": (pa.array(np.array([1.5, -2], np.float16)), [1.5, -2.0]),
    "date64": (pa.array(TIMES, pa.date64()), [datetime(2026, 1, 1).date(), None]),
    "seconds": (pa.array(TIMES, pa.timestamp("s")), TIMES),
    "nanoseconds": (pa.array(TIMES, pa.timestamp("ns")), TIMES),
    "large_binary": (pa.array([b"a", None], pa.large_binary()), [b"a", None]),
    "fixed_size_binary": (pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
    "decimal256": (pa.array([1, None], pa.int64()).cast(pa.decimal256(38, 2)), [1, None]),
    "uint8": (pa.array([255, None], pa.uint8()), [255, None]),
    "uint32": (pa.array([2**32 - 1, None], pa.uint32()), [2**32 - 1, None]),
    "uint64": (pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    "nested": (
        pa.array([[{"a": "x"}], []], pa.large_list(pa.struct([("a", pa.large_string())]))),
        [[{"a": "x"}], []],
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_columns_of_pandas_polars_and_others(tmp_path: Path, kind: str) -> None:
    column, expected = FOREIGN[kind]
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("c", pa.schema([("x", column.type)]))
    channel.submit(pa.table({"x": column}))
    assert [row["x"] for row in seen(channel)] == expected


def test_nanoseconds_are_not_cut_off(tmp_path: Path) -> None:
    channel = ChannelSpace.create(str(tmp_path / "space")).create_channel("c", pa.schema([("t", pa.timestamp("ns"))]))
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE.*lose data(.|\n)*round the times"):
        channel.submit(pa.table({"t": pa.array([1], pa.timestamp("ns"))}))


@pytest.mark.parametrize(
    ("field", "value", "reason", "hint"),
    [
        ("at", 1767225600, "is a number, not a time", "datetime.fromtimestamp(seconds, UTC)"),
        ("at", np.int64(5), "is a number, not a time", "datetime.fromtimestamp(seconds, UTC)"),
        ("at", 5.0, "is a number, not a time", "datetime.fromtimestamp(seconds, UTC)"),
        ("day", 20000, "is a number, not a date", "date(2026, 1, 31)"),
        ("days", [date(2020, 1, 1), 5], "is a number, not a date", "date(2026, 1, 31)"),
        ("local", datetime(2026, 1, 1, tzinfo=UTC), "has a time zone", "value.replace(tzinfo=None)"),
        ("tags", "abc", "is not a list", "[value]"),
        ("tags", {"a", "b"}, "is not a list", "[value]"),
        ("ns", b"12", "is not a list", "[value]"),
        ("f", True, "is a truth value, not a number", "1.0 or 0.0"),
        ("in", {"at": 5}, "is a number, not a time", "datetime"),
    ],
)
def test_what_arrow_would_take_for_another_value_is_refused(field: str, value: Any, reason: str, hint: str) -> None:
    types = {"at": "timestamp", "day": "date", "days": "date[]", "local": "timestamp_ntz", "tags": "string[]"}
    type_ = pbio.parse_record(
        {"r": {**types, "ns": "int32[]", "f": "float64", "in": "inner"}, "inner": {"at": "timestamp"}}
    )
    now = datetime(2020, 1, 1)
    good = {"at": now, "day": date(2020, 1, 1), "days": [], "local": now, "tags": ["a"], "ns": range(2), "f": 1}
    good["in"] = {"at": now}
    rows_to_batch([good], pbio.Format.of(type_))
    with pytest.raises(PbioError) as caught:
        rows_to_batch([good, {**good, field: value}], pbio.Format.of(type_))
    assert caught.value.field == f"$.{field}"
    assert reason in caught.value.reason
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("day", datetime(2020, 1, 1, 5)),
        ("day", pd.Timestamp("2020-01-01T05")),
        ("at", pd.Timestamp("2020-01-01T00:00:00.000000001")),
        ("f", 1e300),
        ("f", np.float64(-1e39)),
        ("fs", [0.5, 1e300]),
    ],
)
def test_what_arrow_would_cut_off_is_refused(field: str, value: Any) -> None:
    type_ = pbio.parse_record({"r": {"day": "date", "at": "timestamp", "f": "float32", "fs": "float32[2]"}})
    good = {"day": datetime(2020, 1, 1), "at": datetime(2020, 1, 1, 5, 0, 0, 1), "f": float("inf"), "fs": [0.1, 3e38]}
    rows_to_batch([good], pbio.Format.of(type_))
    with pytest.raises(PbioError, match=r"loses a part|has a time of day") as caught:
        rows_to_batch([good, {**good, field: value}], pbio.Format.of(type_))
    assert caught.value.field == f"$.{field}"


@pytest.mark.parametrize("sequence", [True, -1, 2**62, "1", 1.0])
def test_values_that_are_not_sequence_numbers(channel: Channel, sequence: Any) -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION.*not a sequence number: "):
        channel.submit(ROW, producer="p", sequence=sequence)


def test_the_last_sequence_number(channel: Channel) -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE.*pass the last one, 4611686018427387903"):
        channel.submit([ROW, ROW], producer="p", sequence=2**62 - 1)
    assert channel.submit(ROW, producer="p", sequence=2**62 - 1).events == 1
    assert channel.submit(ROW, producer="p", sequence=2**62 - 1).known == 1


@dataclass
class Load:
    x: int = 1


class Pair(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        (Load(), "dataclasses.asdict(row)"),
        (Pair(1), "row._asdict()"),
        ('{"x": 1}', "json.loads(line)"),
        (pd.Series({"x": 1}), "row.to_dict()"),
        (pd.DataFrame({"x": [1]}), "pyarrow.Table.from_pandas(frame)"),
        (None, "give a dict"),
        (Load, "give a dict"),
    ],
    ids=range(7),
)
def test_a_value_that_is_not_a_row_gets_a_hint(tmp_path: Path, channel: Channel, row: Any, hint: str) -> None:
    with open_writer(tmp_path / "x.ffs", {"t": {"x": "int32"}}) as writer:
        for put in (writer.write, channel.submit):
            with pytest.raises(PbioError, match="PBIO_BAD_VALUE") as caught:
                put(row)
            assert hint in (caught.value.hint or "")
        if not isinstance(row, pd.DataFrame | type | None):
            with pytest.raises(PbioError, match="row 0: expected a mapping") as caught:
                writer.write([row])
            assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        ("timestamp", "2026-01-01T00:00:00Z", "datetime.fromisoformat(text)"),
        ("timestamp", date(2026, 1, 1), "datetime.combine(day, time())"),
        ("timestamp", pd.NaT, "is a missing value of pandas"),
        ("timestamp", np.datetime64("2026-01-01T00:00:00"), "astype('datetime64[us]').item()"),
        ("date", "2026-01-01", "date.fromisoformat(text)"),
        ("decimal(10,2)", 1.5, "Decimal('1.5')"),
        ("decimal(10,2)", "1.5", "Decimal('1.5')"),
        ("decimal(10,2)", Decimal("1.505"), "round it to 2 digits"),
        ("float64", "1.5", "float(value)"),
        ("float64", Decimal("1.5"), "float(value)"),
        ("int32", "1", "int(text)"),
        ("int32", True, "give 1 or 0"),
        ("int32", pd.NA, "give None"),
        ("int32", pa.scalar(1), "value.as_py()"),
        ("boolean", 1, "give True or False"),
        ("boolean", "true", "give True or False"),
        ("string", 5, "give str(value)"),
        ("string", Path("/a"), "give str(value)"),
        ("string", b"\xff", "type binary"),
        ("float64[]", (one for one in [1.0]), "list(value)"),
        ("char[4]", "abcde", "'abcde' has 5 bytes, for which the field has no room"),
    ],
    ids=range(21),
)
def test_values_of_another_type_get_the_way_to_it(tmp_path: Path, type_: str, value: Any, said: str) -> None:
    writer = open_writer(tmp_path / "x.ffs", {"t": {"x": type_}})
    writer.write({"x": value})
    with pytest.raises(PbioError, match="row 0: ") as caught:
        writer.close()
    assert (caught.value.code, caught.value.field) == ("PBIO_BAD_VALUE", "$.x")
    assert said in str(caught.value)
