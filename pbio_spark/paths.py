"""Paths as users give them: from a path to a file system, and from there to folders and open files.

A path is plain, or a URL with `://` (DESIGN decision 36): fsspec's `::` is two colons, `%20` three characters.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pbio_spark.buckets import check_key, check_listed, failure_hint, is_raised_by_s3
from pbio_spark.disk import refusals
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_GLOB = "*?["
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_FILE = re.compile(r"file:(?://([^/]*))?(.*)", re.DOTALL | re.IGNORECASE)
_OF_SESSION = re.compile(r"/userFiles-[0-9a-f-]{36}/[0-9a-f-]{36}/?$")
"""The suffix of the folder that Spark Connect makes for the files of a session."""
_OWN = frozenset({"builtins", "click", "ecode", "morph", "pbio_spark", "numba", "numpy", "pyarrow", "typer"})
"""Modules whose exceptions do not come from a file system."""
_CHAINS = frozenset(
    {"zip", "tar", "libarchive", "reference", "dir", "simplecache", "filecache", "blockcache", "cached"}
)
"""Protocols of fsspec that wrap another file."""


def locate(path: str | os.PathLike[str], **storage_options: Any) -> tuple[AbstractFileSystem, str]:
    """The file system of a path or URL, and the path in its form: absolute, without a slash at the end.

    The resulting path leads to the same place if given again.

    Args:
        storage_options: for fsspec.

    Raises:
        PbioError: PBIO_BAD_PATH for an empty path, the working directory, a home, or the root of a file system or
            bucket: an unset variable gives such paths; and for `//`, `.` and `..` in a bucket. PBIO_PATH_NOT_FOUND
            for an unknown protocol, PBIO_MISSING_EXTRA for one whose library is missing, PBIO_FILE_SYSTEM for one that
            does not work.
    """
    text = _text(path)
    local = _local(text)
    if local is None:
        return _remote(text, storage_options)
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem(**storage_options), local


def is_local(fs: AbstractFileSystem) -> bool:
    return "file" in protocols(fs)


def protocols(fs: AbstractFileSystem) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def full_path(fs: AbstractFileSystem, path: str) -> str:
    """The path for `locate`: with its protocol unless it is local."""
    return path if is_local(fs) else str(fs.unstrip_protocol(path))


@dataclass(frozen=True, slots=True)
class PathEntry:
    """The target of a name in a folder; links are followed.

    Attributes:
        path: in the form of the file system.
        kind: `other` is a pipe, a socket or a device.
        size: in bytes.
        modified: in seconds since 1970; 0 if the file system does not say.
        identity: stays when a local file is renamed, and changes when an object is replaced; empty if unknown.
    """

    path: str
    kind: str
    size: int
    modified: float
    identity: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def find_entry(fs: AbstractFileSystem, path: str) -> PathEntry | None:
    """The entry at a path, or None. Raises PBIO_NO_PERMISSION, PBIO_PATH_NOT_FOUND for a bad link, PBIO_FILE_SYSTEM."""
    with trouble(fs, path), suppress(FileNotFoundError, NotADirectoryError):
        return _entry(path, os.stat(path)) if is_local(fs) else _remote_entry(fs.info(path))
    return None


def folder_entries(fs: AbstractFileSystem, folder: str) -> dict[str, PathEntry]:
    """The entries of a folder, by name, without broken links and entries that vanish meanwhile.

    Raises FileNotFoundError, PBIO_NO_PERMISSION, PBIO_FILE_SYSTEM.
    """
    found: dict[str, PathEntry] = {}
    with trouble(fs, folder):
        if not is_local(fs):
            for info in fs.ls(folder, detail=True):
                if (entry := _remote_entry(info)).path != folder.rstrip("/"):
                    found[entry.name] = entry
                else:
                    check_listed(full_path(fs, folder), info)
            return found
        with os.scandir(folder) as names:
            for name in names:
                try:
                    found[name.name] = _entry(f"{folder.rstrip('/')}/{name.name}", name.stat())
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                        raise
    return found


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file to read. Failures while it is open also become PbioErrors.

    It opens only regular files, since a pipe would wait for a writer.

    Raises FileNotFoundError; PBIO_NOT_FFS for a folder, a pipe or a device; PBIO_NO_PERMISSION, PBIO_FILE_SYSTEM.
    """
    fs, plain = locate(path)
    with trouble(fs, plain), _open_file(plain) if is_local(fs) else fs.open(plain, "rb") as source:
        yield cast(BinaryIO, source)


def move_file(fs: AbstractFileSystem, source: str, target: str) -> None:
    """Give a file another name. Both names are plain; fsspec's own `mv` takes some for globs."""
    if is_local(fs):
        os.replace(source, target)
    elif any(sign in source + target for sign in _GLOB):
        fs.cp_file(source, target)
        fs.rm_file(source)
    else:
        fs.mv(source, target)


