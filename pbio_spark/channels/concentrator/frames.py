"""Messages between a concentrator and its writers: JSON, and bytes that the JSON describes; never code.

A message is 4 bytes that name the protocol, the length of the JSON as u32be, the length of the bytes as u64be, then
both. The JSON is an object whose `kind` is one of:

    hello      from a writer, first: its space and the versions that it speaks
    welcome    the answer: what the concentrator accepts;  refused: why it refuses the writer
    publish    from a writer: encoded events
    trying     they will now be published as this application's batch of this number, and under no other
    done, failed, stale, busy     the answer: the outcome

Blanks after its JSON make an answer fill whole blocks, together with what came before it. So a writer asks the system
for a block, and wakes once for each publication rather than once for each message.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

from pbio_spark.channels.commits.commit import VERSION
from pbio_spark.errors import PbioError

PROTOCOL = [2, VERSION]
"""The version of these messages, and of the commits that both ends know."""

PREFIX = struct.Struct(">4sIQ")
_MAGIC = b"pbc\x01"
LONGEST_WORD = 1 << 20
"""The most bytes of JSON in a message without other bytes."""

BLOCK = 512
"""Bytes received in one call: most publications take as many."""

_FACTS = ("file", "offset", "format", "field", "hint", "record")
_LONGEST_FACT = 10_000


class FrameError(Exception):
    """The other end does not speak this protocol, or a message was cut off."""


def frame(said: dict[str, Any], body: Iterable[Any] = (), before: int | None = None) -> list[Any]:
    """A message as a sequence of buffers.

    Args:
        before: the bytes sent since the last answer, if this one is to fill a block.
    """
    text = json.dumps(said, separators=(",", ":")).encode()
    if before is not None:
        text += b" " * (-(before + PREFIX.size + len(text)) % BLOCK)
    pieces = [memoryview(one).cast("B") for one in body]
    return [PREFIX.pack(_MAGIC, len(text), sum(map(len, pieces))) + text, *pieces]


def lengths(prefix: bytes | bytearray) -> tuple[int, int]:
    """The lengths at the start of a message. Raises FrameError."""
    magic, text, body = PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise FrameError("not a message of this protocol")
    return text, body


def parsed(text: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The object of a message. Raises FrameError."""
    try:
        said = json.loads(bytes(text))
    except (ValueError, RecursionError):
        raise FrameError("a message is not JSON") from None
    if not isinstance(said, dict):
        raise FrameError("a message is not a JSON object")
    return said


def received(connection: socket.socket, count: int) -> bytearray | None:
    """A number of bytes; None if the connection ended before the first one. Raises FrameError, OSError."""
    made = bytearray(count)
    view, at = memoryview(made), 0
    while at < count:
        got = connection.recv_into(view[at:])
        if not got:
            if at:
                raise FrameError("the connection ends inside a message")
            return None
        at += got
    return made


def word(connection: socket.socket) -> dict[str, Any] | None:
    """The next message, without bytes after its JSON; None if the connection has ended.

    Raises FrameError, OSError.
    """
    prefix = received(connection, PREFIX.size)
    if prefix is None:
        return None
    text, body = lengths(prefix)
    if body or not 0 < text <= LONGEST_WORD:
        raise FrameError("a message of impossible length")
    said = received(connection, text)
    if said is None:
        raise FrameError("the connection ends inside a message")
    return parsed(said)


class Words:
    """The messages of a connection, without bytes after their JSON, a block at a time.

    Attributes:
        limit: the seconds after which the connection gives up a call that receives.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.limit = math.inf
        self._connection = connection
        self._came = b""

    def next(self) -> dict[str, Any] | None:
        """The next message; None if the connection has ended.

        Raises FrameError, OSError; BlockingIOError after `limit`, and may be called again for what came before.
        """
        wanted, text = PREFIX.size, 0
        while True:
            if len(self._came) >= wanted:
                if text:
                    said, self._came = self._came[PREFIX.size : wanted], self._came[wanted:]
                    return parsed(said)
                text, body = lengths(self._came[: PREFIX.size])
                if body or not 0 < text <= LONGEST_WORD:
                    raise FrameError("a message of impossible length")
                wanted += text
                continue
            begun = time.monotonic()
            more = self._connection.recv(BLOCK, socket.MSG_WAITALL)
            if not more:
                if self._came:
                    raise FrameError("the connection ends inside a message")
                return None
            self._came += more
            if len(more) < BLOCK and time.monotonic() - begun >= self.limit:
                raise BlockingIOError  # which the system says only if nothing came at all


def error_to_json(error: PbioError) -> dict[str, Any]:
    """An error as JSON values.

    >>> json_to_error(error_to_json(PbioError("PBIO_NO_ROOM", "full", file="a", hint="wait"))).hint
    'wait'
    """
    facts = {name: value for name in _FACTS if (value := getattr(error, name)) is not None}
    made = {"code": error.code, "reason": error.reason, **facts}
    return {name: value[:_LONGEST_FACT] if isinstance(value, str) else int(value) for name, value in made.items()}


def json_to_error(said: Any) -> PbioError:
    """The error, as a PbioError whatever its class was. Raises FrameError."""
    if not isinstance(said, dict) or not isinstance(said.get("code"), str) or not isinstance(said.get("reason"), str):
        raise FrameError("an error without a code or a reason")
    error = PbioError(said["code"], said["reason"])
    for name in _FACTS:
        value = said.get(name)
        if value is None or isinstance(value, str | int):
            setattr(error, name, value)
    return error
