"""The log: commits by number, each appended once, and checkpoints of the state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from pbio_spark.channels.commits.checked import PUT_BACK
from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.log import folds
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.folds import Fold, Folds
from pbio_spark.channels.log.layout import (
    LOG,
    NEWEST,
    checkpoint_path,
    commit_path,
    fold_path,
    name_to_checkpoint,
    name_to_commit,
    name_to_fold,
)
from pbio_spark.disk import UNKNOWN
from pbio_spark.errors import PbioError

LONGEST_ENTRY = 32 << 20
"""The most bytes that a commit may have: it must take one request, even where larger files take several."""

LONGEST_CHECKPOINT = 1 << 30
"""The most bytes that a checkpoint may have: it lists every producer with sequence numbers, at about 50 bytes each."""

SAFE_TO_RETRY = (
    "it is safe to publish the events again with the same producer and sequence numbers, or the same transaction: what "
    "was published is left out"
)

LONGEST_ATTACHMENT = 256 << 20


class Log(Protocol):
    """What a channel space needs from its log. Versions are counted from 1 without gaps.

    Attributes:
        is_near: whether reading it needs no request to a server.
    """

    @property
    def is_near(self) -> bool: ...

    def append(self, version: int, entry: bytes) -> bool:
        """Append an entry durably at a version; False, with nothing changed, if the version is taken."""

    def read(self, version: int) -> bytes | None:
        """The entry at a version; None if there is none yet, or it has been folded."""

    def stands(self, version: int) -> bool:
        """Whether an unfolded entry exists at a version. The last entry is never folded."""

    def fold(self, version: int) -> Fold | None:
        """The fold that has a version, by the last listing."""

    def withdraw(self, version: int) -> None:
        """Remove an entry whose version a fold already has. Failure raises no error."""

    def spans(self) -> list[tuple[int, int]]:
        """The first and last version of each run of consecutive entries, ascending.

        It may be slow: do not call it on every read.
        """

    def attach_numbers(self, name: str, values: Sequence[Int64s]) -> None:
        """Store durably the numbers that the next entry will name."""

    def numbers(self, name: str, first: int, count: int) -> Int64s | None:
        """`count` of the numbers stored under a name; None if they do not exist."""

    def attach(self, name: str, data: bytes) -> None:
        """Store durably what is too long for the next entry, which will name it."""

    def attachment(self, name: str) -> bytes | None:
        """What was stored under a name; None if it does not exist."""

    def checkpoint(self, version: int, state: bytes) -> None:
        """Store the state after a version, for later starts."""

    def now(self) -> int:
        """The time by the clock of the log's store, in microseconds since 1970 UTC. It may be slow."""

    def modified(self, version: int) -> int:
        """When an entry was appended, by that clock."""

    def checkpoints(self) -> Iterator[tuple[int, bytes]]:
        """Checkpoints to start from, the best first."""


