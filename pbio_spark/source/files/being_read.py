"""The files that a query reads, for its own overwrite: Spark does not tell a Python source where its rows come from.

Tasks of a query in one executor share a folder of Spark's, which is removed with the executor. Each Python process
notes there, in a file of its own, what its tasks read. An overwriting task reads the notes at its end, when all the
rows that it wrote have been read. Reads in other executors, before a shuffle, are not seen; nothing is lost then
either, since an overwrite removes files only when all tasks are done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pyspark import TaskContext

from pbio_spark.errors import PbioError
from pbio_spark.paths import full_path, is_local, locate

EXECUTION = "spark.sql.execution.id"
FOLDERS = "SPARK_LOCAL_DIRS"
"""The variable in which Spark passes the executor's own folders to its Python workers."""
QUERIES = 1000
"""The most queries for which an executor keeps notes, since it does not learn when a query ends."""
_NOTES = "pbio-reads-"


def note_files(paths: Iterable[str]) -> None:
    """Note that the query of this task reads some files; do nothing outside a query or an executor."""
    with suppress(Exception):  # a read must not fail because of notes for overwrites
        folder = _notes()
        if folder is not None:
            if not folder.is_dir():
                _forget(folder.parent)
                folder.mkdir(exist_ok=True)
            with (folder / str(os.getpid())).open("a", encoding="utf-8", errors="surrogateescape") as note:
                note.write("".join(f"{path}\0" for path in dict.fromkeys(map(real_path, paths))))


def files_read(root: str) -> tuple[str, ...]:
    """The files below a folder that the query of this task reads, as far as its executor knows, as `real_path`."""
    folder, above = _notes(), real_path(root).rstrip("/") + "/"
    if folder is None or not folder.is_dir():
        return ()
    found: dict[str, None] = {}
    for note in folder.iterdir():
        with suppress(OSError):
            text = note.read_text(encoding="utf-8", errors="surrogateescape")
            found |= dict.fromkeys(path for path in text.split("\0") if path.startswith(above))
    return tuple(found)


def refuse_read_files(root: str, replaced: Iterable[str], read: Iterable[str]) -> None:
    """Raise PBIO_OVERWRITES_ITSELF if an overwrite would remove what its own query reads.

    Args:
        replaced: paths from `full_path`.
        read: paths from `files_read`.
    """
    known = set(read)
    both = next((path for path in replaced if known and real_path(path) in known), None)
    if both is not None:
        raise PbioError(
            "PBIO_OVERWRITES_ITSELF",
            f"the query reads what it overwrites, such as {both}",
            file=root,
            hint="write to another folder, or cache() the rows first; nothing was removed",
        )


def real_path(path: str) -> str:
    """The canonical path of a file, with links resolved."""
    fs, stripped = locate(path)
    return os.path.realpath(stripped) if is_local(fs) else full_path(fs, stripped)


def _notes() -> Path | None:
    """The folder for notes of this query's tasks."""
    context, folders = TaskContext.get(), os.environ.get(FOLDERS)
    query = None if context is None else context.getLocalProperty(EXECUTION)
    return Path(folders.split(",")[0]) / f"{_NOTES}{query}" if query is not None and folders else None


def _forget(where: Path) -> None:
    """Remove the notes of the older half of all queries, if there are many."""
    noted = [entry for entry in os.scandir(where) if entry.name.startswith(_NOTES)]
    if len(noted) >= QUERIES:
        for entry in sorted(noted, key=lambda entry: entry.stat().st_mtime)[: QUERIES // 2]:
            shutil.rmtree(entry.path, ignore_errors=True)
