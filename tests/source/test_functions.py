"""from_pbio, to_pbio, schema_of_pbio, format_id_of: records in binary columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FolderStore
from pbio_spark.functions import format_id_of, from_pbio, schema_of_pbio, to_pbio
from pbio_spark.wire import encode
from tests.source.samples import MIDDLE, NEW, OLD, OTHER, formatted, reading

pytestmark = pytest.mark.spark

SCHEMA = "n bigint, unit string"


def value(type_: Record, n: int, machine: str = "native") -> bytes:
    return encode(formatted(type_, machine), reading(type_, n))


def binaries(spark: SparkSession, *values: bytes | None) -> DataFrame:
    return spark.createDataFrame([(bytearray(v) if v is not None else None,) for v in values], "r binary").coalesce(1)


def decoded(frame: DataFrame, *args: Any, **kwargs: Any) -> list[Any]:
    return [row[0] and tuple(row[0]) for row in frame.select(from_pbio("r", *args, **kwargs)).collect()]


def test_records_of_all_versions_and_machines_and_nulls(spark: SparkSession) -> None:
    formats = [formatted(OLD, "be32"), formatted(MIDDLE), formatted(NEW, "be64")]
    frame = binaries(spark, value(NEW, 1, "be64"), None, value(OLD, 2, "be32"), value(MIDDLE, 3), value(NEW, 4, "be64"))
    assert decoded(frame, SCHEMA, formats) == [(1, "u1"), None, (2, None), (3, "u3"), (4, "u4")]


def test_formats_from_a_store_also_those_that_come_later(spark: SparkSession, tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    store.put(formatted(OLD))
    frame = binaries(spark, value(OLD, 1), value(NEW, 2))
    column = from_pbio("r", SCHEMA, options={"formatStore": str(tmp_path)})
    store.put(formatted(NEW))
    assert [tuple(row[0]) for row in frame.select(column).collect()] == [(1, None), (2, "u2")]


def test_bad_and_unknown_records_follow_the_mode(spark: SparkSession) -> None:
    good = value(MIDDLE, 7)
    frame = binaries(spark, good, value(OLD, 1), b"", b"\x02", good[:-3], good[:32] + b"\xff" + good[33:], good)
    expected = [(7, "u7"), None, None, None, None, None, (7, "u7")]
    assert decoded(frame, SCHEMA, [formatted(MIDDLE)], {"mode": "permissive"}) == expected
    for bad, code in (
        (value(OLD, 1), "PBIO_UNKNOWN_FORMAT"),
        (b"", "PBIO_UNKNOWN_FORMAT"),
        (good[:-3], "PBIO_BAD_RECORD"),
    ):
        with pytest.raises(PySparkException, match=rf"\[{code}\](.|\n)*binary value 2 of its batch"):
            decoded(binaries(spark, None, good, bad), SCHEMA, [formatted(MIDDLE)])


def test_bad_records_have_a_column_of_ones_choice(spark: SparkSession) -> None:
    good, options = value(MIDDLE, 7), {"mode": "permissive", "columnNameOfCorruptRecord": "bad"}
    frame = binaries(spark, good, None, good[:-3], b"", value(OLD, 1))
    schema = f"{SCHEMA}, bad struct<reason string, bytes binary, offset bigint>"
    columns = from_pbio("r", schema, [formatted(MIDDLE)], options).alias("v")
    first, null, short, empty, unknown = (row["v"] for row in frame.select(columns).collect())
    assert (tuple(first), null) == ((7, "u7", None), None)
    assert [(row["n"], row["unit"], row["bad"]["offset"]) for row in (short, empty, unknown)] == [
        (None, None, None)
    ] * 3
    assert [row["bad"]["bytes"] for row in (short, empty, unknown)] == [good[:-3], b"", value(OLD, 1)]
    assert "[PBIO_BAD_RECORD]" in short["bad"]["reason"]
    assert "binary value 2 of its batch" in short["bad"]["reason"]
    assert formatted(OLD).id.hex() in unknown["bad"]["reason"]
    dead = frame.select("r", columns).where("v.bad is not null").select("r").collect()
    assert [row["r"] for row in dead] == [good[:-3], b"", value(OLD, 1)]
    bytes_only = from_pbio("r", "n bigint, bad binary", [formatted(MIDDLE)], options)
    assert [row[0] and row[0]["bad"] for row in frame.select(bytes_only).collect()][2:] == [row["r"] for row in dead]
    with pytest.raises(PbioError, match=r"\[PBIO_INCOMPATIBLE_TYPE\]"):
        from_pbio("r", "n bigint, bad int", [formatted(MIDDLE)], options)


def test_errors_say_where_a_record_comes_from(spark: SparkSession) -> None:
    good = value(MIDDLE, 7)
    rows = [("events", 0, 5, good), ("events", 1, 6, None), ("events", 3, 77, good[:-3])]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary").coalesce(1)
    place = r"at: topic events, partition 3, offset 77, byte 12 of the record"
    names = ["topic", "partition", "offset"]
    for origin in (names, F.struct(*names)):
        with pytest.raises(PySparkException, match=rf"\[PBIO_BAD_RECORD\](.|\n)*{place}"):
            frame.select(from_pbio("value", SCHEMA, [formatted(MIDDLE)], origin=origin)).collect()
    with pytest.raises(PySparkException, match=r"at: offset 77, byte 12"):
        frame.select(from_pbio("value", SCHEMA, [formatted(MIDDLE)], origin="offset")).collect()


def test_a_filter_makes_nulls_of_what_it_refuses(spark: SparkSession) -> None:
    frame = binaries(spark, *(value(MIDDLE, n) for n in (1, 2, 3)), None, b"bad")
    options = {"filter": "{ return input.n != 2; }", "mode": "permissive"}
    assert decoded(frame, SCHEMA, [formatted(MIDDLE)], options) == [(1, "u1"), None, (3, "u3"), None, None]
    bad = decoded(frame, f"{SCHEMA}, _corrupt_record binary", [formatted(MIDDLE)], options)
    assert bad == [(1, "u1", None), None, (3, "u3", None), None, (None, None, b"bad")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\0\0\0\0\x2a\x0cabc", "the frame of Confluent's serialisers, schema ID 42"),
        (b"\xc3\x01" + bytes(range(8)) + b"x", "an Avro single-object encoding, schema fingerprint 0706050403020100"),
        (b"Obj\x01rest", "a whole Avro file"),
        (b'{"n": 1}', "it looks like JSON"),
        (b"", "it is empty"),
        (b"\x02", "it would be 02"),
    ],
)
def test_frames_of_others_are_named(spark: SparkSession, data: bytes, said: str) -> None:
    with pytest.raises(PySparkException, match=rf"\[PBIO_UNKNOWN_FORMAT\].*{said}"):
        decoded(binaries(spark, data), SCHEMA, [formatted(MIDDLE)])


def test_records_of_other_formats_can_be_left_out(spark: SparkSession) -> None:
    frame = binaries(spark, value(OTHER, 1), value(OLD, 2), value(OTHER, 3))
    formats = [formatted(OTHER), formatted(OLD)]
    assert decoded(frame, "n bigint", formats, {"formatName": "reading"}) == [None, (2,), None]


def test_nothing_but_nulls_and_no_rows(spark: SparkSession) -> None:
    assert decoded(binaries(spark, None, None), SCHEMA, [formatted(NEW)]) == [None, None]
    assert decoded(binaries(spark, None).limit(0), SCHEMA, [formatted(NEW)]) == []


def test_a_column_that_no_format_has_is_an_error(spark: SparkSession) -> None:
    frame, formats = binaries(spark, value(OLD, 2)), [formatted(OLD)]
    with pytest.raises(PbioError, match=r"\[PBIO_UNFILLED\].*'unit'"):
        decoded(frame, SCHEMA, formats)
    assert decoded(frame, SCHEMA, formats, {"onUnfilled": "ignore"}) == [(2, None)]


def test_options_and_types_are_checked_at_once(spark: SparkSession) -> None:
    for schema, options, code in (
        ("n array<int>", {}, "PBIO_INCOMPATIBLE_TYPE"),
        (SCHEMA, {"mode": "dropmalformed"}, "PBIO_BAD_OPTION"),
        (SCHEMA, {"maxFilesPerTrigger": "1"}, "PBIO_UNKNOWN_OPTION"),
    ):
        with pytest.raises(PbioError, match=rf"\[{code}\]"):
            from_pbio("r", schema, [formatted(OLD)], options)


def test_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("""
        select * from values
            (named_struct('n', 1, 's', 'one', 'a', array(1.5D, 2.5D), 't', timestamp'2026-01-31 12:00:00')),
            (named_struct('n', 2, 's', null, 'a', array(), 't', timestamp'1969-01-01 00:00:00')),
            (null)
        as t(r)""").coalesce(1)
    type_ = frame.schema["r"].dataType
    options = {"formatStore": str(tmp_path), "formatName": "event", "byteOrder": "big"}
    records = frame.select(to_pbio("r", type_, options).alias("r"))
    assert records.schema.simpleString() == "struct<r:binary>"
    again = records.select(from_pbio("r", type_, options={"formatStore": str(tmp_path)}).alias("r"))
    assert_df_equality(again, frame, ignore_nullable=True)
    (form,) = FolderStore(str(tmp_path))
    assert (form.name, form.machine) == ("event", "be64")


def test_to_pbio_refuses_what_it_cannot_say(spark: SparkSession) -> None:
    frame = spark.sql("select named_struct('a', cast(null as array<int>)) r")
    with pytest.raises(PySparkException, match=r"\[PBIO_CANNOT_BE_NULL\](.|\n)*\$\.a(.|\n)*nullValue"):
        frame.select(to_pbio("r", "a array<int>")).collect()
    assert frame.select(to_pbio("r", "a array<int>", {"nullValue": "0"})).first()[0]
    with pytest.raises(PbioError, match=r"\[PBIO_UNSUPPORTED_TYPE\]"):
        to_pbio("r", "i interval day")


def test_schema_of(tmp_path: Path) -> None:
    formats = [formatted(OLD), formatted(NEW, "be32")]
    union = schema_of_pbio(formats)
    assert union.simpleString() == "struct<n:bigint,unit:string,count:int,v:array<double>>"
    for form in (*formats, formatted(OTHER)):
        FolderStore(str(tmp_path)).put(form)
    with pytest.raises(PbioError, match=r"\[PBIO_SEVERAL_FORMATS\]"):
        schema_of_pbio(options={"formatStore": str(tmp_path)})
    assert schema_of_pbio(options={"formatStore": str(tmp_path), "formatName": "reading"}) == union
    with pytest.raises(PbioError, match=r"\[PBIO_NO_SCHEMA\]"):
        schema_of_pbio()


def test_format_id_of(spark: SparkSession) -> None:
    ids = [formatted(OLD).id, b"\x01" + b"abcdefghi", b"abcd\0\0\0\0"]
    frame = binaries(spark, *(i + b"rest" for i in ids), ids[0][:11], b"\x07" * 20, b"", None)
    found = [row[0] for row in frame.select(format_id_of("r")).collect()]
    assert found == [*(i.hex() for i in ids), None, None, None, None]
    assert frame.filter(format_id_of(F.col("r")) == ids[0].hex()).count() == 1


def test_options_may_be_python_values(spark: SparkSession) -> None:
    frame = binaries(spark, value(MIDDLE, 7))
    assert decoded(frame, SCHEMA, [formatted(MIDDLE)], {"mergeSchema": True, "recursiveFieldMaxDepth": 2}) == [
        (7, "u7")
    ]
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\]"):
        from_pbio("r", SCHEMA, [formatted(MIDDLE)], {"mode": 3})
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\]"):
        to_pbio("r", SCHEMA, {"machine": 3})


@pytest.mark.parametrize("schema", ["int", "array<int>", "", "struct<>"])
def test_a_schema_that_is_no_structure_with_columns_is_refused(spark: SparkSession, schema: str) -> None:
    for function in (lambda: from_pbio("r", schema, [formatted(MIDDLE)]), lambda: to_pbio("r", schema)):
        with pytest.raises(PbioError, match=r"\[PBIO_UNSUPPORTED_TYPE\](.|\n)*such as"):
            function()
