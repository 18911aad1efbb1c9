"""A row for each block, as a writer put it: where it is in its array, its least and greatest value, its elements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ecode.errors import valid_text
from pbio_spark.bp5.data.arrays import read_arrays
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import MOST, Blocks, read_blocks
from pbio_spark.bp5.meta.index import Step
from pbio_spark.bp5.meta.metadata import Array, Located
from pbio_spark.bp5.meta.variables import Shape
from pbio_spark.bp5.rows.arrow.leaves import leaf_of, natural_type
from pbio_spark.bp5.rows.arrow.nested import nest, validity_of
from pbio_spark.bp5.rows.finish import finish, narrowed
from pbio_spark.bp5.rows.survey import chunks, halves
from pbio_spark.bp5.rows.wanted import ColumnOf, DatasetPart, Wanted
from pbio_spark.errors import PbioError

VALUES = ("min", "max", "value")
HEAD = 64
"""About how many bytes a row takes besides its elements."""


def block_fields(element: pa.DataType) -> list[pa.Field]:
    """The columns, beside that of the step. `element` is the type of values."""
    places = pa.list_(pa.int64())
    return [
        pa.field("variable", pa.string()),
        pa.field("writer", pa.int32()),
        pa.field("block", pa.int64()),
        pa.field("start", places),
        pa.field("count", places),
        pa.field("min", element),
        pa.field("max", element),
        pa.field("value", pa.list_(element)),
    ]


def read_block_rows(part: DatasetPart, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The blocks of a part as batches of the wanted schema: of a few steps at a time, variable by variable."""
    with DatasetFolder(part.dataset.path) as folder:
        flatten = part.dataset.index.header.flatten
        for steps in [part.steps] if flatten else chunks(part.steps, wanted.max_batch_bytes):
            yield from _tolerant(part, wanted, folder, steps)


def _tolerant(
    part: DatasetPart, wanted: Wanted, folder: DatasetFolder, steps: Sequence[Step]
) -> Iterator[pa.RecordBatch]:
    tells = wanted.mode == "PERMISSIVE" and part.is_first_share
    try:
        located = part.dataset.locate(folder, steps)
    except PbioError as error:
        if wanted.mode == "FAILFAST":
            raise
        if len(steps) > 1 and not part.dataset.index.header.flatten:
            for step in steps:
                yield from _tolerant(part, wanted, folder, [step])
        elif tells:
            yield finish({}, [steps[0]], part, wanted, [error])
        return
    found, errors = list[Blocks](), list[PbioError]()
    for name in wanted.variables:
        try:
            blocks = read_blocks(located, name, None, column_major=part.dataset.column_major)
        except PbioError as error:
            if parts := halves(error, steps, flatten=part.dataset.index.header.flatten):
                for some in parts:
                    yield from _tolerant(part, wanted, folder, some)
                return
            if wanted.mode == "FAILFAST":
                raise
            errors.append(error)
            continue
        if blocks is not None:
            found.append(blocks)
    if tells:
        yield from (finish({}, [steps[0]], part, wanted, [error]) for error in errors)
    for blocks in _of_share(found, located, part):
        yield from _rows(part, wanted, folder, located, blocks)


def _of_share(found: Sequence[Blocks], located: Located, part: DatasetPart) -> Sequence[Blocks]:
    """The blocks of a part. Parts get about equal shares of the bytes, so that few of them read the same data file."""
    share, shares = part.share
    if shares == 1 or not found:
        return found
    sizes = np.concatenate([np.clip(blocks.stored, 0, MOST) + HEAD for blocks in found])
    writers = np.concatenate([blocks.writer for blocks in found])
    steps = np.concatenate([blocks.step for blocks in found])
    subfiles = np.array(
        [located.steps[s].subfiles[w] for s, w in zip(steps.tolist(), writers.tolist(), strict=True)], np.int64
    )
    order = np.lexsort((writers, steps, subfiles))
    shared = np.empty(len(order), np.int64)
    middle = np.cumsum(sizes[order]) - sizes[order] // 2
    shared[order] = np.minimum(middle / sizes.sum(dtype=np.float64) * shares, shares - 1)
    mine = shared == share
    ends = np.cumsum([len(blocks) for blocks in found])
    return [blocks.take(own) for blocks, own in zip(found, np.split(mine, ends[:-1]), strict=True)]


