"""Channels through Spark: what a query gets is tested in `test_read` and `test_stream`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pbio_spark.channels import ChannelSpace
from tests.channels.spaces import COUNT

pytestmark = pytest.mark.spark

Run = Callable[..., None]


@pytest.fixture
def space(space: ChannelSpace) -> ChannelSpace:
    space.create_channel("counts", COUNT)
    return space


class Sink:
    """The batches that a query gave, by their number; a batch that comes again replaces the first."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.fail_at: int | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = [row["n"] for row in frame.collect()]
        if number == self.fail_at:
            raise RuntimeError("the sink is broken")
        self.batches[number] = rows


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def run(spark: SparkSession, space: ChannelSpace, sink: Sink, tmp_path: Path) -> Run:
    """Read all that is there, and end."""

    def run(root: str = space.root, checkpoint: str = "checkpoint", **options: Any) -> None:
        frame = spark.readStream.format("pbio").options(**{"channel": "counts", **options}).load(root)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    return run


def publish(space: ChannelSpace, *numbers: int, channel: str = "counts") -> None:
    space.channel(channel).submit([{"n": n} for n in numbers])


def test_a_batch(spark: SparkSession, space: ChannelSpace) -> None:
    publish(space, 1, 2, 3)
    read = spark.read.format("pbio").option("channel", "counts").option("metadataColumn", "_pbio")
    frame = read.load(space.root)
    assert frame.count() == 3
    rows = frame.select("n", "_pbio.position", "_pbio.channel").orderBy("n").collect()
    assert [tuple(row) for row in rows] == [(1, "2.0.0", "counts"), (2, "2.0.1", "counts"), (3, "2.0.2", "counts")]
    part = read.schema("_pbio struct<published: timestamp>, n bigint").load(space.root)
    assert part.filter("_pbio.published > '2020-01-01'").count() == 3
    with pytest.raises(PySparkException, match=r"PBIO_CHANNEL_SPACE(.|\n)*the channels are counts"):
        spark.read.format("pbio").load(space.root)


def test_a_stream_resumes_where_it_ended(run: Run, space: ChannelSpace, sink: Sink, tmp_path: Path) -> None:
    publish(space, 0, 1, 2)
    run(startingOffsets="earliest", maxRecordsPerTrigger=2)
    assert sink.batches == {0: [0, 1], 1: [2]}
    run()
    assert sorted(sink.batches) == [0, 1]
    publish(space, 3)
    sink.fail_at = 2
    with pytest.raises(PySparkException, match="the sink is broken"):
        run()
    publish(space, 4)
    space.compact()
    sink.fail_at = None
    run()
    assert sink.batches == {0: [0, 1], 1: [2], 2: [3], 3: [4]}
    last = max((path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit()), key=str)
    info = space.channel("counts").info
    kept = {"version": 1, "space": space.id, "position": "6.0.0", "channels": [info.id], "formats": [info.format]}
    assert json.loads(last.read_text().splitlines()[2]) == kept


def test_a_checkpoint_of_another_space(run: Run, space: ChannelSpace, tmp_path: Path) -> None:
    publish(space, 0)
    run(startingOffsets="earliest")
    other = ChannelSpace.create(str(tmp_path / "other"))
    other.create_channel("counts", COUNT)
    with pytest.raises(PySparkException, match=r"PBIO_BAD_OFFSET(.|\n)*mixed up"):
        run(root=other.root)


def test_a_subscriber_resumes_in_another_query(run: Run, space: ChannelSpace, sink: Sink) -> None:
    publish(space, 0)
    for number, expected in enumerate(([0], [1], [])):
        run(subscriber="spark", checkpoint=f"checkpoint {number}", startingOffsets="earliest")
        assert sink.batches == {0: expected}
        if number == 0:
            publish(space, 1)


def test_a_running_query_sees_what_comes(spark: SparkSession, space: ChannelSpace) -> None:
    frame = spark.readStream.format("pbio").option("channelPattern", "c.*").load(space.root)
    query: StreamingQuery = frame.writeStream.format("memory").queryName("seen").start()
    try:
        query.processAllAvailable()
        for n in range(3):
            publish(space, n)
            query.processAllAvailable()
            assert [row["n"] for row in spark.table("seen").collect()] == list(range(n + 1))
        space.create_channel("cats", COUNT)
        publish(space, 3, channel="cats")
        query.processAllAvailable()
        assert spark.table("seen").count() == 4
        space.drop_channel("counts")
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
