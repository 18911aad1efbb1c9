"""Options, columns and formats -> `Wanted`, which is all that reading needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from morph import Rejection
from pbio_spark.columns.decode.symbols import schema_to_symbols
from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.walk import walk_kernel
from pbio_spark.columns.files.wanted import CORRUPT_TYPE, METADATA_TYPE, Wanted
from pbio_spark.columns.programs.routes import rejection_to_error
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
from pbio_spark.formats.store import FolderStore
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.request import options_to_request
from pbio_spark.source.query.schema import presentation_of

WORTH_FUSING = 1 << 30
"""From how many bytes of records on fused converters are compiled for them, if they have not been before. Measured: one
takes 0.03 s a field to compile, and then saves 0.1 s a GB (of strings and arrays) to 1 s (of numbers)."""


def options_to_wanted(
    options: Options, schema: pa.Schema, folders: Sequence[str] = (), metadata_type: pa.StructType = METADATA_TYPE
) -> Wanted:
    """What is wanted, before any format is known.

    Args:
        folders: the names of the `k=v` folders that the files lie in.
        metadata_type: what the metadata column may have.

    Raises PBIO_INCOMPATIBLE_TYPE if a special column is of another type than it can be.
    """
    corrupt, metadata = options.column_name_of_corrupt_record, options.metadata_column
    _check_special(schema, corrupt, CORRUPT_TYPE, "columnNameOfCorruptRecord")
    _check_special(schema, metadata, metadata_type, "metadataColumn")
    by_folded = {name.lower(): name for name in schema.names}
    return Wanted(
        schema=schema,
        presentation=presentation_of(options),
        aliases=options.field_aliases,
        defaults=options.defaults,
        names=options.format_name,
        ids=options.format_id,
        store=None if options.format_store is None else FolderStore(options.format_store),
        mode=options.mode,
        corrupt_column=corrupt if corrupt in schema.names else None,
        metadata_column=metadata if metadata in schema.names else None,
        partition_columns=tuple(by_folded[name.lower()] for name in folders if name.lower() in by_folded),
        resync=options.resync,
        tail="error" if options.truncated_tail in (None, "error") else "ignore",
        ignore_corrupt_files=options.ignore_corrupt_files,
        records_per_batch=options.records_per_batch,
        max_batch_bytes=options.max_batch_bytes,
        walk=walk_kernel(),
    )


def with_request(
    wanted: Wanted, options: Options, formats: Sequence[Format], *, is_projection: bool, is_stream: bool = False
) -> Wanted:
    """What is wanted, with what the options ask of MaxMatch. Raises what `options_to_request` raises."""
    columns = wanted.data_schema if is_projection else None
    request = options_to_request(options, columns, formats, is_stream=is_stream, described=wanted.formats)
    return replace(wanted, request=request)


def with_converters(wanted: Wanted, formats: Sequence[Format], size: int) -> Wanted:
    """What is wanted, with the converters of the formats that are known to come, and those that it had before.

    Args:
        size: of all records together, in bytes: what compiling is weighed against.

    Raises what `compile_converter` raises, PBIO_REJECTED, and PBIO_NAME_COLLISION if a special column has the name of a
    field.
    """
    targets = () if wanted.request is None else wanted.request.targets
    types = (*(form.record for form in formats), *(target for _, target in targets))
    symbols = {**wanted.symbols, **schema_to_symbols(wanted.data_schema, types, wanted.aliases)}
    wanted = replace(wanted, symbols=symbols)
    special = {wanted.corrupt_column, wanted.metadata_column, *wanted.partition_columns} - {None}
    converters = dict(wanted.converters)
    for form in formats:
        if form.id in converters:
            continue
        for field in form.record.fields:
            if field.name in special and not field.notes.hidden:
                raise PbioError(
                    "PBIO_NAME_COLLISION",
                    f"the column {field.name!r} is a field of the records and made by the source as well",
                    format=form.name,
                    hint='rename the field with the option fieldAliases, {"other name": "field"}, the column with '
                    "metadataColumn or columnNameOfCorruptRecord, or the folders of the files",
                )
        converter = compile_converter(wanted, form, fused=size >= WORTH_FUSING)
        if isinstance(converter, Rejection) and wanted.request is not None and wanted.request.on_reject == "fail":
            raise rejection_to_error(converter)
        converters[form.id] = converter
    unnamed = not (wanted.names or wanted.ids or wanted.request is not None)
    return replace(
        wanted, converters=converters, only_name=next((form.name for form in formats), None) if unnamed else None
    )


def _check_special(schema: pa.Schema, name: str | None, type_: pa.StructType, option: str) -> None:
    """A special column of the schema must be of its type, or a structure of some of its parts."""
    if name is None or name not in schema.names:
        return
    asked = schema.field(name).type
    known = {part.name: part.type for part in type_}
    is_part = pa.types.is_struct(asked) and all(known.get(part.name) == part.type for part in asked)
    if not (is_part or (type_ is CORRUPT_TYPE and pa.types.is_binary(asked))):
        raise PbioError(
            "PBIO_INCOMPATIBLE_TYPE",
            f"the column of the option {option} cannot be {asked}",
            field=f"$.{name}",
            hint=f"it is {arrow_to_ddl(pa.schema([pa.field(name, type_)]))}, or some parts of that"
            + (", or BINARY for the bytes alone" if type_ is CORRUPT_TYPE else ""),
        )
