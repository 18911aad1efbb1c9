"""Outlines of files: the formats in a file and the places where it can be split, so that no reader walks it again.

A sidecar is the outline of a file on disk, a small JSON file beside it that `pbio index` and the writer of this package
make: `.reading.ffs.outline` belongs to `reading.ffs`. It is a hint: it counts only while it is intact (it has a digest
of itself), the file has the size and the time of modification that it names, and the bytes at the start, at the end and
at the places to split are those of the outlined file. It may say what values the records hold between these places.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.paths import full_path, move_file, opened
from pbio_spark.wire.hints.ranges import Ranges, ranges_from_json, ranges_to_json

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

VERSION = 2
STEP = 4 << 20
"""The least distance between the points of an outline, in bytes."""
LIMIT = 16 << 20
"""The largest sidecar that is read, in bytes."""
PIECE = 1 << 20
"""The bytes that are read at once to make a checksum."""
SAMPLE, END_SAMPLE = 64, 4096
"""The bytes that are compared at each point, and at the start and the end of the file."""


@dataclass(frozen=True, slots=True)
class Point:
    """An item boundary: its offset in the file, and the ordinal of the next record; None if that is not known."""

    offset: int
    ordinal: int | None


@dataclass(frozen=True, slots=True)
class ChecksumBlock:
    """The bytes between two offsets of a file, and their CRC-32."""

    start: int
    end: int
    sum: int

    def sum_in(self, source: BinaryIO) -> int:
        """The CRC-32 of these bytes of a file; bytes beyond its end do not count."""
        source.seek(self.start)
        left, found = self.end - self.start, 0
        while left > 0 and (data := source.read(min(left, PIECE))):
            found, left = zlib.crc32(data, found), left - len(data)
        return found

    def check(self, source: BinaryIO, file: str) -> None:
        """Raise PBIO_CHECKSUM if the file has other bytes there."""
        if self.sum_in(source) != self.sum:
            raise PbioError(
                "PBIO_CHECKSUM",
                f"the bytes from offset {self.start} to {self.end} do not match their checksum",
                file=file,
                offset=self.start,
                hint="restore the file; if the file is right, write its outline again with `pbio index --checksums`",
            )


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known about a file.

    Attributes:
        size, modified: of the outlined file; bytes, and seconds since 1970.
        formats: in the order of the file.
        counts: the number of records of each format.
        points: places to split, ascending and at least `STEP` apart; neither the start nor the end.
        is_whole: whether the outline covers the whole file, or only its head.
        samples: checksums of the file's bytes at its start, at each point, and at its end; see `with_samples`.
        sums: CRC-32 of all bytes before the first point, between points, and after the last; () without checksums.
        ranges: of each format, what its records hold in each of these blocks; () without.
    """

    size: int
    modified: float
    formats: tuple[Format, ...]
    counts: tuple[int, ...]
    points: tuple[Point, ...]
    is_whole: bool
    samples: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    ranges: tuple[Ranges, ...] = ()

    def is_of(self, size: int, modified: float) -> bool:
        return (self.size, self.modified) == (size, modified)

    @property
    def blocks(self) -> tuple[ChecksumBlock, ...]:
        """The blocks that have checksums."""
        places = self._places
        return tuple(map(ChecksumBlock, places, places[1:], self.sums)) if self.sums else ()

    def with_sums(self, source: BinaryIO) -> Outline:
        """The outline with a checksum of each block of its file."""
        blocks = replace(self, sums=(0,) * (len(self.points) + 1)).blocks
        return replace(self, sums=tuple(block.sum_in(source) for block in blocks))

    @property
    def _places(self) -> tuple[int, ...]:
        return (0, *(point.offset for point in self.points), self.size)

    @property
    def sample_at(self) -> dict[int, int]:
        """The samples by their places; empty without samples."""
        return dict(zip(self._places, self.samples, strict=True)) if self.samples else {}

    def with_samples(self, source: BinaryIO) -> Outline:
        """The outline with samples of its file."""
        return replace(self, samples=tuple(sample_of(source, place, self.size) for place in self._places))

    def fits(self, source: BinaryIO, points: Iterable[Point]) -> bool:
        """Whether a file has, at its start, its end and these points, the bytes of the outlined file."""
        if len(self.samples) != len(self.points) + 2:
            return False
        known = dict(zip(self.points, self.samples[1:], strict=False))
        wanted = {0: self.samples[0], self.size: self.samples[-1]} | {point.offset: known[point] for point in points}
        return all(sample_of(source, place, self.size) == sample for place, sample in sorted(wanted.items()))


