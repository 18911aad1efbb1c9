"""`Unit`: arrays of one shape whose elements become rows; and parts of what is read of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ecode.analysis.bounds import Bound
from pbio_spark.bp5.data.arrays import Elements
from pbio_spark.bp5.data.flat import Flat
from pbio_spark.bp5.meta.blocks import Blocks
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.variables import Shape
from pbio_spark.bp5.rows.elements.boxes import Bools, Box
from pbio_spark.bp5.rows.where import Given


@dataclass(frozen=True, slots=True)
class Undone:
    """A decompressed part of an array.

    Attributes:
        blocks: which blocks of the array; the elements lack other blocks with places in the box.
    """

    box: Box
    blocks: Int64s
    elements: Elements


@dataclass
class Unit:
    """Arrays of one shape whose elements become rows.

    Attributes:
        row: the place of the step.
        shape: of all arrays; of a table the number of its rows.
        arrays: by variable, the blocks of the array; one that this step lacks is left out.
        allowed: by bound in which blocks it can hold, if that is known, and whether it can between them.
        undone: of arrays that an operator made, the last part that was read.
        flat: by variable, the places of an array that can be read in ranges; None for another array.
    """

    row: int
    shape: tuple[int, ...]
    arrays: dict[str, Blocks]
    allowed: dict[tuple[Given, Bound], tuple[Bools | None, bool]] = field(default_factory=dict)
    undone: dict[str, Undone] = field(default_factory=dict)
    flat: dict[str, Flat | None] = field(default_factory=dict)


def part_of(elements: Elements, part: int | None, blocks: Blocks) -> tuple[Array, Array | None]:
    """The elements, or one column of a table; and which are covered."""
    if part is None:
        return elements.data, elements.covered
    width = int(blocks.shape[0, 1])
    covered = None if elements.covered is None else elements.covered.reshape(-1, width)[:, part]
    return elements.data.reshape(-1, width)[:, part], covered


def slice_of(found: Elements, around: Box, box: Box) -> Elements:
    """A box of a larger one, which is held."""
    where = tuple(
        slice(low - begin, high - begin) for low, high, begin in zip(box.low, box.high, around.low, strict=True)
    )
    covered = None if found.covered is None else found.covered.reshape(around.shape)[where].reshape(-1)
    return Elements(found.data.reshape(around.shape)[where].reshape(-1), np.zeros(1, np.int64), covered)


def as_array(block: Blocks) -> Blocks:
    """A block of a local array as an array of its own."""
    return replace(
        block, variable=replace(block.variable, shape=Shape.ARRAY), shape=block.count, start=np.zeros_like(block.count)
    )
