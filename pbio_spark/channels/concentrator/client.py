"""A writer's end: a connection for each publication that is under way, kept for the next one."""

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
"""Seconds that a concentrator may say nothing to a writer that waits for it."""
_GREETING = 5.0
"""Seconds that it has for the first answer at most: nothing is handed over yet."""
_GREETING_AGAIN = 0.5
"""The same for one that has just said nothing for too long."""
_LONGEST = 1e9
"""The most seconds that a system is asked to wait."""
_AGAIN = 30.0
"""Seconds until one that would not talk to this program is asked again."""

Attempt: TypeAlias = "tuple[str, int]"
"""An application and the number of its batch."""


@dataclass(slots=True)
class PublicationOutcome:
    """What became of a publication.

    Attributes:
        kind: `stale`, if it was prepared for other channels than there are now; `busy`, if the concentrator has not
            taken it; `lost`, if the connection has ended; `silent`, if it was ended because nothing came over it.
        published: of `done`.
        error: of `failed`.
        attempts: if it is `lost` or `silent`, it may be published as one of these, now or later, and otherwise is not.
    """

    kind: Literal["done", "failed", "stale", "busy", "lost", "silent"]
    published: Published | None = None
    error: PbioError | None = None
    attempts: list[Attempt] = field(default_factory=list)


class ConcentratorConnection:
    """A connection to a concentrator. One thread at a time may use it.

    Attributes:
        source: as which the concentrator derives.
        most: bytes that a publication may have.
        process: the number of the concentrator's process.
    """

    def __init__(self, place: MeetingPlace, space: str, timeout: float, greeting: float = _GREETING) -> None:
        """
        Args:
            timeout: how many seconds it may say nothing to a publication.
            greeting: how many it has to answer here.

        Raises OSError if nobody is there; FrameError if that one does not talk to this program.
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
            if sys.platform == "linux":  # others lose at a shutdown what has come
                _limit(self._socket, min(timeout, _LONGEST))
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
        """Hand events over, and wait for what becomes of them.

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
        """What comes of a publication, and until then the attempts at it; None if the connection has ended.

        Raises BlockingIOError if nothing comes for too long; OSError, FrameError, KeyError, ValueError, TypeError.
        """
        while (said := self._words.next()) is not None:
            if said.get("kind") != "trying":
                return _to_outcome(said)
            attempts.append((str(said["application"]), int(said["number"])))
        return None

    def _hang_up(self, attempts: list[Attempt]) -> PublicationOutcome:
        """End the connection to one that says nothing, and take what it has said until then.

        The system keeps that, and lets the other end say nothing more: so an attempt that is not among those that were
        said cannot be made any more, whenever that process goes on.
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
        """Whether it can be used again."""
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
            timeout: how many seconds a concentrator may say nothing to a writer that waits for it.
        """
        self.timeout = timeout
        self._place = place
        self._space = space
        self._is_silent = False
        """Whether the last connection ended so."""
        self._idle: deque[ConcentratorConnection] = deque()
        self._process = os.getpid()
        self._refused_until = 0.0
        self._why = ""
        """Why the concentrator cannot be used; empty if there was none."""

    def connection(self, *, again: bool = False) -> ConcentratorConnection | None:
        """A connection that no other thread uses; None if no concentrator is there, or none that talks to this program.

        Args:
            again: whether to ask even one that has just refused.
        """
        if self._process != os.getpid():
            # Those of the parent are its own.
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
        """A connection has ended because the concentrator said nothing: others are not tried for some time."""
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
        """The error where one is required, and none is there."""
        root = self._place.root
        reason = "no concentrator of this space is running here"
        hint = f"start one: pbio space concentrate {root}; it listens at {self._place.socket}"
        if self._why:
            reason = f"this program cannot use the concentrator of this space: {self._why}"
            hint = f"end it, and start another one: pbio space concentrate {root}; or open with concentrator='auto'"
        return PbioError(CODE, reason, file=root, hint=hint)


def _limit(connection: socket.socket, seconds: float) -> None:
    """Let each call raise BlockingIOError after so long, without a call more for each, as Python's timeouts have."""
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
