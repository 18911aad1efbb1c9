"""`Wanted`: what a reader wants of all datasets; `Part`: what of one dataset a task reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pyarrow as pa

from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.meta.index import Step

Mode: TypeAlias = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
RowShape: TypeAlias = Literal["steps", "elements", "blocks", "variables", "attributes"]

CORRUPT_TYPE = pa.struct(
    [
        ("step", pa.int64()),
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("variable", pa.string()),
        ("reason", pa.string()),
    ]
)
"""The type of the corrupt-record column, which may have any of these parts."""

METADATA_TYPE = pa.struct(
    [
        ("file_path", pa.string()),
        ("step", pa.int64()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("writers", pa.int32()),
    ]
)
"""The type of the metadata column, which may have any of these parts: the dataset, the step, its metadata in md.0."""


@dataclass(frozen=True, slots=True)
class ColumnOf:
    """A column that a variable fills.

    Attributes:
        name: of the column.
        variable: the name of the variable.
        part: of an N x k table, which of the k.
    """

    name: str
    variable: str
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader wants, the same for every dataset.

    Attributes:
        schema: of the batches.
        columns: those that variables fill.
        step_column, corrupt_column, metadata_column: their names, where the schema has them.
        index_columns: of `elements`, their names, as far as the schema has them, by dimension.
        partition_columns: whose values the `Part` gives.
        uncovered: what an element is that no block has.
    """

    schema: pa.Schema
    columns: tuple[ColumnOf, ...]
    rows: RowShape = "steps"
    step_column: str | None = None
    corrupt_column: str | None = None
    metadata_column: str | None = None
    index_columns: Mapping[str, int] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    mode: Mode = "FAILFAST"
    unsigned_long_as: str = "decimal"
    uncovered: Literal["zero", "null"] = "zero"
    records_per_batch: int = 32768
    max_batch_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """What of a dataset a task reads.

    Attributes:
        steps: in order; all of a flattened dataset.
        partition: the values of the partition columns.
        scales: by variable, what its values are multiplied by.
        share: which of how many equal shares of each step's elements or blocks.
    """

    dataset: Dataset
    steps: tuple[Step, ...]
    partition: tuple[pa.Scalar, ...] = ()
    scales: Mapping[str, float] = field(default_factory=dict)
    share: tuple[int, int] = (0, 1)
