"""Skips blocks in which, by the outline of a file, no record passes the filter.

Outlines are believed as far as docs/decisions/0017 says: a task skips only what the driver planned, and only if the
file is still the one that the outline describes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from pbio_spark.columns import ReadPlan, plan_to_excluding
from pbio_spark.paths import find_entry, locate
from pbio_spark.wire.hints.sidecar import Outline, Point, sample_of
from pbio_spark.wire.resync import numbered

if TYPE_CHECKING:
    from pbio_spark.source.files.planning import Split

log = logging.getLogger("pbio_spark.source")


@dataclass(frozen=True, slots=True)
class Skip:
    """Consecutive blocks of a file that are skipped.

    Attributes:
        start, end: offsets of item boundaries.
        blocks, records: their numbers.
        next: the ordinal of the first record after them.
    """

    start: int
    end: int
    blocks: int
    records: int
    next: int


def excluded_blocks(plan: ReadPlan, outline: Outline) -> npt.NDArray[np.bool_]:
    """The blocks of a file that yield neither rows nor errors, as far as an outline can tell."""
    selection = plan.selection
    out = np.ones(len(outline.points) + 1, np.bool_)
    has_filter = selection.request is not None and not selection.request.ordered
    # If the file system does not tell when a file was modified, only checksums can confirm the outline.
    is_known = outline.is_whole and outline.ranges and (outline.modified or outline.sums)
    if not has_filter or not is_known or any(point.ordinal is None for point in outline.points):
        return ~out
    for form, ranges in zip(outline.formats, outline.ranges, strict=True):
        has_some = ranges.records > 0
        if selection.only_name not in (None, form.name):
            out &= ~has_some  # the presence of such records is an error
        elif selection.has(form):
            excluding = plan_to_excluding(plan, form)
            out &= ~has_some if excluding is None else ~has_some | excluding.excluded(ranges)
    return out


def with_skips(split: Split, outline: Outline, excluded: npt.NDArray[np.bool_]) -> Split:
    """A split that skips its excluded blocks."""
    places = (Point(0, 0), *outline.points, Point(outline.size, sum(outline.counts)))
    inside = [number for number, place in enumerate(places[:-1]) if split.start <= place.offset < split.end]
    skips = tuple(_runs(places, [number for number in inside if excluded[number]]))
    if not skips:
        return split
    edges = {0, outline.size, *(edge for skip in skips for edge in (skip.start, skip.end))}
    sample_at = outline.sample_at
    samples = {*split.samples, *((edge, sample_at[edge]) for edge in edges)}
    return replace(split, formats=outline.formats, skips=skips, samples=tuple(sorted(samples)))


def _runs(places: Sequence[Point], blocks: Sequence[int]) -> Iterator[Skip]:
    first = 0
    for at, block in enumerate(blocks):
        if at + 1 < len(blocks) and blocks[at + 1] == block + 1:
            continue
        start, end = places[blocks[first]], places[block + 1]
        assert start.ordinal is not None
        assert end.ordinal is not None
        yield Skip(start.offset, end.offset, at + 1 - first, end.ordinal - start.ordinal, end.ordinal)
        first = at + 1


def joined(splits: Iterable[Split], most: int) -> Iterator[Split]:
    """Joins neighbouring splits of a file that skip, as long as at most `most` bytes are read.

    A split with nothing to read is dropped, if its file had the outline's bytes when planned.
    """
    waiting: Split | None = None
    for split in splits:
        if waiting is not None and _is_next(waiting, split, most):
            waiting = _with_next(waiting, split)
            continue
        if waiting is not None and not _is_spared(waiting):
            yield waiting
        waiting = split
    if waiting is not None and not _is_spared(waiting):
        yield waiting


def _is_next(split: Split, after: Split, most: int) -> bool:
    is_small = split.bytes + after.bytes <= most or 0 in (split.bytes, after.bytes)
    return is_small and split.file == after.file and split.end == after.start and bool(split.skips or after.skips)


def _is_spared(split: Split) -> bool:
    # If a task reads a part of a file, it compares skipped parts with the outline, and may read all of it.
    is_whole = split.start == 0 and split.end == split.file.size
    return is_whole and bool(split.skips) and split.bytes == 0 and not split.blocks


def _with_next(split: Split, after: Split) -> Split:
    skips = [*split.skips, *after.skips]
    at = len(split.skips)
    if 0 < at < len(skips) and skips[at - 1].end == skips[at].start:
        one, other = skips[at - 1], skips.pop(at)
        skips[at - 1] = Skip(one.start, other.end, one.blocks + other.blocks, one.records + other.records, other.next)
    return replace(
        split,
        end=after.end,
        formats=after.formats,  # `split` may start with the file, and need none
        anchors=(*split.anchors, *after.anchors),
        blocks=(*split.blocks, *after.blocks),
        skips=tuple(skips),
        samples=tuple(sorted({*split.samples, *after.samples})),
    )


def is_as_planned(split: Split, source: BinaryIO) -> bool:
    """Whether a file has the size and the time that it had, and the outline's bytes where blocks are skipped."""
    entry = find_entry(*locate(split.file.path))
    if entry is None or (entry.size, entry.modified) != (split.file.size, split.file.modified):
        return False
    return all(sample_of(source, place, split.file.size) == sample for place, sample in split.samples)


def kept_parts(split: Split) -> Iterator[tuple[int, int, int | None]]:
    """The parts of a split to read: start, end and ordinal of the first record."""
    start, ordinal = split.start, split.ordinal
    for skip in split.skips:
        if start < skip.start:
            yield start, skip.start, ordinal
        start, ordinal = skip.end, skip.next
    if start < split.end or not split.skips:
        yield start, split.end, ordinal


def log_skips(splits: Iterable[Split]) -> None:
    """Log how much a query skips."""
    skips = [(split, skip) for split in splits for skip in split.skips]
    if skips:
        log.info(
            "the filter skips %s of %s with %s, %d bytes",
            numbered(sum(skip.blocks for _, skip in skips), "block"),
            numbered(len({split.file.path for split, _ in skips}), "file"),
            numbered(sum(skip.records for _, skip in skips), "record"),
            sum(skip.end - skip.start for _, skip in skips),
        )
