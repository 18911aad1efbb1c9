"""`Concentrator`: takes publications from the processes of a machine, and commits those that arrive together as one."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from pbio_spark.channels.concentrator.frames import PROTOCOL, FrameError, error_to_json, frame
from pbio_spark.channels.concentrator.joint import Publication, publish_each
from pbio_spark.channels.concentrator.parcel import Part, message_to_parts, parts_to_prepared
from pbio_spark.channels.concentrator.place import CODE, Occupied, is_own_peer, place_of
from pbio_spark.channels.concentrator.visitor import Allowance, Visitor
from pbio_spark.channels.publish.batch import Published
from pbio_spark.channels.publish.publisher import Publisher
from pbio_spark.channels.publish.submission import stored_format
from pbio_spark.channels.space import ChannelSpace
from pbio_spark.disk import PASSING
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

log = logging.getLogger("pbio_spark.channels")

_LOOK_AGAIN = 60.0
"""Seconds between checks that the space still exists."""
_FORMATS = 10_000


@dataclass(frozen=True, slots=True)
class ConcentratorLimits:
    """Limits of a concentrator.

    Attributes:
        linger: how many seconds a publication waits for others, unless all expected ones have arrived.
        publication: the most bytes of one publication; writers commit larger ones themselves.
        waiting: the most bytes of all publications that wait or are being committed; further senders wait.
        connections: the most open connections; other writers publish on their own.
    """

    linger: float = 0.003
    publication: int = 4 << 20
    waiting: int = 64 << 20
    connections: int = 1000

    def __post_init__(self) -> None:
        """Raises PBIO_BAD_OPTION."""
        if not 0 <= self.linger <= 10:
            raise PbioError("PBIO_BAD_OPTION", f"linger must be from 0 to 10 seconds, not {self.linger:g}")
        for name in ("publication", "waiting", "connections"):
            if getattr(self, name) < 1:
                raise PbioError("PBIO_BAD_OPTION", f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(slots=True)
class Totals:
    """What a concentrator has done so far."""

    publications: int = 0
    events: int = 0
    commits: int = 0


@dataclass(slots=True, eq=False)
class _Waiting:
    """A publication as it came, and the visitor that waits for its outcome.

    Attributes:
        control: as for `Publication`.
    """

    visitor: Visitor
    parts: list[Part]
    control: int | None
    size: int
    room: Allowance

    def answer(self, said: dict[str, Any] | None) -> None:
        """Send the outcome; None ends the connection."""
        self.room.give(self.size)
        self.visitor.answer(said)


class Concentrator:
    """Commits for the processes of this machine and user; a context manager.

    Attributes:
        place: where it listens.
        process: the number of this process.
        totals: what it has done.
        failure: why it ended by itself.
    """

    def __init__(self, space: ChannelSpace, limits: ConcentratorLimits | None = None) -> None:
        """Raises PBIO_CONCENTRATOR if another one is there, or the space is in this process's memory."""
        place = place_of(space.folder, space.id)
        if place is None:
            hint = "a concentrator serves spaces on disks and in buckets"
            raise PbioError(CODE, "other processes cannot see this space", file=space.root, hint=hint)
        self.place = place
        self.process = os.getpid()
        self.totals = Totals()
        self.failure: PbioError | None = None
        self._space = space
        self._limits = limits or ConcentratorLimits()
        self._most = min(self._limits.publication, self._limits.waiting)
        self._application = f"concentrator {socket.gethostname()[:100]} {uuid.uuid4().hex}"
        self._number = 0
        self._publisher: Publisher = space.publisher
        self._formats: dict[str, Format] = {}
        self._room = Allowance(self._limits.waiting)
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._visitors: set[Visitor] = set()
        self._expected: set[Visitor] = set()
        self._is_stopping = False
        self._threads: list[threading.Thread] = []
        space.history.catch_up()
        self._occupied = Occupied(place)

    @property
    def writers(self) -> int:
        """How many connections are open."""
        return len(self._visitors)

    def __enter__(self) -> Self:
        for work in (self._listen, self._commit_all, self._look_after):
            thread = threading.Thread(target=work, name=f"concentrator {work.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Accept no more publications, finish the current commit, and tell the other writers.

        These then publish on their own.
        """
        with self._changed:
            self._is_stopping = True
            self._occupied.leave()
            while self._queue:
                self._queue.popleft().answer({"kind": "busy"})
            self._changed.notify_all()
        self._room.close()
        for thread in self._threads:
            thread.join()
        with self._changed:
            for visitor in self._visitors:
                visitor.end()
            while self._visitors:
                self._changed.wait()
        self._occupied.close()

    def _listen(self) -> None:
        while not self._is_stopping:
            try:
                connection, _ = self._occupied.listener.accept()
            except OSError as error:
                if self._is_stopping:
                    return
                log.warning("concentrator: cannot accept a connection: %s", error)
                time.sleep(0.1)  # too many files are open
                continue
            visitor = Visitor(connection)
            with self._changed:
                is_welcome = not self._is_stopping and len(self._visitors) < self._limits.connections
                if is_welcome and is_own_peer(connection):
                    self._visitors.add(visitor)
                    threading.Thread(target=self._attend, args=(visitor,), daemon=True).start()
                    continue
            connection.close()

    def _attend(self, visitor: Visitor) -> None:
        try:
            if visitor.greet(self._space.id, self._welcome()):
                while (request := visitor.request(self._room, self._most)) is not None:
                    self._take(visitor, *request)
        except (FrameError, OSError) as error:
            log.info("concentrator: a writer's connection ends: %s", error)
        except Exception:
            log.exception("concentrator: this is a defect; a writer's connection ends")
        finally:
            visitor.close()
            with self._changed:
                self._visitors.discard(visitor)
                self._expected.discard(visitor)
                self._changed.notify_all()

    def _welcome(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "process": self.process,
            "source": self._space.source.name,
            "most": self._most,
            "identity": self.place.identity,
        }

    def _take(self, visitor: Visitor, said: dict[str, Any], body: memoryview, size: int) -> None:
        """Queue a publication for its commit. Raises FrameError if its sender has not waited for the one before."""
        try:
            if visitor.is_waiting:
                raise FrameError("a publication before the answer to the last one")
            control = said.get("control")
            parts = message_to_parts(said.get("parts"), body, self._format)
        except BaseException as error:
            self._room.give(size)
            if not isinstance(error, PbioError):
                raise
            visitor.tell({"kind": "failed", "error": error_to_json(error)})
            return
        visitor.is_waiting = True
        waiting = _Waiting(visitor, parts, control if type(control) is int else None, size, self._room)
        with self._changed:
            if not self._is_stopping:
                self._queue.append(waiting)
                self._expected.discard(visitor)
                if len(self._queue) == 1 or not self._expected:  # else no thread continues
                    self._changed.notify_all()
                return
        waiting.answer({"kind": "busy"})

    def _format(self, format_id: str) -> Format:
        found = self._formats.get(format_id)
        if found is None:
            found = stored_format(format_id, self._space.formats)
            if len(self._formats) >= _FORMATS:
                self._formats.clear()
            self._formats[format_id] = found
        return found

    def _commit_all(self) -> None:
        while batch := self._gathered():
            self._publish(batch)

    def _gathered(self) -> list[_Waiting]:
        """The publications of the next commit; none at the end."""
        with self._changed:
            while not self._queue:
                if self._is_stopping:
                    return []
                self._changed.wait()
            until = time.monotonic() + self._limits.linger
            # Writers of the last commit are about to publish again.
            while self._expected and not self._is_stopping:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            batch: list[_Waiting] = []
            size = 0
            while self._queue and (not batch or size + self._queue[0].size <= self._limits.waiting):
                batch.append(self._queue.popleft())
                size += batch[-1].size
            self._expected = ({one.visitor for one in batch} & self._visitors) - {one.visitor for one in self._queue}
            return batch

    def _publish(self, batch: Sequence[_Waiting]) -> None:
        try:
            sound, handed = [], []
            for one, events in zip(batch, parts_to_prepared([one.parts for one in batch]), strict=True):
                if isinstance(events, PbioError):
                    one.answer(_result_to_json(events))
                else:
                    sound.append(one)
                    handed.append(Publication(events, one.control))
            batch, results = sound, self._results(sound, handed)
            for result in results:
                if isinstance(result, Published):
                    self.totals.publications += 1
                    self.totals.events += result.events
            self.totals.commits += len({one.version for one in results if isinstance(one, Published)} - {None})
            for one, result in zip(batch, results, strict=True):
                one.answer(_result_to_json(result))
        except Exception:
            log.exception("concentrator: this is a defect; the writers publish on their own")
            # They look in the log for what was announced to them.
            for one in batch:
                one.answer(None)

    def _results(
        self, batch: Sequence[_Waiting], handed: Sequence[Publication]
    ) -> Sequence[Published | PbioError | None]:
        if not handed:
            return ()
        try:
            return publish_each(self._publisher, handed, partial(self._announce, batch))
        except PbioError as error:
            is_shared = error.code in PASSING or error.code in ("PBIO_BAD_LOG", "PBIO_NO_SPACE")
            if len(batch) > 1 and not is_shared:
                # One of the publications may be at fault.
                pairs = zip(batch, handed, strict=True)
                return [result for one, own in pairs for result in self._results([one], [own])]
            self._check_space(error)
            return [error] * len(batch)

    def _announce(self, batch: Sequence[_Waiting], included: Sequence[int]) -> tuple[tuple[str, int], set[int]]:
        """Tell writers the name of the attempt to publish their events; see `Joint`."""
        self._number += 1
        (said,) = frame({"kind": "trying", "application": self._application, "number": self._number})
        gone = {i for i in included if not batch[i].visitor.announce(said)}
        return (self._application, self._number), gone

    def _look_after(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_stopping, _LOOK_AGAIN):
                    return
            self._occupied.refresh()
            self._check_space(PbioError("PBIO_NO_SPACE", "the space is gone", file=self._space.root))

    def _check_space(self, error: PbioError) -> None:
        """End if the space is gone or was replaced by another."""
        with suppress(PbioError):
            if not self._space.is_there:
                self.failure = error


def _result_to_json(result: Published | PbioError | None) -> dict[str, Any]:
    if result is None:
        return {"kind": "stale"}
    if isinstance(result, PbioError):
        return {"kind": "failed", "error": error_to_json(result)}
    return {"kind": "done", "version": result.version, "events": result.events, "known": result.known}
