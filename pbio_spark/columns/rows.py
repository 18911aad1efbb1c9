"""Rows as a program has them -> columns; values that do not fit are refused, where Arrow would truncate them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import Array, Pointer, Record, Ref, Struct, Type
from pbio_spark.errors import PbioError, step_to_text
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.given import misfit, what_to_give
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.written import plain_schema

Rows: TypeAlias = "pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]]"
"""Rows as mappings of names to values, or as columns."""


def rows_to_batch(given: Rows, form: Format | None) -> pa.RecordBatch:
    """Rows as one batch.

    Args:
        form: the format of rows that are mappings; columns need none.

    Raises:
        PbioError: PBIO_UNKNOWN_COLUMN and PBIO_BAD_VALUE for rows; PBIO_BAD_VALUE for what is neither rows nor columns;
            PBIO_NAME_COLLISION for columns of one name.
    """
    if isinstance(given, pa.Table):
        given = pa.RecordBatch.from_struct_array(_distinct(given).to_struct_array().combine_chunks())
    if isinstance(given, pa.RecordBatch):
        return _plain(_distinct(given))
    check_rows(given)
    assert form is not None
    rows = list(given)
    try:
        return _mappings_to_batch(rows, form.record, _schema_of(form))
    except PbioError:
        for number, row in enumerate(rows):
            try:
                _mappings_to_batch([row], form.record, _schema_of(form))
            except PbioError as error:
                error.reason = f"row {number}: {error.reason}"
                raise error.at(format=form.name) from None
        raise


def check_rows(given: Any) -> None:
    """Raise PBIO_BAD_VALUE for what is neither columns nor a list of rows, before it is taken apart as one."""
    hint = _row_hint(given)
    if hasattr(given, "columns"):
        hint = "convert a pandas frame with pyarrow.Table.from_pandas(frame); write a Spark frame with "
        hint += "df.write.format('pbio')"
    elif isinstance(given, Iterable) and not hint:
        return
    hint = hint or "give a dict, a list of dicts, or a pyarrow.Table"
    raise PbioError("PBIO_BAD_VALUE", f"expected rows or Arrow columns, not {type(given).__name__}", hint=hint)


def _row_hint(row: Any) -> str:
    """How to turn an object with fields into a dict; empty if unknown."""
    if isinstance(row, type):
        return ""
    if is_dataclass(row):
        return "a dataclass becomes a dict by dataclasses.asdict(row)"
    if isinstance(row, tuple) and hasattr(row, "_asdict"):
        return "a named tuple becomes a dict by row._asdict()"
    if isinstance(row, str | bytes):
        return "a line of JSON becomes a dict by json.loads(line)"
    for method in ("to_dict", "asDict", "model_dump"):  # of pandas, Spark and pydantic
        if hasattr(row, method):
            return f"a {type(row).__name__} becomes a dict by row.{method}()"
    return ""


@lru_cache(256)
def _schema_of(form: Format) -> pa.Schema:
    return record_to_arrow(form.record)


def _plain(given: pa.RecordBatch) -> pa.RecordBatch:
    schema = plain_schema(given.schema)
    columns = []
    for field, column in zip(schema, given.columns, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            hint = "PBIO has microseconds: round the times" if pa.types.is_timestamp(field.type) else ""
            reason = f"{column.type} to {field.type}: {error}"
            raise PbioError("PBIO_BAD_VALUE", reason, field="$" + step_to_text(field.name), hint=hint) from None
    return columns_to_batch(columns, schema, given.num_rows)


def columns_to_batch(columns: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Columns as a batch of so many rows, also if there is none, from which Arrow would take the number of rows."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _mappings_to_batch(rows: list[Any], record: Record, schema: pa.Schema) -> pa.RecordBatch:
    fields = _given_fields(schema, record.structs[0], record, rows, "$")
    columns = []
    for field in fields:
        values = [row.get(field.name) for row in rows]
        where = "$" + step_to_text(field.name)
        wrong = misfit(values, field.type)
        if wrong is not None:
            reason, hint = wrong
            raise PbioError("PBIO_BAD_VALUE", f"{_first(values)} {reason}", field=where, hint=hint)
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            why = "" if isinstance(error, OverflowError) else f": {error}"
            reason = f"{_first(values)} does not fit {field.type}{why}"
            hint = what_to_give(values[0], field.type)
            raise PbioError("PBIO_BAD_VALUE", reason, field=where, hint=hint) from error
    return columns_to_batch(columns, pa.schema(fields), len(rows))


def _first(values: Sequence[Any]) -> str:
    text = repr(values[0])
    return text if len(text) <= 60 else text[:40] + "..."


def _given_fields(
    fields: Iterable[pa.Field], struct: Struct, record: Record, rows: Sequence[Any], where: str
) -> list[pa.Field]:
    """The fields, without the counts of arrays that no row gives: the arrays say them.

    Raises PBIO_UNKNOWN_COLUMN for what is not among the fields, which Arrow would ignore in a structure.
    """
    fields = list(fields)
    names = [field.name for field in fields]
    given: set[Any] = set()
    for row in rows:
        if type(row) is not dict and not isinstance(row, Mapping):
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"expected a mapping of fields to values, not {str(row)[:80]!r}",
                field=None if where == "$" else where,
                hint=_row_hint(row) or "give each row as a dict, such as {'x': 1}",
            )
        given.update(row)
    for name in sorted(given.difference(names), key=str):
        hint = did_you_mean(str(name), names)
        if not hint and where == "$":
            hint = f"the fields are {', '.join(names)}"[:200]
        raise PbioError(
            "PBIO_UNKNOWN_COLUMN", f"unknown field {name!r}", field=None if where == "$" else where, hint=hint
        )
    kept = []
    for field in fields:
        if field.name in given:
            known = struct.find(field.name)
            if known is None or not pa.types.is_nested(field.type):
                kept.append(field)
                continue
            values = [row[field.name] for row in rows if row.get(field.name) is not None]
            type_ = _given_type(field.type, known.type, record, values, where + step_to_text(field.name))
            kept.append(field.with_type(type_))
        elif field.name not in struct.controls:
            kept.append(field)
    return kept


def _given_type(type_: pa.DataType, of: Type, record: Record, values: Sequence[Any], where: str) -> pa.DataType:
    if isinstance(of, Pointer):
        return _given_type(type_, of.target, record, values, where)
    if isinstance(of, Array) and of.dims and pa.types.is_list(type_):
        items = [
            one for value in values if isinstance(value, Sequence | np.ndarray) for one in value if one is not None
        ]
        item = _given_type(type_.value_type, replace(of, dims=of.dims[1:]), record, items, f"{where}[]")
        return pa.list_(type_.value_field.with_type(item))
    if isinstance(of, Array) and not of.dims:
        return _given_type(type_, of.element, record, values, where)
    if isinstance(of, Ref) and pa.types.is_struct(type_):
        return pa.struct(_given_fields(type_, record.struct(of.name), record, values, where))
    return type_


def with_row(error: PbioError, given: Rows) -> PbioError:
    """An error of encoding rows; if they are mappings, one about a null names the row."""
    if error.code != "PBIO_CANNOT_BE_NULL" or error.field is None:
        return error
    hint = (
        "give it a value (defaults of a type are for readers), or a type that has nulls: a pointer, such as '*float64' "
        "in JSON or Pointer(FLOAT64), or that of an Arrow schema, which open_writer takes with nulls='mask'"
    )
    if isinstance(given, pa.RecordBatch | pa.Table):
        return PbioError(error.code, error.reason, format=error.format, field=error.field, hint=hint)
    name = error.field.removeprefix("$.")
    number = next((number for number, row in enumerate(given) if row.get(name) is None), None)
    if number is None or "." in name or "[" in name:  # in a structure or an array
        return PbioError(error.code, error.reason, format=error.format, field=error.field, hint=hint)
    reason = f"row {number}: {name!r} is None" if name in given[number] else f"row {number} has no {name!r}"
    return PbioError(error.code, reason, format=error.format, hint=hint)


def _distinct(given: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    names = given.schema.names
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise PbioError("PBIO_NAME_COLLISION", f"several columns are named {double!r}", hint="rename them")
    return given
