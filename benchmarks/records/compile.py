"""Compiling: cold against from the cache on disk, what a fresh executor waits for, wide formats and many."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from benchmarks import Row, clock
from ecode.native import compile as compiler
from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, Record, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.columns.decode.converter import Converter
from pbio_spark.columns.files.compile import compile_converter, plan_read
from pbio_spark.columns.files.plan import Selection
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.source.files.planning import plan_partitions, scan_files
from pbio_spark.source.files.splits import read_splits, scan_to_plan
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter

FRESH = """
import pickle, sys, time
import numpy, pyarrow, pbio_spark.columns.decode.converter, llvmlite.binding
shipped = sys.stdin.buffer.read()
start = time.perf_counter()
converter, record, header = pickle.loads(shipped)
memory = numpy.frombuffer(record, numpy.uint8)
address = memory.__array_interface__["data"][0]
starts, ends = (numpy.array([address + at], numpy.int64) for at in (header, len(record)))
converter.decoder().decode(starts, ends)
print(time.perf_counter() - start, "numba" in sys.modules)
"""


GOALS = {80: 1.0, 200: 2.5}
"""Seconds to compile so many fields."""


def wide(fields: int) -> Record:
    """A record type of integers, doubles, strings and arrays in turn."""
    types = (INT32, FLOAT64, STRING, INT64, Array(FLOAT64, ("n",)))
    return record("wide", [Field("n", INT32), *(Field(f"f{i}", types[i % 5]) for i in range(1, fields))])


def rows() -> Iterator[Row]:
    with empty_cache():
        convert(3, True)  # what numba itself has to warm up is not the converter's
        for fused in (True, False):
            for fields in (5, 20, 80, 200):
                cold, warm = (convert(fields, fused) for _ in range(2))
                name = f"{fields} fields, {'fused' if fused else 'ready-made'}"
                yield Row(name, "cold", warm, cold)
                if fused and fields in GOALS:
                    yield Row(f"{name}, cold", "the goal", cold, GOALS[fields], goal=1)
        for fields in (5, 20, 80):
            yield Row(f"{fields} fields, first batch of a fresh process", "", fresh(fields), None)
        first_event(3)
        yield Row("1,000 fields, first event of a channel", "the goal", first_event(1_000), 1, goal=1)
        yield Row("4,096 formats in a file, one task", "the goal", many_formats(4_096), 1, goal=1)


@contextmanager
def empty_cache() -> Iterator[None]:
    """The cache of kernels is an empty folder meanwhile."""
    before = os.environ.get("ECODE_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ECODE_CACHE_DIR"] = folder
        yield
    if before is None:
        del os.environ["ECODE_CACHE_DIR"]
    else:
        os.environ["ECODE_CACHE_DIR"] = before


def converter_of(fields: int, fused: bool) -> Converter:
    form = record_to_format(wide(fields), "be64")
    return compile_converter(plan_read(Selection(record_to_arrow(form.record))), form, fused=fused)


def convert(fields: int, fused: bool) -> float:
    """Seconds to make a converter, with nothing remembered but what is on disk."""
    forget()
    start = clock()
    converter_of(fields, fused)
    return clock() - start


def forget() -> None:
    compiler._compiled.clear()
    compiler._shared.clear()


def first_event(fields: int) -> float:
    """Seconds until the first event is in a new channel, with nothing compiled."""
    type_ = wide(fields)
    event = {f.name: "" if f.type == STRING else [] if isinstance(f.type, Array) else 0 for f in type_.fields}
    with tempfile.TemporaryDirectory() as root, empty_cache():
        channel = ChannelSpace.create(f"{root}/space").create_channel("events", type_)
        forget()
        start = clock()
        channel.submit(event)
        return clock() - start


def many_formats(count: int) -> float:
    """Seconds from the plan of a file, as the driver sends it, to its batches; each format has one record."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/many.ffs"
        with open(path, "wb") as file, FileWriter(file) as writer:
            for number in range(count):
                fields = [Field("n", INT64), Field("x", FLOAT64), Field("s", STRING), Field(f"own{number}", INT32)]
                form = record_to_format(record("reading", fields))
                writer.data(form, {"n": number, "x": 0.5, "s": "some", f"own{number}": 1})
        options = Options()
        schema = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
        scan = scan_files([path], options, all_formats=False)
        plan = scan_to_plan(scan, schema, is_projection=True)
        splits = [split for some in plan_partitions(scan.files, scan.outlines, options, plan) for split in some]
        sent = pickle.dumps((plan, splits))
        start = clock()
        plan, splits = pickle.loads(sent)  # noqa: S301 - our own
        rows = sum(batch.num_rows for batch in read_splits(plan, splits, options))
        seconds = clock() - start
    assert rows == count
    return seconds


def fresh(fields: int) -> float:
    """Seconds from a shipped converter to its first batch, in a process that has imported everything."""
    from pbio_spark.wire import encode

    form = record_to_format(wide(fields), "be64")
    values = dict.fromkeys((f.name for f in form.record.fields), 0) | {
        f.name: None for f in form.record.fields if f.type == STRING or isinstance(f.type, Array)
    }
    record_bytes = encode(form, values)
    shipped = pickle.dumps((converter_of(fields, True), record_bytes, form.header_size))
    done = subprocess.run([sys.executable, "-c", FRESH], input=shipped, capture_output=True, check=True)
    seconds, has_numba = done.stdout.decode().split()
    if has_numba != "False":
        raise ValueError("the fresh process imported numba")
    return float(seconds)
