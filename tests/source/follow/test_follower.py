"""Following a growing folder, without Spark: the records of each batch, whatever happens to files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.channels import json_to_offset
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.follow.progress import json_to_progress
from pbio_spark.source.follow.follower import FileFollower
from pbio_spark.source.follow.progress import Progress, progress_from_json, progress_to_json
from pbio_spark.source.follow.sight import short_id
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter, ItemKind, Scanner, decode
from tests.source.samples import MIDDLE, OLD, OTHER, formatted, reading, write_readings

NOW = 1_700_000_000.0


class Stream:
    """What a query does with a follower: batch after batch, offsets through JSON, and a restart at will."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder, self.options = folder, Options(**options)  # type: ignore[arg-type]
        self.offset = Progress()
        self.restart()

    def restart(self) -> None:
        self.follower = FileFollower([str(self.folder)], self.options)

    def batch(self, max_files: int | None = None, max_bytes: int | None = None) -> list[int]:
        """The numbers of the records of the next batch."""
        end = self.follower.latest(self.offset, max_files, max_bytes)
        if end is self.offset:
            return []
        self.offset = progress_from_json(json.loads(json.dumps(progress_to_json(end))))
        self.follower.refuse_new_formats()
        return list(self._read())

    def replay(self) -> list[int]:
        """The numbers of the records of the last batch, as a query reads it that starts again before it is done."""
        self.restart()
        return list(self._read(is_latest=False))

    def _read(self, is_latest: bool = True) -> Iterator[int]:
        for progress, sight in self.follower.places(self.offset, is_latest=is_latest):
            assert progress.start is not None
            known = self.follower.formats_of(progress.to, sight)
            scanner = Scanner(Path(sight.path).read_bytes(), offset=progress.start.offset, formats=dict(known))
            scanner.ordinal = progress.start.ordinal
            for item in scanner.items(progress.to.offset):
                if item.kind is ItemKind.DATA:
                    yield decode(scanner.format_of(item), scanner.read(item))["n"]  # type: ignore[misc]
            assert scanner.ordinal == progress.to.ordinal


def write(path: Path, numbers: range, *, append: bool = False, at: float = NOW) -> Path:
    write_readings(path, MIDDLE, numbers, append=append)
    os.utime(path, (at, at))
    return path


