"""Paths given by the user -> files, with the values of their `k=v` folders.

The rules are those of Spark's own file sources: names that start with `.` or `_` are hidden, a path may hold globs,
folders below a path are entered if they are called `k=v` or with `recursiveFileLookup`. Unlike there, a hidden file
that is named is read, and a path that exists is never a glob.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from ecode.suggest import did_you_mean
from pbio_spark.buckets import check_key
from pbio_spark.errors import PbioError
from pbio_spark.globs import compile_glob, expand, is_glob, is_hidden, is_literal, unescape
from pbio_spark.paths import PathEntry, find_entry, folder_entries, from_where, full_path, locate
from pbio_spark.spaces import SPACE, space_above
from pbio_spark.wire.container import refuse_bp_folder
from pbio_spark.wire.hints.sidecar import sidecar_path

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

log = logging.getLogger("pbio_spark.source")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file to read, or a folder that is read as one.

    Attributes:
        path: for `paths.opened`, with its protocol unless it is local.
        size: in bytes, at the time of listing.
        modified: in seconds since 1970; 0 if the file system does not tell.
        partition: name and value of each `k=v` folder between the root and the file; None is a null.
        has_sidecar: whether it has a sidecar, which may be outdated.
        identity: as in `paths.PathEntry`.
    """

    path: str
    size: int
    modified: float
    partition: tuple[tuple[str, str | None], ...] = ()
    has_sidecar: bool = False
    identity: str = ""


class ListingOptions(Protocol):
    """The options that select files."""

    @property
    def path_glob_filter(self) -> str | None: ...
    @property
    def recursive_file_lookup(self) -> bool: ...
    @property
    def modified_before(self) -> float | None: ...
    @property
    def modified_after(self) -> float | None: ...


def list_files(
    paths: Sequence[str],
    options: ListingOptions,
    may_be_gone: Callable[[str], bool] = lambda path: False,
    *,
    mark: str | None = None,
) -> list[ListedFile]:
    """The files at and below paths, in the order of the paths and then of their names.

    Args:
        may_be_gone: whether a path may be missing, or a glob match nothing.
        mark: the name of a file by which a folder counts as a file itself; only such folders are listed then, and the
            time and identity of each are those of this file in it.

    Raises PBIO_PATH_NOT_FOUND, PBIO_BAD_PARTITIONS, PBIO_CHANNEL_SPACE, and PBIO_NOT_FFS for another format's folder.
    """
    found: dict[str, ListedFile] = {}
    listers: list[_Lister] = []
    for path in paths:
        try:
            listers.append(_Lister(path, options, mark))
        except PbioError as error:
            if error.code != "PBIO_PATH_NOT_FOUND" or not may_be_gone(path):
                raise
    for fs in dict.fromkeys(lister.fs for lister in listers):
        inside = space_above(fs, *(root for lister in listers if lister.fs == fs for root in lister.roots))
        if inside is not None:
            raise _space_to_error(inside)
    for lister in listers:
        found |= {file.path: file for file in lister.files(may_be_gone)}
    files = list(found.values())
    named = {tuple(name for name, _ in file.partition): file for file in files}
    if len(named) > 1:
        one, other, *_ = named.values()
        raise PbioError(
            "PBIO_BAD_PARTITIONS",
            f"the `k=v` folders of the files differ: {one.path} and {other.path}",
            hint="load the folders one by one, or with recursiveFileLookup=true, which makes no columns from them",
        )
    return files


def refuse_folder_of_spaces(paths: Sequence[str]) -> None:
    """Raise PBIO_CHANNEL_SPACE if a folder without files holds a channel space."""
    for path in paths:
        fs, root = _file_system(path)
        found = find_entry(fs, root)
        if found is None or found.kind != "folder":
            continue
        for _, entry in sorted(folder_entries(fs, root).items()):
            if entry.kind == "folder" and _is_space(fs, entry.path):
                raise _space_to_error(full_path(fs, entry.path))


