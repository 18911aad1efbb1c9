"""A process at the other end of a connection, as the concentrator sees it."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Any

from pbio_spark.channels.concentrator.frames import (
    PREFIX,
    PROTOCOL,
    FrameError,
    frame,
    lengths,
    parsed,
    received,
    word,
)

_AT_ONCE = 16 << 10
"""The most bytes that are read of a message before room for it is reserved."""
_PATIENCE = 30.0
"""Seconds without a byte inside a message, after which its sender counts as lost."""


class Allowance:
    """The bytes of publications that a concentrator may hold. Requests are served in order."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._asking: deque[object] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def take(self, size: int) -> bool:
        """Wait until there is room; False if there will be no more."""
        ticket = object()
        with self._changed:
            self._asking.append(ticket)
            while not self._is_closed and (self._asking[0] is not ticket or self._free < size):
                self._changed.wait()
            self._asking.remove(ticket)
            self._changed.notify_all()
            if not self._is_closed:
                self._free -= size
            return not self._is_closed

    def give(self, size: int) -> None:
        """Release room."""
        with self._changed:
            self._free += size
            self._changed.notify_all()

    def close(self) -> None:
        """End all waiting."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class Visitor:
    """A connection. One thread receives; another may send meanwhile.

    Attributes:
        is_waiting: whether it waits for the outcome of a publication; its connection is not closed before that.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.is_waiting = False
        self._connection = connection
        self._has_left = False
        self._open = threading.Lock()
        """Held while the connection's file descriptor is in use, which another gets once it is closed."""
        self._announced = 0
        """Bytes of announcements since the last answer."""
        self._rest = b""
        """Bytes received after the last message."""

    def greet(self, space: str, welcome: dict[str, Any]) -> bool:
        """Answer the first message; returns whether the visitor may stay. Raises FrameError, OSError."""
        self._connection.settimeout(_PATIENCE)
        hello = word(self._connection)
        if hello is None:
            return False
        refused = None
        if hello.get("kind") != "hello":
            refused = "expected a hello"
        elif hello.get("protocol") != PROTOCOL:
            refused = f"it speaks version {PROTOCOL}, and this program {json.dumps(hello.get('protocol'))[:40]}"
        elif hello.get("space") != space:
            refused = "it is the concentrator of another space"
        self.tell({"kind": "refused", "reason": refused} if refused else {"kind": "welcome", **welcome})
        self._connection.settimeout(None)
        return refused is None

    def request(self, room: Allowance, most: int) -> tuple[dict[str, Any], memoryview, int] | None:
        """The next publication, and the room that it takes; None at the end. Raises FrameError, OSError."""
        if not self._rest:
            # Most publications arrive whole, in one call.
            self._rest = self._connection.recv(_AT_ONCE)
            if not self._rest:
                return None
        text, body = lengths(self._whole(PREFIX.size))
        if text + body > most:
            raise FrameError(f"a publication of {text + body} bytes, of which {most} are allowed")
        size = text + body
        if not room.take(size):
            return None
        try:
            said = parsed(self._whole(text))
            made = memoryview(self._whole(body))
            if said.get("kind") != "publish":
                raise FrameError("expected a publication")
        except BaseException:
            room.give(size)
            raise
        return said, made, size

    def _whole(self, count: int) -> bytes | bytearray:
        """The next bytes of a message. Raises FrameError, OSError."""
        taken, self._rest = self._rest[:count], self._rest[count:]
        if len(taken) == count:
            return taken
        self._connection.settimeout(_PATIENCE)
        more = received(self._connection, count - len(taken))
        self._connection.settimeout(None)
        if more is None:
            raise FrameError("the connection ends inside a message")
        more[:0] = taken
        return more

    def announce(self, message: bytes) -> bool:
        """Hand a message that is no answer to the system; returns as `tell`."""
        self._announced += len(message)
        return self._sent(message)

    def tell(self, said: dict[str, Any]) -> bool:
        """Hand an answer for the visitor to the system. Returns False and ends the connection if it is gone or does not
        read.

        The visitor gets what the system has taken even if this process dies.
        """
        (message,) = frame(said, before=self._announced)
        self._announced = 0
        return self._sent(message)

    def _sent(self, message: bytes) -> bool:
        with suppress(OSError), self._open:
            if self._connection.send(message, socket.MSG_DONTWAIT) == len(message):
                return True
        self.end()
        return False

    def answer(self, said: dict[str, Any] | None) -> None:
        """Tell the visitor the outcome of its publication; None ends the connection."""
        with self._open:
            self.is_waiting = False
        if said is None:
            self.end()
        else:
            self.tell(said)
        if self._has_left:
            self.close()

    def end(self) -> None:
        """End the connection; the thread that receives closes it."""
        with suppress(OSError), self._open:
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, now or once it waits for nothing more."""
        with self._open:
            self._has_left = True
            if not self.is_waiting:
                self._connection.close()
