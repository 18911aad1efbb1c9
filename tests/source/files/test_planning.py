"""How files are split, and by how little reading."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from ecode.types import INT32, STRING, Field, record
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.paths import opened
from pbio_spark.source.files import outlines
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import file_to_outline, outline_files
from pbio_spark.source.files.planning import plan_partitions
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter
from pbio_spark.wire.hints.sidecar import (
    STEP,
    Outline,
    Point,
    outline_from_json,
    outline_to_json,
    read_sidecar,
    sidecar_path,
    write_sidecar,
)
from tests.source.local import batches, load, plan
from tests.source.samples import MIDDLE, OLD, formatted, write_readings

LARGE = record("large", [Field("n", INT32), Field("t", STRING)])
RECORDS, SIZE = 60, 300_000
NUMBER = StructType([StructField("n", LongType()), StructField("_m", StructType([StructField("ordinal", LongType())]))])


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 18 MB, in a folder of its own; nothing about it is cached."""
    monkeypatch.setenv("ECODE_CACHE_DIR", "")
    return write_large(tmp_path / "data" / "large")


def write_large(path: Path, *, indexed: bool = False) -> Path:
    path.parent.mkdir(exist_ok=True)
    with FileWriter(path, indexed=indexed) as writer:
        for n in range(RECORDS):
            writer.data(record_to_format(LARGE), {"n": n, "t": "x" * SIZE})
    return path


def outlined(path: Path, **options: Any) -> Outline:
    (outline,) = outline_files(list_files([str(path)], Options()), Options(**options), all_formats=True)
    return outline


def index(path: Path) -> None:
    """What `pbio index` does."""
    (file,) = list_files([str(path)], Options())
    with path.open("rb") as source:
        outline, error = file_to_outline(file, source)
    assert error is None
    write_sidecar(fsspec.filesystem("file"), str(path), outline)


def read_in_parts(path: Path, **options: Any) -> int:
    """Read all records with small partitions, each record once and with its ordinal; how many partitions there are."""
    reader = plan(path, schema=NUMBER, maxPartitionBytes=str(5 << 20), metadataColumn="_m", **options)
    rows = [row for batch in batches(reader) for row in batch.to_pylist()]
    assert rows == [{"n": n, "_m": {"ordinal": n}} for n in range(RECORDS)]
    return len(reader.partitions())


