"""Writing from Spark, and reading: our folders and channels beside a writer that does nothing, and Spark's formats.

The writer that does nothing gets its batches as ours does and throws them away, so that what our time exceeds its by is
all that writing PBIO costs. The writer of zeros also throws them away, and writes as many bytes as our files have: no
writer of such files can be faster. Avro's jar is asked of Maven by its name; without it its lines are left out. The
session has `spark.sql.execution.arrow.maxBytesPerBatch` at its greatest (docs/spark/performance.md), except in the
table's last line. `PBIO_BENCH_ROWS` says how many rows there are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from benchmarks import Row, in_turns
from benchmarks.spark.spark_scan import KINDS, PARTITIONS, Ready, save_batches, scan, session
from pbio_spark.channels import ChannelSpace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

COUNT = int(os.environ.get("PBIO_BENCH_ROWS", 1_500_000))
REPEATS = 2
AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"


class Null(DataSource):
    """Throws away what it is given; with `zeros`, writes so many for each row to a file in the folder."""

    @classmethod
    def name(cls) -> str:
        return "null"

    def writer(self, schema: StructType, overwrite: bool) -> NullWriter:
        return NullWriter(self.options["path"], int(self.options.get("zeros", "0")))


class NullWriter(DataSourceArrowWriter):
    def __init__(self, folder: str, zeros: int) -> None:
        self.folder, self.zeros = folder, zeros

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self.zeros:
            for _ in iterator:
                pass
            return WriterCommitMessage()
        zeros = memoryview(b"")
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            for batch in iterator:
                size = batch.num_rows * self.zeros
                if len(zeros) < size:
                    zeros = memoryview(bytes(size))
                file.write(zeros[:size])
        return WriterCommitMessage()


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    jar = avro(folder)
    if jar is not None:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jar} pyspark-shell"
    others = ["parquet", "orc", *(["avro"] if jar is not None else [])]
    spark = session()
    try:
        spark.dataSource.register(Null)
        spark.dataSource.register(Ready)
        spark.conf.set(LIMIT, 2**31 - 1)
        for what, columns in KINDS.items():
            place = folder / what.replace(" ", "-")
            frame = spark.range(0, COUNT, 1, PARTITIONS).selectExpr(*columns)
            yield from written(frame, what, others, place)
            yield from read(spark, what, others, place)
            shutil.rmtree(place)
        yield from limited(spark, folder)
    finally:
        spark.stop()
        shutil.rmtree(folder)


def avro(folder: Path) -> Path | None:
    """The jar of Spark's Avro source; None where Maven cannot be had, or has none."""
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={AVRO}", f"-DoutputDirectory={folder}"]
    if shutil.which("mvn") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return next(folder.glob("*.jar"), None)


def written(frame: DataFrame, what: str, others: Sequence[str], folder: Path) -> Iterator[Row]:
    space = ChannelSpace.create(f"{folder}/space")
    space.create_channel("rows", frame.schema)
    into_channel = frame.write.format("pbio").mode("append").option("channel", "rows")

    def into_folder(name: str) -> Callable[[], object]:
        return lambda: frame.write.format(name).mode("overwrite").save(f"{folder}/{name}")

    def channel() -> None:
        into_channel.save(space.root)
        shutil.rmtree(f"{space.root}/data")  # a disk full of what nobody reads slows down the others

    into_folder("pbio")()
    width = sum(file.stat().st_size for file in (folder / "pbio").glob("part-*")) // COUNT

    def zeros() -> None:
        shutil.rmtree(folder / "zeros", ignore_errors=True)
        (folder / "zeros").mkdir()
        frame.write.format("null").mode("append").option("zeros", width).save(f"{folder}/zeros")

    names = ("null", *others)
    times = in_turns(
        {"folder": into_folder("pbio"), "channel": channel, "zeros": zeros, **{one: into_folder(one) for one in names}},
        REPEATS,
        is_written=True,
    )
    described = {"null": "a writer that does nothing", "zeros": f"a writer of zeros, {width} B a row"}
    for ours in ("folder", "channel"):
        for other in ("null", "zeros", *others):
            goal = 0.9 if other == "null" else None
            against = described.get(other, other)
            yield Row(f"{what}, into a {ours}", against, times[ours], times[other], COUNT, "rows", goal)


def read(spark: SparkSession, what: str, others: Sequence[str], folder: Path) -> Iterator[Row]:
    """Reads of what `written` wrote, with as many tasks as wrote it."""
    files = sorted((folder / "pbio").glob("part-*"))
    save_batches(files, folder / "ready")
    largest = max(file.stat().st_size for file in files)
    schema = spark.read.format("pbio").load(f"{folder}/pbio").schema
    reader = spark.read.format("pbio").schema(schema).option("maxPartitionBytes", largest)

    def of(name: str) -> Callable[[], object]:
        path = f"{folder}/{name}"
        its = spark.read.format(name).load(path).schema  # Avro has no small numbers
        return scan(lambda: spark.read.format(name).schema(its).load(path))

    ready = scan(lambda: spark.read.format("ready").schema(schema).load(f"{folder}/ready"))
    ours = scan(lambda: reader.load(f"{folder}/pbio"))
    times = in_turns({"pbio": ours, "ready": ready, **{name: of(name) for name in others}}, REPEATS)
    for other in ("ready", *others):
        goal, against = (0.95, "ready-made batches") if other == "ready" else (None, other)
        yield Row(f"{what}, read", against, times["pbio"], times[other], COUNT, "rows", goal)


def limited(spark: SparkSession, folder: Path) -> Iterator[Row]:
    """The same writes with and without Spark's limit of bytes."""
    spark.conf.unset(LIMIT)
    default = str(spark.conf.get(LIMIT))
    what, columns = next(iter(KINDS.items()))
    frame = spark.range(0, COUNT, 1, PARTITIONS).selectExpr(*columns)

    def write(limit: str) -> Callable[[], object]:
        def run() -> None:
            spark.conf.set(LIMIT, limit)
            frame.write.format("pbio").mode("overwrite").save(f"{folder}/limited")

        return run

    times = in_turns({"without": write(str(2**31 - 1)), "with": write(default)}, REPEATS, is_written=True)
    against = f"with Spark's own limit, {default}"
    yield Row(f"{what}, batches not limited in bytes", against, times["without"], times["with"], COUNT, "rows")
