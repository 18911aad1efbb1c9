"""Files that appear once and whole: a log on a file system consists of these (DESIGN decision 21).

On a local disk a file is written under another name, synced, and then linked to its name, which fails if the name is
taken. Object stores do the same with a conditional request. A file system that can do neither is refused, because two
writers could both believe that they were first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar, cast

from fsspec.implementations.local import LocalFileSystem

from pbio_spark.channels.log.layout import FOLDERS, is_own, is_temporary, name_of, new_temporary_path
from pbio_spark.disk import (
    NewFile,
    create_file,
    definite,
    make_folder,
    open_file,
    refusals,
    replace_file,
    sync_folder,
    uncertain,
)
from pbio_spark.errors import PbioError
from pbio_spark.keywords import check_storage_options
from pbio_spark.paths import locate, trouble
from pbio_spark.spaces import space_above

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")
Path: TypeAlias = "str | os.PathLike[str]"

CONDITIONAL = {"s3", "s3a", "memory"}
"""Protocols whose file systems create a file only if it is new, in one step. The memory file system does so for the
threads of one process."""

MOST_IN_MEMORY = 64 << 20
"""The bytes of the largest file that is kept in memory when it is fetched from a store; larger ones go to a disk."""

_OF_SPACES = ("source", "concentrator", "concentrator_timeout", "exist_ok")
"""The other arguments for opening a space: a misspelled one would go to fsspec."""


class Folder:
    """A folder on some file system; all paths below are relative to it.

    Raises PBIO_CANNOT_CREATE for a file system without exclusive creation. All methods raise PBIO_NO_PERMISSION and
    PBIO_NO_ROOM if the file system refuses, and PBIO_FILE_SYSTEM for any other failure. Those that write raise
    PBIO_OUTCOME_UNKNOWN if the write may have succeeded after all, for instance because a reply was lost, and
    PBIO_NO_SPACE if the space is gone. On a local disk, those that read raise PBIO_BAD_LOG for anything but a file.
    """

    def __init__(self, root: Path, **storage_options: Any) -> None:
        """`storage_options` go to fsspec."""
        fs, path = locate(root, **storage_options)
        self.is_local = isinstance(fs, LocalFileSystem)
        check_storage_options(storage_options, _OF_SPACES, is_local=self.is_local)
        self.root = root = os.fsdecode(root)
        self._path = path.rstrip("/")
        protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
        if not (self.is_local or protocols & CONDITIONAL):
            raise PbioError(
                "PBIO_CANNOT_CREATE",
                f"the file system ({' or '.join(sorted(protocols))}) cannot create a file only if it is new",
                file=root,
                hint="keep a channel space on a local disk or on S3",
            )
        # Changes by others must be visible at once, so this file system must not cache listings.
        self._fs: AbstractFileSystem
        self._fs, _ = locate(root, **{**storage_options, "use_listings_cache": False})

    def path(self, name: str) -> str:
        """The path of a file, for messages and other readers."""
        return f"{self._path}/{name}"

    @property
    def location(self) -> str | None:
        """Where the folder is, with links resolved; None if only this process sees it."""
        if self.is_local:
            return os.path.realpath(self._path)
        names = (self._fs.protocol,) if isinstance(self._fs.protocol, str) else self._fs.protocol
        if "s3" not in names:
            return None
        settings = getattr(self._fs, "client_kwargs", None) or {}
        server = getattr(self._fs, "endpoint_url", None) or settings.get("endpoint_url")
        server = server or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        return f"s3://{self._path}@{server}"

    @property
    def is_there(self) -> bool:
        """Whether the folder exists; on a file system without folders, whether it holds something."""
        with self._asking(""):
            return bool(self._fs.isdir(self._path))

    @property
    def is_file(self) -> bool:
        """Whether the path is a file instead of a folder."""
        with self._asking(""):
            return bool(self._fs.isfile(self._path))

    def space_above(self) -> str | None:
        """The root of the channel space that the folder is or is inside; None if there is none."""
        return space_above(self._fs, self._path)

    def make(self, *names: str) -> None:
        """Make folders, if the file system has them."""
        for name in names:
            try:
                with self._asking(name), definite():
                    make_folder(self._fs, self.path(name))
                    if self.is_local:
                        sync_folder(self._path)
            except FileNotFoundError:
                hint = "make the folder or the bucket first, or check its name"
                raise PbioError("PBIO_PATH_NOT_FOUND", "folder not found", file=self.path(name), hint=hint) from None

    def read(self, name: str, most: int | None = None) -> bytes | None:
        """The bytes of a file, at most `most` + 1; None if it does not exist."""
        with suppress(FileNotFoundError), self._asking(name), suppress(NotADirectoryError):
            if self.is_local:
                with open_file(self.path(name), "PBIO_BAD_LOG") as file:
                    return file.read() if most is None else file.read(most + 1)
            data: bytes = self._fs.cat_file(self.path(name), end=None if most is None else most + 1)
            return data
        return None

    def read_part(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of a file; fewer at its end. Raises FileNotFoundError."""
        with self._asking(name):
            if self.is_local:
                with open_file(self.path(name), "PBIO_BAD_LOG") as file:
                    file.seek(start)
                    return file.read(min(length, max(os.fstat(file.fileno()).st_size - start, 0)))
            data: bytes = self._fs.cat_file(self.path(name), start=start, end=start + length)
            return data

    def open(self, name: str) -> Any:
        """A binary file to read. Raises FileNotFoundError."""
        with self._asking(name):
            return open_file(self.path(name), "PBIO_BAD_LOG") if self.is_local else self._fs.open(self.path(name), "rb")

    @contextmanager
    def fetched(self, name: str) -> Iterator[BinaryIO | None]:
        """A file to read in any order and more than once, on this machine: from a store it is copied. None if it does
        not exist."""
        with ExitStack() as stack:
            found: BinaryIO | None = None
            with suppress(FileNotFoundError), self._asking(name):
                source = stack.enter_context(self.open(name))
                if self.is_local:
                    found = source
                else:
                    copy = stack.enter_context(SpooledTemporaryFile(MOST_IN_MEMORY))
                    shutil.copyfileobj(source, copy, 1 << 20)
                    found = cast("BinaryIO", copy)
            with self._asking(name):
                yield found

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        with suppress(FileNotFoundError), self._asking(name):
            return int(self._fs.info(self.path(name))["size"])
        return None

    def modified(self, name: str) -> float:
        """When a file was written, in seconds since 1970 UTC. Raises FileNotFoundError."""
        with self._asking(name):
            return float(self._fs.modified(self.path(name)).timestamp())

    def now(self) -> float:
        """The time stamp that a file written now would get: the store's, which may differ from this machine's clock."""
        name = new_temporary_path()
        with definite():
            self.replace(name, b"")
        try:
            return self.modified(name)
        finally:
            self.remove(name)

    def strangers(self) -> list[str]:
        """Foreign files in the folders of a space, which programs neither read nor remove."""
        return [f"{sub}/{name}" for sub in FOLDERS for name in self.names(sub) if not is_own(sub, name)]

    def names(self, folder: str, *, temporary: bool = False) -> list[str]:
        """The names in a folder (`""`: this one), sorted: of complete files, or of those still being written."""
        found: list[str] = []
        with suppress(FileNotFoundError), self._asking(folder):
            found = self._fs.ls(self.path(folder), detail=False)
        names = (name_of(path) for each in found if (path := each.rstrip("/")) != self.path(folder).rstrip("/"))
        return sorted(name for name in names if is_temporary(name) is temporary)

    def create(self, name: str, data: bytes | Sequence[Any]) -> bool:
        """Create a file durably, unless it exists: then return False and change nothing.

        Args:
            data: bytes, or a sequence of buffers.
        """
        path = self.path(name)
        pieces: Sequence[Any] = [data] if isinstance(data, bytes) else data
        if not self.is_local:
            try:
                with self._sending(path):
                    self._fs.pipe_file(path, b"".join(pieces), mode="create")
            except FileExistsError:
                return False
            return True
        return self._written(name, lambda: create_file(path, pieces))

    def begin(self, name: str) -> NewFile:
        """Begin a file on the local disk, as `add` does; call its methods inside `adding`."""
        assert self.is_local
        with definite():
            return self._written(name, lambda: NewFile(self.path(name)))

    @contextmanager
    def adding(self, name: str) -> Iterator[None]:
        """Raise what `add` raises, for operations on a begun file."""
        with definite():
            try:
                with self._asking(name):
                    yield
            except FileNotFoundError:
                raise self._gone() from None

    def add(self, name: str, data: bytes | Sequence[Any]) -> None:
        """Create a file that is used only once another names it: if that fails, nothing has happened."""
        with definite():
            self.create(name, data)

    def replace(self, name: str, data: bytes) -> None:
        """Create a file or replace it as a whole."""
        path = self.path(name)
        if self.is_local:
            self._written(name, lambda: replace_file(path, data))
            return
        with self._sending(path):
            self._fs.pipe_file(path, data)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError), self._asking(name):
            self._fs.rm_file(self.path(name))

    def _asking(self, name: str) -> AbstractContextManager[None]:
        """Turn any failure of a read access into a PbioError, PBIO_FILE_SYSTEM by default."""
        return trouble(self._fs, self.path(name) if name else self._path)

    def _written(self, name: str, write: Callable[[], T]) -> T:
        """The result of writing a file. A copied space may lack folders that were empty."""
        with suppress(FileNotFoundError), self._asking(name):
            return write()
        if os.path.isdir(self._path):
            self.make(os.path.dirname(name))
            with suppress(FileNotFoundError), self._asking(name):
                return write()
        raise self._gone()

    @contextmanager
    def _sending(self, path: str) -> Iterator[None]:
        """Unless the store refused a write request, it may have succeeded despite the exception."""
        try:
            with refusals(path):
                yield
        except (PbioError, FileExistsError):
            raise
        except FileNotFoundError:
            raise self._gone() from None
        except Exception as error:
            raise uncertain(path, error) from error

    def _gone(self) -> PbioError:
        return PbioError(
            "PBIO_NO_SPACE",
            "the space is gone",
            file=self.root,
            hint="it was removed while this program used it; open it again if it was created again",
        )
