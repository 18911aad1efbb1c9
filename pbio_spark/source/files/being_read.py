"""Which files a query reads, for its own overwrite: Spark does not tell a Python source where its rows come from.

The tasks of one query that run in one executor share a folder of Spark's, which goes with the executor. A task notes
there what it reads, each Python process in a file of its own; one that overwrites asks at its end, when all that it
wrote has been read. A task that reads in another executor, before a shuffle, is not seen: nothing is lost then
either, for an overwrite removes files only when all tasks are done.
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
"""For how many queries, at most, an executor keeps what they read: it does not learn when one has ended."""
_NOTES = "pbio-reads-"


def note_files(paths: Iterable[str]) -> None:
    """Note that the query of this task reads some files; outside of a query, or of an executor, do nothing."""
    with suppress(Exception):  # a read must not fail for what only an overwrite may want to know
        folder = _notes()
        if folder is not None:
            if not folder.is_dir():
                _forget(folder.parent)
                folder.mkdir(exist_ok=True)
            with (folder / str(os.getpid())).open("a", encoding="utf-8", errors="surrogateescape") as note:
                note.write("".join(f"{path}\0" for path in dict.fromkeys(map(real_path, paths))))


def files_read(root: str) -> tuple[str, ...]:
    """What the query of this task reads below a folder, as far as its executor knows; `real_path` of each."""
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
        replaced: paths as `full_path` gives them.
        read: as `files_read` gives them.
    """
    known = set(read)
    both = next((path for path in replaced if known and real_path(path) in known), None)
    if both is not None:
        raise PbioError(
            "PBIO_OVERWRITES_ITSELF",
            f"the query reads what it overwrites, such as {both}",
            file=root,
            hint="write to another folder, or cache() the rows before; nothing was removed",
        )


def real_path(path: str) -> str:
    """A path by which one file has one name, whatever links lead to it."""
    fs, stripped = locate(path)
    return os.path.realpath(stripped) if is_local(fs) else full_path(fs, stripped)


def _notes() -> Path | None:
    """Where tasks of this query leave notes for each other."""
    context, folders = TaskContext.get(), os.environ.get(FOLDERS)
    query = None if context is None else context.getLocalProperty(EXECUTION)
    return Path(folders.split(",")[0]) / f"{_NOTES}{query}" if query is not None and folders else None


def _forget(where: Path) -> None:
    """Remove the notes of the older half of all queries if there are many."""
    noted = [entry for entry in os.scandir(where) if entry.name.startswith(_NOTES)]
    if len(noted) >= QUERIES:
        for entry in sorted(noted, key=lambda entry: entry.stat().st_mtime)[: QUERIES // 2]:
            shutil.rmtree(entry.path, ignore_errors=True)
