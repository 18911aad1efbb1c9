"""Outlines of files: which formats are in one and where it can be split, so that nobody has to walk it again.

A sidecar is the outline of a file on disk, a small JSON file beside it that `pbio index` and our writer make:
`.reading.ffs.outline` belongs to `reading.ffs`. It counts only as long as the file has the size and the time of
modification that it names.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

VERSION = 1
STEP = 4 << 20
"""How far apart the points of an outline are at least, in bytes."""
LIMIT = 64 << 20
"""A sidecar of more bytes than this is not read."""


@dataclass(frozen=True, slots=True)
class Point:
    """An item boundary: its offset in the file, and the ordinal of the next record."""

    offset: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a file.

    Attributes:
        size, modified: of the file that this is said of; bytes, and seconds since 1970.
        formats: in the order in which they come.
        counts: of each format, how many records it has.
        points: places to split, ascending and at least `STEP` apart; neither the start nor the end.
        is_whole: whether all of this is said of the whole file, or of its head only.
    """

    size: int
    modified: float
    formats: tuple[Format, ...]
    counts: tuple[int, ...]
    points: tuple[Point, ...]
    is_whole: bool

    def is_of(self, size: int, modified: float) -> bool:
        return (self.size, self.modified) == (size, modified)


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
    return json.dumps(
        {
            "version": VERSION,
            "size": outline.size,
            "modified": outline.modified,
            "whole": outline.is_whole,
            "formats": formats,
            "points": [[point.offset, point.ordinal] for point in outline.points],
        }
    )


def outline_from_json(text: str | bytes) -> Outline | None:
    """The outline, or None if the text is none that this version understands."""
    try:
        said = json.loads(text)
        if said["version"] != VERSION:
            return None
        outline = Outline(
            size=int(said["size"]),
            modified=float(said["modified"]),
            formats=tuple(Format.from_body(b64decode(f["body"]), bytes.fromhex(f["id"])) for f in said["formats"]),
            counts=tuple(int(f["records"]) for f in said["formats"]),
            points=tuple(Point(int(offset), int(ordinal)) for offset, ordinal in said["points"]),
            is_whole=bool(said["whole"]),
        )
        for format in outline.formats:  # noqa: A001
            format.verify_id()
    except (ValueError, LookupError, TypeError, RecursionError, PbioError):
        return None
    places = [(0, 0), *((point.offset, point.ordinal) for point in outline.points)]
    ascending = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(places))
    return outline if ascending and places[-1][0] <= outline.size else None


def sidecar_path(path: str) -> str:
    """Where the sidecar of a file lies.

    >>> sidecar_path("data/reading.ffs")
    'data/.reading.ffs.outline'
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.outline"


def read_sidecar(fs: AbstractFileSystem, path: str, size: int, modified: float) -> Outline | None:
    """The outline in a file's sidecar, or None if there is none, or none of the file as it is now."""
    try:
        with fs.open(sidecar_path(path), "rb") as file:
            text = file.read(LIMIT)
    except OSError:
        return None
    outline = outline_from_json(text)
    return outline if outline is not None and outline.is_of(size, modified) else None


def write_sidecar(fs: AbstractFileSystem, path: str, outline: Outline) -> None:
    """Write the sidecar of a file, whole or not at all."""
    target = sidecar_path(path)
    fs.pipe_file(f"{target}.tmp", outline_to_json(outline).encode())
    fs.mv(f"{target}.tmp", target)
