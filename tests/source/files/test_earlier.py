"""Formats that an outline lacks: a task finds them in the file before the part that it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ecode.types import INT32, Field, record
from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.plan import ReadPlan
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import MemoryStore
from pbio_spark.source.files import outlines
from pbio_spark.source.files.earlier import EarlierFormats
from pbio_spark.source.files.outlines import file_to_outline, outline_files
from pbio_spark.source.files.planning import Split, plan_partitions
from pbio_spark.source.files.skipping import Skip
from pbio_spark.source.files.splits import read_splits
from pbio_spark.wire import Item, ItemKind
from pbio_spark.wire.hints.sidecar import write_sidecar
from tests.plans import changed, plan_of
from tests.source.files.test_hints import FORMATS, FS, SCHEMA, SPLIT, Sample


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes are split like those of gigabytes."""
    monkeypatch.setattr(outlines, "STEP", 1_000)
    monkeypatch.setattr("pbio_spark.source.files.planning.OPEN_COST", 0)


@pytest.fixture(scope="module")
def plan() -> ReadPlan:
    made = plan_of(SCHEMA, metadata_column="_m", formats=tuple(FORMATS))
    return replace(made, converters={form.id: compile_converter(made, form, fused=False) for form in FORMATS})


@pytest.fixture
def lacking(tmp_path: Path) -> Sample:
    """A file whose outline lacks the second format; its item is before record 21."""
    sample = Sample(tmp_path / "a", 1, indexed=False)
    with sample.path.open("rb") as source:
        outline, _ = file_to_outline(sample.listed(), source)
    write_sidecar(FS, str(sample.path), replace(outline, formats=outline.formats[:1], counts=outline.counts[:1]))
    return sample


def records_of(sample: Sample) -> list[Item]:
    return [item for item in sample.items if item.kind is ItemKind.DATA]


def test_an_outline_that_lacks_a_format_loses_no_record(lacking: Sample, plan: ReadPlan) -> None:
    files = [lacking.listed()]
    known = outline_files(files, SPLIT, all_formats=True)
    assert known[0].formats == (FORMATS[0],)
    parts = plan_partitions(files, known, SPLIT)
    assert parts[-1][-1].start > records_of(lacking)[21].offset
    for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"):
        want = changed(plan, formats=known[0].formats, mode=mode)
        rows = [row for splits in parts for batch in read_splits(want, splits, SPLIT) for row in batch.to_pylist()]
        assert [row["n"] for row in rows] == list(range(40))


def test_damage_before_a_format_that_an_outline_lacks_hides_no_later_record(lacking: Sample, plan: ReadPlan) -> None:
    files = [lacking.listed()]
    known = outline_files(files, SPLIT, all_formats=True)
    parts = plan_partitions(files, known, SPLIT)
    records = records_of(lacking)
    damage = records[2].offset
    resumed = next(point.offset for point in known[0].points if point.offset > damage)
    assert resumed < records[21].offset < parts[-1][-1].start
    lacking.content[damage] = 0x7F  # no kind of item
    lacking.save()
    want = changed(plan, formats=known[0].formats, mode="DROPMALFORMED")
    rows = [row["n"] for splits in parts for batch in read_splits(want, splits, SPLIT) for row in batch.to_pylist()]
    assert rows == [n for n, item in enumerate(records) if not damage <= item.offset < resumed]


def test_a_broken_format_does_not_hide_those_after_it(lacking: Sample, plan: ReadPlan) -> None:
    first = next(item for item in lacking.items if item.kind is ItemKind.FORMAT)
    assert first.format_id == FORMATS[0].id
    lacking.content[first.payload : first.payload + first.length] = bytes(first.length)
    lacking.save()
    with lacking.path.open("rb") as source:
        earlier = EarlierFormats(source, lacking.listed(), plan, FORMATS[:1])
        assert earlier.before(len(lacking.content)).find([FORMATS[1].id]) == [FORMATS[1]]


def test_a_format_in_a_skipped_part_is_found(lacking: Sample, plan: ReadPlan) -> None:
    file = lacking.listed()
    assert file.has_sidecar
    records = records_of(lacking)
    skip = Skip(records[10].offset, records[30].offset, 1, 20, 30)
    split = Split(file, 0, file.size, 0, (FORMATS[0],), skips=(skip,))
    want = changed(plan, formats=(FORMATS[0],), mode="DROPMALFORMED")
    rows = [row["n"] for batch in read_splits(want, [split], SPLIT) for row in batch.to_pylist()]
    assert rows == [*range(10), *range(30, 40)]


def test_a_format_that_the_file_lacks_too_comes_from_the_store(lacking: Sample, plan: ReadPlan) -> None:
    stored = record_to_format(record("stored", [Field("n", INT32)]))
    ids = [FORMATS[1].id, stored.id]
    place = records_of(lacking)[21].offset
    with lacking.path.open("rb") as source:
        earlier = EarlierFormats(source, lacking.listed(), changed(plan, store=MemoryStore([stored])), FORMATS[:1])
        assert earlier.before(records_of(lacking)[20].offset).find(ids) == [stored]
        assert earlier.before(place).find(ids) == [FORMATS[1], stored]
    # It does not walk again, so it needs no file.
    assert earlier.before(place).find(ids) == [FORMATS[1], stored]
    assert earlier.before(place).find([FORMATS[1].id]) == [FORMATS[1]]
