"""A writer's end: a connection for each publication in progress, kept for the next one."""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pbio_spark.channels.concentrator.frames import PROTOCOL, FrameError, Words, frame, json_to_error
from pbio_spark.channels.concentrator.parcel import prepared_to_message
from pbio_spark.channels.concentrator.place import CODE, MeetingPlace, is_own_peer, is_private
from pbio_spark.channels.derive.source import Source
from pbio_spark.channels.publish.batch import Published
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

TIMEOUT = 10.0
"""Seconds that a concentrator may be silent while a writer waits for it."""
_GREETING = 5.0
"""The most seconds to wait for the first answer, when nothing has been handed over yet."""
_GREETING_AGAIN = 0.5
"""The same after a concentrator has just been silent for too long."""
_LONGEST = 1e9
"""The longest timeout given to the operating system, in seconds."""
_AGAIN = 30.0
"""Seconds before a concentrator that refused this program is tried again."""

Attempt: TypeAlias = "tuple[str, int]"
"""An application and the number of its batch."""


@dataclass(slots=True)
class PublicationOutcome:
    """The outcome of a publication.

    Attributes:
        kind: `stale`, if it was prepared for channels that have changed; `busy`, if the concentrator has not taken it;
            `lost`, if the connection ended; `silent`, if it was closed because nothing came over it.
        published: of `done`.
        error: of `failed`.
        attempts: if `lost` or `silent`, the publication may appear as one of these, now or later, and not otherwise.
    """

    kind: Literal["done", "failed", "stale", "busy", "lost", "silent"]
    published: Published | None = None
    error: PbioError | None = None
    attempts: list[Attempt] = field(default_factory=list)


class ConcentratorConnection:
    """A connection to a concentrator. One thread at a time may use it.

    Attributes:
        source: the source name under which the concentrator derives.
        most: the most bytes of a publication.
        process: the number of the concentrator's process.
    """

    def __init__(self, place: MeetingPlace, space: str, timeout: float, greeting: float = _GREETING) -> None:
        """
        Args:
            timeout: how many seconds it may be silent during a publication.
            greeting: how many seconds it has to answer the greeting.

        Raises OSError if no concentrator is there; FrameError if it refuses this program.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            greeting = min(greeting, timeout)
            self._socket.settimeout(greeting)
            self._socket.connect(place.socket)
            if not (is_private(place.folder) and is_own_peer(self._socket)):
                raise FrameError("it belongs to another user")
            hello = {"kind": "hello", "protocol": PROTOCOL, "space": space}
            self._socket.sendall(frame(hello)[0])
            words = Words(self._socket)
            said = words.next()
            if said is None:
                raise ConnectionResetError
            if said.get("kind") != "welcome":
                raise FrameError(str(said.get("reason", "it does not say why"))[:200])
            if said.get("identity") != place.identity:
                raise FrameError("it sees another space at this place")
            self.source = Source(str(said["source"]))
            self.most = int(said["most"])
            self.process = int(said["process"])
            self._socket.settimeout(None)
            if sys.platform == "linux":  # other systems lose received bytes at a shutdown
                words.limit = min(timeout, _LONGEST)
                _limit(self._socket, words.limit)
            self._words = words
        except TimeoutError:
            self.close()
            raise FrameError(f"it does not answer within {greeting:g} s") from None
        except (KeyError, ValueError, TypeError):
            self.close()
            raise FrameError("its welcome is incomplete") from None
        except BaseException:
            self.close()
            raise

    def publish(self, events: Sequence[Prepared], control: int) -> PublicationOutcome:
        """Hand events over, and wait for the outcome.

        Args:
            control: the version of the last control change that they were prepared for.
        """
        parts, buffers = prepared_to_message(events)
        attempts: list[Attempt] = []
        try:
            self._send(frame({"kind": "publish", "control": control, "parts": parts}, buffers))
            if (outcome := self._awaited(attempts)) is not None:
                return outcome
        except BlockingIOError:
            return self._hang_up(attempts)
        except (OSError, FrameError, KeyError, ValueError, TypeError) as error:
            log.debug("the concentrator's connection ends: %s", error)
        self.close()
        return PublicationOutcome("lost", attempts=attempts)

    def _awaited(self, attempts: list[Attempt]) -> PublicationOutcome | None:
        """Collects attempts until the outcome of a publication arrives; None if the connection ends.

        Raises BlockingIOError if nothing comes for too long; OSError, FrameError, KeyError, ValueError, TypeError.
        """
        while (said := self._words.next()) is not None:
            if said.get("kind") != "trying":
                return _to_outcome(said)
            attempts.append((str(said["application"]), int(said["number"])))
        return None

    def _hang_up(self, attempts: list[Attempt]) -> PublicationOutcome:
        """Close the connection to a silent concentrator, and take the messages that it has sent.

        The system keeps those messages and stops the other end from sending more. So an attempt that it has not
        announced cannot be made any more, whenever that process resumes.
        """
        outcome = None
        with suppress(OSError, FrameError, KeyError, ValueError, TypeError):
            self._socket.shutdown(socket.SHUT_RDWR)
            outcome = self._awaited(attempts)
        self.close()
        return outcome or PublicationOutcome("silent", attempts=attempts)

    def _send(self, pieces: list[Any]) -> None:
        if sum(map(len, pieces)) < 1 << 16:
            self._socket.sendall(b"".join(pieces))
            return
        for piece in pieces:
            self._socket.sendall(piece)

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used again."""
        return self._socket.fileno() >= 0

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()


