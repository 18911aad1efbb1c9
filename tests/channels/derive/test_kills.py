"""Writers that are killed while code and parameters change: derived channels equal the replay."""

from __future__ import annotations

import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from ecode.types import FLOAT64, INT64, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace
from tests.channels.derive import writer
from tests.channels.derive.replay import check
from tests.channels.spaces import again, everything
from tests.children import end, start, wait_for_lines

KILLS = int(os.environ.get("PBIO_KILLS", 100 if os.environ.get("PBIO_LONG") else 3))
LONG = KILLS > 3

TICK = record("tick", [Field("n", INT64), Field("x", FLOAT64), Field("name", STRING)])
SUM = record("sum", [Field("n", INT64), Field("sum", FLOAT64), Field("last", STRING)])

CHANGED = """{
    if (input.x - state.last < param.by && state.last - input.x < param.by) return 0;
    state.last = input.x;
    return 1;
}"""
OTHER = """{
    static int calls = 0;
    calls++;
    if (input.n / (input.n % 7 - 3) > 1000000) return 0;  // a trap now and then
    state.last = input.x;
    return calls % 2;
}"""
SUMMING = """{
    state.n += 1;
    state.sum += input.x;
    state.last = input.name;
    output.n = input.n;
    output.last = input.name;
    return input.n % 4 == 0;
}"""
SUMMARY = """{
    output.n = 0 - state.n;
    output.sum = state.sum;
    output.last = state.last;
    state.sum = 0;
    return emitted < 1 ? 2 : 1;
}"""


def derive(space: ChannelSpace) -> None:
    space.create_parameters("bounds", {"least": 0, "names": ["a"]})
    space.derive_channel("changed", "ticks", filter=CHANGED, state={"last": 0.0}, parameters={"by": 1.0})
    space.derive_channel("some", "ticks", filter="{ return input.n % 10 >= param.least; }", parameters="bounds")
    space.derive_channel(
        "sums",
        "ticks",
        transform=SUMMING,
        type=SUM,
        state={"n": 0, "sum": 0.0, "last": ""},
        period=SUMMARY,
        every=0.05,
        dequeue="{ return input.n < 0 || state.n % 2 == 1; }",
    )


def change(space: ChannelSpace, chance: random.Random) -> None:
    """Something happens to the code."""
    match chance.randrange(5):
        case 0:
            if space.parameters("changed"):
                space.set_parameters("changed", {"by": chance.choice([0.5, 5.0, 20.0])})
        case 1:
            space.set_parameters("bounds", {"least": chance.randrange(10), "names": ["a"] * chance.randrange(3)})
        case 2:
            space.replace_channel("changed", filter=OTHER, state={"last": 0.0})
        case 3:
            space.replace_channel("changed", filter=CHANGED, state={"last": 0.0}, parameters={"by": 3.0})
        case 4:
            space.replace_channel("some", filter="{ return input.n % 10 < param.least; }", parameters="bounds")


@pytest.fixture
def ticks(space: ChannelSpace) -> Channel:
    return space.create_channel("ticks", TICK)


def test_writers_that_are_killed_while_code_and_parameters_change(ticks: Channel, tmp_path: Path) -> None:
    space = ticks.space
    derive(space)
    chance = random.Random(3)
    stop = tmp_path / "stop"

    def begin(producer: str) -> BaseProcess:
        return start(tmp_path / producer, writer.main, space.root, producer, str(stop))

    running = {producer: begin(producer) for producer in "pq"}
    changed = time.monotonic()
    try:
        for _ in range(KILLS):
            who = chance.choice([*running])
            wait_for_lines(running[who], tmp_path / who, chance.randint(1, 10))  # it is at work
            if time.monotonic() - changed > (1.0 if LONG else 0.2):
                change(space, chance)
                changed = time.monotonic()
            time.sleep(chance.uniform(0, 0.02))
            end(running[who])
            running[who] = begin(who)
        for who, process in running.items():
            wait_for_lines(process, tmp_path / who, 1)
        stop.touch()
        for process in running.values():
            process.join()
            assert process.exitcode == 0
    finally:
        for process in running.values():
            end(process)
    published = [(event.producer, event.values["n"]) for event in everything(again(space).channel("ticks"))]
    for producer in "pq":
        numbers = [n for who, n in published if who == producer]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > KILLS
    replay = check(again(space))
    assert {name for name, _, _ in replay.events} == {"changed", "some", "sums"}
    print(f"{KILLS} kills, {len(published)} ticks, {len(replay.events)} commits with derived events of a producer")
