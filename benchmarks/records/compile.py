"""Compiling converters: cold against from the cache on disk, and what a fresh executor waits for."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks import Row, clock
from ecode.native import compile as compiler
from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, Record, record
from pbio_spark.columns.decode.converter import Converter
from pbio_spark.columns.files.compile import compile_converter, plan_read
from pbio_spark.columns.files.plan import Selection
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.layout import record_to_format

FRESH = """
import pickle, sys, time
import numpy, pyarrow, pbio_spark.columns.decode.converter as columns, llvmlite.binding
shipped = sys.stdin.buffer.read()
start = time.perf_counter()
converter, record, header = pickle.loads(shipped)
memory = numpy.frombuffer(record, numpy.uint8)
address = memory.__array_interface__["data"][0]
starts, ends = (numpy.array([address + at], numpy.int64) for at in (header, len(record)))
columns.Decoder(converter).decode(starts, ends)
print(time.perf_counter() - start, "numba" in sys.modules)
"""


def wide(fields: int) -> Record:
    """A record type of integers, doubles, strings and arrays in turn."""
    types = (INT32, FLOAT64, STRING, INT64, Array(FLOAT64, ("n",)))
    return record("wide", [Field("n", INT32), *(Field(f"f{i}", types[i % 5]) for i in range(1, fields))])


def rows() -> Iterator[Row]:
    cache = os.environ.get("ECODE_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ECODE_CACHE_DIR"] = folder
        convert(3, True)  # what numba itself has to warm up is not the converter's
        for fused in (True, False):
            for fields in (5, 20, 80, 200):
                cold, warm = (convert(fields, fused) for _ in range(2))
                yield Row(f"{fields} fields, {'fused' if fused else 'ready-made'}", "cold", warm, cold)
        for fields in (5, 20, 80):
            yield Row(f"{fields} fields, first batch of a fresh process", "", fresh(fields), None)
    if cache is None:
        del os.environ["ECODE_CACHE_DIR"]
    else:
        os.environ["ECODE_CACHE_DIR"] = cache


def converter_of(fields: int, fused: bool) -> Converter:
    form = record_to_format(wide(fields), "be64")
    return compile_converter(plan_read(Selection(record_to_arrow(form.record))), form, fused=fused)


def convert(fields: int, fused: bool) -> float:
    """Seconds to make a converter, with nothing remembered but what is on disk."""
    compiler._compiled.clear()
    start = clock()
    converter_of(fields, fused)
    return clock() - start


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
