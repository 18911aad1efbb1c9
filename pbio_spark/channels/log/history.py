"""The log with its meaning: following it commit by commit, and adding to it."""

from __future__ import annotations

import json
import logging
import random
import time
import uuid
from collections.abc import Callable, Container
from dataclasses import replace
from threading import RLock

from pbio_spark.channels.commits.chain import Chain, digest_of
from pbio_spark.channels.commits.checked import MOST, bad, parse
from pbio_spark.channels.commits.entries import (
    AnyChange,
    Compact,
    Data,
    DataFile,
    Entry,
    entry_to_json,
    json_to_entry,
    sizes_of,
)
from pbio_spark.channels.commits.groups import Group, Groups, Int64s, bound, groups_to_json, json_to_groups, set_aside
from pbio_spark.channels.log.blocks import Block, fold_to_block
from pbio_spark.channels.log.folds import Fold, prior_of
from pbio_spark.channels.log.layout import commit_path, new_groups_path, new_numbers_path
from pbio_spark.channels.log.log import AGAIN, Log
from pbio_spark.channels.log.state import State, json_to_state, state_to_json
from pbio_spark.channels.position import Position
from pbio_spark.disk import UNKNOWN
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

LONGEST_GROUPS = 64 << 10
"""The most bytes of groups in a commit itself: who waits for events of one channel reads it anyhow."""

MOST_NUMBERS = 4096
"""The most sequence numbers and times of single events in a commit or its directory, which whoever comes reads."""

CHECKPOINT_EVERY = 100
"""Commits between two checkpoints: what a new reader reads at most, unless a writer died before it made one."""

AHEAD = 86_400_000_000
"""How many microseconds a clock may be ahead before nobody believes it."""

LISTING_SHARE = 100
LISTING_PAUSE = {True: 1.0, False: 60.0}
"""Who waits for a commit lists the log now and then, because one that was lost would be waited for in vain: after that
many times as long as it took, and after so many seconds at least, on a local disk and elsewhere."""


_DOUBLINGS = 4
"""How often the pause before another attempt, at first as long as the attempt took, is doubled."""
_LONGEST_PAUSE = 1.0
"""Seconds: one attempt may have taken very long, because the store failed and was asked again."""


