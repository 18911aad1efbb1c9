"""Publishing through a concentrator if there is one, with the same result as publishing directly.

Events are prepared for the channels that this process knows. If channels have changed, the concentrator says so, and
the events are prepared again. So a writer need not read the log, to which others keep adding.

If a concentrator dies, or is silent for too long, its writers look in the log for the commits that it announced, in the
same step in which they would publish the events themselves. A commit of the concentrator that is still to come is for
the version after the last one that they see: either they find it there, or that version is theirs. For any other
version it would tell them first, and their connections are closed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import numpy as np

from pbio_spark.channels.commits.checked import check_word
from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.concentrator.client import TIMEOUT, Attempt, ConcentratorClient, ConcentratorConnection
from pbio_spark.channels.concentrator.parcel import size_of
from pbio_spark.channels.concentrator.place import CODE, place_of
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.log import SAFE_TO_RETRY
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.batch import Published
from pbio_spark.channels.publish.delivery import to_seconds
from pbio_spark.channels.publish.grouping.types import Find
from pbio_spark.channels.publish.prepare import Prepared, Preparer
from pbio_spark.channels.publish.publisher import Publisher
from pbio_spark.channels.publish.submission import Submission
from pbio_spark.disk import PASSING, UNKNOWN
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

Use = Literal["auto", "off", "required"]

_TRIES = 5
"""How often events are handed over again because channels or the concentrator have changed."""


class Through:
    """Publishes for a process in one space."""

    def __init__(
        self, publisher: Publisher, preparer: Preparer, space: str, use: Use, timeout: float | timedelta = TIMEOUT
    ) -> None:
        """
        Args:
            timeout: how long a concentrator may be silent.

        Raises PBIO_BAD_OPTION; PBIO_CONCENTRATOR if one is required but none is there.
        """
        check_word(use, ("auto", "off", "required"), "concentrator")
        seconds = to_seconds(timeout, "a concentrator")
        if not seconds:
            hint = "give a timedelta, or seconds; concentrator='off' publishes without one"
            raise PbioError("PBIO_BAD_OPTION", "concentrator_timeout must be more than 0", hint=hint)
        self._publisher = publisher
        self._preparer = preparer
        self._history: History = publisher.history
        self._use = use
        place = None if use == "off" else place_of(publisher.folder, space)
        if use == "required" and place is None:
            hint = "open it with concentrator='off': it is in this process's memory"
            raise PbioError(CODE, "no concentrator can see this space", file=publisher.folder.root, hint=hint)
        self._client = None if place is None else ConcentratorClient(place, space, seconds)
        if use == "required":
            with self._connection() as connection:
                if connection is None:
                    raise self._required()

    def publish(self, submissions: Sequence[Submission], find: Find) -> Published | None:
        """The outcome of a publication; None if it must be published directly.

        Raises what `Publisher.publish` raises; PBIO_CONCENTRATOR if one is required but none is there.
        """
        for _ in range(_TRIES):
            with self._connection() as connection:
                if connection is None:
                    if self._use == "required":
                        raise self._required()
                    return None
                control, prepared = self._prepared(submissions, find)
                if not prepared or size_of(prepared) > connection.most or self._derives_itself(connection, prepared):
                    return None
                since = self._history.state.version
                outcome = connection.publish(prepared, control)
            if outcome.error is not None:
                raise outcome.error
            if outcome.published is not None:
                self._history.told(outcome.published.version or 0)
                return outcome.published
            if outcome.kind == "silent":
                assert self._client is not None
                self._client.is_silent()
            if outcome.attempts:
                return self._finish(prepared, outcome.attempts, since)
            if outcome.kind == "stale":
                self._history.catch_up()
        return None

    @contextmanager
    def _connection(self) -> Iterator[ConcentratorConnection | None]:
        """A connection, if a concentrator is available; kept for later unless an error occurs."""
        client = self._client
        connection = None if client is None else client.connection(again=self._use == "required")
        try:
            yield connection
        except BaseException as error:
            if connection is not None and not isinstance(error, PbioError):
                connection.close()
            raise
        finally:
            if client is not None and connection is not None and connection.is_open:
                client.keep(connection)

    def _required(self) -> PbioError:
        assert self._client is not None
        return self._client.required()

    def _prepared(self, submissions: Sequence[Submission], find: Find) -> tuple[int, list[Prepared]]:
        """The prepared events, and the version of the last control change that they are prepared for."""
        control = self._history.state.control
        try:
            return control, self._preparer.prepare_all(submissions, find)
        except PbioError:
            # What others did meanwhile may resolve it.
            now = self._history.catch_up().control
            if now == control:
                raise
            return now, self._preparer.prepare_all(submissions, find)

    def _derives_itself(self, connection: ConcentratorConnection, prepared: Sequence[Prepared]) -> bool:
        """Whether a source must derive something from the events that has another name than the concentrator, or grants
        or limits other things."""
        if self._publisher.deriver.source == connection.source:
            return False
        with self._history.lock:
            return bool(self._history.state.descendants(_channels(prepared)))

    def _finish(self, prepared: Sequence[Prepared], attempts: Sequence[Attempt], since: int) -> Published:
        """Find a publication in the log, or publish it.

        Args:
            attempts: the batches as which it may be published.
            since: a version before which it cannot be.
        """
        log.warning("a concentrator does not answer; publishing to %s without it", self._publisher.folder.root)
        seen = since

        def unless(state: State) -> Published | None:
            nonlocal seen
            while seen < state.version:
                entry = self._history.entry(seen + 1)
                data = entry.change if entry is not None and isinstance(entry.change, Data) else None
                if data is not None and data.transaction is not None:
                    made = data.transaction
                    if (made.application, made.number) in attempts:
                        return self._of_commit(seen + 1, data, prepared)
                seen += 1
            return None

        try:
            return self._publisher.publish([prepared], unless=unless)
        except PbioError as error:
            if error.code not in PASSING:
                raise
            reason = f"unknown whether the concentrator that does not answer published the events: {error.reason}"
            raise PbioError(UNKNOWN, reason, file=error.file, hint=SAFE_TO_RETRY) from error

    def _of_commit(self, version: int, data: Data, prepared: Sequence[Prepared]) -> Published:
        """The result of a publication that is in a commit."""
        there: dict[tuple[int, str], list[Int64s]] = {}
        groups = self._history.all_groups(data)
        for i, channel, producer, _, _ in groups.numbered():
            there.setdefault((channel, producer), []).append(groups.numbers(i))
        known = 0
        for one in prepared:
            for i, channel, producer, _, _ in one.groups.numbered():
                numbers = one.groups.numbers(i)
                own = there.get((channel, producer), [])
                known += len(numbers) - sum(int(np.isin(numbers, values).sum()) for values in own)
        total = sum(one.groups.events for one in prepared)
        return Published(version if known < total else None, total - known, known)


def _channels(prepared: Sequence[Prepared]) -> list[int]:
    return sorted({channel for one in prepared for channel in one.groups.rows["channel"].tolist()})
