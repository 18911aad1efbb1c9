"""Spark publishes to channels: batches, streams that are started again, foreachBatch; plain Python reads them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ecode.types import FLOAT64, INT64, Field, record
from pbio_spark.channels import Channel, ChannelSpace
from tests.channels.spaces import everything
from tests.source.channels.write.test_write import is_sound

pytestmark = pytest.mark.spark

READING = record("reading", [Field("n", INT64), Field("v", FLOAT64)])


@pytest.fixture
def readings(space: ChannelSpace) -> Channel:
    return space.create_channel("readings", READING)


def numbered(spark: SparkSession, first: int, last: int, partitions: int = 1) -> DataFrame:
    return spark.range(first, last, 1, partitions).selectExpr("id n", "id / 2 v")


def numbers(channel: Channel) -> list[int]:
    return [event.values["n"] for event in everything(channel)]


class Source:
    """A folder from which a stream reads one file a batch."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self.path = path
        path.mkdir()

    def add(self, first: int, last: int) -> None:
        hidden = self.path / f".{first}"
        hidden.write_text("".join(f'{{"n": {n}, "v": {n / 2}}}\n' for n in range(first, last)))
        os.utime(hidden, (first, first))  # Spark reads the older ones first
        hidden.rename(self.path / f"{first:06}.json")

    def stream(self) -> DataFrame:
        reader = self._spark.readStream.schema("n bigint, v double").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.path))


def run(writer: DataStreamWriter, checkpoint: Path, root: str | None = None) -> None:
    """Take all there is, in as many batches as it takes."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(root)
    query.awaitTermination()


def crash_before_the_end_of(checkpoint: Path, batch: int) -> None:
    """As if Spark had died after our commit of a batch and before its own."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch(spark: SparkSession, space: ChannelSpace, readings: Channel) -> None:
    high = space.derive_channel("high", "readings", filter="{ return input.v >= param.v; }", parameters={"v": 3.5})
    write = numbered(spark, 0, 10, 2).write.format("pbio").mode("append").option("channel", "readings")
    write.option("producer", "spark").option("sequenceColumn", "n").save(space.root)
    events = everything(readings)
    assert [(event.producer, event.sequence, event.values) for event in events] == [
        ("spark", n, {"n": n, "v": n / 2}) for n in range(10)
    ]
    assert [event.position.file for event in events] == [0] * 5 + [1] * 5
    assert numbers(high) == [7, 8, 9]
    assert is_sound(space)


def test_what_is_refused_is_refused_while_planning(spark: SparkSession, space: ChannelSpace, readings: Channel) -> None:
    write = numbered(spark, 0, 3).write.format("pbio").option("channel", "readings")
    with pytest.raises(PySparkException, match=r"PBIO_BAD_OPTION.*only grows"):
        write.mode("overwrite").save(space.root)
    with pytest.raises(PySparkException, match="PBIO_REJECTED"):
        spark.range(3).write.format("pbio").option("channel", "readings").mode("append").save(space.root)
    with pytest.raises(PySparkException, match=r"PBIO_UNKNOWN_CHANNEL.*\n.*\n.*did you mean"):
        write.mode("append").option("channel", "reading").save(space.root)


def test_a_stream_that_dies_between_the_two_commits(
    spark: SparkSession, space: ChannelSpace, readings: Channel, tmp_path: Path
) -> None:
    source, checkpoint = Source(spark, tmp_path / "in"), tmp_path / "checkpoint"
    for first in (0, 5, 10):
        source.add(first, first + 5)
    write = source.stream().writeStream.format("pbio").option("channel", "readings")
    run(write, checkpoint, space.root)
    assert numbers(readings) == list(range(15))
    crash_before_the_end_of(checkpoint, 2)
    source.add(15, 20)
    run(write, checkpoint, space.root)
    assert numbers(readings) == list(range(20))
    versions = [event.position.version for event in everything(readings)]
    assert len(set(versions)) == 4
    assert is_sound(space)
    # Without the checkpoint it is another query, to which nothing is known.
    shutil.rmtree(checkpoint)
    run(write, checkpoint, space.root)
    assert numbers(readings) == [*range(20), *range(20)]


