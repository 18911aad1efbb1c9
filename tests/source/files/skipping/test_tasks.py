"""Which tasks a filter leaves: none for a file without rows, one for the rest of several parts."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import pbio_spark as pbio
from pbio_spark.errors import PbioError
from pbio_spark.source.files import planning
from pbio_spark.source.files import reader as reader_module
from pbio_spark.source.files.reader import PbioPartition, PbioReader
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter
from pbio_spark.wire.hints.sidecar import read_sidecar, write_sidecar
from tests.source.files.skipping.made import FORMATS, FS, index

LARGE = [number // 4 for number in range(364, 400)]


@pytest.fixture
def ordered(tmp_path: Path) -> Path:
    """A file of which a filter for large numbers skips all blocks but the last ones."""
    path = tmp_path / "a.ffs"
    with path.open("wb") as file, FileWriter(file) as writer:
        for number in range(400):
            writer.data(FORMATS[3], {"a": number // 4, "s": "x"})
    index(path)
    return path


def reader_of(folder: Path, **options: object) -> PbioReader:
    parsed = Options(filter="{ return input.a > 90; }", max_partition_bytes=2_000, **options)  # type: ignore[arg-type]
    scan = planning.scan_files([str(folder)], parsed, all_formats=True)
    return PbioReader(scan, pa.schema([("a", pa.int32())]), is_projection=True)


def test_a_file_without_rows_takes_no_task_and_small_remains_take_one(ordered: Path) -> None:
    for number in range(5):
        with (ordered.parent / f"b{number}.ffs").open("wb") as file, FileWriter(file) as writer:
            for value in range(300):
                writer.data(FORMATS[3], {"a": value % 90, "s": "x"})
        index(ordered.parent / f"b{number}.ffs")
    whole = reader_of(ordered.parent, skip_blocks=False)
    assert len(whole.partitions()) > 20
    few = reader_of(ordered.parent)
    (partition,) = few.partitions()
    assert isinstance(partition, PbioPartition)
    assert [(split.file.path, split.start, split.end) for split in partition.splits] == [
        (str(ordered), 0, ordered.stat().st_size)
    ]
    assert partition.splits[0].bytes < ordered.stat().st_size / 5
    assert [Path(path).name for path in partition.spared] == [f"b{number}.ffs" for number in range(5)]
    assert [value for batch in few.read(partition) for value in batch["a"].to_pylist()] == LARGE


def test_where_all_files_are_spared_one_task_notes_them(ordered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(reader_module, "note_files", noted.extend)
    parsed = Options(filter="{ return input.a > 500; }", max_partition_bytes=1_000)
    scan = planning.scan_files([str(ordered)], parsed, all_formats=True)
    reader = PbioReader(scan, pa.schema([("a", pa.int32())]), is_projection=True)
    (partition,) = reader.partitions()
    assert list(reader.read(partition)) == []
    assert noted == [str(ordered)]


def test_a_spared_file_with_checksums_is_compared_all_the_same(ordered: Path) -> None:
    stat = ordered.stat()
    known = read_sidecar(FS, str(ordered), stat.st_size, stat.st_mtime)
    assert known is not None
    with ordered.open("rb") as source:
        write_sidecar(FS, str(ordered), known.with_sums(source))
    content = bytearray(ordered.read_bytes())
    content[known.points[len(known.points) // 2].offset - 100] ^= 1
    ordered.write_bytes(content)
    os.utime(ordered, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(PbioError, match="do not match their checksum"):
        pbio.read_arrow(str(ordered), filter="{ return input.a > 500; }")