def sampled(place: int, size: int) -> range:
    """Which bytes of a file of a size are its sample at a place; at its start and at its end these are more.

    >>> sampled(0, 9000), sampled(5000, 9000), sampled(8990, 9000), sampled(9000, 9000)
    (range(0, 4096), range(5000, 5064), range(8990, 9000), range(4904, 9000))
    """
    start, length = (place, SAMPLE) if 0 < place < size else (max(0, place - END_SAMPLE), END_SAMPLE)
    return range(start, min(start + length, size))


def sample_of(source: BinaryIO, place: int, size: int) -> int:
    """The CRC-32 of a file's sample at a place. What follows the first `size` bytes does not count."""
    there = sampled(place, size)
    source.seek(there.start)
    return zlib.crc32(source.read(len(there)))


def outline_to_json(outline: Outline) -> str:
    """
    >>> outline = Outline(4, 0.5, (), (), (), True)
    >>> outline_from_json(outline_to_json(outline)) == outline
    True
    """
    formats = [
        {"name": format.name, "id": format.id.hex(), "records": count, "body": b64encode(format.body).decode()}
        for format, count in zip(outline.formats, outline.counts, strict=True)  # noqa: A001
    ]
    said = {
        "version": VERSION,
        "size": outline.size,
        "modified": outline.modified,
        "whole": outline.is_whole,
        "formats": formats,
        "points": [[point.offset, point.ordinal] for point in outline.points],
        "samples": list(outline.samples),
        "sums": list(outline.sums),
    }
    if outline.ranges:
        said["ranges"] = [ranges_to_json(one) for one in outline.ranges]
    return json.dumps({**said, "digest": _digest(said)})


def _digest(said: dict[str, Any]) -> str:
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def outline_from_json(text: str | bytes) -> Outline | None:
    """The outline, or None if this version did not write the text."""
    try:
        said = json.loads(text)
        if said["version"] != VERSION or said.pop("digest") != _digest(said):
            return None
        outline = Outline(
            size=int(said["size"]),
            modified=float(said["modified"]),
            formats=tuple(Format.from_body(b64decode(f["body"]), bytes.fromhex(f["id"])) for f in said["formats"]),
            counts=tuple(int(f["records"]) for f in said["formats"]),
            points=tuple(Point(int(offset), int(ordinal)) for offset, ordinal in said["points"]),
            is_whole=bool(said["whole"]),
            samples=tuple(int(sample) for sample in said["samples"]),
            sums=tuple(int(found) for found in said.get("sums", ())),
            ranges=_ranges(said.get("ranges"), len(said["formats"]), len(said["points"]) + 1),
        )
        for format in outline.formats:  # noqa: A001
            format.verify_id()
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, PbioError):
        return None
    if outline.sums and len(outline.sums) != len(outline.points) + 1:
        return None
    places = [(0, 0), *((point.offset, point.ordinal or 0) for point in outline.points)]
    ascending = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(places))
    return outline if ascending and places[-1][0] <= outline.size else None


def _ranges(said: Any, formats: int, blocks: int) -> tuple[Ranges, ...]:
    """The ranges of each format; () if they are of another number of formats or blocks."""
    if not isinstance(said, list) or len(said) != formats:
        return ()
    found = [ranges_from_json(one, blocks) for one in said]
    return tuple(one for one in found if one is not None) if None not in found else ()


def sidecar_path(path: str) -> str:
    """The path of the sidecar of a file.

    >>> sidecar_path("data/reading.ffs")
    'data/.reading.ffs.outline'
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.outline"


def read_sidecar(fs: AbstractFileSystem, path: str, size: int, modified: float) -> Outline | None:
    """The outline in a file's sidecar; None if it is missing or does not fit the current file."""
    try:
        with opened(full_path(fs, sidecar_path(path))) as file:
            text = file.read(LIMIT)
    except (OSError, ValueError, PbioError):
        return None
    outline = outline_from_json(text)
    return outline if outline is not None and outline.is_of(size, modified) else None


def write_sidecar(fs: AbstractFileSystem, path: str, outline: Outline) -> None:
    """Write the sidecar of a file, whole or not at all."""
    target = sidecar_path(path)
    fs.pipe_file(f"{target}.tmp", outline_to_json(outline).encode())
    move_file(fs, f"{target}.tmp", target)
