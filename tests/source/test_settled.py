"""Python does not search imported modules for garbage after each task of a Spark process; elsewhere it does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pbio_spark.source import settled
from pbio_spark.source.reason_first import says_reason_first


@says_reason_first
class Reader:
    def read(self, partition: int) -> Iterator[int]:
        yield partition
        raise ValueError("not a source of this package")

    def partitions(self) -> list[int]:
        return [1]


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    monkeypatch.setattr(settled, "_modules", 0)
    return calls


def test_only_in_processes_of_spark_and_only_when_there_is_something_new(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    Reader().partitions()
    assert freezes == []
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    Reader().partitions()
    Reader().partitions()
    assert freezes == [1]
    monkeypatch.setitem(sys.modules, "a_module_that_was_imported_since", ModuleType("a"))
    Reader().partitions()
    assert freezes == [1, 1]


def test_at_the_end_of_what_is_read_even_if_it_fails(freezes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    values = Reader().read(3)
    monkeypatch.setattr(settled, "_modules", 0)
    freezes.clear()
    with pytest.raises(ValueError, match="not a source"):
        list(values)
    assert freezes == [1]
