"""The options of reading files and records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ecode.types import Default, Record
from pbio_spark.source.options import values
from pbio_spark.source.options.of_formats import FormatOptions
from pbio_spark.source.options.scopes import DECODES, READS, WRITES, Scope, option


@dataclass(frozen=True, slots=True)
class ReadOptions(FormatOptions):
    """`FormatOptions`, and the options of reading."""

    format_name: tuple[str, ...] = option(
        values.names,
        (),
        *DECODES,
        Scope.WRITE,
        Scope.TO,
        doc="The names of the formats to read; other records are left out. Write bytes that are not UTF-8 as "
        "messages show them, `\\xf6`. For writing, the name of the format; without it, files that are added to a "
        "folder take the name of its records, if all have the same name, and others are called `record`.",
    )
    format_id: tuple[bytes, ...] = option(
        values.format_ids, (), *DECODES, doc="The IDs of the formats to read; other records are left out."
    )
    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = option(
        values.one_of("FAILFAST", "PERMISSIVE", "DROPMALFORMED"),
        "FAILFAST",
        *DECODES,
        doc="What happens to a bad record: it fails the query, becomes a row of nulls with its bytes and the reason "
        "in the corrupt-record column, or is left out and counted in the log.",
    )
    column_name_of_corrupt_record: str = option(
        values.text,
        "_corrupt_record",
        *DECODES,
        doc="The column for bad records under `mode` PERMISSIVE; in `from_pbio` a field of the structure. Its "
        "`offset` is the item's, as `pbio hexdump --at` takes it. `length` and `bytes` are the record's, without "
        "the 8 bytes of the item's head; for damage, they cover everything that is left out.",
    )
    metadata_column: str | None = option(
        values.text,
        None,
        *READS,
        doc="The name of a column with the origin of each row. Its `offset` and `length` are the item's, including "
        "the 8 bytes of its head.",
    )
    merge_schema: bool = option(
        values.boolean,
        True,
        *DECODES,
        doc="Whether the columns are the union of all versions of the format, or those of the last version that is "
        "found.",
    )
    path_glob_filter: str | None = option(values.glob, None, *READS, doc="Read only files whose names match this glob.")
    recursive_file_lookup: bool = option(
        values.boolean,
        False,
        *READS,
        doc="Read files in all folders below the paths; `k=v` folders then make no columns.",
    )
    modified_before: float | None = option(
        values.instant, None, *READS, doc="Read only files modified before this time."
    )
    modified_after: float | None = option(values.instant, None, *READS, doc="Read only files modified after this time.")
    ignore_missing_files: bool = option(
        values.boolean,
        False,
        *READS,
        doc="Whether a file may vanish between planning and reading; in a stream, also before all its rows are read.",
    )
    ignore_corrupt_files: bool = option(
        values.boolean,
        False,
        *READS,
        doc="Whether damage between the records of a file is tolerated, even under FAILFAST; the data after it is "
        "left out.",
    )
    resync: bool = option(
        values.boolean,
        False,
        Scope.READ,
        doc="Whether reading resumes after damage between the records of a file, at the next place where three "
        "sound items of known formats follow each other. Without it, reading resumes at the next item of an index "
        "or an outline.",
    )
    truncated_tail: Literal["error", "ignore", "wait"] | None = option(
        values.one_of("error", "ignore", "wait"),
        None,
        *READS,
        doc="What happens to a file that ends inside a record: `error` (the default in batches), `ignore` the rest, "
        "which a batch logs, or `wait` (the default in streams) for it to grow; in a batch `wait` means `ignore`.",
    )
    max_partition_bytes: int | None = option(
        values.size,
        None,
        *READS,
        doc="Approximately how many bytes one task reads; by default 128 MB, or 32 MB of channels without a filter.",
    )
    scan_limit: int = option(
        values.size,
        256 << 20,
        *READS,
        doc="How many bytes of files without index or sidecar the driver may walk when it plans a query, smallest "
        "files first. Files beyond this limit are not split, and only the formats at their start are known; "
        "columns that first appear later are left out, with a warning.",
    )
    skip_blocks: bool = option(
        values.boolean,
        True,
        *READS,
        doc="Whether to skip blocks in which no record can pass `filter`. The least and greatest values in a "
        "file's outline, or at the end of a channel's data files, decide this. A damaged record in such a block "
        "goes unnoticed. Streams of files skip nothing.",
    )
    records_per_batch: int = option(values.positive, 32768, *READS, doc="The most records in one Arrow batch.")
    max_batch_bytes: int = option(
        values.size, 16 << 20, *READS, doc="The approximate limit of bytes of records in one Arrow batch."
    )
    recursive_field_max_depth: int = option(
        values.depth,
        -1,
        *DECODES,
        doc="How often a structure may contain itself: -1 makes recursion an error, 1 drops fields that recur, 2 "
        "lets them recur once, and so on.",
    )
    char_arrays_as: Literal["string", "binary", "array"] = option(
        values.one_of("string", "binary", "array"),
        "string",
        *DECODES,
        doc="What `char[n]` becomes: a string up to the first NUL, or all bytes.",
    )
    unsigned_long_as: Literal["decimal", "long", "binary"] = option(
        values.one_of("decimal", "long", "binary"),
        "decimal",
        *DECODES,
        doc="What an unsigned integer of 8 bytes becomes. As `long`, a value of 2^63 or more makes a bad record.",
    )
    encoding: Literal["UTF-8", "ISO-8859-1", "binary"] = option(
        values.one_of("UTF-8", "ISO-8859-1", "binary"),
        "UTF-8",
        *DECODES,
        doc="The encoding of strings; `binary` leaves them as bytes.",
    )
    field_aliases: Mapping[str, str] = option(
        values.aliases, dict, *DECODES, doc="An additional name of a column's field; its own name takes precedence."
    )
    defaults: Mapping[str, Default] = option(
        values.scalars, dict, *DECODES, doc="The value of a column that a format lacks."
    )
    reader_format: tuple[str | Record, ...] = option(
        values.reader_formats,
        (),
        *DECODES,
        doc="The wanted record types: MaxMatch decides which of them, if any, each incoming format reaches through "
        "the transforms that formats carry.",
    )
    diff_threshold: float = option(
        values.count,
        math.inf,
        *DECODES,
        doc="The most fields of an incoming type that a wanted type may lack. Needs `readerFormat`, or a channel.",
    )
    mismatch_threshold: float = option(
        values.ratio,
        0.5,
        *DECODES,
        doc="The largest share of the fields of a wanted type that may stay empty. Needs `readerFormat`, or a channel.",
    )
    field_weights: Mapping[str, float] = option(
        values.weights,
        dict,
        *DECODES,
        doc="The weights of fields in MaxMatch, if not 1. Needs `readerFormat`, or a channel.",
    )
    transforms: tuple[values.TransformText, ...] = option(
        values.transforms,
        (),
        *DECODES,
        *WRITES,
        doc="E-code that fills a record of one type (`old`, `to` or `output`) from one of another (`new`, `from` "
        "or `input`). For reading, these take precedence over the transforms that formats carry. For writing, the "
        "format carries them (as `old` and `new`); the formats that they lead to are in `formatStore` or, for a "
        "channel, in the space.",
    )
    on_reject: Literal["fail", "drop", "corrupt"] = option(
        values.one_of("fail", "drop", "corrupt"),
        "fail",
        *DECODES,
        doc="What happens to records that reach no wanted type: they fail the query, are left out and counted, or "
        "are bad records. Needs `readerFormat`, or a channel.",
    )
    on_unfilled: Literal["fail", "warn", "ignore"] | None = option(
        values.one_of("fail", "warn", "ignore"),
        None,
        *DECODES,
        doc="What happens to a column of `.schema()` or `readerFormat` that no record, transform or default can "
        "fill, a name in `defaults` or `fieldAliases` that matches nothing, and one of `transforms` that no record "
        "needs: `fail` (the default where all formats are known) or `warn` (the default in streams, beyond "
        "`scanLimit`, and with a `formatStore` in `from_pbio`). With `fail` and with `warn`, a column that only "
        "some formats lack is null there, with one warning per query; `ignore` gives no warning.",
    )
    filter: str | None = option(
        values.text,
        None,
        *DECODES,
        doc="E-code that selects the records to read, `{ return input.price > 75; }`: it runs before anything else "
        "is decoded. `input` is the record as the wanted type or, without one, as the union of all versions.",
    )
    transform: str | None = option(
        values.text,
        None,
        *DECODES,
        doc="E-code that computes the columns of `.schema()`, `output`, from a record, `input`; it may return 0 to "
        "leave the record out.",
    )
    schema_inference: bool = option(
        values.boolean,
        False,
        Scope.STREAM,
        doc="Whether a stream without `.schema()` takes its columns from the existing files.",
    )
    max_files_per_trigger: int | None = option(
        values.positive, None, Scope.STREAM, doc="The most files that one micro-batch reads from."
    )
    max_bytes_per_trigger: int | None = option(
        values.size, None, Scope.STREAM, doc="Approximately how many bytes one micro-batch reads; at least one record."
    )
    max_file_age: float = option(
        values.seconds,
        604800.0,
        Scope.STREAM,
        doc="How long after its last change a file is remembered and may grow. The stream no longer looks at a "
        "file that is older than the newest one by more than this time.",
    )
    on_new_format: Literal["ignore", "log", "fail"] = option(
        values.one_of("ignore", "log", "fail"),
        "log",
        Scope.STREAM,
        doc="What happens when the stream meets a new format. Its records are read, except with `fail`.",
    )
