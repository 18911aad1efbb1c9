"""What an overwrite replaces: the data files that a reader of the folder sees, and their sidecars; nothing else.

A data file is one whose name and first bytes are those of one. Other files stay, and are named in the log. If they are
the majority, or if old records would stay among the new ones, the overwrite was hardly meant, and is refused.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pbio_spark.errors import PbioError
from pbio_spark.globs import is_hidden
from pbio_spark.paths import folder_entries, full_path, is_local, opened, trouble
from pbio_spark.source.files.listing import refuse_folder_of_spaces, unescape_name
from pbio_spark.spaces import SPACE
from pbio_spark.wire import MAGIC
from pbio_spark.wire.hints.sidecar import sidecar_path

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

SUFFIXES = (".ffs", ".pbio")
THREADS = 16
NAMED = 5
"""The most remaining files that a message names."""

log = logging.getLogger("pbio_spark.source")


def replaced_files(fs: AbstractFileSystem, root: str, folders: Collection[str] | None = None) -> list[str]:
    """The files that an overwrite of a folder removes.

    Args:
        folders: below the root, as `a=1/b=2`: only what lies in these is replaced, and the rest is not looked at.

    Raises PBIO_CHANNEL_SPACE if a channel space is below the folder, PBIO_NOT_EMPTY, and PBIO_NO_PERMISSION for what
    cannot be looked at, since its records would stay.
    """
    fs.invalidate_cache()
    with trouble(fs, root):
        below = _files_below(root, folders) if is_local(fs) else fs.find(root)
        found = [path for path in below if not _is_beside(path[len(root) :].strip("/"), folders)]
    for path in found:
        folder, _, name = path.rpartition("/")
        if name == SPACE:
            raise PbioError(
                "PBIO_CHANNEL_SPACE",
                "the overwrite would remove a channel space in the folder",
                file=full_path(fs, folder),
                hint="choose another folder, or publish to a channel of the space with the option channel",
            )
    shown = [path for path in found if not any(map(is_hidden, path[len(root) :].strip("/").split("/")))]
    read = [path for path in shown if all("=" in name for name in path[len(root) :].strip("/").split("/")[:-1])]
    linked = [path for path in read if is_local(fs) and "=" in path.rpartition("/")[2] and os.path.isdir(path)]
    if linked:
        raise _refusal(fs, root, "an overwrite does not follow links, and records would stay in", linked)
    with ThreadPoolExecutor(THREADS) as pool:
        is_data = dict(zip(read, pool.map(lambda path: _is_data(fs, path), read), strict=True))
    data = [path for path in read if is_data[path] and path.endswith(SUFFIXES)]
    others = [path for path in shown if path not in set(data)]
    misnamed = [path for path in others if is_data.get(path)]
    if misnamed:
        raise _refusal(
            fs, root, "an overwrite removes files named *.ffs or *.pbio, and records would stay in", misnamed
        )
    if len(others) > len(data):
        raise _refusal(fs, root, f"{len(others)} of {len(shown)} files are not data files, such as", others)
    if others:
        log.warning(
            "an overwrite of %s leaves files that are not data files: %s", full_path(fs, root), _some(root, others)
        )
    here = set(found)
    return [path for one in data for path in (one, sidecar_path(one)) if path in here]


def refuse_other_columns(fs: AbstractFileSystem, root: str, names: Sequence[str]) -> None:
    """Raise PBIO_BAD_PARTITIONS if a folder is partitioned by other columns than the new files."""
    there = _columns(fs, root)
    if there is None or there == tuple(names):
        return
    refuse_folder_of_spaces([full_path(fs, root)])
    raise PbioError(
        "PBIO_BAD_PARTITIONS",
        f"the folder is partitioned by {', '.join(there) or 'nothing'}, and the new files by "
        f"{', '.join(names) or 'nothing'}: it would no longer be readable",
        file=full_path(fs, root),
        hint=f"set partitionColumns to {','.join(there)}" if there else "leave partitionColumns out",
    )


def _columns(fs: AbstractFileSystem, folder: str) -> tuple[str, ...] | None:
    """The columns of the `k=v` folders that lead to the first file below a folder; None without a file."""
    try:
        entries = sorted(folder_entries(fs, folder).items())
    except FileNotFoundError:
        return None
    shown = [(name, entry) for name, entry in entries if not is_hidden(name)]
    if any(entry.kind == "file" for _, entry in shown):
        return ()
    for name, entry in shown:
        if entry.kind == "folder" and "=" in name:
            below = _columns(fs, entry.path)
            if below is not None:
                return (unescape_name(name.partition("=")[0]), *below)
    return None


def _is_beside(path: str, folders: Collection[str] | None) -> bool:
    """Whether a file is outside some folders."""
    return folders is not None and path.rpartition("/")[0] not in folders


def _files_below(root: str, folders: Collection[str] | None) -> list[str]:
    """The files below a folder of this machine, and the links to folders. Raises OSError for an unreadable folder."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    found: list[str] = []
    for top in [root] if folders is None else [f"{root.rstrip('/')}/{folder}" for folder in folders]:
        for folder, names, files in os.walk(top, onerror=refuse):
            found += (f"{folder.rstrip('/')}/{name}" for name in files)
            found += (path for name in names if os.path.islink(path := f"{folder.rstrip('/')}/{name}"))
    return sorted(found)


def _is_data(fs: AbstractFileSystem, path: str) -> bool:
    try:
        with opened(full_path(fs, path)) as source:
            return source.read(len(MAGIC)) == MAGIC
    except FileNotFoundError:  # a broken link
        return False
    except PbioError as error:
        if error.code not in ("PBIO_NOT_FFS", "PBIO_PATH_NOT_FOUND"):
            raise
        return False  # a pipe, or a link to a folder or to itself


def _refusal(fs: AbstractFileSystem, root: str, reason: str, files: Sequence[str]) -> PbioError:
    hint = "choose another folder, or remove these files yourself"
    return PbioError("PBIO_NOT_EMPTY", f"{reason} {_some(root, files)}", file=full_path(fs, root), hint=hint)


def _some(root: str, files: Sequence[str]) -> str:
    names = [path[len(root) :].strip("/") for path in files]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
