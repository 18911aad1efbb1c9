"""Files that appear whole, on a local disk that others use too, and what any file system refuses as errors of ours."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from pbio_spark.errors import PbioError


@contextmanager
def refusals(path: str) -> Iterator[None]:
    """Turn what a file system refuses for good, so that nothing of it has happened, into an error that says so.

    Raises:
        PbioError: PBIO_NO_PERMISSION, PBIO_NO_ROOM.
        OSError: whatever else it was.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            hint = "look at who may read and write there, and whether it is read-only"
            raise PbioError("PBIO_NO_PERMISSION", f"not permitted: {_said(error)}", file=path, hint=hint) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "make room, then do it again; in a channel space, `pbio space vacuum` may find some"
            raise PbioError("PBIO_NO_ROOM", f"no room: {_said(error)}", file=path, hint=hint) from error
        raise


def open_file(path: str, code: str) -> BinaryIO:
    """A file on a local disk, to read, in a folder that anyone may have made.

    A link may lead anywhere, and whoever opens a pipe may wait for ever: an error of the code that is given. Raises
    OSError besides.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
    else:
        if stat.S_ISREG(os.fstat(number).st_mode):
            return open(number, "rb")
        os.close(number)
    raise PbioError(
        code, "a link, a folder or a device stands where a file should", file=path, hint="put the file itself there"
    )


def create_file(path: str, pieces: Sequence[Any]) -> bool:
    """Create a file of some buffers and bring it to the disk, unless it exists: False then, and nothing has changed.

    It is written under another name, and then linked to its own, which fails if that is taken.
    """
    temporary = _write_temporary(path, pieces)
    try:
        with refusals(path):
            os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(os.path.dirname(path))
    return True


def replace_file(path: str, data: bytes) -> None:
    """Create a file or replace it as a whole, and bring it to the disk."""
    temporary = _write_temporary(path, [data])
    try:
        with refusals(path):
            os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path))


def sync_folder(path: str) -> None:
    """A new name is safe only when its folder is on the disk too."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_temporary(path: str, pieces: Sequence[Any]) -> str:
    temporary = f"{os.path.dirname(path)}/.{uuid.uuid4().hex}.tmp"
    try:
        with refusals(path), open(temporary, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return temporary


def _said(error: OSError) -> str:
    return error.strerror or str(error)
