"""A filter over a channel through Spark itself: fewer tasks, the same rows."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pbio_spark.channels import ChannelSpace
from pbio_spark.source.channels.reader import ChannelPartition
from tests.channels.spaces import COUNT, again
from tests.source.local import load, plan

FILTER = "{ return input.n > 990; }"


@pytest.fixture
def counts(space: ChannelSpace) -> ChannelSpace:
    space.create_channel("counts", COUNT)
    for first in (0, 500):
        space.channel("counts").submit([{"n": n} for n in range(first, first + 500)])
    return space


def rows(space: ChannelSpace, **options: Any) -> list[int]:
    return [row["n"] for row in load(space.root, channel="counts", filter=FILTER, **options)]


def test_what_is_skipped_takes_no_task(counts: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pbio_spark.channels")
    options = {"channel": "counts", "maxPartitionBytes": 2_000, "filter": FILTER}
    (partition,) = plan(counts.root, **options).partitions()
    assert isinstance(partition, ChannelPartition)
    ((_, stretch),) = partition.reading.stretches
    assert stretch.version == counts.history.catch_up().version
    assert (stretch.runs["stop"] - stretch.runs["first"]).sum() < 40
    assert "the filter skips 9" in caplog.text
    assert "2 files" in caplog.text
    assert len(plan(counts.root, skipBlocks=False, **options).partitions()) == 2
    assert plan(counts.root, **{**options, "filter": "{ return input.n < 0; }"}).partitions() == []
    assert rows(counts) == rows(counts, skipBlocks=False) == list(range(991, 1000))


@pytest.mark.spark
def test_through_spark(spark: SparkSession, counts: ChannelSpace) -> None:
    """What Spark's tasks publish says what it holds, and what a batch and a stream read is the same."""
    frame = spark.range(990, 2000).selectExpr("cast(id as int) n").repartition(1).sortWithinPartitions("n")
    frame.write.format("pbio").mode("append").option("channel", "counts").save(counts.root)
    reader = spark.read.format("pbio").option("channel", "counts").option("filter", "{ return input.n >= 995; }")
    found = [row["n"] for row in reader.load(counts.root).orderBy("n").collect()]
    assert found == sorted([*range(995, 1000), *range(995, 2000)])
    stream = spark.readStream.format("pbio").option("channel", "counts").option("startingOffsets", "earliest")
    batches: list[list[int]] = []
    query = (
        stream.option("filter", "{ return input.n < 0; }")
        .load(counts.root)
        .writeStream.foreachBatch(lambda batch, _: batches.append([row["n"] for row in batch.collect()]))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    assert batches in ([[]], [])
    assert len(again(counts).channels()) == 1
