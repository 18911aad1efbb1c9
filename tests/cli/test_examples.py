"""The example in the help of each verb runs as written."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from pbio_spark import cli
from pbio_spark.channels import ChannelSpace
from pbio_spark.formats.layout import record_to_format
from pbio_spark.gateways.grid import GridGateway, GridSettings
from pbio_spark.gateways.server import Listener, Server
from pbio_spark.wire import FileWriter
from tests.bp5.made import make
from tests.cli.conftest import NEW, OLD, Ran


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, verb in command.commands.items():
        if hasattr(verb, "commands"):
            yield from verbs(verb, (*path, name))
        else:
            yield " ".join((*path, name)), verb


VERBS = dict(verbs(typer.main.get_command(cli.app)))


TO_GRID = ("gateway names", "gateway query", "gateway subscribe", "gateway publish")
"""Verbs that speak with a peer."""
WITH_A_BROKER = ("space relay", "space archive")
"""Verbs whose examples run in tests/kafka."""

LOGGING = ("gateway serve", "gateway send")
"""Verbs that say on standard error what happens."""


@pytest.fixture
def listening() -> Iterator[None]:
    """A listener at the address of the examples, which reads what is sent."""
    with socket.create_server(("127.0.0.1", 26300)) as server:

        def read() -> None:
            with server.accept()[0] as connection:
                while connection.recv(1 << 16):
                    pass

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name."""
    monkeypatch.chdir(tmp_path)
    reading = {"n": 2, "v": [1.5, -2.0], "unit": "kPa", "station": list(b"abc\0")}
    for name, type_ in (("old.ffs", OLD), ("readings.ffs", NEW)):
        with FileWriter(name) as writer:
            writer.data(record_to_format(type_), {f.name: reading[f.name] for f in type_.fields})
    Path("readings.jsonl").write_text(
        '{"n": 2, "v": [1.5, -2.0], "unit": "kPa"}\n{"n": 1, "v": [0.5], "unit": "bar"}\n'
    )
    Path("timed.jsonl").write_text('{"n": 1, "v": [0.5], "unit": "bar", "TimeStamp": "now"}\n')
    Path("small.jsonl").write_text('{"n": 7, "at": "2026-01-31T12:00:00"}\n')
    space = ChannelSpace.create("space")
    for name in ("readings", "gone"):
        space.create_channel(name, OLD)
    space.derive_channel("most", "readings", filter="{ return input.n > param.least; }", parameters={"least": 1})
    space.channel("readings").submit([{"n": 2, "v": [1.0, 2.0], "unit": "kPa"}])
    steps = [{"x": np.arange(3.0) + step, "y": np.arange(3.0), "time": np.float64(2.0 + step)} for step in range(2)]
    make(tmp_path / "run.bp", steps)
    return tmp_path


@pytest.fixture
def grid_gateway(place: Path) -> Iterator[None]:
    """A gateway to the space, where the examples say."""
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        gateway = GridGateway(ChannelSpace.open("space"), GridSettings(archive="*"))
        async with Server([Listener(gateway, "127.0.0.1", 26400)]):
            ready.set()
            await asyncio.to_thread(over.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()  # if the port is taken, the examples fail, and no test waits

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    yield
    over.set()
    thread.join()


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in WITH_A_BROKER])
def test_the_examples_of_a_verb_run(
    pbio: Callable[..., Ran], place: Path, verb: str, request: pytest.FixtureRequest
) -> None:
    if verb == "gateway send":
        request.getfixturevalue("listening")
    if verb in TO_GRID:
        request.getfixturevalue("grid_gateway")
    lines = [line.strip() for line in VERBS[verb].help.splitlines() if line.startswith("  pbio ")]
    assert lines, "a verb without an example"
    for line in lines:
        words = shlex.split(line)
        assert words[: 1 + len(verb.split())] == ["pbio", *verb.split()]
        ran = pbio(*words[1:])
        assert ran.code == 0, line
        assert not ran.err or verb in LOGGING, line
        assert ran.out or "--quiet" in words, line


def test_what_the_examples_make(pbio: Callable[..., Ran], place: Path) -> None:
    assert pbio("convert", "readings.jsonl", "-o", "again.ffs").out == "again.ffs: 2 rows of again\n"
    assert [json.loads(line)["value"]["unit"] for line in pbio("cat", "--json", "again.ffs").out.splitlines()] == [
        "kPa",
        "bar",
    ]
    assert pbio("space", "publish", "space", "readings", "readings.jsonl", "old.ffs").code == 0
    events = [json.loads(line)["event"] for line in pbio("space", "tail", "space", "readings").out.splitlines()]
    assert [event["n"] for event in events] == [2, 2, 1, 2]
