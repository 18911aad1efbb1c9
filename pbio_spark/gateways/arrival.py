"""How much of what was sent has reached the peer's machine. Linux and macOS tell."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from typing import Protocol


class Socket(Protocol):
    """What is needed of a socket; asyncio gives no more of its own."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, option: int, /) -> int: ...


def unconfirmed(connection: Socket) -> int:
    """How many bytes the kernel has that the peer's machine has not confirmed. Raises OSError, ValueError if closed."""
    said = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", said)[0])


def check_sound(connection: Socket) -> None:
    """Raise OSError if the connection is broken: a machine whose program ends with bytes unread breaks it."""
    failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, os.strerror(failed))