def remove_folder(fs: AbstractFileSystem, folder: str) -> None:
    """Remove a folder and everything in it. The name is plain; fsspec's own `rm` takes some for globs.

    Raises FileNotFoundError on a local disk. In a bucket a folder disappears with its last file.
    """
    if is_local(fs):
        fs.rm(folder, recursive=True)
        return
    fs.invalidate_cache()
    if any(sign in folder for sign in _GLOB):
        for path in fs.find(folder):
            fs.rm_file(path)
        return
    with suppress(FileNotFoundError):
        fs.rm(folder, recursive=True)


@contextmanager
def trouble(fs: AbstractFileSystem, path: str) -> Iterator[None]:
    """Turn errors of a file system into PbioErrors; FileNotFoundError stays, because its meaning depends on the caller.

    Raises:
        PbioError: PBIO_NO_PERMISSION, PBIO_NO_ROOM; PBIO_PATH_NOT_FOUND for an impossible path; PBIO_FILE_SYSTEM.
    """
    with trouble_at(full_path(fs, path)):
        yield


@contextmanager
def trouble_at(where: str) -> Iterator[None]:
    """`trouble`, for a path as shown in messages."""
    try:
        with refusals(where):
            yield
    except (PbioError, FileNotFoundError, BrokenPipeError):  # the pipe belongs to the user of the file
        raise
    except OSError as error:
        said = error.strerror or str(error) or type(error).__name__
        if (found := _not_a_path(error)) is not None:
            reason, hint = found
            raise PbioError("PBIO_PATH_NOT_FOUND", reason, file=where, hint=hint) from None
        of_store = failure_hint(error)
        raise PbioError("PBIO_FILE_SYSTEM", f"the file system failed: {said}", file=where, hint=of_store) from error
    except Exception as error:
        if isinstance(error, TypeError) and "unexpected keyword" in str(error):
            reason = f"the file system does not take this option: {error}"
            hint = "storage options are the arguments of fsspec's file system"
            raise PbioError("PBIO_BAD_OPTION", reason, file=where, hint=hint) from None
        if type(error).__module__.partition(".")[0] in _OWN and not is_raised_by_s3(error):
            raise
        said, of_store = f"{type(error).__name__}: {error}", failure_hint(error)
        raise PbioError("PBIO_FILE_SYSTEM", f"the file system failed: {said}", file=where, hint=of_store) from error


def _not_a_path(error: OSError) -> tuple[str, str] | None:
    """What is wrong with a path that the file system refuses, and what to do; None for another failure."""
    if error.errno == errno.ELOOP:
        return "the links form a loop", "fix the links, or give the path of the file itself"
    if error.errno == errno.ENAMETOOLONG:
        return "a name is too long for the file system", "check whether two paths were joined by mistake"
    if isinstance(error, NotADirectoryError | FileExistsError):
        reason = "the path leads through a file, which must be a folder"
        return reason, "check whether the path continues after the name of a file"
    if isinstance(error, IsADirectoryError):
        return "expected a file, found a folder", "give the path of a file in it"
    return None


def _text(path: object) -> str:
    try:
        text = os.fsdecode(path)  # type: ignore[arg-type]
    except TypeError:
        raise PbioError(
            "PBIO_BAD_PATH",
            f"a path must be text, not of type {type(path).__name__}",
            hint="give a string, or a pathlib.Path",
        ) from None
    if not text.strip():
        raise _refusal("the path is empty", text)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise PbioError(
            "PBIO_BAD_PATH",
            "the path contains a character that names cannot have",
            file=text,
            hint="check where the path comes from: it was not decoded as text",
        ) from None
    if "\0" in text:
        raise PbioError("PBIO_BAD_PATH", "the path contains a NUL character", file=text, hint="leave the character out")
    return text


def _local(text: str) -> str | None:
    """The absolute path; None for a URL of another protocol."""
    given = text
    if (match := _FILE.match(text)) is not None:
        host, text = match.groups()
        if not text.strip() and not host:
            raise _refusal("the path is empty", given)
        if host and host.lower() != "localhost":
            raise PbioError(
                "PBIO_BAD_PATH",
                f"the URL of a local file names the host {host!r}",
                file=given,
                hint="a local URL starts with three slashes, as in file:///data/readings",
            )
    elif (url := _URL.match(text)) is not None:
        if url[1].lower() != "local":
            return None
        text = url[2]
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser("~") + text[1:]
    if re.fullmatch(r"[./]*", text) and not text.startswith("/"):
        raise _refusal("the path is the working directory or above it", given)
    try:
        here = "" if text.startswith("/") else _working_folder(given)
        real = os.path.realpath(os.path.join(here, text))
        is_here = bool(here) and real == os.path.realpath(here)
    except OSError as error:
        raise PbioError(
            "PBIO_PATH_NOT_FOUND",
            f"the working directory is gone: {error.strerror}",
            file=given,
            hint="change to a folder that exists, or give an absolute path",
        ) from None
    if is_here:
        raise _refusal("the path leads back to the working directory", given)
    if real == "/":
        raise _refusal("the path is the root of the file system", given)
    if real in _homes():
        raise _refusal("the path is a home directory", given)
    parts = [part for part in os.path.join(here, text).split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)


