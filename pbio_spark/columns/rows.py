"""Rows as a program has them -> columns; values that do not fit are refused, where Arrow would truncate them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow

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
        return _distinct(given)
    if hasattr(given, "columns") or not isinstance(given, Iterable):
        raise PbioError(
            "PBIO_BAD_VALUE",
            f"expected rows or Arrow columns, not {type(given).__name__}",
            hint="convert a pandas frame with pyarrow.Table.from_pandas(frame); write a Spark frame with "
            "df.write.format('pbio')",
        )
    assert form is not None
    schema = record_to_arrow(form.record)
    rows = list(given)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise PbioError(
                "PBIO_BAD_VALUE", f"row {number}: expected a mapping of fields to values, not {str(row)[:80]!r}"
            )
        for name in row:
            if name not in schema.names:
                raise PbioError(
                    "PBIO_UNKNOWN_COLUMN",
                    f"row {number}: unknown field {name!r}",
                    format=form.name,
                    hint=did_you_mean(str(name), schema.names)
                    or "to publish more fields than the channel's type has, give their format with format=",
                )
    for field in schema:
        if _has_fraction([row.get(field.name) for row in rows], field.type):
            reason = f"a row does not fit the type: a number in {field.name!r} is not whole"
            raise PbioError("PBIO_BAD_VALUE", reason, format=form.name)
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise PbioError("PBIO_BAD_VALUE", f"a row does not fit the type: {error}", format=form.name) from error


def with_row(error: PbioError, given: Rows) -> PbioError:
    """An error of encoding rows; if they are mappings, one about a null names the row."""
    if error.code != "PBIO_CANNOT_BE_NULL" or error.field is None or isinstance(given, pa.RecordBatch | pa.Table):
        return error
    hint = "give it a value: only strings and pointers can be null"
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


def _has_fraction(values: Sequence[Any], type_: pa.DataType) -> bool:
    """Whether a value with a fraction is given for whole numbers, dates or times."""
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        return any(value % 1 for value in values if isinstance(value, float | np.floating | Decimal))
    given = [value for value in values if isinstance(value, Mapping | Sequence | np.ndarray)]
    if pa.types.is_struct(type_):
        rows = [value for value in given if isinstance(value, Mapping)]
        return any(_has_fraction([row.get(field.name) for row in rows], field.type) for field in type_)
    if pa.types.is_map(type_):
        pairs = [pair for value in given for pair in (value.items() if isinstance(value, Mapping) else value)]
        return any(
            _has_fraction([pair[i] for pair in pairs], part) for i, part in ((0, type_.key_type), (1, type_.item_type))
        )
    if pa.types.is_list(type_):
        return _has_fraction([one for value in given for one in value], type_.value_type)
    return False
