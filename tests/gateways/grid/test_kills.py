"""A gateway that is killed at any moment: nothing is lost or duplicated (grid-events 7).

PBIO_LONG=1 kills it 100 times, PBIO_KILLS=N so many times; without them, a few times.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import GridConsumer, GridProducer
from tests.conftest import ROOT
from tests.gateways.grid.samples import NAME, TYPES, VALUES
from tests.gateways.grid.spaces import loads_in, new_space

KILLS = int(os.environ.get("PBIO_KILLS", 100 if os.environ.get("PBIO_LONG") else 2))
BATCH = 100
MOST_AGAIN = 5_000
"""How many events come again at most after each kill."""


class Gateway:
    """`pbio gateway serve` in a process, always at one address."""

    def __init__(self, root: str, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        config = folder / "gateway.toml"
        config.write_text('[grid]\narchive = "*"\nlinger = 0.01\n', encoding="utf-8")
        code = "from pbio_spark.cli import main; main()"
        serve = ["gateway", "serve", root, "--grid", self.address, "--config", str(config)]
        self._command = [sys.executable, "-c", code, *serve]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, and wait until it has ended."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.communicate()
            self._process = None


async def produce(address: str, over: asyncio.Event) -> int:
    """Number events, and repeat what was not acknowledged, until `over`; how many there are."""
    producer, acknowledged = GridProducer(TYPES), 0
    while not over.is_set():
        with suppress(PbioError, OSError):
            async with await producer.connect(address, reply_time=30) as connection:
                while not over.is_set():
                    subscription = await connection.subscribe(NAME, subscription_id="monitor")
                    for number in range(acknowledged, acknowledged + BATCH):
                        await producer.publish(NAME, {**VALUES, "Load1": float(number)}, sequence=number)
                    await subscription.unsubscribe()
                    acknowledged += BATCH
        await asyncio.sleep(0.05)
    return acknowledged


async def consume(address: str, got: list[float]) -> None:
    """Take events, from where it was, for ever."""
    position = "earliest"
    while True:
        with suppress(PbioError, OSError):
            async with await GridConsumer.connect(address, TYPES) as consumer:
                async for event in await consumer.subscribe(NAME, {"After": position}):
                    assert event.position is not None
                    position = event.position
                    got.append(event.values["Load1"])
        await asyncio.sleep(0.05)


async def resume(address: str, got: list[float]) -> None:
    """Take events under a name, for ever; the space knows where it was."""
    while True:
        with suppress(PbioError, OSError):
            async with await GridConsumer.connect(address, TYPES) as consumer:
                async for event in await consumer.subscribe(NAME, {"Subscriber": "viewer", "After": "earliest"}):
                    got.append(event.values["Load1"])
        await asyncio.sleep(0.05)


def test_a_killed_gateway_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    space, chance = new_space(tmp_path), random.Random(5)
    gateway, got, named = Gateway(space.root, tmp_path), list[float](), list[float]()

    async def main() -> int:
        over = asyncio.Event()
        producing = asyncio.create_task(produce(gateway.address, over))
        consuming = asyncio.create_task(consume(gateway.address, got))
        resuming = asyncio.create_task(resume(gateway.address, named))
        for _ in range(KILLS):
            await asyncio.to_thread(gateway.start)
            await asyncio.sleep(chance.random() * 1.5)
            await asyncio.to_thread(gateway.kill)
        await asyncio.to_thread(gateway.start)
        before = len(got)
        while len(got) < before + 3 * BATCH:
            await asyncio.sleep(0.05)
        over.set()
        acknowledged = await producing
        while len(got) < acknowledged or not named or named[-1] < acknowledged - 1:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(gateway.kill, signal.SIGTERM)
        consuming.cancel()
        resuming.cancel()
        return acknowledged

    try:
        acknowledged = asyncio.run(main())
    finally:
        gateway.kill()
    published = loads_in(space)
    assert published == [*range(len(published))]  # each once, in order
    assert got == published
    assert named[0] == 0
    assert all(later <= earlier + 1 for earlier, later in pairwise(named))  # some twice, and none is left out
    assert len(named) < len(published) + (KILLS + 2) * MOST_AGAIN
    assert acknowledged <= len(published) < acknowledged + BATCH + 1
