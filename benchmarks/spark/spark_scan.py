"""A scan in Spark: our files against the same batches ready-made, and against Spark's own formats.

The ready-made batches lie in memory-mapped Arrow files, so that their source does nothing but hand them over: what our
time exceeds theirs by is all that reading PBIO costs. Parquet's reader hands whole columns to Spark, which no source
written in Python can do.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks import Row, side_by_side
from pbio_spark.columns.files.compile import plan_read
from pbio_spark.columns.files.plan import FilePart, Selection
from pbio_spark.columns.files.read import read_batches
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.wire import Scanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

COUNT = 8_000_000
FEW = COUNT // 16
"""How many rows the text formats get, which take so much longer."""
PARTITIONS = 2
KINDS = {
    "5 numbers": ["int(id) a", "id b", "id / 3D c", "float(id) d", "smallint(id % 1000) e"],
    "2 strings": ["concat('name ', id) a", "concat('a longer text for ', id) b"],
    "a list of 10 doubles": ["transform(sequence(1, 10), i -> double(id + i)) a"],
    "an array of 3 structures": [
        "transform(sequence(1, 3), i -> named_struct('n', int(i), 'x', double(id), 'y', id)) a"
    ],
}


class Ready(DataSource):
    """Hands over batches that lie in Arrow files, one for each partition."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def reader(self, schema: StructType) -> ReadyReader:
        return ReadyReader(self.options["path"])


class ReadyReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self.folder).iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file = pa.ipc.open_file(pa.memory_map(partition.value))
        yield from (file.get_batch(i) for i in range(file.num_record_batches))


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    spark = session()
    try:
        spark.dataSource.register(Ready)
        for what, columns in KINDS.items():
            yield from compare(spark, what, columns, folder / what.replace(" ", "-"))
    finally:
        spark.stop()
        shutil.rmtree(folder)


def compare(spark: SparkSession, what: str, columns: list[str], folder: Path) -> Iterator[Row]:
    """Write the same rows in several formats, and read them in turns."""
    ours = written(spark, columns, COUNT, folder / "many")
    files = sorted((folder / "many" / "pbio").glob("part-*"))
    schema = spark.read.format("pbio").load(str(folder / "many" / "pbio")).schema
    save_batches(files, folder / "ready")
    ready = scan(lambda: spark.read.format("ready").schema(schema).load(str(folder / "ready")))
    yield Row(what, "the same batches ready-made", *side_by_side(ours, ready), COUNT, "rows", 0.91)
    parquet = other(spark, columns, COUNT, "parquet", folder / "many")
    yield Row(what, "parquet", *side_by_side(ours, parquet, 3), COUNT, "rows")
    ours = written(spark, columns, FEW, folder / "few")
    for name in ("json", "xml"):
        text = other(spark, columns, FEW, name, folder / "few")
        yield Row(what, name, *side_by_side(ours, text, 3), FEW, "rows")


def written(spark: SparkSession, columns: list[str], count: int, folder: Path) -> Callable[[], object]:
    """Write rows, and return how to read them with as many tasks as wrote them."""
    frame = spark.range(0, count, 1, PARTITIONS).selectExpr(*columns)
    frame.write.format("pbio").mode("append").save(f"{folder}/pbio")
    largest = max(file.stat().st_size for file in (folder / "pbio").glob("part-*"))
    reader = spark.read.format("pbio").schema(frame.schema).option("maxPartitionBytes", largest)
    return scan(lambda: reader.load(f"{folder}/pbio"))


def other(spark: SparkSession, columns: list[str], count: int, name: str, folder: Path) -> Callable[[], object]:
    """The same in one of Spark's own formats."""
    frame = spark.range(0, count, 1, PARTITIONS).selectExpr(*columns)
    options = {"rowTag": "row"} if name == "xml" else {}
    frame.write.format(name).options(**options).save(f"{folder}/{name}")
    reader = spark.read.format(name).options(**options).schema(frame.schema)
    return scan(lambda: reader.load(f"{folder}/{name}"))


def save_batches(files: list[Path], folder: Path) -> None:
    """What our reader makes of our files, as it stands in memory."""
    folder.mkdir()
    for number, file in enumerate(files):
        with file.open("rb") as source:
            scanner = Scanner(source)
            next(scanner.items())
            (form,) = scanner.formats.values()
            plan = plan_read(Selection(record_to_arrow(form.record)))
            with pa.ipc.new_file(f"{folder}/{number}", plan.schema) as target:
                for batch in read_batches(plan, FilePart(str(file)), source):
                    target.write(batch)


def scan(load: Callable[[], DataFrame]) -> Callable[[], object]:
    """Read everything and leave it at that."""
    return lambda: load().write.format("noop").mode("overwrite").save()


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{PARTITIONS}]").config("spark.ui.enabled", "false")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
