"""Checks a file without reading it: which file object it is, and whether it may have changed.

A local file is identified by its inode and time of birth, which survive renaming and are never reused together; an
object in a store by its ETag. Neither proves that the bytes are those that were read, since a file can be overwritten
in place. The stamp does, as it also includes size and times. But clocks have a resolution: until a file has been left
alone for `SETTLED` seconds it counts as fresh, and what was read of it is compared again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, BinaryIO, NamedTuple

from pbio_spark.paths import opened, trouble_at
from pbio_spark.source.files.listing import ListedFile

SETTLED = 2.0
"""How long after its last change, in seconds, a file may have changed again without a new time: FAT's resolution."""

ID_DIGITS = 16
_SHORT_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sight:
    """A file at one moment.

    Attributes:
        file: with its size and time of modification at that moment.
        id: of the file object, in 16 digits; empty if the file system has none.
        is_unique: whether no other file ever has that ID. A bare inode is reused.
        stamp: differs after every change of the file, including renaming, but not for another spelling of its path.
        is_fresh: whether the next change might leave the stamp unchanged.
    """

    file: ListedFile
    id: str
    is_unique: bool
    stamp: str
    is_fresh: bool

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def key(self) -> str:
        return key_of(self.file.path)


@lru_cache(1 << 16)
def key_of(path: str) -> str:
    """A path as 12 digits; for a local file, the same for all spellings of and links to its folder."""
    if _local_path(path) is not None:
        folder, slash, name = path.rpartition("/")
        path = f"{_real(folder)}{slash}{name}"
    return _short(path, 12)


def short_id(text: str) -> str:
    """The ID of a file object as 16 digits."""
    return text if not text or _SHORT_ID.fullmatch(text) else _short(text, ID_DIGITS)


@lru_cache(1 << 12)
def _real(folder: str) -> str:
    """A folder without links and `..`; a link that changes while the program runs keeps its old target."""
    return os.path.realpath(folder or "/").rstrip("/")


def look(file: ListedFile) -> Sight | None:
    """The file that now has the name of a listed file; None if there is none.

    Raises PBIO_NO_PERMISSION, PBIO_PATH_NOT_FOUND for a bad link, PBIO_FILE_SYSTEM.
    """
    local = _local_path(file.path)
    if local is not None:
        with trouble_at(local), suppress(FileNotFoundError, NotADirectoryError):
            return _from_disk(file, _stat(local))
        return None
    tag = file.identity
    stamp = _short(f"{tag or file.path}|{file.size}|{file.modified!r}", 16)
    return Sight(file, short_id(tag), bool(tag), stamp, time.time() - file.modified < SETTLED)


def look_at(files: Iterable[ListedFile]) -> list[Sight]:
    """The files that now have the names of listed files."""
    return [sight for file in files if (sight := look(file)) is not None]


@contextmanager
def open_sight(sight: Sight) -> Iterator[BinaryIO]:
    """The checked file, open for reading. Raises FileNotFoundError if its name has passed to another one."""
    with opened(sight.path) as source:
        if _local_path(sight.path) is not None and _from_disk(sight.file, _stat(source.fileno())).id != sight.id:
            raise FileNotFoundError(sight.path)
        yield source


def _local_path(path: str) -> str | None:
    return None if "://" in path else path


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


class _Stat(NamedTuple):
    """Times in nanoseconds; a birth of 0 is unknown."""

    inode: int
    birth: int
    size: int
    modified: int
    changed: int


def _from_disk(file: ListedFile, found: _Stat) -> Sight:
    seconds, rest = divmod(found.modified, 10**9)
    now = replace(file, size=found.size, modified=seconds + 1e-9 * rest)
    file_id = f"{found.inode:x}.{found.birth:x}"
    stamp = _short(f"{file_id}|{found.size}|{found.modified}|{found.changed}", 16)
    return Sight(now, short_id(file_id), bool(found.birth), stamp, time.time() - found.changed / 1e9 < SETTLED)


_STATX = struct.Struct("<32xQQ32x" + "qI4x" * 3)
"""Of `struct statx`: inode, size, and the times of birth, change and modification."""
_AT_FDCWD, _AT_EMPTY_PATH, _BASIC, _BTIME = -100, 0x1000, 0x7FF, 0x800


def _stat(target: str | int) -> _Stat:
    """Raises FileNotFoundError and NotADirectoryError."""
    statx = _statx()
    if statx is not None:
        buffer = ctypes.create_string_buffer(256)
        where = (target, b"", _AT_EMPTY_PATH) if isinstance(target, int) else (_AT_FDCWD, os.fsencode(target), 0)
        if statx(*where, _BASIC | _BTIME, buffer) == 0:
            has_birth = int.from_bytes(buffer.raw[:4], "little") & _BTIME
            inode, size, *times = _STATX.unpack_from(buffer)
            birth, changed, modified = (s * 10**9 + n for s, n in zip(times[::2], times[1::2], strict=True))
            return _Stat(inode, birth if has_birth else 0, size, modified, changed)
    found = os.stat(target)  # if statx is forbidden, and for its errors
    birth = int(getattr(found, "st_birthtime", 0) * 10**9)
    return _Stat(found.st_ino, birth, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@cache
def _statx() -> Any:
    """Linux's call, which Python lacks before 3.15; None elsewhere."""
    try:
        call = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p]
    return call
