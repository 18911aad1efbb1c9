"""Blocks -> where their bytes are: subfile and position of each (the flushed pieces of a step are walked)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pbio_spark.bp5.meta.blocks import MOST, NOT_STORED, Blocks
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.trouble import bad

_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Places:
    """The subfile of each block, and the block's position there."""

    subfile: Int64s
    position: Int64s


def subfile_name(number: int) -> str:
    return f"data.{number}"


def place_blocks(blocks: Blocks, steps: Sequence[Step], folder: str) -> Places:
    """The places of blocks. Raises PBIO_BAD_BP5 for an invalid location.

    Args:
        folder: the path, for errors.
    """
    subfile = np.zeros(len(blocks), np.int64)
    position = np.zeros(len(blocks), np.int64)

    def fail(block: int, reason: str) -> Exception:
        step, writer = steps[int(blocks.step[block])].number, int(blocks.writer[block])
        return bad(reason, file=folder, step=step, writer=writer, variable=blocks.variable.name)

    wrong = (blocks.location < 0) | (blocks.location >= _FAR) | (blocks.stored < 0) | (blocks.stored >= MOST)
    if wrong.any():
        block = int(np.flatnonzero(wrong)[0])
        if blocks.location[block] == NOT_STORED:
            error = bad(
                "only the statistics of the variable were kept, not its values",
                file=folder,
                step=steps[int(blocks.step[block])].number,
                variable=blocks.variable.name,
                code="PBIO_UNSUPPORTED_BP5",
            )
            error.hint = "read the statistics with rows=blocks"
            raise error
        raise fail(block, f"a block has {blocks.stored[block]} bytes at location {blocks.location[block]}")
    for number, rows in _by_step(blocks.step):
        step = steps[number]
        writer, location = blocks.writer[rows], blocks.location[rows]
        subfile[rows] = step.subfiles[writer]
        pieces = step.pieces[writer]
        position[rows] = pieces[:, -1] + location
        flushed = pieces[:, 1:-1:2]
        if flushed.shape[1]:
            if (flushed >= MOST).any():
                raise bad("a flushed piece has an impossible length", file=folder, step=step.number)
            ends = np.cumsum(flushed, axis=1)
            which = (location[:, None] >= ends).sum(axis=1)
            before = np.where(which > 0, np.take_along_axis(ends, np.maximum(which - 1, 0)[:, None], 1)[:, 0], 0)
            is_flushed = which < flushed.shape[1]
            begin = np.take_along_axis(pieces, 2 * which[:, None], 1)[:, 0]
            position[rows] = begin + location - before
            stored = blocks.stored[rows]
            last = np.take_along_axis(ends, np.minimum(which, flushed.shape[1] - 1)[:, None], 1)[:, 0]
            crosses = is_flushed & (location + stored > last)
            if crosses.any():
                block = int(np.arange(len(blocks))[rows][np.flatnonzero(crosses)[0]])
                raise fail(block, f"a block of {blocks.stored[block]} bytes crosses the end of a flushed piece")
    if (position < 0).any() or (position >= _FAR).any():
        block = int(np.flatnonzero((position < 0) | (position >= _FAR))[0])
        raise fail(block, f"a block is at the impossible position {position[block]}")
    return Places(subfile, position)


def _by_step(step: Int64s) -> list[tuple[int, slice]]:
    """The blocks of each step, which are adjacent."""
    if not len(step):
        return []
    cuts = np.flatnonzero(np.diff(step)) + 1
    edges = [0, *cuts.tolist(), len(step)]
    return [(int(step[a]), slice(a, b)) for a, b in pairwise(edges)]
