"""`Server`: listens, lets peers in within the limits, hands each connection to its half, and stops in order."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Protocol, Self

from pbio_spark.errors import PbioError
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.peer import Peer
from pbio_spark.gateways.text import address_to_text, is_loopback, one_line, system_reason

log = logging.getLogger("pbio_spark.gateways")

_HINTS = {
    errno.EADDRINUSE: "another program listens there; port 0 takes a free one",
    errno.EACCES: "ports below 1024 may need rights; port 0 takes a free one",
}
"""What to do about errors of `bind`; all others are about the host."""


class Half(Protocol):
    """The protocol that a gateway speaks on one of its ports.

    Attributes:
        name: in the log.
    """

    name: str

    async def start(self, address: str) -> None:
        """Start, when the port is bound and before the first connection.

        Args:
            address: the host and the port that are bound.
        """

    async def serve(self, peer: Peer) -> None:
        """Deal with a connection, which ends when this returns or raises.

        A PbioError becomes a warning in the log, an OSError a note, since peers come and go. Neither reaches others.
        """

    async def stop(self) -> None:
        """End in order: no more connections come. What was acknowledged is durable when this returns."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A half, and where it listens; port 0 takes any that is free."""

    half: Half
    host: str
    port: int


class Server:
    """Serves some halves, until it is stopped. A context manager, for programs that do other things meanwhile.

    Attributes:
        addresses: the host and the port of each half that is listening, by its name.
    """

    def __init__(
        self, listeners: Sequence[Listener], limits: GatewayLimits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self._listeners = listeners
        self._limits = limits or GatewayLimits()
        self._tls = tls
        self._stopping = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._started: list[Half] = []
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self._refused = 0

    async def start(self) -> None:
        """Listen. Raises PBIO_NOT_LISTENING if a port cannot be had; then nothing listens."""
        try:
            for one in self._listeners:
                await self._listen(one)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Take no more connections, let the halves end, and close what is left after `limits.grace` seconds."""
        self._stopping.set()
        for server in self._servers:
            server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._limits.grace)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._limits.grace)
        for half in self._started:
            await half.stop()
        self._started.clear()
        for server in self._servers:
            with suppress(OSError):
                await server.wait_closed()
        self._servers.clear()

    async def run(self, seconds: float | None = None, started: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM, or for some seconds; `started` is called once all halves listen.

        Raises PBIO_NOT_LISTENING.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        async with self:
            started()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            log.info("stopping")
        log.info("stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _listen(self, listener: Listener) -> None:
        half, host, port = listener.half, listener.host, listener.port

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connected(half, reader, writer)

        try:
            server = await asyncio.start_server(connected, host, port, ssl=self._tls, start_serving=False)
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "give an address of this machine, 0.0.0.0 for all that it has")
            raise PbioError(
                "PBIO_NOT_LISTENING",
                f"cannot listen on {address_to_text(host, port)} for {half.name}: {system_reason(error)}",
                hint=hint,
            ) from None
        self._servers.append(server)
        bound = server.sockets[0].getsockname()[:2]
        self.addresses[half.name] = bound[0], bound[1]
        self._started.append(half)
        place = address_to_text(*bound)
        await half.start(place)
        await server.start_serving()
        log.info("%s: listening on %s", half.name, place)
        is_open = self._tls is None or self._tls.verify_mode is not ssl.CERT_REQUIRED
        if is_open and not is_loopback(bound[0]):
            log.warning("%s: anyone who reaches %s may connect; [tls] clients says who may", half.name, place)

    async def _connected(self, half: Half, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        peer = Peer(reader, writer, self._limits, number, self._stopping)
        reason = self._refusal(peer)
        if reason is not None:
            self._refused += 1
            if self._refused & (self._refused - 1) == 0:  # the 1st, 2nd, 4th, 8th: a log must not be flooded
                log.warning("%s: %s refused: %s (refused so far: %d)", half.name, peer, reason, self._refused)
            peer.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open[peer.host] += 1
        try:
            await self._serve(half, peer)
        finally:
            self._tasks.discard(task)
            self._open[peer.host] -= 1
            if not self._open[peer.host]:
                del self._open[peer.host]

    def _refusal(self, peer: Peer) -> str | None:
        if self._stopping.is_set():
            return "the gateway stops"
        if self._open.total() >= self._limits.connections:
            return f"[PBIO_LIMIT] {self._limits.connections} connections are open"
        if self._open[peer.host] >= self._limits.per_peer:
            return f"[PBIO_LIMIT] {self._limits.per_peer} connections from its host are open"
        return None

    async def _serve(self, half: Half, peer: Peer) -> None:
        log.debug("%s: %s connected", half.name, peer)
        try:
            await half.serve(peer)
        except asyncio.CancelledError:
            peer.abort()
            log.info("%s: %s: ended, because the gateway stops", half.name, peer)
            return
        except PbioError as error:
            log.warning("%s: %s: %s", half.name, peer, one_line(error))
        except OSError as error:
            log.info("%s: %s: the connection broke: %s", half.name, peer, error)
        except Exception:
            log.exception("%s: %s: the gateway has a defect; the connection ends", half.name, peer)
        await peer.close()
        log.debug("%s: %s closed", half.name, peer)
