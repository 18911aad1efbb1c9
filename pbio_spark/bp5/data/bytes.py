"""Many blocks of data files, read with few calls: small ones that lie near each other together, large ones directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pbio_spark.bp5.data.places import Places, subfile_name
from pbio_spark.bp5.folder import Folder
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError

LARGE = 1 << 20
"""From so many bytes on a block is read by itself, straight to where it belongs if it can be."""
GAP = 1 << 14
"""The most bytes between two blocks that are read with them rather than skipped."""
SPAN = 4 << 20
"""About the most bytes that are read together."""

Sink = Callable[[int, memoryview], None]
"""Takes the number of a block, and its bytes, which hold only during the call."""


def read_each(
    folder: Folder,
    places: Places,
    stored: Int64s,
    sink: Sink,
    direct: Callable[[int], memoryview | None],
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
            error = PbioError("PBIO_PATH_NOT_FOUND", f"{name} is missing", file=folder.file(name))
            raise fail(int(rows[0]), error)
        ends = places.position[rows] + stored[rows]
        if (ends > size).any():
            row = int(rows[np.flatnonzero(ends > size)[0]])
            reason = f"short read in {name}: the block needs {stored[row]} bytes at {places.position[row]} of {size}"
            raise fail(row, bad(reason, file=folder.file(name), offset=size, code="PBIO_TRUNCATED"))
        try:
            _read_file(folder, name, rows, places.position, stored, sink, direct)
        except EOFError:
            gone = bad(f"{name} has become shorter", file=folder.file(name), code="PBIO_TRUNCATED")
            raise fail(int(rows[0]), gone) from None


def _read_file(
    folder: Folder,
    name: str,
    rows: Int64s,
    position: Int64s,
    stored: Int64s,
    sink: Sink,
    direct: Callable[[int], memoryview | None],
) -> None:
    waiting: list[int] = []
    begin = end = 0
    for row, at, length in zip(rows.tolist(), position[rows].tolist(), stored[rows].tolist(), strict=True):
        if length >= LARGE:
            target = direct(row)
            if target is not None:
                _fill(folder, name, at, target)
            else:
                buffer = memoryview(bytearray(length))
                _fill(folder, name, at, buffer)
                sink(row, buffer)
            continue
        if waiting and (at > end + GAP or at + length > begin + SPAN):
            _deliver(folder, name, begin, end, waiting, position, stored, sink)
            waiting = []
        if not waiting:
            begin = end = at
        waiting.append(row)
        end = max(end, at + length)
    if waiting:
        _deliver(folder, name, begin, end, waiting, position, stored, sink)


def _deliver(
    folder: Folder,
    name: str,
    begin: int,
    end: int,
    rows: Sequence[int],
    position: Int64s,
    stored: Int64s,
    sink: Sink,
) -> None:
    span = memoryview(bytearray(end - begin))
    _fill(folder, name, begin, span)
    for row in rows:
        at = int(position[row]) - begin
        sink(row, span[at : at + int(stored[row])])


def _fill(folder: Folder, name: str, offset: int, target: memoryview) -> None:
    if folder.read_into(name, offset, target) < len(target):
        raise EOFError(name)
