"""Files without Spark: their records as rows and tables, with the options of the Spark data source.

    read          files -> rows, one by one
    read_batches  files -> Arrow batches of one schema
    read_arrow    files -> one Arrow table
    read_formats  files -> the formats that they describe
    open_writer   rows and tables -> a file

These work like the data source: every version and machine becomes one schema, MaxMatch and E-code included. Options
have the same names and values as in Spark (docs/reference/options.md). A value may also be an object instead of text: a
number, a record type, a list, a dict.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import Record
from pbio_spark.columns import Encoder, check_rows, format_to_encoder, rows_to_batch, with_row
from pbio_spark.disk import into_what_is_there
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.written import writable
from pbio_spark.formats.format import check_format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.paths import full_path, is_local, locate, trouble
from pbio_spark.source.files.outlines import paths_to_formats
from pbio_spark.source.files.planning import plan_partitions, scan_files, scan_to_schema
from pbio_spark.source.files.python_rows import batches_to_rows
from pbio_spark.source.files.splits import read_splits, scan_to_plan
from pbio_spark.source.options.derived import machine_of
from pbio_spark.source.options.from_python import options_of, options_to_strings
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.scopes import Scope, option_name
from pbio_spark.source.query.request import is_request
from pbio_spark.source.query.store import store_of
from pbio_spark.source.write.write_format import formats_to_write
from pbio_spark.wire import FileWriter
from pbio_spark.written import written

log = logging.getLogger("pbio_spark")

Path: TypeAlias = "str | os.PathLike[str]"
RecordType: TypeAlias = "Format | Record | pa.Schema | Mapping[str, Any] | str"
"""How the records of a file may be described; a string or a mapping is the JSON of a record type."""

_PENDING = 1000
"""How many rows are collected before encoding: encoding one costs as much as hundreds."""

_SUBSCRIBE = "pbio_spark.ChannelSpace.open(path).channel(name).subscribe(...) reads the events of a channel"

_DECIDED_BY_A_FORMAT = ("machine", "byte_order", "pointer_size", "nulls", "format_name", "transforms", "write_format")
_OF_ONE_FILE = (*_DECIDED_BY_A_FORMAT, "null_value", "format_store", "kafka")


def read(paths: Path | Sequence[Path], **options: Any) -> Iterator[dict[str, Any]]:
    """The records of files, one by one, as dicts of Python values.

    Args:
        paths: files, folders or globs, or several of them.
        options: as for `read_batches`, including `schema` and `columns`.

    Raises what `read_batches` raises; PBIO_BAD_VALUE for a date or a time outside the years 1 to 9999, which Python
    cannot represent. Under DROPMALFORMED such a record is left out, under PERMISSIVE its column is null; `read_arrow`
    keeps it.

    >>> import tempfile, pbio_spark as pbio
    >>> path = tempfile.mkdtemp() + "/loads.ffs"
    >>> with pbio.open_writer(path, {"Load": {"host": "string", "load": "float64"}}) as loads:
    ...     loads.write({"host": "a", "load": 0.5})
    >>> list(pbio.read(path))
    [{'host': 'a', 'load': 0.5}]
    """
    yield from batches_to_rows(lambda **more: read_batches(paths, **{**options, **more}), options)


def read_arrow(paths: Path | Sequence[Path], **options: Any) -> pa.Table:
    """The records of files as one Arrow table. Takes and raises what `read_batches` does."""
    return read_batches(paths, **options).read_all()


def read_batches(
    paths: Path | Sequence[Path],
    *,
    schema: pa.Schema | None = None,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> pa.RecordBatchReader:
    """The records of files as Arrow batches of one schema. Only one batch at a time is in memory.

    Args:
        paths: files, folders or globs, or several of them.
        schema: the wanted columns with their types, as with `.schema(...)` in Spark.
        columns: the names of the wanted columns, which keep their types.
        options: reading options of the data source, such as `filter`, `readerFormat`, `mode`, `metadataColumn`.

    Raises:
        PbioError: PBIO_UNKNOWN_OPTION, PBIO_BAD_OPTION, PBIO_UNKNOWN_COLUMN, PBIO_PATH_NOT_FOUND, PBIO_SEVERAL_FORMATS,
            PBIO_UNFILLED and the other planning errors at once; errors of records when their batch is read.
    """
    parsed = options_of(options, Scope.READ, ("schema", "columns"))
    listed = _listed(paths)
    if parsed.reads_channels:
        raise PbioError("PBIO_BAD_OPTION", "channels are not files", file=listed[0], hint=_SUBSCRIBE)
    if schema is not None and columns is not None:
        raise PbioError("PBIO_BAD_OPTION", "schema and columns exclude each other", hint="give one of them")
    if schema is not None and not isinstance(schema, pa.Schema):
        reason = f"schema is a {type(schema).__name__}, not a pyarrow.Schema"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="name the columns alone with columns=[...]")
    try:
        scan = scan_files(listed, parsed, all_formats=schema is None or is_request(parsed))
    except PbioError as error:
        if error.code == "PBIO_CHANNEL_SPACE":
            error.hint = _SUBSCRIBE
        raise
    chosen = _chosen(scan_to_schema(scan), columns) if schema is None else schema
    plan = scan_to_plan(scan, chosen, is_projection=schema is not None)
    partitions = plan_partitions(scan.files, scan.outlines, parsed, plan)
    batches = read_splits(plan, [split for splits in partitions for split in splits], parsed)
    return pa.RecordBatchReader.from_batches(chosen, batches)


def read_formats(paths: Path | Sequence[Path]) -> list[Format]:
    """The formats that files describe, in the order of their appearance. Raises PBIO_PATH_NOT_FOUND, PBIO_NOT_FFS."""
    return list(paths_to_formats(_listed(paths)))


def open_writer(
    path: Path,
    type: RecordType,  # noqa: A002
    *,
    append: bool = False,
    indexed: bool = False,
    beside: Iterable[Format] = (),
    **options: Any,
) -> RecordWriter:
    """A file to write records to; a context manager.

    Rows have the form that `read` returns: times are datetimes, nulls are None. An encoder is compiled for each new
    type, which takes some seconds; `FileWriter` needs none, and takes values as `decode` returns them.

    Args:
        path: of the file, which is created or, without `append`, replaced.
        type: of the records: a record type or its JSON, an Arrow schema, or a format.
        append: continue an existing file; only on the local disk.
        indexed: interleave FFS's index blocks.
        beside: more formats for the file to describe, such as the targets of a format's transforms.
        options: writing options of the data source that apply to a single file: `machine`, `nullValue`, `formatStore`;
            for an Arrow schema also `nulls`, `formatName`, `transforms`, `writeFormat`.

    Raises:
        PbioError: PBIO_UNKNOWN_OPTION, PBIO_BAD_OPTION, PBIO_UNSUPPORTED_TYPE, PBIO_BAD_TYPE, PBIO_BAD_NAME,
            PBIO_BAD_PATH, PBIO_CANNOT_APPEND, and what the file system refuses.
    """
    if not isinstance(path, str | os.PathLike):
        hint = "the path comes first, and then the type of the records"
        raise PbioError("PBIO_BAD_PATH", f"a path cannot be of type {_kind(path)}", hint=hint)
    given = options_to_strings(options)
    parsed = options_of(options, Scope.WRITE, ("type", "append", "indexed", "beside"))
    allowed = [option_name(name) for name in _OF_ONE_FILE]
    for name in given:
        if name.lower().partition(".")[0] not in (one.lower() for one in allowed):
            reason = f"option {name!r} does not apply to a single file"
            raise PbioError(
                "PBIO_BAD_OPTION", reason, file=os.fspath(path), hint=f"options that apply: {', '.join(allowed)}"
            )
    if isinstance(type, pa.Schema):
        form, *priors = formats_to_write(parsed, type, None)
    else:
        form, priors = _format_of(type, parsed, given), []
    if (store := store_of(parsed)) is not None:
        store.put(form)
    formats = list(beside) if isinstance(beside, Iterable) else [beside]
    for one in formats:
        check_format(one)
    file = _open(path, append=append, indexed=indexed)
    for one in (form, *priors, *formats):
        file.describe(one)
    file.flush()
    return RecordWriter(path, form, file, parsed)


@dataclass(slots=True)
class _Pending:
    """Rows to be encoded, and the number of rows before them."""

    rows: list[Mapping[str, Any]]
    before: int = 0


class RecordWriter:
    """A file of records of one format that is being written. `open_writer` creates it.

    Attributes:
        format: of its records.
    """

    def __init__(self, path: Path, format: Format, file: FileWriter, options: Options) -> None:  # noqa: A002
        self.format = format
        self._path = os.fsdecode(path)
        self._file = file
        self._null_value = options.null_value
        self._encoders: dict[pa.Schema, Encoder] = {}
        self._pending = _Pending([])
        self._fields = frozenset(field.name for field in format.record.fields)

    def write(self, rows: Mapping[str, Any] | Iterable[Mapping[str, Any]] | pa.Table | pa.RecordBatch) -> None:
        """Write a row, several rows, or the rows of a table. A field that a row leaves out is null.

        Raises PBIO_UNKNOWN_COLUMN, PBIO_BAD_VALUE, PBIO_CANNOT_BE_NULL, with the number of the row since the writer was
        opened. They may come from `flush` or `close`, since some hundreds of rows are collected and encoded together.
        """
        if isinstance(rows, pa.Table | pa.RecordBatch):
            self.flush()
            try:
                self._encode(rows_to_batch(rows, None))
            except PbioError as error:
                raise with_row(error, rows) from None
            self._pending.before += rows.num_rows
            return
        if not isinstance(rows, Mapping):
            check_rows(rows)
        given: Iterable[Any] = (rows,) if isinstance(rows, Mapping) else rows
        for row in given:
            self._pending.rows.append(row)
            is_odd = not isinstance(row, Mapping) or not self._fields.issuperset(row)  # reported at once
            if is_odd or len(self._pending.rows) >= _PENDING:
                self._encode_pending()

    def comment(self, text: str) -> None:
        """Write a comment, after the rows so far. Raises PBIO_BAD_VALUE."""
        self._encode_pending()
        self._file.comment(text)

    def flush(self) -> None:
        """Write collected rows, and hand everything to the file system. Raises what `write` raises."""
        self._encode_pending()
        self._file.flush()

    def close(self) -> None:
        """Write collected rows, and close the file. Raises what `write` raises, after closing."""
        try:
            self._encode_pending()
        finally:
            with into_what_is_there(self._path):
                self._file.close()

    def __del__(self) -> None:
        if getattr(self, "_pending", None) and self._pending.rows:  # none are left after closing
            count = len(self._pending.rows)
            log.warning("%s: the writer was never closed: %d rows are lost; use `with`, or close()", self._path, count)
            with suppress(Exception):
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _encode_pending(self) -> None:
        pending, self._pending = self._pending, _Pending([], self._pending.before + len(self._pending.rows))
        if not pending.rows:
            return
        try:
            self._encode(rows_to_batch(pending.rows, self.format))
        except PbioError:
            # Find the bad row, and write those before it.
            for number, row in enumerate(pending.rows, pending.before):
                try:
                    self._encode(rows_to_batch([row], self.format))
                except PbioError as refused:
                    error = with_row(refused, [row])
                    own = error.reason.removeprefix("row 0")
                    error.reason = f"row {number}{own}" if own != error.reason else f"row {number}: {own}"
                    raise error from None
            raise

    def _encode(self, batch: pa.RecordBatch) -> None:
        encoder = self._encoders.get(batch.schema)
        if encoder is None:
            encoder = format_to_encoder(self.format, batch.schema, null_value=self._null_value).checked()
            self._encoders[batch.schema] = encoder
        encoded = encoder.encode(batch)
        data, ends = memoryview(encoded.buffer), encoded.offsets.tolist()
        for start, end in pairwise(ends):
            self._file.data(self.format, bytes(data[start:end]))


def _kind(value: object) -> str:
    return type(value).__name__


def _listed(paths: Path | Sequence[Path]) -> tuple[str, ...]:
    found: list[Any] = [paths]
    if isinstance(paths, Iterable) and not isinstance(paths, str | bytes | os.PathLike) and not hasattr(paths, "read"):
        found = list(paths)
    for path in found:
        if not isinstance(path, str | os.PathLike):
            hint = "give the path of the file: file.name" if hasattr(path, "read") else "give a str or a Path"
            raise PbioError("PBIO_BAD_PATH", f"a path cannot be of type {type(path).__name__}", hint=hint)
    if not found:
        raise PbioError("PBIO_NO_PATH", "no path was given", hint="name a file or a folder")
    return tuple(os.fspath(path) for path in found)


def _chosen(schema: pa.Schema, columns: Iterable[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise PbioError("PBIO_BAD_OPTION", "columns is a string", hint=f"give a list: [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise PbioError("PBIO_BAD_OPTION", f"columns cannot be a {_kind(columns)}", hint="give a list of names")
    names = list(columns)
    for name in names:
        if name not in schema.names:
            hint = did_you_mean(str(name), schema.names) or f"the columns are {', '.join(schema.names)}"
            raise PbioError("PBIO_UNKNOWN_COLUMN", f"unknown column {name!r}", hint=hint)
    return pa.schema([schema.field(name) for name in dict.fromkeys(names)])


def _format_of(type_: RecordType, options: Options, given: Mapping[str, str]) -> Format:
    decided = _DECIDED_BY_A_FORMAT if isinstance(type_, Format) else _DECIDED_BY_A_FORMAT[3:]
    for name in decided:
        if option_name(name).lower() in (one.lower() for one in given):
            reason = f"option {option_name(name)!r} has no effect with a {type(type_).__name__}, which decides that"
            hint = "leave it out, or give an Arrow schema"
            if name == "nulls":
                hint = "a field can be null if it is a pointer, such as '*float64' in JSON or Pointer(FLOAT64); or "
                hint += "give an Arrow schema, to which the option applies"
            raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)
    if isinstance(type_, Format):
        return type_
    if isinstance(type_, str | Mapping):
        type_ = json_to_record(type_)
    if not isinstance(type_, Record):
        hint = "give a Record, a Format, an Arrow schema, or JSON such as {'Load': {'load': 'float64'}}"
        if isinstance(getattr(type_, "schema", None), pa.Schema):
            hint = "give its schema: table.schema"
        elif hasattr(type_, "columns"):
            hint = "give the schema that it gets in Arrow: pyarrow.Schema.from_pandas(frame)"
        raise PbioError("PBIO_BAD_TYPE", f"{str(type_)[:80]!r} is not a type of records", hint=hint)
    return record_to_format(writable(type_), machine_of(options))


def _open(path: Path, *, append: bool, indexed: bool) -> FileWriter:
    fs, target = locate(path)
    if append and not is_local(fs):
        hint = "write another file beside it: readers take a folder"
        raise PbioError("PBIO_CANNOT_APPEND", "only files on the local disk can grow", file=os.fspath(path), hint=hint)
    try:
        with trouble(fs, target):
            if is_local(fs):
                return FileWriter(target, indexed=indexed, append=append and os.path.exists(target))
            file = written(fs.open(target, "wb"), full_path(fs, target))
            return FileWriter(file, indexed=indexed, owned=True)
    except FileNotFoundError:
        reason, hint = "the folder of the file does not exist", "make it first"
        raise PbioError("PBIO_PATH_NOT_FOUND", reason, file=os.fspath(path), hint=hint) from None
