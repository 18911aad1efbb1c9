"""`Wanted`: what a reader wants of all datasets; `DatasetPart`: the part of one dataset that a task reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.meta.index import Step

if TYPE_CHECKING:
    from pbio_spark.bp5.rows.where import Where

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
        variable: the name of the variable; for `blocks` and the catalogues, what they call the column.
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
        variables: for `elements`, those whose shape defines the rows, whether or not they are columns.
        index_names: of `elements`, the names of the index in each dimension.
        index_columns: those of them that the schema has, and their dimensions.
        parts: the names of the columns of a table, wanted or not.
        partition_columns: whose values the `DatasetPart` gives.
        uncovered: the value of an element that no block has.
        where: which steps or elements are wanted.
        trust_statistics: the variables whose least and greatest values are believed, so that blocks can be skipped.
    """

    schema: pa.Schema
    columns: tuple[ColumnOf, ...]
    rows: RowShape = "steps"
    step_column: str | None = None
    corrupt_column: str | None = None
    metadata_column: str | None = None
    variables: tuple[str, ...] = ()
    index_names: tuple[str, ...] = ()
    index_columns: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    partition_columns: tuple[str, ...] = ()
    mode: Mode = "FAILFAST"
    unsigned_long_as: str = "decimal"
    uncovered: Literal["zero", "null"] = "zero"
    records_per_batch: int = 32768
    max_batch_bytes: int = 16 << 20
    where: Where | None = None
    trust_statistics: Literal["none", "integers", "all"] = "integers"

    @property
    def is_table(self) -> bool:
        return bool(self.parts)

    def part_of(self, name: str) -> int | None:
        """The number of the column of the table with that name; None if there is none."""
        return self.parts.index(name) if name in self.parts else None

    def variable_of(self, name: str) -> str:
        """The variable that a name in a program means."""
        return self.variables[0] if name in self.parts else name


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """The part of a dataset that a task reads.

    Attributes:
        steps: in order; all of a flattened dataset.
        partition: the values of the partition columns.
        scales: by variable, the factor of its values.
        share: the number of this share, and how many equal shares of each step's elements or blocks there are.
    """

    dataset: Dataset
    steps: tuple[Step, ...]
    partition: tuple[pa.Scalar, ...] = ()
    scales: Mapping[str, float] = field(default_factory=dict)
    share: tuple[int, int] = (0, 1)

    @property
    def is_first_share(self) -> bool:
        """Whether this part reports what is wrong with a step as a whole."""
        return self.share[0] == 0
