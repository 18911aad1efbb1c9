"""Never a silent null: an unfilled column is an error with a suggestion, or a warning where more formats may come."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from ecode.types import FLOAT64, INT64, Field, Notes, record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record, record_to_json
from pbio_spark.source.options.parse import parse_options
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.query.plan import Coming, QueryPlanner
from pbio_spark.wire import FileWriter
from tests.source.local import load, plan

V1 = json_to_record('{"sensor": {"id": "int64", "temp": "float64", "place": "string"}}')
V2 = json_to_record('{"sensor": {"id": "int64", "temperature_k": "float64", "place": "string", "quality": "int32"}}')


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in types.items()])


def file_of(path: Path, form: Format, *records: dict[str, Any]) -> None:
    with FileWriter(path) as writer:
        writer.describe(form)
        for values in records:
            writer.data(form, values)


@pytest.fixture
def sensors(tmp_path: Path) -> Path:
    """Three records of the old version and one of the new."""
    old = [{"id": n, "temp": 1.0 * n, "place": "a"} for n in range(3)]
    file_of(tmp_path / "1.ffs", record_to_format(V1, "sparc"), *old)
    file_of(tmp_path / "2.ffs", record_to_format(V2), {"id": 3, "temperature_k": 300.0, "place": "b", "quality": 1})
    return tmp_path


def refused(folder: Path, **options: Any) -> PbioError:
    with pytest.raises(PbioError) as caught:
        plan(folder, **options)
    assert caught.value.code == "PBIO_UNFILLED"
    return caught.value


def test_a_column_that_no_record_can_fill(sensors: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = columns(id=LongType(), tmep=DoubleType())
    error = refused(sensors, schema=schema)
    assert (error.field, "did you mean 'temp'?" in str(error)) == ("$.tmep", True)
    assert not caplog.messages
    assert [row["tmep"] for row in load(sensors, schema=schema, onUnfilled="warn")] == [None] * 4
    (said,) = caplog.messages
    assert "no record can fill the column 'tmep'" in said
    caplog.clear()
    assert len(load(sensors, schema=schema, onUnfilled="ignore")) == 4
    assert not caplog.messages
    assert load(sensors, schema=schema, defaults='{"tmep": 7.5}')[0]["tmep"] == 7.5


@pytest.mark.parametrize(("unit", "is_suspected"), [("K", True), ("degC", False)])
def test_a_field_of_another_unit_is_not_a_rename(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unit: str, is_suspected: bool
) -> None:
    old = record("sensor", [Field("id", INT64), Field("temp", FLOAT64, Notes(units=unit))])
    new = record("sensor", [Field("id", INT64), Field("temperature_k", FLOAT64, Notes(units="K"))])
    file_of(tmp_path / "1.ffs", record_to_format(old), {"id": 1, "temp": 20.0})
    file_of(tmp_path / "2.ffs", record_to_format(new), {"id": 2, "temperature_k": 300.0})
    load(tmp_path, readerFormat="sensor@2")
    assert ("if that means the same in the same unit, use fieldAliases" in caplog.text) == is_suspected


def test_the_same_of_the_fields_of_readerFormat(sensors: Path) -> None:  # noqa: N802 - the option's name
    wanted = '{"sensor": {"id": "int64", "palce": "string"}}'
    assert "did you mean 'place'?" in str(refused(sensors, readerFormat=wanted))
    filled = '{"sensor": {"id": "int64", "palce": ["string", "nowhere"]}}'
    assert {row["palce"] for row in load(sensors, readerFormat=filled)} == {"nowhere"}


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("at", {"x": 1, "y": 2}),
        ("at[2]", [{"x": 1, "y": 2}] * 2),
        ("*at", {"x": 1, "y": 2}),
        ("at[n]", [{"x": 1, "y": 2}]),
    ],
)
def test_nested_columns_too(tmp_path: Path, type_: str, value: Any) -> None:
    count = {"n": "int32"} if "[n]" in type_ else {}
    form = record_to_format(
        json_to_record(json.dumps({"r": {**count, "p": type_}, "at": {"x": "int32", "y": "int32"}}))
    )
    file_of(tmp_path / "a.ffs", form, {"p": value, **({"n": 1} if count else {})})

    def asked(*names: str) -> StructType:
        from pyspark.sql.types import ArrayType

        at: DataType = columns(**dict.fromkeys(names, IntegerType()))
        return columns(p=ArrayType(at) if "[" in type_ else at)

    error = refused(tmp_path, schema=asked("x", "yy"))
    assert (error.field, "did you mean 'y'?" in str(error)) == ("$.p.yy", True)
    assert len(load(tmp_path, schema=asked("x", "y"))) == 1


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [
        ("defaults", {"nosuch": 1}, "there are: id"),
        ("defaults", {"Temp": 1.5}, "did you mean 'temp'"),
        ("fieldAliases", {"t": "tmep"}, "did you mean 'temp'"),
        ("fieldAliases", {"temp.x": "y"}, "which no format has"),
        ("fieldAliases", {"temperature_k": "tmep"}, "did you mean 'temp'"),
    ],
)
def test_names_in_options_that_match_nothing(sensors: Path, option: str, value: dict[str, Any], meant: str) -> None:
    assert meant in str(refused(sensors, **{option: json.dumps(value)}))
    assert load(sensors, **{option: json.dumps(value)}, onUnfilled="ignore")


def test_a_filter_may_have_defaults_for_fields_that_are_not_columns(sensors: Path) -> None:
    said = {"schema": columns(id=LongType()), "filter": "{ return input.quality == 9; }"}
    assert [row["id"] for row in load(sensors, **said, defaults='{"quality": 9}')] == [0, 1, 2]
    assert "did you mean 'quality'" in str(refused(sensors, **said, defaults='{"qualty": 9}'))


def test_an_alias_is_one_more_name(sensors: Path, caplog: pytest.LogCaptureFixture) -> None:
    alias = '{"temperature_k": "temp"}'
    schema = columns(id=LongType(), temperature_k=DoubleType())
    assert [row["temperature_k"] for row in load(sensors, schema=schema, fieldAliases=alias)] == [0.0, 1.0, 2.0, 300.0]
    inferred = load(sensors, fieldAliases=alias)
    assert list(inferred[0]) == ["id", "place", "temperature_k", "quality"]
    assert [row["temperature_k"] for row in inferred] == [0.0, 1.0, 2.0, 300.0]
    kept = load(sensors, fieldAliases=alias, filter="{ return input.temperature_k > 1.5; }")
    assert [row["temperature_k"] for row in kept] == [2.0, 300.0]
    assert not caplog.messages


def test_an_alias_that_no_format_needs_any_more(sensors: Path) -> None:
    (sensors / "1.ffs").unlink()
    assert load(sensors, fieldAliases='{"temperature_k": "temp"}')[0]["temperature_k"] == 300.0


def test_what_only_some_formats_lack_is_said_once(sensors: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = load(sensors, readerFormat=record_to_json(V2))
    assert [row["temperature_k"] for row in rows] == [None] * 3 + [300.0]
    (said,) = caplog.messages
    assert "the columns 'temperature_k', 'quality' are null for 3 of 4 records, whose formats lack them" in said
    assert f"sensor@1 ({record_to_format(V1, 'sparc').id.hex()})" in said
    assert "'temperature_k' may be called 'temp' there" in said
    assert said.count("may be called") == 1
    caplog.clear()
    load(sensors, readerFormat=record_to_json(V2), onUnfilled="ignore")
    load(sensors)  # the columns of the union were not named by a user
    load(sensors, schema=columns(temperature_k=DoubleType()), defaults='{"temperature_k": 0.0}')
    assert not caplog.messages


def test_a_reader_that_names_all_columns_chose_none(sensors: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Spark does for a table, whose columns it keeps, and whatever columns a query on it uses."""
    every = columns(
        id=LongType(), temp=DoubleType(), place=StringType(), temperature_k=DoubleType(), Quality=LongType()
    )
    assert [row["Quality"] for row in load(sensors, schema=every)] == [None] * 3 + [1]
    assert not caplog.messages
    load(sensors, schema=StructType(every.fields[:3]))  # a table that is older than the new version
    (said,) = caplog.messages
    assert "the column 'temp' is null for 1 of 4 records" in said


