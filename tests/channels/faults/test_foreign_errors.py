"""Whatever a disk, a store or a library raises, the user gets a PbioError."""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.faults.test_failures import failing
from tests.channels.spaces import COUNT, READING, again, everything


def everything_public(space: ChannelSpace) -> dict[str, Callable[[], object]]:
    """All that writes, each of which does something each time that it is called."""
    number = itertools.count()
    counts = space.channel("counts")

    def subscribe() -> None:
        counts.subscribe(lambda event: None, name=f"subscriber {next(number)}", start="earliest").run()

    return {
        "submit": lambda: counts.submit({"n": 1}, producer=f"producer {next(number)}", sequence=0),
        "sync": lambda: counts.submit({"n": 1}, delivery="sync", sync_timeout=0.01),
        "create": lambda: space.create_channel(f"channel {next(number)}", READING),
        "set": lambda: space.set_parameters("few", {"least": next(number)}),
        "subscribe": subscribe,
        "unsubscribe": lambda: counts.unsubscribe("subscriber 0"),
        "compact": lambda: [counts.submit({"n": 1}), counts.submit({"n": 1}), space.compact()],
        "vacuum": lambda: space.vacuum(grace=timedelta(0), linger=timedelta(0)),
    }


@contextmanager
def appending(patch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, bytes, object]]]:
    """What became of each commit: whether it was made, or the error."""
    original = FolderLog.append
    made: list[tuple[int, bytes, object]] = []

    def append(self: FolderLog, version: int, entry: bytes) -> bool:
        outcome: object = None
        try:
            outcome = original(self, version, entry)
            return outcome
        except PbioError as error:
            outcome = error.code
            raise
        finally:
            made.append((version, entry, outcome))

    with patch.context() as context:
        context.setattr(FolderLog, "append", append)
        yield made


def check_appended(space: ChannelSpace, made: list[tuple[int, bytes, object]]) -> None:
    for version, entry, outcome in made:
        is_there = FolderLog(space.folder).read(version) == entry
        assert outcome is not None  # else it was no PbioError
        assert outcome == "PBIO_OUTCOME_UNKNOWN" or is_there == (outcome is True), outcome


@pytest.mark.parametrize("after", [False, True])
def test_whatever_a_disk_says_errors_are_ours_and_say_what_they_know(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    numbers = itertools.cycle([errno.EMFILE, errno.EROFS, errno.ENOSPC, errno.EIO, 0])

    def error(name: str) -> OSError:
        return OSError(number, os.strerror(number)) if (number := next(numbers)) else OSError()

    space.create_channel("counts", COUNT)
    space.derive_channel("few", "counts", filter="{ return input.n > param.least; }", parameters={"least": 0})
    told: set[str] = set()
    for act in everything_public(space).values():
        for step in range(100):
            with appending(monkeypatch) as made, failing(step, after=after, error=error) as calls:
                try:
                    act()
                except PbioError as caught:
                    told.add(caught.code)
            check_appended(space, made)
            if len(calls) <= step:
                break
        else:
            pytest.fail("an action takes more than 100 steps")
    assert list(problems(again(space))) == []
    assert {"PBIO_OUTCOME_UNKNOWN", "PBIO_NO_PERMISSION", "PBIO_NO_ROOM", "PBIO_FILE_SYSTEM"} <= told


@pytest.mark.parametrize("kind", ["memory", "bucket"])
def test_whatever_a_store_raises_errors_are_ours_and_say_what_they_know(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ChannelSpace.create("memory://raises" if kind == "memory" else request.getfixturevalue("bucket"))
    space.create_channel("counts", COUNT)
    space.derive_channel("few", "counts", filter="{ return input.n > param.least; }", parameters={"least": 0})
    store = space.folder._fs
    chance = random.Random(7)
    told: set[str] = set()
    for act in everything_public(space).values():
        for _ in range(12 if kind == "memory" else 2):
            after = chance.random() < 0.5
            lost = LibraryError("no connection"), TimeoutError(), OSError(errno.EIO, "broken"), OSError()
            error = chance.choice([*lost] if after else [*lost, PermissionError("Access denied")])
            turns = itertools.count(-chance.randrange(4))
            with appending(monkeypatch) as made, monkeypatch.context() as broken:
                for name in ("pipe_file", "rm_file"):
                    broken.setattr(store, name, raising(getattr(store, name), turns, error, after))
                try:
                    act()
                except PbioError as caught:
                    told.add(caught.code)
            check_appended(space, made)
    assert {"PBIO_NO_PERMISSION", "PBIO_FILE_SYSTEM"} <= told
    assert list(problems(again(space))) == []


def raising(original: Callable[..., Any], turns: Iterator[int], error: Exception, after: bool) -> Callable[..., Any]:
    """A method that raises an error, before or after it does its work, when its turn is 0."""

    def call(*said: Any, **more: Any) -> Any:
        turn = next(turns)
        if turn == 0 and not after:
            raise error
        made = original(*said, **more)
        if turn == 0:
            raise error
        return made

    return call


class LibraryError(Exception):
    """As the library of a store raises them: no OSError."""


def test_a_failure_while_reading_is_a_pbio_error(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = space.create_channel("counts", COUNT)
    counts.submit({"n": 1})

    def too_many(path: str, flags: int) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(os, "open", too_many)
    attempts: list[Callable[[], object]] = [
        lambda: again(space),
        lambda: space.channel("counts"),
        lambda: counts.submit({"n": 2}),
        lambda: everything(counts),
    ]
    for attempt in attempts:
        with pytest.raises(PbioError, match=r"PBIO_FILE_SYSTEM.*Too many open files"):
            attempt()
    monkeypatch.undo()
    assert [event.values["n"] for event in everything(counts)] == [1]


def test_what_a_library_raises_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    space = ChannelSpace.create("memory://library")
    counts = space.create_channel("counts", COUNT)

    def fail(*args: Any, **options: Any) -> Any:
        raise LibraryError("could not connect")

    attempts: dict[str, list[Callable[[], object]]] = {
        "cat_file": [lambda: again(space), lambda: counts.submit({"n": 9}), lambda: space.folder.read("_space.json")],
        "ls": [lambda: space.folder.names("data"), lambda: list(space.formats), space.vacuum],
        "_open": [lambda: space.folder.open("_space.json"), lambda: everything(again(space).channel("counts"))],
        "modified": [lambda: space.folder.modified("_space.json")],
    }
    for name, those in attempts.items():
        for attempt in those:
            with monkeypatch.context() as broken:
                broken.setattr(type(space.folder._fs), name, fail)
                with pytest.raises(PbioError, match=r"PBIO_FILE_SYSTEM.*could not connect"):
                    attempt()
    with monkeypatch.context() as broken:
        broken.setattr(type(space.folder._fs), "pipe_file", fail)
        with pytest.raises(PbioError, match=r"PBIO_FILE_SYSTEM.*could not connect"):
            counts.submit({"n": 9})
    counts.submit({"n": 1})
    assert everything(counts)[-1].values == {"n": 1}
