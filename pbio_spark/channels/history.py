"""The log with its meaning: following it commit by commit, and adding to it."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Container
from dataclasses import replace
from threading import RLock

from pbio_spark.channels.checked import MOST, bad, parse
from pbio_spark.channels.entries import (
    AnyChange,
    Compact,
    Data,
    DataFile,
    Entry,
    entry_to_json,
    json_to_entry,
    sizes_of,
)
from pbio_spark.channels.groups import Group, Groups, groups_to_json, json_to_groups
from pbio_spark.channels.log import Log, entry_name
from pbio_spark.channels.state import State, json_to_state, state_to_json
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

LONGEST_GROUPS = 64 << 10
"""The most bytes of groups in a commit itself: who waits for events of one channel reads it anyhow."""

CHECKPOINT_EVERY = 100
"""Commits between two checkpoints: what a new reader reads at most, unless a writer died before it made one."""


class History:
    """The commits of one space, and the state that they add up to as far as they are known here.

    Attributes:
        lock: held by whoever uses `state` over several steps.
    """

    def __init__(self, log: Log, space: str) -> None:
        self._log = log
        self._space = space
        self.lock = RLock()
        self._directory: tuple[str, Groups] = "", Groups()
        self._compacted: dict[int, dict[str, tuple[str, int]]] = {}
        self._is_whole = False
        """Whether it is known that the log ended behind `state`, rather than having lost a commit there."""
        self.state = self._start()

    def entry(self, version: int) -> Entry | None:
        """A commit; None if there is none of that version yet. Raises PBIO_BAD_LOG."""
        data = self._log.read(version)
        if data is None:
            return None
        try:
            entry = json_to_entry(data, version)
            if entry.space != self._space:
                bad(f"the commit belongs to another space, {entry.space[:40]}")
        except PbioError as error:
            raise error.at(file=entry_name(version)) from None
        return entry

    def groups(self, data: Data, channels: Container[int] | None = None) -> list[Group]:
        """Where the events of a commit lie: of all channels, or of some, in the order of their positions."""
        groups = self.all_groups(data)
        return list(groups) if channels is None else groups.having(channels)

    def all_groups(self, data: Data) -> Groups:
        """Where the events of a commit lie, from its directory if there is one. Raises PBIO_BAD_LOG."""
        if data.directory is None or len(data.groups):
            return data.groups
        path, size = data.directory.path, data.directory.bytes
        with self.lock:
            if self._directory[0] != path:
                said = self._log.attachment(path)
                if said is None or len(said) != size:
                    bad(f"the directory {path} is not the one that was committed")
                try:
                    self._directory = path, json_to_groups(parse(said), sizes_of(data.files), MOST)
                except PbioError as error:
                    raise error.at(file=path) from None
            return self._directory[1]

    def filled(self, entry: Entry) -> Entry:
        """A commit with its groups, wherever they are."""
        if not isinstance(entry.change, Data):
            return entry
        return replace(entry, change=replace(entry.change, groups=self.all_groups(entry.change)))

    def with_directory(self, data: Data) -> Data:
        """A commit that is to be appended, its groups kept beside it if they are many."""
        said = json.dumps(groups_to_json(data.groups), separators=(",", ":")).encode()
        if len(said) <= LONGEST_GROUPS:
            return data
        path = f"_log/{uuid.uuid4().hex}.groups"
        self._log.attach(path, said)
        return replace(data, directory=DataFile(path, len(said)))

    def catch_up(self) -> State:
        """The state after the last commit that there is. Raises PBIO_BAD_LOG."""
        with self.lock:
            while True:
                while (entry := self.entry(self.state.version + 1)) is not None:
                    try:
                        self.state.apply(self.filled(entry))
                    except PbioError as error:
                        raise error.at(file=entry_name(self.state.version + 1)) from None
                if self._is_whole or not self._is_behind(self.state.version + 1):
                    self._is_whole = True
                    return self.state

    def first_since(self, time: int, first: int) -> int:
        """The first version from `first` on that was published at a time or later."""
        end = self.catch_up().version + 1
        while first < end:
            middle = (first + end) // 2
            entry = self.entry(middle)
            if entry is not None and entry.time < time:
                first = middle + 1
            else:
                end = middle
        return first

    def locate(self, version: int, path: str) -> tuple[str, int] | None:
        """Where a data file of a commit has gone: its new path, and how many bytes further on its items are there."""
        with self.lock:
            self.catch_up()
            return self.located(version, path)

    def located(self, version: int, path: str) -> tuple[str, int] | None:
        """The same, as far as is known without looking into the log again."""
        with self.lock:
            for first, last, compaction in reversed(self.state.compactions):
                if first <= version <= last and path in (parts := self._parts(compaction)):
                    return parts[path]
        return None

    def _parts(self, compaction: int) -> dict[str, tuple[str, int]]:
        if compaction not in self._compacted:
            entry = self.entry(compaction)
            if entry is None or not isinstance(entry.change, Compact):
                bad(f"the commit {compaction} is no compaction any more")
            file = entry.change.file.path
            self._compacted = {compaction: {path: (file, further) for path, further in entry.change.parts}}
        return self._compacted[compaction]

    def append(self, change: AnyChange) -> int | None:
        """Commit a change that was made for `state`: its version, or None if another commit was faster.

        Whoever gets None catches up, makes the change anew, and tries again. Raises PBIO_BAD_VALUE for what readers
        would refuse.
        """
        with self.lock:
            version = self.state.version + 1
            # Clocks jump; the log does not.
            now = max(time.time_ns() // 1000, self.state.time)
            entry = Entry(self._space, uuid.uuid4().hex, now, change)
            self.state.check(entry)
            said = entry_to_json(entry)
            try:
                json_to_entry(said, version)
            except PbioError as error:
                # It would be the last commit that anyone can read.
                raise PbioError("PBIO_BAD_VALUE", f"no reader would accept the commit: {error.reason}") from None
            self._check_standing()
            if self._is_behind(version) or not self._log.append(version, said):
                return None
            self.state.apply(entry)
            if version % CHECKPOINT_EVERY == 0:
                self.checkpoint()
            return version

    def _check_standing(self) -> None:
        """Raise PBIO_BAD_LOG if the folder holds another log by now, made anew or an older copy: what is appended to it
        would not follow on what is there."""
        version = self.state.version
        last = self.entry(version) if version else None
        if version and (last is None or last.commit != self.state.commit):
            bad(f"the commit {version} is not there any more: the space was replaced, and has to be opened again")

    def _is_behind(self, version: int) -> bool:
        """Whether there are further commits already. Raises PBIO_BAD_LOG if this one of them was lost: a new commit in
        its place would be read as what those behind it were made on."""
        if self._log.read(version + 1) is None:
            return False
        if self._log.read(version) is None:
            bad(f"the commit {version} is missing, but there is {version + 1}")
        return True

    def checkpoint(self) -> None:
        """Keep the state as it is, for who starts later."""
        try:
            self._log.checkpoint(self.state.version, state_to_json(self.state))
        except (OSError, PbioError) as error:
            # The commit stands; only those who start later have more to read.
            log.warning("no checkpoint of version %d: %s", self.state.version, error)

    def _start(self) -> State:
        """The state of the newest checkpoint that fits the log, else of the beginning."""
        for version, data in self._log.checkpoints():
            try:
                state = json_to_state(data, self._space, version)
                entry = self.entry(version)
                if entry is None or entry.commit != state.commit:
                    bad("the checkpoint is of another commit than the log has")
            except PbioError as error:
                log.warning("the checkpoint of version %d is left aside: %s", version, error)
            else:
                return state
        return State(self._space)
