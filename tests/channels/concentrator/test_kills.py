"""Writers, with and without a concentrator that is killed and restarted all the time: each event is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace, Concentrator
from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.upkeep.check import problems
from tests.channels.concentrator import writer
from tests.channels.spaces import COUNT, again, everything
from tests.children import end, run_pbio, start

pytestmark = pytest.mark.usefixtures("sockets")

LONG = bool(os.environ.get("PBIO_LONG"))
STOPS = int(os.environ.get("PBIO_KILLS", 100 if LONG else 5))
KILLS = int(os.environ.get("PBIO_KILLS", 100 if LONG else 2))


def concentrate(root: str, folder: Path) -> BaseProcess:
    """A concentrator that listens; it prints to a file of its own number."""
    out = folder / "concentrator"
    out.unlink(missing_ok=True)
    made = start(out, run_pbio, "space", "concentrate", root)
    while "commits for the writers" not in (out.read_text() if out.exists() else ""):
        assert made.is_alive()
        time.sleep(0.005)
    return made


def space_with_channels(root: str) -> ChannelSpace:
    space = ChannelSpace.create(root)
    for name in "ab":
        space.create_channel(name, COUNT)
    space.derive_channel("odd", "a", filter="{ return input.n % 2; }")
    return space


def applications(space: ChannelSpace) -> int:
    """How many concentrators have committed something."""
    entries = (space.history.entry(version) for version in range(1, space.history.catch_up().version + 1))
    changes = (entry.change for entry in entries if entry is not None)
    return len({one.transaction.application for one in changes if isinstance(one, Data) and one.transaction})


def check(space: ChannelSpace, said: dict[str, str]) -> None:
    """All events are there once, in order.

    Args:
        said: by the name and number of each writer's process, what it said.
    """
    found: dict[str, dict[str, list[int]]] = {}
    for channel in "a", "odd", "b":
        for event in everything(again(space).channel(channel)):
            assert channel != "a" or event.sequence == event.values["n"]
            found.setdefault(channel, {}).setdefault(event.producer or "", []).append(event.values["n"])
    for process, text in said.items():
        name = process.split()[0]
        lines = [line.split() for line in text.splitlines()]
        tried, did, put = ([int(line[1]) for line in lines if line[0] == word] for word in ("try", "did", "put"))
        numbered, own = found["a"].get(name, []), found["b"].get(process, [])
        # None twice, in order, and none is left out; what was not answered may be there.
        assert numbered == list(range(len(numbered)))
        assert not put or put[-1] < len(numbered)
        assert found["odd"].get(name, []) == [n for n in numbered if n % 2]
        assert set(did) <= set(own)
        assert not own or own == list(range(tried[0], own[-1] + 1))
        assert not own or tried[-1] - 4 <= own[-1] < tried[-1] + 4
    assert set(found["a"]) <= {process.split()[0] for process in said}
    assert set(found["b"]) <= set(said)
    assert list(problems(again(space))) == []


class Writers:
    """Processes that publish until they are stopped."""

    def __init__(self, root: str, folder: Path, uses: dict[str, str], patience: float = 60.0) -> None:
        """
        Args:
            uses: by the name of each, its use of a concentrator.
            patience: seconds that a concentrator may say nothing.
        """
        self._root, self._folder, self._uses, self._patience = root, folder, uses, patience
        self._files: dict[str, Path] = {}
        self.running = {name: self.begin(name) for name in uses}

    def begin(self, name: str) -> BaseProcess:
        path = self._folder / f"{name}-{len(self._files)}"
        path.touch()
        stop = str(self._folder / "stop")
        made = start(path, writer.main, self._root, name, self._uses[name], str(len(self._files)), stop, self._patience)
        self._files[f"{name} {made.pid}"] = path
        return made

    @property
    def said(self) -> dict[str, str]:
        return {process: path.read_text() for process, path in self._files.items()}

    def work(self, publications: int) -> None:
        """Wait until they have published so much more."""
        count = sum(text.count("did") for text in self.said.values()) + publications
        while sum(text.count("did") for text in self.said.values()) < count:
            assert all(process.is_alive() for process in self.running.values())
            time.sleep(0.01)

    def stop(self) -> None:
        (self._folder / "stop").touch()
        for name, process in self.running.items():
            process.join()
            assert process.exitcode == 0, name

    def kill(self, name: str) -> None:
        end(self.running[name])
        self.running[name] = self.begin(name)


def run(space: ChannelSpace, tmp_path: Path, kills: int, uses: dict[str, str]) -> None:
    """Kill the concentrator so often, and a writer at every third time, while all publish; then stop in order."""
    chance = random.Random(7)
    concentrator = concentrate(space.root, tmp_path)
    writers = Writers(space.root, tmp_path, uses)
    try:
        for number in range(kills):
            writers.work(2 * len(uses))
            # What writers have prepared is prepared again.
            space.create_channel(f"other {number}", COUNT)
            time.sleep(chance.uniform(0, 0.05))
            end(concentrator)
            if number % 3 == 1:
                writers.kill(chance.choice([*uses]))
            if number % 2:
                writers.work(1)
            concentrator = concentrate(space.root, tmp_path)
        writers.work(2 * len(uses))
        concentrator.terminate()
        concentrator.join()
        assert concentrator.exitcode == 0
        assert "publications: " in (tmp_path / "concentrator").read_text()
        writers.work(1)
        writers.stop()
    finally:
        for process in (concentrator, *writers.running.values()):
            end(process)
    check(space, writers.said)
    events = sum(info.events for info in again(space).channels())
    print(f"{kills} kills, commits: {space.history.catch_up().version}, events: {events}")
    assert applications(again(space)) >= max(1, kills / 2)


def test_each_event_is_there_once_whatever_is_killed(tmp_path: Path) -> None:
    space = space_with_channels(str(tmp_path / "space"))
    run(space, tmp_path, KILLS, {"w0": "auto", "w1": "auto", "w2": "auto", "w3": "off"})


@pytest.mark.skipif(not (LONG or KILLS > 2), reason="long: moments at which it dies are tested on a bucket, too")
def test_each_event_is_there_once_in_a_bucket_that_fails(tmp_path: Path, bucket: str) -> None:
    space = space_with_channels(bucket)
    run(space, tmp_path, max(1, KILLS // 4), {"w0": "auto", "w1": "auto"})


def test_each_event_is_there_once_whenever_it_is_stopped(tmp_path: Path) -> None:
    """Writers continue without a stopped concentrator; when it resumes, it publishes none of their events again."""
    space = space_with_channels(str(tmp_path / "space"))
    chance = random.Random(11)
    concentrator = concentrate(space.root, tmp_path)
    assert concentrator.pid is not None
    writers = Writers(space.root, tmp_path, {"w0": "auto", "w1": "auto", "w2": "auto", "w3": "off"}, 0.3)
    try:
        for _ in range(STOPS):
            writers.work(8)
            time.sleep(chance.uniform(0, 0.1))
            os.kill(concentrator.pid, signal.SIGSTOP)
            time.sleep(chance.choice([0, 0, chance.uniform(0, 0.3)]))
            writers.work(chance.choice([0, 0, 8]))
            os.kill(concentrator.pid, signal.SIGCONT)
        writers.stop()
        concentrator.terminate()
        concentrator.join()
        assert concentrator.exitcode == 0
    finally:
        for process in (concentrator, *writers.running.values()):
            end(process)
    check(space, writers.said)
    totals = (tmp_path / "concentrator").read_text()
    print(f"{STOPS} stops, commits: {again(space).history.catch_up().version}; {totals.splitlines()[-1]}")
    assert applications(again(space)) == 1


def test_two_do_not_run_at_once(tmp_path: Path) -> None:
    space = space_with_channels(str(tmp_path / "space"))
    with Concentrator(space):
        out = tmp_path / "second"
        second = start(out, run_pbio, "space", "concentrate", space.root)
        second.join()
    assert second.exitcode == 1
    assert f"process {os.getpid()} is already the concentrator of this space" in out.read_text()
