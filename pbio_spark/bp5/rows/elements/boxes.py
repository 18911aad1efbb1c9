"""Arrays cut into boxes of bounded size with contiguous elements; the blocks of a box; narrowing of boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ecode.analysis.bounds import Bound
from pbio_spark.bp5.data.arrays import Targets
from pbio_spark.bp5.meta.blocks import Blocks
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.rows.arrow.leaves import scaled
from pbio_spark.bp5.rows.where import Given

Bools: TypeAlias = npt.NDArray[np.bool_]

SMALL = 8192
"""Reading this many unwanted elements takes less time than skipping them and starting again."""


@dataclass(frozen=True, slots=True)
class Box:
    """A part of an array: one index in the first dimensions, a range in the next, everything in the others."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(high - low for low, high in zip(self.low, self.high, strict=True))

    @property
    def along(self) -> int:
        """The dimension along which the box may be cut: those before it have one index."""
        return next((i for i, n in enumerate(self.shape) if n > 1), len(self.shape) - 1)

    def around(self, chosen: Int64s) -> Iterator[tuple[Box, Int64s]]:
        """The parts of the box with chosen elements, and the chosen elements of each part; see `runs`.

        Args:
            chosen: the places of elements among those of the box, ascending.
        """
        along, rest = self.along, prod(self.shape[self.along + 1 :])
        wanted = np.zeros(self.shape[along], np.bool_)
        wanted[chosen // rest] = True
        for box in self.runs(wanted):
            first = (box.low[along] - self.low[along]) * rest
            begin, end = np.searchsorted(chosen, (first, first + prod(box.shape)))
            yield box, chosen[begin:end] - first

    def holds(self, other: Box) -> bool:
        """Whether this box contains another one."""
        inside = (a <= b for a, b in zip((*self.low, *other.high), (*other.low, *self.high), strict=True))
        return all(inside)

    def runs(self, wanted: Bools) -> Iterator[Box]:
        """The parts of the box where `wanted`, which has a value for each index in `along`, is true; with
        gaps that are too short to skip."""
        if wanted.all():
            yield self
            return
        along = self.along
        edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False)).reshape(-1, 2)
        if not len(edges):
            return
        gap = max(1, SMALL // max(1, prod(self.shape[along + 1 :])))
        is_cut = edges[1:, 0] - edges[:-1, 1] >= gap
        begins = edges[np.concatenate(([True], is_cut)), 0].tolist()
        ends = edges[np.concatenate((is_cut, [True])), 1].tolist()
        for begin, end in zip(begins, ends, strict=True):
            low, high = list(self.low), list(self.high)
            low[along], high[along] = self.low[along] + begin, self.low[along] + end
            yield Box(tuple(low), tuple(high))


def cut(shape: Sequence[int], most: int) -> Iterator[Box]:
    """An array in boxes with a limited number of elements, in order.

    >>> [(box.low, box.high) for box in cut((3, 2), 4)]
    [((0, 0), (2, 2)), ((2, 0), (3, 2))]
    >>> [box.low for box in cut((2, 3), 2)]
    [(0, 0), (0, 2), (1, 0), (1, 2)]
    """
    if not prod(shape):
        return
    along = next(i for i in range(len(shape)) if prod(shape[i + 1 :]) <= most or i == len(shape) - 1)
    rest = tuple(shape[along + 1 :])
    each = max(1, most // prod(rest))
    for first in product(*map(range, shape[:along])):
        for begin in range(0, shape[along], each):
            end = min(begin + each, shape[along])
            yield Box((*first, begin, *(0 for _ in rest)), (*(i + 1 for i in first), end, *rest))


def clip(blocks: Blocks, box: Box) -> Blocks:
    """The parts of a box in the blocks of a single array. Their elements are contiguous in the blocks, too.

    Blocks made by an operator cannot be cut, so there must be none.
    """
    low, high = np.array(box.low), np.array(box.high)
    start = np.maximum(blocks.start, low)
    count = np.maximum(np.minimum(blocks.start + blocks.count, high) - start, 0)
    has = count.prod(axis=1) > 0
    inside = (start - blocks.start)[has]
    strides = np.ones_like(blocks.count[has])
    for dimension in range(strides.shape[1] - 2, -1, -1):
        strides[:, dimension] = strides[:, dimension + 1] * blocks.count[has][:, dimension + 1]
    size = blocks.variable.size
    found = blocks.take(has)
    return replace(
        found,
        start=start[has] - low,
        count=count[has],
        shape=np.array([box.shape]),
        location=found.location + (inside * strides).sum(axis=1) * size,
        stored=count[has].prod(axis=1) * size,
    )


def touching(blocks: Blocks, box: Box) -> Int64s:
    """Which blocks of a single array have a part of a box."""
    low, high = np.array(box.low), np.array(box.high)
    inside = (blocks.start < high) & (blocks.start + blocks.count > low) & (blocks.count > 0)
    return np.flatnonzero(inside.all(axis=1))


def around_blocks(blocks: Blocks, touch: Int64s, box: Box) -> tuple[Box, Blocks]:
    """The whole blocks that have a part of a box, and the box around all of these."""
    found = blocks.take(touch)
    end = found.start + found.count
    low = np.minimum(np.array(box.low), found.start.min(axis=0, initial=1 << 62))
    high = np.maximum(np.array(box.high), end.max(axis=0, initial=0))
    around = Box(tuple(low.tolist()), tuple(high.tolist()))
    return around, replace(found, start=found.start - low, shape=np.array([around.shape]))


def blocks_may_hold(blocks: Blocks, given: Given, bound: Bound, scale: float | None) -> Bools | None:
    """The blocks in which a bound can hold, by their least and greatest values; None if unknown."""
    if blocks.least is None or blocks.most is None:
        return None
    least, most = scaled(blocks.least, scale), scaled(blocks.most, scale)
    if scale is not None and scale < 0:
        least, most = most, least
    if given.kind is None or not np.can_cast(least.dtype, given.kind):
        return None
    return bound.may_hold(least.astype(given.kind), most.astype(given.kind))


def gaps_may_hold(blocks: Blocks, given: Given, bound: Bound) -> bool:
    """Whether a single array has places without a block, where a program sees zero, and a bound can hold for that."""
    zero = np.zeros(1, given.kind)
    return bool(bound.may_hold(zero, zero).all()) and not _cover_all(blocks)


def _cover_all(blocks: Blocks) -> bool:
    targets = Targets(blocks, blocks.shape, np.zeros(len(blocks), np.int64), is_local=False)
    return targets.cover_all(blocks.shape.prod(axis=1))


def blocks_allow(blocks: Blocks, may_hold: Bools, along: int, *, gaps: bool) -> Bools | bool:
    """The places along a dimension where a bound can hold.

    Args:
        blocks, may_hold: of a part of an array, and in which of them it can hold.
        gaps: whether it can hold between them, if there are gaps.
    """
    if gaps and not _cover_all(blocks):
        return True
    allowed = np.zeros(int(blocks.shape[0, along]), np.bool_)
    for start, count in zip(blocks.start[may_hold, along], blocks.count[may_hold, along], strict=True):
        allowed[start : start + count] = True
    return allowed
