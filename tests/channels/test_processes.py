"""Processes on one space, killed at any time: no event is lost, duplicated, torn, or out of its producer's order."""

from __future__ import annotations

import os
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.commits.commit import Data
from tests.channels import consumer, producer
from tests.channels.spaces import COUNT, again, everything
from tests.children import end, start, wait_for_lines

LONG = bool(os.environ.get("PBIO_LONG"))
EVENTS, KILLS = (5_000, 100) if LONG else (120, 4)
"""Of each of two producers on each of two channels; of the processes, by turns."""


def space_with_channels(root: str) -> ChannelSpace:
    space = ChannelSpace.create(root)
    for name in "ab":
        space.create_channel(name, COUNT)
    return space


def check(space: ChannelSpace, producers: list[str], count: int) -> None:
    """Each producer's events are there once, in its order, with the numbers that they were given."""
    for name in "ab":
        events = everything(again(space).channel(name))
        assert [event.position for event in events] == sorted({event.position for event in events})
        for who in producers:
            own = [(event.sequence, event.values["n"]) for event in events if event.producer == who]
            assert own == [(n, n) for n in range(count)]
        assert len(events) == count * len(producers)


@pytest.mark.parametrize("store", ["disk", "bucket"])
def test_processes_publish_to_one_space_at_once_while_its_store_fails(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    root = str(tmp_path / "space") if store == "disk" else request.getfixturevalue("bucket")
    space = space_with_channels(root)
    writers, batches, size, failures = (8, 250, 3, 20) if LONG else (3, 20, 3, 300)
    producers = [f"p{i}" for i in range(writers)]
    count = batches // 2 * size
    out = tmp_path / "out"
    running = [start(out, producer.main, space.root, name, 0, count, size, failures) for name in producers]
    for process in running:
        process.join()
        assert process.exitcode == 0, out.read_text()
    check(space, producers, count)
    entries = [space.history.entry(version) for version in range(1, space.history.catch_up().version + 1)]
    # On a slow store writers take turns besides.
    assert sum(entry is not None and isinstance(entry.change, Data) for entry in entries) == writers * batches


def test_processes_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    space = space_with_channels(str(tmp_path / "space"))
    chance = random.Random(7)
    producers = ["p0", "p1"]
    kept = {name: tmp_path / f"kept-{name}" for name in "ab"}

    def begin(who: str) -> BaseProcess:
        if who in producers:
            return start(tmp_path / who, producer.main, space.root, who, 0, EVENTS, 2, 0)
        return start(tmp_path / who, consumer.main, space.root, who, str(kept[who]))

    running = {who: begin(who) for who in (*producers, *kept)}
    try:
        for number in range(KILLS):
            who = [*running][number % len(running)]
            if who in producers:
                # It is at work, and does not stop for us.
                try:
                    wait_for_lines(running[who], tmp_path / who, chance.randint(1, 20))
                except EOFError:  # on a busy machine one may be through before it is killed
                    if running[who].exitcode:
                        raise
            time.sleep(chance.uniform(0, 0.02 if who in producers else 0.5))
            end(running[who])
            running[who] = begin(who)
        for name in producers:
            running[name].join()
            assert running[name].exitcode == 0, (tmp_path / name).read_text()
        check(space, producers, EVENTS)
        expected = {name: len(everything(space.channel(name))) for name in "ab"}
        while any(path.read_bytes().count(b"\n") < expected[name] for name, path in kept.items()):
            assert all(running[name].is_alive() for name in kept)
            time.sleep(0.05)
    finally:
        for process in running.values():
            end(process)
    for name, path in kept.items():
        lines = [line.split() for line in path.read_text().splitlines()]
        assert [(p, q, int(s), int(n)) for p, q, s, n in lines] == [
            (str(event.position), event.producer, event.sequence, event.values["n"])
            for event in everything(space.channel(name))
        ]