def test_two_queries_publish_the_same_events_once(
    spark: SparkSession, space: ChannelSpace, readings: Channel, tmp_path: Path
) -> None:
    source = Source(spark, tmp_path / "in")
    told = {"channel": "readings", "producer": "feed", "sequenceColumn": "n"}
    write = source.stream().writeStream.format("pbio").options(**told)
    for first in (0, 5, 10):
        source.add(first, first + 5)
        run(write, tmp_path / f"checkpoint-{first % 2}", space.root)
    assert numbers(readings) == list(range(15))
    others = {**told, "producer": "other"}
    run(source.stream().writeStream.format("pbio").options(**others), tmp_path / "checkpoint-2", space.root)
    assert [event.producer for event in everything(readings)] == ["feed"] * 15 + ["other"] * 15
    assert is_sound(space)


def test_for_each_batch(spark: SparkSession, space: ChannelSpace, readings: Channel, tmp_path: Path) -> None:
    source, checkpoint = Source(spark, tmp_path / "in"), tmp_path / "checkpoint"

    def publish(rows: DataFrame, batch: int) -> None:
        write = rows.write.format("pbio").mode("append").option("channel", "readings")
        write.option("txnAppId", "each").option("txnVersion", batch).save(space.root)

    source.add(0, 5)
    source.add(5, 10)
    run(source.stream().writeStream.foreachBatch(publish), checkpoint)
    crash_before_the_end_of(checkpoint, 1)
    run(source.stream().writeStream.foreachBatch(publish), checkpoint)
    assert numbers(readings) == list(range(10))


def test_a_stream_of_a_channel_into_another(
    spark: SparkSession, space: ChannelSpace, readings: Channel, tmp_path: Path
) -> None:
    copies = space.create_channel("copies", READING)
    for first in (0, 5):
        readings.submit([{"n": n, "v": n / 2} for n in range(first, first + 5)])
    stream = spark.readStream.format("pbio").option("channel", "readings").option("startingOffsets", "earliest")
    write = stream.load(space.root).where("n % 2 = 1").writeStream.format("pbio").option("channel", "copies")
    run(write, tmp_path / "checkpoint", space.root)
    assert numbers(copies) == [1, 3, 5, 7, 9]
    assert is_sound(space)


def test_code_with_state_and_a_service_runs_where_spark_writes(
    spark: SparkSession, space: ChannelSpace, readings: Channel, tmp_path: Path
) -> None:
    every_third = "{ state.n += 1; return state.n % 3 == 0; }"
    thirds = space.derive_channel("thirds", "readings", filter=every_third, state={"n": 0})
    timed = space.derive_channel("timed", "readings", filter="{ return clock() > 0; }", services=["clock"])
    source = Source(spark, tmp_path / "in")
    for first in (0, 4, 8):
        source.add(first, first + 4)
    rows = source.stream().selectExpr("n", "v", "concat('p', n % 2) who").repartition(2, "who")
    for _ in range(2):
        write = rows.writeStream.format("pbio").option("channel", "readings").option("services", "clock")
        run(write.option("producerColumn", "who").option("sequenceColumn", "n"), tmp_path / "checkpoint", space.root)
        crash_before_the_end_of(tmp_path / "checkpoint", 2)
    kept = [
        event.values["n"] for producer in ("p0", "p1") for event in everything(thirds) if event.producer == producer
    ]
    assert kept == [4, 10, 5, 11]
    assert sorted(numbers(timed)) == list(range(12))
    read = spark.read.format("pbio").option("channel", "thirds").option("metadataColumn", "m").load(space.root)
    assert {row[0] for row in read.select("m.derivation_version").collect()} == {thirds.info.version}
    assert is_sound(space)
