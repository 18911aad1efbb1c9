"""Encoding: Arrow to record bytes, against the real FFS library and against copying the bytes.

The library encodes one record again and again into one buffer, so its large records never leave the cache; ours are all
different and are all kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks import Row, side_by_side
from benchmarks.records.ffs_rates import SIZES, encode_seconds, event, sample
from pbio_spark.columns.encode.encoder import Encoder, format_to_encoder
from pbio_spark.formats.arrow.schema import record_to_arrow

BYTES = 48 << 20
BATCH_BYTES = 4 << 20


def rows() -> Iterator[Row]:
    for machine, order in (("le64", "same order"), ("be64", "swapped")):
        for size in SIZES:
            of = sample(size, machine, 1)
            schema = record_to_arrow(of.format.record)
            step, batches = BATCH_BYTES // of.stride, BYTES // BATCH_BYTES
            batch = pa.RecordBatch.from_pylist([event(number, size) for number in range(step)], schema)
            run = encoding(format_to_encoder(of.format, schema), batch, batches)
            ours, copied = side_by_side(run, copying(step * of.stride, batches))
            count = step * batches
            if machine == "le64":
                yield Row(f"{size:,} B, {order}", "C FFS, one record", ours, encode_seconds(size, count), count)
            yield Row(f"{size:,} B, {order}", "copying the bytes", ours, copied, count)


def encoding(encoder: Encoder, batch: pa.RecordBatch, times: int) -> Callable[[], object]:
    """Encode a batch so many times."""

    def run() -> None:
        for _ in range(times):
            encoder.encode(batch)

    return run


def copying(size: int, times: int) -> Callable[[], object]:
    """Copy as many bytes as often into a fresh buffer."""
    source = np.ones(size, np.uint8)

    def run() -> None:
        for _ in range(times):
            np.frombuffer(pa.allocate_buffer(size), np.uint8)[:] = source

    return run
