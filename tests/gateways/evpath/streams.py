"""Thin streams for tests, and a gateway in a thread that takes them."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pbio_spark.channels import ChannelSpace
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import Stone, ThinGateway, ThinSettings
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.server import Listener, Server
from pbio_spark.wire import FileWriter

COUNTS = {3: Stone("counts")}


def thin_stream(form: Format, values: Iterable[dict[str, Any]], stone: int = 3) -> bytes:
    """What a program sends that has some events for a stone."""
    file = io.BytesIO()
    with FileWriter(file) as writer:
        writer.comment(f"Stone {stone}")
        for value in values:
            writer.data(form, value)
    return file.getvalue()


class Running:
    """A gateway that runs in a thread of its own."""

    def __init__(self, half: ThinGateway, address: tuple[str, int], stop: Callable[[], None]) -> None:
        self.half = half
        self.address = address
        self.stop = stop

    @staticmethod
    def wait_for(condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.01)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address)

    def send(self, data: bytes) -> None:
        """Send a whole stream, and wait until the gateway has closed the connection, which means that it is done."""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except (ConnectionError, OSError):
                pass  # the gateway has closed it before all was sent


@contextmanager
def running(
    space: ChannelSpace, settings: ThinSettings | None = None, limits: GatewayLimits | None = None
) -> Iterator[Running]:
    """A gateway to a space, until the block ends."""
    ready: threading.Event = threading.Event()
    made: dict[str, Any] = {}

    async def serve() -> None:
        half = made["half"] = ThinGateway(space, settings or ThinSettings(stones=COUNTS), limits)
        made["loop"], made["over"] = asyncio.get_running_loop(), asyncio.Event()
        async with Server([Listener(half, "127.0.0.1", 0)], limits) as server:
            made["address"] = server.addresses["evpath"]
            ready.set()
            await made["over"].wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()

    def stop() -> None:
        if thread.is_alive():
            made["loop"].call_soon_threadsafe(made["over"].set)
            thread.join()

    try:
        yield Running(made["half"], made["address"], stop)
    finally:
        stop()
