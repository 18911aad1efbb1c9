"""Whether a peer's machine still responds, and how many bytes have reached it, as Linux and macOS tell."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from contextlib import suppress
from typing import Protocol


class Socket(Protocol):
    """The part of a socket that is needed here and that asyncio exposes."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, option: int, /) -> int: ...

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Keep-alive: seconds of silence before the first probe, between probes, and the number of probes."""


def keep_alive(connection: Socket) -> None:
    """Make a connection break within two minutes if the peer's machine is gone; mere silence is allowed."""
    with suppress(OSError):  # not TCP
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def unconfirmed(connection: Socket) -> int:
    """The bytes in the kernel that the peer's machine has not confirmed. Raises OSError, ValueError if closed."""
    said = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", said)[0])


def check_sound(connection: Socket) -> None:
    """Raise OSError if the connection is broken: a machine whose program ends with bytes unread breaks it."""
    failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, os.strerror(failed))
