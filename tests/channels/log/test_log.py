"""Entries are created once, however many writers ask; checkpoints only shorten the way to the same state."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from threading import Thread

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.log import history
from pbio_spark.channels.log import log as log_module
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.log.state_json import state_to_json
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, again, values


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    folder = Folder(str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}")
    folder.make("_log")
    return folder


@pytest.fixture
def log(folder: Folder) -> FolderLog:
    return FolderLog(folder)


def test_an_entry_is_made_once_and_never_changes(log: FolderLog) -> None:
    assert log.read(1) is None
    assert log.append(1, b"first")
    assert not log.append(1, b"second")
    assert log.read(1) == b"first"
    assert log.spans() == [(1, 1)]


def test_an_entry_that_exists_already_is_a_lost_reply(log: FolderLog) -> None:
    assert log.append(1, b"mine")
    assert log.append(1, b"mine")


def test_of_many_threads_one_is_first(log: FolderLog) -> None:
    won: list[int] = []

    def append(number: int) -> None:
        if log.append(1, b"%d" % number):
            won.append(number)

    threads = [Thread(target=append, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert log.read(1) == b"%d" % won[0]


def test_the_newest_checkpoint_comes_first_and_a_wrong_hint_does_no_harm(folder: Folder, log: FolderLog) -> None:
    for version in (3, 7, 5):
        log.checkpoint(version, b"state %d" % version)
    assert [version for version, _ in log.checkpoints()] == [5, 7, 5, 3]  # the hint, then all
    for hint in (b"", b"nonsense", b"99", b"0", b"1" * 30):
        folder.replace("_log/_newest", hint)
        assert [version for version, _ in log.checkpoints()] == [7, 5, 3]


class Careless(MemoryFileSystem):  # type: ignore[misc]
    protocol = "careless"


def test_a_file_system_that_cannot_create_exclusively_is_refused() -> None:
    fsspec.register_implementation("careless", Careless, clobber=True)
    with pytest.raises(PbioError, match="PBIO_CANNOT_CREATE"):
        ChannelSpace.create("careless://space")


def test_nothing_but_entries_is_left_of_appending(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.make("_log")
    FolderLog(folder).append(1, b"first")
    FolderLog(folder).append(1, b"second")
    assert os.listdir(tmp_path / "_log") == ["00000000000000000001.json"]


@pytest.fixture
def checkpointed(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> ChannelSpace:
    """A space with a checkpoint of version 8, and commits after it."""
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 4)
    channel = space.create_channel("counts", COUNT)
    for n in range(9):
        channel.submit({"n": n}, producer="p", sequence=n)
    return space


def test_a_new_reader_starts_from_the_newest_checkpoint(
    checkpointed: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = FolderLog.read

    def reading(self: FolderLog, version: int) -> bytes | None:
        read.append(version)
        return original(self, version)

    monkeypatch.setattr(FolderLog, "read", reading)
    state = again(checkpointed).history.catch_up()
    assert read == [8, 9, 10, 11]  # that the checkpoint fits, two commits more, and none
    assert state_to_json(state) == state_to_json(checkpointed.history.state)


@pytest.mark.parametrize("damage", ["torn", "foreign", "other commit", "gone", "lies"])
def test_a_checkpoint_that_is_not_of_this_log_is_left_aside(checkpointed: ChannelSpace, damage: str) -> None:
    path = Path(checkpointed.root) / "_log" / f"{8:020}.checkpoint"
    made = json.loads(path.read_bytes())
    match damage:
        case "torn":
            path.write_bytes(path.read_bytes()[:40])
        case "gone":
            path.unlink()
        case "foreign":
            path.write_text(json.dumps(made | {"space": "another"}))
        case "other commit":
            path.write_text(json.dumps(made | {"commit": "another"}))
        case "lies":
            path.write_text(json.dumps(made | {"channels": [[1, "counts"]]}))
    other = again(checkpointed)
    assert state_to_json(other.history.catch_up()) == state_to_json(checkpointed.history.state)
    assert [row["n"] for row in values(other.channel("counts"))] == list(range(9))


def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_commit(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FolderLog, version: int, state: bytes) -> None:
        raise PbioError("PBIO_NO_ROOM", "no room")

    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 1)
    monkeypatch.setattr(FolderLog, "checkpoint", refuse)
    channel = space.create_channel("counts", COUNT)
    assert channel.submit({"n": 1}).events == 1
    assert values(again(space).channel("counts")) == [{"n": 1}]


def test_a_checkpoint_may_be_larger_than_a_commit(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names all producers that there ever were."""
    monkeypatch.setattr(log_module, "LONGEST_ENTRY", 5000)
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 10)
    channel = space.create_channel("counts", COUNT)
    for n in range(20):
        channel.submit({"n": n}, producer=f"producer {n} {'x' * 180}", sequence=0)
    sizes = {path.name[-13:]: path.stat().st_size for path in (Path(space.root) / "_log").glob("*.checkpoint")}
    assert [version for version, _ in FolderLog(space.folder).checkpoints()] == [20, 20, 10]
    assert max(sizes.values()) > 2 * 200 * 10
    other = again(space)
    assert other.history.state.version == 20
    assert state_to_json(other.history.catch_up()) == state_to_json(space.history.state)


def test_a_checkpoint_that_is_too_large_is_told(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_module, "LONGEST_CHECKPOINT", 100)
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 1)
    channel = space.create_channel("counts", COUNT)
    assert channel.submit({"n": 1}).events == 1
    assert "cannot write the checkpoint of version 2" in caplog.text
