"""`Peer`: one connection, read and written within the gateway's limits."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Mapping
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.gateways.arrival import check_sound, keep_alive, unconfirmed
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.text import address_to_text


class Peer:
    """One connection.

    Attributes:
        number: of the connection, from 1 on, among those that a server took.
        host: from where it comes.
        address: the same with its port.
        name: who it is: the common name of the client's certificate, else the host.
        limits: of the gateway.
        stopping: set when the server stops.
        written: how many bytes were written so far.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: GatewayLimits,
        number: int = 0,
        stopping: asyncio.Event | None = None,
    ) -> None:
        place = writer.get_extra_info("peername") or ("?", 0)
        self.number = number
        self.host = str(place[0])
        self.address = address_to_text(self.host, place[1])
        self.name = _common_name(writer.get_extra_info("ssl_object")) or self.host
        self.limits = limits
        self.stopping = stopping or asyncio.Event()
        self.written = 0
        self._reader = reader
        self._writer = writer
        self._arrived = 0
        writer.transport.set_write_buffer_limits(limits.unread)
        if (connection := writer.get_extra_info("socket")) is not None:
            keep_alive(connection)

    def __str__(self) -> str:
        return self.address if self.name == self.host else f"{self.name} ({self.address})"

    async def read(self, most: int, seconds: float | None = None) -> bytes:
        """Up to `most` bytes, as soon as there are some; none at the end of the connection.

        Args:
            seconds: of silence that are allowed, by default `limits.idle`; 0 allows any.

        Raises PBIO_LIMIT after that time, and OSError if the connection is broken.
        """
        return await self._in_time(self._reader.read(most), seconds)

    async def write(self, data: bytes) -> None:
        """Send bytes; it waits while more than `limits.unread` are not yet sent.

        Raises PBIO_LIMIT if that lasts `limits.slow` seconds, and OSError if the connection is broken.
        """
        self.written += len(data)
        self._writer.write(data)
        try:
            async with asyncio.timeout(self.limits.slow or None):
                await self._writer.drain()
        except TimeoutError:
            raise PbioError(
                "PBIO_LIMIT",
                f"the peer read nothing for {self.limits.slow:g} s, and {self.limits.unread} bytes wait",
                hint="[limits] slow and unread in the gateway's configuration are the limits",
            ) from None

    def arrived(self) -> int:
        """The least number of written bytes that have reached the peer's machine.

        Raises OSError if the connection is broken.
        """
        connection, transport = self._writer.get_extra_info("socket"), self._writer.transport
        if connection is None or transport.is_closing():
            raise ConnectionResetError("the connection has ended")
        left = unconfirmed(connection) + transport.get_write_buffer_size()
        check_sound(connection)
        # Encrypted bytes are more than written ones, and some wait where they cannot be counted.
        if not left or self._writer.get_extra_info("ssl_object") is None:
            self._arrived = max(self._arrived, self.written - left)
        return self._arrived

    async def close(self) -> None:
        """End the connection after all that was written; at once if the peer does not read it."""
        self._writer.close()
        try:
            async with asyncio.timeout(self.limits.slow or None):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, ssl.SSLError):
            self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()

    async def _in_time(self, reading: Awaitable[bytes], seconds: float | None) -> bytes:
        allowed = self.limits.idle if seconds is None else seconds
        try:
            async with asyncio.timeout(allowed or None):
                return await reading
        except TimeoutError:
            raise PbioError(
                "PBIO_LIMIT",
                f"the peer was silent for {allowed:g} s",
                hint="[limits] idle in the gateway's configuration is the limit",
            ) from None


def _common_name(encrypted: ssl.SSLObject | None) -> str:
    """The common name in a client's verified certificate; empty without one."""
    said: Mapping[str, Any] = {} if encrypted is None else encrypted.getpeercert() or {}
    names = [value for part in said.get("subject", ()) for key, value in part if key == "commonName"]
    return str(names[0]) if names else ""
