"""Blocks -> the elements of the arrays that they make up, of many rows at once: `read_arrays`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pbio_spark.bp5.data.bytes import read_each, room
from pbio_spark.bp5.data.operators import undo
from pbio_spark.bp5.data.places import Places, place_blocks
from pbio_spark.bp5.folder import Bytes, DatasetFolder
from pbio_spark.bp5.meta.blocks import Blocks
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.variables import Shape
from pbio_spark.bp5.trouble import bad, placed
from pbio_spark.errors import PbioError

MOST_BYTES = (1 << 31) - 1
"""The most bytes that the arrays of one variable may take in one batch: a row of Spark cannot hold more."""
ROOM = 64 << 20
EXPANSION = 64
"""An array may have this many times the bytes that its blocks claim, or `ROOM` if that is more."""


@dataclass
class Elements:
    """The elements of arrays, one array after the other.

    Attributes:
        data: in native byte order.
        first: for each array, the place of its first element in `data`.
        covered: uint8 for each element, 0 if no block has it; None if all are present.
    """

    data: Array
    first: Int64s
    covered: Array | None = None


def read_arrays(
    folder: DatasetFolder,
    blocks: Blocks,
    steps: Sequence[Step],
    kind: np.dtype[np.generic],
    order: str,
    *,
    marks: bool = False,
) -> Elements:
    """The elements of a variable in some steps: for a local array, those of each block; otherwise those of each row.

    Args:
        kind: numpy's type of an element, in the writer's byte order.
        order: that order, for operators.
        marks: whether to say which elements are covered.

    Raises PBIO_BAD_BP5, PBIO_TRUNCATED, PBIO_PATH_NOT_FOUND, PBIO_UNSUPPORTED_OPERATOR, PBIO_ARRAY_TOO_LARGE.
    """
    places = place_blocks(blocks, steps, folder.path)
    is_local = blocks.variable.shape is Shape.LOCAL_ARRAY
    shapes = blocks.count if is_local else blocks.shape
    sizes = _sizes(blocks, shapes, steps, folder)
    targets = Targets(blocks, shapes, np.arange(len(blocks)) if is_local else blocks.row, is_local=is_local)
    is_full = is_local or targets.cover_all(sizes)
    filling = _Filling(
        blocks, targets, shapes, sizes, kind, order, "full" if is_full else "marks" if marks else "zeros"
    )
    if targets.overlap:
        _in_order(folder, blocks, places, filling.sink, steps)
    else:
        placing = _placing(filling.sink, blocks, steps, folder)
        read_each(folder, places, blocks.stored, placing, filling.direct, _fail(blocks, steps))
    data = filling.data
    native = data if kind.isnative or kind.itemsize == 1 else data.astype(kind.newbyteorder("="))
    return Elements(native, filling.first, filling.covered)


class _Filling:
    """Arrays that are being filled with blocks."""

    def __init__(
        self,
        blocks: Blocks,
        targets: Targets,
        shapes: Int64s,
        sizes: Int64s,
        kind: np.dtype[np.generic],
        order: str,
        how: str,
    ) -> None:
        total = int(sizes.sum())
        self.blocks, self.targets, self.shapes, self.sizes = blocks, targets, shapes, sizes
        self.kind, self.order = kind, order
        self.first = np.cumsum(sizes) - sizes
        self.data: Array = room(total, kind) if how == "full" else np.zeros(total, kind)
        self.covered = np.zeros(total, np.uint8) if how == "marks" else None
        self.raw: Bytes = self.data.view(np.uint8) if total else np.empty(0, np.uint8)
        self.offset = (self.first[targets.array] + targets.offset).tolist()
        self.elements = blocks.elements.tolist()
        self.contiguous, self.operated = targets.contiguous.tolist(), blocks.has_operator.tolist()

    def direct(self, block: int) -> Bytes | None:
        """The destination of a large block."""
        if self.operated[block] or not self.contiguous[block]:
            return None
        begin, end = self.offset[block], self.offset[block] + self.elements[block]
        if self.covered is not None:
            self.covered[begin:end] = 1
        return self.raw[begin * self.kind.itemsize : end * self.kind.itemsize]

    def sink(self, block: int, part: Bytes) -> None:
        """Put a block where it belongs."""
        size = self.kind.itemsize
        if self.operated[block]:
            part = np.frombuffer(undo(part.tobytes(), self.elements[block] * size, self.order), np.uint8)
        if self.contiguous[block]:
            begin, end = self.offset[block], self.offset[block] + self.elements[block]
            self.raw[begin * size : end * size] = part
            if self.covered is not None:
                self.covered[begin:end] = 1
            return
        array = int(self.targets.array[block])
        start, count = self.blocks.start[block].tolist(), self.blocks.count[block].tolist()
        where = tuple(slice(a, a + n) for a, n in zip(start, count, strict=True))
        whole = slice(int(self.first[array]), int(self.first[array] + self.sizes[array]))
        self.data[whole].reshape(self.shapes[array])[where] = part.view(self.kind).reshape(count)
        if self.covered is not None:
            self.covered[whole].reshape(self.shapes[array])[where] = 1


def _in_order(
    folder: DatasetFolder, blocks: Blocks, places: Places, sink: Callable[[int, Bytes], None], steps: Sequence[Step]
) -> None:
    """Blocks that overlap, one by one: the last one wins."""
    fail, placing = _fail(blocks, steps), _placing(sink, blocks, steps, folder)
    for block in range(len(blocks)):
        one = slice(block, block + 1)
        read_each(
            folder,
            Places(places.subfile[one], places.position[one]),
            blocks.stored[one],
            lambda _, part, block=block: placing(block, part),  # type: ignore[misc]
            lambda _: None,
            lambda _, error, block=block: fail(block, error),  # type: ignore[misc]
        )


def _placing(
    sink: Callable[[int, Bytes], None], blocks: Blocks, steps: Sequence[Step], folder: DatasetFolder
) -> Callable[[int, Bytes], None]:
    """A sink whose errors say where they happened."""
    fail = _fail(blocks, steps)

    def place(block: int, part: Bytes) -> None:
        try:
            sink(block, part)
        except PbioError as error:
            raise fail(block, error.at(file=folder.path)) from None

    return place


def _fail(blocks: Blocks, steps: Sequence[Step]) -> Callable[[int, PbioError], PbioError]:
    def fail(block: int, error: PbioError) -> PbioError:
        step = steps[int(blocks.step[block])].number
        error.reason = placed(error.reason, step, int(blocks.writer[block]))
        return error.at(field=blocks.variable.name)

    return fail


def _sizes(blocks: Blocks, shapes: Int64s, steps: Sequence[Step], folder: DatasetFolder) -> Int64s:
    """The elements of each array. Raises PBIO_ARRAY_TOO_LARGE before memory is taken."""
    size = max(blocks.variable.size, 1)
    claimed = np.maximum(shapes, 1).astype(np.float64).prod(axis=1) * size  # lists without elements cost memory, too
    wrong = claimed > MOST_BYTES
    if blocks.variable.shape is not Shape.LOCAL_ARRAY:
        covered = np.bincount(blocks.row, blocks.elements * size, len(shapes))
        wrong |= claimed > np.maximum(ROOM, EXPANSION * covered)
    if claimed.sum() > MOST_BYTES:
        wrong |= claimed == claimed.max()
    if wrong.any():
        array = int(np.flatnonzero(wrong)[0])
        of_array = np.flatnonzero(blocks.row == array) if blocks.variable.shape is not Shape.LOCAL_ARRAY else [array]
        step = int(blocks.step[of_array[0]]) if len(of_array) else 0
        error = bad(
            f"an array of {shapes[array].tolist()} elements does not fit into a row",
            file=folder.path,
            step=steps[step].number,
            variable=blocks.variable.name,
            code="PBIO_ARRAY_TOO_LARGE",
        )
        error.hint = "read it with rows=elements or rows=blocks"
        raise error
    return shapes.prod(axis=1) if shapes.shape[1] else np.ones(len(shapes), np.int64) * blocks.present


class Targets:
    """The places of blocks in their arrays.

    Attributes:
        array: the number of each block's array.
        offset: of a block's first element in its array.
        contiguous: whether a block's elements are contiguous there.
        overlap: whether some blocks cover the same elements.
    """

    def __init__(self, blocks: Blocks, shapes: Int64s, array: Int64s, *, is_local: bool) -> None:
        self.array = array
        self.blocks = blocks
        shape = shapes[array]
        dimensions = shape.shape[1]
        if is_local or not dimensions:
            self.offset = np.zeros(len(blocks), np.int64)
            self.contiguous = np.ones(len(blocks), np.bool_)
            self.overlap = not is_local and len(blocks) > len(np.unique(array))
            return
        strides = np.ones_like(shape)
        for dimension in range(dimensions - 2, -1, -1):
            strides[:, dimension] = strides[:, dimension + 1] * shape[:, dimension + 1]
        self.offset = (blocks.start * strides).sum(axis=1)
        # Full in all dimensions but one, and of one element in those before it.
        is_full = blocks.count == shape
        self.contiguous = np.ones(len(blocks), np.bool_)
        for dimension in range(dimensions - 1):
            single = blocks.count[:, dimension] == 1
            self.contiguous &= single | is_full[:, dimension + 1 :].all(axis=1)
        self.contiguous |= blocks.elements == 0
        self.overlap = self._overlap(dimensions)

    def _overlap(self, dimensions: int) -> bool:
        has = np.flatnonzero(self.blocks.elements > 0)
        if len(has) < 2:
            return False
        array, begin = self.array[has], self.offset[has]
        if self.contiguous[has].all():
            order = np.lexsort((begin, array))
            ends = (begin + self.blocks.elements[has])[order]
            return bool(((ends[:-1] > begin[order][1:]) & (array[order][:-1] == array[order][1:])).any())
        for number in np.unique(array).tolist():
            rows = has[array == number]
            if self.blocks.elements[rows].sum() > self.blocks.shape[number].prod():
                return True
            if len(rows) > 1 and _boxes_overlap(self.blocks.start[rows], self.blocks.count[rows]):
                return True
        return False

    def cover_all(self, sizes: Int64s) -> bool:
        """Whether blocks cover every element of every array."""
        if self.overlap:
            return False
        covered = np.bincount(self.array, self.blocks.elements, len(sizes)).astype(np.int64)
        return bool((covered == sizes).all())


def _boxes_overlap(start: Int64s, count: Int64s) -> bool:
    """Whether two of some boxes have an element in common."""
    along = max(range(start.shape[1]), key=lambda dimension: len(np.unique(start[:, dimension])))
    order = np.argsort(start[:, along], kind="stable")
    start, end = start[order], (start + count)[order]
    for box in range(len(start) - 1):
        later = slice(box + 1, int(np.searchsorted(start[:, along], end[box, along])))
        if ((start[later] < end[box]) & (end[later] > start[box])).all(axis=1).any():
            return True
    return False
