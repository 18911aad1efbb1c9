"""What a file system refuses -> an error that says what, where, and what to do about it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

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


def _said(error: OSError) -> str:
    return error.strerror or str(error)
