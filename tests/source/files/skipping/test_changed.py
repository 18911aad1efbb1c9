"""Files that change after their outlines are written, and wrong outlines: no matching row is skipped."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pbio_spark as pbio
from pbio_spark.cli.verify import range_problems
from pbio_spark.errors import PbioError
from pbio_spark.source.files import planning, splits
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter, Scanner
from pbio_spark.wire.hints.sidecar import _digest, read_sidecar, sidecar_path, write_sidecar
from tests.source.files.skipping.made import FORMATS, FS, index


@pytest.fixture
def ordered(tmp_path: Path) -> Path:
    """A file of which a filter for large numbers skips all blocks but the last ones."""
    path = tmp_path / "a.ffs"
    with path.open("wb") as file, FileWriter(file) as writer:
        for number in range(400):
            writer.data(FORMATS[3], {"a": number // 4, "s": "x"})
    index(path)
    return path


def rows(path: Path, **options: Any) -> list[int]:
    return [row["a"] for row in pbio.read_arrow(str(path), filter="{ return input.a > 90; }", **options).to_pylist()]


LARGE = [number // 4 for number in range(364, 400)]


def test_it_says_what_it_skips(ordered: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pbio_spark.source")
    assert rows(ordered) == LARGE
    assert "blocks of 1 file with 3" in caplog.text
    (read,) = (record.args for record in caplog.records if record.msg.startswith("read "))
    assert isinstance(read, tuple)
    assert read[1] < ordered.stat().st_size / 5


def rewritten(path: Path) -> bytes:
    """The same file with other values: all pass the filter."""
    content = bytearray(path.read_bytes())
    items = [item for item in Scanner(bytes(content)).items() if item.kind.name == "DATA"]
    for item in items[1:-1]:
        content[item.payload + FORMATS[3].header_size] = 100
    return bytes(content)


def replaced(path: Path) -> None:
    path.write_bytes(rewritten(path))


def replaced_by_another(path: Path) -> None:
    other = path.with_name("b")
    other.write_bytes(rewritten(path))
    other.replace(path)


def appended(path: Path) -> None:
    with path.open("ab") as file:
        content = path.read_bytes()
        last = [item for item in Scanner(content).items() if item.kind.name == "DATA"][-1]
        file.write(content[last.offset : last.end] * 40)


def truncated(path: Path) -> None:
    items = [item for item in Scanner(path.read_bytes()).items() if item.kind.name == "DATA"]
    os.truncate(path, items[390].offset)


@pytest.mark.parametrize("change", [replaced, replaced_by_another, appended, truncated])
def test_a_file_that_changes_is_read_whole(ordered: Path, change: Callable[[Path], None]) -> None:
    change(ordered)
    assert rows(ordered) == rows(ordered, skipBlocks=False) != LARGE


@pytest.mark.parametrize("change", [replaced, replaced_by_another])
def test_a_file_that_changes_after_planning_is_read_whole(
    ordered: Path,
    change: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened_late(split: planning.Split) -> Any:
        change(ordered)
        return splits.open_split(split)

    monkeypatch.setattr(splits.read_splits, "__defaults__", (opened_late,))
    assert rows(ordered) == [100] * 398 + [99]
    assert "nothing is skipped" in caplog.text


def test_the_same_time_and_size_hide_no_change_of_an_edge(ordered: Path) -> None:
    before = ordered.stat()
    content = bytearray(rewritten(ordered))
    ordered.write_bytes(content)
    os.utime(ordered, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert rows(ordered) == [100] * 398 + [99]


def test_checksums_find_any_change(ordered: Path) -> None:
    before = ordered.stat()
    with ordered.open("rb") as source:
        known = read_sidecar(FS, str(ordered), before.st_size, before.st_mtime)
        assert known is not None
        write_sidecar(FS, str(ordered), known.with_sums(source))
    assert rows(ordered) == LARGE
    content = bytearray(ordered.read_bytes())
    place = known.points[len(known.points) // 2].offset - 100  # at no edge of what is skipped
    content[place : place + 1] = bytes([content[place] ^ 1])
    ordered.write_bytes(content)
    os.utime(ordered, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(PbioError, match="do not match their checksum"):
        rows(ordered)


def test_verify_finds_a_lie(ordered: Path) -> None:
    stat = ordered.stat()
    known = read_sidecar(FS, str(ordered), stat.st_size, stat.st_mtime)
    assert known is not None
    with ordered.open("rb") as source:
        assert list(range_problems(str(ordered), source, known)) == []
    (ranges,) = known.ranges
    most = np.frombuffer(ranges.most, "<i8").copy()
    most[1] += 1
    lie = replace(known, ranges=(replace(ranges, most=most.tobytes()),))
    with ordered.open("rb") as source:
        (problem,) = range_problems(str(ordered), source, lie)
    assert problem.code == "PBIO_BAD_INDEX"
    assert problem.offset == known.points[0].offset
    assert "the greatest a of the block" in problem.reason


def test_outlines_without_ranges_are_read_as_before(ordered: Path) -> None:
    sidecar = Path(sidecar_path(str(ordered)))
    said = json.loads(sidecar.read_text())
    assert said["version"] == 2
    del said["ranges"], said["digest"]
    sidecar.write_text(json.dumps({**said, "digest": _digest(said)}))
    stat = ordered.stat()
    known = read_sidecar(FS, str(ordered), stat.st_size, stat.st_mtime)
    assert known is not None
    assert known.ranges == ()
    assert rows(ordered) == LARGE


def test_damaged_ranges_are_not_used(ordered: Path) -> None:
    sidecar = Path(sidecar_path(str(ordered)))
    good = json.loads(sidecar.read_text())
    del good["digest"]
    (ranges,) = good["ranges"]
    wrong = {**ranges, "least": "AAAA"}, {**ranges, "fields": [["x", "a"]]}, {**ranges, "counts": 1}, None
    for odd in (None, 1, {}, [], [ranges] * 2, *([one] for one in wrong)):
        said = {**good, "ranges": odd}
        sidecar.write_text(json.dumps({**said, "digest": _digest(said)}))
        assert rows(ordered) == LARGE


def test_a_file_with_a_bad_record_has_no_ranges(ordered: Path) -> None:
    content = bytearray(ordered.read_bytes())
    last = [item for item in Scanner(bytes(content)).items() if item.kind.name == "DATA"][-1]
    content[last.payload + 12] ^= 0xFF  # the length in the header
    ordered.write_bytes(content)
    (file,) = list_files([str(ordered)], Options())
    with ordered.open("rb") as source:
        outline, _ = file_to_outline(file, source, ranged=True)
    assert outline.ranges == ()
