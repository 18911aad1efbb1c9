"""A stream whose folder goes and returns: removed, moved, closed to the reader, replaced, or behind a link."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from pbio_spark.errors import PbioError
from pbio_spark.source.datasource import PbioDataSource
from pbio_spark.source.follow.stream import PbioStreamReader
from tests.odd.permissions import bound_by_permissions
from tests.source.samples import MIDDLE, write_readings

SCHEMA = StructType([StructField("n", LongType())])
IGNORE = {"ignoreMissingFiles": "true"}


class Query:
    """What Spark does with a stream, step by step, with a restart at will."""

    def __init__(self, path: Path | str, **options: str) -> None:
        self.options = {"path": str(path), **options}
        self.restart()
        self.offset = self.reader.initialOffset()
        self.end = self.offset

    def restart(self, *, available_now: bool = False) -> None:
        reader = PbioDataSource(self.options).streamReader(SCHEMA)
        assert isinstance(reader, PbioStreamReader)
        self.reader = reader
        if available_now:
            reader.prepareForTriggerAvailableNow()

    def plan(self) -> None:
        if self.end == self.offset:
            self.end = json.loads(json.dumps(self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())))

    def tasks(self) -> list[InputPartition]:
        return list(pickle.loads(pickle.dumps(self.reader.partitions(self.offset, self.end))))

    def read(self, tasks: Sequence[InputPartition]) -> list[int]:
        rows = [n for task in tasks for batch in self.reader.read(task) for n in batch.column(0).to_pylist()]
        self.offset = self.end
        return rows

    def batch(self) -> list[int]:
        self.plan()
        return self.read(self.tasks())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_readings(tmp_path / "in/a", MIDDLE, range(3))
    write_readings(tmp_path / "in/b", MIDDLE, range(3, 5))
    return tmp_path / "in"


def away(folder: Path) -> Path:
    return folder.rename(folder.parent / "away")


def returned(folder: Path) -> None:
    (folder.parent / "away").rename(folder)


def copied_back(folder: Path) -> None:
    shutil.copytree(folder.parent / "away", folder)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("back", [returned, copied_back])
def test_a_query_resumes_when_its_folder_is_back(
    folder: Path, back: Callable[[Path], None], is_restarted: bool
) -> None:
    query = Query(folder)
    assert query.batch() == [0, 1, 2, 3, 4]
    away(folder)
    for _ in range(2):
        with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\]") as caught:
            query.batch()
        assert "ignoreMissingFiles" in str(caught.value.hint)
    back(folder)
    write_readings(folder / "a", MIDDLE, range(10, 12), append=True)
    if is_restarted:
        query.restart()
    assert query.batch() == [10, 11]


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("back", [returned, copied_back])
def test_a_stream_that_tolerates_loss_waits_for_its_folder(
    folder: Path, mode: str, back: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(folder, **IGNORE, mode=mode)
    assert query.batch() == [0, 1, 2, 3, 4]
    away(folder)
    with caplog.at_level(logging.WARNING):
        assert [query.batch(), query.batch()] == [[], []]
    assert [record.message for record in caplog.records].count(f"{folder} is gone: waiting for it to return") == 1
    query.restart(available_now=True)
    assert query.batch() == []
    back(folder)
    write_readings(folder / "c", MIDDLE, range(10, 12))
    query.restart()
    assert query.batch() == [10, 11]


def test_other_files_in_a_folder_that_returns_are_read(folder: Path) -> None:
    query = Query(folder, **IGNORE)
    query.batch()
    away(folder)
    assert query.batch() == []
    write_readings(folder / "a", MIDDLE, range(20, 23))
    assert query.batch() == [20, 21, 22]


def test_a_path_that_was_never_there_is_an_error_whatever_is_tolerated(tmp_path: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\]") as caught:
        Query(tmp_path / "typo", **IGNORE).batch()
    assert "spelling" in str(caught.value.hint)


@pytest.mark.parametrize("path", ["in/a", "in/*"])
def test_files_that_are_gone_do_not_stop_a_query_that_takes_what_is_there(folder: Path, path: str) -> None:
    query = Query(folder.parent / path)
    assert query.batch()
    shutil.rmtree(folder)
    folder.mkdir()
    query.restart(available_now=True)
    assert query.batch() == []


@pytest.mark.parametrize("is_read", [False, True])
def test_planned_rows_of_a_folder_that_is_gone_are_an_error(folder: Path, is_read: bool) -> None:
    query = Query(folder)
    query.plan()
    tasks = query.tasks()
    kept = away(folder)
    with pytest.raises(PbioError, match=r"\[PBIO_(ROWS_GONE|PATH_NOT_FOUND)\]"):
        query.read(tasks if is_read else query.tasks())
    kept.rename(folder)
    assert query.batch() == [0, 1, 2, 3, 4]


def test_planned_rows_of_a_folder_that_is_gone_may_be_tolerated(folder: Path) -> None:
    query = Query(folder, **IGNORE)
    query.plan()
    away(folder)
    assert query.batch() == []


def test_a_partition_folder_that_goes_and_returns(tmp_path: Path) -> None:
    for k in (1, 2):
        write_readings(tmp_path / f"in/k={k}/a", MIDDLE, range(10 * k, 10 * k + 2))
    query = Query(tmp_path / "in")
    assert sorted(query.batch()) == [10, 11, 20, 21]
    (tmp_path / "in/k=1").rename(tmp_path / "away")
    write_readings(tmp_path / "in/k=2/b", MIDDLE, range(30, 31))
    assert query.batch() == [30]
    (tmp_path / "away").rename(tmp_path / "in/k=1")
    write_readings(tmp_path / "in/k=1/a", MIDDLE, range(12, 13), append=True)
    query.restart()
    assert query.batch() == [12]


@pytest.mark.parametrize("mode", [0o000, 0o444], ids=oct)
@pytest.mark.parametrize("what", ["in", "in/k=1"])
@pytest.mark.parametrize("moment", ["before", "planned", "tasks"])
def test_a_folder_that_may_not_be_read_for_a_while(tmp_path: Path, mode: int, what: str, moment: str) -> None:
    write_readings(tmp_path / "in/k=1/a", MIDDLE, range(3))
    query, tasks = Query(tmp_path / "in", **IGNORE), None
    if moment != "before":
        query.plan()
    if moment == "tasks":
        tasks = query.tasks()
    with bound_by_permissions():
        (tmp_path / what).chmod(mode)
        try:
            with pytest.raises(PbioError, match=r"\[PBIO_NO_PERMISSION\]"):
                query.read(tasks) if tasks else query.batch()
        finally:
            (tmp_path / what).chmod(0o755)
        assert query.batch() == [0, 1, 2]


def test_a_file_in_place_of_a_folder_is_read(folder: Path) -> None:
    query = Query(folder)
    query.batch()
    away(folder)
    write_readings(folder, MIDDLE, range(10, 12))
    assert query.batch() == [10, 11]
    folder.unlink()
    returned(folder)
    assert query.batch() == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_link_that_leads_elsewhere(folder: Path, is_restarted: bool) -> None:
    link, other = folder.parent / "link", folder.parent / "other"
    link.symlink_to(folder)
    query = Query(link)
    assert query.batch() == [0, 1, 2, 3, 4]
    shutil.copytree(folder, other)
    write_readings(other / "a", MIDDLE, range(10, 12), append=True)
    write_readings(other / "c", MIDDLE, range(12, 14))
    link.unlink()
    link.symlink_to(other)
    if is_restarted:
        query.restart()
    assert query.batch() == [10, 11, 12, 13]  # a and b are copies of files that are gone
    write_readings(folder / "d", MIDDLE, range(20, 21))
    link.unlink()
    link.symlink_to(folder)
    assert query.batch() == [20]


def test_a_file_of_a_folder_that_was_gone_may_return_as_a_copy_under_another_name(folder: Path) -> None:
    query = Query(folder, **IGNORE)
    query.batch()
    gone = away(folder)
    assert query.batch() == []
    shutil.copytree(gone, folder)
    (folder / "a").rename(folder / "c")
    write_readings(folder / "c", MIDDLE, range(10, 12), append=True)
    write_readings(folder / "a", MIDDLE, range(20, 22))
    assert query.batch() == [10, 11, 20, 21]


def test_a_file_that_returned_while_another_folder_is_gone_may_move_on(folder: Path) -> None:
    other = folder.parent / "other"
    write_readings(other / "c", MIDDLE, range(5, 7))
    query = Query(folder)
    query.options = {"paths": json.dumps([str(folder), str(other)]), **IGNORE}
    query.restart()
    assert query.batch() == [0, 1, 2, 3, 4, 5, 6]
    kept = (folder / "a").rename(folder.parent / "kept")
    assert query.batch() == []
    other.rename(folder.parent / "away")
    shutil.copy(kept, folder / "a")
    assert query.batch() == []
    shutil.copy(folder / "a", folder / "d")
    (folder / "a").unlink()
    write_readings(folder / "d", MIDDLE, range(10, 12), append=True)
    assert query.batch() == [10, 11]
