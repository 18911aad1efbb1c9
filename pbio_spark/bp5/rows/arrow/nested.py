"""Flat elements and shapes -> nested Arrow lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.errors import PbioError

MOST = (1 << 31) - 1


def validity_of(present: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """The validity bitmap of values; None if all are present."""
    if present is None or present.all():
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def list_levels(type_: pa.DataType, levels: int, variable: str) -> list[pa.DataType]:
    """The types of nested lists, from the outside to their elements. Raises PBIO_INCOMPATIBLE_TYPE."""
    types = [type_]
    for _ in range(levels):
        if not pa.types.is_list(types[-1]):
            reason = f"an array of {levels} levels cannot become {type_}"
            raise PbioError(
                "PBIO_INCOMPATIBLE_TYPE",
                reason,
                field=variable,
                hint="ask for a list with as many levels, or leave the column out",
            )
        types.append(types[-1].value_type)
    return types


def shape_lengths(shape: Int64s) -> list[Int64s]:
    """The lengths of all lists at each level, of arrays with these shapes.

    >>> [level.tolist() for level in shape_lengths(np.array([[2, 3], [1, 2]]))]
    [[2, 1], [3, 3, 2]]
    """
    levels: list[Int64s] = []
    repeats = np.ones(len(shape), np.int64)
    for dimension in range(shape.shape[1]):
        levels.append(np.repeat(shape[:, dimension], repeats))
        repeats = repeats * shape[:, dimension]
    return levels


def nest(
    leaf: pa.Array, levels: Sequence[Int64s], types: Sequence[Any], present: npt.NDArray[np.bool_] | None
) -> pa.Array:
    """Nested lists.

    Args:
        leaf: the elements.
        levels: the lengths of the lists at each level, the outermost first.
        types: those of each level, and of the elements.
        present: which of the outermost lists are not null.
    """
    found = leaf
    for level in reversed(range(len(levels))):
        lengths = levels[level]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] > MOST:
            reason = f"a batch would have {offsets[-1]} elements in one column"
            raise PbioError(
                "PBIO_ARRAY_TOO_LARGE", reason, hint="set maxBatchBytes lower, or read it with rows=elements"
            )
        buffers = [validity_of(present) if level == 0 else None, pa.py_buffer(offsets.astype(np.int32))]
        found = pa.Array.from_buffers(types[level], len(lengths), buffers, children=[found])
    return found
