"""Files that change after planning: what a task can see of that in the file that it has open anyway."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from pbio_spark.errors import PbioError
from pbio_spark.source.files.planning import Split
from pbio_spark.wire import Scanner
from pbio_spark.wire.hints.index import last_block

HINT = "start the query again; have writers create new files and rename them when complete"


@dataclass(frozen=True, slots=True)
class OpenState:
    """An open file: its bytes, and `modified` and `identity` as in `ListedFile`."""

    size: int
    modified: float
    identity: str


def look(source: BinaryIO) -> OpenState:
    """What the system knows of an open file now, and a store knew when it was opened; it is not asked again."""
    size = source.seek(0, os.SEEK_END)
    try:
        found = os.fstat(source.fileno())
    except (OSError, AttributeError):
        details = getattr(source, "details", None) or {}
        return OpenState(size, 0.0, str(details.get("ETag") or details.get("etag") or ""))
    return OpenState(size, found.st_mtime, f"{found.st_dev}:{found.st_ino}")


def check_planned(split: Split, source: BinaryIO, found: OpenState) -> None:
    """Raise PBIO_FILE_CHANGED if splits would take the rows of one file from two, or from two states of it.

    A file that only grew is as planned. A split that reads a file of the planned size whole takes what it finds.
    """
    file = split.file
    is_whole = (split.start, split.end) == (0, file.size)
    if found.size < file.size or (is_whole and found.size == file.size):
        return
    is_same_time = found.modified == file.modified
    if _is_another(file.identity, found.identity) and not (found.modified and is_same_time):
        raise _changed(split, "the file was replaced since it was listed")
    if found.modified and found.size == file.size and not is_same_time and not _has_index(split, source):
        raise _changed(split, "the file was rewritten since it was listed")


def check_unchanged(split: Split, source: BinaryIO, before: OpenState) -> None:
    """Raise PBIO_FILE_CHANGED if a file was rewritten in place while its split was read."""
    after = look(source)
    is_rewritten = after.size == before.size and after.modified != before.modified
    if is_rewritten and not _has_index(split, source):
        raise _changed(split, "the file was rewritten while it was read")


def check_size(split: Split, found: OpenState) -> None:
    """Refuse a file that ends before its split: truncation at an item boundary leaves no other trace."""
    if found.size < split.end:
        reason = f"the file had {split.file.size} bytes when it was listed and has {found.size} now"
        reason += ": it was truncated or overwritten meanwhile"
        raise PbioError("PBIO_ROWS_GONE", reason, file=split.file.path, hint=HINT)


def check_sums(split: Split, source: BinaryIO, found: OpenState) -> None:
    """Raise PBIO_CHECKSUM if a block of the split has other bytes than its checksum is of.

    A writer that appends overwrites the last index block, so a block that holds some of it is not compared then.
    """
    changed = range(0)
    if split.blocks and found.size > split.file.size:
        changed = last_block(Scanner(source, split.file.path), split.file.size)
    for block in split.blocks:
        if block.end <= changed.start or changed.stop <= block.start:
            block.check(source, split.file.path)


def _has_index(split: Split, source: BinaryIO) -> bool:
    """Whether a writer may have overwritten an index block, as it does at the end, and nothing else."""
    return bool(last_block(Scanner(source, split.file.path), split.file.size))


def _is_another(planned: str, found: str) -> bool:
    """Whether two identities are of two files: objects, or files of one device; other hosts number devices anew."""
    device, colon, _ = planned.partition(":")
    if colon:
        return planned != found and found.startswith(device + colon)
    planned, found = (tag.removeprefix("W/").strip('"') for tag in (planned, found))
    return bool(planned and found) and planned != found


def _changed(split: Split, reason: str) -> PbioError:
    return PbioError("PBIO_FILE_CHANGED", reason, file=split.file.path, hint=HINT)
