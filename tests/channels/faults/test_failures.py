"""A commit that fails between any two of its steps, before or after a step's effect, exists whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pbio_spark import disk
from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.log import history
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, READING, again, everything

STEPS = ("open", "fsync", "link", "unlink", "replace")
"""The calls by which a commit touches a local disk."""


class BrokenError(OSError):
    pass


@contextmanager
def failing(number: int, *, after: bool, error: Callable[[str], OSError] = BrokenError) -> Iterator[list[str]]:
    """Let the call of that number fail, before or after it does its work. Yields the names of the calls made."""
    calls: list[str] = []

    def breaking(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name == "open" and args[1] != os.O_RDONLY:  # not of a folder: a file is read
                return original(*args, **options)
            calls.append(name)
            if len(calls) - 1 == number and not after:
                raise error(name)
            result = original(*args, **options)
            if len(calls) - 1 == number:
                if name == "open":
                    os.close(result)
                raise error(name)
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, breaking(name, getattr(os, name)))
        yield calls


def fresh(folders: pytest.TempPathFactory) -> ChannelSpace:
    space = ChannelSpace.create(str(folders.mktemp("root") / "space"))
    for name in ("counts", "others"):
        space.create_channel(name, COUNT)
    return space


def publish(space: ChannelSpace) -> int:
    """Three events on two channels, exactly once however often this is called."""
    return space.publish(
        [
            Submission("counts", [{"n": 1}, {"n": 2}], producer="p", sequence=1),
            Submission("others", [{"n": 3}], producer="p", sequence=1),
        ]
    ).events


def count_of_steps(space: ChannelSpace) -> int:
    with failing(-1, after=False) as calls:
        publish(space)
    return len(calls)


def seen(space: ChannelSpace) -> tuple[list[int], list[int]]:
    counts, others = (space.channel(name) for name in ("counts", "others"))
    return [e.values["n"] for e in everything(counts)], [e.values["n"] for e in everything(others)]


ALL = [1, 2], [3]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_commit_that_fails_anywhere_can_be_repeated(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, after: bool, with_checkpoint: bool
) -> None:
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 3 if with_checkpoint else 100)

    steps = count_of_steps(fresh(tmp_path_factory))
    assert steps > 8
    committed = []
    for number in range(steps):
        space = fresh(tmp_path_factory)
        with failing(number, after=after) as calls:
            try:
                publish(space)
            except PbioError as error:
                told = error.code
            else:
                told = ""  # only a checkpoint, or the tidying up, may fail unnoticed
        assert len(calls) >= number
        found = seen(again(space))
        assert found in {"": [ALL], "PBIO_FILE_SYSTEM": [([], [])], "PBIO_OUTCOME_UNKNOWN": [([], []), ALL]}[told]
        assert told != "PBIO_OUTCOME_UNKNOWN" or found == ALL  # a local disk can be asked, but not what it keeps
        if told:
            committed.append(found == ALL)
        for one in (space, again(space)):  # the program that saw the failure, and one that starts afresh
            publish(one)
            assert seen(one) == ALL
    assert committed == sorted(committed)
    assert not committed[0]
    assert committed[-1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
def test_a_full_or_closed_disk_is_told_and_nothing_is_published(
    tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    def error(name: str) -> OSError:
        return OSError(number, os.strerror(number))

    code = "PBIO_NO_ROOM" if number in (errno.ENOSPC, errno.EDQUOT) else "PBIO_NO_PERMISSION"
    told: dict[int, PbioError] = {}
    failed = []
    for step in range(count_of_steps(fresh(tmp_path_factory))):
        space = fresh(tmp_path_factory)
        with failing(step, after=False, error=error) as calls:
            try:
                publish(space)
            except PbioError as caught:
                if caught.code == "PBIO_OUTCOME_UNKNOWN":
                    assert calls[step:] == ["fsync"]  # of the folder, when the name of the commit is there
                else:
                    told[step] = caught
                    failed.append(calls[step])
        if step in told:
            assert (told[step].file or "").startswith(space.root)
            assert seen(space) == ([], [])
        publish(space)
        assert seen(again(space)) == ALL
    assert failed[3:4] == ["fsync"]  # of the folder of the data file, which no reader has to find
    del failed[3]
    assert failed == ["open", "fsync", "link"] * 2  # of the data file, then of the commit
    for one in told.values():
        assert one.code == code
        assert os.strerror(number) in one.reason
        assert one.hint is not None


def test_in_a_folder_that_is_read_only_all_can_be_read_and_what_cannot_be_done_is_told(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = space.create_channel("counts", COUNT)
    counts.subscribe(name="known")
    counts.submit({"n": 1})
    root = space.root

    def read_only(path: str, mode: str) -> Any:
        if mode != "rb":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return open(path, mode)

    monkeypatch.setattr(disk, "open", read_only, raising=False)
    closed = again(space)
    assert [event.values["n"] for event in everything(closed.channel("counts"))] == [1]
    assert [one.name for one in closed.subscribers()] == ["known"]
    assert list(problems(closed)) == []
    attempts: list[Callable[[], object]] = [
        lambda: closed.channel("counts").submit({"n": 2}),
        lambda: closed.channel("counts").subscribe(name="new"),
        lambda: closed.channel("counts").subscribe(lambda event: None, name="known").run(),
        lambda: closed.create_channel("readings", READING),
        lambda: ChannelSpace.create(f"{root}-another"),
    ]
    for attempt in attempts:
        with pytest.raises(PbioError, match="PBIO_NO_PERMISSION") as caught:
            attempt()
        assert caught.value.file is not None
        assert caught.value.file.startswith(root)
    monkeypatch.undo()
    assert [event.values["n"] for event in everything(counts)] == [1]
    assert [channel.name for channel in space.channels()] == ["counts"]


def test_a_folder_that_may_not_be_read_is_told(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str, flags: int) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", closed)
    with pytest.raises(PbioError, match="PBIO_NO_PERMISSION"):
        again(space)


def test_a_commit_whose_reply_was_lost_is_known_as_ones_own(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a store that is asked again by its client and answers that the file exists."""
    channel = space.create_channel("counts", COUNT)
    original = type(space.folder).create

    def create(self: Any, name: str, data: bytes) -> bool:
        original(self, name, data)
        return original(self, name, data)

    monkeypatch.setattr(type(space.folder), "create", create)
    assert channel.submit([{"n": 1}]).version == 2
    assert [event.values["n"] for event in everything(channel)] == [1]


