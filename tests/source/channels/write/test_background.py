"""Files in the background are added in order, one at a time; no failure is lost, and at the end none is under way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.source.channels.background import BackgroundFiles


class Slow:
    """A folder that adds a file when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.begun: list[str] = []
        self.added: list[str] = []

    def add(self, name: str, data: bytes | Sequence[Any]) -> None:
        self.begun.append(name)
        self.go.acquire()
        if data == b"bad":
            raise PbioError("PBIO_NO_ROOM", "no room", file=name)
        self.added.append(name)


def test_one_file_at_a_time_and_all_at_the_end() -> None:
    folder = Slow()
    with BackgroundFiles(folder) as files:
        files.add("a", b"")
        assert folder.added == []
        folder.go.release()
        files.add("b", b"")  # waits for the one before
        assert folder.added == ["a"]
        folder.go.release()
        files.wait()
        assert folder.added == ["a", "b"]
        files.add("c", b"")
        folder.go.release()
    assert folder.added == ["a", "b", "c"]


def test_a_failure_is_raised_by_the_next_call_and_nothing_after_it_begins() -> None:
    folder = Slow()
    with BackgroundFiles(folder) as files:
        files.add("a", b"bad")
        folder.go.release()
        with pytest.raises(PbioError, match="PBIO_NO_ROOM"):
            files.add("b", b"")
        files.wait()
    assert folder.begun == ["a"]
    with BackgroundFiles(folder) as files:
        files.add("c", b"bad")
        folder.go.release()
        with pytest.raises(PbioError, match="PBIO_NO_ROOM"):
            files.wait()


def test_an_error_of_the_caller_waits_for_the_file_that_is_being_written() -> None:
    folder = Slow()
    with suppress(KeyError), BackgroundFiles(folder) as files:
        files.add("a", b"")
        threading.Timer(0.05, folder.go.release).start()
        raise KeyError
    assert folder.added == ["a"]
