"""A commit that fails between any two of its steps, before or after a step's effect, is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace, Submission, history
from pbio_spark.channels.log import FolderLog
from tests.channels.spaces import COUNT, again, everything

STEPS = ("open", "fsync", "link", "unlink", "replace")
"""The calls by which a commit touches a local disk."""


class BrokenError(OSError):
    pass


@contextmanager
def failing(number: int, *, after: bool) -> Iterator[list[str]]:
    """Let the call of that number fail, before or after it does its work. Yields the names of the calls made."""
    calls: list[str] = []

    def breaking(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) - 1 == number and not after:
                raise BrokenError(name)
            result = original(*args, **options)
            if len(calls) - 1 == number:
                if name == "open":
                    os.close(result)
                raise BrokenError(name)
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, breaking(name, getattr(os, name)))
        yield calls


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

    def fresh() -> ChannelSpace:
        space = ChannelSpace.create(str(tmp_path_factory.mktemp("root") / "space"))
        for name in ("counts", "others"):
            space.create_channel(name, COUNT)
        return space

    steps = count_of_steps(fresh())
    assert steps > 8
    committed = []
    for number in range(steps):
        space = fresh()
        with failing(number, after=after) as calls:
            try:
                publish(space)
            except BrokenError:
                pass
            else:
                assert seen(again(space)) == ALL  # only a checkpoint, or the tidying up, may fail unnoticed
        assert len(calls) >= number
        found = seen(again(space))
        assert found in (([], []), ALL)
        committed.append(found == ALL)
        for one in (space, again(space)):  # the program that saw the failure, and one that starts afresh
            publish(one)
            assert seen(one) == ALL
    assert committed == sorted(committed)
    assert not committed[0]
    assert committed[-1]


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
