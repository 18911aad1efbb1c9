"""The commits of a log by version, each checked against its neighbours, wherever they are stored."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import replace
from threading import RLock

from pbio_spark.channels.commits.chain import Chain, digest_of
from pbio_spark.channels.commits.checked import MOST, PUT_BACK, bad, parse
from pbio_spark.channels.commits.commit import Commit, Data
from pbio_spark.channels.commits.commit_json import json_to_commit, json_to_states, sizes_of
from pbio_spark.channels.commits.groups import Group, Groups, Int64s, bound
from pbio_spark.channels.commits.groups_from_json import json_to_groups
from pbio_spark.channels.log.blocks import FoldBlock, fold_to_block
from pbio_spark.channels.log.folds import Fold, prior_of
from pbio_spark.channels.log.layout import commit_path
from pbio_spark.channels.log.log import Log
from pbio_spark.errors import PbioError

LISTING_SHARE = 100
LISTING_PAUSE = {True: 1.0, False: 60.0}
"""How often a program that waits for a commit lists the log, since it would wait in vain for a lost one: after this
many times as long as listing took, and at least after this many seconds, on a local disk and elsewhere."""


class LogReader:
    """The commits of one space. Threads may share one.

    Attributes:
        lock: held by callers that use the cached state over several steps.
    """

    def __init__(self, log: Log, space: str) -> None:
        self._log = log
        self._space = space
        self.lock = RLock()
        self._directory: tuple[str, Groups] = "", Groups()
        self._chain = Chain()
        self._joined: Fold | None = None
        """The most recently read fold that was found to be a part of the chain."""
        self._block: tuple[Fold | None, FoldBlock | None] = None, None
        self._seen = 0
        """The last version known to exist or to have existed."""
        self._look_back_at = 0.0
        """When to check again for folded commits, where that costs a request."""
        self._list_at: float | None = None
        """When to list the log again; None before the first listing."""

    def entry(self, version: int) -> Commit | None:
        """A commit; None if that version does not exist yet. Raises PBIO_BAD_LOG, also for a lost commit."""
        try:
            return self._entry(version)
        except PbioError as error:
            if error.code == "PBIO_BAD_LOG" and self._log.fold(version) is None:
                self._log.spans()
                if self._log.fold(version) is not None:
                    return self.entry(version)
            raise error.at(file=commit_path(version)) from None

    def _entry(self, version: int) -> Commit | None:
        data = self.text(version)
        if data is None:
            return None
        entry = self._parsed(version, data)
        self._chain.join(version, entry.digest, entry.prior)
        return entry

    def text(self, version: int) -> bytes | None:
        """A commit as it was written; None if that version does not exist yet. Raises PBIO_BAD_LOG."""
        data = self._text(version)
        if data is None and version <= self._seen:
            data = self._folded_text(version)
            if data is None:
                raise _lost(version, self._seen)
        return data

    def _text(self, version: int) -> bytes | None:
        # If both exist, the commit's own file belongs to a writer that slept, see `_is_kept`.
        fold = self.fold(version)
        return self._log.read(version) if fold is None else fold[version]

    def _folded_text(self, version: int) -> bytes | None:
        """A commit without its own file, if it was folded after the last listing."""
        self._log.spans()
        return self._text(version)

    def fold(self, version: int) -> Fold | None:
        """The fold that has a commit, if it is known to have been folded. Raises PBIO_BAD_LOG.

        The commit after the fold names the fold's last commit by its digest.
        """
        fold = self._log.fold(version)
        if fold is not None and fold is not self._joined:
            self.check_fold(fold)
            self._joined = fold
        return fold

    def check_fold(self, fold: Fold) -> None:
        """Raise PBIO_BAD_LOG if a fold does not belong to this log's chain, or the commit after it is missing."""
        self._join(fold.first, fold.written[0])
        self._join(fold.last, fold.written[-1])
        version = fold.last + 1
        following = self._first_text(version)
        if following is None:
            self._log.spans()
            following = self._first_text(version) or bad(f"commit {version}, the first after a fold, is missing")
        self._join(version, following)

    def _first_text(self, version: int) -> bytes | None:
        """A commit after a fold, perhaps the first in another fold, which is not examined further."""
        fold = self._log.fold(version)
        return self._log.read(version) if fold is None else fold[version]

    def _join(self, version: int, text: bytes) -> None:
        self._chain.join(version, digest_of(text), prior_of(text, version))

    def block(self, version: int) -> FoldBlock | None:
        """The block of the fold that has a commit; None if the commit must be read alone.

        Raises PBIO_BAD_LOG.
        """
        fold = self.fold(version)
        with self.lock:
            if fold is not None and self._block[0] is not fold:
                self._block = fold, fold_to_block(fold, self._space)
            return None if fold is None else self._block[1]

    def _parsed(self, version: int, data: bytes) -> Commit:
        entry = json_to_commit(data, version)
        if entry.space != self._space:
            bad(f"the commit belongs to another space, {entry.space[:40]}")
        return entry

    def groups(self, data: Data, channels: Container[int] | None = None) -> list[Group]:
        """Where the events of a commit are: of all channels or of some, in the order of positions."""
        groups = self.all_groups(data)
        return list(groups) if channels is None else groups.having(channels)

    def all_groups(self, data: Data) -> Groups:
        """Where the events of a commit are, from its directory if it has one. Raises PBIO_BAD_LOG."""
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
                    bad(f"{path} is not the file that was committed")
                try:
                    self._directory = path, json_to_groups(parse(said), sizes_of(data.files), MOST)
                except PbioError as error:
                    raise error.at(file=path) from None
            return self._directory[1]

    def filled(self, entry: Commit) -> Commit:
        """A commit with its groups and states loaded. Raises PBIO_BAD_LOG."""
        data = entry.change
        if not isinstance(data, Data):
            return entry
        states = data.states
        if data.states_file is not None:
            path, size = data.states_file.path, data.states_file.bytes
            said = self._log.attachment(path)
            if said is None or len(said) != size:
                bad(f"{path} is not the file that was committed")
            states = json_to_states(parse(said).get("states"), MOST)
        return replace(entry, change=replace(data, groups=self.all_groups(data), states=states))

    def check_end(self, version: int, *, now: bool = False) -> bool:
        """Raise PBIO_BAD_LOG if a missing commit was lost, that is, if later ones exist.

        It lists the log only at intervals, so waiting programs may call it every time.

        Args:
            now: check at least the next commit and the previous one.

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

    def _is_folded(self, version: int) -> bool:
        """Whether a missing commit has been folded rather than not written yet; checked at intervals."""
        if not self._log.is_near and time.monotonic() < self._look_back_at:
            return False
        self._look_back_at = time.monotonic() + LISTING_PAUSE[self._log.is_near]
        return self._is_passed(version)

    def _is_passed(self, version: int) -> bool:
        """Whether commits from a version on, and the one before it, were folded after the last listing.

        The last commit of a log is never folded: if the previous one exists, nothing can be found.
        """
        if version > 1 and not self._log.stands(version - 1):
            self._seen = max(self._seen, *(last for _, last in self._log.spans()), 0)
        return self._seen >= version

    def _list(self, first: int) -> None:
        """List the commits from a version on. Raises PBIO_BAD_LOG if one of them is missing."""
        begun, known = time.monotonic(), self._seen
        expected = min(first, known or first)
        spans = self._log.spans()
        ended, last = time.monotonic(), max(known, *(last for _, last in spans), 0)
        for begin, end in [*spans, (known + 1, known + 1)]:
            for missing in range(expected, begin):
                # Commits created during the listing may be missing from it.
                self._check_lost(missing, min(begin, last))
            expected = max(expected, end + 1)
        self._seen = last
        self._list_at = ended + max(LISTING_PAUSE[self._log.is_near], LISTING_SHARE * (ended - begun))

    def _check_lost(self, version: int, later: int) -> None:
        self._seen = max(self._seen, later)
        if self._text(version) is None and self._folded_text(version) is None:
            raise _lost(version, later)


def _lost(version: int, later: int) -> PbioError:
    said = f"commit {version} is missing, but commit {later} exists"
    return PbioError(
        "PBIO_BAD_LOG",
        said if version < later else f"commit {version} is gone",
        file=commit_path(version),
        hint=PUT_BACK,
    )
