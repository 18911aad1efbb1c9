"""Offsets of a stream over a folder: which files have been read, and how far. Plain JSON that people can read.

    {"version": 1, "names": ["reading"], "watermark": 1764280000.25, "files": {
        "a.ffs": {"to": [4096, 17], "last": [4000, "9f86d081884c7d65"], "modified": 1764280000.25}}}

`to` is an item boundary and the number of records before it. Where a batch reads from a file, `from` says from where.
`last` identifies the file by the last record read, its place and a hash: a file that no longer has it there is another
file under the same name, a file of another name that does have it there was renamed. Files that have not changed for
`maxFileAge` are forgotten, and files older than that are not looked at, which keeps offsets small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.wire.sidecar import Point

VERSION = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A record that was read: its item's offset, and a hash of the item's first bytes."""

    offset: int
    hash: str


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far one file has been read.

    Attributes:
        to: where reading goes on.
        last: the last record before `to`; None if there is none.
        modified: when the file was last modified, as far as is known.
        start: where the batch that ends with this offset starts to read the file; None if it does not read it.
        damaged: the size of a file that is damaged behind `to`, of which nothing more is read; None if it is sound.
    """

    to: Point
    last: Mark | None
    modified: float
    start: Point | None = None
    damaged: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A stream's offset.

    Attributes:
        names: of the formats that the stream reads; empty until the first record.
        watermark: the latest modification of all files read from, in seconds since 1970.
        files: by path.
    """

    names: tuple[str, ...] = ()
    watermark: float = 0.0
    files: Mapping[str, FileProgress] = field(default_factory=dict)


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """
    >>> start = Progress(("reading",), 2.5, {"a": FileProgress(Point(9, 1), Mark(4, "c0ffee"), 2.5, Point(0, 0))})
    >>> progress_from_json(progress_to_json(start)) == start
    True
    """
    return {
        "version": VERSION,
        "names": list(progress.names),
        "watermark": progress.watermark,
        "files": {path: _file_to_json(file) for path, file in progress.files.items()},
    }


def _file_to_json(file: FileProgress) -> dict[str, Any]:
    said: dict[str, Any] = {"to": [file.to.offset, file.to.ordinal], "modified": file.modified}
    if file.last is not None:
        said["last"] = [file.last.offset, file.last.hash]
    if file.start is not None:
        said["from"] = [file.start.offset, file.start.ordinal]
    if file.damaged is not None:
        said["damaged"] = file.damaged
    return said


def progress_from_json(said: Mapping[str, Any]) -> Progress:
    """Raises PBIO_BAD_OFFSET for an offset that is none of this version."""
    try:
        if said["version"] != VERSION:
            raise ValueError(f"version {said['version']}")
        files = {path: _file_from_json(file) for path, file in said["files"].items()}
        return Progress(tuple(said["names"]), float(said["watermark"]), files)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PbioError(
            "PBIO_BAD_OFFSET", f"the checkpoint's offset {str(said)[:200]} is not one of this source: {error}"
        ) from None


def _file_from_json(said: Mapping[str, Any]) -> FileProgress:
    return FileProgress(
        Point(*said["to"]),
        Mark(*said["last"]) if "last" in said else None,
        float(said["modified"]),
        Point(*said["from"]) if "from" in said else None,
        said.get("damaged"),
    )