def unescape_name(text: str) -> str:
    """The name or value in the name of a `k=v` folder, where Spark escapes single characters.

    >>> unescape_name("a%2Fb%zz%")
    'a/b%zz%'
    """
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


RUNS = (".bp", ".bp5")
"""The suffix of folders that count as files: `T=300.bp` is a name, not a column."""


class _Lister:
    """Lists the files below one path."""

    def __init__(self, path: str, options: ListingOptions, mark: str | None) -> None:
        self.given = path
        self.options = options
        self.mark = mark
        self.fs, self.path = _file_system(path)
        glob = options.path_glob_filter
        self.wanted = None if glob is None else compile_glob(glob, hidden=True)
        self.roots = [self.path] if find_entry(self.fs, self.path) is not None else self._matches()

    def _near(self) -> str | None:
        """A hint for a missing path: a similar name beside it, or that its folder is also missing."""
        folder, _, name = self.path.rstrip("/").rpartition("/")
        with suppress(PbioError, OSError):
            if not folder:
                return None
            if find_entry(self.fs, folder) is None:
                return f"its folder does not exist either: {full_path(self.fs, folder)}"
            return did_you_mean(name, (n for n in folder_entries(self.fs, folder) if not is_hidden(n))) or None
        return None

    def _matches(self) -> list[str]:
        """The paths that the given one matches as a glob."""
        if not is_glob(self.path):
            hint = self._near() or "check the spelling of the path, and whether this machine can reach it"
            if "%" in self.path and find_entry(self.fs, unescape_name(self.path)) is not None:
                hint = f"a % is literal in a path; {unescape_name(self.path)} exists"
            raise PbioError(
                "PBIO_PATH_NOT_FOUND", f"file or folder not found{from_where(self.given)}", file=self.given, hint=hint
            )
        try:
            globs = expand(self.path)
            for glob in globs:
                check_key(full_path(self.fs, glob))
            roots = sorted({root for glob in globs for root in _walk(self.fs, glob)})
        except ValueError as error:
            hint = "a backslash makes the next character literal"
            raise PbioError("PBIO_BAD_PATH", f"the path is not a glob: {error}", file=self.given, hint=hint) from None
        if not roots:
            hint = "check the spelling of the glob; * does not match names that begin with _ or ."
            if "**" in self.path:
                hint = "** means * in Spark's globs; the option recursiveFileLookup enters all folders"
            raise PbioError(
                "PBIO_PATH_NOT_FOUND",
                "nothing matches this path",
                file=self.given,
                hint=hint,
            )
        return roots

    def files(self, may_be_gone: Callable[[str], bool]) -> Iterator[ListedFile]:
        for root in self.roots:
            entry = find_entry(self.fs, root)
            if entry is None:  # removed meanwhile
                if may_be_gone(self.given):
                    continue
                raise PbioError(
                    "PBIO_PATH_NOT_FOUND",
                    "file or folder not found",
                    file=self.given,
                    hint="check the spelling of the path, and whether the workers can reach it, too",
                )
            if entry.kind == "folder":
                yield from self._folder(entry, (), ())
            elif entry.kind == "other":
                reason = "not a file, but a pipe, a socket or a device"
                raise PbioError(
                    "PBIO_NOT_FFS", reason, file=full_path(self.fs, root), hint="copy its content to a file first"
                )
            elif (
                self.mark is None
                and (file := self._file(entry, (), find_entry(self.fs, sidecar_path(root)) is not None)) is not None
            ):
                yield file

    def _folder(
        self, folder: PathEntry, partition: tuple[tuple[str, str | None], ...], above: tuple[str, ...]
    ) -> Iterator[ListedFile]:
        """The files in a folder; `above` are the identities of the folders that lead to it."""
        if folder.identity and folder.identity in above:
            log.warning("%s is a link that leads back to a folder above it: left out", folder.path)
            return
        above = (*above, folder.identity)
        try:
            entries = folder_entries(self.fs, folder.path)
        except FileNotFoundError:
            return  # removed since it was listed
        if self.mark is not None and self.mark in entries:
            yield from self._as_file(folder, entries, partition)
            return
        if self.mark is None:
            refuse_bp_folder(folder.path, entries)
        if SPACE in entries:
            raise _space_to_error(full_path(self.fs, folder.path))
        for name, entry in sorted(entries.items()):
            if is_hidden(name):
                continue
            if entry.kind == "other":
                log.warning("%s is a pipe, a socket or a device: left out", entry.path)
            elif entry.kind == "file":
                if (
                    self.mark is None
                    and (file := self._file(entry, partition, sidecar_path(name) in entries)) is not None
                ):
                    yield file
            elif self.options.recursive_file_lookup:
                yield from self._folder(entry, (), above)
            elif "=" in name and not (self.mark is not None and name.lower().endswith(RUNS)):
                key, _, value = name.partition("=")
                pair = unescape_name(key), None if value == NULL_PARTITION else unescape_name(value)
                yield from self._folder(entry, (*partition, pair), above)
            elif self.mark is not None and find_entry(self.fs, f"{entry.path}/{self.mark}") is not None:
                yield from self._folder(entry, partition, above)

    def _as_file(
        self, folder: PathEntry, entries: Mapping[str, PathEntry], partition: tuple[tuple[str, str | None], ...]
    ) -> Iterator[ListedFile]:
        """A folder that counts as a file, unless the options leave it out."""
        assert self.mark is not None
        mark = entries[self.mark]
        size = sum(entry.size for entry in entries.values() if entry.kind == "file")
        file = self._file(replace(folder, size=size, modified=mark.modified, identity=mark.identity), partition, False)
        if file is not None:
            yield file

    def _file(
        self, entry: PathEntry, partition: tuple[tuple[str, str | None], ...], has_sidecar: bool
    ) -> ListedFile | None:
        """The file, unless the options leave it out."""
        before, after = self.options.modified_before, self.options.modified_after
        if self.wanted is not None and not self.wanted.fullmatch(entry.name):
            return None
        if (before is not None and entry.modified >= before) or (after is not None and entry.modified <= after):
            return None
        path = full_path(self.fs, entry.path)
        return ListedFile(path, entry.size, entry.modified, partition, has_sidecar, entry.identity)


