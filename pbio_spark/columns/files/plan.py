"""`ReadPlan`, the same for every part of every file, and `FilePart`, the part of a file to read.

A plan has three values from the caller: the `Selection` (which records, as which columns), the `ErrorPolicy` and the
`BatchLimits`; and the compiled means of reading. `plan_read` in `compile` builds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from ecode.native import Kernel
from ecode.types import Default
from morph import Rejection
from pbio_spark.columns.programs.routes import Request
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import DEFAULT, Presentation
from pbio_spark.formats.store import FormatStore
from pbio_spark.wire.hints.sidecar import Point

if TYPE_CHECKING:
    from pbio_spark.columns.programs.converter import AnyConverter

CORRUPT_TYPE = pa.struct(
    [
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("reason", pa.string()),
        ("format_id", pa.string()),
        ("bytes", pa.binary()),
    ]
)
"""The type of the corrupt-record column, which may have any of these parts, or be binary, just the bytes."""

METADATA_TYPE = pa.struct(
    [
        ("file_path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("ordinal", pa.int64()),
        ("format_id", pa.string()),
        ("format_name", pa.string()),
        ("machine", pa.string()),
        ("way", pa.string()),
        ("target", pa.string()),
    ]
)
"""The type of the metadata column, which may have any of these parts: the record's place in its file, its format, and
how and as what it became a row."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are read, and the columns that they become.

    Attributes:
        schema: of the batches; all columns except the special ones below are fields of records.
        presentation, aliases, defaults, symbols: see `ColumnSpec`.
        names, ids: of the formats whose records are read; empty means all.
        only_name: the only name that formats may have; None if `names` or `ids` select formats.
        corrupt_column: of CORRUPT_TYPE, parts of it, or binary.
        metadata_column: of METADATA_TYPE or parts of it.
        partition_columns: whose values the `FilePart` gives.
        request: the request beyond the fields of records.
        query: a name for the query, if its columns should be all those of the formats seen in planning: other fields
            then cause a warning.
    """

    schema: pa.Schema
    presentation: Presentation = DEFAULT
    aliases: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Default] = field(default_factory=dict)
    symbols: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    ids: tuple[bytes, ...] = ()
    only_name: str | None = None
    corrupt_column: str | None = None
    metadata_column: str | None = None
    partition_columns: tuple[str, ...] = ()
    request: Request | None = None
    query: str = ""

    @property
    def columns(self) -> ColumnSpec:
        """The columns from fields of records, and what helps to fill them."""
        return ColumnSpec(self.data_schema, self.presentation, self.aliases, self.defaults, self.symbols)

    @property
    def data_schema(self) -> pa.Schema:
        """The columns from fields of records."""
        special = {self.corrupt_column, self.metadata_column, *self.partition_columns}
        return pa.schema([f for f in self.schema if f.name not in special])

    def has(self, form: Format) -> bool:
        """Whether records of a format are read."""
        return (not self.names or form.is_called(self.names)) and (not self.ids or form.id in self.ids)


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What happens to bad records and damaged files.

    Attributes:
        mode: for a bad record. PERMISSIVE makes it a row of nulls, with the corrupt-record column if there is one.
        tail: whether a file that ends inside a record is an error (a bad record) or just ends there; or that the part
            must end at an item boundary: if not, the plan was wrong, which is an error in every mode.
        ignore_corrupt_files: whether damage between records is only logged, without an error or a row.
        resync: whether to search for sound records after damage if no index or outline names them.
    """

    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = "FAILFAST"
    tail: Literal["error", "ignore", "planned"] = "error"
    ignore_corrupt_files: bool = False
    resync: bool = False


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most records, and the most bytes of a file, that are read at once. One record may be larger."""

    most_records: int = 32768
    most_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Everything that reading needs. Pickles with its compiled converters.

    Attributes:
        formats: known beforehand, selected or not.
        store: for formats that files do not describe.
        converters: compiled beforehand, by format ID; the others are compiled when their format appears.
        walk: the kernel that finds records; by default each process gets its own.
    """

    selection: Selection
    errors: ErrorPolicy = ErrorPolicy()
    limits: BatchLimits = BatchLimits()
    formats: tuple[Format, ...] = ()
    store: FormatStore | None = None
    converters: Mapping[bytes, AnyConverter | Rejection] = field(default_factory=dict)
    walk: Kernel | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self.selection.schema


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file between two item boundaries.

    Attributes:
        name: of the file, for errors and metadata.
        start, end: offsets; without an end, to the end of the file.
        ordinal: of the first record from `start` on; None if unknown.
        partition: the values of the partition columns.
        records: how many there must be; None if unknown.
        anchors: item boundaries after `start` that an index or an outline names, where reading resumes after damage.
    """

    name: str
    start: int = 0
    end: int = 2**63 - 1
    ordinal: int | None = 0
    partition: tuple[pa.Scalar, ...] = ()
    records: int | None = None
    anchors: tuple[Point, ...] = ()
