"""A query that overwrites what it reads is refused, whatever path leads there, and nothing is removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext

from pbio_spark.errors import PbioError
from pbio_spark.source.files import being_read
from pbio_spark.source.files.being_read import EXECUTION, FOLDERS
from tests.source.by_hand import Context, save
from tests.source.local import load

ROWS = pa.RecordBatch.from_pydict({"n": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an executor."""
    return tmp_path_factory.mktemp("executor")


@pytest.fixture
def folder(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of data."""
    monkeypatch.setenv(FOLDERS, f"{own},/nowhere")
    save(tmp_path / "data", ROWS)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    yield tmp_path
    TaskContext._taskContext = None


def read(path: Path | str, query: str, **options: bool) -> None:
    """Read as a task of a query does."""
    TaskContext._taskContext = Context(0, None, {EXECUTION: query})  # type: ignore[assignment]
    load(path, **options)


def test_whatever_path_leads_there(folder: Path) -> None:
    there = sorted(os.listdir(folder / "data"))
    for number, (source, deep) in enumerate(
        (("data", False), ("link", False), ("dat*", False), ("data/part-*", False), ("", True))
    ):
        for target in ("data", "link"):
            query = f"{number}-{target}"
            read(folder / source, query, recursiveFileLookup=deep)
            with pytest.raises(PbioError, match="PBIO_OVERWRITES_ITSELF"):
                save(folder / target, ROWS, overwrite=True, conf={EXECUTION: query})
            assert [name for name in sorted(os.listdir(folder / "data")) if "_staging" not in name] == there


def test_other_folders_and_other_queries_do_not_matter(folder: Path) -> None:
    save(folder / "other", ROWS)
    read(folder / "other", "1")
    save(folder / "data", ROWS, overwrite=True, conf={EXECUTION: "1"})
    read(folder / "data", "2")
    save(folder / "data", ROWS, overwrite=True, conf={EXECUTION: "3"})
    read(folder / "data", "4")
    save(folder / "data", ROWS, conf={EXECUTION: "4"})  # an append removes nothing
    assert len(load(folder / "data")) == 6


def test_outside_of_an_executor_nothing_is_noted(folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDERS)
    read(folder / "data", "1")
    save(folder / "data", ROWS, overwrite=True, conf={EXECUTION: "1"})
    assert not list(own.iterdir())


def test_notes_are_bounded(folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(being_read, "QUERIES", 10)
    for query in range(25):
        for _ in range(3):
            read(folder / "data", str(query))
        times = (query, query)  # which the clock may not tell apart
        os.utime(own / f"pbio-reads-{query}", times)
    notes = [path for path in own.rglob("*") if path.is_file()]
    assert 0 < len(notes) <= 10
    for query in ("24", "23"):
        with pytest.raises(PbioError, match="PBIO_OVERWRITES_ITSELF"):
            save(folder / "data", ROWS, overwrite=True, conf={EXECUTION: query})