def _walk(fs: AbstractFileSystem, glob: str) -> Iterator[str]:
    """The existing paths that a glob without slashes in braces matches. Raises ValueError if it is invalid."""
    start, *components = glob.split("/")
    paths = [start]
    for component in components:
        if is_literal(component):
            paths = [f"{path}/{unescape(component)}" for path in paths]
            continue
        pattern = compile_glob(component)
        paths = [
            f"{path}/{name}"
            for path in paths
            if (folder := find_entry(fs, path or "/")) is not None and folder.kind == "folder"
            for name in folder_entries(fs, folder.path)
            if pattern.fullmatch(name)
        ]
    return (path for path in paths if find_entry(fs, path) is not None)


def _is_space(fs: AbstractFileSystem, folder: str) -> bool:
    """Whether a folder that is not read is a channel space, as far as one may look."""
    with suppress(PbioError):
        return find_entry(fs, f"{folder}/{SPACE}") is not None
    return False


def _space_to_error(root: str) -> PbioError:
    from pbio_spark.channels import ChannelSpace
    from pbio_spark.source.channels.log import channels_hint

    try:
        known = channels_hint([info.name for info in ChannelSpace.open(root).channels()])
    except PbioError as error:
        known = f"but it cannot be read: {error}"
    return PbioError(
        "PBIO_CHANNEL_SPACE",
        "this folder is a channel space: read its channels",
        file=root,
        hint=f"load the space itself with the option channel, channels or channelPattern; {known}",
    )


def _file_system(path: str) -> tuple[AbstractFileSystem, str]:
    fs, stripped = locate(path)
    # Listings must be fresh: a file system object lives as long as the process.
    fs.invalidate_cache()
    return fs, stripped
