"""Events being published, or an existing file -> a footer."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.footers.footer import DamagedFooterError, Footer, footer_to_bytes, read_footer
from pbio_spark.columns import ITEM_HEAD, BatchLimits, Chunker, Encoded, RangeFinder, RangeMaker, limited
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import MAGIC

if TYPE_CHECKING:
    from ecode.native import Kernel

LEAST = 256 << 10
"""The bytes of the smallest file that gets a footer."""
BLOCK = 1 << 20
"""The approximate bytes of events in a block: several small groups, or part of a large one."""
MOST_FORMATS = 64
_OF_FORMAT = 64 << 10
"""The least bytes that a format's events need in a file to be covered."""


class FooterMaker:
    """Makes the footer of a data file while it is made."""

    def __init__(self, kernel: Kernel | None = None, formats: Collection[Format] | None = None) -> None:
        """
        Args:
            kernel: for `RangeMaker`.
            formats: the formats to cover; by default all.
        """
        self._kernel = kernel
        self._formats = formats
        self._offsets: list[int] = []
        self._ordinals: list[int] = []
        self._makers: dict[Format, RangeMaker] = {}
        self._form: Format | None = None
        self._maker: RangeMaker
        """The maker of the most recent format, which needs no lookup."""
        self._records = 0
        self._bucket = -1
        self._is_due = True
        """Whether the next record begins a block: the file begins, or a large group has just ended."""

    def add(self, form: Format, encoded: Encoded, at: int, firsts: Int64s, counts: Int64s) -> None:
        """Add consecutive records of the file.

        Args:
            at: the offset of the first one in the file.
            firsts, counts: of each group of them, the number of its first record among them, and how many it has.
        """
        count = len(encoded.offsets) - 1
        if not count:
            return
        points = self._points(encoded.offsets, at, firsts, counts)
        if self._formats is None or form in self._formats:
            if form is not self._form:
                self._form, self._maker = form, self._makers.get(form) or RangeMaker(form, self._kernel)
                self._makers[form] = self._maker
            base = encoded.buffer.address + ITEM_HEAD + form.header_size
            for block, (own, stop) in enumerate(pairwise((0, *points, count)), len(self._offsets) - 1):
                self._maker.add(block, encoded.offsets[own:stop], base)
        self._offsets += [int(encoded.offsets[point]) + at for point in points]
        self._ordinals += [point + self._records for point in points]
        self._records += count

    def _points(self, offsets: Int64s, at: int, firsts: Int64s, counts: Int64s) -> list[int]:
        """The records that begin blocks: firsts of groups, about BLOCK apart, and records inside of large groups."""
        count = len(offsets) - 1
        points = {0} if self._is_due else set[int]()
        if len(firsts) > 1:
            firsts, which = np.unique(firsts, return_index=True)
            counts = counts[which]
            is_large = offsets[firsts + counts] - offsets[firsts] >= 2 * BLOCK
            small = firsts[~is_large]
            points.update(small[np.diff((offsets[small] + at) // BLOCK, prepend=self._bucket) > 0].tolist())
            firsts, counts = firsts[is_large], counts[is_large]
        for first, stop in zip(firsts.tolist(), (firsts + counts).tolist(), strict=True):
            start, end = int(offsets[first]), int(offsets[stop])
            if end - start >= 2 * BLOCK:
                inner = np.arange(start + BLOCK, end - BLOCK // 2, BLOCK)
                points.update((first, stop), np.searchsorted(offsets[:stop], inner).tolist())
            elif (start + at) // BLOCK > self._bucket:
                points.add(first)
        self._is_due = count in points
        self._bucket = (int(offsets[-2]) + at) // BLOCK
        return sorted(points - {count})

    def made(self, size: int) -> bytes:
        """The footer of a file whose events end at an offset; empty if it gets none."""
        if not self._makers or size < LEAST:
            return b""
        offsets = np.array([*self._offsets, size], np.int64)
        ordinals = np.array([*self._ordinals, self._records], np.int64)
        ids = tuple(form.id.hex() for form in self._makers)
        ranges = limited([maker.made(len(offsets) - 1) for maker in self._makers.values()])
        return footer_to_bytes(Footer(offsets, ordinals, ids, ranges))


def placed_to_footer(
    placed: Sequence[tuple[Format, Encoded, int, npt.NDArray[np.void]]], size: int, kernel: Kernel | None = None
) -> bytes:
    """The footer of a data file; nothing if the file is too small for one.

    Args:
        placed: the events, in the order of the file: their format, themselves, the offset at which they are, and their
            groups, as rows, as if they were the file.
        size: of the file without it.
    """
    if size < LEAST:
        return b""
    sizes: dict[Format, int] = {}
    for form, encoded, _, _ in placed:
        sizes[form] = sizes.get(form, 0) + encoded.buffer.size
    large = sorted((form for form, own in sizes.items() if own >= _OF_FORMAT), key=lambda form: -sizes[form])
    if not large:
        return b""
    maker = FooterMaker(kernel, set(large[:MOST_FORMATS]))
    for form, encoded, at, rows in placed:
        maker.add(form, encoded, at, rows["ordinal"], rows["count"])
    return maker.made(size)


def points_in(data: bytes) -> list[int]:
    """Where blocks begin in a data file, by its own footer."""
    try:
        footer = read_footer(lambda start, length: data[start : start + length], len(data))
    except DamagedFooterError:
        return []
    return [] if footer is None else footer.offsets[:-1].tolist()


def merged_footer(data: bytearray, starts: Int64s, ends: Int64s, inner: Iterable[int]) -> bytes:
    """The footer of a file that was put together from others; nothing if it cannot have one.

    Args:
        data: the file.
        starts, ends: the offsets of the groups in it.
        inner: where blocks began in the others, in terms of this one.
    """
    if len(data) < LEAST:
        return b""
    points = [point for point in _merged_points(starts, ends, inner) if point < len(data)]
    footer = file_to_footer(io.BytesIO(data), "", len(data), points)
    return b"" if footer is None else footer_to_bytes(without_rare(footer))


def _merged_points(starts: Int64s, ends: Int64s, inner: Iterable[int]) -> list[int]:
    is_large = ends - starts >= 2 * BLOCK
    small = np.unique(starts[~is_large])
    chosen = small[np.diff(small // BLOCK, prepend=-1) > 0]
    return sorted({*chosen.tolist(), *starts[is_large].tolist(), *ends[is_large].tolist(), *inner})


def file_to_footer(source: BinaryIO, name: str, size: int, points: Sequence[int]) -> Footer | None:
    """The footer of an existing file, with all ranges that can be known; None if some of its records are bad, or it has
    none.

    Args:
        size: where its events end.
        points: where the blocks begin: at item boundaries, ascending.
    """
    if not points or points[-1] >= size:
        return None
    finder = RangeFinder()
    chunker = Chunker(source, name, (), None, BatchLimits(1 << 20, 1 << 26))
    try:
        for chunk in chunker.chunks(len(MAGIC), size, 0):
            finder.add(chunk, chunker.formats, points[1:])
    except PbioError:
        return None
    formats = list(chunker.formats)
    found = finder.made(formats, len(points), is_limited=False)
    if not found:
        return None
    counts = np.sum([one.records for one in found], axis=0)
    return Footer(
        np.array([*points, size], np.int64),
        np.concatenate([[0], np.cumsum(counts)]),
        tuple(form.id.hex() for form in formats),
        found,
    )


def without_rare(footer: Footer) -> Footer:
    """A footer small enough for readers: without the rarest formats."""
    by_count = sorted(range(len(footer.formats)), key=lambda number: -int(footer.ranges[number].records.sum()))
    kept = by_count[:MOST_FORMATS]
    ranges = limited([footer.ranges[number] for number in kept])
    return replace(footer, formats=tuple(footer.formats[number] for number in kept), ranges=ranges)
