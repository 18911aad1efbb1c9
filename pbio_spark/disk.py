"""Files that appear whole on a shared local disk, and refusals of any file system as PbioErrors.

A failed write has not happened, unless the error is PBIO_OUTCOME_UNKNOWN.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from pbio_spark.buckets import BUCKETS, failure_hint, refusal_hint
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@contextmanager
def refusals(path: str) -> Iterator[None]:
    """Turn a refusal of a file system, after which nothing has happened, into a PbioError.

    Raises:
        PbioError: PBIO_NO_PERMISSION, also for missing credentials; PBIO_NO_ROOM.
        Exception: any other failure.
    """
    try:
        yield
    except PbioError:
        raise
    except Exception as error:
        refused = _refusal(path, error)
        if refused is not None:
            raise refused from error
        raise


def _refusal(path: str, error: BaseException) -> PbioError | None:
    of_store = refusal_hint(error)
    if of_store is not None or isinstance(error, PermissionError) or _number(error) == errno.EROFS:
        hint = of_store or "check who may read and write there, and whether it is read-only"
        return PbioError("PBIO_NO_PERMISSION", f"not permitted: {_said(error)}", file=path, hint=hint)
    if _number(error) == errno.EFBIG:
        hint = "write smaller files; the file system, or a limit of the process (`ulimit -f`), allows no larger ones"
        return PbioError("PBIO_NO_ROOM", f"no room: {_said(error)}", file=path, hint=hint)
    if _number(error) in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space and try again; in a channel space, `pbio space vacuum` may free some"
        return PbioError("PBIO_NO_ROOM", f"no room: {_said(error)}", file=path, hint=hint)
    return None


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def make_folder(fs: AbstractFileSystem, path: str) -> None:
    """Make a folder and its parents, if the file system has folders. Buckets are not made: the name may be misspelled,
    and fsspec would create any."""
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if not protocols & BUCKETS:
        fs.makedirs(path, exist_ok=True)


@contextmanager
def into_what_is_there(path: str) -> Iterator[None]:
    """Raise PBIO_PATH_NOT_FOUND for a file in a folder or bucket that does not exist."""
    try:
        yield
    except FileNotFoundError as error:
        hint = "make the folder or the bucket first, or check its name"
        raise PbioError("PBIO_PATH_NOT_FOUND", f"cannot write there: {_said(error)}", file=path, hint=hint) from None


UNKNOWN = "PBIO_OUTCOME_UNKNOWN"

PASSING = frozenset({"PBIO_FILE_SYSTEM", "PBIO_NO_PERMISSION", "PBIO_NO_ROOM", UNKNOWN})
"""Codes of failures that may pass."""


def uncertain(path: str, error: Exception) -> PbioError:
    """The error for a write that failed but may have happened."""
    said = f"the file may or may not have been written: {_said(error)}"
    hint = "try again: existing files are found"
    more = failure_hint(error)
    return PbioError(UNKNOWN, said, file=path, hint=hint if more is None else f"{hint}; if it fails again, {more}")


@contextmanager
def definite() -> Iterator[None]:
    """For files that count only when another file names them: if writing one fails, nothing has happened.

    Raises PBIO_FILE_SYSTEM in place of PBIO_OUTCOME_UNKNOWN.
    """
    try:
        yield
    except PbioError as error:
        if error.code != UNKNOWN:
            raise
        cause, where = error.__cause__ or error, error.file or ""
        refused = _refusal(where, cause)
        reason = f"the file system failed: {_said(cause)}"
        failed = PbioError("PBIO_FILE_SYSTEM", reason, file=where, hint=failure_hint(cause))
        raise refused or failed from cause


def open_file(path: str, code: str) -> BinaryIO:
    """A file on a local disk, to read, in a folder that anyone may have made.

    A link may lead anywhere and a pipe may block: both raise an error with the given code. Also raises OSError.
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
        code, "expected a file, found a link, a folder or a device", file=path, hint="put the file itself there"
    )


