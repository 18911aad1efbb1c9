"""Offsets of a stream over a folder: which files have been read, and how far, as readable JSON.

    {"version": 2, "names": ["reading"], "formats": ["0200..."], "watermark": 1764280000.25, "files": {
        "/data/a.ffs": {"from": [0, 0, ""], "to": [4096, 17, "9f86..."], "head": "d081884c", "id": "98406e.18ec306b...",
                        "stamp": "c58f02ba9b249e71", "modified": 1764280000.25}}, "remembered": "eJxjYG..."}

`to` is the end of a record, the number of records up to there, and their digest, which identifies the file. If a batch
reads from a file, `from` says where it starts. `docs/spark/streams.md` explains the consequences.

`files` has the files that the batch reads, those that wait for something, and the last `SHOWN` others; the rest,
including vanished files, is packed into about 55 bytes each. Files unchanged for `maxFileAge` are forgotten, and older
files are ignored, which keeps offsets small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.source.follow.digest import Base, Mark
from pbio_spark.source.follow.remembered import NO_ID, Row, pack, unpack
from pbio_spark.source.follow.sight import key_of, short_id

VERSION, EARLIER = 3, 2
SHOWN = 100

NOWHERE = Mark(0, 0, "")
"""Before the first record of a file."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far one file has been read.

    Attributes:
        key: a digest of the path, all that is kept of most paths.
        to: where reading resumes.
        head, id, stamp: of the file, as in `Digest` and `Sight`; the stamp is the file's when everything up to `to` had
            been read, and is empty if it was never known.
        modified: when the file was last modified, if known.
        path: as listed at the last read; empty if packed.
        start: where the batch that ends with this offset starts to read the file; None if it does not read it.
        folders: the values of the `k=v` folders that the batch gives the file's rows.
        is_fresh: whether the stamp was taken so soon after a change that the next change may not alter it.
        has_more: whether the file is known to hold complete records after `to`.
        damaged: the size of a file that is damaged after `to`; None if it is sound.
        is_gone: whether the file had disappeared before this offset.
    """

    key: str
    to: Mark
    head: str
    id: str
    stamp: str
    modified: float
    path: str = ""
    start: Mark | None = None
    folders: tuple[tuple[str, str | None], ...] = ()
    is_fresh: bool = False
    has_more: bool = False
    damaged: int | None = None
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """A stream's offset.

    Attributes:
        names: of the formats that the stream reads; empty until the first record.
        formats: IDs of all formats that the stream has met.
        watermark: the latest modification of all files read from, in seconds since 1970.
        files: files that have been read from; existing ones have distinct paths.
    """

    names: tuple[str, ...] = ()
    formats: tuple[bytes, ...] = ()
    watermark: float = 0.0
    files: tuple[FileProgress, ...] = ()


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """
    >>> mark = Mark(9, 2, "c0ffee", Base(4, 1, "aa"))
    >>> file = FileProgress(key_of("/a"), mark, "bead", short_id("1.2"), "f00d", 2.5, "/a", NOWHERE, has_more=True)
    >>> start = Progress(("reading",), (b"id",), 2.5, (file,))
    >>> progress_from_json(progress_to_json(start)) == start
    True
    """
    plain = [file for file in progress.files if not file.is_gone and file.path]
    latest = sorted((file.modified for file in plain), reverse=True)[:SHOWN]
    shown = [file for file in plain if file.modified >= (latest or [0.0])[-1] or _waits(file)]
    if len(shown) > SHOWN:  # many with the same time
        rest = SHOWN - sum(map(_waits, shown))
        shown = [file for file in shown if _waits(file) or (rest := rest - 1) >= 0]
    paths = {file.path for file in shown}
    said: dict[str, Any] = {
        "version": VERSION,
        "names": list(progress.names),
        "formats": [form.hex() for form in progress.formats],
        "watermark": progress.watermark,
        "files": {file.path: _file_to_json(file) for file in shown},
    }
    packed = [file for file in progress.files if file.is_gone or file.path not in paths]
    if packed:
        said["remembered"] = pack([_to_row(file) for file in packed])
    return said


def _waits(file: FileProgress) -> bool:
    """Whether more must be kept of a file than can be packed."""
    return file.start is not None or file.has_more or file.damaged is not None or file.is_fresh or not file.stamp


def _file_to_json(file: FileProgress) -> dict[str, Any]:
    said: dict[str, Any] = {"to": _mark_to_json(file.to), "head": file.head, "id": file.id, "stamp": file.stamp}
    said["modified"] = file.modified
    if file.start is not None:
        said["from"] = _mark_to_json(file.start)
    if file.folders:
        said["folders"] = [list(pair) for pair in file.folders]
    if file.is_fresh:
        said["fresh"] = True
    if file.has_more:
        said["more"] = True
    if file.damaged is not None:
        said["damaged"] = file.damaged
    return said


def _mark_to_json(mark: Mark) -> list[Any]:
    base = [] if not mark.base.offset else [[mark.base.offset, mark.base.ordinal, mark.base.chain]]
    return [mark.offset, mark.ordinal, mark.digest, *base]


def _to_row(file: FileProgress) -> Row:
    mark, modified = file.to, int(file.modified * 1e6)
    names = file.key, file.id or NO_ID, file.stamp or NO_ID, file.head, mark.digest
    return *names, modified, mark.offset, mark.ordinal, file.is_gone


def progress_from_json(said: Mapping[str, Any]) -> Progress:
    """Raises PBIO_BAD_OFFSET for an invalid offset, or one of another version."""
    try:
        if said["version"] not in (VERSION, EARLIER):
            raise ValueError(f"version {said['version']}, but this release reads version {VERSION}")
        files = [_file_from_json(path, file) for path, file in said["files"].items()]
        rows = unpack(said.get("remembered", ""), has_ids=said["version"] != EARLIER)
        for key, id_, stamp, head, digest, modified, offset, ordinal, is_gone in rows:
            mark = Mark(offset, ordinal, digest)
            known = "" if id_ == NO_ID else id_
            files.append(FileProgress(key, mark, head, known, stamp, modified / 1e6, is_gone=is_gone))
        formats = tuple(bytes.fromhex(form) for form in said["formats"])
        watermark = float(said["watermark"])
        if not math.isfinite(watermark):
            raise ValueError(f"the watermark is {watermark}")
        return Progress(tuple(said["names"]), formats, watermark, tuple(files))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = str(error) if isinstance(error, ValueError) else "it has another form"
        raise PbioError(
            "PBIO_BAD_OFFSET",
            f"the checkpoint's offset {str(said)[:200]} does not belong to this source: {why}",
            hint="give the query a new checkpoint; it reads all existing files from their start",
        ) from None


def _file_from_json(path: str, said: Mapping[str, Any]) -> FileProgress:
    return FileProgress(
        key_of(path),
        _mark_from_json(said["to"]),
        str(said["head"]),
        short_id(str(said["id"])),
        str(said["stamp"]),
        float(said["modified"]),
        path,
        _mark_from_json(said["from"]) if "from" in said else None,
        tuple((name, value) for name, value in said.get("folders", ())),
        bool(said.get("fresh")),
        bool(said.get("more")),
        said.get("damaged"),
    )


def _mark_from_json(said: Any) -> Mark:
    offset, ordinal, digest, *base = said
    return Mark(int(offset), int(ordinal), str(digest), *(Base(*part) for part in base))


def read_to(file: FileProgress, mark: Mark) -> FileProgress:
    """The progress as if the file had been read only up to an earlier mark."""
    return replace(file, to=mark, start=None, stamp="", has_more=True, damaged=None)
