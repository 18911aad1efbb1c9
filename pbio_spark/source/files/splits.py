"""The compiled plan of reading files, and splits -> batches, for Spark's reader and `read_arrow`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa

from pbio_spark.columns import BatchLimits, FilePart, ReadPlan, read_batches
from pbio_spark.errors import PbioError
from pbio_spark.paths import opened
from pbio_spark.source.files.changed import check_planned, check_size, check_sums, check_unchanged, look
from pbio_spark.source.files.earlier import EarlierFormats
from pbio_spark.source.files.partitions import partition_value
from pbio_spark.source.files.planning import FileScan, Split
from pbio_spark.source.files.skipping import is_as_planned, kept_parts
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.plan import Coming, QueryPlanner

log = logging.getLogger("pbio_spark.source")

HASHED = 12
"""The length of an ID that is a hash of its body."""

FILE_ERRORS = frozenset(
    {"PBIO_NOT_FFS", "PBIO_BAD_BODY", "PBIO_BAD_LAYOUT", "PBIO_BAD_TYPE_STRING", "PBIO_BAD_OPT_INFO", "PBIO_BAD_ID"}
    | {"PBIO_FORMAT_CONFLICT", "PBIO_CHECKSUM"}
)
"""The errors that `ignoreCorruptFiles` tolerates: not an FFS file, broken formats, wrong checksums."""


def scan_to_plan(scan: FileScan, schema: pa.Schema, *, is_projection: bool) -> ReadPlan:
    """The plan of reading the files of a scan, compiled and checked.

    Args:
        is_projection: the user named the columns.

    Raises what `QueryPlanner.plan` raises.
    """
    planner = QueryPlanner(scan.options, schema, is_projection)
    try:
        return _plan(scan, planner)
    except PbioError as error:
        if error.code != "PBIO_UNFILLED" or scan.is_whole:
            raise
        scan = scan.walked()  # expensive, but it may find a format that fills the column
        return _plan(scan, QueryPlanner(scan.options, schema, is_projection, is_open=not scan.is_whole))


def _plan(scan: FileScan, planner: QueryPlanner) -> ReadPlan:
    folders = [name for name, _ in scan.files[0].partition] if scan.files else []
    size = sum(file.size for file in scan.files)
    counts = scan.counts if scan.is_whole else None
    return planner.plan(Coming(scan.formats, scan.described, size, counts), folders)


def open_split(split: Split) -> AbstractContextManager[BinaryIO]:
    """The file of a split. Raises what `opened` raises."""
    return opened(split.file.path)


def read_splits(
    plan: ReadPlan,
    splits: Sequence[Split],
    options: Options,
    opener: Callable[[Split], AbstractContextManager[BinaryIO]] = open_split,
    *,
    is_stream: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The records of splits, in order, as batches of the plan's schema and of a size that suits Spark.

    Args:
        is_stream: whether `opener` itself sees that a file is the planned one, as a stream's does, and outlines are
            not used.

    Raises what `read_batches` raises; PBIO_PATH_NOT_FOUND for a file that has vanished, PBIO_ROWS_GONE and
    PBIO_FILE_CHANGED for one that is not the planned one any more; PBIO_CHECKSUM; PBIO_UNEXPECTED_NULL.
    """
    began, rows = time.monotonic(), 0
    found = (batch for split in splits for batch in _read_split(plan, split, options, opener, is_stream))
    for batch in gather(found, plan.limits):
        rows += batch.num_rows
        yield batch
    log.info(
        "read %d records, %d bytes, %d files in %d ms",
        rows,
        sum(split.bytes for split in splits),
        len({split.file.path for split in splits}),
        1000 * (time.monotonic() - began),
    )


def _read_split(
    plan: ReadPlan,
    split: Split,
    options: Options,
    opener: Callable[[Split], AbstractContextManager[BinaryIO]],
    is_stream: bool,
) -> Iterator[pa.RecordBatch]:
    path = split.file.path
    values = {name.lower(): value for name, value in split.file.partition}
    partition = tuple(
        partition_value(values[name.lower()], plan.schema.field(name), path)
        for name in plan.selection.partition_columns
    )
    # A split that ends inside its file must end at an item boundary, or records would be lost or repeated.
    within = replace(plan.errors, tail="planned")
    # Formats of other files help to find a route for an unplanned one, if their IDs are hashes.
    formats = tuple(dict.fromkeys((*split.formats, *(form for form in plan.formats if len(form.id) == HASHED))))
    try:
        with opener(split) as source:
            before = look(source)
            if not is_stream:
                check_planned(split, source, before)
            if split.blocks:
                check_size(split, before)  # or a truncated file would be a corrupt one, which may be tolerated
            check_sums(split, source, before)
            parts: Iterable[tuple[int, int, int | None]] = kept_parts(split)
            if split.skips and not is_as_planned(split, source):
                log.warning("%s has changed since its outline was made, or meanwhile: nothing is skipped", path)
                parts = [(split.start, split.end, split.ordinal)]
            has_outline = split.file.has_sidecar and not is_stream
            earlier = EarlierFormats(source, split.file, plan, formats) if has_outline else None
            for start, end, ordinal in parts:
                anchors = tuple(anchor for anchor in split.anchors if start < anchor.offset <= end)
                part = FilePart(path, start, end, ordinal, partition, split.records, anchors)
                errors = plan.errors if end == split.file.size else within
                finder = None if earlier is None else earlier.before(start)
                yield from read_batches(replace(plan, formats=formats, errors=errors), part, source, finder)
            after = look(source)
            check_size(split, after)
            if not is_stream:
                check_unchanged(split, source, before, after)
    except FileNotFoundError:
        if not options.ignore_missing_files:
            raise PbioError(
                "PBIO_PATH_NOT_FOUND",
                "the file has vanished since it was listed",
                file=path,
                hint="read again; write to folders other than those being read",
            ) from None
        log.warning("%s has vanished since it was listed", path)
    except PbioError as error:
        # Damage between records is handled elsewhere; this file is not an FFS file, or a format body is broken.
        is_tolerated = options.ignore_corrupt_files and error.code in FILE_ERRORS
        if not (is_tolerated or (options.ignore_missing_files and error.code == "PBIO_ROWS_GONE")):
            raise
        log.warning("%s", error)


def gather(batches: Iterable[pa.RecordBatch], limits: BatchLimits) -> Iterator[pa.RecordBatch]:
    """Concatenates small batches, which many small files produce. Raises PBIO_UNEXPECTED_NULL."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        _check_nulls(batch)
        if waiting and (rows + batch.num_rows > limits.most_records or size + batch.nbytes > limits.most_bytes):
            yield _concat(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _concat(waiting)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _check_nulls(batch: pa.RecordBatch) -> None:
    """Refuse a null in a column that is NOT NULL in .schema(), which would break the query elsewhere."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise PbioError(
                "PBIO_UNEXPECTED_NULL",
                "the column is NOT NULL in .schema(), but some records have no value for it",
                field=f"$.{field.name}",
                hint="leave NOT NULL out, or give the column a value with the option defaults",
            )
