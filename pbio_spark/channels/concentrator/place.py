"""Where the concentrator of a space listens: a socket in a folder that only its user can enter."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.layout import SPACE
from pbio_spark.errors import PbioError

CODE = "PBIO_CONCENTRATOR"
FOLDER = "PBIO_RUNTIME_DIR"
"""The environment variable that names the folder of sockets, for both ends; default `/tmp/pbio-<user ID>`."""

_LONGEST_PATH = 100
"""The most bytes of a socket's path, a little less than systems allow."""


@dataclass(frozen=True, slots=True)
class MeetingPlace:
    """The place where processes of this machine and user meet for one space.

    Attributes:
        folder: of sockets.
        name: of the space there: a digest of its location and ID. Links to a space lead to the same name; a copy of it,
            which has the same ID, leads to another.
        root: of the space, as it was opened.
        file: the space's first file, if it is on a local disk.
    """

    folder: str
    name: str
    root: str
    file: str | None

    @property
    def socket(self) -> str:
        """The path of the socket."""
        return f"{self.folder}/{self.name}.socket"

    @property
    def lock(self) -> str:
        """The path of the file that a running concentrator holds locked, and that has its process number."""
        return f"{self.folder}/{self.name}.lock"

    @property
    def identity(self) -> list[int]:
        """Tells the space from another at the same path, as in another container; empty if it is not on a disk."""
        if self.file is None:
            return []
        with suppress(OSError):
            found = os.stat(self.file)
            return [found.st_dev, found.st_ino]
        return []


def place_of(folder: Folder, space: str) -> MeetingPlace | None:
    """The place for a space; None for one that other processes cannot see."""
    location = folder.location
    if location is None:
        return None
    sockets = os.environ.get(FOLDER) or f"/tmp/pbio-{os.geteuid()}"
    digest = hashlib.sha256(f"{space}\n{location}".encode(errors="surrogateescape")).hexdigest()[:32]
    return MeetingPlace(sockets.rstrip("/"), digest, folder.root, folder.path(SPACE) if folder.is_local else None)


def is_private(folder: str) -> bool:
    """Whether a folder belongs to this user, and only this user can enter it."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def is_own_peer(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user; if the system cannot say, the folder's privacy must do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", said)
    return bool(user == os.geteuid())


class Occupied:
    """A place where this process listens until it closes it or dies. Raises PBIO_CONCENTRATOR."""

    def __init__(self, place: MeetingPlace) -> None:
        self.place = place
        _make_private(place.folder)
        if len(os.fsencode(place.socket)) > _LONGEST_PATH:
            hint = f"set {FOLDER} to a shorter one, for the writers too"
            raise PbioError(CODE, "the path of the socket is too long", file=place.socket, hint=hint)
        self._lock = _locked(place)
        try:
            # The earlier listener is dead, since it held the lock.
            with suppress(FileNotFoundError):
                os.unlink(place.socket)
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self.listener.bind(place.socket)
                self.listener.listen(128)
            except BaseException:
                self.listener.close()
                raise
        except OSError as error:
            self._lock.close()
            reason = f"cannot listen: {error.strerror}"
            hint = f"set {FOLDER} to a private folder on a local disk, for the writers too"
            raise PbioError(CODE, reason, file=place.socket, hint=hint) from error

    def refresh(self) -> None:
        """Keep the files from looking forgotten: systems remove old ones from /tmp."""
        for path in (self.place.lock, self.place.socket):
            with suppress(OSError):
                os.utime(path)

    def leave(self) -> None:
        """Accept no more connections. May be called again."""
        with suppress(OSError):
            os.unlink(self.place.socket)
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def close(self) -> None:
        """Leave the place to another process."""
        self.leave()
        if not self._lock.closed:
            with suppress(OSError):
                os.unlink(self.place.lock)
            self._lock.close()


def _make_private(folder: str) -> None:
    with suppress(FileExistsError):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            raise
        except OSError as error:
            reason = f"cannot make the folder of sockets: {error.strerror}"
            raise PbioError(CODE, reason, file=folder, hint=f"set {FOLDER} to another folder") from error
    if not is_private(folder):
        reason = "the folder of sockets is not private to you"
        hint = f"remove it, or make it yours with mode 0700; or set {FOLDER} to another folder, for the writers too"
        raise PbioError(CODE, reason, file=folder, hint=hint)


def _locked(place: MeetingPlace) -> IO[str]:
    """The lock of a place, held as long as the file is open. Raises PBIO_CONCENTRATOR if another process has it."""
    while True:
        number = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        file = open(number, "r+")  # noqa: SIM115 - it stays locked as long as it is open
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous process may have removed it between the two steps.
            if _is_at(file, place.lock):
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
                return file
        except BlockingIOError:
            holder = file.read(20).strip() or "unknown"
            file.close()
            raise PbioError(
                CODE,
                f"process {holder} is already the concentrator of this space",
                file=place.root,
                hint="writers find it; to start another, end it with SIGTERM, or with SIGKILL if it is stopped",
            ) from None
        except BaseException:
            file.close()
            raise
        file.close()


def _is_at(file: IO[str], path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except OSError:
        return False
