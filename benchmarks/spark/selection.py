"""Selection: 1 % of many rows in a folder and in a channel, kept by `filter`, beside Parquet filtered by Spark.

In order: of rows whose values grow, so that all of them skip blocks. `PBIO_BENCH_ROWS` says how many rows there are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import Row, in_turns
from benchmarks.spark.spark_scan import PARTITIONS, scan, session
from pbio_spark.channels import ChannelSpace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = int(os.environ.get("PBIO_BENCH_ROWS", "4_000_000"))
REPEATS = 4
COLUMNS = {
    "trades": ["id", "concat('symbol ', id % 5000) symbol", "int(id % 97) size"],
    "readings": ["int(id) id", "concat('host ', id % 1000) host", "transform(sequence(1, 4), i -> double(id + i)) v"],
}
VALUES = {"in no order": "cast(hash(id) as double) / 1e6", "in order": "cast(id as double) / 1e3"}


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    spark = session()
    try:
        for what, columns in COLUMNS.items():
            for order, value in VALUES.items():
                yield from selection(spark, f"{what} {order}", [f"{value} x", *columns], folder / what / order)
    finally:
        spark.stop()
        shutil.rmtree(folder)


def selection(spark: SparkSession, what: str, columns: list[str], folder: Path) -> Iterator[Row]:
    frame = spark.range(0, ROWS, 1, PARTITIONS).selectExpr(*columns)
    frame.write.format("pbio").mode("append").save(f"{folder}/pbio")
    frame.write.parquet(f"{folder}/parquet")
    space = ChannelSpace.create(f"{folder}/space")
    space.create_channel("rows", frame.schema)
    frame.write.format("pbio").mode("append").option("channel", "rows").save(space.root)
    least = frame.stat.approxQuantile("x", [0.99], 0.0001)[0]

    def ours(**options: str) -> DataFrame:
        # A reader of Spark keeps the options of a load for those that come later, so each has its own.
        reader = spark.read.format("pbio").schema(frame.schema).option("filter", f"{{ return input.x > {least}; }}")
        return reader.load(f"{folder}/pbio", **options)

    def whole() -> DataFrame:
        return ours(skipBlocks="false")

    def channel(**options: str) -> DataFrame:
        reader = spark.read.format("pbio").schema(frame.schema).option("filter", f"{{ return input.x > {least}; }}")
        return reader.load(space.root, channel="rows", **options)

    def whole_channel() -> DataFrame:
        return channel(skipBlocks="false")

    def theirs() -> DataFrame:
        return spark.read.parquet(f"{folder}/parquet").filter(f"x > {least}D")

    kept = ours().count()
    others = {frame.count() for frame in (whole(), theirs(), channel(), whole_channel())}
    if others != {kept} or not 0.009 < kept / ROWS < 0.011:
        raise ValueError(f"{kept} of {ROWS} rows are left")
    is_ordered = what.endswith("in order")
    frames = {"folder": ours, "channel": channel, "parquet": theirs}
    if is_ordered:
        frames |= {"whole folder": whole, "whole channel": whole_channel}
    times = in_turns({name: scan(load) for name, load in frames.items()}, REPEATS)
    name, goal = f"1 % of {ROWS:,} {what}", 1 if is_ordered else 0.8
    for which, ending in (("folder", ""), ("channel", ", in a channel")):
        yield Row(name + ending, "filtered Parquet", times[which], times["parquet"], ROWS, "rows", goal=goal)
        if which == "channel":
            yield Row(name + ending, "the folder", times[which], times["folder"], ROWS, "rows")
        if is_ordered:
            yield Row(name + ending, "skipBlocks=false", times[which], times[f"whole {which}"], ROWS, "rows")
