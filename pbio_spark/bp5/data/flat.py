"""`Flat`: an array of large contiguous blocks, so that any range of elements can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbio_spark.bp5.data.arrays import Targets
from pbio_spark.bp5.data.bytes import room
from pbio_spark.bp5.data.places import place_blocks, subfile_name
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import Blocks
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.meta.metadata import Array

LEAST = 1 << 16
"""The least average size of blocks, in bytes: smaller ones are better read together."""


@dataclass(frozen=True, slots=True)
class Flat:
    """The places of the elements of an array.

    Attributes:
        kind: numpy's type of an element, in the writer's byte order.
        begin: the first element of each block, ascending, and the end of the last. `starts` lacks that end.
        subfile, position: of each block.
    """

    kind: np.dtype[np.generic]
    begin: list[int]
    starts: Int64s
    subfile: list[int]
    position: list[int]

    def read(self, folder: DatasetFolder, first: int, last: int) -> Array | None:
        """The elements of a range, in native byte order; None if they are not all there."""
        found = room(last - first, self.kind)
        raw, size = found.view(np.uint8), self.kind.itemsize
        block = int(np.searchsorted(self.starts, first, side="right")) - 1
        at = first
        while at < last:
            end = min(last, self.begin[block + 1])
            target = raw[(at - first) * size : (end - first) * size]
            position = self.position[block] + (at - self.begin[block]) * size
            try:
                if folder.read_into(subfile_name(self.subfile[block]), position, target) < len(target):
                    return None
            except FileNotFoundError:
                return None
            at, block = end, block + 1
        return found if self.kind.isnative else found.astype(self.kind.newbyteorder("="))


def flat_array(blocks: Blocks, steps: Sequence[Step], folder: DatasetFolder, kind: np.dtype[np.generic]) -> Flat | None:
    """A single array, if its blocks allow it. Raises PBIO_BAD_BP5 for a block at an impossible place."""
    has = blocks.take(blocks.elements > 0)
    if not len(has) or has.has_operator.any() or int(has.stored.sum()) < LEAST * len(has):
        return None
    targets = Targets(has, has.shape, np.zeros(len(has), np.int64), is_local=False)
    if not targets.contiguous.all() or not targets.cover_all(has.shape.prod(axis=1)):
        return None
    order = np.argsort(targets.offset, kind="stable")
    places = place_blocks(has, steps, folder.path)
    starts = targets.offset[order]
    begin = [*starts.tolist(), int(has.shape.prod())]
    return Flat(kind, begin, starts, places.subfile[order].tolist(), places.position[order].tolist())
