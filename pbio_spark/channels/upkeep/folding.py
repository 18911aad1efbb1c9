"""Old commits -> folds, then the files that folds replace. A crash between any two steps does no harm."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pbio_spark.channels.commits.checked import bad
from pbio_spark.channels.commits.commit_json import json_to_commit
from pbio_spark.channels.log import folds
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.folds import Fold, Folds, firsts, fold_to_bytes
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.layout import LOG, commit_path, fold_path, name_of

KEPT = 100
"""How many of the last commits are never folded: those after the newest checkpoint, and in particular the last one."""


def make_folds(history: History, folder: Folder) -> int:
    """Write all missing folds; returns how many. Removes nothing.

    Raises PBIO_BAD_LOG if a commit is missing or contradicts its neighbours.
    """
    last = history.catch_up().version - KEPT
    there = set(folder.names(LOG))
    made = 0
    for first, size in _blocks(last):
        names = [
            fold_path(first, size),
            *(fold_path(*_around(first, larger)) for larger in folds.SIZES if larger > size),
        ]
        if any(name_of(name) in there for name in names):
            continue
        written = [
            history.text(version) or bad(f"commit {version} is missing") for version in range(first, first + size)
        ]
        fold = Fold(first, written)
        if sum(map(len, written)) > folds.LONGEST_FOLD:
            if size == folds.SIZES[0]:
                break  # commits are folded without gaps: see `History._is_kept`
            continue
        fold.check()
        folder.add(names[0], fold_to_bytes(fold))
        there.add(name_of(names[0]))
        made += 1
    return made


def _blocks(last: int) -> Iterator[tuple[int, int]]:
    """The first version and the size of all folds up to a version, in order; a larger one before those inside it."""
    smallest, *others = folds.SIZES
    for first in firsts(last, smallest):
        for size in reversed(others):
            if (first - 1) % size == 0 and first + size - 1 <= last:
                yield first, size
        yield first, smallest


def _around(version: int, size: int) -> tuple[int, int]:
    return (version - 1) // size * size + 1, size


def folded_files(history: History, folder: Folder, linger: int) -> list[str]:
    """The files of folded commits older than `linger` microseconds, and of folds inside larger folds, in the order in
    which they may be removed.

    Raises PBIO_BAD_LOG if a fold is damaged.
    """
    names = folder.names(LOG)
    there = set(names)
    needless: list[str] = []
    made = Folds(folder)
    until = time.time_ns() // 1000 - linger
    done = 0
    for first, size in _blocks(history.catch_up().version):
        if first + size - 1 <= done or name_of(fold_path(first, size)) not in there:
            continue
        fold = made.read(first, size)
        if fold is None:
            break
        if json_to_commit(fold.written[-1], fold.last).time > until:
            break
        history.check_fold(fold)
        needless += [commit_path(version) for version in range(first, first + size)]
        needless += [
            fold_path(one, less) for less in folds.SIZES if less < size for one in range(first, first + size, less)
        ]
        done = fold.last
    return [name for name in needless if name_of(name) in there]
