"""Files -> record batches of one schema: shared by Spark's reader, the command line and channels.

    >>> from pbio_spark.columns import FilePart, Selection, plan_read, read_batches
    >>> plan = plan_read(Selection(pa.schema([("n", pa.int32())])))
    >>> with open("some.ffs", "rb") as file:  # doctest: +SKIP
    ...     for batch in read_batches(plan, FilePart("some.ffs"), file):
    ...         print(batch.num_rows)

Rows are in the order of the file, whatever formats its records have. A record is either read completely or is a bad
record, which `mode` handles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from pbio_spark.columns.files.batches import BatchMaker
from pbio_spark.columns.files.chunks import Chunker, Resumption
from pbio_spark.columns.files.plan import FilePart, ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FormatFinder


def read_batches(
    plan: ReadPlan, part: FilePart, source: BinaryIO, finder: FormatFinder | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a part of a file as batches of `plan.schema`.

    Args:
        finder: asked for formats that neither the plan nor the part has; by default, the plan's store.

    Raises:
        PbioError: the errors of the file or, under FAILFAST, of its first bad record; PBIO_SEVERAL_FORMATS for an
            unexpected name if none were requested; PBIO_ROWS_GONE if there are fewer or more records than planned.
    """
    resumption = Resumption(part.anchors, plan.errors.resync)
    store = plan.store if finder is None else finder
    chunker = Chunker(source, part.name, plan.formats, store, plan.limits, plan.walk, resumption)
    maker = BatchMaker(plan, part, chunker.formats)
    records = 0
    for chunk in chunker.chunks(part.start, part.end, part.ordinal, joins=True):
        records += len(chunk.positions) - (chunk.error is not None)
        for batch in maker.chunk_to_batches(chunk):
            if batch.num_rows:
                yield batch
    if part.records not in (None, records):
        raise PbioError(
            "PBIO_ROWS_GONE",
            f"planning counted {part.records} records here, but now there are {records}: the file was truncated "
            "or overwritten meanwhile",
            file=part.name,
            offset=part.start,
            hint="start the query again",
        )
    maker.log_omissions()
