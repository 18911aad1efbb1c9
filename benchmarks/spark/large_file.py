"""A large file in Spark: the time to read it, and the memory that a worker needs.

`PBIO_BENCH_GB` says how large. The file has an outline beside it, as `pbio index` makes it, so that every core reads a
part. Memory is the most that any of Spark's Python processes ever had, as Linux counts it; a ratio near 1 says that it
does not grow with the file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from benchmarks import Row, side_by_side
from benchmarks.spark.readings import reading, readings, save
from benchmarks.spark.spark_scan import scan, session
from pbio_spark.formats.layout import record_to_format
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.source.options.options import Options
from pbio_spark.wire.hints.sidecar import write_sidecar

SIZE = int(float(os.environ.get("PBIO_BENCH_GB", "2")) * 1e9)
RECORD = 1000
REPEATED = 8192
"""So many records are different."""


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    small, large = (made(folder / name, size) for name, size in (("quarter.ffs", SIZE // 4), ("whole.ffs", SIZE)))
    spark = session()
    try:
        reader = spark.read.format("pbio")
        quarter, split = (reader.load(str(path)) for path in (small, large))
        scan(lambda: quarter)()
        memory = peak_memory()
        single = spark.read.format("pbio").option("maxPartitionBytes", 2 * SIZE).load(str(large))
        size, count = large.stat().st_size, split.count()
        times = side_by_side(scan(lambda: split), scan(lambda: single), 3)
        yield Row(f"{size / 1e9:.3g} GB, {count:,} records, split", "in one task", *times, size, "B")
        yield Row("memory of a worker", "for a quarter of the file", peak_memory(), memory, unit="memory", goal=0.9)
    finally:
        spark.stop()
        shutil.rmtree(folder)


def made(path: Path, size: int) -> Path:
    """A file of about so many bytes, with its outline."""
    type_ = reading("id", "at", "host", "n", "v")
    save(path, record_to_format(type_), readings(type_, RECORD, REPEATED), max(size // RECORD // REPEATED, 1))
    (file,) = list_files([str(path)], Options())
    with path.open("rb") as source:
        outline, _ = file_to_outline(file, source)
    write_sidecar(LocalFileSystem(), str(path), outline)
    return path


def peak_memory() -> int:
    """The most bytes that any Python process below this one ever had."""
    parents, peaks = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            said = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue  # it has just ended
        parents[int(said["Pid"])] = int(said["PPid"])
        if said["Name"].startswith("python") and "VmHWM" in said:
            peaks[int(said["Pid"])] = 1024 * int(said["VmHWM"].split()[0])

    def is_below(process: int) -> bool:
        parent = parents.get(process, 0)
        return parent == os.getpid() or (parent != 0 and is_below(parent))

    return max(peak for process, peak in peaks.items() if is_below(process))
