"""Concentrator: 1, 4 and 16 processes that publish to one space, each for itself and by way of one committer.

On a disk, and in a bucket of moto's server, which shares the machine with the writers. Each publication has 10 events,
dicts that every process makes before the clock runs, as does one alone; it waits until they are durable. Two tables of
the same runs: first the processes with a concentrator beside without one, then beside what one process does without
one, where the goal is: in time, and in processor time of the writers and the concentrator together, which says how much
more two cores can do at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import fsspec.config

from benchmarks import Row
from ecode.types import FLOAT64, INT32, STRING, Field, record
from pbio_spark.channels import ChannelSpace

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64), Field("volume", INT32)])
PROCESSES = (1, 4, 16)
EVENTS = 10
SECONDS = float(os.environ.get("PBIO_BENCH_SECONDS", 4))
REPEATS = {"a disk": 2, "a bucket": 1}
"""A slow store varies less."""
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="pbio-", dir="/tmp") as folder, bucket() as address:
        os.environ["PBIO_RUNTIME_DIR"] = f"{folder}/sockets"
        for store, above in (("a disk", folder), ("a bucket", address)):
            yield from on(store, above)


def on(store: str, above: str) -> Iterator[Row]:
    """The rates of one store, the best of some runs of each kind in turns."""
    best: dict[tuple[str, int], Rates] = {}
    for _ in range(REPEATS[store]):
        for count in PROCESSES:
            for use in ("off", "required"):
                found = measured(f"{above}/{uuid.uuid4().hex}", use, count)
                best[use, count] = max(best.get((use, count), found), found)
    alone = best["off", 1]
    for count in PROCESSES:
        without, through = best["off", count], best["required", count]
        what = f"{count} processes on {store}"
        yield Row(f"{what}, events", "without one", 1 / through.events, 1 / without.events, 1, "events")
        yield Row(f"{what}, commits", "without one", 1 / through.commits, 1 / without.commits, 1, "commits")
    for count in PROCESSES[1:]:
        goal = 4 if count == 16 else None
        through = best["required", count]
        yield Row(f"{count} on {store}", "1 without one", 1 / through.events, 1 / alone.events, 1, "events", goal)
        per_event = through.processor / through.events, alone.processor / alone.events
        yield Row(f"{count} on {store}, a second of processor time", "1 without one", *per_event, 1, "events")


class Rates(NamedTuple):
    """What some processes do in a second: events, commits, and seconds of processor time that all of it takes."""

    events: float
    commits: float
    processor: float


def measured(root: str, use: str, count: int) -> Rates:
    """The rates of so many processes."""
    space = ChannelSpace.create(root, concentrator="off")
    space.create_channel("stocks", STOCK)
    with concentrator(root, use) as server:
        code = f"from benchmarks.events.concentrate import publish; publish({root!r}, {use!r})"
        writers = [python(code) for _ in range(count)]
        for writer in writers:
            line(writer)
        first = space.history.catch_up().version
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(f"{time.time() + 0.2} {SECONDS}\n")
            writer.stdin.flush()
        before = processor_time(server)
        said = [line(writer).split() for writer in writers]
        taken = processor_time(server) - before + sum(float(seconds) for _, seconds in said)
        for writer in writers:
            writer.communicate()
    published, commits = sum(int(number) for number, _ in said), space.history.catch_up().version - first
    return Rates(published * EVENTS / SECONDS, commits / SECONDS, taken / SECONDS)


def processor_time(process: subprocess.Popen[str] | None) -> float:
    """Seconds of it that a process has taken; 0 for none."""
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def publish(root: str, use: str) -> None:
    """Publish from the time that standard input says for so many seconds; print how many publications were durable,
    and the processor time that they took here."""
    channel = ChannelSpace.open(root, concentrator=use).channel("stocks")  # type: ignore[arg-type]
    events = [{"name": "ACME", "price": n / 8, "volume": n} for n in range(EVENTS)]
    producer, number = f"p{os.getpid()}", 0
    for _ in range(3):
        channel.submit(events, producer=producer, sequence=number)
        number += EVENTS
    print("ready", flush=True)
    start, seconds = map(float, sys.stdin.readline().split())
    time.sleep(max(0, start - time.time()))
    count, taken = 0, time.process_time()
    while True:
        channel.submit(events, producer=producer, sequence=number)
        number += EVENTS
        if time.time() > start + seconds:
            break
        count += 1
    print(count, time.process_time() - taken, flush=True)


@contextmanager
def concentrator(root: str, use: str) -> Iterator[subprocess.Popen[str] | None]:
    if use == "off":
        yield None
        return
    command = ["space", "concentrate", root]
    running = python(f"import sys; from pbio_spark.cli import main; sys.argv[1:] = {command!r}; main()")
    line(running)
    yield running
    running.terminate()
    running.communicate()


@contextmanager
def bucket() -> Iterator[str]:
    """The address of a bucket; processes that are started find its server too."""
    os.environ |= KEYS
    command = [sys.executable, "-m", "tests.channels.s3_server", "0"]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=nowhere, text=True, cwd=ROOT
    ) as server:
        settings = {"endpoint_url": line(server)}
        os.environ["FSSPEC_S3"] = json.dumps(settings)
        fsspec.config.conf["s3"] = settings
        yield "s3://bucket"
        server.kill()


ROOT = Path(__file__).parents[2]


def python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def line(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints."""
    out: IO[str] | None = process.stdout
    assert out is not None
    said = out.readline().strip()
    if not said:
        raise RuntimeError("a process of the benchmark has ended")
    return said