class FolderLog:
    """A log in the folder of a channel space."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._folds = Folds(folder)
        self._folded = 0
        """The last version known to be in a fold."""

    @property
    def is_near(self) -> bool:
        return self._folder.is_local

    def append(self, version: int, entry: bytes) -> bool:
        if len(entry) > LONGEST_ENTRY:
            raise PbioError(
                "PBIO_BAD_VALUE", f"the commit is too large ({len(entry)} bytes)", hint="publish fewer events at once"
            )
        # A lost reply is not a lost race: the commit there may be this one.
        name = commit_path(version)
        try:
            if self._folder.create(name, entry):
                return True
            failure = None
        except PbioError as error:
            # A store gives the same answer to two simultaneous requests (S3: ConditionalRequestConflict). An existing
            # commit is durable; on a disk it might not be, if syncing failed.
            if error.code != UNKNOWN:
                raise
            failure = error
        if failure is None or not self._folder.is_local:
            try:
                standing = self.read(version)
            except PbioError as error:
                if error.code == "PBIO_BAD_LOG":
                    raise  # whatever is there, it is not this commit
                standing, failure = None, failure or error
            if standing is not None:
                return standing == entry
        cause = None if failure is None else failure.__cause__ or failure
        raise PbioError(
            UNKNOWN,
            f"unknown whether commit {version} was made: {cause or 'its file is gone'}",
            file=self._folder.path(name),
            hint=SAFE_TO_RETRY,
        ) from cause

    def read(self, version: int) -> bytes | None:
        return self._checked(commit_path(version))

    def now(self) -> int:
        return int(self._folder.now() * 1e6)

    def stands(self, version: int) -> bool:
        return self._folder.size(commit_path(version)) is not None

    def fold(self, version: int) -> Fold | None:
        return self._folds.find(version) if version <= self._folded else None

    def withdraw(self, version: int) -> None:
        with suppress(PbioError):
            self._folder.remove(commit_path(version))

    def modified(self, version: int) -> int:
        names = [commit_path(version), *(fold_path((version - 1) // size * size + 1, size) for size in folds.SIZES)]
        for name in names:
            with suppress(FileNotFoundError):
                return int(self._folder.modified(name) * 1e6)
        raise PbioError(
            "PBIO_BAD_LOG",
            f"commit {version} is missing",
            file=self._folder.path(names[0]),
            hint=PUT_BACK,
        )

    def attach_numbers(self, name: str, values: Sequence[Int64s]) -> None:
        self._folder.add(name, [memoryview(own.astype("<i8", copy=False).tobytes()) for own in values])

    def numbers(self, name: str, first: int, count: int) -> Int64s | None:
        try:
            data = self._folder.read_part(name, 8 * first, 8 * count)
        except FileNotFoundError:
            return None
        return np.frombuffer(data, "<i8").astype(np.int64, copy=False) if len(data) == 8 * count else None

    def attach(self, name: str, data: bytes) -> None:
        if len(data) > LONGEST_ATTACHMENT:
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"the groups of the commit are too large ({len(data)} bytes)",
                hint="publish fewer events at once",
            )
        self._folder.add(name, data)

    def attachment(self, name: str) -> bytes | None:
        return self._folder.read(name, LONGEST_ATTACHMENT)

    def spans(self) -> list[tuple[int, int]]:
        names = self._folder.names(LOG)
        folded = [span for name in names if (span := name_to_fold(name)) is not None]
        commits = [version for name in names if (version := name_to_commit(name)) is not None]
        spans: list[tuple[int, int]] = []
        for first, last in sorted([*folded, *((version, version) for version in commits)]):
            if spans and first <= spans[-1][1] + 1:
                spans[-1] = spans[-1][0], max(spans[-1][1], last)
            else:
                spans.append((first, last))
        self._folded = max([self._folded, *(last for _, last in folded)])
        return spans

    def checkpoint(self, version: int, state: bytes) -> None:
        if len(state) > LONGEST_CHECKPOINT:
            raise PbioError("PBIO_BAD_VALUE", f"the checkpoint is too large ({len(state)} bytes)")
        if self._folder.create(checkpoint_path(version), state):
            self._folder.replace(NEWEST, str(version).encode())

    def checkpoints(self) -> Iterator[tuple[int, bytes]]:
        hint = self._folder.read(NEWEST, 20) or b""
        if re.fullmatch(rb"[1-9]\d{0,18}", hint) and (state := self._state(int(hint))) is not None:
            yield int(hint), state
        versions = [name_to_checkpoint(name) for name in reversed(self._folder.names(LOG))]
        for version in versions:
            if version is not None and (state := self._state(version)) is not None:
                yield version, state

    def _state(self, version: int) -> bytes | None:
        return self._checked(checkpoint_path(version), LONGEST_CHECKPOINT)

    def _checked(self, name: str, most: int = LONGEST_ENTRY) -> bytes | None:
        data = self._folder.read(name, most)
        if data is not None and len(data) > most:
            raise PbioError("PBIO_BAD_LOG", f"more than {most} bytes", file=self._folder.path(name), hint=PUT_BACK)
        return data
