"""Reads many blocks of data files with few calls: neighbouring small ones together, large ones directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.bp5.data.places import Places, subfile_name
from pbio_spark.bp5.folder import Bytes, DatasetFolder
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError

LARGE = 1 << 18
"""The least bytes of a block that is read separately, directly to its destination if possible."""
GAP = 1 << 14
"""The most bytes between two blocks that are read with them rather than skipped."""
SPAN = 4 << 20
"""About the most bytes that are read together."""


def room(count: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Memory for elements, from Arrow's pool. The pool keeps freed memory; getting memory from the system takes longer
    than reading a file into it."""
    if not count:
        return np.empty(0, kind)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), kind, count)


Sink = Callable[[int, Bytes], None]
"""Takes the number of a block, and its bytes, which hold only during the call."""


def read_each(
    folder: DatasetFolder,
    places: Places,
    stored: Int64s,
    sink: Sink,
    direct: Callable[[int], Bytes | None],
    fail: Callable[[int, PbioError], PbioError],
) -> None:
    """Read all blocks that have bytes, in the order of their positions.

    Args:
        places, stored: where the blocks are, and how many bytes each has.
        direct: where a large block belongs; None if it must go through `sink`.
        fail: adds what is known of a block to its error.

    Raises PBIO_TRUNCATED for a block that its file does not hold, PBIO_PATH_NOT_FOUND if the file is missing.
    """
    has = np.flatnonzero(stored > 0)
    order = has[np.lexsort((places.position[has], places.subfile[has]))]
    subfiles = places.subfile[order]
    for number in np.unique(subfiles).tolist():
        rows = order[subfiles == number]
        name = subfile_name(number)
        size = folder.size(name)
        if size is None:
            error = PbioError(
                "PBIO_PATH_NOT_FOUND",
                f"{name} is missing",
                file=folder.file(name),
                hint="copy the folder again, with all its files",
            )
            raise fail(int(rows[0]), error)
        ends = places.position[rows] + stored[rows]
        if (ends > size).any():
            row = int(rows[np.flatnonzero(ends > size)[0]])
            reason = f"short read in {name}: the block needs {stored[row]} bytes at {places.position[row]} of {size}"
            raise fail(row, bad(reason, file=folder.file(name), offset=size, code="PBIO_TRUNCATED"))
        try:
            _File(folder, name, sink, direct).read(rows, places.position, stored)
        except EOFError:
            gone = bad(f"{name} has become shorter", file=folder.file(name), code="PBIO_TRUNCATED")
            raise fail(int(rows[0]), gone) from None


class _File:
    """Blocks of one file, being read in the order of their positions."""

    def __init__(self, folder: DatasetFolder, name: str, sink: Sink, direct: Callable[[int], Bytes | None]) -> None:
        self.folder, self.name, self.sink, self.direct = folder, name, sink, direct
        self.waiting: list[tuple[int, int, int]] = []
        self.begin = self.end = 0

    def read(self, rows: Int64s, position: Int64s, stored: Int64s) -> None:
        """Read blocks. Raises EOFError."""
        for row, at, length in zip(rows.tolist(), position[rows].tolist(), stored[rows].tolist(), strict=True):
            if length >= LARGE:
                self._large(row, at, length)
                continue
            if self.waiting and (at > self.end + GAP or at + length > self.begin + SPAN):
                self._deliver()
            if not self.waiting:
                self.begin = self.end = at
            self.waiting.append((row, at, length))
            self.end = max(self.end, at + length)
        self._deliver()

    def _large(self, row: int, at: int, length: int) -> None:
        target = self.direct(row)
        if target is not None:
            self._fill(at, target)
        else:
            buffer = room(length, np.dtype(np.uint8))
            self._fill(at, buffer)
            self.sink(row, buffer)

    def _deliver(self) -> None:
        """Read the waiting blocks in one go, and deliver them."""
        span = room(self.end - self.begin if self.waiting else 0, np.dtype(np.uint8))
        self._fill(self.begin, span)
        for row, at, length in self.waiting:
            self.sink(row, span[at - self.begin : at - self.begin + length])
        self.waiting = []

    def _fill(self, offset: int, target: Bytes) -> None:
        if len(target) and self.folder.read_into(self.name, offset, target) < len(target):
            raise EOFError(self.name)