def pause(lost: int, took: float) -> None:
    """Wait before another attempt at a commit: of many writers that try again at once one wins, and the others only
    hinder it.

    Args:
        lost: how many attempts were lost before the last one.
        took: how long that one took, in seconds.
    """
    time.sleep(random.uniform(0, min(took * 2 ** min(lost, _DOUBLINGS), _LONGEST_PAUSE)))


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
        self._chain = Chain()
        self._joined: Fold | None = None
        """The fold that was read last, and found to be a part of the chain."""
        self._block: tuple[Fold | None, Block | None] = None, None
        self._seen = 0
        """The last version that is known to be there, or to have been."""
        self._look_back_at = 0.0
        """When to look again whether commits have been folded, where that costs a request."""
        self._list_at: float | None = None
        """When to list the log again; None before it was listed at all."""
        self._waiting = 0, 0.0
        """The version at which another writer took a turn, and when that was seen here."""
        self.state = self._start()

    def entry(self, version: int) -> Entry | None:
        """A commit; None if there is none of that version yet. Raises PBIO_BAD_LOG, also for one that was lost."""
        try:
            return self._entry(version)
        except PbioError as error:
            if error.code == "PBIO_BAD_LOG" and self._log.fold(version) is None:
                self._log.spans()
                if self._log.fold(version) is not None:
                    return self.entry(version)
            raise error.at(file=commit_path(version)) from None

    def _entry(self, version: int) -> Entry | None:
        data = self.text(version)
        if data is None:
            return None
        entry = self._parsed(version, data)
        self._chain.join(version, entry.digest, entry.prior)
        return entry

    def text(self, version: int) -> bytes | None:
        """A commit as it was written; None if there is none of that version yet. Raises PBIO_BAD_LOG."""
        data = self._text(version)
        later = max(self._seen, self.state.version)
        if data is None and version <= later:
            data = self._folded_text(version)
            if data is None:
                raise _lost(version, later)
        return data

    def _text(self, version: int) -> bytes | None:
        # Where there are both, the commit's own file is that of a writer that slept, see `_is_kept`.
        fold = self.fold(version)
        return self._log.read(version) if fold is None else fold[version]

    def _folded_text(self, version: int) -> bytes | None:
        """A commit that is not there, if it has been folded since the log was listed."""
        self._log.spans()
        return self._text(version)

    def fold(self, version: int) -> Fold | None:
        """The fold that has a commit, as far as it is known to have been folded. Raises PBIO_BAD_LOG.

        It is the one that is meant: the commit after it names its last one.
        """
        fold = self._log.fold(version)
        if fold is not None and fold is not self._joined:
            self.check_fold(fold)
            self._joined = fold
        return fold

    def check_fold(self, fold: Fold) -> None:
        """Raise PBIO_BAD_LOG if a fold is no part of this log's chain, or the commit after it is missing."""
        self._join(fold.first, fold.texts[0])
        self._join(fold.last, fold.texts[-1])
        version = fold.last + 1
        following = self._first_text(version)
        if following is None:
            self._log.spans()
            following = self._first_text(version) or bad(f"the commit {version} is missing, which follows on a fold")
        self._join(version, following)

    def _first_text(self, version: int) -> bytes | None:
        """A commit that comes after a fold, perhaps as the first one of another, which is not looked into further."""
        fold = self._log.fold(version)
        return self._log.read(version) if fold is None else fold[version]

    def _join(self, version: int, text: bytes) -> None:
        self._chain.join(version, digest_of(text), prior_of(text, version))

    def block(self, version: int) -> Block | None:
        """What the fold says that has a commit, with the commits beside it; None if it has to be looked at alone.

        Raises PBIO_BAD_LOG.
        """
        fold = self.fold(version)
        with self.lock:
            if fold is not None and self._block[0] is not fold:
                self._block = fold, fold_to_block(fold, self._space)
            return None if fold is None else self._block[1]

    def _parsed(self, version: int, data: bytes) -> Entry:
        entry = json_to_entry(data, version)
        if entry.space != self._space:
            bad(f"the commit belongs to another space, {entry.space[:40]}")
        return entry

    def groups(self, data: Data, channels: Container[int] | None = None) -> list[Group]:
        """Where the events of a commit lie: of all channels, or of some, in the order of their positions."""
        groups = self.all_groups(data)
        return list(groups) if channels is None else groups.having(channels)

    def all_groups(self, data: Data) -> Groups:
        """Where the events of a commit lie, from its directory if there is one. Raises PBIO_BAD_LOG."""
        groups = self._named_groups(data)
        file = data.numbers
        if file is None:
            return groups

        def load(first: int, count: int) -> Int64s:
            values = self._log.numbers(file.path, first, count) if 8 * (first + count) <= file.bytes else None
            return bad(f"{file.path} is not the file that was committed") if values is None else values

        return bound(groups, load)

    def _named_groups(self, data: Data) -> Groups:
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
        """A commit that is to be appended; its groups, and what single events say, lie beside it if they are many."""
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
        """The state after the last commit that there is. Raises PBIO_BAD_LOG."""
        with self.lock:
            if self._list_at is None:
                self._list(1)
            while (entry := self.entry(self.state.version + 1)) is not None or self._is_folded():
                if entry is None:
                    continue
                try:
                    self.state.apply(self.filled(entry))
                except PbioError as error:
                    raise error.at(file=commit_path(self.state.version + 1)) from None
            return self.state

    def check_end(self, version: int, *, now: bool = False) -> bool:
        """Raise PBIO_BAD_LOG if a commit that was not there has been lost: if there are later ones.

        This lists the log at times, and does nothing in between, so that whoever waits may call it every time.

        Args:
            now: ask at least for the next one, and for the one before.

        Returns:
            Whether the commit is there after all.
        """
        if now:
            if self._log.read(version + 1) is not None:
                self._check_lost(version, version + 1)
            self._is_passed(version)
        if self._list_at is None or time.monotonic() >= self._list_at:
            self._list(version)
        return self._seen >= version

    def _is_folded(self) -> bool:
        """Whether a commit that is not there has been folded, and is not only yet to come; asked for at times."""
        if not self._log.is_near and time.monotonic() < self._look_back_at:
            return False
        self._look_back_at = time.monotonic() + LISTING_PAUSE[self._log.is_near]
        return self._is_passed(self.state.version + 1)

    def _is_passed(self, version: int) -> bool:
        """Whether there are commits from a version on that were folded, with the one before, since the last listing.

        The last commit of a log is never folded: if the one before stands, there is nothing to be found.
        """
        if version > 1 and not self._log.stands(version - 1):
            self._seen = max(self._seen, *(last for _, last in self._log.spans()), 0)
        return self._seen >= version

    def _list(self, first: int) -> None:
        """Look which commits there are from a version on. Raises PBIO_BAD_LOG if one is missing among them."""
        begun, known = time.monotonic(), max(self._seen, self.state.version)
        expected = min(first, known or first)
        spans = self._log.spans()
        ended, last = time.monotonic(), max(known, *(last for _, last in spans), 0)
        for begin, end in [*spans, (known + 1, known + 1)]:
            for missing in range(expected, begin):
                # What came to be while they were listed may have been passed over.
                self._check_lost(missing, min(begin, last))
            expected = max(expected, end + 1)
        self._seen = last
        self._list_at = ended + max(LISTING_PAUSE[self._log.is_near], LISTING_SHARE * (ended - begun))

    def _check_lost(self, version: int, later: int) -> None:
        self._seen = max(self._seen, later)
        if self._text(version) is None and self._folded_text(version) is None:
            raise _lost(version, later)

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
        """The same for what is kept for a time: a commit that is far ahead of `now` is as old as its file.

        Once a writer's clock was ahead, all commits that follow have its time.
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
                bad(f"the commit {compaction} is no longer a compaction")
            file = entry.change.file.path
            self._compacted = {compaction: {path: (file, further) for path, further in entry.change.parts}}
        return self._compacted[compaction]

    def commit(self, make: Callable[[State], AnyChange | None], holder: str = "") -> int | None:
        """Commit the change that a function makes of the state, made anew until no other commit is faster.

        The caller must not hold `lock`, which other threads need meanwhile.

        Returns:
            The version; None if there is nothing to commit any more.
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
        """Commit a change that was made for `state`: its version, or None if another commit was faster, or it is
        another writer's turn.

        A caller that gets None catches up, makes the change anew, and tries again. Raises PBIO_BAD_VALUE for what
        readers would refuse.

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
            entry = Entry(self._space, uuid.uuid4().hex, now, change, prior)
            self.state.check(entry)
            said = entry_to_json(entry, version)
            try:
                digest = json_to_entry(said, version).digest
            except PbioError as error:
                # It would be the last commit that anyone can read.
                raise PbioError("PBIO_BAD_VALUE", f"no reader would accept the commit: {error.reason}") from None
            self.check_end(version, now=True)
            if not (self._log.append(version, said) and self._is_kept(version, said)):
                return None
            self.state.apply(replace(entry, digest=digest))
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
        """The time by this machine's clock; by that of the log if the log would jump, and the clock is far ahead."""
        now = time.time_ns() // 1000
        if now - self.state.time > AHEAD and now - (there := self._log.now()) > AHEAD:
            log.warning("the clock of this machine is %.1f days ahead of that of the space", (now - there) / AHEAD)
            return there
        return now

    def _is_kept(self, version: int, said: bytes) -> bool:
        """Whether a commit that was just appended is the one of its version.

        The writer may have slept, and the commit of that version may have been folded, and its own file removed. These
        go one after the other, and the last one stays: if the one before still stands, this one never stood before.

        Raises PBIO_OUTCOME_UNKNOWN if that cannot be found out.
        """
        try:
            if version == 1 or self._log.stands(version - 1):
                return True
            self._log.spans()
            fold = self.fold(version)
        except PbioError as error:
            reason = f"it is not known whether the commit {version} was made: {error.reason}"
            raise PbioError(UNKNOWN, reason, file=error.file, hint=AGAIN) from error
        if fold is None or fold[version] == said:
            return True
        self._log.withdraw(version)
        self._seen = max(self._seen, fold.last)
        return False

    def _check_standing(self) -> str | None:
        """The digest of the last commit; None if it is not the last one any more.

        Raises PBIO_BAD_LOG if it is another one by now: the space was made anew, or is an older copy, and what is
        appended to it would not follow on what is there.
        """
        version = self.state.version
        last = self._log.read(version) if version else b""
        if last is None and self._is_passed(version + 1):
            return None
        if last is None or (version and digest_of(last) != self.state.digest):
            if last is not None:
                self._parsed(version, last)
            bad(f"the commit {version} is gone: the space was replaced, and has to be opened again")
        return self.state.digest

    def checkpoint(self) -> None:
        """Keep the state as it is, for who starts later."""
        try:
            self._log.checkpoint(self.state.version, state_to_json(self.state))
        except PbioError as error:
            # The commit stands; only those who start later have more to read.
            log.warning("no checkpoint of version %d: %s", self.state.version, error)

    def _start(self) -> State:
        """The state of the newest checkpoint that fits the log, else of the beginning."""
        for version, data in self._log.checkpoints():
            try:
                state = json_to_state(data, self._space, version)
                entry = json_to_entry(self._text(version) or self._folded_text(version) or b"", version)
                if entry.commit != state.commit or state.digest not in ("", entry.digest):
                    bad("the checkpoint is of another commit than the log has")
                state.digest = entry.digest
                self._chain.join(version, entry.digest, entry.prior)
            except PbioError as error:
                log.warning("the checkpoint of version %d is left aside: %s", version, error)
            else:
                return state
        return State(self._space)


def has_events(history: History, channel: int, position: Position, end: int) -> bool:
    """Whether commits from a position to before a version have events of a channel."""
    for version in range(position.version, end):
        entry = history.entry(version)
        if entry is not None and isinstance(entry.change, Data):
            ends = [group.end_in(version) for group in history.groups(entry.change, {channel})]
            if any(end > position for end in ends):
                return True
    return False


def _lost(version: int, later: int) -> PbioError:
    said = f"the commit {version} is missing, but there is {later}"
    return PbioError(
        "PBIO_BAD_LOG",
        said if version < later else f"the commit {version} is gone",
        file=commit_path(version),
        hint="put the file back from a copy of the space; `pbio space verify` says what else is wrong with it",
    )
