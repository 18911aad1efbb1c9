"""Record types, transforms and E-code through Spark: every reader on one folder of all generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ecode.types import INT32, Field, record
from pbio_spark import dispatch
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import record_to_json
from pbio_spark.formats.store import FolderStore
from pbio_spark.functions import from_pbio
from pbio_spark.wire import FileWriter, encode
from tests.columns.programs.test_routes import REV0, REV1, REV2, VALUES, generations

pytestmark = pytest.mark.spark
ANY = {"mismatchThreshold": "1"}
AS_REV0 = [("a", 4.0), ("b", 3.0), ("c", 9.0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of three generations from a big-endian 32-bit machine and a little-endian 64-bit one."""
    path = tmp_path_factory.mktemp("loads")
    for machine in ("be32", "le64"):
        formats = generations(machine)
        with FileWriter(path / f"{machine}.ffs") as writer:
            for form in formats:
                writer.describe(form)
            for form, value in zip(formats, VALUES, strict=True):
                writer.data(form, value)
    return path


def read(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    reader = spark.read.format("pbio")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(folder))


def rows(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.select(*columns).collect())


def test_every_reader_reads_every_generation(spark: SparkSession, folder: Path) -> None:
    rev0 = read(spark, folder, readerFormat=record_to_json(REV0), **ANY)
    assert rows(rev0, "host", "total") == sorted(AS_REV0 * 2)
    rev1 = read(spark, folder, readerFormat=record_to_json(REV1), **ANY)
    assert [tuple(row) for row in rev1.filter("host = 'c'").select("n", "mean").collect()] == [(3, 3.0)] * 2
    assert rev1.filter("host = 'a' and mean is null").count() == 2
    rev2 = read(spark, folder, readerFormat=record_to_json(REV2), **ANY)
    assert rev2.count() == 6
    assert [tuple(row) for row in rev2.filter("at = 99").select("machine", "loads").collect()] == [
        ("c", [1.0, 2.0, 6.0])
    ] * 2


def test_a_target_by_its_id(spark: SparkSession, folder: Path) -> None:
    rev0 = generations("be32")[0].id.hex()
    assert rows(read(spark, folder, readerFormat=rev0, **ANY), "host", "total") == sorted(AS_REV0 * 2)
    with pytest.raises(Exception, match=r"PBIO_UNKNOWN_FORMAT.*\n.*did you mean 'Load'"):
        read(spark, folder, readerFormat="Lod").collect()
    assert rows(read(spark, folder, readerFormat="Load@1", **ANY), "host", "total") == sorted(AS_REV0 * 2)
    with pytest.raises(Exception, match=r"PBIO_SEVERAL_FORMATS.*3 record types are called 'Load'"):
        read(spark, folder, readerFormat="Load").collect()


def test_what_is_rejected(spark: SparkSession, folder: Path) -> None:
    far = record_to_json(record("Load", [Field("x", INT32), Field("y", INT32)]))
    with pytest.raises(Exception, match="PBIO_REJECTED"):
        read(spark, folder, readerFormat=far).collect()
    assert read(spark, folder, readerFormat=far, onReject="drop").count() == 0
    bad = read(spark, folder, readerFormat=far, onReject="corrupt", mode="PERMISSIVE")
    assert [row[0][:15] for row in bad.select("_corrupt_record.reason").collect()] == ["[PBIO_REJECTED]"] * 6


def test_a_filter_and_a_transform_at_the_source(spark: SparkSession, folder: Path) -> None:
    target = record_to_json(REV0)
    few = read(spark, folder, readerFormat=target, filter="{ return input.total > 3.5; }", **ANY)
    assert rows(few, "host", "total") == [("a", 4.0)] * 2 + [("c", 9.0)] * 2
    made = (
        spark.read.format("pbio")
        .schema("who string, twice bigint")
        .option("readerFormat", target)
        .option("mismatchThreshold", "1")
        .option("transform", "{ output.who = input.host; output.twice = 2 * input.total; return input.total > 3.5; }")
        .load(str(folder))
    )
    assert rows(made, "who", "twice") == [("a", 8)] * 2 + [("c", 18)] * 2
    union = read(spark, folder, filter="{ return present(input.at) && input.n == 3; }")
    assert rows(union, "n", "at") == [(3, 99)] * 2
    with pytest.raises(Exception, match=r"PBIO_BAD_PROGRAM(.|\n)*did you mean"):
        read(spark, folder, readerFormat=target, filter="{ return input.totl > 1; }").collect()


def test_a_schema_alone_reaches_through_transforms_and_loses_nothing(spark: SparkSession, folder: Path) -> None:
    df = spark.read.format("pbio").schema("total double, host string").load(str(folder))
    assert rows(df, "host", "total") == sorted(AS_REV0 * 2)


def test_several_targets_are_dispatched(spark: SparkSession, folder: Path) -> None:
    targets = f"[{record_to_json(REV0)}, {record_to_json(REV2)}]"
    df = read(spark, folder, readerFormat=targets, metadataColumn="_pbio")
    counts: dict[str, int] = {}
    dispatch(
        df,
        {"Load": lambda part: counts.update(old=part.count()), "Load'": lambda part: counts.update(new=part.count())},
        lambda part: counts.update(rest=part.count()),
    )
    assert counts["old"] + counts["new"] == 6
    assert counts["new"] == 2
    assert counts["rest"] == 0


def test_written_transforms_are_read(spark: SparkSession, tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "out"
    old = record_to_format(REV0)
    FolderStore(str(store)).put(old)
    transforms = json.dumps([{"to": "Load", "ecode": "{ old.total = new.mean * new.n; old.host = new.host; }"}])
    df = spark.createDataFrame([(2, 1.5, "b")], "n int, mean double, host string")
    writer = df.write.format("pbio").mode("append").option("formatName", "Load").option("transforms", transforms)
    writer.option("formatStore", str(store)).option("nullValue", "0").save(str(folder))
    found = read(spark, folder, readerFormat=record_to_json(REV0))
    assert rows(found, "host", "total") == [("b", 3.0)]
    bad = json.dumps([{"to": "Load", "ecode": "{ old.total = new.average; }"}])
    with pytest.raises(Exception, match="MORPH_BAD_TRANSFORM"):
        writer.option("transforms", bad).save(str(tmp_path / "bad"))


def test_streams_take_the_same_options(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    stream = (
        spark.readStream.format("pbio")
        .schema("total double, host string")
        .option("readerFormat", record_to_json(REV0))
        .option("mismatchThreshold", "1")
        .option("filter", "{ return input.total > 3.5; }")
        .load(str(folder))
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("loads")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert rows(spark.table("loads"), "host", "total") == [("a", 4.0)] * 2 + [("c", 9.0)] * 2


def test_column_functions_take_the_same_options(spark: SparkSession) -> None:
    formats = generations("be32")
    records = [(encode(form, value),) for form, value in zip(formats, VALUES, strict=True)]
    df = spark.createDataFrame(records, "record binary")
    options = {"readerFormat": record_to_json(REV0), "mismatchThreshold": "1"}
    column = from_pbio("record", "total double, host string", formats, options)
    assert rows(df.select(column.alias("r")), "r.host", "r.total") == AS_REV0
