"""The columns of variables, and all others -> a batch of the wanted schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from ecode.errors import valid_text
from pbio_spark.bp5.meta.index import Step
from pbio_spark.bp5.rows.wanted import DatasetPart, Wanted
from pbio_spark.columns import columns_to_batch
from pbio_spark.errors import PbioError


def finish(
    columns: Mapping[str, pa.Array],
    steps: Sequence[Step],
    part: DatasetPart,
    wanted: Wanted,
    errors: Sequence[PbioError] = (),
) -> pa.RecordBatch:
    """A batch with all columns.

    Args:
        columns: those made so far.
        steps: the step of each row, or the only step of all rows.
        errors: the error of the only row.
    """
    count = len(next(iter(columns.values()))) if columns else len(steps)
    given = dict(zip(wanted.partition_columns, part.partition, strict=True))
    arrays: list[pa.Array] = []
    for field in wanted.schema:
        if field.name in columns:
            arrays.append(columns[field.name])
        elif field.name == wanted.step_column:
            arrays.append(narrowed(numbers_of([step.number for step in steps], count), field))
        elif field.name in given:
            arrays.append(pa.repeat(given[field.name], count))
        elif field.name == wanted.metadata_column:
            arrays.append(_metadata(steps, count, part, field.type))
        elif field.name == wanted.corrupt_column and errors:
            arrays.append(pa.array([_corrupt(errors, steps[0])], field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return columns_to_batch(arrays, wanted.schema, count)


def narrowed(values: pa.Array, field: pa.Field) -> pa.Array:
    """Values as the type of a column, which may be smaller. Raises PBIO_VALUE_BEYOND_TYPE."""
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid as error:
        raise PbioError(
            "PBIO_VALUE_BEYOND_TYPE",
            f"{field.type} is too small: {error}",
            field=field.name,
            hint="ask for a wider type in .schema(...)",
        ) from None


def numbers_of(numbers: Sequence[int], count: int) -> pa.Array:
    """A number for each row; a single number is repeated."""
    return pa.array(np.full(count, numbers[0], np.int64) if len(numbers) == 1 else np.array(numbers, np.int64))


def _metadata(steps: Sequence[Step], count: int, part: DatasetPart, type_: pa.StructType) -> pa.Array:
    values = [
        {
            "file_path": valid_text(part.dataset.path),
            "step": step.number,
            "offset": step.position,
            "length": step.length,
            "writers": step.writers,
        }
        for step in steps
    ]
    wanted = [{field.name: value[field.name] for field in type_} for value in values]
    if len(wanted) == 1:
        return pa.repeat(pa.scalar(wanted[0], type_), count)
    return pa.array(wanted, type_)


def _corrupt(errors: Sequence[PbioError], step: Step) -> dict[str, object]:
    names = dict.fromkeys(valid_text(error.field) for error in errors if error.field is not None)
    return {
        "step": step.number,
        "file": None if errors[0].file is None else valid_text(errors[0].file),
        "offset": errors[0].offset,
        "variable": ", ".join(names) or None,
        "reason": valid_text("; ".join(dict.fromkeys(f"[{error.code}] {error.reason}" for error in errors))),
    }
