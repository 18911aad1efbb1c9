"""Files that change after planning: what a task can see of that in the file that it has open anyway."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from pbio_spark.errors import PbioError
from pbio_spark.source.files.planning import Split
from pbio_spark.wire import Scanner
from pbio_spark.wire.hints.index import last_block
from pbio_spark.wire.hints.sidecar import sample_of, sampled

HINT = "start the query again; have writers create new files and rename them when complete"


@dataclass(frozen=True, slots=True)
class OpenState:
    """An open file: its bytes, and `modified` and `identity` as in `ListedFile`."""

    size: int
    modified: float
    identity: str


def look(source: BinaryIO) -> OpenState:
    """The state of an open file: from `fstat`, or for an object as the store reported it on opening."""
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
    Where neither time nor identity decides, the split's samples do.
    """
    file = split.file
    is_size, is_time = found.size == file.size, bool(found.modified) and found.modified == file.modified
    if found.size < file.size or (is_size and (split.start, split.end) == (0, file.size)):
        return
    is_another = _is_another(file.identity, found.identity)
    if is_another and not is_time:  # with the same time, the file system may only have numbered its files anew
        raise _changed(split, "the file was replaced since it was listed")
    is_known = is_time if found.modified else bool(found.identity)
    if not is_size or not is_known or is_another:
        is_rewritten = is_size and bool(found.modified) and not is_time
        _check_bytes(split, source, "since it was listed", is_rewritten=is_rewritten)


def check_unchanged(split: Split, source: BinaryIO, before: OpenState, after: OpenState) -> None:
    """Raise PBIO_FILE_CHANGED if a file was rewritten in place while its split was read."""
    if after != before and after.size >= split.file.size:
        _check_bytes(split, source, "while it was read", is_rewritten=after.size == before.size)


def check_size(split: Split, found: OpenState) -> None:
    """Refuse a file that ends before its split: truncation at an item boundary leaves no other trace."""
    if found.size < split.end:
        reason = f"the file had {split.file.size} bytes when it was listed and has {found.size} now"
        reason += ": it was truncated or overwritten meanwhile"
        raise PbioError("PBIO_ROWS_GONE", reason, file=split.file.path, hint=HINT)


def check_sums(split: Split, source: BinaryIO, found: OpenState) -> None:
    """Raise PBIO_CHECKSUM if a block of the split has other bytes than its checksum is of.

    A block that holds some of what appending overwrites is not compared if the file grew.
    """
    changed = _overwritten(split, source) if split.blocks and found.size > split.file.size else range(0)
    for block in split.blocks:
        if not _meet(range(block.start, block.end), changed):
            block.check(source, split.file.path)


def _check_bytes(split: Split, source: BinaryIO, when: str, *, is_rewritten: bool) -> None:
    """Raise PBIO_FILE_CHANGED if a file has other bytes at the split's samples, apart from what appending overwrites.

    Args:
        is_rewritten: whether it was written to at its size, which only the end of an index explains.
    """
    size, changed = split.file.size, _overwritten(split, source)
    compared = [(place, sample) for place, sample in split.samples if not _meet(sampled(place, size), changed)]
    is_other = any(sample_of(source, place, size) != sample for place, sample in compared)
    if is_other or (is_rewritten and not changed):
        raise _changed(split, f"the file was rewritten {when}")


def _overwritten(split: Split, source: BinaryIO) -> range:
    """The bytes that a writer overwrites when it ends or appends: those of the last index block, if there is one."""
    with suppress(PbioError):  # not an FFS file any more
        return last_block(Scanner(source, split.file.path), split.file.size)
    return range(0)


def _meet(one: range, other: range) -> bool:
    """Whether two runs of bytes have some in common."""
    return max(one.start, other.start) < min(one.stop, other.stop)


def _is_another(planned: str, found: str) -> bool:
    """Whether two identities are of two files: objects, or files of one device; other hosts number devices anew."""
    device, colon, _ = planned.partition(":")
    if colon:
        return planned != found and found.startswith(device + colon)
    planned, found = (tag.removeprefix("W/").strip('"') for tag in (planned, found))
    return bool(planned and found) and planned != found


def _changed(split: Split, reason: str) -> PbioError:
    return PbioError("PBIO_FILE_CHANGED", reason, file=split.file.path, hint=HINT)
