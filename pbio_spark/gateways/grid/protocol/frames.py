"""Framing: 4 bytes, most significant first, that say how many bytes of XML follow (grid-events 3)."""

from __future__ import annotations

import struct

from pbio_spark.errors import PbioError
from pbio_spark.wire import MAGIC

MOST_BYTES = 16 << 20
"""The longest frame, unless a gateway's limits say otherwise."""

_LENGTH = struct.Struct(">I")


def to_frame(message: bytes) -> bytes:
    """A message preceded by its length.

    >>> to_frame(b"<a/>")
    b'\\x00\\x00\\x00\\x04<a/>'
    """
    return _LENGTH.pack(len(message)) + message


class Frames:
    """Bytes as they come -> messages. It holds less than one frame and what was fed last."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._held = bytearray()
        self._needed = 0
        """How many bytes are needed before parsing, so that a long frame is copied once."""

    @property
    def is_inside(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete now.

        Raises PBIO_LIMIT for a frame that says that it is too long, before its bytes come; PBIO_BAD_MESSAGE for an
        empty one, and for a thin stream. Messages before such a frame are lost with it: the connection is to be ended.
        """
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return []
            data = bytes(self._held)
        found, at, end = [], 0, len(data)
        self._needed = 4
        while at + 4 <= end:
            (length,) = _LENGTH.unpack_from(data, at)
            if length > self._most and data[at : at + 4] == MAGIC:
                raise PbioError(
                    "PBIO_BAD_MESSAGE",
                    "this is a thin stream, and no Grid message",
                    hint="thin streams go to the port of `pbio gateway serve --evpath`",
                )
            if length > self._most:
                raise PbioError(
                    "PBIO_LIMIT",
                    f"a frame claims {length} bytes, and {self._most} are allowed",
                    hint="each message begins with its length, as 4 bytes, most significant first",
                )
            if not length:
                raise PbioError("PBIO_BAD_MESSAGE", "a frame is empty")
            if at + 4 + length > end:
                self._needed = 4 + length
                break
            found.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        if at < end or self._held:
            self._held = bytearray(data[at:])
        return found
