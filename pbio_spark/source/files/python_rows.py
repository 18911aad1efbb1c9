"""The records of files as rows of Python values; a value that Python cannot represent makes a bad record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from pbio_spark.columns import METADATA_TYPE
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.python_rows import batch_to_rows
from pbio_spark.wire.resync import numbered

log = logging.getLogger("pbio_spark.source")

_PLACE = "pbio place"


def batches_to_rows(read: Callable[..., pa.RecordBatchReader], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of files.

    Args:
        read: reads the files, with `options` and more options as arguments.
        options: as in `tables.read_batches`; `mode` decides about rows that Python cannot represent.

    Raises PBIO_BAD_VALUE under FAILFAST, with the file and the record; what `read` raises.
    """
    given = {name.lower(): value for name, value in options.items() if value is not None}
    mode, corrupt = (
        str(given.get("mode", "FAILFAST")).upper(),
        given.get("columnnameofcorruptrecord", "_corrupt_record"),
    )
    dropped: list[PbioError] = []
    count = 0
    for batch in read():
        for row, number in zip(batch_to_rows(batch), range(batch.num_rows), strict=True):
            if not isinstance(row, PbioError):
                yield row
            elif mode == "PERMISSIVE":
                yield _permitted(batch.slice(number, 1), row, corrupt)
            elif mode == "DROPMALFORMED":
                dropped.append(row)
            else:
                row.hint = "read_arrow keeps it, in a column; mode='DROPMALFORMED' leaves the record out"
                raise _placed(row, count + number, read, given)
        count += batch.num_rows
    if dropped:
        first = f"{dropped[0].reason} (field {dropped[0].field})"
        log.warning("%s dropped, of which Python cannot hold a value: %s", numbered(len(dropped), "record"), first)


def _permitted(batch: pa.RecordBatch, error: PbioError, corrupt: str) -> dict[str, Any]:
    """A row with nulls for values that Python cannot represent, and the reason in the corrupt-record column."""
    row: dict[str, Any] = {}
    for name in batch.schema.names:
        (value,) = batch_to_rows(batch.select([name]))
        row[name] = None if isinstance(value, PbioError) else value[name]
    if corrupt in row and pa.types.is_struct(type_ := batch.schema.field(corrupt).type):
        row[corrupt] = {part.name: str(error) if part.name == "reason" else None for part in type_}
    return row


def _placed(
    error: PbioError, number: int, read: Callable[..., pa.RecordBatchReader], options: Mapping[str, Any]
) -> PbioError:
    """The error with the place of its record in the files, which is found by reading them again."""
    name = options.get("metadatacolumn", _PLACE)
    more: dict[str, Any] = {} if "metadatacolumn" in options else {"metadataColumn": name}
    schema = options.get("schema")
    if schema is None:
        more["columns"] = [name]
    elif name not in schema.names:
        more["schema"] = schema.append(pa.field(name, METADATA_TYPE))
    with suppress(PbioError):
        for batch in read(**more):
            if number < batch.num_rows:
                place = batch.column(name)[number].as_py()
                return error.at(file=place.get("file_path"), record=place.get("ordinal"))
            number -= batch.num_rows
    return error
