"""How far one growing file can be read on: to the end of its last complete record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

import fsspec

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.listing import DataFile
from pbio_spark.source.progress import FileProgress, Mark
from pbio_spark.wire import Item, Kind, Scanner, TruncatedError
from pbio_spark.wire.sidecar import Point

MARKED = 4096
"""How many bytes of a record identify it."""


@dataclass(frozen=True, slots=True)
class Advance:
    """A part of a file that can be read.

    Attributes:
        last: the last record in it; None if there is only damage.
        formats: of its records, by ID.
        is_all: whether all complete records are in it.
        damage: what is wrong behind it, if anything is.
    """

    start: Point
    to: Point
    last: Mark | None
    formats: Mapping[bytes, Format]
    is_all: bool
    damage: PbioError | None


def advance(file: DataFile, start: Point, known: Mapping[bytes, Format], room: int | None) -> Advance | None:
    """The next part of a file, or None if no complete record follows `start`.

    Args:
        known: the formats of records before `start` as far as they are known.
        room: how many bytes are wanted, about, but at least one record; None for all there are.
    """
    fs, path = fsspec.url_to_fs(file.path)
    with fs.open(path, "rb") as source:
        scanner = Scanner(source, file.path, offset=start.offset, ordinal=start.ordinal, formats=known)
        used: set[bytes] = set()
        last: Item | None = None
        damage: PbioError | None = None
        is_all = True
        try:
            for item in scanner.items():
                if item.end > file.size:
                    break  # what came after the listing waits for the next one
                if item.kind is not Kind.DATA:
                    continue
                used.add(item.format_id)
                last = item
                if room is not None and item.end - start.offset >= room:
                    is_all = False
                    break
        except TruncatedError:
            pass
        except PbioError as error:
            damage = error
        if last is None and damage is None:
            return None
        to = start if last is None else Point(last.end, last.ordinal + 1)
        formats = {format_id: scanner.formats[format_id] for format_id in used & scanner.formats.keys()}
        if used - formats.keys() and start.offset:
            earlier = formats_before(file.path, start.offset)
            formats |= {format_id: earlier[format_id] for format_id in used & earlier.keys()}
        return Advance(
            start, to, None if last is None else _mark(source, last.offset, last.end), formats, is_all, damage
        )


def formats_before(path: str, end: int) -> dict[bytes, Format]:
    """The formats that a file describes before an offset."""
    fs, plain = fsspec.url_to_fs(path)
    with fs.open(plain, "rb") as source:
        scanner = Scanner(source, path)
        for _ in scanner.items(end):
            pass
    return scanner.formats


def is_still(file: DataFile, progress: FileProgress) -> bool:
    """Whether a file is the one that was read: longer by now, with the last record that was read at its place."""
    if file.size < progress.to.offset:
        return False
    if progress.last is None:
        return True
    fs, path = fsspec.url_to_fs(file.path)
    try:
        with fs.open(path, "rb") as source:
            return _mark(source, progress.last.offset, progress.to.offset) == progress.last
    except FileNotFoundError:
        return False


def _mark(source: BinaryIO, start: int, end: int) -> Mark:
    source.seek(start)
    return Mark(start, hashlib.sha256(source.read(min(end - start, MARKED))).hexdigest()[:16])
