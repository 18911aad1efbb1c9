"""Nulls come back on every way through Spark, and an existing format is written byte for byte."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ecode.types import CHAR, FLOAT32, INT32, STRING, UINT16, Array, Field, Pointer, Ref, Struct, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.formats.layout import record_to_format
from pbio_spark.functions import from_pbio, to_pbio
from pbio_spark.wire import FileWriter, ItemKind, Scanner

pytestmark = pytest.mark.spark

NULLS = """select * from values
    (1, null, 1.5D, true, null, 'x', null, array(1, null, 3), named_struct('a', 1, 'b', null),
     array(named_struct('k', null, 'v', array(1.5D, null)), null), map('k', null)),
    (2, 2L, null, null, timestamp'2026-01-31 12:34:56.789', null, 0.01BD, array(), null,
     array(), map()),
    (null, null, null, null, null, null, null, null, null, null, null),
    (4, 0L, 0D, false, timestamp'1970-01-01 00:00:00', '', 0.00BD, array(null), named_struct('a', null, 'b', 'y'),
     array(named_struct('k', 7, 'v', null)), map('', 1, 'z', null))
    as t(i, l, d, b, t, s, c, v, st, structs, m)"""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(NULLS).coalesce(1)


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    name = f"nulls_{uuid.uuid4().hex}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def check(found: DataFrame, rows: DataFrame) -> None:
    assert found.schema.simpleString() == rows.schema.simpleString()
    assert sorted(map(repr, found.collect())) == sorted(map(repr, rows.collect()))


def test_streamed_through_a_channel(
    spark: SparkSession, rows: DataFrame, space: ChannelSpace, tmp_path: Path, table: str
) -> None:
    space.create_channel("rows", rows.schema)
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    write = stream.writeStream.format("pbio").option("channel", "rows").trigger(availableNow=True)
    write.option("checkpointLocation", str(tmp_path / "a")).start(space.root).awaitTermination()
    read = spark.readStream.format("pbio").option("channel", "rows").option("startingOffsets", "earliest")
    again = read.load(space.root).writeStream.format("memory").queryName(table).trigger(availableNow=True)
    again.option("checkpointLocation", str(tmp_path / "b")).start().awaitTermination()
    check(spark.table(table), rows)


@pytest.mark.parametrize("nulls", ["mask", "pointer"])
def test_in_a_column_of_records(rows: DataFrame, nulls: str, tmp_path: Path) -> None:
    options = {"formatStore": str(tmp_path)}
    records = rows.selectExpr("struct(*) r").select(to_pbio("r", rows.schema, {**options, "nulls": nulls}).alias("r"))
    check(records.select(from_pbio("r", rows.schema, options=options).alias("r")).select("r.*"), rows)


def test_through_a_table_whose_records_keep_their_name(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, table: str
) -> None:
    rows.createOrReplaceTempView("given")
    there = f"`path` = '{tmp_path / 'data'}'"
    rows.limit(0).write.format("pbio").mode("append").option("nulls", "mask").option("formatName", "reading").save(
        str(tmp_path / "data")
    )
    spark.sql(f"CREATE TABLE {table} USING pbio LOCATION '{tmp_path / 'data'}'")
    for _ in range(2):
        spark.sql(f"INSERT INTO {table} WITH ({there}, nulls = 'mask') SELECT * FROM given")
    check(spark.sql(f"SELECT * FROM {table} WITH ({there})"), rows.union(rows))
    assert {name for file in (tmp_path / "data").glob("*.ffs") for name in names(file)} == {"reading"}


def test_a_format_that_is_there_is_written_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    point = Struct("point", (Field("x", FLOAT32), Field("tag", Array(CHAR, (4,)))))
    fields = [
        Field("n", INT32),
        Field("v", Array(FLOAT32, ("n",))),
        Field("unit", STRING),
        Field("grid", Array(UINT16, (2, 2))),
        Field("at", Ref("point")),
        Field("maybe", Pointer(Ref("point"))),
    ]
    form = record_to_format(record("reading", fields, [point]), "sparc")
    at = {"x": 0.5, "tag": [65, 0, 0, 0]}
    old = tmp_path / "old.ffs"
    with FileWriter(old) as writer:
        for n in range(3):
            grid = [[1, 2], [3, 65535]]
            maybe = at if n == 1 else None
            writer.data(
                form, {"n": n, "v": [0.25] * n or None, "unit": "kPa"[n:], "grid": grid, "at": at, "maybe": maybe}
            )
    frame = spark.read.format("pbio").load(str(old))
    frame.write.format("pbio").mode("append").option("writeFormat", f"{old}#reading").save(str(tmp_path / "new"))
    (new,) = (tmp_path / "new").glob("*.ffs")
    assert items(new) == items(old)


def items(path: Path) -> list[bytes]:
    """Formats and records as they lie in a file."""
    scanner = Scanner(path.read_bytes(), str(path))
    return [bytes(scanner.read(item)) for item in scanner.items() if item.kind in (ItemKind.FORMAT, ItemKind.DATA)]


def names(path: Path) -> set[str]:
    scanner = Scanner(path.read_bytes(), str(path))
    list(scanner.items())
    return {form.name for form in scanner.formats.values()}
