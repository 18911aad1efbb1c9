"""Evolution in Spark: records of a newer format read as an older type, beside the same rows as JSON and XML."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import Row, side_by_side
from benchmarks.programs.morph import NEW, OLD, SIZES, TO_OLD
from benchmarks.spark.readings import readings, save
from benchmarks.spark.spark_scan import PARTITIONS, scan, session
from pbio_spark.formats import Format
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import record_to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT_BYTES = {"json": 64 << 20, "xml": 4 << 20}
"""How much of our records the text formats get, XML less because it takes so long."""


def rows() -> Iterator[Row]:
    old = record_to_format(OLD)
    new = evolve(old, record_to_format(NEW), TO_OLD)
    folder = Path(tempfile.mkdtemp())
    spark = session()
    try:
        for size in SIZES[::2]:
            yield from text_formats(spark, (old, new), size, folder / str(size))
    finally:
        spark.stop()
        shutil.rmtree(folder)


def text_formats(spark: SparkSession, formats: tuple[Format, Format], size: int, folder: Path) -> Iterator[Row]:
    """The same rows in Spark, from our files with evolution and from text."""
    old, new = formats
    reader = spark.read.format("pbio").option("readerFormat", record_to_json(OLD))
    for name, amount in TEXT_BYTES.items():
        count, ours, theirs = amount // size, folder / f"{name}-pbio", folder / name
        ours.mkdir(parents=True)
        for part in range(PARTITIONS):
            save(ours / str(part), new, readings(NEW, size, count // PARTITIONS), describe=(old,))
        options = {"rowTag": "row"} if name == "xml" else {}
        records = reader.load(str(ours))
        records.write.format(name).options(**options).save(str(theirs))
        text = spark.read.format(name).options(**options).schema(records.schema).load(str(theirs))
        times = side_by_side(read_all(records), read_all(text), 3)
        yield Row(f"{size:,} B, in Spark", name, *times, count)


def read_all(frame: DataFrame) -> Callable[[], object]:
    return scan(lambda: frame)
