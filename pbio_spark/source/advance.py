"""How far one growing file can be read on: to the end of its last complete record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ecode.native.table import address_of
from pbio_spark.columns.chunks import UNKNOWN, Chunker
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.paths import opened
from pbio_spark.source.listing import DataFile
from pbio_spark.source.outlines import CHUNK_BYTES, CHUNK_RECORDS, HEAD
from pbio_spark.source.progress import FileProgress, Mark
from pbio_spark.wire import TruncatedError
from pbio_spark.wire.sidecar import Point

MARKED = 4096
"""How many bytes of a record identify it."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A part of a file that can be read.

    Attributes:
        last: the last record in it; None if there is only damage.
        formats: that are known of the file up to `to`, by ID.
        used: those of its records.
        has_unknown: whether some records are of a format that is not known.
        is_all: whether all complete records are in it.
        damage: what is wrong behind it, if anything is.
    """

    start: Point
    to: Point
    last: Mark | None
    formats: Mapping[bytes, Format]
    used: tuple[Format, ...]
    has_unknown: bool
    is_all: bool
    damage: PbioError | None


def advance(file: DataFile, start: Point, known: Mapping[bytes, Format], room: int | None) -> Advance | None:
    """The next part of a file, or None if no complete record follows `start`.

    Args:
        known: the formats of records before `start` as far as they are known.
        room: how many bytes are wanted, about, but at least one record; None for all there are.

    Raises PBIO_NOT_FFS, or what is wrong with a format body.
    """
    if start.offset and not known:
        known = formats_before(file.path, min(start.offset, HEAD))
    with opened(file.path) as source:
        found = _advance(file, source, start, known, room)
        if found is not None and found.has_unknown and start.offset:
            found = _advance(file, source, start, formats_before(file.path, start.offset), room)
    return found


def _advance(
    file: DataFile, source: BinaryIO, start: Point, known: Mapping[bytes, Format], room: int | None
) -> Advance | None:
    chunker = Chunker(source, file.path, tuple(known.values()), lambda _: None, CHUNK_RECORDS, CHUNK_BYTES)
    used: set[int] = set()
    last, to, ordinal = 0, start.offset, start.ordinal
    damage: PbioError | None = None
    is_all = True
    for chunk in chunker.chunks(start.offset, file.size, start.ordinal):
        if chunk.error is not None:
            damage = None if isinstance(chunk.error, TruncatedError) else chunk.error
            break
        ends = chunk.offset + chunk.ends - address_of(chunk.data)
        count = len(ends)
        if room is not None and ends[-1] - start.offset >= room:
            count = int(np.searchsorted(ends, start.offset + room)) + 1
            is_all = False
        used |= set(np.unique(chunk.formats[:count]).tolist())
        last, to = chunk.offset + int(chunk.positions[count - 1]), int(ends[count - 1])
        ordinal = chunk.ordinal + count
        if not is_all:
            break
    if to == start.offset and damage is None:
        return None
    formats = {form.id: form for form in chunker.formats}
    forms = tuple(form for number, form in enumerate(chunker.formats) if number in used)
    mark = _mark(source, last, to) if to > start.offset else None
    return Advance(start, Point(to, ordinal), mark, formats, forms, UNKNOWN in used, is_all, damage)


def formats_before(path: str, end: int) -> dict[bytes, Format]:
    """The formats that a file describes before an offset."""
    with opened(path) as source:
        chunker = Chunker(source, path, (), lambda _: None, CHUNK_RECORDS, CHUNK_BYTES)
        for _ in chunker.chunks(0, end, 0):
            pass
    return {form.id: form for form in chunker.formats}


def is_still(file: DataFile, progress: FileProgress) -> bool:
    """Whether a file is the one that was read: longer by now, with the last record that was read at its place."""
    if file.size < progress.to.offset:
        return False
    if progress.last is None:
        return True
    try:
        with opened(file.path) as source:
            return _mark(source, progress.last.offset, progress.to.offset) == progress.last
    except FileNotFoundError:
        return False


def _mark(source: BinaryIO, start: int, end: int) -> Mark:
    source.seek(start)
    return Mark(start, hashlib.sha256(source.read(min(end - start, MARKED))).hexdigest()[:16])
