"""`make demo`: three generations of a monitor on three kinds of machine, read by Spark as one table.

    python demo/monitor.py

The records are real: samples of the machine that this runs on. They stay in build/demo for a closer look.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_CONF_DIR", str(ROOT / "conf"))

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

import pbio_spark as pbio  # noqa: E402
from demo.sample import take_sample  # noqa: E402
from demo.senders import SENDERS  # noqa: E402

DATA = Path("build/demo")
SAMPLES = 3


def main() -> None:
    """Write, read, show."""
    title("Three generations of a sender write what this machine is doing")
    formats = list(write_files())
    title('spark.read.format("pbio").load("build/demo"): one DataFrame')
    print("Spark starts, which takes some seconds ...", flush=True)
    spark = start_spark()
    rows = spark.read.format("pbio").option("metadataColumn", "_pbio").load(str(DATA))
    show(measurements(rows))
    title("Where each row came from, in the metadata column")
    show(origins(rows))
    title("What each format was: fields with offset, type and size in bytes")
    for made in formats:
        print(f"{made}\n")
    spark.stop()
    print("The files are in build/demo. Look closer: .venv/bin/pbio lineage build/demo, or pbio --help.")


def write_files() -> Iterator[pbio.Format]:
    """Write one file per generation, each with a new sample of the machine; return the format of each."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    made: pbio.Format | None = None
    for sender in SENDERS:
        before, made = made, pbio.Format.of(sender.record, sender.machine)
        if before is not None and sender.back is not None:
            made = pbio.evolve(before, made, sender.back)
        path = DATA / f"monitor-{sender.year}.ffs"
        with pbio.FileWriter(path) as writer:
            for _ in range(SAMPLES):
                writer.data(made, sender.values(take_sample()))
                time.sleep(0.2)
        print(f"{path}  {made.machine} ({sender.machine}): {sender.description}")
        yield made


def start_spark() -> SparkSession:
    """A session whose JVM says what it has to say in build/spark.log instead of between our tables."""
    log, error = os.open("build/spark.log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), os.dup(2)
    os.dup2(log, 2)
    try:
        return SparkSession.builder.appName("pbio demo").getOrCreate()
    finally:
        os.dup2(error, 2)


def measurements(rows: DataFrame) -> DataFrame:
    """What was measured; what a generation did not send is null."""
    return rows.selectExpr(
        "date_format(coalesce(at, timestamp_seconds(seconds)), 'HH:mm:ss.S') AS time",
        "host",
        "round(load, 2) AS load",
        "round(load_15, 2) AS load_15",
        "free_kb div 1024 AS free_mb",
        "total_kb div 1024 AS total_mb",
        "size(busy_seconds) AS cpus",
        # Until 2006 counters are in KiB, since then in bytes.
        "array_join(transform(interfaces, i -> concat(i.name, ' ', "
        "coalesce(i.received, i.received_kb * 1024) div 1000000, ' MB')), ', ') AS received",
    )


def origins(rows: DataFrame) -> DataFrame:
    """The place of each record, its format, and the way it became a row."""
    return rows.selectExpr(
        "regexp_extract(_pbio.file_path, '[^/]*$', 0) AS file", "_pbio.ordinal", "_pbio.offset", "_pbio.length",
        "_pbio.format_id", "_pbio.machine", "_pbio.way",
    )  # fmt: skip


def show(rows: DataFrame) -> None:
    rows.show(truncate=False)


def title(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{plain}\n", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
