"""Gateways that are killed at any moment: nothing is lost or duplicated (grid-events 7).

PBIO_LONG=1 kills them 100 times, PBIO_KILLS=N so many times; without them, a few times.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle, pairwise
from pathlib import Path

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import GridConsumer, GridProducer
from tests.channels.spaces import everything
from tests.conftest import ROOT
from tests.gateways.grid.samples import NAME, TYPES, VALUES
from tests.gateways.grid.spaces import new_space

KILLS = int(os.environ.get("PBIO_KILLS", 100 if os.environ.get("PBIO_LONG") else 2))
BATCH = 100
MOST_AGAIN = 5_000
"""How many events come again at most after each kill."""
LONGEST = 300
"""How many seconds to wait for events; a lost one never comes."""


class Gateway:
    """`pbio gateway serve` in a process, always at one address."""

    def __init__(self, root: str, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        folder.mkdir(exist_ok=True)
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


Seen = tuple[str, float]
"""The producer of an event and its number."""


async def produce(addresses: Iterator[str], name: str, over: asyncio.Event) -> int:
    """Number events, and repeat what was not acknowledged, until `over`; how many there are."""
    producer, acknowledged = GridProducer(TYPES), 0
    while not over.is_set():
        with suppress(PbioError, OSError):
            async with await producer.connect(next(addresses), reply_time=30) as connection:
                for _ in range(10):  # then the next gateway has a turn
                    if over.is_set():
                        break
                    subscription = await connection.subscribe(NAME, subscription_id=name)
                    for number in range(acknowledged, acknowledged + BATCH):
                        values = {**VALUES, "HostName": name, "Load1": float(number)}
                        await producer.publish(NAME, values, sequence=number)
                    await subscription.unsubscribe()
                    acknowledged += BATCH
        await asyncio.sleep(0.05)
    return acknowledged


async def consume(addresses: Iterator[str], got: list[Seen]) -> None:
    """Take events, from where it was, for ever."""
    position = "earliest"
    while True:
        with suppress(PbioError, OSError):
            async with await GridConsumer.connect(next(addresses), TYPES) as consumer:
                async for event in await consumer.subscribe(NAME, {"After": position}):
                    assert event.position is not None
                    position = event.position
                    got.append((event.values["HostName"], event.values["Load1"]))
        await asyncio.sleep(0.05)


async def resume(addresses: Iterator[str], got: list[Seen]) -> None:
    """Take events under a name, for ever; the space knows where it was."""
    while True:
        with suppress(PbioError, OSError):
            async with await GridConsumer.connect(next(addresses), TYPES) as consumer:
                async for event in await consumer.subscribe(NAME, {"Subscriber": "viewer", "After": "earliest"}):
                    got.append((event.values["HostName"], event.values["Load1"]))
        await asyncio.sleep(0.05)


async def kill_in_turns(gateways: Sequence[Gateway], names: Sequence[str]) -> tuple[list[int], list[Seen], list[Seen]]:
    """Kill a gateway while clients publish and subscribe, the next one each time; each connection takes another one.

    Returns how many events of each producer were acknowledged, what a consumer got, and what one with a name got.
    """
    chance, over, got, named = random.Random(5), asyncio.Event(), list[Seen](), list[Seen]()
    addresses = cycle([gateway.address for gateway in gateways])  # of all clients, so each gets to every gateway
    producing = [asyncio.create_task(produce(addresses, name, over)) for name in names]
    takers = [asyncio.create_task(consume(addresses, got)), asyncio.create_task(resume(addresses, named))]
    for gateway in gateways:
        await asyncio.to_thread(gateway.start)
    for _, gateway in zip(range(KILLS), cycle(gateways), strict=False):
        await asyncio.sleep(chance.random() * 1.5)
        await asyncio.to_thread(gateway.kill)
        await asyncio.to_thread(gateway.start)
    before = len(got)
    async with asyncio.timeout(LONGEST):
        # An event of a second batch says that the first one was acknowledged.
        while len(got) < before + 3 * BATCH or {name for name, number in got if number >= BATCH} != set(names):
            await asyncio.sleep(0.05)
    over.set()
    acknowledged = await asyncio.gather(*producing)
    last = {(name, float(count - 1)) for name, count in zip(names, acknowledged, strict=True)}
    async with asyncio.timeout(LONGEST):
        while not (last <= set(got) and last <= set(named)):
            await asyncio.sleep(0.2)
    for gateway in gateways:
        await asyncio.to_thread(gateway.kill, signal.SIGTERM)
    for task in takers:
        task.cancel()
    return acknowledged, got, named


def check_kills(space: ChannelSpace, gateways: Sequence[Gateway], names: Sequence[str]) -> None:
    """Check that each event is published once and in order, and that consumers get what they are promised."""
    try:
        acknowledged, got, named = asyncio.run(kill_in_turns(gateways, names))
    finally:
        for gateway in gateways:
            gateway.kill()
    published = [(event.values["HostName"], event.values["Load1"]) for event in everything(space.channel(NAME))]
    for name, count in zip(names, acknowledged, strict=True):
        own = [number for producer, number in published if producer == name]
        assert own == [*range(len(own))]  # each once, in order
        assert count <= len(own) < count + BATCH + 1
    assert {name for name, _ in published} == set(names)
    assert got == published
    place = {event: number for number, event in enumerate(published)}
    places = [place[event] for event in named]
    assert places[0] == 0
    assert all(later <= earlier + 1 for earlier, later in pairwise(places))  # some twice, and none is left out
    assert len(named) < len(published) + (KILLS + 2) * MOST_AGAIN


def test_a_killed_gateway_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    check_kills(space, [Gateway(space.root, tmp_path)], ["monitor"])


def test_two_gateways_of_one_space_lose_and_double_nothing_though_they_are_killed(tmp_path: Path) -> None:
    """A producer continues at the gateway that is left, a consumer resumes there by its position or its name."""
    space = new_space(tmp_path)
    gateways = [Gateway(space.root, tmp_path / name) for name in ("one", "two")]
    check_kills(space, gateways, ["monitor", "probe"])
