"""The options of writing files and records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ecode.types import Record
from pbio_spark.columns import NullValue, null_replacement
from pbio_spark.formats.machine import MACHINES
from pbio_spark.source.options import values
from pbio_spark.source.options.channel import ChannelOptions
from pbio_spark.source.options.scopes import ENCODES, Scope, option


@dataclass(frozen=True, slots=True)
class WriteOptions(ChannelOptions):
    """`ChannelOptions`, and the options of writing."""

    machine: str = option(
        values.one_of(*MACHINES),
        "native",
        *ENCODES,
        doc="The machine to lay records out for. On a channel, `native` is the machine of the channel's own format.",
    )
    byte_order: str | None = option(
        values.one_of("little", "big"), None, *ENCODES, doc="The byte order, instead of the machine's."
    )
    pointer_size: str | None = option(
        values.one_of("4", "8"), None, *ENCODES, doc="The size of pointers in bytes, instead of the machine's."
    )
    max_records_per_file: int | None = option(values.positive, None, Scope.WRITE, doc="The most records in one file.")
    partition_columns: tuple[str, ...] = option(
        values.names, (), Scope.WRITE, doc="Columns that become `k=v` folders instead of fields."
    )
    partition_overwrite_mode: Literal["static", "dynamic"] | None = option(
        values.one_of("static", "dynamic"),
        None,
        Scope.WRITE,
        doc="What an overwrite with `partitionColumns` replaces: the whole folder, or only the `k=v` folders that "
        "receive rows. Without it, `spark.sql.sources.partitionOverwriteMode` decides.",
    )
    index: Literal["sidecar", "ffs", "none"] = option(
        values.one_of("sidecar", "ffs", "none"),
        "sidecar",
        Scope.WRITE,
        doc="How readers find the places to split a large file: through a small file next to it, through FFS's "
        "index blocks, or not at all.",
    )
    checksums: bool = option(
        values.boolean,
        False,
        Scope.WRITE,
        doc="Whether the small file next to each file has checksums, which batch reads and `pbio verify` compare.",
    )
    write_format: str | Record | None = option(  # noqa: RUF009 - a field, as the others
        values.written_format,
        None,
        Scope.WRITE,
        Scope.TO,
        doc="The exact format to write in: that of a file, with its layout and ID, so programs that read that file "
        "can read the new one. Columns must be its fields; values that a field cannot hold are errors.",
    )
    nulls: Literal["pointer", "mask", "value", "refuse"] | None = option(
        values.one_of("pointer", "mask", "value", "refuse"),
        None,
        *ENCODES,
        doc="How a column that may be null is written: `pointer`, as a pointer to its type, which readers in C "
        "understand; `mask`, with a bit in a hidden field, which is smaller and faster; `value`, with `nullValue` "
        "in place of nulls; or `refuse`, where a null is an error. The default is `refuse`, or on a channel the "
        "way in which its type marks nulls.",
    )
    null_value: NullValue | None = option(  # noqa: RUF009 - a field, as the others
        null_replacement,
        None,
        *ENCODES,
        doc="What replaces nulls that the type cannot represent: numbers take the number, arrays become empty; "
        "dates, times and booleans need their own values. Reading does not restore the nulls: see `nulls`.",
    )