def _rows(
    part: DatasetPart, wanted: Wanted, folder: DatasetFolder, located: Located, blocks: Blocks
) -> Iterator[pa.RecordBatch]:
    has_values = any(column.variable == "value" for column in wanted.columns)
    sizes = (blocks.elements * (max(1, blocks.variable.size) * has_values) + HEAD).tolist()
    begin = size = 0
    for i in range(len(sizes) + 1):
        is_full = i == len(sizes) or size + sizes[i] > wanted.max_batch_bytes or i - begin >= wanted.records_per_batch
        if i > begin and is_full:
            yield from _batch(part, wanted, folder, located, blocks.take(np.arange(begin, i)))
            begin, size = i, 0
        size += sizes[i] if i < len(sizes) else 0


def _batch(
    part: DatasetPart, wanted: Wanted, folder: DatasetFolder, located: Located, blocks: Blocks
) -> Iterator[pa.RecordBatch]:
    steps = [located.steps[step] for step in blocks.step.tolist()]
    try:
        columns = {one.name: _column(one, part, wanted, folder, located, blocks) for one in wanted.columns}
    except PbioError as error:
        if wanted.mode == "FAILFAST":
            raise
        if len(blocks) > 1:
            for block in range(len(blocks)):
                yield from _batch(part, wanted, folder, located, blocks.take(np.array([block])))
        elif wanted.mode == "PERMISSIVE":
            columns = {
                one.name: _column(one, part, wanted, folder, located, blocks)
                for one in wanted.columns
                if one.variable not in VALUES
            }
            yield finish(columns, steps, part, wanted, [error])
        return
    yield finish(columns, steps, part, wanted)


def _column(
    column: ColumnOf, part: DatasetPart, wanted: Wanted, folder: DatasetFolder, located: Located, blocks: Blocks
) -> pa.Array:
    field, name = wanted.schema.field(column.name), column.variable
    want = field.type
    match name:
        case "variable":
            return pa.repeat(pa.scalar(valid_text(blocks.variable.name), want), len(blocks))
        case "writer":
            return narrowed(pa.array(blocks.writer), field)
        case "block":
            return narrowed(pa.array(blocks.number), field)
        case "start" | "count":
            flat = np.ascontiguousarray(getattr(blocks, name)).reshape(-1)
            lengths = np.full(len(blocks), blocks.dimensions)
            has = np.full(len(blocks), name == "count" or blocks.variable.shape is not Shape.LOCAL_ARRAY)
            values = narrowed(pa.array(flat), pa.field(column.name, want.value_type))
            return nest(values, [lengths], [want, want.value_type], has)
        case "min" | "max":
            values = blocks.least if name == "min" else blocks.most
            if values is None:
                return pa.nulls(len(blocks), want)
            # For a block without elements, a writer stores the bounds that it began with.
            return _leaf(values, part, wanted, blocks, want, validity_of(blocks.elements > 0))
    alone = replace(blocks, variable=replace(blocks.variable, shape=Shape.LOCAL_ARRAY))
    dataset = part.dataset
    elements = read_arrays(folder, alone, located.steps, dataset.kind(blocks.variable), dataset.order)
    return nest(
        _leaf(elements.data, part, wanted, blocks, want.value_type), [blocks.elements], [want, want.value_type], None
    )


def _leaf(
    values: Array,
    part: DatasetPart,
    wanted: Wanted,
    blocks: Blocks,
    want: pa.DataType,
    validity: pa.Buffer | None = None,
) -> pa.Array:
    """Values as a type; as text if variables of several types share the column."""
    kind = part.dataset.kind(blocks.variable).newbyteorder("=")
    values = np.ascontiguousarray(values.astype(kind, copy=False))
    own = natural_type(kind, blocks.variable, wanted.unsigned_long_as)
    if want == pa.string() and own != want:
        return _text(leaf_of(kind, blocks.variable, own, wanted.unsigned_long_as)(values, validity))
    return leaf_of(kind, blocks.variable, want, wanted.unsigned_long_as)(values, validity)


def _text(values: pa.Array) -> pa.Array:
    """Values as text: structures and lists as JSON, bytes as hexadecimal digits."""
    if not (pa.types.is_nested(values.type) or pa.types.is_binary(values.type)):
        return values.cast(pa.string())
    return pa.array([None if value is None else _spelled(value) for value in values.to_pylist()], pa.string())


def _spelled(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else json.dumps(value, default=str)
