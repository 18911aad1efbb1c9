"""The catalogue of a dataset: a row for each variable, or for each attribute that is set or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ecode.errors import valid_text
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.attributes import DatasetAttribute
from pbio_spark.bp5.meta.blocks import dimensions_of
from pbio_spark.bp5.meta.metadata import Located
from pbio_spark.bp5.meta.variables import Variable
from pbio_spark.bp5.rows.finish import finish, narrowed
from pbio_spark.bp5.rows.survey import SEPARATOR, chunks, plain
from pbio_spark.bp5.rows.wanted import DatasetPart, Wanted
from pbio_spark.errors import PbioError

VARIABLES = pa.schema(
    [
        ("dataset", pa.string()),
        ("variable", pa.string()),
        ("type", pa.string()),
        ("kind", pa.string()),
        ("dimensions", pa.int32()),
        ("steps", pa.int64()),
        ("first_step", pa.int64()),
        ("last_step", pa.int64()),
        ("blocks", pa.int64()),
    ]
)
"""The columns of `rows=variables`."""

ATTRIBUTES = pa.schema(
    [
        ("dataset", pa.string()),
        ("step", pa.int64()),
        ("attribute", pa.string()),
        ("variable", pa.string()),
        ("name", pa.string()),
        ("type", pa.string()),
        ("is_array", pa.bool_()),
        ("value", pa.list_(pa.string())),
    ]
)
"""The columns of `rows=attributes`. Values are text, in which numbers are exact."""


@dataclass
class _Seen:
    """The observations on a variable."""

    dimensions: int
    steps: int
    first: int
    last: int
    blocks: int


def read_variables(part: DatasetPart, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """A row for each form of each variable in the dataset."""
    seen: dict[Variable, _Seen] = {}
    with DatasetFolder(part.dataset.path) as folder:
        for steps in chunks(part.steps):
            try:
                _see(seen, part.dataset.locate(folder, steps))
            except PbioError:
                if wanted.mode == "FAILFAST":
                    raise
                for step in steps:
                    yield from _see_one(seen, part, wanted, folder, step)
    rows = [
        {
            "dataset": valid_text(part.dataset.path),
            "variable": valid_text(variable.name),
            "type": variable.type_name,
            "kind": str(variable.shape),
            "dimensions": one.dimensions,
            "steps": one.steps,
            "first_step": one.first,
            "last_step": one.last,
            "blocks": one.blocks,
        }
        for variable, one in seen.items()
    ]
    yield _batch(rows, VARIABLES, part, wanted)


def _see_one(
    seen: dict[Variable, _Seen], part: DatasetPart, wanted: Wanted, folder: DatasetFolder, step: Any
) -> Iterator[pa.RecordBatch]:
    try:
        _see(seen, part.dataset.locate(folder, [step]))
    except PbioError as error:
        if wanted.mode == "PERMISSIVE":
            yield finish({}, [step], part, wanted, [error])


def _see(seen: dict[Variable, _Seen], located: Located) -> None:
    found: dict[Variable, _Seen] = {}
    steps: dict[Variable, set[int]] = {}
    for group in located.groups:
        for place in group.form.places.values():
            rows = np.flatnonzero(group.present(place))
            if not len(rows):
                continue
            numbers = {located.steps[int(step)].number for step in np.unique(group.step[rows])}
            dimensions, blocks = 0, 0
            if place.array is not None:
                dimensions = max(dimensions_of(group, place))
                blocks = int(group.integers(place.array.numbers["BlockCount"], rows).sum())
            one = found.setdefault(place.variable, _Seen(dimensions, 0, min(numbers), max(numbers), 0))
            one.blocks += blocks
            steps.setdefault(place.variable, set()).update(numbers)
    for variable, one in found.items():
        numbers = steps[variable]
        known = seen.setdefault(variable, _Seen(one.dimensions, 0, min(numbers), max(numbers), 0))
        known.steps += len(numbers)
        known.last = max(known.last, *numbers)
        known.blocks += one.blocks


def read_attributes(part: DatasetPart, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """A row for each attribute, and another for each change of its value."""
    names = sorted(part.dataset.formats.variables, key=len, reverse=True)
    known: Mapping[str, DatasetAttribute] = {}
    rows: list[dict[str, Any]] = []
    with DatasetFolder(part.dataset.path) as folder:
        for step in part.steps:
            try:
                now = part.dataset.attributes(folder, [step], known)
            except PbioError as error:
                if wanted.mode == "FAILFAST":
                    raise
                if wanted.mode == "PERMISSIVE":
                    yield finish({}, [step], part, wanted, [error])
                continue
            rows += [_row(one, step.number, names, part) for name, one in now.items() if known.get(name) != one]
            known = now
    yield _batch(rows, ATTRIBUTES, part, wanted)


def _row(one: DatasetAttribute, step: int, names: list[str], part: DatasetPart) -> dict[str, Any]:
    owner = next((name for name in names if one.name.startswith(name + SEPARATOR)), None)
    values = one.value if one.is_array else [one.value]
    return {
        "dataset": valid_text(part.dataset.path),
        "step": step,
        "attribute": valid_text(one.name),
        "variable": None if owner is None else valid_text(owner),
        "name": valid_text(one.name if owner is None else one.name[len(owner) + 1 :]),
        "type": one.type_name,
        "is_array": one.is_array,
        "value": [str(plain(value)) for value in values],
    }


def _batch(rows: list[dict[str, Any]], schema: pa.Schema, part: DatasetPart, wanted: Wanted) -> pa.RecordBatch:
    columns = {
        column.name: narrowed(
            pa.array([row[column.variable] for row in rows], schema.field(column.variable).type),
            wanted.schema.field(column.name),
        )
        for column in wanted.columns
    }
    return finish(columns, list(part.steps[:1]) if columns else [part.steps[0]] * len(rows), part, wanted)
