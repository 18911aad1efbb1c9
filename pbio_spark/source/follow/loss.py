"""Rows that are gone before a stream has read them."""

from __future__ import annotations

import logging

from pbio_spark.errors import PbioError
from pbio_spark.source.follow.progress import FileProgress
from pbio_spark.source.options.options import Options

log = logging.getLogger("pbio_spark.source")


def refuse_loss(file: FileProgress, options: Options) -> None:
    """Raise PBIO_ROWS_GONE for lost unread rows, or log them if the options tolerate that.

    Lost are the rows of the batch that reads the file, or otherwise those after the read part.
    """
    rows = f"rows from record {file.to.ordinal} on"
    if file.start is not None:
        count = file.to.ordinal - file.start.ordinal
        rows = f"{count} rows, records {file.start.ordinal} to {file.to.ordinal - 1}," if count else "rows"
    error = PbioError(
        "PBIO_ROWS_GONE",
        f"{rows} had not been read yet: the file was removed, truncated or overwritten, and no other file has them",
        file=file.path or None,
        hint="put the file back, under any name; or continue without these rows, with ignoreMissingFiles=true",
    )
    if not options.ignore_missing_files:
        raise error
    log.warning("%s", error)