@pytest.mark.parametrize("winner", ["we", "another", "nobody"])
def test_after_a_failure_the_store_is_asked_which_writer_made_the_commit(
    monkeypatch: pytest.MonkeyPatch, winner: str
) -> None:
    """As S3 does where two conditional requests meet: it answers with an error that says nothing of who was first."""
    root = f"memory://failing-{winner}"
    space, rival = ChannelSpace.create(root), ChannelSpace.open(root)
    space.create_channel("counts", COUNT)
    store = type(space.folder._fs)
    original = store.pipe_file

    def pipe_file(self: Any, path: str, data: bytes, **options: Any) -> Any:
        if not path.endswith(".json"):
            return original(self, path, data, **options)
        monkeypatch.setattr(store, "pipe_file", original)
        if winner == "we":
            original(self, path, data, **options)
        elif winner == "another":
            rival.channel("counts").submit({"n": 9})
        raise BrokenError("409 ConditionalRequestConflict")

    monkeypatch.setattr(store, "pipe_file", pipe_file)
    if winner == "nobody":
        with pytest.raises(PbioError, match=r"PBIO_OUTCOME_UNKNOWN.*whether commit 2 was made"):
            space.channel("counts").submit({"n": 1})
    else:
        space.channel("counts").submit({"n": 1})
    found = [event.values["n"] for event in everything(again(space).channel("counts"))]
    assert found == {"we": [1], "another": [9, 1], "nobody": []}[winner]


@pytest.mark.parametrize("meanwhile", ["another's", "the same", "a part", "a control change"])
def test_a_commit_that_lost_the_race_looks_again(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    channel = space.create_channel("counts", COUNT)
    rival = again(space)
    original = FolderLog.append

    def append(self: FolderLog, version: int, entry: bytes) -> bool:
        monkeypatch.setattr(FolderLog, "append", original)
        match meanwhile:
            case "another's":
                rival.channel("counts").submit([{"n": 9}], producer="q", sequence=0)
            case "the same":
                rival.channel("counts").submit([{"n": 1}, {"n": 2}], producer="p", sequence=1)
            case "a part":
                rival.channel("counts").submit([{"n": 1}], producer="p", sequence=1)
            case "a control change":
                rival.create_channel("others", COUNT)
        return original(self, version, entry)

    monkeypatch.setattr(FolderLog, "append", append)
    published = channel.submit([{"n": 1}, {"n": 2}], producer="p", sequence=1)
    assert published.events == {"the same": 0, "a part": 1}.get(meanwhile, 2)
    found = [event.values["n"] for event in everything(again(space).channel("counts"))]
    assert found == ([9, 1, 2] if meanwhile == "another's" else [1, 2])
    named = {
        entry.change.files[0].path
        for v in range(1, 5)
        if (entry := space.history.entry(v)) and hasattr(entry.change, "files")
    }
    assert {f"data/{name}" for name in space.folder.names("data")} == named  # what was written in vain is gone