class ConcentratorClient:
    """The connections of one space in this process. Threads and forked processes may share it."""

    def __init__(self, place: MeetingPlace, space: str, timeout: float = TIMEOUT) -> None:
        """
        Args:
            timeout: how many seconds a concentrator may be silent while a writer waits for it.
        """
        self.timeout = timeout
        self._place = place
        self._space = space
        self._is_silent = False
        """Whether the last connection ended in silence."""
        self._idle: deque[ConcentratorConnection] = deque()
        self._process = os.getpid()
        self._refused_until = 0.0
        self._why = ""
        """Why the concentrator cannot be used; empty if none was there."""

    def connection(self, *, again: bool = False) -> ConcentratorConnection | None:
        """A connection that no other thread uses; None if no concentrator is there, or it refuses this program.

        Args:
            again: whether to try even a concentrator that has just refused.
        """
        if self._process != os.getpid():
            # The parent's connections remain the parent's.
            self._idle, self._process = deque(), os.getpid()
        with suppress(IndexError):
            return self._idle.pop()
        if not again and time.monotonic() < self._refused_until:
            return None
        greeting = _GREETING_AGAIN if self._is_silent else _GREETING
        try:
            made = ConcentratorConnection(self._place, self._space, self.timeout, greeting)
            self._is_silent = False
            return made
        except FrameError as error:
            self._refuse(str(error))
        except OSError:
            self._why = ""
        return None

    def keep(self, connection: ConcentratorConnection) -> None:
        """Keep a connection for the next publication."""
        self._idle.append(connection)

    def is_silent(self) -> None:
        """A connection ended in silence: no others are tried for some time."""
        self._is_silent = True
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()
        self._refuse(f"it has not answered for {self.timeout:g} s; its process or its disk may be stuck")

    def _refuse(self, reason: str) -> None:
        self._refused_until = time.monotonic() + _AGAIN
        self._why = reason
        log.warning("publishing without the concentrator of %s: %s", self._place.root, reason)

    def required(self) -> PbioError:
        """The error if a concentrator is required but none is there."""
        root = self._place.root
        reason = "no concentrator of this space is running here"
        hint = f"start one: pbio space concentrate {root}; it listens at {self._place.socket}"
        if self._why:
            reason = f"this program cannot use the concentrator of this space: {self._why}"
            hint = f"stop it and start another: pbio space concentrate {root}; or open with concentrator='auto'"
        return PbioError(CODE, reason, file=root, hint=hint)


def _limit(connection: socket.socket, seconds: float) -> None:
    """Let each call raise BlockingIOError after a timeout, without the extra system calls of Python's timeouts."""
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6) or (seconds < 1))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, limit)


def _to_outcome(said: dict[str, Any]) -> PublicationOutcome:
    """Raises FrameError, KeyError, ValueError, TypeError."""
    match said.get("kind"):
        case "done":
            version = said["version"]
            made = Published(None if version is None else int(version), int(said["events"]), int(said["known"]))
            return PublicationOutcome("done", made)
        case "failed":
            return PublicationOutcome("failed", error=json_to_error(said.get("error")))
        case "stale":
            return PublicationOutcome("stale")
        case "busy":
            return PublicationOutcome("busy")
    raise FrameError("an answer of an unknown kind")
