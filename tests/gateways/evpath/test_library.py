"""The real EVPath and FFS libraries: they receive the events of a channel, and their events arrive in one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ecode.types import FLOAT64, INT32, STRING, Array, Field, Ref, Struct, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import Stone, ThinSender, ThinSettings
from pbio_spark.wire import MAGIC
from tests.channels.spaces import READING, reading, values
from tests.conftest import ROOT
from tests.ffs.native import natural, struct
from tests.ffs_library import Item, write_file
from tests.gateways.evpath.streams import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READING_STRUCT = [["reading", [["id", "integer", 8], ["name", "string", 8], ["k", "integer", 4], ["v", "float[k]", 8]]]]


class Listening:
    """The library, in a process that listens for thin streams, and the events that it has received."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        said = json.loads(self._lines.readline())
        self.stone = said["stone"]
        self.address = "127.0.0.1", said["port"]

    def events(self) -> list[dict[str, Any]]:
        """All of them, once there are as many as were expected. The library has no array of no elements but null."""
        found = [json.loads(line) for line in self._lines]
        return [{name: [] if value is None else value for name, value in one.items()} for one in found]


@contextmanager
def evpath(structs: list[Any], events: int) -> Iterator[Listening]:
    command = [sys.executable, "-m", "tests.ffs.thin_process", json.dumps(structs), str(events)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Listening(process)
        finally:
            process.kill()


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    return ChannelSpace.create(str(tmp_path / "space"))


def test_the_library_receives_the_events_of_a_channel(space: ChannelSpace) -> None:
    channel = space.create_channel("readings", READING)
    sent = [reading(number) for number in range(2000)]
    channel.submit(sent)
    with evpath(READING_STRUCT, len(sent)) as listening:
        sender = ThinSender(channel, listening.address, listening.stone)
        assert sender.run() == len(sent)
        assert listening.events() == sent


def test_the_library_receives_structures_and_what_other_machines_and_versions_published(space: ChannelSpace) -> None:
    inner = [Struct("point", (Field("x", FLOAT64), Field("y", FLOAT64)))]
    kind = record("track", [Field("n", INT32), Field("points", Array(Ref("point"), ("n",)))], inner)
    channel = space.create_channel("tracks", kind)
    structs = [
        ["track", [["n", "integer", 4], ["points", "point[n]", 0]]],
        ["point", [["x", "float", 8], ["y", "float", 8]]],
    ]
    newer = record(
        "track", [Field("label", STRING), Field("n", INT32), Field("points", Array(Ref("point"), ("n",)))], inner
    )
    events = [{"n": n, "points": [{"x": n / 2, "y": 1.0}] * n} for n in range(3)]
    channel.submit(events[:2])
    channel.submit([{**events[2], "label": "new"}], format=Format.of(newer, "be32"))
    with evpath(structs, 3) as listening:
        assert ThinSender(channel, listening.address, listening.stone).run() == 3
        assert listening.events() == events


def test_a_sender_follows_its_channel_and_resumes_where_it_was(space: ChannelSpace) -> None:
    channel = space.create_channel("readings", READING)
    channel.submit([reading(0)])
    with evpath(READING_STRUCT, 2) as listening:
        sender, stop = ThinSender(channel, listening.address, listening.stone, name="viewer"), threading.Event()
        thread = threading.Thread(target=sender.run, kwargs={"follow": True, "stop": stop})
        thread.start()
        channel.submit([reading(1)])
        assert listening.events() == [reading(0), reading(1)]
        while sender.sent < 2:
            time.sleep(0.01)
        stop.set()
        thread.join()
    channel.submit([reading(2)])
    with evpath(READING_STRUCT, 1) as listening:
        assert ThinSender(channel, listening.address, listening.stone, name="viewer").run() == 1
        assert listening.events() == [reading(2)]


def library_file(path: Path, indexed: bool) -> tuple[bytes, list[dict[str, Any]]]:
    """The bytes of a file that the library wrote, with the comment that a thin stream begins with, and its events."""
    first = natural([struct("sample", ("n", "integer", 4), ("who", "string", 8), ("v", "float[n]", 8))])
    second = natural([struct("sample", ("x", "float", 8), *((f.name, f.type, f.size) for f in first[0].fields))])
    sent = [{"n": n % 5, "who": f"program {n}", "v": [n / 2] * (n % 5)} for n in range(400)]
    items: list[Item | str] = [Item(first, one) for one in sent[:200]]
    items += ["a remark", *(Item(second, {"x": 0.5, **one}) for one in sent[200:])]
    write_file(path, items, indexed=indexed)
    return MAGIC + b"\1\0\0\x08Stone 0\0" + path.read_bytes()[len(MAGIC) :], sent


@pytest.mark.parametrize("indexed", [False, True])
def test_a_file_that_the_library_wrote_arrives_in_a_channel(space: ChannelSpace, tmp_path: Path, indexed: bool) -> None:
    data, sent = library_file(tmp_path / "written.ffs", indexed)
    with running(space, ThinSettings(create=True)) as gateway:
        gateway.send(data)
    assert values(space.channel("stone-0")) == sent


@pytest.mark.spark
def test_what_the_library_wrote_arrives_in_spark(space: ChannelSpace, tmp_path: Path, spark: SparkSession) -> None:
    data, sent = library_file(tmp_path / "written.ffs", indexed=False)
    with running(space, ThinSettings(create=True, stones={0: Stone("samples")})) as gateway:
        gateway.send(data)
    rows = spark.read.format("pbio").option("channel", "samples").load(space.root).orderBy("who").collect()
    assert sorted((row.asDict() for row in rows), key=lambda row: row["who"]) == sorted(
        sent, key=lambda event: event["who"]
    )