def create_file(path: str, pieces: Sequence[Any]) -> bool:
    """Create a file of some buffers and sync it to the disk; returns False, with nothing changed, if it exists.

    It is written under another name and then linked to its own, which fails if that name is taken. Raises OSError and
    PBIO_OUTCOME_UNKNOWN, and the errors of `refusals`.
    """
    file = NewFile(path)
    try:
        for piece in pieces:
            file.write(piece)
    except BaseException:
        file.discard()
        raise
    return file.finish()


class NewFile:
    """A file that grows under a temporary name, and gets its own when complete, if that is still free.

    After `finish` or `discard` it can no longer be used.
    """

    def __init__(self, path: str) -> None:
        """Raises OSError, and the errors of `refusals`."""
        self.path = path
        self._open = ExitStack()
        self._sync = self._open.enter_context(_synced_folder(path))
        self._temporary = _temporary(path)
        try:
            with refusals(path):
                self._file = self._open.enter_context(open(self._temporary, "xb"))  # noqa: SIM115 - the stack closes it
        except BaseException:
            self._open.close()
            raise

    def write(self, data: Any) -> None:
        """Append bytes, or a buffer. Raises as the class does."""
        with refusals(self.path):
            self._file.write(data)

    def finish(self) -> bool:
        """Sync the file to the disk and give it its name. Returns and raises as `create_file` does."""
        try:
            with refusals(self.path):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
            try:
                with refusals(self.path):
                    os.link(self._temporary, self.path)
            except FileExistsError:
                return False
            except (OSError, PbioError):
                # A network file system may report this although the link was made.
                if not _stands(self.path, os.stat(self._temporary)):
                    raise
            finally:
                self._tidied()
            self._sync()
        finally:
            self.discard()
        return True

    def discard(self) -> None:
        """Abandon the file, unless it has its name."""
        with suppress(OSError):  # a disk may be so full that not even closing succeeds
            self._open.close()
        self._tidied()

    def _tidied(self) -> None:
        temporary, self._temporary = self._temporary, ""
        if temporary:
            _tidy(temporary)


def replace_file(path: str, data: bytes) -> None:
    """Create a file or replace it as a whole, and sync it to the disk. Raises what `create_file` raises."""
    with _synced_folder(path) as sync:
        temporary = _write_temporary(path, [data])
        written = os.stat(temporary)
        try:
            with refusals(path):
                os.replace(temporary, path)
        except BaseException:
            if not _stands(path, written):
                _tidy(temporary)
                raise
        sync()


def sync_folder(path: str) -> None:
    """Sync a folder: a new name is safe only once its folder is on the disk."""
    with _synced_folder(f"{path}/") as sync:
        sync()


@contextmanager
def _synced_folder(path: str) -> Iterator[Callable[[], None]]:
    """A function that syncs the folder of a file. The folder is opened before anything is written, because opening may
    fail."""
    above = os.path.dirname(path)
    with refusals(above):
        folder = os.open(above, os.O_RDONLY)

    def sync() -> None:
        try:
            os.fsync(folder)
        except OSError as error:
            raise uncertain(path, error) from error

    try:
        yield sync
    finally:
        os.close(folder)


def _stands(path: str, written: os.stat_result) -> bool:
    """Whether a file is at a path. Raises PBIO_OUTCOME_UNKNOWN if that cannot be determined."""
    try:
        return os.path.samestat(os.lstat(path), written)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise uncertain(path, error) from error


def _tidy(temporary: str) -> None:
    """Remove an unreferenced file. If that fails, a later cleanup treats it as a dead writer's."""
    with suppress(OSError):
        os.unlink(temporary)


def _temporary(path: str) -> str:
    return f"{os.path.dirname(path)}/.{uuid.uuid4().hex}.tmp"


def _write_temporary(path: str, pieces: Sequence[Any]) -> str:
    temporary = _temporary(path)
    try:
        with refusals(path), open(temporary, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _tidy(temporary)
        raise
    return temporary


def _said(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"