def test_a_walk_finds_places_to_split(large: Path) -> None:
    outline = outlined(large)
    assert outline.is_whole
    assert outline.counts == (RECORDS,)
    assert [point.offset // STEP for point in outline.points] == [1, 2, 3, 4]
    assert read_in_parts(large) == 4


def test_beyond_the_limit_a_file_is_one_split(large: Path) -> None:
    outline = outlined(large, scan_limit=1 << 20)
    assert not outline.is_whole
    assert [form.name for form in outline.formats] == ["large"]
    assert read_in_parts(large, scanLimit="1m") == 1


def test_an_index_of_ffs(large: Path) -> None:
    write_large(large, indexed=True)
    outline = outlined(large, scan_limit=1)
    assert outline.is_whole
    assert outline.counts == (RECORDS,)
    assert read_in_parts(large, scanLimit=1) == 4


def test_a_damaged_index_costs_nothing(large: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_large(large, indexed=True)
    data = bytearray(large.read_bytes())
    data[4 + 8 : 4 + 12] = b"\0\0\0\x07"  # the ordinal of the first record
    large.write_bytes(data)
    assert read_in_parts(large, scanLimit=1) == 4
    assert "PBIO_BAD_INDEX" in caplog.text


class Counting:
    """A file that counts the bytes that are read of it."""

    def __init__(self, file: Any, read: list[int]) -> None:
        self._file, self._read = file, read

    def read(self, *size: int) -> bytes:
        data: bytes = self._file.read(*size)
        self._read.append(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def read(large: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of the large file takes, on the driver."""
    found: list[int] = []

    @contextmanager
    def open_(path: str) -> Iterator[Any]:
        with opened(path) as file:
            yield Counting(file, found)

    monkeypatch.setattr(outlines, "opened", open_)
    return found


def test_a_sidecar_spares_the_walk(large: Path, read: list[int]) -> None:
    index(large)
    assert read_in_parts(large, scanLimit=1) == 4
    read.clear()
    outlined(large, max_partition_bytes=5 << 20)
    assert 0 < sum(read) < 20_000  # what it says is compared with the file


def test_an_index_spares_all_but_the_heads(large: Path, read: list[int]) -> None:
    write_large(large, indexed=True)
    read.clear()
    assert outlined(large, scan_limit=1).is_whole
    assert 0 < sum(read) < large.stat().st_size // 50


def test_a_sidecar_of_another_file_is_ignored(large: Path) -> None:
    index(large)
    os.utime(large, (1, 1))
    fs = fsspec.filesystem("file")
    assert read_sidecar(fs, str(large), large.stat().st_size, 1.0) is None
    assert read_in_parts(large, scanLimit=1) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1, "size": 9, "modified": 0, "whole": true, "formats": [], "points": [[5, 1], [4, 2]]}',
        '{"version": 1, "size": 9, "modified": 0, "whole": true, "formats": [], "points": [[10, 1]]}',
        '{"version": 1, "size": 9, "modified": 0, "whole": true, "points": [], "formats": [{"id": "", "body": "", '
        '"records": 1}]}',
        "[" * 100_000,
    ],
)
def test_sidecars_that_are_none(text: str) -> None:
    assert outline_from_json(text) is None


def test_a_false_sidecar_is_not_used(large: Path) -> None:
    """Splits that do not begin where the ones before them end would lose records or make them up."""
    true = outlined(large)
    for shift in (-1, 1, SIZE // 2):
        points = (Point(true.points[1].offset + shift, true.points[1].ordinal),)
        samples = (true.samples[0], true.samples[2], true.samples[-1])
        lie = Outline(true.size, true.modified, true.formats, true.counts, points, True, samples)
        assert outline_from_json(outline_to_json(lie)) == lie
        write_sidecar(fsspec.filesystem("file"), str(large), lie)
        assert read_in_parts(large) == 4
        assert read_in_parts(large, truncatedTail="ignore", mode="DROPMALFORMED") == 4


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_parts_that_do_not_meet_are_an_error_in_every_mode(large: Path, mode: str) -> None:
    """A file that is replaced between planning and reading, by one of the same size."""
    reader = plan(large, schema=NUMBER, maxPartitionBytes=str(5 << 20), metadataColumn="_m", mode=mode)
    with FileWriter(large) as writer:
        for n in range(RECORDS // 2):
            writer.data(record_to_format(LARGE), {"n": n, "t": "x" * (2 * SIZE)})
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_INDEX\] the file no longer matches the plan"):
        batches(reader)


def test_what_was_found_out_is_remembered(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("ECODE_CACHE_DIR", str(tmp_path / "cache"))
    first = outlined(large)
    assert outlined(large, scan_limit=1) == first
    os.utime(large, (1, 1))
    assert not outlined(large, scan_limit=1).is_whole


def test_partitions_keep_the_order_and_about_the_size(tmp_path: Path) -> None:
    sizes = [300, 5, 5, 5, 100, 1]
    for i, size in enumerate(sizes):
        (tmp_path / str(i)).write_bytes(bytes(size << 20))
    files = list_files([str(tmp_path)], Options())
    points = tuple(Point(offset << 20, offset) for offset in range(10, 300, 10))
    outlines = [Outline(f.size, f.modified, (), (), points if f.size > 299 << 20 else (), True) for f in files]
    partitions = plan_partitions(files, outlines, Options(max_partition_bytes=100 << 20))
    found = [[(Path(s.file.path).name, s.start >> 20, s.end >> 20, s.ordinal) for s in splits] for splits in partitions]
    assert found == [
        [("0", 0, 100, 0)],
        [("0", 100, 200, 100)],
        [("0", 200, 300, 200)],
        [("1", 0, 5, 0), ("2", 0, 5, 0), ("3", 0, 5, 0)],
        [("4", 0, 100, 0)],
        [("5", 0, 1, 0)],
    ]


def test_the_sidecar_is_hidden(tmp_path: Path) -> None:
    index(write_readings(tmp_path / "a", OLD, range(2)))
    assert Path(sidecar_path(str(tmp_path / "a"))).exists()
    assert load(tmp_path) == [{"n": 0}, {"n": 1}]
    assert formatted(OLD) in outlined(tmp_path).formats


def test_the_limit_is_for_files_that_need_a_walk(large: Path) -> None:
    for i in range(5):
        (large.parent / f"{i}").write_bytes(large.read_bytes()[: 2 << 20])
    options = Options(max_partition_bytes=5 << 20, scan_limit=19 << 20)
    files = list_files([str(large.parent)], Options())
    assert [o.is_whole for o in outline_files(files, options, all_formats=False)] == [False] * 5 + [True]
    assert [o.is_whole for o in outline_files(files, options, all_formats=True)][5] is False


def test_an_old_sidecar_hides_no_format(tmp_path: Path) -> None:
    path = write_readings(tmp_path / "a", OLD, range(1))
    index(path)
    write_readings(path, MIDDLE, range(1, 2), append=True)
    assert load(tmp_path) == [{"n": 0, "unit": None}, {"n": 1, "unit": "u1"}]
