"""How a stream identifies a file, case by case of `docs/spark/streams.md`, also where records are alike."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.source.follow.digest import BLOCK, Digest, Mark, read_marks
from pbio_spark.source.follow.progress import FileProgress, Progress, progress_from_json, progress_to_json
from pbio_spark.source.follow.sight import short_id
from pbio_spark.wire import FileWriter, Scanner
from tests.source.follow.test_follower import Stream, write
from tests.source.samples import MIDDLE, OLD, formatted, reading, write_readings


def values(path: Path, *numbers: int, append: bool = False, indexed: bool = False) -> Path:
    """A file of records that may be alike."""
    path.parent.mkdir(exist_ok=True)
    with FileWriter(path, append=append, indexed=indexed) as writer:
        for n in numbers:
            writer.data(formatted(MIDDLE), reading(MIDDLE, n))
    return path


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    (tmp_path / "in").mkdir()
    return Stream(tmp_path / "in")


@pytest.mark.parametrize("new", [(9, 9, 0, 0), (0, 0, 9, 0, 0), (0, 9, 0), (7, 0, 0, 0)])
def test_a_new_file_with_equal_records_at_the_mark(stream: Stream, new: tuple[int, ...]) -> None:
    first = values(stream.folder / "hour-01", 0, 0, 0)
    assert stream.batch() == [0, 0, 0]
    values(stream.folder / "hour-02", *new)
    first.unlink()
    stream.restart()
    assert stream.batch() == [*new]


@pytest.mark.parametrize("new", [(7, 7, 7, 0, 0), (7, 0, 0), (0, 0), (7,)])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_that_is_written_over(stream: Stream, new: tuple[int, ...], in_place: bool) -> None:
    path = values(stream.folder / "a", 0, 0, 0)
    assert stream.batch() == [0, 0, 0]
    if not in_place:
        path.unlink()
    values(path, *new)
    assert stream.batch() == [*new]


def test_a_new_file_is_not_one_that_had_been_missed(stream: Stream) -> None:
    """Heartbeats: each file like the last one, which has been removed, and whose inode the next one may get."""
    for n in range(5):
        path = values(stream.folder / f"beat-{n}", 0)
        assert stream.batch() == [0]
        path.unlink()
        assert stream.batch() == []


@pytest.mark.parametrize("keep_time", [False, True])
def test_a_copy_is_a_file_and_without_the_original_a_move(stream: Stream, keep_time: bool) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    (shutil.copy2 if keep_time else shutil.copy)(path, stream.folder / "b")
    path.unlink()
    assert stream.batch() == []
    write_readings(stream.folder / "b", MIDDLE, range(3, 4), append=True)
    assert stream.batch() == [3]
    shutil.copy(stream.folder / "b", stream.folder / "c")
    assert stream.batch() == [0, 1, 2, 3]


def test_an_index_block_that_is_rewritten_is_not_a_change(stream: Stream) -> None:
    path = values(stream.folder / "a", *range(5), indexed=True)
    assert stream.batch() == list(range(5))
    values(path, *range(5, 30), append=True, indexed=True)
    stream.restart()
    assert stream.batch() == list(range(5, 30))


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_was_read_and_then_removed_is_not_an_error(stream: Stream, restart: bool) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    path.unlink()
    for n in range(3):
        if restart:
            stream.restart()
        write(stream.folder / f"b{n}", range(n, n + 1))
        assert stream.batch() == [n]


def test_archived_and_put_back(stream: Stream, tmp_path: Path) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    path.rename(tmp_path / "a")
    write(stream.folder / "b", range(5, 6))
    assert stream.batch() == [5]
    stream.restart()
    (tmp_path / "a").rename(path)
    assert stream.batch() == []


def test_rows_that_are_gone(stream: Stream) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch(max_bytes=1) == [0]
    path.unlink()
    for _ in range(2):
        with pytest.raises(PbioError, match=r"\[PBIO_ROWS_GONE\] rows from record 1 on"):
            stream.batch()
        stream.restart()
    stream.options = type(stream.options)(ignore_missing_files=True)
    stream.restart()
    assert stream.batch() == []
    stream.options = type(stream.options)()
    stream.restart()
    assert stream.batch() == []


def test_a_planned_batch_whose_file_is_gone(stream: Stream) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    path.rename(stream.folder / "b")
    write_readings(stream.folder / "b", MIDDLE, range(3, 9), append=True)
    assert stream.replay() == [0, 1, 2]
    (stream.folder / "b").unlink()
    with pytest.raises(PbioError, match=r"\[PBIO_ROWS_GONE\] 3 rows, records 0 to 2(.|\n)*in/a"):
        stream.replay()


def test_a_bad_file_that_is_repaired_comes_once(stream: Stream) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]  # and a task fails on it
    write_readings(path, OLD, range(3))
    assert stream.replay() == []
    assert stream.batch() == [0, 1, 2]
    assert stream.batch() == []


def test_damage_that_is_repaired(stream: Stream) -> None:
    path = write(stream.folder / "a", range(5))
    whole = path.read_bytes()
    last = max(item.offset for item in Scanner(whole).items())
    path.write_bytes(whole[:last] + b"\xff" * (len(whole) - last))
    stream.options = type(stream.options)(mode="PERMISSIVE")
    stream.restart()
    first = stream.follower.latest(Progress(), None, None)
    (progress,) = first.files
    stream.offset = progress_from_json(progress_to_json(first))
    path.write_bytes(whole)
    assert stream.batch() == list(range(progress.to.ordinal, 5))


def test_the_last_file_of_a_path_or_glob_may_go(tmp_path: Path) -> None:
    for name, path in (("file", "a"), ("glob", "*")):
        folder = tmp_path / name
        write(folder / "a", range(3))
        stream = Stream(folder / path)
        assert stream.batch() == [0, 1, 2]
        (folder / "a").unlink()
        stream.restart()
        assert stream.batch() == []
        with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\]"):
            Stream(folder / path).batch()


def test_a_half_record_left_at_the_end_is_reported(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    path = write(stream.folder / "a", range(3))
    os.truncate(path, path.stat().st_size - 1)
    assert stream.batch() == [0, 1]
    path.rename(stream.folder / "a.1")
    old = stream.folder / "a.1"
    changed = old.stat().st_ctime
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbio_spark.source.follow.sight.time.time", lambda: changed + 60)
        for _ in range(3):
            assert stream.batch() == []
    assert caplog.text.count("ends inside a record") == 1
    strict = Stream(stream.folder, truncated_tail="error")
    with pytest.raises(PbioError, match=r"\[PBIO_TRUNCATED\]"):
        strict.batch()


def test_a_digest_depends_on_records_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pbio_spark.source.follow.digest.BLOCK", 300)
    path = values(tmp_path / "a", *range(40))
    with path.open("rb") as source:
        ends = read_marks(source, "a", [path.stat().st_size]).found
        (last,) = ends.values()
        assert 0 < last.base.offset < last.offset
        again = read_marks(source, "a", [last.offset], last.base, [formatted(MIDDLE)])
        assert again.found[last.offset] == last
    with values(tmp_path / "b", *range(40), indexed=True).open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        assert [mark.digest for mark in read_marks(source, "b", [size]).found.values()] == [last.digest]
    assert Digest().mark(0, 0).digest != last.digest
    assert BLOCK == 4 << 20


def test_offsets_of_many_files_are_small() -> None:
    def file(n: int) -> FileProgress:
        mark = Mark(10_000 + n, 100 + n, f"{n * 0x9E3779B97F4A7C15F39CC0605CEDC8:030x}"[-24:])
        stamp = f"{n * 0x9E3779B97F4A7C15:032x}"[-16:]
        key, id_ = f"{n * 0x2545F4914F6CDD1D:024x}"[-12:], short_id(f"{n}.2")
        return FileProgress(key, mark, f"{n:08x}", id_, stamp, 1e9 + n, f"/d/{n}")

    progress = Progress(("r",), (), 2e9, tuple(file(n) for n in range(10_000)))
    said = json.dumps(progress_to_json(progress))
    assert len(said) < 700_000
    back = progress_from_json(json.loads(said))
    assert len(back.files) == 10_000
    assert progress_to_json(progress_from_json(json.loads(json.dumps(progress_to_json(back))))) == progress_to_json(
        back
    )


def test_new_formats_are_known_over_restarts(tmp_path: Path) -> None:
    stream = Stream(tmp_path, on_new_format="fail")
    write(tmp_path / "a", range(2))
    assert stream.batch() == [0, 1]
    stream.restart()
    write_readings(tmp_path / "b", OLD, range(5, 6))
    with pytest.raises(PbioError, match=r"\[PBIO_NEW_FORMAT\]"):
        stream.batch()
    assert stream.replay() == [5]
    stream.restart()
    write_readings(tmp_path / "c", OLD, range(6, 7))
    assert stream.batch() == [6]


def test_a_file_is_read_when_its_last_record_uses_up_the_room(stream: Stream) -> None:
    path = write(stream.folder / "a", range(3))
    for n in range(3):
        assert stream.batch(max_bytes=1) == [n]
    path.unlink()
    assert stream.batch(max_bytes=1) == []


def test_a_file_that_comes_back_changed_is_known_by_every_spelling_of_its_path(stream: Stream) -> None:
    """Its name is all that is left to know it by: it is a copy, with another time."""
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    data = path.read_bytes()
    path.unlink()
    write(stream.folder / "b", range(10, 11))
    assert stream.batch() == [10]
    path.write_bytes(data)
    stream.folder.with_name("link").symlink_to(stream.folder)
    stream.folder = stream.folder.with_name("link")
    stream.restart()
    assert stream.batch() == []


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_file_that_came_back_may_be_renamed_and_grow(stream: Stream, is_seen: bool) -> None:
    path = write(stream.folder / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    away = path.rename(stream.folder.with_name("away"))
    write(stream.folder / "b", range(10, 11))
    assert stream.batch() == [10]
    if is_seen:
        away.rename(path)
        assert stream.batch() == []
        away = path
    write(away.rename(stream.folder / "c"), range(3, 4), append=True)
    assert stream.batch() == [3]


def away_for_a_batch(stream: Stream, path: Path) -> Path:
    """A file that the stream has missed, outside its folder."""
    away = path.rename(stream.folder.with_name("away"))
    values(stream.folder / "other", 90)
    assert stream.batch() == [90]
    return away


def test_a_file_that_came_back_and_was_copied_and_truncated_before_a_look(stream: Stream) -> None:
    """Its object has other records, so the copy must have them."""
    path = values(stream.folder / "a", 0, 1, 2)
    assert stream.batch() == [0, 1, 2]
    away_for_a_batch(stream, path).rename(path)
    shutil.copy(path, stream.folder / "a.1")
    values(path, 7)
    stream.restart()
    assert stream.batch() == [7]
    values(stream.folder / "a.1", 3, append=True)
    assert stream.batch() == [3]


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_file_is_not_one_whose_object_has_long_come_back_as_another(stream: Stream, restart: bool) -> None:
    path = values(stream.folder / "a", 0)
    assert stream.batch() == [0]
    away = away_for_a_batch(stream, path)
    values(away, 7)
    away.rename(path)
    assert stream.batch() == [7]
    values(stream.folder / "b", 0)
    if restart:
        stream.restart()
    assert stream.batch() == [0]


@pytest.mark.parametrize("indexed", [False, True])
def test_a_file_that_was_touched_is_known_by_its_new_time(
    stream: Stream, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pbio_spark.source.follow.sight.SETTLED", -1.0)  # what follows the records is known at once
    path = values(stream.folder / "a", 0, 1, 2, indexed=indexed)
    assert stream.batch() == [0, 1, 2]
    os.utime(path, ns=(0, path.stat().st_mtime_ns - 123_456_789_123))
    assert stream.batch() == []
    away = away_for_a_batch(stream, path)
    stream.restart()
    shutil.copy2(away, stream.folder / "b")
    assert stream.batch() == []
    settled = stream.offset
    assert stream.batch() == []
    assert stream.offset is settled


def test_a_restored_file_is_known_by_its_new_object(stream: Stream) -> None:
    path = values(stream.folder / "a", 0, 1, 2)
    assert stream.batch() == [0, 1, 2]
    data = path.read_bytes()
    path.with_name(".new").write_bytes(data)
    path.with_name(".new").rename(path)
    assert stream.batch() == []
    away = away_for_a_batch(stream, path)
    stream.restart()
    values(away.rename(stream.folder / "b"), 3, append=True)
    assert stream.batch() == [3]


def test_a_file_that_was_renamed_is_known_under_its_new_path(stream: Stream) -> None:
    path = values(stream.folder / "a", 0, 1, 2)
    assert stream.batch() == [0, 1, 2]
    path = path.rename(stream.folder / "b")
    assert stream.batch() == []
    away = away_for_a_batch(stream, path)
    stream.restart()
    shutil.copy(away, path)
    values(path, 3, append=True)
    assert stream.batch() == [3]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_new_file_is_not_one_whose_object_has_long_come_back_without_records(
    stream: Stream, restart: bool, is_read: bool
) -> None:
    """Whether or not the look at which it came back made a batch."""
    path = values(stream.folder / "a", 0, 0)
    assert stream.batch() == [0, 0]
    away = away_for_a_batch(stream, path)
    os.truncate(away, 0)
    away.rename(path)
    if is_read:
        values(stream.folder / "c", 5)
    assert stream.batch() == ([5] if is_read else [])
    if restart:
        stream.restart()
    values(stream.folder / "b", 0, 0)
    assert stream.batch() == [0, 0]


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_file_is_not_one_that_was_emptied_long_ago(stream: Stream, restart: bool) -> None:
    path = values(stream.folder / "a", 0, 0)
    assert stream.batch() == [0, 0]
    os.truncate(path, 0)
    assert stream.batch() == []
    if restart:
        stream.restart()
    values(stream.folder / "b", 0, 0)
    assert stream.batch() == [0, 0]
