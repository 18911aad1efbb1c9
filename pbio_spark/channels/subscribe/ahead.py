"""Many small groups of events -> batches, read together wherever they are.

A file is opened for each group that is not near the previous one, several at once if that takes a request. The bytes
are concatenated as if they were one file. If something is wrong or has moved, the groups are read one by one instead,
which finds out what and where it is.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pbio_spark.channels.commits.checked import PUT_BACK
from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.subscribe.reading import Piece, Stretch, read_stretch
from pbio_spark.columns import ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.wire import MAGIC

MOST_BYTES = 1 << 20
"""The most to read together: all of it is in memory before the first event is delivered."""

MOST_PIECES = 2048
NEAR = 16 << 10
"""The most bytes between two groups that are read rather than skipped."""

_READERS = 16


def read_together(
    folder: Folder, plan: ReadPlan, pieces: Sequence[Piece], names: Mapping[int, str]
) -> list[tuple[pa.RecordBatch, Int64s]] | None:
    """The events of some groups, all of one format, in their order.

    Args:
        plan: with a metadata column that has `run`.
        names: of the channels.

    Returns:
        Batches, and for each row the number of its piece. None if the groups must be read one by one.
    """
    parts = _parts(pieces)
    try:
        if folder.is_local:
            data = [_read(folder, part) for part in parts]
        else:
            with ThreadPoolExecutor(_READERS) as pool:
                data = list(pool.map(lambda part: _read(folder, part), parts))
        # Leave out what is between the groups: format items, for instance, would end each batch.
        events, moved, size = [MAGIC], [], len(MAGIC)
        for part, part_data in zip(parts, data, strict=True):
            for piece in part:
                start = piece.start - part[0].start
                events.append(part_data[start : start + piece.end - piece.start])
                moved.append(replace(piece, path="", shift=size - piece.place.start))
                size += piece.end - piece.start
        stretch = Stretch.of(moved, names)
        return [_split(batch) for batch in read_stretch(plan, stretch, io.BytesIO(b"".join(events)), "")]
    except (PbioError, FileNotFoundError):
        return None


def _parts(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces grouped with their neighbours in the file."""
    parts: list[list[Piece]] = []
    for piece in pieces:
        last = parts[-1][-1] if parts else None
        if last is not None and last.path == piece.path and 0 <= piece.start - last.end <= NEAR:
            parts[-1].append(piece)
        else:
            parts.append([piece])
    return parts


def _read(folder: Folder, part: Sequence[Piece]) -> bytes:
    start, end = part[0].start, part[-1].end
    data = folder.read_part(part[0].path, start, end - start)
    if len(data) != end - start:
        where = folder.path(part[0].path)
        raise PbioError("PBIO_BAD_LOG", "the file ends before its events", file=where, hint=PUT_BACK)
    return data


def _split(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    runs: Int64s = batch.column(batch.num_columns - 1).field(1).to_numpy(zero_copy_only=False)
    return batch, runs.astype(np.int64, copy=False)
