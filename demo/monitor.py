"""`make demo`: three generations of a monitor on three kinds of machine, read by Spark as one table.

    python demo/monitor.py

The records are real: samples of the machine that this runs on. They stay in build/demo for a closer look.
"""

from __future__ import annotations

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
from pyspark.sql import functions as F  # noqa: E402, N812

from demo.sample import take_sample  # noqa: E402
from demo.senders import SENDERS  # noqa: E402
from pbio_spark.formats import Format  # noqa: E402
from pbio_spark.formats.layout import record_to_format  # noqa: E402
from pbio_spark.wire import FileWriter  # noqa: E402

DATA = Path("build/demo")
SAMPLES = 3


def main() -> None:
    """Write, read, show."""
    title("Three generations of a sender write what this machine is doing")
    formats = list(write_files())
    title('spark.read.format("pbio").load("build/demo"): one DataFrame')
    spark = SparkSession.builder.appName("pbio demo").getOrCreate()
    rows = spark.read.format("pbio").option("metadataColumn", "_pbio").load(str(DATA)).cache()
    show(measurements(rows))
    title("Where each row came from, in the metadata column")
    show(origins(rows))
    title("What each format was: fields with offset, type and size in bytes")
    for made in formats:
        print(f"{made}\n")
    spark.stop()
    print("The files are in build/demo. Look closer with .venv/bin/pbio cat build/demo, or pbio --help.")


def write_files() -> Iterator[Format]:
    """Write one file per generation, each sampling the machine anew; the format of each."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    for sender in SENDERS:
        made = record_to_format(sender.record, sender.machine)
        path = DATA / f"monitor-{sender.year}.ffs"
        with FileWriter(path) as writer:
            for _ in range(SAMPLES):
                writer.data(made, sender.values(take_sample()))
                time.sleep(0.2)
        print(f"{path}  {made.machine} ({sender.machine}): {sender.description}")
        yield made


def measurements(rows: DataFrame) -> DataFrame:
    """What was measured; what a generation did not send is null."""
    busiest = F.expr("max_by(i, i.received) FROM (SELECT explode(interfaces) i)")
    return rows.select("seconds", "at", "host", "load", "load_15", "free_kb", "total_kb", "busy_seconds", busiest)


def origins(rows: DataFrame) -> DataFrame:
    return rows.select("_pbio.*")


def show(rows: DataFrame) -> None:
    rows.show(truncate=False)


def title(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{plain}\n", flush=True)


if __name__ == "__main__":
    main()
