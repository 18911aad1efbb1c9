"""The metadata of a variable in some steps, before its data is read; and the column that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pbio_spark.bp5.data.arrays import read_arrays
from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import Blocks, read_blocks
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.meta.metadata import Array, Located
from pbio_spark.bp5.meta.scalars import Scalars, lowest, read_scalars
from pbio_spark.bp5.meta.variables import STRING, Shape
from pbio_spark.bp5.rows.arrow.leaves import kind_of_scaled, leaf_of, scaled
from pbio_spark.bp5.rows.arrow.nested import list_levels, nest, shape_lengths, validity_of
from pbio_spark.bp5.rows.wanted import ColumnOf, DatasetPart, Wanted
from pbio_spark.errors import PbioError


@dataclass
class Content:
    """The metadata of a variable in some rows: scalars, or places of its arrays' blocks; None if no row has it."""

    found: Blocks | Scalars | None
    rows: int

    def of_rows(self, rows: Int64s) -> Content:
        return Content(None if self.found is None else self.found.of_rows(rows), len(rows))

    def bytes_of_rows(self) -> Int64s:
        """About how many bytes the values of each row take."""
        if isinstance(self.found, Blocks):
            size = self.found.elements * max(self.found.variable.size, 1)
            return np.bincount(self.found.row, size, self.rows).astype(np.int64)
        return np.full(self.rows, 8, np.int64)


def read_content(dataset: Dataset, located: Located, name: str) -> Content:
    """The metadata of a variable in steps. Raises what `read_blocks` and `read_scalars` raise."""
    for group in located.groups:
        place = group.form.places.get(name)
        if place is not None and group.present(place).any():
            if place.variable.is_array:
                found = read_blocks(located, name, None, column_major=dataset.column_major)
                return Content(found, located.rows)
            return Content(read_scalars(located, name), located.rows)
    return Content(None, located.rows)


def content_to_column(
    content: Content, column: ColumnOf, wanted: Wanted, part: DatasetPart, folder: DatasetFolder, steps: Sequence[Step]
) -> pa.Array:
    """The column of a variable, a value for each row.

    Args:
        steps: the steps of the content's blocks.

    Raises what reading arrays raises, PBIO_INCOMPATIBLE_TYPE, PBIO_VALUE_BEYOND_TYPE, PBIO_BAD_STRING.
    """
    want = wanted.schema.field(column.name).type
    if content.found is None:
        return pa.nulls(content.rows, want)
    try:
        if isinstance(content.found, Scalars):
            return _scalars(content.found, content.rows, want, wanted, part)
        return _arrays(content.found, content.rows, want, wanted, part, folder, steps)
    except PbioError as error:
        raise error.at(field=column.variable, file=folder.path) from None


def _scalars(scalars: Scalars, rows: int, want: pa.DataType, wanted: Wanted, part: DatasetPart) -> pa.Array:
    variable, scale = scalars.variable, part.scales.get(scalars.variable.name)
    kind = np.dtype(object) if variable.type == STRING else part.dataset.kind(variable)
    shown = kind_of_scaled(kind, scale)
    if variable.shape is Shape.VALUE:
        scalars = lowest(scalars)
        leaf = leaf_of(shown, variable, want, wanted.unsigned_long_as)
        present = np.zeros(rows, np.bool_)
        present[scalars.row] = True
        values = np.zeros(rows, kind)
        if variable.type == STRING:
            values[:] = None
        values[scalars.row] = scalars.values
        return leaf(scaled(_native(values), scale), validity_of(present))
    types = list_levels(want, 1, variable.name)
    leaf = leaf_of(shown, variable, types[1], wanted.unsigned_long_as)
    writers = np.zeros(rows, np.int64)
    np.maximum.at(writers, scalars.row, scalars.writer + 1)
    first = np.cumsum(writers) - writers
    values = np.zeros(int(writers.sum()), kind)
    if variable.type == STRING:
        values[:] = None
    has = np.zeros(len(values), np.bool_)
    place = first[scalars.row] + scalars.writer
    values[place], has[place] = scalars.values, True
    return nest(leaf(scaled(_native(values), scale), validity_of(has)), [writers], types, writers > 0)


def _native(values: Array) -> Array:
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _arrays(
    blocks: Blocks,
    rows: int,
    want: pa.DataType,
    wanted: Wanted,
    part: DatasetPart,
    folder: DatasetFolder,
    steps: Sequence[Step],
) -> pa.Array:
    variable = blocks.variable
    is_local = variable.shape is Shape.LOCAL_ARRAY
    types = list_levels(want, blocks.dimensions + is_local, variable.name)
    kind, scale = part.dataset.kind(variable), part.scales.get(variable.name)
    leaf = leaf_of(kind_of_scaled(kind, scale), variable, types[-1], wanted.unsigned_long_as)
    elements = read_arrays(folder, blocks, steps, kind, part.dataset.order, marks=wanted.uncovered == "null")
    covered = None if elements.covered is None else elements.covered.astype(np.bool_)
    values = leaf(scaled(elements.data, scale), validity_of(covered))
    if not is_local:
        return nest(values, shape_lengths(np.where(blocks.present[:, None], blocks.shape, 0)), types, blocks.present)
    each = np.bincount(blocks.row, minlength=rows).astype(np.int64)
    return nest(values, [each, *shape_lengths(blocks.count)], types, blocks.present)
