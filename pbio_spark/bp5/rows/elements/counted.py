"""The computed columns of elements: the index in each dimension, the number of the step."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from pbio_spark.bp5.data.bytes import room
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.rows.elements.boxes import Box


class CountedColumns:
    """Makes these columns; reuses those of an earlier batch if they are the same."""

    def __init__(self) -> None:
        self._step: tuple[int, pa.Array] | None = None
        self._index: dict[int, tuple[Box, pa.Array]] = {}
        self._numbers: Int64s = np.arange(0)

    def step(self, number: int, count: int) -> pa.Array:
        """The number of a step, repeated for each element. The boxes of a step share it."""
        if self._step is None or self._step[0] != number or len(self._step[1]) < count:
            numbers = room(count, np.dtype(np.int64))
            numbers.fill(number)
            self._step = number, pa.array(numbers)
        return self._step[1].slice(0, count)

    def index(self, box: Box, dimension: int, chosen: Int64s | None) -> pa.Array:
        """The index of each element, or of the chosen ones. Boxes at the same place of all steps share it."""
        if chosen is not None:
            return pa.array(np.unravel_index(chosen, box.shape)[dimension] + box.low[dimension])
        known = self._index.get(dimension)
        if known is None or known[0] != box:
            known = self._index[dimension] = box, pa.array(self.indexes(box, dimension))
        return known[1]

    def indexes(self, box: Box, dimension: int) -> Int64s:
        """The index of each element."""
        found = room(math.prod(box.shape), np.dtype(np.int64))
        length = box.shape[dimension]
        if len(self._numbers) < length:
            self._numbers = np.arange(length)
        places = found.reshape(math.prod(box.shape[:dimension]), length, -1)
        np.add(self._numbers[:length, None], box.low[dimension], out=places)
        return found
