"""The log and the state after its commits; appends commits."""

from __future__ import annotations

import json
import logging
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from pbio_spark.channels.commits.chain import digest_of
from pbio_spark.channels.commits.checked import bad
from pbio_spark.channels.commits.commit import AnyChange, Commit, Compact, Data, DataFile
from pbio_spark.channels.commits.commit_json import commit_to_json, json_to_commit, states_to_json
from pbio_spark.channels.commits.groups import groups_to_json, set_aside
from pbio_spark.channels.log.layout import commit_path, new_groups_path, new_numbers_path, new_states_path
from pbio_spark.channels.log.log import SAFE_TO_RETRY, Log
from pbio_spark.channels.log.reader import LogReader
from pbio_spark.channels.log.state import State
from pbio_spark.channels.log.state_json import json_to_state, state_to_json
from pbio_spark.channels.position import Position
from pbio_spark.disk import UNKNOWN
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

LONGEST_GROUPS = 64 << 10
"""The most bytes of groups in a commit itself, since even a subscriber of one channel reads them all."""

LONGEST_STATES = 64 << 10
"""The most bytes of states of derivations in a commit itself."""

MOST_NUMBERS = 4096
"""The most sequence numbers and times of single events in a commit or its directory, which every reader reads."""

CHECKPOINT_EVERY = 100
"""Commits between checkpoints: the most that a new reader reads, unless a writer died before making one."""

AHEAD = 86_400_000_000
"""How many microseconds a clock may be ahead before commits reject its time."""

_APART = 60_000_000
"""How many microseconds a clock may be ahead before its times no longer expire events."""

_DOUBLINGS = 4
"""How often the pause between attempts, initially as long as an attempt took, is doubled."""
_LONGEST_PAUSE = 1.0
"""The longest pause in seconds: an attempt may have taken very long because the store failed and was retried."""


def pause(lost: int, took: float) -> None:
    """Wait before another attempt at a commit: when many writers retry at once, the losers slow the winner.

    Args:
        lost: how many attempts were lost before the last one.
        took: how long the last attempt took, in seconds.
    """
    time.sleep(random.uniform(0, min(took * 2 ** min(lost, _DOUBLINGS), _LONGEST_PAUSE)))


