"""Compaction and vacuum change no event and no position that is kept, even while others read and write."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.commits.commit import Compact, Data
from pbio_spark.channels.log import history
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.faults.test_failures import failing
from tests.channels.spaces import COUNT, NEW, OLD, READING, again, everything, reading, values

NOW = timedelta(0)


def fill(space: ChannelSpace, first: int = 0, last: int = 10) -> None:
    for n in range(first, last):
        space.publish(
            [
                Submission("readings", [reading(n), reading(n + 1)]),
                Submission("counts", [{"n": n}], producer="p", sequence=n),
            ]
        )


@pytest.fixture
def full(space: ChannelSpace) -> ChannelSpace:
    space.create_channel("counts", COUNT)
    space.create_channel("readings", READING)
    fill(space)
    return space


def files(space: ChannelSpace) -> int:
    return len(os.listdir(Path(space.root) / "data"))


def all_events(space: ChannelSpace) -> list[Any]:
    return [event for info in space.channels() for event in everything(space.channel(info.name))]


def test_compaction_changes_no_event_and_no_position(full: ChannelSpace) -> None:
    before = all_events(full)
    late = full.channel("counts").subscribe(start="earliest")
    events = late.events()
    seen = [next(events).values["n"] for _ in range(3)]
    assert full.compact() == 10
    assert files(full) == 11
    assert full.vacuum(linger=NOW).files == 10
    assert files(full) == 1
    assert all_events(full) == before
    assert all_events(again(full)) == before
    assert list(problems(full)) == []
    assert seen + [event.values["n"] for event in events] == list(range(10))
    assert full.channel("counts").submit({"n": 9}, producer="p", sequence=9).events == 0


def test_compaction_resumes_where_the_last_one_ended(full: ChannelSpace) -> None:
    assert full.compact() == 10
    assert full.compact() == 0
    fill(full, 10, 15)
    full.vacuum(linger=NOW)
    assert again(full).compact() == 5
    full.vacuum(linger=NOW)
    assert files(full) == 2
    assert values(again(full).channel("counts")) == [{"n": n} for n in range(15)]
    assert list(problems(full)) == []


def test_files_that_are_large_stay_and_new_ones_have_their_size(full: ChannelSpace) -> None:
    assert full.compact(small=10) == 0
    size = max(path.stat().st_size for path in (Path(full.root) / "data").iterdir())
    assert full.compact(target=2 * size - 50) == 10
    full.vacuum(linger=NOW)
    assert files(full) == 5
    assert list(problems(full)) == []


@pytest.mark.parametrize("after", [False, True])
def test_a_compaction_that_fails_anywhere_does_no_harm(tmp_path_factory: pytest.TempPathFactory, after: bool) -> None:
    for number in range(60):
        space = ChannelSpace.create(str(tmp_path_factory.mktemp("root") / "space"))
        space.create_channel("counts", COUNT)
        space.create_channel("readings", READING)
        fill(space, 0, 3)
        with failing(number, after=after) as calls, suppress(PbioError):
            space.compact()
        for one in (space, again(space)):
            one.compact()
            one.vacuum(grace=NOW, linger=NOW)
            assert values(one.channel("counts")) == [{"n": n} for n in range(3)]
        assert list(problems(space)) == []
        assert files(space) == 1
        if len(calls) <= number:
            return
    pytest.fail("a compaction of three files takes more than 60 steps")


def test_of_two_compactions_at_once_one_is_made(full: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that has planned to read the file of the first one finds it, however much is removed later."""
    rival, known, turns = again(full), all_events(full), [1]
    original = History.append

    def append(self: History, change: Any, holder: str = "") -> int | None:
        if isinstance(change, Compact) and turns:
            turns.pop()
            assert rival.compact() == 10
        return original(self, change, holder)

    monkeypatch.setattr(History, "append", append)
    assert full.compact() == 0
    assert full.history.catch_up().compactions == rival.history.catch_up().compactions
    assert len(full.history.state.compactions) == 1
    (made,) = {full.history.located(version, path)[0] for version, path in data_files(full)}  # type: ignore[index]
    full.vacuum(grace=NOW, linger=NOW)
    assert f"data/{os.listdir(Path(full.root) / 'data')[0]}" == made
    assert all_events(again(full)) == known
    assert list(problems(again(full))) == []


