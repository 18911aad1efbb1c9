"""Column functions for records in binary columns, as in Kafka; formats come out of band.

    from_pbio       binary -> structure
    to_pbio         structure -> binary
    schema_of_pbio  the columns of formats
    format_id_of    binary -> the ID of the record's format

Formats are given as `formats`, or found by ID in the store that the option `formatStore` names. The options are those
of the data source; docs/reference/options.md has a table for each function.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.functions import arrow_udf
from pyspark.sql.types import DataType, StructType

from pbio_spark.columns import ValueReader, format_to_encoder, structs_to_values
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format, check_format
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_spark_json
from pbio_spark.source.arrow import spark_to_arrow
from pbio_spark.source.options.from_python import options_to_strings
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.parse import parse_options
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.query.plan import Coming, QueryPlanner
from pbio_spark.source.query.schema import check_names, infer_schema, is_wanted, several_formats
from pbio_spark.source.query.store import store_of
from pbio_spark.source.reason_first import reason_first
from pbio_spark.source.write.write_format import formats_to_write

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["from_pbio", "to_pbio", "schema_of_pbio", "format_id_of"]

NO_OPTIONS: Mapping[str, Any] = {}


def from_pbio(
    data: Column | str,
    schema: StructType | str,
    formats: Iterable[Format] = (),
    options: Mapping[str, Any] = NO_OPTIONS,
    origin: Column | str | Sequence[str] | None = None,
) -> Column:
    """Decode a binary column, with one whole record and its header in each value, to a structure.

    Fields are found by name; a field that a record's format lacks is null. A null, a record that `filter` refuses, and
    a record of a format that `formatName` or `formatId` exclude become null. A bad record, or one of an unknown format,
    is an error. With `mode=PERMISSIVE` it becomes null; or, if the structure has the field named by
    `columnNameOfCorruptRecord` (`_corrupt_record struct<reason: string, bytes: binary>`), a structure of nulls with
    that field, whose `offset` is null.

    Args:
        data: the column.
        schema: of the structure, as DDL or a type; `schema_of_pbio` makes one.
        formats: known ones; everything for these and those already in the store is compiled here. Others are looked
            up in the store when they appear.
        options: of the data source, names in any case.
        origin: where records come from, for errors: a column of structures, or the names of columns, such as
            `["topic", "partition", "offset"]`.

    Raises PBIO_UNKNOWN_OPTION, PBIO_BAD_OPTION, PBIO_SEVERAL_FORMATS, PBIO_INCOMPATIBLE_TYPE, PBIO_AMBIGUOUS_NAME.
    """
    if isinstance(formats, Mapping):
        hint = "write from_pbio(data, schema, options={...})"
        raise PbioError("PBIO_BAD_OPTION", "the third argument of from_pbio must be formats", hint=hint)
    parsed = parse_options(options_to_strings(options), Scope.FROM)
    if parsed.mode == "DROPMALFORMED":
        raise PbioError(
            "PBIO_BAD_OPTION",
            "option 'mode' cannot be 'DROPMALFORMED' in from_pbio: a function returns one value for each record",
            hint="use PERMISSIVE and filter out the nulls",
        )
    struct = _struct(schema)
    known = _known(formats, parsed)
    is_open = parsed.format_store is not None
    planner = QueryPlanner(parsed, spark_to_arrow(struct), is_projection=True, is_open=is_open)
    reader = ValueReader(planner.plan(Coming(_selected(known, parsed), known)))

    def decode(values: pa.Array) -> pa.Array:
        with reason_first():
            return reader.read(values)

    if origin is None:
        return arrow_udf(decode, struct)(data)

    def decode_from(values: pa.Array, origins: pa.Array) -> pa.Array:
        with reason_first():
            return reader.read(values, origins)

    names = [origin] if isinstance(origin, str) else origin
    return arrow_udf(decode_from, struct)(data, F.struct(*names) if isinstance(names, Sequence) else names)


def to_pbio(data: Column | str, schema: StructType | str, options: Mapping[str, Any] = NO_OPTIONS) -> Column:
    """Encode a column of structures to binary, one whole record with its header in each value; null stays null.

    Args:
        data: the column.
        schema: its type, as DDL or a type, which decides the format.
        options: `formatName`, `machine` and others of writing. With `formatStore`, the format is first stored there.

    Raises PBIO_UNKNOWN_OPTION, PBIO_BAD_OPTION, PBIO_UNSUPPORTED_TYPE, PBIO_BAD_LAYOUT.
    """
    parsed = parse_options(options_to_strings(options), Scope.TO)
    arrow = spark_to_arrow(_struct(schema))
    form, *_ = formats_to_write(parsed, arrow, None)
    is_given = parsed.write_format is not None
    encoder = format_to_encoder(form, arrow, null_value=parsed.null_value, is_complete=is_given).checked()
    if (store := store_of(parsed)) is not None:
        store.put(form)

    def encode(structs: pa.Array) -> pa.Array:
        with reason_first():
            return structs_to_values(encoder, structs)

    return arrow_udf(encode, "binary")(data)


def schema_of_pbio(formats: Iterable[Format] = (), options: Mapping[str, Any] = NO_OPTIONS) -> StructType:
    """The columns of formats: the union of the versions of one format name, as in the data source.

    Raises PBIO_SEVERAL_FORMATS, PBIO_NO_SCHEMA, PBIO_CANNOT_MERGE, PBIO_NAME_COLLISION, PBIO_RECURSIVE_FORMAT.
    """
    parsed = parse_options(options_to_strings(options), Scope.FROM)
    known = _known(formats, parsed)
    schema = infer_schema(_selected(known, parsed), parsed, known)
    check_names(schema)
    return StructType.fromJson(json.loads(arrow_to_spark_json(schema)))


def format_id_of(data: Column | str) -> Column:
    """The format ID at the start of a record in a binary column, in hexadecimal; null if there is none."""
    column = F.col(data) if isinstance(data, str) else data
    size = F.when(F.substring(column, 5, 4) == F.lit(bytes(4)), 8)
    for version, length in ((1, 10), (2, 12)):
        size = size.when(F.substring(column, 1, 1) == F.lit(bytes([version])), length)
    return F.when(F.length(column) >= size, F.lower(F.hex(column.substr(F.lit(1), size))))


def _struct(schema: StructType | str) -> StructType:
    """The type of the structures. Raises PBIO_UNSUPPORTED_TYPE for another type, or without columns."""
    found: object = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if isinstance(found, StructType) and found.fields:
        return found
    said = found.simpleString() if isinstance(found, DataType) else type(found).__name__
    raise PbioError(
        "PBIO_UNSUPPORTED_TYPE",
        f"the schema must be a structure with columns, and is {said}",
        hint="give the columns with their types, such as 'n bigint, unit string'",
    )


def _known(formats: Iterable[Format], options: Options) -> tuple[Format, ...]:
    """The formats given and those in the store. Raises PBIO_BAD_TYPE if something else is given."""
    formats = [formats] if isinstance(formats, Format | str) else list(formats)
    for form in formats:
        check_format(form)
    return tuple(dict.fromkeys((*formats, *(store_of(options) or ()))))


def _selected(known: Iterable[Format], options: Options) -> list[Format]:
    """The formats that the options select. Raises PBIO_SEVERAL_FORMATS if none of several names is chosen."""
    selected = [form for form in known if is_wanted(form, options)]
    names = dict.fromkeys(form.name for form in selected)
    if len(names) > 1 and not (options.format_name or options.format_id or options.reader_format):
        raise several_formats(names)
    return selected
