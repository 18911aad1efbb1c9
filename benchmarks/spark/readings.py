"""Records that the benchmarks of evolution and of large files read, as batches and as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from ecode.types import FLOAT64, INT32, STRING, Array, Field, Record, record
from pbio_spark.columns.encode.encoder import format_to_encoder
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.wire import FileWriter

FIXED = 72
"""Bytes of an encoded reading apart from its array."""


def reading(id_: str, at: str, host: str, n: str, v: str) -> Record:
    """A reading whose fields have these names."""
    fields = [
        Field(id_, INT32),
        Field(at, FLOAT64),
        Field(host, STRING),
        Field(n, INT32),
        Field(v, Array(FLOAT64, (n,))),
    ]
    return record("reading", fields)


def readings(of: Record, size: int, count: int) -> pa.RecordBatch:
    """Readings of about `size` bytes each, all different."""
    n = (size - FIXED) // 8
    offsets = np.arange(0, n * count + 1, n, dtype=np.int32)
    values = pa.array(np.arange(n * count) % 1000 / 4)
    schema = record_to_arrow(of)
    arrays = [
        pa.array(np.arange(count, dtype=np.int32)),
        pa.array(np.arange(count) / 8),
        pa.array([f"host {i % 1000:03}" for i in range(count)]),
        pa.array(np.full(count, n, np.int32)),
        pa.Array.from_buffers(schema.types[4], count, [None, pa.py_buffer(offsets)], children=[values]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def save(path: Path, form: Format, batch: pa.RecordBatch, times: int = 1, describe: tuple[Format, ...] = ()) -> None:
    """Write a file of the batch's records, all of them again and again; it describes other formats too."""
    with FileWriter(path) as writer:
        for each in (*describe, form):
            writer.describe(each)
    encoded = format_to_encoder(form, batch.schema, wrap=True).encode(batch).buffer
    with path.open("ab") as file:
        for _ in range(times):
            file.write(encoded)