def from_where(path: str) -> str:
    """For a message about a missing relative path: where it starts, which differs in Spark's processes."""
    text = os.fspath(path)
    is_relative = not (text.startswith(("/", "~")) or _URL.match(text) or _FILE.match(text))
    with suppress(OSError, PbioError):
        return f" from {_working_folder(text)}" if is_relative else ""
    return ""


def _working_folder(given: str) -> str:
    """The folder that a relative path starts from; in Spark's Python processes, that of the JVM.

    Spark Connect runs them in a folder of the session's own files, and removes it with the session.
    """
    here = os.getcwd()
    if not _OF_SESSION.search(here):
        return here
    started_in = os.environ.get("PWD", "")
    if started_in.startswith("/") and os.path.isdir(started_in) and not _OF_SESSION.search(started_in):
        return started_in
    raise PbioError(
        "PBIO_BAD_PATH",
        "a relative path leads into a folder that Spark removes with the session",
        file=given,
        hint="give an absolute path",
    )


def _homes() -> set[str]:
    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    return {os.path.realpath(home) for home in homes if home.startswith("/")}


def _remote(text: str, storage_options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    import fsspec

    protocol, _, rest = text.partition("://")
    protocol = protocol.lower()
    url = f"{protocol}://{rest}"
    if protocol in _CHAINS:
        reason = f"the protocol {protocol} wraps another file; a path must be plain"
        raise PbioError("PBIO_PATH_NOT_FOUND", reason, file=text, hint="unpack or copy the files, and name the copies")
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        hint = "pip install 'pbio-spark[s3]'" if protocol in ("s3", "s3a") else "install it where Spark's Python runs"
        raise PbioError("PBIO_MISSING_EXTRA", f"{protocol} needs a library: {error}", file=text, hint=hint) from None
    except ValueError as error:
        reason = f"no file system opens the protocol {protocol}: {error}"
        hint = "use s3://, gs://, abfs:// or another protocol of fsspec, or a path on the local disk"
        raise PbioError("PBIO_PATH_NOT_FOUND", reason, file=text, hint=hint) from None
    try:
        made = kind._get_kwargs_from_urls(url)
        plain = str(kind._strip_protocol(url)).rstrip("/")
        fs = fsspec.filesystem(protocol, **{**made, **storage_options})
    except Exception as error:
        reason = f"the file system of {protocol} cannot be used: {type(error).__name__}: {error}"
        raise PbioError("PBIO_FILE_SYSTEM", reason, file=text) from error
    # In an object store the first name is the bucket; on the web it is the host.
    names = [name for name in (rest if "http" in protocols(fs) else plain).split("/") if name not in ("", ".")]
    depth = 0
    for name in names:
        depth += -1 if name == ".." else 1
    if depth <= (0 if kind.root_marker else 1):
        raise _refusal("the path is the root of a file system or bucket", text)
    check_key(url)
    return fs, plain


def _refusal(reason: str, path: str) -> PbioError:
    hint = "name a folder or file below it, such as *.ffs, and check for empty variables"
    return PbioError("PBIO_BAD_PATH", reason, file=repr(path) if path != path.strip() or not path else path, hint=hint)


def _entry(path: str, found: os.stat_result) -> PathEntry:
    kind = "folder" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return PathEntry(path, kind, found.st_size, found.st_mtime, f"{found.st_dev}:{found.st_ino}")


def _remote_entry(info: Mapping[str, Any]) -> PathEntry:
    kind = {"directory": "folder", "file": "file"}.get(info["type"], "other")
    identity = str(info.get("ETag") or info.get("etag") or "")
    return PathEntry(info["name"].rstrip("/"), kind, info["size"] or 0, _modified_of(info), identity)


def _modified_of(info: Mapping[str, Any]) -> float:
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        moment = info.get(key)
        if isinstance(moment, datetime):
            return moment.timestamp()
        if isinstance(moment, int | float):
            return float(moment)
    return 0.0


def _open_file(path: str) -> BinaryIO:
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return open(number, "rb")
    os.close(number)
    raise PbioError(
        "PBIO_NOT_FFS",
        "not a file but a folder, a pipe, a socket or a device",
        file=path,
        hint="copy its content into a file, and read that",
    )