def test_an_own_transform_that_no_record_goes_through(sensors: Path) -> None:
    up = json.dumps([{"from": "sensor@1", "to": "sensor@2", "ecode": "{ to.temperature_k = from.temp; }"}])
    assert "name the wanted type with readerFormat or .schema" in str(refused(sensors, transforms=up))
    gone = json.dumps(
        [{"from": {"sensor": {"tt": "float64"}}, "to": "sensor@2", "ecode": "{ to.temperature_k = from.tt; }"}]
    )
    assert "no record uses the transform" in str(refused(sensors, readerFormat=record_to_json(V2), transforms=gone))
    assert load(sensors, readerFormat=record_to_json(V2), transforms=gone, onUnfilled="warn")


def test_a_program_that_never_writes_a_column(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = record_to_format(V2)
    form = evolve(old, record_to_format(V1), "{ old.id = new.id; old.quality = 1; }")
    with FileWriter(tmp_path / "a.ffs") as writer:
        writer.describe(old)
        writer.data(form, {"id": 1, "temp": 1.0, "place": "x"})
    assert refused(tmp_path, readerFormat=record_to_json(V2)).field == "$.temperature_k"
    # A user who names an existing type has not written its fields.
    assert load(tmp_path, readerFormat="sensor@1")[0]["quality"] == 1
    (said,) = caplog.messages
    assert "'temperature_k' is null for 1 of 1 records, whose formats lack it" in said
    assert "'place' is null for 1 of 1 records, which lose it on the way to the wanted type" in said
    made = columns(a=LongType(), b=LongType())
    assert refused(tmp_path, schema=made, transform="{ output.a = input.id; }").field == "$.b"


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load(tmp_path, schema=columns(whatever=LongType())) == []
    assert not caplog.messages


def test_special_columns_are_the_sources(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    file_of(tmp_path / "k=1" / "a.ffs", record_to_format(V1), {"id": 1, "temp": 1.0, "place": "x"})
    schema = columns(
        id=LongType(), k=IntegerType(), _corrupt_record=columns(reason=StringType()), m=columns(way=StringType())
    )
    assert load(tmp_path, schema=schema, mode="PERMISSIVE", metadataColumn="m") == [
        {"id": 1, "k": 1, "_corrupt_record": None, "m": {"way": "direct"}}
    ]


def test_formats_that_are_left_out_fill_nothing(sensors: Path) -> None:
    schema = columns(quality=LongType())
    assert len(load(sensors, schema=schema)) == 4
    assert refused(sensors, schema=schema, formatId=record_to_format(V1, "sparc").id.hex()).field == "$.quality"


def test_planning_looks_further_before_it_refuses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The only format with the field comes beyond the head of a file that is too small to be split."""
    with FileWriter(tmp_path / "a.ffs") as writer:
        for n in range(3):
            writer.data(record_to_format(V1), {"id": n, "temp": 0.0, "place": "x" * 500_000})
        writer.data(record_to_format(V2), {"id": 9, "temperature_k": 1.0, "place": "", "quality": 5})
    schema = columns(quality=IntegerType())
    assert [row["quality"] for row in load(tmp_path, schema=schema)] == [None, None, None, 5]
    assert refused(tmp_path, schema=columns(qualty=IntegerType())).hint
    caplog.clear()
    assert len(load(tmp_path, schema=columns(qualty=IntegerType()), scanLimit="1m")) == 4
    assert any("no record can fill" in message for message in caplog.messages)


def test_a_stream_warns_once_for_more_may_come(caplog: pytest.LogCaptureFixture) -> None:
    form, schema = record_to_format(V1), pa.schema([("tmep", pa.float64())])

    def planner(**options: str) -> QueryPlanner:
        return QueryPlanner(
            parse_options(options, Scope.STREAM), schema, is_projection=True, is_stream=True, is_open=True
        )

    stream = planner()
    stream.plan(Coming([form], [form]))
    stream.plan(Coming([form], [form]))
    (said,) = caplog.messages
    assert "did you mean 'temp'" in said
    with pytest.raises(PbioError, match="PBIO_UNFILLED"):
        planner(onUnfilled="fail").plan(Coming([form], [form]))


@pytest.mark.parametrize(
    ("fields", "value", "length"),
    [
        ({"count": "uint16", "v": "float64[count]"}, {"count": 2, "v": [1.0, 2.0]}, 2),
        ({"v": "float64[3]"}, {"v": [1.0, 2.0, 3.0]}, 3),
        ({"count": "int32", "v": "float64[count]"}, {"count": 0, "v": None}, 0),
    ],
)
def test_a_count_of_the_readers_own_is_the_length(
    tmp_path: Path, fields: dict[str, str], value: dict[str, Any], length: int
) -> None:
    form = record_to_format(json_to_record(json.dumps({"r": fields})), "i386")
    file_of(tmp_path / "a.ffs", form, value)
    wanted = '{"r": {"n": "int32", "v": "float64[n]"}}'
    (row,) = load(tmp_path, readerFormat=wanted)
    assert (row["n"], len(row["v"] or [])) == (length, length)
    assert len(load(tmp_path, readerFormat=wanted, filter=f"{{ return input.n == {length}; }}")) == 1


def test_so_is_one_of_what_a_transform_makes(tmp_path: Path) -> None:
    old = record_to_format(json_to_record('{"r": {"count": "int32", "v": "float64[count]"}}'))
    new = record_to_format(json_to_record('{"r": {"x": "float64"}}'))
    form = evolve(old, new, "{ old.count = 2; old.v[0] = new.x; old.v[1] = new.x; }")
    with FileWriter(tmp_path / "a.ffs") as writer:
        writer.describe(old)
        writer.data(form, {"x": 1.5})
    wanted = '{"r": {"n": "int32", "v": "float64[n]"}}'
    assert load(tmp_path, readerFormat=wanted) == [{"n": 2, "v": [1.5, 1.5]}]


@pytest.fixture(autouse=True)
def _warnings_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pbio_spark")
