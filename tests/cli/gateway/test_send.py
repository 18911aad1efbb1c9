"""`pbio gateway send` to a peer that is not a thin listener, and a broken pipe that is not standard output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.cli.gateway import _set_by_signals
from pbio_spark.gateways.config import Tls
from pbio_spark.gateways.evpath import Stone, ThinGateway, ThinSettings
from pbio_spark.gateways.grid import GridGateway, GridSettings
from pbio_spark.gateways.server import Listener, Server
from tests.channels.spaces import READING, reading
from tests.cli.conftest import Ran
from tests.gateways.certificates import certificate


def space_at(folder: Path) -> str:
    place = str(folder / "space")
    ChannelSpace.create(place).create_channel("readings", READING).submit([reading(n) for n in range(10)])
    return place


def test_a_peer_that_closes_the_connection_is_an_error_of_its_own(
    pbio: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pbio_spark.gateways.evpath.outward._WATCH", 600.0)
    space = space_at(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close()).start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        ran = pbio("gateway", "send", space, "readings", "--evpath", place, "--stone", "4")
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_DISCONNECTED] the peer closed the connection\n")
    assert place in ran.err
    assert "is it a thin listener, and does it know stone 4?" in ran.err


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[ChannelSpace, dict[str, str]]]:
    """A gateway that wants certificates: its space, and where it listens."""
    authority = certificate(tmp_path, "authority")
    for name in ("gateway", "lab"):
        certificate(tmp_path, name, authority)
    space = ChannelSpace.create(str(tmp_path / "other"))
    space.create_channel("readings", READING)
    ready, places, stops = threading.Event(), dict[str, str](), list[Callable[[], object]]()
    tls = Tls(*(str(tmp_path / name) for name in ("gateway.pem", "gateway.key", "authority.pem"))).context()

    async def serve() -> None:
        thin = ThinGateway(space, ThinSettings(stones={4: Stone("readings")}))
        grid = GridGateway(space, GridSettings(archive="*", entry=0))
        listeners = [Listener(half, "127.0.0.1", 0) for half in (thin, grid)]
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        stops.append(lambda: loop.call_soon_threadsafe(over.set))
        async with Server(listeners, tls=tls) as server:
            places.update({name: f"localhost:{port}" for name, (_, port) in server.addresses.items()})
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    yield space, places
    stops[0]()
    thread.join()


def test_a_selection_is_sent_encrypted_and_a_stranger_sends_nothing(
    pbio: Callable[..., Ran], tmp_path: Path, encrypted: tuple[ChannelSpace, dict[str, str]]
) -> None:
    space, places = encrypted
    begin = ("gateway", "send", space_at(tmp_path), "readings", "--evpath", places["evpath"], "--stone", "4")
    own = ("--certificate", tmp_path / "lab.pem", "--key", tmp_path / "lab.key")
    filtered = ("--filter", "{ return input.id % 5 == 2; }")
    for options in ((), ("--tls",), ("--ca", tmp_path / "authority.pem"), own):
        ran = pbio(*begin, *filtered, *options)
        assert ran.code == 1
        assert ran.err.startswith(("[PBIO_DISCONNECTED] ", "[PBIO_NOT_LISTENING] cannot connect to localhost:"))
    ran = pbio(*begin, *filtered, *own, "--ca", tmp_path / "authority.pem")
    assert (ran.code, ran.out.partition(",")[0]) == (0, "readings: events sent: 2")
    while space.channel("readings").info.events < 2:
        time.sleep(0.01)
    found = list(space.channel("readings").subscribe(start="earliest").events())
    assert [(event.producer, event.values["id"]) for event in found] == [("lab", 2), ("lab", 7)]


def test_events_are_published_and_named_over_an_encrypted_connection(
    pbio: Callable[..., Ran], tmp_path: Path, encrypted: tuple[ChannelSpace, dict[str, str]]
) -> None:
    space, places = encrypted
    row = {"id": 7, "name": "seven", "k": 1, "v": [0.5], "TimeStamp": "now"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    own = ("--certificate", tmp_path / "lab.pem", "--key", tmp_path / "lab.key", "--ca", tmp_path / "authority.pem")
    assert "readings" in pbio("gateway", "names", places["grid"], *own).out
    assert pbio("gateway", "publish", places["grid"], "readings", tmp_path / "rows.jsonl", *own).code == 0
    assert '"id": "7"' in pbio("gateway", "query", places["grid"], "readings", *own).out
    resumed = ("--set", "Subscriber=viewer", "--set", "After=earliest", "--set", "Count=1")
    assert '"id": "7"' in pbio("gateway", "subscribe", places["grid"], "readings", *resumed, *own).out
    while space.backlog(space.subscribers()[0]) != (0, 0):
        time.sleep(0.01)
    assert [one.name for one in space.subscribers()] == ["lab/viewer"]
    assert pbio("gateway", "names", places["grid"], "--ca", tmp_path / "authority.pem").code == 1


def test_a_filter_that_does_not_compile_is_said_before_a_connection_is_made(
    pbio: Callable[..., Ran], tmp_path: Path
) -> None:
    begin = ("gateway", "send", space_at(tmp_path), "readings", "--evpath", "127.0.0.1:1", "--stone", "4")
    ran = pbio(*begin, "--filter", "{ return input.m; }")
    assert ran.code == 1
    assert "input.m" in ran.err or "'m'" in ran.err


def test_a_signal_ends_a_sender(tmp_path: Path) -> None:
    space = space_at(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        options = ["gateway", "send", space, "readings", "--evpath", place, "--stone", "4", "--follow"]
        command = [sys.executable, "-c", "from pbio_spark.cli import main; main()", *options]
        sender = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with sender, listener.accept()[0]:
            sender.send_signal(signal.SIGTERM)
            out, err = sender.communicate()
    assert (sender.returncode, err) == (0, "")
    assert "events sent:" in out


def test_a_second_signal_ends_what_the_first_one_cannot() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _set_by_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        assert signal.getsignal(signal.SIGTERM) == before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("as_click", [False, True])
def test_a_broken_connection_is_not_taken_for_a_reader_that_has_gone(
    pbio: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, as_click: bool
) -> None:
    def broken(**_: object) -> None:
        try:
            raise BrokenPipeError(32, os.strerror(32))
        except BrokenPipeError:
            if not as_click:
                raise
            sys.exit(1)

    monkeypatch.setattr("pbio_spark.cli.app", broken)
    ran = pbio("count", "x")
    assert ran.code == 1
    assert "Broken pipe" in ran.err
