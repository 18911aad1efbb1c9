r"""From columns to a record type that is written, under names that every FFS program can read.

>>> import pyarrow as pa
>>> columns_to_record(pa.schema([("sum(x)", pa.int64())]), "totals")  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
pbio_spark.errors.PbioError: [PBIO_BAD_NAME] a field called 'sum(x)' ends FFS programs that read it: '(' begins ...
  at: format 'totals', field $.sum(x)
  hint: give it another name first: .withColumnRenamed('sum(x)', 'sum_x'), or .alias('sum_x') where it is computed
"""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa

from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.schema import shown
from pbio_spark.formats.body.opt_info import Nulls
from pbio_spark.formats.body.type_string import shorten

_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")


def columns_to_record(schema: pa.Schema, name: str, nulls: Nulls = "none") -> Record:
    """The record type to write columns in, as `arrow_to_record` makes it.

    A byte that is not UTF-8 becomes itself again where a name shows it as an escape.

    Raises PBIO_BAD_NAME, and what `arrow_to_record` raises.
    """
    record = arrow_to_record(plain_schema(schema), name, nulls)
    structs = [
        replace(
            struct,
            name=meant(name) if struct.name == name else struct.name,
            fields=tuple(f if f.notes.hidden else replace(f, name=meant(f.name)) for f in struct.fields),
        )
        for struct in record.structs
    ]
    return writable(Record(tuple(structs)))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with one Arrow type for each kind of value: other types of pandas, Polars and so on are cast to it.

    >>> plain_schema(pa.schema([("a", pa.dictionary(pa.int8(), pa.large_string())), ("t", pa.timestamp("ns"))]))
    a: string
    t: timestamp[us]
    """
    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema], schema.metadata)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    is_ = pa.types
    if is_.is_dictionary(type_) or is_.is_run_end_encoded(type_):
        return _plain_type(type_.value_type)
    if is_.is_large_string(type_) or is_.is_string_view(type_):
        return pa.string()
    if is_.is_large_binary(type_) or is_.is_binary_view(type_) or is_.is_fixed_size_binary(type_):
        return pa.binary()
    if is_.is_float16(type_):
        return pa.float32()
    if is_.is_date64(type_):
        return pa.date32()
    if is_.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if is_.is_decimal(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    if is_.is_struct(type_):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in type_])
    if is_.is_map(type_):
        key, item = (field.with_type(_plain_type(field.type)) for field in (type_.key_field, type_.item_field))
        return pa.map_(key, item)
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)))
    return type_


def writable(record: Record) -> Record:
    """The same record type. Raises PBIO_BAD_NAME if programs that use the FFS library end when they read it.

    The library takes what follows a parenthesis in a field's name for the field's default (ffs-wire-format 5.5) and
    corrupts its memory where names in a file still have one. It reads all other names: with blanks or
    brackets, of any length, and those that differ only in case.
    """
    for struct in record.structs:
        for field in struct.fields:
            if "(" in field.name or "\0" in field.name:
                said, other = shown(field.name), re.sub(r" *[()\0]+ *", "_", shown(field.name)).strip("_") or "column"
                reason = "'(' begins a default" if "(" in said else "no name holds a NUL"
                raise PbioError(
                    "PBIO_BAD_NAME",
                    f"a field called {shorten(said)} ends FFS programs that read it: {reason}",
                    format=shorten(record.name),
                    field=f"$.{said}" if struct is record.structs[0] else f"{struct.name}.{said}",
                    hint=f"give it another name first: .withColumnRenamed({said!r}, {other!r}), or .alias({other!r}) "
                    "where it is computed",
                )
    return record


def meant(name: str) -> str:
    r"""The name that messages and columns show as this one (see `shown`).

    >>> meant(r"gr\xf6\xdfe"), meant(r"\x41\xc3\xb6")
    ('gr\udcf6\udcdfe', '\\x41\\xc3\\xb6')
    """
    raw = _BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), name)
    return raw if shown(raw) == name else name
