"""Files that change between planning and reading, or while they are read: no planned row disappears silently."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import pbio_spark as pbio
from pbio_spark.errors import PbioError
from pbio_spark.paths import locate
from pbio_spark.source.files import splits
from pbio_spark.source.files.changed import OpenState, check_planned, look
from pbio_spark.source.files.listing import ListedFile
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.source.files.planning import Split
from pbio_spark.source.files.reader import PbioPartition
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter
from pbio_spark.wire.hints.sidecar import STEP, write_sidecar
from tests.source.local import batches, plan
from tests.source.samples import MIDDLE, write_readings

LOAD = pbio.parse_record({"Load": {"x": "int32", "text": "string"}})
RECORDS = 2000
TOLERANT = {"ignoreCorruptFiles": True, "ignoreMissingFiles": True}
LARGE = pbio.Format.of(pbio.parse_record({"large": {"n": "int64", "text": "string"}}))


def write(path: Path, records: int, first: int = 0) -> Path:
    with pbio.open_writer(path, LOAD) as writer:
        writer.write([{"x": first + n, "text": "a" * 50} for n in range(records)])
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write(tmp_path / "in/b.ffs", RECORDS)


def item_size(file: Path) -> int:
    few = write(file.parent.parent / "few", RECORDS - 1)
    return file.stat().st_size - few.stat().st_size


def shorter(by_items: int, by_bytes: int = 0) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        os.truncate(file, max(0, file.stat().st_size - by_items * item_size(file) - by_bytes))

    return change


def replaced(file: Path) -> None:
    os.replace(write(file.parent.parent / "new", RECORDS // 2, 10_000), file)


CHANGES: dict[str, Callable[[Path], None]] = {
    "one record less": shorter(1),
    "half a record less": shorter(0, 40),
    "emptied": shorter(RECORDS * 2),
    "replaced by a shorter one": replaced,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"])
@pytest.mark.parametrize("more", [{}, {"maxPartitionBytes": "30k"}, {"ignoreCorruptFiles": True}], ids=str)
def test_a_file_that_became_shorter_is_an_error(file: Path, change: str, mode: str, more: dict[str, Any]) -> None:
    reader = plan(file.parent, mode=mode, **more)
    CHANGES[change](file)
    with pytest.raises(PbioError, match=r"\[PBIO_(ROWS_GONE|TRUNCATED|BAD_ITEM)\]"):
        batches(reader)


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_with_checksums_that_became_shorter_is_not_taken_for_a_corrupt_one(file: Path, change: str) -> None:
    with file.open("rb") as source:
        found = file.stat()
        outline, _ = file_to_outline(ListedFile(str(file), found.st_size, found.st_mtime), source)
        write_sidecar(*locate(str(file)), outline.with_sums(source))
    reader = plan(file.parent, ignoreCorruptFiles=True)
    CHANGES[change](file)
    with pytest.raises(PbioError, match=r"\[PBIO_ROWS_GONE\]"):
        batches(reader)


@pytest.mark.parametrize("change", ["one record less", "half a record less"])
@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED"}, {"truncatedTail": "ignore"}], ids=str)
def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(
    file: Path, change: str, options: dict[str, Any]
) -> None:
    reader = plan(file.parent, recordsPerBatch=100, maxBatchBytes="20k", **options)
    (place,) = reader.partitions()
    found = iter(reader.read(place))
    rows = next(found).num_rows
    CHANGES[change](file)
    with pytest.raises(PbioError, match=r"\[PBIO_(ROWS_GONE|TRUNCATED)\]"):
        rows += sum(batch.num_rows for batch in found)
    assert rows <= RECORDS


def test_rows_that_may_be_missing_may_be_cut_off(file: Path) -> None:
    reader = plan(file.parent, ignoreMissingFiles=True)
    CHANGES["one record less"](file)
    assert sum(batch.num_rows for batch in batches(reader)) == RECORDS - 1


def test_appending_to_a_file_with_index_and_checksums_makes_it_not_corrupt(tmp_path: Path) -> None:
    path = write_readings(tmp_path / "a.ffs", MIDDLE, range(300), indexed=True)
    found = path.stat()
    with path.open("rb") as source:
        outline, _ = file_to_outline(ListedFile(str(path), found.st_size, found.st_mtime), source)
        write_sidecar(*locate(str(path)), outline.with_sums(source))
    reader = plan(tmp_path)
    write_readings(path, MIDDLE, range(300, 310), append=True, indexed=True)
    assert [row["n"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(300))


def test_checksums_of_planned_blocks_hold_though_the_file_grew(tmp_path: Path) -> None:
    """Appending overwrites the last index block, near the end of the file."""
    path = tmp_path / "a.ffs"
    large(path, 0, indexed=True)
    found = path.stat()
    with path.open("rb") as source:
        outline, _ = file_to_outline(ListedFile(str(path), found.st_size, found.st_mtime), source)
        write_sidecar(*locate(str(path)), outline.with_sums(source))
    assert outline.points
    reader = plan(tmp_path)
    large(path, 100, 1, append=True, indexed=True)
    assert [row["n"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(100))
    with path.open("r+b") as file:
        file.seek(STEP // 2)
        file.write(b"b")
    with pytest.raises(PbioError, match=r"\[PBIO_CHECKSUM\].*do not match"):
        batches(reader)


def large(path: Path, first: int, count: int = 100, *, append: bool = False, indexed: bool = False) -> Path:
    """A file that several tasks read, with records of one size."""
    with FileWriter(path, append=append, indexed=indexed) as writer:
        for n in range(first, first + count):
            writer.data(LARGE, {"n": n, "text": "a" * (STEP // 20)})
    return path


def in_place(count: int = 100, *, indexed: bool = False) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        content = large(file.parent.parent / "new", 10_000, count, indexed=indexed).read_bytes()
        with file.open("r+b") as open_file:
            open_file.write(content)
        later(file)

    return change


def at_the_same_time(file: Path) -> None:
    new = large(file.parent.parent / "new", 10_000)
    os.utime(new, ns=(0, file.stat().st_mtime_ns))
    os.replace(new, file)


def later(file: Path) -> None:
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1_000_000))


REWRITINGS: dict[str, Callable[[Path], None]] = {
    "another of its size": lambda file: os.replace(large(file.parent.parent / "new", 10_000), file),
    "a larger one": lambda file: os.replace(large(file.parent.parent / "new", 10_000, 200), file),
    "another of its size and time": at_the_same_time,
    "in place": in_place(),
    "in place, larger": in_place(200),
}


@pytest.fixture
def divided(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return large(tmp_path / "in/a.ffs", 0)


@pytest.mark.parametrize("change", REWRITINGS)
@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED"}, {"mode": "PERMISSIVE"}, TOLERANT], ids=str)
def test_tasks_do_not_mix_rows_of_two_files(divided: Path, change: str, options: dict[str, Any]) -> None:
    reader = plan(divided.parent, maxPartitionBytes="5m", **options)
    first, *others = reader.partitions()
    assert others
    assert sum(batch.num_rows for batch in reader.read(first))
    REWRITINGS[change](divided)
    for place in others:
        with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\]"):
            list(reader.read(place))


@pytest.mark.parametrize("count", [100, 200])
def test_tasks_do_not_mix_rows_of_a_file_with_index_that_is_rewritten_in_place(tmp_path: Path, count: int) -> None:
    """Another time is no change then: a writer that ends completes the index."""
    (tmp_path / "in").mkdir()
    path = large(tmp_path / "in/a.ffs", 0, indexed=True)
    reader = plan(path.parent, maxPartitionBytes="5m")
    _, *others = reader.partitions()
    assert others
    in_place(count, indexed=True)(path)
    for place in others:
        with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\] the file was rewritten since"):
            list(reader.read(place))


def test_a_rewritten_file_is_not_taken_for_a_corrupt_one(divided: Path) -> None:
    reader = plan(divided.parent, maxPartitionBytes="5m", **TOLERANT)
    divided.write_bytes(bytes(divided.stat().st_size))
    later(divided)
    for place in reader.partitions():
        with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\]"):
            list(reader.read(place))


@pytest.mark.parametrize("change", ["in place, larger", "another of its size"])
def test_where_files_have_no_times_or_identities_their_bytes_decide(
    divided: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = plan(divided.parent, maxPartitionBytes="5m")
    monkeypatch.setattr(splits, "look", lambda source: OpenState(source.seek(0, os.SEEK_END), 0.0, ""))
    assert sum(batch.num_rows for batch in batches(reader)) == 100
    REWRITINGS[change](divided)
    for place in reader.partitions()[1:]:
        with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\] the file was rewritten since"):
            list(reader.read(place))


class Stored(io.BytesIO):
    """An object with an ETag, as fsspec opens it."""

    def __init__(self, content: bytes, tag: str) -> None:
        super().__init__(content)
        self.details = {"ETag": tag}


@pytest.mark.parametrize(
    ("planned", "found", "is_same"),
    [
        ('"a1"', '"a1"', True),
        ('"a1"', '"b2"', False),
        ('"a1"', 'W/"a1"', True),
        ('W/"a1"', "b2", False),
        ("a1", '"a1"', True),
        ("", '"b2"', True),
        ('"a1"', "", True),
    ],
)
def test_an_object_is_another_if_its_tag_is(divided: Path, planned: str, found: str, is_same: bool) -> None:
    file = ListedFile(str(divided), divided.stat().st_size, 1.0, identity=planned)
    source = Stored(divided.read_bytes(), found)
    state = look(source)
    assert state == OpenState(file.size, 0.0, found)
    split = Split(file, STEP, file.size, None)
    with nullcontext() if is_same else pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\] the file was replaced"):
        check_planned(split, source, state)


def test_files_are_compared_whatever_opens_them(divided: Path) -> None:
    reader = plan(divided.parent, maxPartitionBytes="5m")
    last = reader.partitions()[-1]
    assert isinstance(last, PbioPartition)
    REWRITINGS["another of its size"](divided)
    with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\]"):
        list(splits.read_splits(reader._plan, last.splits, Options(), lambda split: splits.open_split(split)))


@pytest.mark.parametrize("change", REWRITINGS)
def test_one_task_does_not_mix_rows_of_two_files(divided: Path, change: str) -> None:
    """What it has open stays what it was if another file takes the name."""
    reader = plan(divided.parent, recordsPerBatch=5, maxBatchBytes="20k")
    (place,) = reader.partitions()
    found = reader.read(place)
    rows = next(iter(found)).to_pylist()
    REWRITINGS[change](divided)
    is_seen = change.startswith("in place")
    with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\]") if is_seen else nullcontext():
        rows += [row for batch in found for row in batch.to_pylist()]
        assert [row["n"] for row in rows] == list(range(100))


def test_a_file_of_the_planned_size_that_one_task_reads_is_what_it_is_then(divided: Path) -> None:
    reader = plan(divided.parent)
    REWRITINGS["another of its size"](divided)
    assert [row["n"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(10_000, 10_100))


def test_a_larger_file_in_the_place_of_the_planned_one_is_not_cut_off(divided: Path) -> None:
    reader = plan(divided.parent)
    REWRITINGS["a larger one"](divided)
    with pytest.raises(PbioError, match=r"\[PBIO_FILE_CHANGED\] the file was replaced"):
        batches(reader)


def test_a_file_that_only_grew_is_as_planned(divided: Path) -> None:
    reader = plan(divided.parent, maxPartitionBytes="5m")
    large(divided, 100, append=True)
    later(divided)
    assert [row["n"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(100))


def test_a_file_with_index_that_only_grew_is_as_planned(tmp_path: Path) -> None:
    """Its last index block is another then."""
    path = large(tmp_path / "a.ffs", 0, indexed=True)
    before = path.read_bytes()
    reader = plan(tmp_path, maxPartitionBytes="5m")
    large(path, 100, append=True, indexed=True)
    later(path)
    assert path.read_bytes()[: len(before)] != before
    assert [row["n"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(100))


def test_a_writer_that_ends_meanwhile_only_completes_its_index(tmp_path: Path) -> None:
    """It overwrites the last index block, so the file has another time, and the size that it had."""
    path = large(tmp_path / "a.ffs", 0, indexed=True)
    reader = plan(tmp_path, maxPartitionBytes="5m")
    assert len(reader.partitions()) > 1
    later(path)
    assert [row["n"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(100))


def test_what_is_appended_meanwhile_is_for_the_next_query(file: Path) -> None:
    reader = plan(file.parent)
    with pbio.open_writer(file, LOAD, append=True) as writer:
        writer.write({"x": -1, "text": "b"})
    assert [row["x"] for batch in batches(reader) for row in batch.to_pylist()] == list(range(RECORDS))


@pytest.mark.parametrize("change", [os.unlink, replaced], ids=["removed", "replaced"])
def test_a_file_that_is_open_is_read_to_its_end(file: Path, change: Callable[[Path], None]) -> None:
    reader = plan(file.parent, recordsPerBatch=100, maxBatchBytes="20k")
    (place,) = reader.partitions()
    found = iter(reader.read(place))
    rows = next(found).num_rows
    change(file)
    assert rows + sum(batch.num_rows for batch in found) == RECORDS
