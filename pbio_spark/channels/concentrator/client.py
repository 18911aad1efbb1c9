"""A writer's end: a connection for each publication that is under way, kept for the next one."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pbio_spark.channels.concentrator.frames import PROTOCOL, FrameError, frame, json_to_error, word
from pbio_spark.channels.concentrator.parcel import prepared_to_message
from pbio_spark.channels.concentrator.place import CODE, MeetingPlace, is_own_peer, is_private
from pbio_spark.channels.derive.source import Source
from pbio_spark.channels.publish.batch import Published
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

_GREETING = 5.0
"""Seconds that a concentrator has for the first answer: nothing is handed over yet."""
_AGAIN = 30.0
"""Seconds until one that would not talk to this program is asked again."""

Attempt: TypeAlias = "tuple[str, int]"
"""An application and the number of its batch."""


@dataclass(slots=True)
class PublicationOutcome:
    """What became of a publication.

    Attributes:
        kind: `stale`, if it was prepared for other channels than there are now; `busy`, if the concentrator has not
            taken it; `lost`, if the connection has ended.
        published: of `done`.
        error: of `failed`.
        attempts: if it is `lost`, it may be published as the last one of these, or as one before that, and otherwise is
            not.
    """

    kind: Literal["done", "failed", "stale", "busy", "lost"]
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

    def __init__(self, place: MeetingPlace, space: str) -> None:
        """Raises OSError if nobody is there; FrameError if that one does not talk to this program."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(_GREETING)
            self._socket.connect(place.socket)
            if not (is_private(place.folder) and is_own_peer(self._socket)):
                raise FrameError("it belongs to another user")
            hello = {"kind": "hello", "protocol": PROTOCOL, "space": space}
            self._socket.sendall(frame(hello)[0])
            said = word(self._socket)
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
        except TimeoutError:
            self.close()
            raise FrameError(f"it does not answer within {_GREETING:g} s") from None
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
            while (said := word(self._socket)) is not None:
                if said.get("kind") != "trying":
                    return _to_outcome(said)
                attempts.append((str(said["application"]), int(said["number"])))
        except (OSError, FrameError, KeyError, ValueError, TypeError) as error:
            log.debug("the concentrator's connection ends: %s", error)
        self.close()
        return PublicationOutcome("lost", attempts=attempts)

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

    def __init__(self, place: MeetingPlace, space: str) -> None:
        self._place = place
        self._space = space
        self._idle: deque[ConcentratorConnection] = deque()
        self._process = os.getpid()
        self._refused_until = 0.0

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
        try:
            return ConcentratorConnection(self._place, self._space)
        except FrameError as error:
            self._refused_until = time.monotonic() + _AGAIN
            log.warning("publishing without the concentrator of %s: %s", self._place.root, error)
        except OSError:
            pass
        return None

    def keep(self, connection: ConcentratorConnection) -> None:
        """Keep a connection for the next publication."""
        self._idle.append(connection)

    def required(self) -> PbioError:
        """The error where one is required, and none is there."""
        return PbioError(
            CODE,
            "no concentrator of this space is running here, or none that this program can use",
            file=self._place.root,
            hint=f"start one: pbio space concentrate {self._place.root}; it listens at {self._place.socket}",
        )


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
