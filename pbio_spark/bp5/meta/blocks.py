"""Metadata blocks -> the blocks of an array variable, over a range of steps: `Blocks`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pbio_spark.bp5.meta.formats import ArrayRecord, VariablePlace
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.meta.metadata import Array, FormatBlocks, Located
from pbio_spark.bp5.meta.variables import STRUCTURE, Shape, Variable
from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError

JOINED = -2
"""In a stored shape, the dimension along which blocks are stacked."""
NOT_STORED = -1
"""The location of a block of which only statistics were kept."""
MOST = 1 << 47
"""The most elements and bytes that an array may claim: products of counts must not wrap around."""
MOST_DIMENSIONS = 32


@dataclass
class Blocks:
    """The blocks of one variable in some steps, in the order of steps, writers and puts. All shapes are row-major.

    Attributes:
        present: which rows have the variable at all; a row is a step, or all steps of a flattened dataset.
        shape: of the array in each row that has it, (rows, dimensions); of a local array zeros.
        row: of each block.
        step: of each block, its place in `Located.steps`.
        writer, number: of each block, its writer, and its place among the writer's blocks.
        start, count: (blocks, dimensions).
        location: in the writer's data of the step.
        stored: bytes there.
        least, most: of each block, where they were kept.
    """

    variable: Variable
    present: npt.NDArray[np.bool_]
    shape: Int64s
    row: Int64s
    step: Int64s
    writer: Int64s
    number: Int64s
    start: Int64s
    count: Int64s
    location: Int64s
    stored: Int64s
    has_operator: npt.NDArray[np.bool_]
    least: Array | None = None
    most: Array | None = None

    @property
    def dimensions(self) -> int:
        return int(self.count.shape[1])

    @property
    def elements(self) -> Int64s:
        """The elements of each block."""
        return self.count.prod(axis=1) if len(self.count) else np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.step)

    def take(self, blocks: Int64s | npt.NDArray[np.bool_]) -> Blocks:
        """Some of the blocks; `present` and `shape` remain those of all rows."""
        least, most = (None if one is None else one[blocks] for one in (self.least, self.most))
        names = ("row", "step", "writer", "number", "start", "count", "location", "stored", "has_operator")
        return replace(self, **{name: getattr(self, name)[blocks] for name in names}, least=least, most=most)

    def of_rows(self, rows: Int64s) -> Blocks:
        """The blocks of some rows, in ascending order; these become all the rows."""
        taken = self.take(np.isin(self.row, rows))
        row = np.searchsorted(rows, taken.row).astype(np.int64)
        return replace(taken, row=row, present=self.present[rows], shape=self.shape[rows])


@dataclass
class _Puts:
    """The content of the blocks of one format, a row for each that has the variable."""

    step: Int64s
    writer: Int64s
    shape: Int64s
    blocks: Int64s
    start: Int64s
    count: Int64s
    location: Int64s
    stored: Int64s
    has_operator: bool
    least: Array | None
    most: Array | None


def read_blocks(located: Located, name: str, dimensions: int | None, *, column_major: bool) -> Blocks | None:
    """The blocks of a variable; None if no step has it.

    Args:
        dimensions: how many it must have; None for as many as it has in the first step.

    Raises PBIO_BAD_BP5, and PBIO_CANNOT_MERGE if its type or dimensions change within these steps.
    """
    puts: list[_Puts] = []
    variable: Variable | None = None
    for group in located.groups:
        place = group.form.places.get(name)
        if place is None:
            continue
        rows = np.flatnonzero(group.present(place))
        if not len(rows):
            continue
        if not place.variable.is_array or (variable is not None and variable != place.variable):
            raise _changed(group, int(rows[0]), name, "type")
        variable = place.variable
        found, dimensions = _puts(group, place, rows, dimensions)
        puts.append(found)
    if variable is None or not puts:
        return None
    return _together(puts, variable, located, column_major=column_major)


def dimensions_of(group: FormatBlocks, place: VariablePlace) -> set[int]:
    """How many dimensions a variable has in the blocks of a group. Raises PBIO_BAD_BP5 for too many."""
    assert place.array is not None
    rows = np.flatnonzero(group.present(place))
    dims = group.integers(place.array.numbers["Dims"], rows)
    wrong = np.flatnonzero((dims < 0) | (dims > MOST_DIMENSIONS))
    if len(wrong):
        row = int(wrong[0])
        raise group.fail(int(rows[row]), f"an array has {dims[row]} dimensions", place.variable.name)
    return set(np.unique(dims).tolist())


def _changed(group: FormatBlocks, row: int, name: str, what: str) -> PbioError:
    error = group.fail(row, f"the {what} of the variable differs from earlier steps or other writers", name)
    error.code, error.hint = (
        "PBIO_CANNOT_MERGE",
        "read the steps of each writing run by themselves, fromStep and toStep",
    )
    return error


def _puts(group: FormatBlocks, place: VariablePlace, rows: Int64s, dimensions: int | None) -> tuple[_Puts, int]:
    name, record = place.variable.name, place.array
    assert record is not None
    dims, blocks, both = (group.integers(record.numbers[key], rows) for key in ("Dims", "BlockCount", "DBCount"))
    wrong = (dims < 0) | (dims > MOST_DIMENSIONS) | (blocks < 0) | (blocks >= MOST) | (both != dims * blocks)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        reason = f"an array has {dims[row]} dimensions and {blocks[row]} blocks, but {both[row]} counts"
        raise group.fail(int(rows[row]), reason, name)
    dimensions = int(dims[0]) if dimensions is None else dimensions
    if (dims != dimensions).any():
        row = int(np.flatnonzero(dims != dimensions)[0])
        error = _changed(group, int(rows[row]), name, "number of dimensions")
        error.reason += f": {dims[row]}, not {dimensions}"
        raise error
    count = group.gather(record.lists["Count"], rows, both, name).astype(np.int64).reshape(-1, dimensions)
    location = group.gather(record.lists["DataBlockLocation"], rows, blocks, name).astype(np.int64)
    _check_counts(group, rows, blocks, count, place.variable)
    size = place.variable.size
    elements = count.prod(axis=1) if dimensions else np.ones(int(blocks.sum()), np.int64)
    count = count if dimensions else np.zeros((len(elements), 0), np.int64)
    stored = elements * size
    if record.has_operator:
        stored = group.gather(record.lists["DataBlockSize"], rows, blocks, name).astype(np.int64)
    least, most = _statistics(group, record, rows, blocks, place.variable)
    shape = _optional(group, record, "Shape", rows, dims, dimensions, name)
    start = _optional(group, record, "Offset", rows, both, dimensions, name)
    return (
        _Puts(
            *(group.step[rows], group.writer[rows], shape, blocks, start, count, location, stored),
            *(record.has_operator, least, most),
        ),
        dimensions,
    )


def _optional(
    group: FormatBlocks, record: ArrayRecord, key: str, rows: Int64s, counts: Int64s, dimensions: int, name: str
) -> Int64s:
    """Numbers that pointers point to; a null pointer counts as zero."""
    listed = record.lists[key]
    has = group.pointers(listed.pointer, rows) != 0
    found = group.gather(listed, rows[has], counts[has], name).astype(np.int64)
    if has.all():
        return found.reshape(-1, dimensions) if dimensions else np.zeros((len(found), 0), np.int64)
    flat = np.zeros(int(counts.sum()), np.int64)
    flat[np.repeat(has, counts)] = found
    return flat.reshape(-1, dimensions) if dimensions else np.zeros((len(rows), 0), np.int64)


def _check_counts(group: FormatBlocks, rows: Int64s, blocks: Int64s, count: Int64s, variable: Variable) -> None:
    """Refuse blocks that claim impossible counts, before anything is multiplied or allocated."""
    with np.errstate(over="ignore"):
        claimed = count.astype(np.float64).prod(axis=1) * max(variable.size, 1)
    wrong = (count < 0).any(axis=1) | (claimed >= MOST) | (count >= MOST).any(axis=1)
    if wrong.any():
        block = int(np.flatnonzero(wrong)[0])
        row = int(np.searchsorted(np.cumsum(blocks), block, side="right"))
        raise group.fail(int(rows[row]), f"a block claims {count[block].tolist()} elements", variable.name)


def _statistics(
    group: FormatBlocks, record: ArrayRecord, rows: Int64s, blocks: Int64s, variable: Variable
) -> tuple[Array | None, Array | None]:
    listed = record.lists.get("MinMax")
    if listed is None or variable.type in (11, 12, 13, STRUCTURE):
        return None, None
    if (group.pointers(listed.pointer, rows) == 0).any():
        return None, None
    pairs = group.gather(listed, rows, 2 * blocks, variable.name)
    return pairs[0::2], pairs[1::2]


def _together(puts: list[_Puts], variable: Variable, located: Located, *, column_major: bool) -> Blocks:
    """The puts of all formats, in order, as blocks with shapes and starts."""

    def joined(name: str) -> Array:
        return np.concatenate([getattr(one, name) for one in puts])

    step, writer, shape, blocks = joined("step"), joined("writer"), joined("shape"), joined("blocks")
    order = np.lexsort((writer, step))
    first = np.cumsum(blocks) - blocks
    index = np.repeat(first[order], blocks[order])
    number = np.arange(len(index)) - np.repeat(np.cumsum(blocks[order]) - blocks[order], blocks[order])
    index = index + number
    step_of, writer_of = np.repeat(step[order], blocks[order]), np.repeat(writer[order], blocks[order])
    start, count = joined("start")[index], joined("count")[index]
    if column_major:
        start, count, shape = start[:, ::-1], count[:, ::-1], shape[:, ::-1]
    row = located.rows_of(step)
    present = np.zeros(located.rows, np.bool_)
    present[row] = True
    of_lowest = np.full(located.rows, -1, np.int64)
    of_lowest[row[order][::-1]] = order[::-1]
    shapes = np.where(present[:, None], shape[of_lowest], 0)
    has_operator = np.concatenate([np.full(int(one.blocks.sum()), one.has_operator) for one in puts])[index]
    statistics: list[Array | None] = [None, None]
    if all(one.least is not None for one in puts):
        statistics = [joined("least")[index], joined("most")[index]]
    found = Blocks(
        *(variable, present, shapes, located.rows_of(step_of), step_of, writer_of, number, start, count),
        *(joined("location")[index], joined("stored")[index], has_operator, *statistics),
    )
    if variable.shape is Shape.JOINED_ARRAY:
        _join(found, located)
    elif variable.shape is Shape.ARRAY:
        _check_inside(found, located)
    return found


def _fail(located: Located, blocks: Blocks, block: int, reason: str) -> PbioError:
    step = located.steps[int(blocks.step[block])].number
    return bad(reason, file=located.file, step=step, writer=int(blocks.writer[block]), variable=blocks.variable.name)


def _check_inside(blocks: Blocks, located: Located) -> None:
    """Refuse blocks that exceed their array."""
    shape = blocks.shape[blocks.row]
    wrong = (shape < 0) | (shape >= MOST) | (blocks.start < 0) | (blocks.start > shape - blocks.count)
    wrong &= (blocks.elements > 0)[:, None]
    if wrong.any():
        block = int(np.nonzero(wrong)[0][0])
        start, count, whole = (one[block].tolist() for one in (blocks.start, blocks.count, shape))
        raise _fail(located, blocks, block, f"a block of {count} at {start} is not inside an array of {whole}")
    negative = (blocks.shape < 0).any(axis=1)
    if negative.any():
        row = int(np.flatnonzero(negative)[0])
        reason = f"an array has the shape {blocks.shape[row].tolist()}"
        number = located.steps[row].number
        raise bad(reason, file=located.file, step=number, variable=blocks.variable.name)


def _join(blocks: Blocks, located: Located) -> None:
    """Stack the blocks of each row along the joined dimension: their starts and the shape follow from that."""
    edges = np.searchsorted(blocks.row, np.arange(located.rows + 1))
    for step in np.flatnonzero(blocks.present).tolist():
        rows = np.arange(edges[step], edges[step + 1])
        marked = np.flatnonzero(blocks.shape[step] == JOINED)
        others = np.flatnonzero(blocks.shape[step] != JOINED)
        counts = blocks.count[rows]
        if len(marked) != 1 or (counts[:, others] != blocks.shape[step, others]).any():
            if not len(rows):
                continue
            reason = f"blocks of {counts.tolist()[:4]} do not stack up to an array of {blocks.shape[step].tolist()}"
            raise _fail(located, blocks, int(rows[0]), reason)
        along = int(marked[0])
        ends = np.cumsum(counts[:, along])
        blocks.start[rows] = 0
        blocks.start[rows, along] = ends - counts[:, along]
        blocks.shape[step, along] = int(ends[-1]) if len(ends) else 0
