"""Records of several connections -> one commit; waits if the space's file system fails temporarily.

Bad records of one connection do not prevent those of others from being published. A commit has a number, like a batch
of a query, so that a commit with unknown outcome can be repeated.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ecode.errors import EcodeError
from morph import MorphError
from pbio_spark.channels import (
    ChannelSpace,
    Deriver,
    Prepared,
    Published,
    Publisher,
    RecordPreparer,
    Records,
)
from pbio_spark.disk import PASSING
from pbio_spark.errors import PbioError
from pbio_spark.gateways.text import one_line

log = logging.getLogger("pbio_spark.gateways")

_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

Result = TypeVar("Result")


@dataclass(slots=True)
class CommitPart:
    """A connection's part of a commit.

    Attributes:
        records: those to be published.
        first: the ordinal of the first one in its stream.
        published: how many were published in the end: all, or those before the first bad one.
        error: the error of the first unpublished one.
    """

    records: Records
    first: int = 0
    published: int = 0
    error: PbioError | None = None


class EntryPublisher:
    """Publishes what connections have sent. One thread at a time may use it."""

    def __init__(self, space: ChannelSpace, name: str, ending: threading.Event) -> None:
        """
        Args:
            name: the prefix of the application's name in the log, which differs in each run.
            ending: set when failures should not be retried for long.
        """
        self._space = space
        self._application = f"{name[:100]} {uuid.uuid4().hex}"
        self._ending = ending
        self._preparer = RecordPreparer(space.formats)
        self._publisher = Publisher(space.folder, space.history, space.formats, Deriver(space.formats, space.source))
        self._number = 0

    def publish(self, entries: Sequence[CommitPart]) -> None:
        """Publish all in one commit, if possible; records the outcome in each entry."""
        ready = []
        try:
            self._patiently(self._space.history.catch_up)
            for entry in entries:
                prepared = self._prepare(entry)
                if prepared:
                    ready.append((entry, prepared))
            if self._commit(ready) is not None:
                for one in ready:
                    error = self._commit([one])
                    one[0].error = error or one[0].error
        except PbioError as error:
            for entry in entries:
                if entry.error is None and not entry.published:
                    entry.error = error

    def _prepare(self, entry: CommitPart) -> list[Prepared]:
        """The events of an entry before the first bad one."""
        try:
            return self._patiently(lambda: self._preparer.prepare(entry.records, self._space.find))
        except PbioError as error:
            if error.code in PASSING:
                raise
            entry.error = error
        except Exception as error:  # a sender's format may be of an unforeseen kind
            if not isinstance(error, MorphError | EcodeError):
                log.exception("evpath: the gateway has a defect, found while it read what a peer sent")
            entry.error = PbioError("PBIO_BAD_STREAM", f"the records cannot be read: {error}")
            entry.records = entry.records.first(0)
            return []
        good, bad = 0, len(entry.records)
        if isinstance(entry.error.record, int):
            good = bad = entry.error.record
        made: list[Prepared] = []
        while bad - good > 1 or (good and not made):
            count = (good + bad) // 2
            try:
                made, good = self._preparer.prepare(entry.records.first(count), self._space.find), count
            except PbioError:
                made, good, bad = ([], 0, 1) if good == bad else (made, good, count)
        entry.records = entry.records.first(good)
        _place(entry.error, entry.first + good)
        return made

    def _commit(self, ready: Sequence[tuple[CommitPart, list[Prepared]]]) -> PbioError | None:
        """Publish entries in one commit; returns the error if impossible. Raises temporary errors."""
        if not ready:
            return None
        prepared = [one for _, own in ready for one in own]
        try:
            published = self._patiently(lambda: self._numbered(prepared))
        except PbioError as error:
            if error.code in PASSING:
                self._number += 1  # the number may be taken
                raise
            return error
        for entry, _ in ready:
            entry.published = len(entry.records)
        events = sum(len(entry.records) for entry, _ in ready)
        log.debug("evpath: commit %s: %d events of %d connections", published.version, events, len(ready))
        return None

    def _numbered(self, prepared: Sequence[Prepared]) -> Published:
        """Publish events as the batch of the next number, which becomes free again on permanent failure."""
        published = self._publisher.publish([prepared], (self._application, self._number), is_gapless=True)
        self._number += 1
        return published

    def _patiently(self, do: Callable[[], Result]) -> Result:
        """Retry something until the file system permits it, or the gateway ends."""
        pause = _PAUSE
        while True:
            is_ending = self._ending.is_set()
            try:
                return do()
            except PbioError as error:
                if error.code not in PASSING or is_ending:
                    raise
                log.warning("evpath: events wait, and are tried again in %g s: %s", pause, one_line(error))
            self._ending.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _place(error: PbioError, record: int) -> None:
    """Add to an error which record of its stream it concerns."""
    error.file = error.offset = None
    error.record = record