class History(LogReader):
    """The commits of one space, and the state that the known ones add up to.

    Attributes:
        state: after the last commit that was read; hold `lock` to use it over several steps.
    """

    def __init__(self, log: Log, space: str) -> None:
        super().__init__(log, space)
        self._compacted: dict[int, dict[str, tuple[str, int]]] = {}
        self._waiting = 0, 0.0
        """The version at which another writer took a turn, and when this program saw that."""
        self._told = 0
        self.state = self._start()
        self._seen = max(self._seen, self.state.version)

    def with_directory(self, data: Data) -> Data:
        """A commit ready to be appended; groups, states and values of single events are moved to files if they are
        many."""
        stated = json.dumps({"states": states_to_json(data.states)}, separators=(",", ":")).encode()
        if len(stated) > LONGEST_STATES:
            path = new_states_path()
            self._log.attach(path, stated)
            data = replace(data, states_file=DataFile(path, len(stated)))
        own = (*data.groups.sequences.values(), *data.groups.event_times.values())
        if sum(map(len, own)) > MOST_NUMBERS:
            groups, values = set_aside(data.groups)
            numbers = DataFile(new_numbers_path(), 8 * sum(map(len, values)))
            self._log.attach_numbers(numbers.path, values)
            data = replace(data, groups=groups, numbers=numbers)
        said = json.dumps(groups_to_json(data.groups), separators=(",", ":")).encode()
        if len(said) <= LONGEST_GROUPS:
            return data
        path = new_groups_path()
        self._log.attach(path, said)
        return replace(data, directory=DataFile(path, len(said)))

    def catch_up(self) -> State:
        """The state after the last existing commit. Raises PBIO_BAD_LOG."""
        with self.lock:
            if self._list_at is None:
                self._list(1)
            if self._told - self.state.version > 2 * CHECKPOINT_EVERY:
                self._leap()
            while (entry := self.entry(self.state.version + 1)) is not None or self._is_folded(self.state.version + 1):
                if entry is None:
                    continue
                try:
                    self.state.apply(self.filled(entry))
                except PbioError as error:
                    raise error.at(file=commit_path(self.state.version + 1)) from None
                self._seen = max(self._seen, self.state.version)
            return self.state

    def told(self, version: int) -> None:
        """Note that, according to another program, the log has a version that was not read here yet."""
        self._told = max(self._told, version)

    def _leap(self) -> None:
        """Continue from a newer checkpoint, if there is one, rather than read each commit."""
        self._told, newer = 0, self._start()
        if newer.version > self.state.version:
            self.state = newer

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

    def age_ends(self, time: int, first: int, now: int) -> int:
        """`first_since` for expiry: a commit far ahead of `now` counts as old as its file.

        After a writer with a fast clock, all later commits have its time.
        """
        end = self.catch_up().version + 1
        while first < end:
            middle = (first + end) // 2
            entry = self.entry(middle)
            published = 0 if entry is None else entry.time
            if published - now > AHEAD:
                published = self._log.modified(middle)
            first, end = (middle + 1, end) if published < time else (first, middle)
        return first

    def certain_now(self) -> int:
        """The time by this machine's clock, or by the log's clock if this machine's is ahead.

        In microseconds since 1970 UTC. It may be slow.
        """
        now, there = time.time_ns() // 1000, self._log.now()
        return there if now - there > _APART else now

    def locate(self, version: int, path: str) -> tuple[str, int] | None:
        """Where a commit's data file is now: its new path, and the shift of its items there in bytes."""
        with self.lock:
            self.catch_up()
            return self.located(version, path)

    def located(self, version: int, path: str) -> tuple[str, int] | None:
        """`locate`, without reading the log again."""
        with self.lock:
            for first, last, compaction in reversed(self.state.compactions):
                if first <= version <= last and path in (parts := self._parts(compaction)):
                    return parts[path]
        return None

    def _parts(self, compaction: int) -> dict[str, tuple[str, int]]:
        if compaction not in self._compacted:
            entry = self.entry(compaction)
            if entry is None or not isinstance(entry.change, Compact):
                bad(f"commit {compaction} is no longer the same compaction")
            file = entry.change.file.path
            self._compacted = {compaction: {path: (file, further) for path, further in entry.change.parts}}
        return self._compacted[compaction]

    def commit(self, make: Callable[[State], AnyChange | None], holder: str = "") -> int | None:
        """Commit a change computed from the state; recompute it until no other commit is faster.

        The caller must not hold `lock`, which other threads need meanwhile.

        Returns:
            The version; None if nothing is left to commit.
        """
        lost = 0
        while True:
            begun = time.monotonic()
            with self.lock:
                change = make(self.catch_up())
                version = None if change is None else self.append(change, holder)
            if change is None or version is not None:
                return version
            pause(lost, time.monotonic() - begun)
            lost += 1

    def append(self, change: AnyChange, holder: str = "") -> int | None:
        """Commit a change that was computed for `state`: its version, or None if another commit was faster or it is
        another writer's turn.

        A caller that gets None catches up, computes the change again, and retries. Raises PBIO_BAD_VALUE for a commit
        that readers would refuse.

        Args:
            holder: the name under which the writer took a turn, if it did.
        """
        with self.lock:
            if self._is_turn_of_another(holder):
                return None
            version = self.state.version + 1
            prior = self._check_standing()
            if prior is None:
                return None
            # Clocks jump; the log does not.
            now = max(self._now(), self.state.time)
            entry = Commit(self._space, uuid.uuid4().hex, now, change, prior)
            self.state.check(entry)
            said = commit_to_json(entry, version)
            try:
                digest = json_to_commit(said, version).digest
            except PbioError as error:
                # No program could read past this commit.
                raise PbioError("PBIO_BAD_VALUE", f"the commit would not be readable: {error.reason}") from None
            self.check_end(version, now=True)
            if not (self._log.append(version, said) and self._is_kept(version, said)):
                return None
            self.state.apply(replace(entry, digest=digest))
            self._seen = max(self._seen, version)
            self._chain.join(version, digest, entry.prior)
            if version % CHECKPOINT_EVERY == 0:
                self.checkpoint()
            return version

    def _is_turn_of_another(self, holder: str) -> bool:
        turn, version = self.state.turn, self.state.version
        if turn is None or turn.holder == holder:
            return False
        if self._waiting[0] != version:
            self._waiting = version, time.monotonic()
        return time.monotonic() - self._waiting[1] < turn.milliseconds / 1000

    def _now(self) -> int:
        """The time by this machine's clock, or by the log's clock if this one is far ahead and the log would jump."""
        now = time.time_ns() // 1000
        if now - self.state.time > AHEAD and now - (there := self._log.now()) > AHEAD:
            log.warning("this machine's clock is %.1f days ahead of that of the space", (now - there) / AHEAD)
            return there
        return now

    def _is_kept(self, version: int, said: bytes) -> bool:
        """Whether a just appended commit is really the commit of its version.

        The writer may have slept while the commit of that version was folded and its file removed. Files are removed in
        order, and the last one stays: so if the previous file still exists, this one never existed before.

        Raises PBIO_OUTCOME_UNKNOWN if that cannot be determined.
        """
        try:
            if version == 1 or self._log.stands(version - 1):
                return True
            self._log.spans()
            fold = self.fold(version)
        except PbioError as error:
            reason = f"unknown whether commit {version} was made: {error.reason}"
            raise PbioError(UNKNOWN, reason, file=error.file, hint=SAFE_TO_RETRY) from error
        if fold is None or fold[version] == said:
            return True
        self._log.withdraw(version)
        self._seen = max(self._seen, fold.last)
        return False

    def _check_standing(self) -> str | None:
        """The digest of the last commit; None if it is no longer the last.

        Raises PBIO_BAD_LOG if it has been replaced: the space was created again, or is an older copy, and what is
        appended would not continue it.
        """
        version = self.state.version
        last = self._log.read(version) if version else b""
        if last is None and self._is_passed(version + 1):
            return None
        if last is None or (version and digest_of(last) != self.state.digest):
            if last is not None:
                self._parsed(version, last)
            bad(f"commit {version} is gone: the space was replaced; open it again")
        return self.state.digest

    def checkpoint(self) -> None:
        """Write a checkpoint of the state, for programs that start later."""
        try:
            self._log.checkpoint(self.state.version, state_to_json(self.state))
        except PbioError as error:
            # The commit is valid; programs that start later only have more to read.
            log.warning("cannot write the checkpoint of version %d: %s", self.state.version, error)

    def _start(self) -> State:
        """The state of the newest checkpoint that fits the log, else of the beginning."""
        for version, data in self._log.checkpoints():
            try:
                state = json_to_state(data, self._space, version)
                entry = json_to_commit(self._text(version) or self._folded_text(version) or b"", version)
                if entry.commit != state.commit or state.digest not in ("", entry.digest):
                    bad("the checkpoint does not belong to the commit in the log")
                state.digest = entry.digest
                self._chain.join(version, entry.digest, entry.prior)
            except PbioError as error:
                log.warning("ignoring the checkpoint of version %d: %s", version, error)
            else:
                return state
        return State(self._space)


def has_events(history: History, channel: int, position: Position, end: int) -> bool:
    """Whether commits from a position up to a version have events of a channel."""
    for version in range(position.version, end):
        entry = history.entry(version)
        if entry is not None and isinstance(entry.change, Data):
            ends = [group.end_in(version) for group in history.groups(entry.change, {channel})]
            if any(end > position for end in ends):
                return True
    return False
