"""The files that `pbio convert` writes columns to: Parquet, CSV, JSON lines, Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    import pyarrow as pa


class FileKind(StrEnum):
    """The kinds of files that records can be converted to."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"
    PBIO = "pbio"


SUFFIXES = {
    ".parquet": FileKind.PARQUET,
    ".csv": FileKind.CSV,
    ".jsonl": FileKind.JSONL,
    ".ndjson": FileKind.JSONL,
    ".json": FileKind.JSONL,
    ".arrow": FileKind.ARROW,
    ".feather": FileKind.ARROW,
    ".ffs": FileKind.PBIO,
    ".pbio": FileKind.PBIO,
}


class TableWriter(Protocol):
    """Takes batches of one schema."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...


def target_of(path: str, said: FileKind | None) -> FileKind:
    """The kind of file at a path. Raises PBIO_BAD_OPTION if neither its suffix nor `--to` says it."""
    suffix = PurePath(path).suffix.lower()
    found = said or SUFFIXES.get(suffix)
    if found is None:
        reason = f"unknown suffix {suffix!r}" if suffix else "the output has no suffix"
        hint = did_you_mean(suffix, SUFFIXES) or f"end its name in {', '.join(SUFFIXES)}, or give --to"
        raise PbioError("PBIO_BAD_OPTION", reason, file=path, hint=hint)
    return found


@contextmanager
def table_writer(path: str, target: FileKind, schema: pa.Schema) -> Iterator[TableWriter]:
    """A writer of columns to a new file. Raises PBIO_UNSUPPORTED_TYPE for columns that such a file cannot hold."""
    import pyarrow as pa

    if not schema.names and target in (FileKind.PARQUET, FileKind.CSV):
        reason = f"the records have no fields, and a file of type {target} holds no rows without columns"
        hint = "write Arrow or JSON lines"
        raise PbioError("PBIO_UNSUPPORTED_TYPE", reason, file=path.removesuffix(".partial"), hint=hint)
    if target is FileKind.PARQUET:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(path, schema) as parquet:
            yield parquet
    elif target is FileKind.ARROW:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as arrow:
            yield arrow
    elif target is FileKind.CSV:
        import pyarrow.csv as pc

        nested = next((field for field in schema if pa.types.is_nested(field.type)), None)
        if nested is not None:
            raise PbioError(
                "PBIO_UNSUPPORTED_TYPE",
                f"a CSV file cannot hold the column {nested.name}, which is of type {nested.type}",
                file=path.removesuffix(".partial"),
                hint="write Parquet, Arrow or JSON lines",
            )
        with pc.CSVWriter(path, _for_csv(schema)) as csv:
            yield _Csv(csv, _for_csv(schema))
    else:
        with open(path, "w", encoding="utf-8") as lines:
            yield _Lines(lines)


def _for_csv(schema: pa.Schema) -> pa.Schema:
    """The schema with strings for bytes, which pyarrow does not write."""
    import pyarrow as pa

    text = [pa.field(f.name, pa.string()) if pa.types.is_binary(f.type) else f for f in schema]
    return pa.schema(text)


class _Csv:
    def __init__(self, writer: Any, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema

    def write_batch(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        from pbio_spark.formats.arrow.python_rows import check_years

        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            check_years(column, name)
        columns = [
            pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())
            if pa.types.is_binary(column.type)
            else column
            for column in batch.columns
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


class _Lines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write_batch(self, batch: pa.RecordBatch) -> None:
        from pbio_spark.formats.arrow.python_rows import batch_to_rows, time_to_text

        for number, row in enumerate(batch_to_rows(batch, time_to_text, maps_as_dicts=True)):
            if isinstance(row, PbioError):
                raise row.at(record=f"row {number} of its batch")  # a key twice in a map
            self._file.write(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Values that JSON lacks: NaN and the infinities, times in ISO 8601, decimals as strings, bytes in hexadecimal.

    >>> _plain({"a": float("nan"), "b": b"\\x01", "c": Decimal("1.50")})
    {'a': 'NaN', 'b': '01', 'c': '1.50'}
    """
    match value:
        case float() if not isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {_key(key): _plain(part) for key, part in value.items()}
        case list():
            return [_plain(part) for part in value]
        case bytes():
            return value.hex()
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
    return value


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
