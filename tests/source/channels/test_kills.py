"""Spark streams and plain programs at one channel, killed at any time: every event is there once, and in order.

What is derived of them, while code and parameters change, is what a replay of the log makes.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ecode.types import INT64, Field, record
from pbio_spark.channels import ChannelSpace, Position
from pbio_spark.channels.upkeep.check import problems
from tests.channels.derive.replay import check
from tests.channels.spaces import everything
from tests.conftest import ROOT

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("PBIO_KILLS", 100 if os.environ.get("PBIO_LONG") else 4))
LONG = KILLS > 4
EVENTS = 67 * KILLS if LONG else 40
"""Of each writer."""
PER_FILE = 25 if LONG else 10
WRITERS = ("spark-0", "spark-1") if LONG else ("spark-0",)

SUM = record("sum", [Field("n", INT64), Field("before", INT64)])
CODES = (
    "{ if (input.n - state.last < param.by) return 0; state.last = input.n; return 1; }",
    "{ static int calls = 0; state.last = input.n; return 7 / (++calls % 5) % param.by; }",  # a trap now and then
)
SUMMING = "{ output.n = input.n; output.before = state.n; state.n += 1; return input.n % 3; }"
SUMMARY = "{ output.n = -1; output.before = state.n; return 1; }"


class Process:
    """A process that is started again whenever it was killed, with all the processes that it started."""

    def __init__(self, errors: Path, module: str, *arguments: object) -> None:
        self._errors = errors
        self._command = [sys.executable, "-m", module, *map(str, arguments)]
        self.start()

    def start(self) -> None:
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with self._errors.open("w") as errors:
            self._running = subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stderr=errors, start_new_session=True
            )

    @property
    def is_done(self) -> bool:
        code = self._running.poll()
        assert code in (None, 0), self._errors.read_text()[-5000:]
        return code == 0

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("events", record("event", [Field("n", INT64)]))
    space.derive_channel("some", "events", filter=CODES[0], state={"last": 0}, parameters={"by": 2})
    space.derive_channel("sums", "some", transform=SUMMING, type=SUM, state={"n": 0}, period=SUMMARY, every=0.5)
    return space


def change(space: ChannelSpace, chance: random.Random) -> None:
    """Other parameters, or other code that continues with the state."""
    if chance.random() < 0.5:
        space.set_parameters("some", {"by": chance.randint(1, 5)})
    else:
        space.replace_channel("some", filter=chance.choice(CODES), state={"last": 0}, parameters={"by": 3})


@pytest.fixture
def processes(space: ChannelSpace, tmp_path: Path) -> Iterator[dict[str, Process]]:
    """Writers and subscribers, by what they are."""
    module = "tests.source.channels.process"
    made = {"plain": Process(tmp_path / "plain.err", module, "publish", space.root, "plain", EVENTS)}
    for producer in WRITERS:
        source = tmp_path / producer
        source.mkdir()
        for first in range(0, EVENTS, PER_FILE):
            path, numbers = source / f"{first:06}.json", range(first, min(first + PER_FILE, EVENTS))
            path.write_text("".join(f'{{"n": {n}}}\n' for n in numbers))
            os.utime(path, (first, first))  # Spark reads the older ones first
        errors, checkpoint = tmp_path / f"{producer}.err", tmp_path / f"checkpoint-{producer}"
        made[producer] = Process(errors, module, "write", space.root, producer, source, checkpoint)
    kept, checkpoint = tmp_path / "kept", tmp_path / "checkpoint-reader"
    kept.mkdir()
    made["reader"] = Process(tmp_path / "reader.err", module, "read", space.root, kept, checkpoint)
    lines = tmp_path / "kept.txt"
    made["subscriber"] = Process(tmp_path / "subscriber.err", "tests.channels.consumer", space.root, "events", lines)
    yield made
    for process in made.values():
        process.kill()


def test_every_event_is_there_once_and_in_order(
    space: ChannelSpace, processes: dict[str, Process], tmp_path: Path
) -> None:
    chance = random.Random(3)
    batches = {name: tmp_path / f"checkpoint-{name}" / "commits" for name in (*WRITERS, "reader")}
    turns = itertools.cycle(processes)
    for number in range(KILLS):
        victim = next(name for name in turns if not processes[name].is_done)
        if victim in batches and chance.random() < 0.7:  # else it may not have come far since it was started
            enough = len(files(batches[victim])) + chance.randint(1, 3)
            while len(files(batches[victim])) < enough and not any(processes[name].is_done for name in WRITERS):
                time.sleep(0.02)
        time.sleep(chance.random())
        change(space, chance)
        processes[victim].kill()
        processes[victim].start()
        print(f"kill {number + 1}, of {victim}, at {time.strftime('%X')}")
    producers = ("plain", *WRITERS)
    expected = EVENTS * len(producers)
    kept, lines = tmp_path / "kept", tmp_path / "kept.txt"
    while not all(processes[name].is_done for name in producers):
        time.sleep(0.1)
    while len(read_by_spark(kept)) < expected or len(read_by_python(lines)) < expected:
        assert not processes["reader"].is_done
        assert not processes["subscriber"].is_done
        time.sleep(0.1)
    published = [(event.position, event.producer, event.values["n"]) for event in everything(space.channel("events"))]
    for seen in (published, read_by_spark(kept), read_by_python(lines)):
        assert len({position for position, _, _ in seen}) == len(seen) == expected
        for producer in producers:
            own = [(n, position) for position, who, n in seen if who == producer]
            assert own == sorted(own)
            assert [n for n, _ in own] == list(range(EVENTS))
    assert not list(problems(ChannelSpace.open(space.root)))
    replay = check(ChannelSpace.open(space.root))
    assert {(name, producer) for name, _, producer in replay.events} == {
        (n, p) for n in ("some", "sums") for p in producers
    }


def files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if path.suffix != ".crc"]


def read_by_spark(kept: Path) -> list[tuple[Position, str, int]]:
    """What the stream kept, in the order in which it came."""
    rows = [json.loads(line) for path in sorted(kept.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [(Position.parse(position), producer, n) for position, producer, n in rows]


def read_by_python(lines: Path) -> list[tuple[Position, str, int]]:
    """What the plain subscriber kept, in the order in which it came."""
    text = lines.read_text() if lines.exists() else ""
    rows = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [(Position.parse(position), producer, int(n)) for position, producer, _, n in rows]
