"""Decoding: record bytes to Arrow, against the real FFS library and against copying the bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import Row, clock, side_by_side
from benchmarks.records.ffs_rates import SIZES, Sample, decode_seconds, read_seconds, sample
from pbio_spark.columns.decode.converter import Converter
from pbio_spark.columns.files.compile import compile_converter, plan_read, with_converters
from pbio_spark.columns.files.plan import BatchLimits, FilePart, Selection
from pbio_spark.columns.files.read import read_batches
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.wire import FileWriter

LIMITS = BatchLimits()
"""How many records a reader takes at once."""
BYTES = 48 << 20


def rows() -> Iterator[Row]:
    for machine, order in (("le64", "same order"), ("be64", "swapped")):
        for size in SIZES:
            count = max(BYTES // size, 64)
            of = sample(size, machine, count)
            decode, copy = decoding(of), copying(of)
            decode()
            ours, copied = side_by_side(decode, copy)
            what = f"{size:,} B, {order}"
            theirs = decode_seconds(of)
            # Where the C library runs at the speed of memory, what counts is how far we are from that speed.
            goal = 2.0 if size <= (100 if order == "same order" else 1000) else None
            yield Row(what, "C FFS", ours, theirs, count, goal=goal)
            yield Row(what, "copying the bytes", ours, copied, count, goal=0.8 if goal is None else None)
    with tempfile.TemporaryDirectory() as folder:
        count = 400_000
        path = Path(folder) / "events.ffs"
        of = sample(100, "le64", count)
        with FileWriter(path) as writer:
            for number in range(count):
                writer.data(of.format, of.record(number))
        yield Row("file of 100 B records", "C FFS", best(reading(path, of)), read_seconds(path, count), count, goal=20)


def best(run: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest run, after one that does not count."""
    run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def decoding(of: Sample) -> Callable[[], object]:
    """Decode all records of a sample in batches."""
    plan = plan_read(Selection(record_to_arrow(of.format.record)))
    converter = compile_converter(plan, of.format, fused=True)
    assert isinstance(converter, Converter)
    decoder = converter.decoder()
    memory = np.frombuffer(of.data, np.uint8)
    items = memory.__array_interface__["data"][0] + of.stride * np.arange(of.count, dtype=np.int64)
    starts, ends = items + of.format.header_size, items + of.stride
    step = min(LIMITS.most_records, max(LIMITS.most_bytes // of.stride, 1))

    def run() -> None:
        for first in range(0, of.count, step):
            decoded = decoder.decode(starts[first : first + step], ends[first : first + step])
            if decoded.status.any():
                raise ValueError("a record of the sample is bad")

    return run


def copying(of: Sample) -> Callable[[], object]:
    """Copy the same bytes into fresh buffers of the same size as the batches."""
    memory = np.frombuffer(of.data, np.uint8)
    step = min(LIMITS.most_records, max(LIMITS.most_bytes // of.stride, 1)) * of.stride

    def run() -> None:
        for first in range(0, len(memory), step):
            memory[first : first + step].copy()

    return run


def reading(path: Path, of: Sample) -> Callable[[], object]:
    """Read a file of sample records, from opening it to the last batch."""
    plan = with_converters(plan_read(Selection(record_to_arrow(of.format.record))), [of.format], fused=True)

    def run() -> None:
        with open(path, "rb", buffering=0) as file:
            found = sum(batch.num_rows for batch in read_batches(plan, FilePart(path.name), file))
        if found != of.count:
            raise ValueError(f"{found} of {of.count} records")

    return run
