"""Record types as JSON: types as PBIO prints them, and as Spark and SQL call them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import STRING
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.record_json import json_to_record, record_to_json
from pbio_spark.formats.spark_names import SPARK_NAMES, spark_type

SCALARS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()),
    *(pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.decimal128(10, 2), pa.decimal128(38, 6)),
]


@pytest.mark.parametrize("arrow", SCALARS, ids=str)
def test_what_spark_calls_a_type_is_the_field_that_it_is_written_as(arrow: pa.DataType) -> None:
    schema = pa.schema([("x", arrow)])
    name = arrow_to_ddl(schema).removeprefix("x ")
    for said in (name, name.lower(), f"  {name} "):
        assert json_to_record({"t": {"x": said}}) == arrow_to_record(schema, "t")


@pytest.mark.parametrize(
    ("said", "arrow"), [("timestamp", pa.timestamp("us", tz="UTC")), ("decimal(38,6)", SCALARS[-1])]
)
def test_arrays_and_pointers_keep_what_their_values_mean(said: str, arrow: pa.DataType) -> None:
    wanted = arrow_to_record(pa.schema([("x", pa.list_(arrow))]), "t").fields[1]
    made = json_to_record({"t": {"x_count": "int", "x": f"{said}[x_count]"}}).fields[1]
    assert made == wanted
    assert json_to_record({"t": {"x": f"*{said}"}}).fields[0].notes == wanted.notes


def test_a_field_that_is_there_twice_is_refused() -> None:
    for text, path in (
        ('{"t": {"x": "int32", "y": "int8", "x": "string"}}', "$.t"),
        ('{"t": {"p": "q"}, "q": {"x": "int32", "x": "string"}}', "$.q"),
        ('{"t": {"x": "int32"}, "t": {"x": "string"}}', "$"),
    ):
        with pytest.raises(PbioError, match=r"PBIO_BAD_TYPE.*duplicate") as caught:
            json_to_record(text)
        assert caught.value.field == path


def test_a_structure_or_a_type_of_pbio_goes_first() -> None:
    record = json_to_record({"t": {"at": "date", "k": "char"}, "date": {"day": "int"}})
    assert str(record.fields[0].type) == "date"
    assert str(record.fields[1].type) == "char"


def test_an_array_of_any_length_is_the_field_that_a_list_is_written_as() -> None:
    wanted = arrow_to_record(pa.schema([("x", pa.list_(pa.float64())), ("day", pa.list_(pa.date32()))]), "t")
    assert json_to_record({"t": {"x": "double[]", "day": " date [ ] "}}) == wanted
    assert json_to_record({"t": {"x": "double precision[]", "day": "date[]"}}) == wanted
    assert record_to_json(wanted) == '{"t": {"x": "float64[]", "day": "date[]"}}'


@pytest.mark.parametrize(
    "fields",
    [
        {"x": "*int32[]", "y": "float64[][3]", "p": "point[]", "d": "decimal(20,2)[]", "b": "binary"},
        {"x_count": "int32", "x": "int32[x_count]"},
        {"x_count": "int64", "first": "uint8", "x": "int32[x_count][x_count]"},
        {"x": "int32[]", "y": "int32[x_count]"},
    ],
)
def test_counts_come_back_hidden_or_not_as_they_were(fields: dict[str, str]) -> None:
    record = json_to_record({"t": fields, "point": {"at": "int16[]"}} if "p" in fields else {"t": fields})
    assert json_to_record(record_to_json(record)) == record
    assert json.loads(record_to_json(record))["t"] == fields


@pytest.mark.parametrize(
    ("said", "type_"),
    [
        ({"lat": "float64"}, '{"t": {"x": "x"}, "x": {"lat": "float64"}}'),
        ([{"lat": "float64"}], '{"t": {"x": "x[]"}, "x": {"lat": "float64"}}'),
    ],
)
def test_a_structure_inside_another_gets_the_way_to_say_it(said: Any, type_: str) -> None:
    with pytest.raises(PbioError) as caught:
        json_to_record({"t": {"x": said}})
    assert caught.value.hint == f"describe the structure beside the one that holds it: {type_}"
    json_to_record(type_)
    with pytest.raises(PbioError) as caught:
        json_to_record({"t": {"x": ["int32"]}})
    assert caught.value.hint == 'an array of any length is "int32[]"'
    assert json_to_record({"t": {"x": "int32[]"}})


@pytest.mark.parametrize("said", ["int32[][]", "(int32[])[]"])
def test_one_array_of_any_length_for_a_field(said: str) -> None:
    with pytest.raises(PbioError, match="one array of any length") as caught:
        json_to_record({"t": {"x": said}})
    assert caught.value.field == "$.t.x"


@pytest.mark.parametrize("name", ["VARCHAR(20)", "char(3)", "varchar( 5 )"])
def test_a_length_is_not_kept(name: str) -> None:
    assert spark_type(name) == (STRING, None)


@pytest.mark.parametrize("name", ["decimal(39,0)", "decimal(2,3)", "decimal(0)", "interval day", "char(0)", ""])
def test_invalid_record_json(name: str) -> None:
    assert spark_type(name) is None


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("bigit", "did you mean 'bigint'?"),
        ("array<int>", "int32[]"),
        ("struct<a: int>", "describe the structure"),
        ("binary[n]", "write char[n]"),
        ("list<int>", "int32[]"),
        ("int32?", "*int32"),
        ("datetime", "did you mean 'timestamp'?"),
        ("str", "did you mean 'string'?"),
        ("unsigned  long", "did you mean 'uint64'?"),
    ],
)
def test_an_unknown_type_is_answered_with_what_to_write(said: str, hint: str) -> None:
    with pytest.raises(PbioError) as caught:
        json_to_record(json.dumps({"t": {"n": "int", "x": said}}))
    assert caught.value.code == "PBIO_BAD_TYPE"
    assert caught.value.field == "$.t.x"
    assert hint in str(caught.value)
    assert '{"Load"' not in str(caught.value) or said.startswith("struct")


def test_the_names_are_known_as_lower_case() -> None:
    assert all(name == name.lower() and spark_type(name.upper()) == SPARK_NAMES[name] for name in SPARK_NAMES)


@pytest.mark.parametrize(
    "text",
    [
        *("timestamp", "date", "timestamp_ntz", "decimal(10,2)", "decimal(20,2)", "binary", "int64"),
        *("timestamp[n]", "*timestamp", "(*timestamp)[n]", "*date[3]", "decimal(20,2)[3][n]", "(*decimal(38,0))[2]"),
    ],
)
def test_what_values_mean_comes_back(text: str) -> None:
    """A reader that asks for the type of its own files wants their timestamps, not numbers."""
    record = json_to_record({"R": {"n": "int32", "x": text, "since": ["timestamp", 5]}})
    written = record_to_json(record)
    assert text in written
    assert json_to_record(written) == record


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": {}}]},
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True}]},
        {"fields": ["id"]},
    ],
    ids=["avro", "spark", "names"],
)
def test_a_schema_of_others_is_named(schema: dict[str, object]) -> None:
    with pytest.raises(PbioError, match="as Avro's and Spark's schemas do") as caught:
        json_to_record(schema)
    name = schema.get("name", "Row")
    assert f'{{"{name}": {{' in str(caught.value.hint)
    assert ('"id": "long"' in str(caught.value.hint)) == (schema["fields"] != ["id"])


@pytest.mark.parametrize(
    ("said", "hint"), [(str, '"string"'), (int, '"int64"'), (float, '"float64"'), (bool, '"boolean"')]
)
def test_a_type_of_python_gets_its_name(said: type, hint: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_TYPE") as caught:
        json_to_record({"t": {"x": said}})
    assert caught.value.hint == f"name the type, {hint}"
    assert json_to_record({"t": {"x": hint.strip('"')}})


def test_json_as_editors_and_python_write_it() -> None:
    assert json_to_record('\ufeff{"t": {"x": "int32"}}\r\n') == json_to_record({"t": {"x": "int32"}})
    with pytest.raises(PbioError, match="JSON takes double quotes; in Python give the dict itself"):
        json_to_record(str({"t": {"x": "int32"}}))
