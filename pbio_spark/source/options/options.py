"""Every option of the data source, in one table: `Options`. docs/options.md is generated from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ecode.types import Default, Record
from pbio_spark.columns import NullValue, null_replacement
from pbio_spark.formats.machine import MACHINES
from pbio_spark.source.options import values
from pbio_spark.source.options.of_formats import FormatOptions
from pbio_spark.source.options.scopes import DECODES, ENCODES, READS, WRITES, Scope, option


@dataclass(frozen=True, slots=True)
class Options(FormatOptions):
    """All options, parsed. The name of an option is the attribute's name in camelCase."""

    format_name: tuple[str, ...] = option(
        values.names,
        (),
        *DECODES,
        Scope.WRITE,
        Scope.TO,
        doc="The names of the formats to read; other records are left out. Bytes that are not UTF-8 are written as "
        "messages show them, `\\xf6`. In writing, the name of the format; without it, files that are added to a "
        "folder take the name that its records have, if it is one, and others are called `record`.",
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
        "`offset` is the item's, as `pbio hexdump --at` takes it; `length` and `bytes` are the record's, without the 8 "
        "bytes of the item's head, and of damage all that is left out.",
    )
    metadata_column: str | None = option(
        values.text,
        None,
        *READS,
        doc="The name of a column with the origin of each row. Its `offset` and `length` are the item's, the 8 bytes "
        "of its head included.",
    )
    merge_schema: bool = option(
        values.boolean,
        True,
        *DECODES,
        doc="Whether the columns are the union of all versions of the format, or those of the version met last.",
    )
    path_glob_filter: str | None = option(
        values.glob, None, *READS, doc="Read only files whose name matches this glob."
    )
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
        doc="Whether damage between the records of a file is tolerated, also by FAILFAST; what follows is left out.",
    )
    resync: bool = option(
        values.boolean,
        False,
        Scope.READ,
        doc="Whether reading resumes after damage between the records of a file, at the next place where three sound "
        "items of known formats follow each other. Without it, at the next item of an index or an outline.",
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
        doc="About how many bytes one task reads; by default 128 MB of files, 32 MB of channels.",
    )
    scan_limit: int = option(
        values.size,
        256 << 20,
        *READS,
        doc="How many bytes of files without index or sidecar the driver may walk in planning a query, smallest "
        "files first. What is left is not split, and only the formats at the head of such a file are known; "
        "columns that first appear beyond it are left out, with a warning.",
    )
    records_per_batch: int = option(values.positive, 32768, *READS, doc="The most records in one Arrow batch.")
    max_batch_bytes: int = option(
        values.size, 16 << 20, *READS, doc="About the most bytes of records in one Arrow batch."
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
        values.aliases, dict, *DECODES, doc="An additional name of a column's field; its own name comes first."
    )
    defaults: Mapping[str, Default] = option(
        values.scalars, dict, *DECODES, doc="The value of a column that a format lacks."
    )
    reader_format: tuple[str | Record, ...] = option(
        values.reader_formats,
        (),
        *DECODES,
        doc="The wanted record types: MaxMatch decides which of them each incoming format reaches, if any, by the "
        "transforms that formats carry.",
    )
    diff_threshold: float = option(
        values.count, math.inf, *DECODES, doc="The most fields of an incoming type that a wanted type may lack."
    )
    mismatch_threshold: float = option(
        values.ratio, 0.5, *DECODES, doc="The largest share of the fields of a wanted type that may stay empty."
    )
    field_weights: Mapping[str, float] = option(
        values.weights, dict, *DECODES, doc="How much fields count for MaxMatch, if not 1."
    )
    transforms: tuple[values.TransformText, ...] = option(
        values.transforms,
        (),
        *DECODES,
        *WRITES,
        doc="E-code that fills a record of one type (`old`, `to` or `output`) from one of another (`new`, `from` or "
        "`input`). In reading, before what formats carry; in writing, what the format carries (`old` and `new`), "
        "to formats in `formatStore` or, in a channel space, in the space.",
    )
    on_reject: Literal["fail", "drop", "corrupt"] = option(
        values.one_of("fail", "drop", "corrupt"),
        "fail",
        *DECODES,
        doc="What happens to records that reach no wanted type: they fail the query, are left out and counted, or "
        "are bad records.",
    )
    on_unfilled: Literal["fail", "warn", "ignore"] | None = option(
        values.one_of("fail", "warn", "ignore"),
        None,
        *DECODES,
        doc="What happens to a column of `.schema()` or `readerFormat` that no record, transform or default can "
        "fill, a name in `defaults` or `fieldAliases` that matches nothing, and one of `transforms` that no "
        "record needs: `fail` (the default where all formats are known) or `warn` (the default in streams, "
        "beyond `scanLimit`, and with a `formatStore` in `from_pbio`). Both warn, once for a query, of columns "
        "that only some formats lack; `ignore` says nothing.",
    )
    filter: str | None = option(
        values.text,
        None,
        *DECODES,
        doc="E-code that selects the records to read, `{ return input.price > 75; }`: it runs before anything else "
        "is decoded. `input` is the record as the wanted type, without one as the union of all versions.",
    )
    transform: str | None = option(
        values.text,
        None,
        *DECODES,
        doc="E-code that makes the columns of `.schema()`, `output`, from a record, `input`; it may return 0 to "
        "leave the record out.",
    )
    schema_inference: bool = option(
        values.boolean,
        False,
        Scope.STREAM,
        doc="Whether a stream without `.schema()` takes its columns from the files there are.",
    )
    max_files_per_trigger: int | None = option(
        values.positive, None, Scope.STREAM, doc="The most files that one micro-batch reads from."
    )
    max_bytes_per_trigger: int | None = option(
        values.size, None, Scope.STREAM, doc="About how many bytes one micro-batch reads; at least one record."
    )
    max_file_age: float = option(
        values.seconds,
        604800.0,
        Scope.STREAM,
        doc="How long after its last change a file is remembered and may grow. A file that is older than the newest "
        "one by more than that is no longer looked at.",
    )
    on_new_format: Literal["ignore", "log", "fail"] = option(
        values.one_of("ignore", "log", "fail"),
        "log",
        Scope.STREAM,
        doc="What happens when a format appears that is new to the stream; except for `fail`, its records are read.",
    )
    channel: str | None = option(
        values.text, None, *READS, *WRITES, doc="The channel to read or to publish to, if the path is a channel space."
    )
    channels: tuple[str, ...] = option(values.names, (), *READS, doc="Several channels to read, as one union.")
    channel_pattern: str | None = option(
        values.pattern,
        None,
        *READS,
        doc="The channels to read, by their names; in a stream also those that are created while it runs.",
    )
    starting_offsets: str | tuple[int, ...] | None = option(
        values.starting_place,
        None,
        *READS,
        doc="The first event to read: `earliest` (the default in batches), what comes from now on (`latest`, the "
        "default in streams), or the one at a position. A stream with a checkpoint resumes there.",
    )
    starting_timestamp: int | None = option(
        values.published_since, None, *READS, doc="Read the events published at this time and later."
    )
    ending_offsets: str | tuple[int, ...] = option(
        values.ending_place, "latest", Scope.READ, doc="The position after the last event to read."
    )
    max_records_per_trigger: int | None = option(
        values.positive, None, Scope.STREAM, doc="The most events of channels that one micro-batch reads."
    )
    fail_on_data_loss: bool = option(
        values.boolean,
        True,
        *READS,
        *WRITES,
        doc="Whether it is an error if events are no longer kept, or if their channel was dropped before they were "
        "read; in writing, if another batch was published under the same number. Otherwise a reader continues "
        "after the lost events, and a writer takes its batch as published.",
    )
    subscriber: str | None = option(
        values.text,
        None,
        Scope.STREAM,
        doc="A name under which the space records how far the stream has come: a query without a checkpoint resumes "
        "there, and `keep=subscribed` keeps what it has not read. One query at a time may use it.",
    )
    channel_column: str | None = option(
        values.text,
        None,
        *WRITES,
        doc="The column that names the channel of each row; if it is null, `channel` does. Like the three columns "
        "below, it is a field of the events only if the channel's type has one of its name.",
    )
    producer: str | None = option(
        values.text, None, *WRITES, doc="The producer of the events, if `producerColumn` is not set or null."
    )
    producer_column: str | None = option(
        values.text, None, *WRITES, doc="The column that names the producer of each event."
    )
    sequence_column: str | None = option(
        values.text,
        None,
        *WRITES,
        doc="The column of whole numbers that rise with each producer's events: those that were published before are "
        "left out. The rows of a producer must lie in one partition, in order: "
        "`df.repartition(producer).sortWithinPartitions(producer, sequence)`.",
    )
    event_time_column: str | None = option(
        values.text, None, *WRITES, doc="The column with the time at which what an event describes happened."
    )
    services: tuple[str, ...] = option(
        values.services, (), *WRITES, doc="Services that the writer grants to the code of derived channels."
    )
    txn_app_id: str | None = option(
        values.text,
        None,
        Scope.WRITE,
        doc="With `txnVersion`: a name under which numbered writes are published once, however often they are tried.",
    )
    txn_version: int | None = option(
        values.whole,
        None,
        Scope.WRITE,
        doc="The number of this write, which rises from write to write; in `foreachBatch`, the batch's.",
    )
    delivery: Literal["async", "sync"] = option(
        values.one_of("async", "sync"),
        "async",
        *WRITES,
        doc="Whether a write is done when its events are durable, or when every named subscriber of their channels "
        "has acknowledged them.",
    )
    sync_timeout: float = option(
        values.seconds,
        60.0,
        *WRITES,
        doc="How long a `sync` write waits before it fails. Its events are published nevertheless; retrying is safe "
        "with `sequenceColumn` or `txnAppId`, and waits again.",
    )
    machine: str = option(
        values.one_of(*MACHINES),
        "native",
        *ENCODES,
        doc="The machine to lay records out for. On a channel, `native` is the machine of the channel's own format.",
    )
    byte_order: str | None = option(values.one_of("little", "big"), None, *ENCODES, doc="Instead of the machine's.")
    pointer_size: str | None = option(
        values.one_of("4", "8"), None, *ENCODES, doc="Instead of the machine's, in bytes."
    )
    max_records_per_file: int | None = option(values.positive, None, Scope.WRITE, doc="The most records in one file.")
    partition_columns: tuple[str, ...] = option(
        values.names, (), Scope.WRITE, doc="Columns that become `k=v` folders instead of fields."
    )
    partition_overwrite_mode: Literal["static", "dynamic"] | None = option(
        values.one_of("static", "dynamic"),
        None,
        Scope.WRITE,
        doc="What an overwrite with `partitionColumns` replaces: the whole folder, or the `k=v` folders that rows "
        "are written to. Without it, `spark.sql.sources.partitionOverwriteMode` decides.",
    )
    index: Literal["sidecar", "ffs", "none"] = option(
        values.one_of("sidecar", "ffs", "none"),
        "sidecar",
        Scope.WRITE,
        doc="How readers find where to split a large file: by a small file beside it, FFS's index blocks, or not.",
    )
    checksums: bool = option(
        values.boolean,
        False,
        Scope.WRITE,
        doc="Whether the small file beside each file has checksums, which reading a batch and `pbio verify` compare.",
    )
    write_format: str | Record | None = option(  # noqa: RUF009 - a field, as the others
        values.written_format,
        None,
        Scope.WRITE,
        Scope.TO,
        doc="The format to write in, exactly: that of a file, with its layout and ID, so that the programs which "
        "read that file read this one. Columns must be its fields; values that a field does not have are errors.",
    )
    nulls: Literal["pointer", "mask", "value", "refuse"] | None = option(
        values.one_of("pointer", "mask", "value", "refuse"),
        None,
        *ENCODES,
        doc="How a column that may be null is written: as a `pointer` to its type, which readers in C understand; "
        "with a bit in a hidden field, the `mask`, which is smaller and faster; with `nullValue` in place of "
        "nulls; or not, `refuse`: a null is an error. The default is `refuse`, on a channel what its type does.",
    )
    null_value: NullValue | None = option(  # noqa: RUF009 - a field, as the others
        null_replacement,
        None,
        *ENCODES,
        doc="What replaces nulls that the type cannot represent: numbers take the number, arrays become empty; "
        "dates, times and truth values need a value of their own. Reading gives no nulls back: see `nulls`.",
    )

    @property
    def reads_channels(self) -> bool:
        """Whether the path is a channel space, and what is to be read are channels of it."""
        return bool(self.channel or self.channels or self.channel_pattern)

    @property
    def writes_channels(self) -> bool:
        """Whether the path is a channel space, and the rows are published to channels of it."""
        return bool(self.channel or self.channel_column)
