"""Processes at a channel that may be killed at any time: `python -m tests.source.channels.process WHAT ...`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pbio_spark.channels import ChannelSpace
from pbio_spark.source.datasource import PbioDataSource


def publish(root: str, producer: str, count: str) -> None:
    """A plain program: publish numbered events, one after the other, with their numbers as sequence numbers.

    It takes its time, so that it is at work as long as the others, but not for what it has published before.
    """
    channel = ChannelSpace.open(root).channel("events")
    for n in range(int(count)):
        if channel.submit({"n": n}, producer=producer, sequence=n).events:
            time.sleep(0.03)


def write(root: str, producer: str, source: str, checkpoint: str) -> None:
    """A Spark stream from the files of a folder, one file in a micro-batch; it ends when there are no more.

    The events have no sequence numbers: what keeps a batch from being there twice is that its commit names it.
    """
    rows = _session().readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(source)
    writer = rows.writeStream.format("pbio").option("channel", "events").option("producer", producer)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(root)
    query.awaitTermination()


def read(root: str, kept: str, checkpoint: str) -> None:
    """A Spark stream from the channel into a folder, one file for each micro-batch. It does not end."""

    def keep(rows: DataFrame, batch: int) -> None:
        found = rows.select("at.position", "at.producer", "n").collect()
        lines = "".join(json.dumps(list(row)) + "\n" for row in found)
        path = Path(kept) / f"{batch:06}.jsonl"
        if path.exists() and path.read_text() != lines:
            raise AssertionError(f"batch {batch} is another one when it is read again")
        hidden = path.with_name(f".{path.name}")
        hidden.write_text(lines)
        hidden.rename(path)

    stream = _session().readStream.format("pbio").option("channel", "events").option("startingOffsets", "earliest")
    rows = stream.option("metadataColumn", "at").option("maxRecordsPerTrigger", 100).load(root)
    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


def _session() -> SparkSession:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.log.level", "OFF")
        # A JVM that will be killed shortly starts with half of the work.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    # Spark finds it by itself, unless the machine is so busy that its search runs into its time limit.
    session.dataSource.register(PbioDataSource)
    return session


if __name__ == "__main__":
    {"publish": publish, "write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
