"""A space in a bucket: commits by conditional requests, against the S3 server of moto."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.check import problems
from tests.channels.spaces import COUNT, everything, values
from tests.conftest import ROOT

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The URL of a server with the bucket `bucket`, in a process of its own."""
    command = [sys.executable, "-m", "tests.channels.s3_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


@pytest.fixture
def options(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    # For processes that are started: fsspec reads its settings from there.
    monkeypatch.setenv("FSSPEC_S3", json.dumps({"endpoint_url": endpoint}))
    return {"endpoint_url": endpoint}


def test_all_there_is_works_in_a_bucket(options: dict[str, str]) -> None:
    root = f"s3://bucket/{uuid.uuid4().hex}"
    space = ChannelSpace.create(root, **options)
    counts = space.create_channel("counts", COUNT)
    few = space.derive_channel("few", "counts", filter="{ return input.n > 2; }")
    for n in range(5):
        counts.submit({"n": n}, producer="p", sequence=n)
    other = ChannelSpace.open(root, **options)
    assert other.channel("counts").submit([{"n": 4}, {"n": 5}], producer="p", sequence=4).events == 1
    events = everything(counts)
    assert [event.values["n"] for event in events] == list(range(6))
    assert [row["n"] for row in values(few)] == [3, 4, 5]
    reader = counts.subscribe(lambda event: None, start="earliest", name="reader")
    assert reader.run() == 6
    assert [(one.channel, one.name, one.position) for one in other.subscribers()] == [
        (counts.info.id, "reader", reader.position)
    ]
    assert space.compact() == 6
    assert other.vacuum(linger=timedelta(0)).files == 6
    assert everything(counts) == events
    assert list(problems(other)) == []


def test_processes_publish_to_one_bucket_at_once(options: dict[str, str]) -> None:
    root = f"s3://bucket/{uuid.uuid4().hex}"
    space = ChannelSpace.create(root, **options)
    for name in "ab":
        space.create_channel(name, COUNT)
    command = [sys.executable, "-m", "tests.channels.producer", root]
    producers = ["p0", "p1"]
    running = [
        subprocess.Popen([*command, producer, "0", "20", "4"], cwd=ROOT, stdout=subprocess.DEVNULL)
        for producer in producers
    ]
    assert [process.wait() for process in running] == [0, 0]
    for name in "ab":
        events = everything(space.channel(name))
        for producer in producers:
            assert [event.values["n"] for event in events if event.producer == producer] == list(range(20))
        assert len(events) == 40
