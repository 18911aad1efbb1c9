"""Checksums in outlines: they find a flipped bit in a value, and its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT64, Array, Field, record
from pbio_spark import paths
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import outline_files
from pbio_spark.source.files.planning import plan_partitions, scan_files, scan_to_schema
from pbio_spark.source.files.splits import read_splits
from pbio_spark.source.options.options import Options
from pbio_spark.source.write.writer import PbioWriter
from pbio_spark.wire import FileWriter, Scanner
from pbio_spark.wire.hints.sidecar import STEP, Outline
from tests.cli.conftest import Ran
from tests.plans import plan_of

Pbio = Callable[..., Ran]

FORM = record_to_format(record("reading", [Field("n", INT64), Field("values", Array(FLOAT64, (1 << 16,)))]))
COUNT = 30
SPLIT = Options(max_partition_bytes=STEP)


@pytest.fixture
def path(tmp_path: Path, pbio: Pbio) -> Path:
    """A file of several blocks, with checksums beside it."""
    path = tmp_path / "a.ffs"
    with FileWriter(path) as writer:
        for n in range(COUNT):
            writer.data(FORM, {"n": n, "values": [float(n)] * (1 << 16)})
    assert pbio("index", "--checksums", path).code == 0
    return path


def flip(path: Path, offset: int) -> None:
    """Flip a bit, and leave everything else as it is, as a bad disk does."""
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def read(path: Path, options: Options = SPLIT) -> list[int]:
    scan = scan_files([str(path)], options, all_formats=True)
    plan = plan_of(scan_to_schema(scan))
    splits = [split for part in plan_partitions(scan.files, scan.outlines, options) for split in part]
    assert len(splits) > 2
    return [n for split in splits for batch in read_splits(plan, [split], options) for n in batch["n"].to_pylist()]


def test_a_sound_file_is_read(path: Path) -> None:
    assert read(path) == list(range(COUNT))


def test_a_flipped_bit_in_a_value_is_an_error_with_its_block(path: Path, pbio: Pbio) -> None:
    with path.open("rb") as file:
        items = list(Scanner(file).items())
    flip(path, items[15].payload + 5000)
    (outline,) = outline_files(list_files([str(path)], SPLIT), SPLIT, all_formats=True)
    (block,) = [block for block in outline.blocks if block.start <= items[15].offset < block.end]
    with pytest.raises(PbioError, match=rf"PBIO_CHECKSUM.* from offset {block.start} to {block.end}") as caught:
        read(path)
    assert (caught.value.file, caught.value.offset) == (str(path), block.start)
    lost = {item.ordinal for item in items if block.start <= item.offset < block.end and item.ordinal >= 0}
    kept = read(path, Options(max_partition_bytes=STEP, ignore_corrupt_files=True))
    assert kept == sorted(set(range(COUNT)) - lost)
    ran = pbio("verify", path)
    assert ran.code == 1
    assert f"from offset {block.start} to {block.end}" in ran.err


def test_a_flipped_bit_where_the_outline_looks_first_is_one_too(path: Path) -> None:
    flip(path, path.stat().st_size - 5)
    with pytest.raises(PbioError, match="PBIO_CHECKSUM"):
        read(path)


def test_a_rewritten_file_has_no_checksums(path: Path, pbio: Pbio) -> None:
    flip(path, path.stat().st_size - 5)
    os.utime(path)
    assert read(path) == list(range(COUNT))
    assert pbio("verify", path).code == 0


def test_a_writer_makes_the_checksums_that_a_look_at_the_file_makes(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    writer = PbioWriter(str(tmp_path / "out"), Options(checksums=True), schema, overwrite=False)
    file = writer.output(fsspec.filesystem("file"), str(tmp_path), "a.ffs")
    for _ in range(5):
        file.add(writer.encoder.encode(pa.record_batch([range(3000), ["x" * 1000] * 3000], schema=schema)))
    done = file.close()
    assert len(done.points) == 3
    outline = Outline(done.size, 0.0, (), (), done.points, True)
    with (tmp_path / "a.ffs").open("rb") as source:
        assert done.sums == outline.with_sums(source).sums


def test_verify_opens_a_file_once(path: Path, pbio: Pbio, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_file = paths._open_file
    monkeypatch.setattr(paths, "_open_file", lambda name: opened.append(name) or open_file(name))
    assert "checksums: " in pbio("verify", path).out
    assert opened.count(str(path)) == 1
