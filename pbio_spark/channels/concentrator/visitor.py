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

_PATIENCE = 30.0
"""Seconds without a byte inside a message, after which its sender is taken for lost."""


class Allowance:
    """The bytes of publications that a concentrator may hold. Those who ask are served in order."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._asking: deque[object] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def take(self, size: int) -> bool:
        """Wait until there is room; False if there will be none any more."""
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
        """Give room back."""
        with self._changed:
            self._free += size
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class Visitor:
    """A connection. One thread receives; another may tell it something meanwhile."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def greet(self, space: str, welcome: dict[str, Any]) -> bool:
        """Answer the first message; whether the visitor may stay. Raises FrameError, OSError."""
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
        return refused is None

    def request(self, room: Allowance, most: int) -> tuple[dict[str, Any], memoryview, int] | None:
        """The next publication, and how much room it has taken; None at the end. Raises FrameError, OSError."""
        self._connection.settimeout(None)
        first = received(self._connection, 1)
        if first is None:
            return None
        self._connection.settimeout(_PATIENCE)
        text, body = lengths(bytes(first) + self._whole(PREFIX.size - 1))
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
        self._connection.settimeout(None)
        return said, made, size

    def _whole(self, count: int) -> bytearray:
        made = received(self._connection, count) if count else bytearray()
        if made is None:
            raise FrameError("the connection ends inside a message")
        return made

    def tell(self, said: dict[str, Any]) -> bool:
        """Hand a message to the system for the visitor; False, and the connection ends, if it is gone or does not read.

        What the system has taken, the visitor gets even if this process dies.
        """
        data = frame(said)[0]
        try:
            if self._connection.send(data, socket.MSG_DONTWAIT) == len(data):
                return True
        except OSError:
            pass
        self.end()
        return False

    def end(self) -> None:
        """End the connection; the thread that receives closes it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()