def test_new_files_and_growing_files(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    assert stream.batch() == []
    write(tmp_path / "a", range(3))
    assert stream.batch() == [0, 1, 2]
    assert stream.batch() == []
    write(tmp_path / "a", range(3, 5), append=True, at=NOW + 1)
    write(tmp_path / "b", range(10, 12), at=NOW + 2)
    assert stream.batch() == [3, 4, 10, 11]
    assert stream.batch() == []


def test_only_complete_records(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", range(2)).read_bytes()
    (tmp_path / "whole").unlink()
    stream = Stream(tmp_path)
    seen = []
    for size in range(len(whole) + 1):
        (tmp_path / "a").write_bytes(whole[:size])
        seen += [(n, size) for n in stream.batch()]
    assert [n for n, _ in seen] == [0, 1]
    assert seen[1][1] == len(whole)


def test_an_index_that_is_still_being_written(tmp_path: Path) -> None:
    path = write_readings(tmp_path / "a", MIDDLE, range(30), indexed=True)
    whole = path.read_bytes()
    block = next(i.offset for i in Scanner(whole).items() if i.kind is ItemKind.INDEX and i.offset > 1000)
    path.write_bytes(whole[:block] + bytes(256))
    stream = Stream(tmp_path)
    first = stream.batch()
    path.write_bytes(whole)
    assert first + stream.batch() == list(range(30))
    assert 0 < len(first) < 30


def test_a_restart_loses_and_doubles_nothing(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    seen = []
    for i in range(4):
        write(tmp_path / "a", range(2 * i, 2 * i + 2), append=i > 0, at=NOW + i)
        seen += stream.batch()
        stream.restart()
    assert seen == list(range(8))


def test_limits(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"{9 - i}", range(10 * i, 10 * i + 3), at=NOW + i)
    stream = Stream(tmp_path)
    assert stream.batch(max_files=1) == [0, 1, 2]
    assert stream.batch(max_files=2) == [10, 11, 12, 20, 21, 22]
    assert stream.batch(max_bytes=1) == [30]
    stream.restart()
    assert stream.batch(max_bytes=1) == [31]
    assert stream.batch() == [32]


def test_what_comes_later_is_left_to_the_next_query(tmp_path: Path) -> None:
    write(tmp_path / "a", range(4))
    stream = Stream(tmp_path)
    stream.follower.stop_growing()
    write(tmp_path / "a", range(4, 6), append=True)
    write(tmp_path / "b", range(10, 11))
    assert stream.batch(max_bytes=1) == [0]
    assert stream.batch() == [1, 2, 3]
    assert stream.batch() == []
    stream.restart()
    assert stream.batch() == [4, 5, 10]


@pytest.mark.parametrize("restart", [False, True])
def test_a_renamed_file_is_read_on(tmp_path: Path, restart: bool) -> None:
    stream = Stream(tmp_path)
    write(tmp_path / "log", range(3))
    assert stream.batch() == [0, 1, 2]
    (tmp_path / "log").rename(tmp_path / "log.1")
    if restart:
        stream.restart()
    assert stream.batch() == []
    write(tmp_path / "log.1", range(3, 5), append=True, at=NOW + 1)
    assert stream.batch() == [3, 4]


@pytest.mark.parametrize("restart", [False, True])
def test_a_rotated_file(tmp_path: Path, restart: bool) -> None:
    stream = Stream(tmp_path)
    write(tmp_path / "log", range(3))
    assert stream.batch() == [0, 1, 2]
    write(tmp_path / "log", range(3, 4), append=True, at=NOW + 1)
    (tmp_path / "log").rename(tmp_path / "log.1")
    write(tmp_path / "log", range(10, 18), at=NOW + 2)
    if restart:
        stream.restart()
    assert stream.batch() == [3, *range(10, 18)]
    assert stream.batch() == []


def test_a_truncated_file_is_another_file(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    write(tmp_path / "log", range(3))
    stream.batch()
    write(tmp_path / "log", range(50, 51), at=NOW + 1)
    assert stream.batch() == [50]


def test_old_files_are_forgotten_and_offsets_stay_small(tmp_path: Path) -> None:
    stream = Stream(tmp_path, max_file_age=100.0)
    for i in range(30):
        write(tmp_path / f"{i}", range(i, i + 1), at=NOW + 50 * i)
        assert stream.batch() == [i]
        assert len(stream.offset.files) <= 3
    write(tmp_path / "late", range(99, 100), at=NOW)
    assert stream.batch() == []
    assert stream.offset.watermark == NOW + 50 * 29


def test_new_formats(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for policy in ("log", "ignore", "fail"):
        caplog.clear()
        folder = tmp_path / policy
        write(folder / "a", range(2))
        stream = Stream(folder, on_new_format=policy)
        assert stream.batch() == [0, 1]
        write_readings(folder / "b", OLD, range(5, 6))
        if policy == "fail":
            with pytest.raises(PbioError, match=r"\[PBIO_NEW_FORMAT\]"):
                stream.batch()
            assert stream.replay() == [5]
            assert stream.batch() == []
            continue
        assert stream.batch() == [5]
        assert ("a new format appeared" in caplog.text) == (policy == "log")


def test_one_name_for_the_life_of_a_stream(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    write(tmp_path / "a", range(2))
    assert stream.batch() == [0, 1]
    stream.restart()
    write_readings(tmp_path / "b", OTHER, range(1))
    with pytest.raises(PbioError, match=r"\[PBIO_SEVERAL_FORMATS\].*reading, event"):
        stream.batch()


def test_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a", range(2))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\xff" * 20)
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_ITEM\]"):
        Stream(tmp_path).batch()
    stream = Stream(tmp_path, mode="PERMISSIVE")
    end = stream.follower.latest(Progress(), None, None)
    (progress,) = end.files
    assert (progress.to.offset, progress.damaged) == (size, size + 20)
    assert "PBIO_BAD_ITEM" in caplog.text
    stream.offset = progress_from_json(progress_to_json(end))
    stream.restart()
    path.write_bytes(path.read_bytes() + b"\xff" * 20)
    assert stream.batch() == []


def test_an_offset_of_someone_else() -> None:
    earlier = {"version": 1, "names": [], "watermark": 0, "files": {"a": {"to": [4, 0], "modified": 0}}}
    torn = {"version": 2, "names": [], "formats": [], "watermark": 0, "files": {}, "remembered": "eJw="}
    odd = {**progress_to_json(Progress()), "watermark": float("nan")}
    for offset in ({}, odd, {"version": 2}, earlier, torn, {**torn, "remembered": "?"}, {**torn, "files": {"a": {}}}):
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_OFFSET\]"):
            progress_from_json(offset)


@pytest.mark.parametrize("offset", [2, [], "x", {"logOffset": 0}], ids=str)
def test_an_offset_of_another_form_is_said_to_be_one(offset: Any) -> None:
    for read in (progress_from_json, lambda said: json_to_offset(said, "space"), json_to_progress):
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_OFFSET\]") as caught:
            read(offset)
        assert str(offset) in caught.value.reason
        assert "checkpoint" in (caught.value.hint or "")
        assert not re.search("subscriptable|has no attribute|: '", caught.value.reason.replace(str(offset), ""))


def test_an_offset_of_the_earlier_version_has_no_file_objects_of_packed_files() -> None:
    packed = (
        "eJw746+9+FOdVfe5/za5G7ZYB7BeiNy661DkXY3Lto+dHfuFT2wpiWNR/3JGKChg2YE9L35Z+XAH+51fqLYxMXhGzp11lxydP3yIiUlMZGNj"
        "YHj3jgEFMDGh8hkZAfmiJqQ="
    )
    shown = {"to": [240, 2, "c0ffee"], "head": "bead", "id": "1.2", "stamp": "f00d", "modified": 2.5}
    said = {"version": 2, "names": [], "formats": [], "watermark": 0, "files": {"/a": shown}, "remembered": packed}
    files = progress_from_json(said).files
    assert [(file.id, file.to.offset, file.is_gone) for file in files] == [
        (short_id("1.2"), 240, False),
        ("", 238, True),
        ("", 238, True),
    ]
    assert progress_from_json(progress_to_json(Progress(files=files))).files == files


def test_an_idle_stream_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("pbio_spark.source.follow.follower.time.sleep", slept.append)
    stream = Stream(tmp_path)
    stream.batch()
    stream.batch()
    assert slept[0] == 0.0 < slept[1] <= 1.0


def test_formats_without_records_are_known_too(tmp_path: Path) -> None:
    """Transforms may lead to them."""
    with FileWriter(tmp_path / "a") as writer:
        writer.describe(formatted(OLD))
        writer.data(formatted(MIDDLE), reading(MIDDLE, 0))
    stream = Stream(tmp_path)
    for n in range(3):
        assert stream.batch() == [n]
        (progress,) = stream.offset.files
        known = stream.follower.formats_of(progress.to, stream.follower.folders.files_there()[0])
        assert known.keys() == {formatted(OLD).id, formatted(MIDDLE).id}
        stream.restart()
        write_readings(tmp_path / "a", MIDDLE, range(n + 1, n + 2), append=True)
