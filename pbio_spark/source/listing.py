"""Paths as the user gave them -> files, with the values of their `k=v` folders.

The rules are those of Spark's own file sources: names that start with `.` or `_` are hidden, a path may hold globs,
folders below a path are entered if they are called `k=v` or with `recursiveFileLookup`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import fsspec

from pbio_spark.errors import PbioError
from pbio_spark.source.options import Options
from pbio_spark.spaces import SPACE, full_path, space_above
from pbio_spark.wire.container import refuse_bp_folder
from pbio_spark.wire.sidecar import sidecar_path

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read.

    Attributes:
        path: as fsspec opens it, with its protocol unless it is local.
        size: in bytes, when it was listed.
        modified: in seconds since 1970; 0 where the file system does not tell.
        partition: name and value of each `k=v` folder between the root and the file; None is a null.
        has_sidecar: whether there is a sidecar beside it, which need not be up to date.
    """

    path: str
    size: int
    modified: float
    partition: tuple[tuple[str, str | None], ...] = ()
    has_sidecar: bool = False


def list_files(paths: Sequence[str], options: Options) -> list[DataFile]:
    """The files at and below paths, in the order of the paths and then of their names.

    Raises PBIO_PATH_NOT_FOUND, PBIO_BAD_PARTITIONS, PBIO_CHANNEL_SPACE, and PBIO_NOT_FFS for another format's folder.
    """
    found: dict[str, DataFile] = {}
    listers = [_Lister(path, options) for path in paths]
    for fs in dict.fromkeys(lister.fs for lister in listers):
        inside = space_above(fs, *(root for lister in listers if lister.fs == fs for root in lister.roots))
        if inside is not None:
            raise _space_to_error(inside)
    for lister in listers:
        found |= {file.path: file for file in lister.files()}
    files = list(found.values())
    named = {tuple(name for name, _ in file.partition): file for file in files}
    if len(named) > 1:
        one, other, *_ = named.values()
        raise PbioError(
            "PBIO_BAD_PARTITIONS",
            f"the `k=v` folders of the files do not agree: {one.path} and {other.path}",
            hint="load the folders one by one, or with recursiveFileLookup=true, which makes no columns of them",
        )
    return files


def refuse_folder_of_spaces(paths: Sequence[str]) -> None:
    """Raise PBIO_CHANNEL_SPACE if a folder without files of its own, where nothing was found, holds a channel space."""
    for path in paths:
        fs, root = _file_system(path)
        for folder in sorted(fs.ls(root, detail=False)) if fs.isdir(root) else ():
            if fs.exists(f"{folder.rstrip('/')}/{SPACE}"):
                raise _space_to_error(full_path(fs, folder.rstrip("/")))


class _Lister:
    """Lists what is below one path."""

    def __init__(self, path: str, options: Options) -> None:
        self.given = path
        self.options = options
        try:
            self.fs, self.path = _file_system(path)
        except (ImportError, ValueError) as error:
            raise PbioError("PBIO_PATH_NOT_FOUND", f"no file system opens {path}: {error}", file=path) from None
        glob = options.path_glob_filter
        self.wanted = re.compile("|".join(map(translate, _braces(glob)))) if glob else None

        self.roots = [self.path]
        if any(sign in self.path for sign in "*?[{") and not self.fs.exists(self.path):
            self.roots = sorted({match for pattern in _braces(self.path) for match in self.fs.glob(pattern)})
        if not self.roots:
            raise PbioError("PBIO_PATH_NOT_FOUND", "nothing matches this path", file=self.given)

    def files(self) -> Iterator[DataFile]:
        for root in self.roots:
            try:
                info = self.fs.info(root)
            except (FileNotFoundError, NotADirectoryError):
                raise PbioError("PBIO_PATH_NOT_FOUND", "there is no such file or folder", file=self.given) from None
            if info["type"] == "directory":
                yield from self._folder(root, ())
            elif (file := self._file(info, (), self.fs.exists(sidecar_path(root)))) is not None:
                yield file

    def _folder(self, folder: str, partition: tuple[tuple[str, str | None], ...]) -> Iterator[DataFile]:
        entries = {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in self.fs.ls(folder, detail=True)}
        refuse_bp_folder(folder, entries)
        if SPACE in entries:
            raise _space_to_error(full_path(self.fs, folder))
        for name, entry in sorted(entries.items()):
            if is_hidden(name):
                continue
            if entry["type"] != "directory":
                if (file := self._file(entry, partition, sidecar_path(name) in entries)) is not None:
                    yield file
            elif self.options.recursive_file_lookup:
                yield from self._folder(entry["name"], ())
            elif "=" in name:
                key, _, value = name.partition("=")
                pair = unquote(key), None if value == NULL_PARTITION else unquote(value)
                yield from self._folder(entry["name"], (*partition, pair))

    def _file(
        self, info: dict[str, Any], partition: tuple[tuple[str, str | None], ...], has_sidecar: bool
    ) -> DataFile | None:
        """The file, unless the options leave it out."""
        path, modified = info["name"], modified_of(info)
        before, after = self.options.modified_before, self.options.modified_after
        if self.wanted is not None and not self.wanted.match(path.rpartition("/")[2]):
            return None
        if (before is not None and modified >= before) or (after is not None and modified <= after):
            return None
        return DataFile(full_path(self.fs, path), info["size"], modified, partition, has_sidecar)


def _space_to_error(root: str) -> PbioError:
    from pbio_spark.channels import ChannelSpace
    from pbio_spark.source.channel_log import channels_hint

    try:
        known = channels_hint([info.name for info in ChannelSpace.open(root).channels()])
    except PbioError as error:
        known = f"but it cannot be read: {error}"
    return PbioError(
        "PBIO_CHANNEL_SPACE",
        "here is a channel space, whose log says which of its files hold published events",
        file=root,
        hint=f"load the space, and name what to read with the option channel, channels or channelPattern; {known}",
    )


def _file_system(path: str) -> tuple[AbstractFileSystem, str]:
    fs, stripped = fsspec.url_to_fs(path)
    # Listings must be fresh: a file system object lives as long as the process.
    fs.invalidate_cache()
    return fs, stripped


def modified_of(info: dict[str, Any]) -> float:
    """When a file was last modified, whatever the file system calls it."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        moment = info.get(key)
        if isinstance(moment, datetime):
            return moment.timestamp()
        if isinstance(moment, int | float):
            return float(moment)
    return 0.0


def is_hidden(name: str) -> bool:
    """As in Spark: `_k=v` is a folder of a partition column whose name starts with an underscore."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _braces(glob: str) -> list[str]:
    """
    >>> _braces("a{b,c}d")
    ['abd', 'acd']
    """
    parts = re.split(r"\{([^{}]*)\}", glob)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in product(*choices)]
