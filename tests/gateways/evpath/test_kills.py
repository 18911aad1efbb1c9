"""Gateways and senders that are killed at any moment: numbered events are there once, and a receiver misses none.

PBIO_LONG=1 kills them 100 times, PBIO_KILLS=N so many times; without them, a few times.
"""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

from ecode.types import INT64, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import ThinStream
from pbio_spark.wire import decode
from tests.channels.spaces import again, everything
from tests.children import end, run_pbio, start
from tests.conftest import ROOT
from tests.gateways.evpath.streams import thin_stream

KILLS = int(os.environ.get("PBIO_KILLS", 100 if os.environ.get("PBIO_LONG") else 3))
EVENTS = max(30_000, 5_000 * KILLS)
KIND = record("event", [Field("who", STRING), Field("n", INT64)])
FORM = Format.of(KIND)
PRODUCERS = ("p0", "p1")
LISTENS = re.compile(r"^evpath: (.*):(\d+)$", re.MULTILINE)


class Gateway:
    """A gateway that is killed and started again, at another port each time."""

    def __init__(self, root: str, config: Path) -> None:
        self._arguments = ["gateway", "serve", root, "--evpath", "0", "--config", str(config)]
        self._output = config.with_name("gateway.out")
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._output.unlink(missing_ok=True)
        self._process = start(self._output, run_pbio, *self._arguments)
        while (said := LISTENS.search(self._output.read_text() if self._output.exists() else "")) is None:
            assert self._process.is_alive()
            time.sleep(0.002)
        self._address = said[1], int(said[2])

    @property
    def address(self) -> tuple[str, int]:
        with self._lock:
            return self._address

    def kill(self, *, anew: bool = True) -> None:
        with self._lock:
            end(self._process)
            if anew:
                self._start()


class EitherOf:
    """Several gateways to one space, of which a sender takes another for each connection."""

    def __init__(self, *gateways: Gateway) -> None:
        self._turns = cycle(gateways)

    @property
    def address(self) -> tuple[str, int]:
        return next(self._turns).address


def produce(channel: Channel, gateway: Gateway | EitherOf, producer: str) -> None:
    """Send numbered events, and after each failure all again that the channel does not have."""
    chance = random.Random(producer)
    # All are written once, and are of one size.
    one, two = (thin_stream(FORM, [{"who": producer, "n": 0}] * count) for count in (1, 2))
    size = len(two) - len(one)
    begin = one[:-size]
    records = thin_stream(FORM, ({"who": producer, "n": n} for n in range(EVENTS)))[len(begin) :]
    assert len(records) == EVENTS * size
    while True:
        last = channel.last_sequence(producer)
        first = 0 if last is None else last + 1
        if first == EVENTS:
            return
        first = max(0, first - chance.randrange(50))  # it need not be sure
        with suppress(OSError), socket.create_connection(gateway.address) as connection:
            connection.sendall(begin)
            for at in range(first * size, len(records), 20_000):
                connection.sendall(records[at : at + 20_000])
                time.sleep(0.001)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)


def gateway_of(space: ChannelSpace, folder: Path) -> Gateway:
    """A gateway of the space that publishes numbered events to its channel `events`."""
    folder.mkdir(exist_ok=True)
    config = folder / "gateway.toml"
    stone = "channel = 'events'\nproducer_field = 'who'\nsequence = 'n'"
    config.write_text(f"[evpath]\nlinger = 0.01\nbatch_events = 1000\n[evpath.stones.3]\n{stone}\n")
    return Gateway(space.root, config)


def kill_in_turns(space: ChannelSpace, gateways: Sequence[Gateway], threads: Sequence[threading.Thread]) -> None:
    """Kill a gateway at work, the next one each time, while the threads send until all is there."""
    chance = random.Random(3)
    turns = cycle(gateways)
    try:
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            before = space.history.catch_up().version
            while space.history.catch_up().version == before and any(thread.is_alive() for thread in threads):
                time.sleep(0.005)  # one is at work
            time.sleep(chance.uniform(0, 0.2))
            next(turns).kill()
        for thread in threads:
            thread.join()
    finally:
        for gateway in gateways:
            gateway.kill(anew=False)


def check_once_in_order(channel: Channel) -> None:
    """Check that each event of each producer is there once, in order."""
    events = everything(channel)
    for producer in PRODUCERS:
        own = [(event.sequence, event.values) for event in events if event.producer == producer]
        assert own == [(n, {"who": producer, "n": n}) for n in range(EVENTS)]
    assert len(events) == len(PRODUCERS) * EVENTS


def test_numbered_events_are_there_once_though_the_gateway_is_killed(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("events", KIND)
    gateway = gateway_of(space, tmp_path)
    threads = [
        threading.Thread(target=produce, args=(again(space).channel("events"), gateway, producer))
        for producer in PRODUCERS
    ]
    kill_in_turns(space, [gateway], threads)
    check_once_in_order(channel)


def test_two_gateways_of_one_space_lose_and_double_nothing_though_they_are_killed(tmp_path: Path) -> None:
    """Each producer sends over both at once, the same events with the same numbers."""
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("events", KIND)
    gateways = [gateway_of(space, tmp_path / name) for name in ("one", "two")]
    threads = [
        threading.Thread(target=produce, args=(again(space).channel("events"), EitherOf(*order), producer))
        for producer in PRODUCERS
        for order in (gateways, gateways[::-1])
    ]
    kill_in_turns(space, gateways, threads)
    check_once_in_order(channel)


@contextmanager
def listening() -> Iterator[tuple[int, list[int]]]:
    """A receiver of thin streams, one connection after the other, which records the numbers of events."""
    received: list[int] = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while not over.is_set():
                with suppress(OSError), server.accept()[0] as connection:
                    stream = ThinStream("a test")
                    while data := connection.recv(1 << 12):
                        some = stream.feed(data)
                        at = 0
                        for length, number in zip(some.lengths.tolist(), some.numbers.tolist(), strict=True):
                            received.append(decode(stream.formats[number], some.items[at + 8 : at + length])["n"])
                            at += length

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield server.getsockname()[1], received
        finally:
            over.set()
            with suppress(OSError):
                socket.create_connection(server.getsockname()).close()
            thread.join()


def test_a_receiver_misses_nothing_though_the_sender_is_killed(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("events", KIND)
    chance = random.Random(5)
    count = 0
    with listening() as (port, received):
        arguments = ["gateway", "send", space.root, "events", "--evpath", str(port), "--stone", "0"]
        for _ in range(KILLS):
            sender = start(tmp_path / "sender.out", run_pbio, *arguments, "--follow")
            before = len(received)
            while len(received) == before or chance.random() < 0.5:
                channel.submit([{"who": "p", "n": n} for n in range(count, count + 100)])
                count += 100
                time.sleep(chance.uniform(0, 0.05))
            end(sender)
        command = [sys.executable, "-c", "from pbio_spark.cli import main; main()", *arguments]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        assert "events sent: " in done.stdout
        while not received or received[-1] != count - 1:
            time.sleep(0.01)
    # Some may come again, each time from a place before on; none is left out.
    seen = -1
    for number in received:
        assert number <= seen + 1
        seen = max(seen, number)
    assert seen == count - 1
