"""What a file system refuses -> an error that says what, where, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

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


def _said(error: OSError) -> str:
    return error.strerror or str(error)
