"""Connections of programs: outgoing ones, and listening."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.session import Session
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.peer import Peer
from pbio_spark.gateways.server import Listener, Server
from pbio_spark.gateways.text import address_to_text, system_reason, to_address

CONNECT_TIME = 30.0
"""Seconds after which connecting has failed."""


async def connect(address: str, limits: GatewayLimits, tls: ssl.SSLContext | None) -> Peer:
    """Connect to `HOST:PORT`. Raises PBIO_NOT_LISTENING, PBIO_BAD_OPTION for what is not an address."""
    host, port = to_address(address)
    try:
        async with asyncio.timeout(CONNECT_TIME):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    except (OSError, TimeoutError) as error:
        reason = f"cannot connect to {address_to_text(host, port)}: {system_reason(error)}"
        raise PbioError("PBIO_NOT_LISTENING", reason, hint="is a peer listening there?") from None
    return Peer(reader, writer, limits)


class Connection:
    """A connection that this program made, with the session on it."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self.session = session
        self._peer = peer
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.session.run()
        finally:
            await self._peer.close()

    async def wait(self) -> None:
        """Wait for the end of the connection. Raises what ended it, if it did not end in order."""
        await asyncio.wait([self._running])
        if not self._running.cancelled() and (error := self._running.exception()) is not None:
            raise error

    async def close(self) -> None:
        """End the connection; subscriptions on it end with it."""
        self._running.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._running


class SessionHalf:
    """Serves sessions on a port; a half of a `Server`."""

    def __init__(self, name: str, serve: Callable[[Peer], Awaitable[None]]) -> None:
        self.name = name
        self._serve = serve

    async def start(self, address: str) -> None:
        """Nothing is to be done."""

    async def serve(self, peer: Peer) -> None:
        """Deal with a connection until it ends or the server stops."""
        serving = asyncio.ensure_future(self._serve(peer))
        stopping = asyncio.create_task(peer.stopping.wait())
        try:
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving
            else:
                serving.result()
        finally:
            stopping.cancel()
            serving.cancel()

    async def stop(self) -> None:
        """Nothing is to be done."""


@asynccontextmanager
async def listening(
    address: str, serve: Callable[[Peer], Awaitable[None]], limits: GatewayLimits, tls: ssl.SSLContext | None
) -> AsyncIterator[str]:
    """Listen on `HOST:PORT` and return the address; port 0 takes any free port. Raises PBIO_NOT_LISTENING."""
    host, port = to_address(address)
    async with Server([Listener(SessionHalf("grid", serve), host, port)], limits, tls) as server:
        yield address_to_text(*server.addresses["grid"])
