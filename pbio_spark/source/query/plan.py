"""Options, columns and formats -> the plan of reading, for files, streams, channels and values alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa

from pbio_spark.columns import (
    CORRUPT_TYPE,
    METADATA_TYPE,
    BatchLimits,
    ErrorPolicy,
    ReadPlan,
    Selection,
    plan_read,
    schema_to_symbols,
    with_converters,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.request import options_to_request
from pbio_spark.source.query.schema import presentation_of
from pbio_spark.source.query.store import store_of
from pbio_spark.source.query.unfilled import Unfilled

FUSED, FUSED_COLUMN = 1 << 30, 32 << 20
"""The least bytes of records, and per column, for which fused converters are compiled if not cached. Measured: one
takes 0.015 s per field to compile, for which the query waits, and then saves 0.1 s per GB (of strings and arrays) to 1
s per GB (of numbers)."""


@dataclass(frozen=True, slots=True)
class Coming:
    """The records to be read.

    Attributes:
        formats: the formats selected by the options.
        described: all formats that options may name, including those without records or not selected.
        size: of all records together, in bytes, against which compiling is weighed.
        counts: how many records each format has, by its ID; None if unknown.
    """

    formats: Sequence[Format]
    described: Iterable[Format]
    size: int = 0
    counts: Mapping[bytes, int] | None = None


@dataclass(slots=True)
class QueryPlanner:
    """Plans a query: once for a batch, repeatedly for a stream; remembers its warnings.

    Attributes:
        schema: the columns of the rows, special ones included.
        is_projection: the user named the columns.
        is_stream: formats that the options name may appear later.
        is_open: unknown formats may appear, and fill what known ones do not.
    """

    options: Options
    schema: pa.Schema
    is_projection: bool
    is_stream: bool = False
    is_open: bool = False
    unfilled: Unfilled = field(init=False)

    def __post_init__(self) -> None:
        self.unfilled = Unfilled(self.options, self.is_projection, self.is_open)

    def plan(self, coming: Coming, folders: Sequence[str] = ()) -> ReadPlan:
        """The plan of reading records, compiled and checked.

        Args:
            folders: the names of the `k=v` folders of the files.

        Raises PBIO_INCOMPATIBLE_TYPE, PBIO_AMBIGUOUS_NAME and PBIO_NAME_COLLISION for impossible columns,
        PBIO_UNFILLED, and what `options_to_request` and `with_formats` raise.
        """
        selection = options_to_selection(self.options, self.schema, folders)
        described = tuple(coming.described)
        request = options_to_request(
            self.options,
            selection.data_schema if self.is_projection else None,
            coming.formats,
            is_stream=self.is_stream,
            described=described,
        )
        is_union = not (self.is_projection or self.options.reader_format) and self.options.merge_schema
        selection = replace(selection, request=request, query=uuid4().hex if is_union else "")
        plan = with_formats(selection_to_plan(selection, self.options, described), coming.formats, coming.size)
        self.unfilled.check([(plan, form) for form in coming.formats], [plan], coming.counts)
        return plan


def options_to_selection(
    options: Options, schema: pa.Schema, folders: Sequence[str] = (), metadata_type: pa.StructType = METADATA_TYPE
) -> Selection:
    """The records and columns that options select.

    Args:
        folders: the names of the `k=v` folders of the files.
        metadata_type: the possible parts of the metadata column.

    Raises PBIO_INCOMPATIBLE_TYPE if a special column has a wrong type.
    """
    corrupt, metadata = options.column_name_of_corrupt_record, options.metadata_column
    check_special(schema, corrupt, CORRUPT_TYPE, "columnNameOfCorruptRecord")
    check_special(schema, metadata, metadata_type, "metadataColumn")
    by_folded = {name.lower(): name for name in schema.names}
    return Selection(
        schema=schema,
        presentation=presentation_of(options),
        aliases=options.field_aliases,
        defaults=options.defaults,
        names=options.format_name,
        ids=options.format_id,
        corrupt_column=corrupt if corrupt in schema.names else None,
        metadata_column=metadata if metadata in schema.names else None,
        partition_columns=tuple(by_folded[name.lower()] for name in folders if name.lower() in by_folded),
    )


def selection_to_plan(selection: Selection, options: Options, formats: Iterable[Format] = ()) -> ReadPlan:
    """A plan with the error policy and the limits of options, before formats are known."""
    return plan_read(
        selection,
        formats,
        store=store_of(options),
        errors=ErrorPolicy(
            options.mode,
            "error" if options.truncated_tail in (None, "error") else "ignore",
            options.ignore_corrupt_files,
            options.resync,
        ),
        limits=BatchLimits(options.records_per_batch, options.max_batch_bytes),
    )


def with_formats(plan: ReadPlan, formats: Sequence[Format], size: int) -> ReadPlan:
    """A plan with the converters of known formats added.

    Args:
        size: of all records together, in bytes, against which compiling is weighed.

    Raises what `compile_converter` raises, PBIO_REJECTED, and PBIO_NAME_COLLISION if a special column has the name of a
    field.
    """
    selection = plan.selection
    request = selection.request
    types = (*(form.record for form in formats), *(record for _, record in (request.targets if request else ())))
    symbols = {**selection.symbols, **schema_to_symbols(selection.data_schema, types, selection.aliases)}
    plan = replace(plan, selection=replace(selection, symbols=symbols))
    coming = [form for form in formats if form.id not in plan.converters]
    for form in coming:
        _check_collision(form, selection)
    is_strict = request is not None and request.on_reject == "fail"
    fused = size >= max(FUSED, FUSED_COLUMN * len(selection.data_schema))
    plan = with_converters(plan, coming, fused=fused, is_strict=is_strict)
    is_named = bool(selection.names or selection.ids or request is not None)
    only_name = None if is_named else next((form.name for form in formats), None)
    return replace(plan, selection=replace(plan.selection, only_name=only_name))


def _check_collision(form: Format, selection: Selection) -> None:
    """Raise PBIO_NAME_COLLISION if a special column has the name of a field."""
    special = {selection.corrupt_column, selection.metadata_column, *selection.partition_columns} - {None}
    for of_format in form.record.fields:
        if of_format.name in special and not of_format.notes.hidden:
            raise PbioError(
                "PBIO_NAME_COLLISION",
                f"the column {of_format.name!r} is a field of the records, but the source adds a column of that name",
                format=form.name,
                hint='rename the field with the option fieldAliases, {"other name": "field"}, the column with '
                "metadataColumn or columnNameOfCorruptRecord, or the folders of the files",
            )


def check_special(schema: pa.Schema, name: str | None, type_: pa.StructType, option: str) -> None:
    """Check that a special column has its type, or is a structure of some of its parts."""
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
