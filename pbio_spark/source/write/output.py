"""A file being written, and its description when finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from ecode.native import Kernel
from pbio_spark.columns import ITEM_HEAD, Encoded, RangeMaker
from pbio_spark.disk import make_folder
from pbio_spark.formats import Format
from pbio_spark.paths import full_path, trouble
from pbio_spark.wire import MAGIC, FileWriter
from pbio_spark.wire.hints.ranges import Ranges
from pbio_spark.wire.hints.sidecar import STEP, Point
from pbio_spark.wire.writer import format_to_item
from pbio_spark.written import written

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file.

    Attributes:
        path: relative to the folder that it was written to, and to the one that it will be moved to.
        points, sums: places to split it, and checksums of the bytes between them (`wire.hints.sidecar`).
        ranges: the ranges of values there, for the first format; None without an outline.
    """

    path: str
    size: int
    records: int
    points: tuple[Point, ...]
    sums: tuple[int, ...] = ()
    ranges: Ranges | None = None


class OutputFile:
    """A file of records of the first of some formats; it also describes the others.

    With `indexed` it takes bare records and interleaves FFS's index; otherwise it takes whole data items, with
    checksums (`summed`) and ranges of values (`ranged`) if requested.
    """

    def __init__(
        self,
        fs: AbstractFileSystem,
        folder: str,
        path: str,
        formats: Sequence[Format],
        *,
        indexed: bool,
        summed: bool,
        ranged: Kernel | None = None,
    ) -> None:
        full = f"{folder}/{path}"
        with trouble(fs, full):
            make_folder(fs, full.rpartition("/")[0])
            self._file = written(fs.open(full, "wb"), full_path(fs, full))
        self.path = path
        self.records = 0
        self._format = formats[0]
        self._points: list[Point] = []
        self._indexed = FileWriter(self._file, indexed=True) if indexed else None
        self._size = 0
        self._summed, self._sums, self._sum = summed, list[int](), 0
        self._ranges = RangeMaker(formats[0], ranged) if ranged is not None else None
        if self._indexed is None:
            self._write(MAGIC + b"".join(map(format_to_item, formats)))
        else:
            for form in formats:
                self._indexed.describe(form)

    def add(self, encoded: Encoded) -> None:
        """Append records."""
        count = len(encoded.offsets) - 1
        if self._indexed is not None:
            data = memoryview(encoded.buffer)
            for start, end in zip(encoded.offsets[:-1].tolist(), encoded.offsets[1:].tolist(), strict=True):
                self._indexed.data(self._format, bytes(data[start:end]))
        else:
            last = self._points[-1].offset if self._points else 0
            rows = self._crossings(encoded, last)
            self._look_at(encoded, rows)
            for row in rows:
                self._points.append(Point(self._size + int(encoded.offsets[row]), self.records + row))
            self._write(encoded.buffer, [int(encoded.offsets[row]) for row in rows])
        self.records += count

    def _look_at(self, encoded: Encoded, crossings: Sequence[int]) -> None:
        """Collect the ranges of values, block by block."""
        if self._ranges is not None:
            starts = encoded.offsets[:-1] + (encoded.buffer.address + ITEM_HEAD + self._format.header_size)
            for number, own in enumerate(np.split(starts, crossings), len(self._points)):
                self._ranges.add(number, own)

    def _crossings(self, encoded: Encoded, last: int) -> list[int]:
        """The rows that are the first at least `STEP` bytes after the previous point."""
        rows: list[int] = []
        while True:
            row = int(np.searchsorted(encoded.offsets, last + STEP - self._size))
            if row >= len(encoded.offsets) - 1:
                return rows
            rows.append(row)
            last = self._size + int(encoded.offsets[row])

    def _write(self, data: object, ends: Sequence[int] = ()) -> None:
        """Write bytes; blocks end at these offsets."""
        view = memoryview(data)  # type: ignore[arg-type]
        self._file.write(view)
        if self._summed:
            start = 0
            for end in ends:
                self._sums.append(crc32(view[start:end], self._sum))
                self._sum, start = 0, end
            self._sum = crc32(view[start:], self._sum)
        self._size += view.nbytes

    def close(self) -> WrittenFile:
        """Finish the file."""
        if self._indexed is not None:
            self._indexed.close()
            self._size = self._file.tell()
        self._file.close()
        sums = (*self._sums, self._sum) if self._summed else ()
        ranges = self._ranges.made(len(self._points) + 1) if self._ranges is not None else None
        return WrittenFile(self.path, self._size, self.records, tuple(self._points), sums, ranges)

    def discard(self) -> None:
        """Abandon the file; it is removed with its folder."""
        self._file.close()
