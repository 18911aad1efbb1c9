"""What the pages on differences from built-in sources and on troubleshooting say of Spark, tried on this Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

from ecode.types import FLOAT64, INT32, STRING, Field, record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter

pytestmark = pytest.mark.spark


@pytest.fixture
def readings(tmp_path: Path) -> str:
    """A folder with three records."""
    made = record_to_format(record("reading", [Field("n", INT32), Field("v", FLOAT64), Field("unit", STRING)]))
    with FileWriter(tmp_path / "a.ffs") as writer:
        for n in range(3):
            writer.data(made, {"n": n, "v": n / 2, "unit": "kPa"})
    return str(tmp_path)


def test_unknown_options_and_words(spark: SparkSession, readings: str, tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "a.json").write_text('{"n": 1}\n')
    json = spark.read.format("json").option("mode", "BOGUS").option("nosuch", 1).load(str(tmp_path / "json"))
    assert json.count() == 1
    with pytest.raises(AnalysisException, match="PBIO_UNKNOWN_OPTION"):
        spark.read.format("pbio").option("nosuch", 1).load(readings)
    with pytest.raises(AnalysisException, match="PBIO_BAD_OPTION"):
        spark.read.format("pbio").option("mode", "BOGUS").load(readings)


def test_a_schema_projects(spark: SparkSession, readings: str) -> None:
    frame = spark.read.format("pbio").schema("unit STRING, absent INT, n BIGINT")
    with pytest.raises(AnalysisException, match=r"PBIO_UNFILLED.*'absent'"):
        frame.load(readings).count()
    frame = frame.option("onUnfilled", "ignore").load(readings)
    assert [tuple(row) for row in frame.collect()] == [("kPa", None, n) for n in range(3)]


def test_where_rows_come_from(spark: SparkSession, readings: str) -> None:
    frame = spark.read.format("pbio").option("metadataColumn", "at").load(readings)
    with pytest.raises(AnalysisException, match="_metadata"):
        frame.select("_metadata")
    assert {row[0] for row in frame.selectExpr("input_file_name()").collect()} == {""}
    assert [row[0].rpartition("/")[2] for row in frame.select("at.file_path").collect()] == ["a.ffs"] * 3


def test_save_modes_and_partitions(spark: SparkSession, readings: str, tmp_path: Path) -> None:
    writer = spark.read.format("pbio").load(readings).write.format("pbio")
    target = str(tmp_path / "out")
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        writer.save(target)
    with pytest.raises(IllegalArgumentException):
        writer.mode("append").partitionBy("unit").save(target)
    again = spark.read.format("pbio").load(readings).write.format("pbio")
    again.mode("append").option("partitionColumns", "unit").save(target)
    assert (tmp_path / "out" / "unit=kPa").is_dir()
    assert spark.read.format("pbio").load(target).where("unit = 'kPa'").count() == 3


def test_sql(spark: SparkSession, readings: str) -> None:
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        spark.sql(f"SELECT * FROM pbio.`{readings}`")
    spark.sql(f"CREATE TEMPORARY VIEW some_readings USING pbio OPTIONS (path '{readings}')")
    assert spark.table("some_readings").count() == 3
    spark.sql(f"CREATE TABLE readings_table USING pbio OPTIONS (path '{readings}')")
    try:
        with pytest.raises(PySparkException, match=r"PBIO_NO_PATH"):
            spark.table("readings_table").count()
        assert spark.sql(f"SELECT * FROM readings_table WITH (`path` = '{readings}')").count() == 3
        assert spark.read.option("path", readings).table("readings_table").count() == 3
        made = f"CREATE TEMPORARY VIEW fresh AS SELECT * FROM readings_table WITH (`path` = '{readings}')"
        spark.sql(made)
        kept = spark.read.format("pbio").load(readings)
        counts = [(spark.table("fresh").count(), spark.table("some_readings").count(), kept.count())]
        target = f"readings_table WITH (`path` = '{readings}', formatName = 'reading')"
        with pytest.raises(PySparkException, match=r"PBIO_NO_PATH(.|\n)*INSERT INTO t WITH \(path = '...'\) SELECT"):
            spark.sql("INSERT INTO readings_table VALUES (9, 4.5D, 'kPa')")
        with pytest.raises(PySparkException, match=r"PBIO_NO_PATH(.|\n)*instead of CREATE TABLE ... AS SELECT"):
            spark.sql("CREATE TABLE made_table USING pbio AS SELECT 1 AS n")
        spark.sql(f"INSERT INTO {target} VALUES (9, 4.5D, 'kPa')")
        counts += [(spark.table("fresh").count(), spark.table("some_readings").count(), kept.count())]
        assert counts == [(3, 3, 3), (4, 3, 3)]
    finally:
        spark.sql("DROP TABLE readings_table")


def test_nulls_in_numbers_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1,), (None,)], "n INT").coalesce(1)
    with pytest.raises(PySparkException, match=r"nullValue"):
        frame.write.format("pbio").mode("append").save(str(tmp_path / "refused"))
    frame.write.format("pbio").mode("append").option("nullValue", -1).save(str(tmp_path / "kept"))
    assert [row["n"] for row in spark.read.format("pbio").load(str(tmp_path / "kept")).collect()] == [1, -1]


def test_the_list_of_files_is_that_of_load(spark: SparkSession, readings: str, tmp_path: Path) -> None:
    frame = spark.read.format("pbio").load(readings)
    assert frame.count() == 3
    (tmp_path / "b.ffs").write_bytes((tmp_path / "a.ffs").read_bytes())
    assert frame.count() == 3
    assert spark.read.format("pbio").load(readings).count() == 6


def test_a_thread_writes_once_the_session_is_active_there(spark: SparkSession, readings: str, tmp_path: Path) -> None:
    frame = spark.read.format("pbio").load(readings)

    def write() -> None:
        spark.createDataFrame([(0,)], "n INT")
        frame.write.format("pbio").mode("append").save(str(tmp_path / "out"))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    assert spark.read.format("pbio").load(str(tmp_path / "out")).count() == 3


def test_what_is_read_cannot_be_overwritten(spark: SparkSession, readings: str) -> None:
    frame = spark.read.format("pbio").load(readings)
    with pytest.raises(PySparkException, match="PBIO_OVERWRITES_ITSELF"):
        frame.where("n > 0").write.format("pbio").mode("overwrite").save(readings)
    assert sorted(row["n"] for row in spark.read.format("pbio").load(readings).collect()) == [0, 1, 2]


def test_hidden_files_are_read_when_they_are_named(spark: SparkSession, readings: str, tmp_path: Path) -> None:
    (tmp_path / "a.ffs").rename(tmp_path / "_a.ffs")
    assert spark.read.text(str(tmp_path / "_a.ffs")).count() == 0
    assert spark.read.format("pbio").load(str(tmp_path / "_a.ffs")).count() == 3