@pytest.mark.parametrize("way", ["compacted", "dropped"])
def test_a_compaction_whose_files_go_meanwhile_is_given_up(
    full: ChannelSpace, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    rival, turns = again(full), [1]
    original = Folder.read

    def read(self: Folder, path: str, *place: Any) -> bytes | None:
        if path.startswith("data/") and turns:
            turns.pop()
            if way == "compacted":
                rival.compact()
            else:
                for info in sorted(rival.channels(), key=lambda info: -info.id):  # derived ones first
                    rival.drop_channel(info)
            rival.vacuum(grace=NOW, linger=NOW)
        return original(self, path, *place)

    monkeypatch.setattr(Folder, "read", read)
    assert full.compact() == 0
    assert turns == []
    assert list(problems(again(full))) == []


def test_a_lost_file_ends_a_compaction(full: ChannelSpace) -> None:
    _, path = data_files(full)[0]
    (Path(full.root) / path).unlink()
    with pytest.raises(PbioError, match=r"PBIO_BAD_LOG.*is not the file that was committed"):
        full.compact()


def data_files(space: ChannelSpace) -> list[tuple[int, str]]:
    entries = ((version, space.history.entry(version)) for version in range(1, space.history.state.version + 1))
    return [
        (version, file.path)
        for version, entry in entries
        if entry is not None and isinstance(entry.change, Data)
        for file in entry.change.files
    ]


def ahead_by(hours: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set this machine's clock ahead, and no other one."""
    now = time.time_ns() + int(hours * 3600e9)
    monkeypatch.setattr("time.time_ns", lambda: now)


def aged(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Let time pass for all clocks."""
    ahead_by(hours, monkeypatch)
    monkeypatch.setattr(FolderLog, "now", lambda _: time.time_ns() // 1000)


def test_events_are_kept_as_long_as_their_channel_says(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    space.create_channel("counts", COUNT, keep=timedelta(hours=1))
    space.create_channel("readings", READING)
    left = space.channel("counts").subscribe(start="earliest", name="left behind")
    fill(space)
    space.channel("counts").submit({"n": 10})
    assert space.vacuum(linger=NOW).channels == ()
    aged(monkeypatch, 2)
    space.channel("counts").submit({"n": 11})
    removed = space.vacuum(linger=NOW)
    assert (removed.channels, removed.files) == (("counts",), 1)  # the others hold readings too
    assert values(again(space).channel("counts")) == [{"n": 11}]
    assert len(values(space.channel("readings"))) == 20
    assert list(problems(space)) == []
    space.drop_channel("readings")
    assert space.vacuum(linger=NOW).files == 10
    assert list(problems(space)) == []
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        list(left.events())
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        list(again(space).channel("counts").subscribe(name="left behind").events())
    behind = space.channel("counts").subscribe(name="left behind", fail_on_loss=False)
    assert [event.values["n"] for event in behind.events()] == [11]


def test_many_channels_are_trimmed_in_one_commit(space: ChannelSpace) -> None:
    names = [f"channel {n}" for n in range(5)]
    for name in names:
        space.create_channel(name, COUNT, keep=NOW).submit({"n": 1})
    before, rival = space.history.state.version, again(space)
    assert sorted(space.vacuum(linger=NOW).channels) == names
    assert space.history.state.version == before + 1
    assert rival.vacuum(linger=NOW).channels == ()
    assert all(values(again(space).channel(name)) == [] for name in names)
    assert list(problems(again(space))) == []
    space.channel("channel 3").submit({"n": 2})
    assert space.vacuum(linger=NOW).channels == ("channel 3",)


def test_a_clock_that_is_a_year_ahead_keeps_nothing_for_a_year(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counts = space.create_channel("counts", COUNT, keep=timedelta(hours=1))
    counts.submit({"n": 0})
    with monkeypatch.context() as ahead:
        ahead_by(24 * 365, ahead)
        counts.submit({"n": 1})
    assert "365.0 days ahead" in caplog.text
    counts.submit({"n": 2})
    first, *_, last = everything(counts)
    assert last.published - first.published < timedelta(hours=1)
    # In a log of old it has happened.
    with monkeypatch.context() as ahead:
        ahead.setattr(history, "AHEAD", 10**18)
        ahead_by(24 * 365, ahead)
        counts.submit({"n": 3})
    counts.submit({"n": 4})
    assert (everything(counts)[-1].published - last.published).days == 365
    assert space.vacuum(linger=NOW).channels == ()
    for path in (Path(space.root) / "_log").glob("*.json"):
        long_ago = path.stat().st_mtime - 7200
        os.utime(path, (long_ago, long_ago))
    counts.submit({"n": 5})
    aged(monkeypatch, 2)
    assert space.vacuum(linger=NOW).channels == ("counts",)
    assert values(counts) == []


def test_events_are_kept_until_every_subscriber_has_them(space: ChannelSpace) -> None:
    counts = space.create_channel("counts", COUNT, keep="subscribed")
    for n in range(6):
        counts.submit({"n": n})
    assert space.vacuum(linger=NOW).files == 0  # there are no subscribers yet
    fast, slow = (counts.subscribe(lambda event: None, start="earliest", name=name) for name in ("fast", "slow"))
    fast.run()
    assert space.vacuum(linger=NOW).files == 0
    events = slow.events()
    for _ in range(4):
        next(events)
    slow.acknowledge()
    assert space.vacuum(linger=NOW).files == 3  # the slow one is at the fourth event's file
    assert values(counts) == [{"n": n} for n in (3, 4, 5)]
    assert [event.values["n"] for event in counts.subscribe(name="slow").events()] == [4, 5]
    for _ in range(2):
        counts.unsubscribe("slow")
    assert [(one.name, one.position) for one in space.subscribers()] == [("fast", fast.position)]
    assert space.vacuum(linger=NOW).files == 3


def test_young_files_stay_and_old_ones_of_dead_writers_go(full: ChannelSpace) -> None:
    data, log = (Path(full.root) / name for name in ("data", "_log"))
    dead = [data / f"{'0' * 32}.pbio", data / ".dead.tmp", log / ".dead.tmp"]
    for path in dead:
        path.write_bytes(b"half")
    full.compact()
    assert full.vacuum().files == 0
    for path in dead[1:]:
        os.utime(path, (0, 0))
    assert full.vacuum().files == 2
    assert full.vacuum(linger=NOW).files == 10
    assert full.vacuum(grace=NOW).files == 1
    assert not any(path.exists() for path in dead)
    assert list(problems(full)) == []


def test_a_clock_that_is_ahead_removes_no_file_whose_commit_is_about_to_come(
    full: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = FolderLog.append

    def late(self: FolderLog, version: int, entry: bytes) -> bool:
        monkeypatch.undo()
        ahead_by(24 * 365, monkeypatch)
        monkeypatch.setattr("time.time", lambda: time.time_ns() / 1e9)
        assert again(full).vacuum().files == 0
        return append(self, version, entry)

    monkeypatch.setattr(FolderLog, "append", late)
    full.channel("counts").submit({"n": 10})
    monkeypatch.undo()
    assert values(again(full).channel("counts")) == [{"n": n} for n in range(11)]


def test_files_that_are_none_of_the_spaces_stay(full: ChannelSpace) -> None:
    strangers = [
        Path(full.root) / name
        for name in ("data/README", "data/a.pbio", "_log/z.checkpoint", "_log/a.groups", "_subscribers/copy of 3.json")
    ]
    for path in strangers:
        path.write_text("a stranger's")
        os.utime(path, (0, 0))
    assert full.vacuum(grace=NOW, linger=NOW).files == 0
    assert all(path.exists() for path in strangers)
    assert full.subscribers() == []
    assert list(problems(full)) == []
    assert sorted(full.folder.strangers()) == sorted(str(path.relative_to(full.root)) for path in strangers)


def test_the_newest_checkpoints_stay(full: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 2)
    fill(full, 10, 20)
    assert full.vacuum(linger=NOW).files == 3
    left = sorted(path.name for path in (Path(full.root) / "_log").glob("*.checkpoint"))
    assert left == [f"{version:020}.checkpoint" for version in (20, 22)]
    assert values(again(full).channel("counts")) == [{"n": n} for n in range(20)]


@pytest.mark.parametrize("keep", [timedelta(seconds=-1), timedelta(microseconds=-1)])
def test_a_time_that_cannot_be_is_refused(space: ChannelSpace, keep: timedelta) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        space.create_channel("counts", COUNT, keep=keep)


def test_old_and_new_readers_a_format_that_joins_and_compaction_at_once(space: ChannelSpace) -> None:
    channel = space.create_channel("loads", OLD)
    channel.submit({"average": -1.0})
    old: list[float] = []
    new: list[float] = []

    def read(handlers: dict[Any, Any], seen: list[float], last: int) -> None:
        subscription = again(space).channel("loads").subscribe(handlers, start="earliest", on_reject="drop")
        while len(seen) < last:
            subscription.run(timeout=0.01)

    def maintain() -> None:
        maintained = again(space)
        while writing.is_alive():
            maintained.compact()
            maintained.vacuum(linger=NOW)

    def write() -> None:
        written = again(space).channel("loads")
        for n in range(60):
            rows = {"average": float(n)} if n % 2 == 0 else {"total": 2.0 * n, "cpus": 2}
            written.submit(rows, format=None if n % 2 == 0 else NEW, producer="p", sequence=n)

    writing = Thread(target=write)
    threads = [
        writing,
        Thread(target=read, args=({OLD: lambda event: old.append(event.values["average"])}, old, 61)),
        Thread(target=read, args=({NEW: lambda event: new.append(event.values["total"])}, new, 30)),
    ]
    for thread in threads:
        thread.start()
    maintain()
    for thread in threads:
        thread.join()
    assert old == [-1.0, *map(float, range(60))]
    assert new == [2.0 * n for n in range(1, 60, 2)]
    assert list(problems(space)) == []


@pytest.mark.parametrize("odd", [timedelta(-1), None, 5, "1d"])
def test_spans_that_are_none_are_refused(space: ChannelSpace, odd: Any) -> None:
    for name in ("grace", "linger"):
        with pytest.raises(PbioError, match=f"PBIO_BAD_OPTION.*{name} cannot be"):
            space.vacuum(**{name: odd})


@pytest.mark.parametrize("odd", [-1, None, "1m", 1.5, True])
def test_sizes_that_are_none_are_refused(space: ChannelSpace, odd: Any) -> None:
    for name in ("small", "target"):
        with pytest.raises(PbioError, match=f"PBIO_BAD_OPTION.*{name} cannot be"):
            space.compact(**{name: odd})


@pytest.mark.parametrize("odd", [5, "", "x" * 300, b"n", "a\nb"], ids=["number", "empty", "long", "bytes", "line"])
def test_names_that_are_none_are_refused(space: ChannelSpace, odd: Any) -> None:
    with pytest.raises(PbioError, match=r"cannot be the name of a subscriber(.|\n)*characters that can be printed"):
        space.create_channel("counts", COUNT).subscribe(name=odd)
