"""Whether a path is inside a channel space. Readers and writers of plain files stay out of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from os.path import realpath
from typing import TYPE_CHECKING

from pbio_spark.paths import full_path, is_local, protocols, trouble

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SPACE = "_space.json"
"""The file that marks a folder as a channel space."""


def space_above(fs: AbstractFileSystem, *paths: str) -> str | None:
    """The root of the channel space that contains one of the paths, with its protocol unless it is local.

    It looks for one file in each folder above the paths, but not on a web server, which holds no space and may answer
    to any name.
    """
    if "http" in protocols(fs):
        return None
    for folder in dict.fromkeys(folder for path in paths for folder in _upwards(fs, path)):
        # A user may lack permission for the folders above.
        with trouble(fs, folder), suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            fs.info(f"{folder.rstrip('/')}/{SPACE}")
            return full_path(fs, folder)
    return None


def _upwards(fs: AbstractFileSystem, path: str) -> Iterator[str]:
    """A path and the folders above it, the nearest first."""
    folder = realpath(path) if is_local(fs) else path.rstrip("/")
    yield folder
    while (above := fs._parent(folder)) not in ("", folder):
        folder = above
        yield folder
