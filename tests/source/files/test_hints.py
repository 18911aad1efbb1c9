"""Indexes and outlines are hints: whatever they say, each sound record is read once and in its place.

What is read in parts, by a plan that may rest on a damaged hint, is compared with what a plain walk over the items
reads.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

from ecode.types import INT32, STRING, Field, record
from pbio_spark.cli.verify import Walk
from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.plan import METADATA_TYPE, FilePart, ReadPlan
from pbio_spark.columns.files.read import read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.source.files import outlines
from pbio_spark.source.files.listing import ListedFile, list_files
from pbio_spark.source.files.outlines import file_to_outline, outline_files
from pbio_spark.source.files.planning import plan_partitions
from pbio_spark.source.files.splits import read_splits
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter, ItemKind, Scanner, attribute, items_to_json
from pbio_spark.wire.hints.sidecar import _digest, outline_to_json, read_sidecar, sidecar_path, write_sidecar
from tests.plans import changed, plan_of

CASES = 50_000 if os.environ.get("PBIO_LONG") else 150
FORMATS = [
    record_to_format(record("r", [Field("n", INT32), Field("t", STRING), *more])) for more in ((), [Field("k", INT32)])
]
FS = LocalFileSystem()
SPLIT = Options(max_partition_bytes=3_000)
SCHEMA = pa.schema(
    [("n", pa.int32()), ("_m", pa.struct([METADATA_TYPE.field("ordinal"), METADATA_TYPE.field("offset")]))]
)

Rows = list[dict[str, Any]]
Damage = Callable[[random.Random, "Sample"], None]


class Sample:
    """A file on disk with what is true of it, to be damaged and restored."""

    def __init__(self, path: Path, seed: int, *, indexed: bool) -> None:
        self.path = path
        self.sidecar = Path(sidecar_path(str(path)))
        chance = random.Random(seed)
        file = io.BytesIO()
        with FileWriter(file, indexed=indexed) as writer:
            for n in range(40):
                values = {"n": n, "t": "x" * chance.randrange(400)} | ({"k": -n} if n > 20 else {})
                listed = [attribute("step", n)] if indexed and chance.random() < 0.3 else None
                writer.data(FORMATS[n > 20], values, listed)
                if chance.random() < 0.1:
                    writer.comment("between")
        self.sound = file.getvalue()
        self.content = bytearray(self.sound)
        self.items = list(Scanner(self.sound).items())
        self.save()

    def save(self) -> None:
        self.path.write_bytes(self.content)
        os.utime(self.path, ns=(10**18, 10**18))

    def listed(self) -> ListedFile:
        (file,) = list_files([str(self.path)], SPLIT)
        return file

    def write_outline(self) -> None:
        with self.path.open("rb") as source:
            outline, error = file_to_outline(self.listed(), source)
        assert error is None
        write_sidecar(FS, str(self.path), outline)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes are split like those of gigabytes."""
    monkeypatch.setattr(outlines, "STEP", 1_000)
    monkeypatch.setattr("pbio_spark.source.files.planning.OPEN_COST", 0)


@pytest.fixture(scope="module")
def plan() -> ReadPlan:
    made = plan_of(SCHEMA, metadata_column="_m", formats=tuple(FORMATS))
    return replace(made, converters={form.id: compile_converter(made, form, fused=False) for form in FORMATS})


def outcome(batches: Iterator[pa.RecordBatch]) -> tuple[Rows, str]:
    """The rows, and the code of the error that ended them."""
    rows: Rows = []
    try:
        for batch in batches:
            rows += batch.to_pylist()
    except PbioError as error:
        return rows, error.code
    return rows, ""


def in_parts(sample: Sample, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    files = list_files([str(sample.path)], SPLIT)
    known = outline_files(files, replace(SPLIT, mode=plan.errors.mode), all_formats=True)
    formats = tuple(form for outline in known for form in outline.formats)
    if known[0].is_whole:
        with sample.path.open("rb") as source:
            scanner = Scanner(source)
            list(scanner.items())
        assert formats == tuple(scanner.formats.values())
    for splits in plan_partitions(files, known, SPLIT):
        yield from read_splits(changed(plan, formats=formats), splits, SPLIT)


def compare(sample: Sample, plan: ReadPlan) -> None:
    content = bytes(sample.content)
    truth = outcome(read_batches(changed(plan, formats=()), FilePart(str(sample.path)), io.BytesIO(content)))
    found = outcome(in_parts(sample, plan))
    if plan.errors.mode == "FAILFAST" and truth[1]:
        # Planning walks over the items and decodes nothing: what ends its walk comes before a bad record does.
        assert found[1] == truth[1] or found == ([], end_of_walk(content))
        assert found[0] == truth[0][: len(found[0])]
    else:
        assert found == truth


def end_of_walk(content: bytes) -> str:
    """The code of the error at which a walk over the items ends."""
    try:
        list(Scanner(content).items())
    except PbioError as error:
        return error.code
    return ""


# Damage to index blocks.


def blocks(sample: Sample) -> list[tuple[int, int]]:
    """Where index blocks begin and end."""
    return [(item.offset, item.end) for item in sample.items if item.kind is ItemKind.INDEX]


def places(chance: random.Random, sample: Sample) -> int:
    """An offset that an index could name, or one that none should."""
    item = chance.choice(sample.items)
    return chance.choice(
        [
            *(item.offset, item.end, item.payload + chance.randrange(item.length + 1), len(sample.sound), 0, 4),
            *(item.offset + chance.choice((-8, -1, 1, 8)), chance.getrandbits(64)),
            *(1 << 63, 1 << 62, 2**32 - 1, 2**64 - 1),
        ]
    )


def entries(content: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Where the entries of a block begin, and the lengths of what they hold."""
    found, at = [], start + 16
    while at + 4 <= end and content[at + 3] != 0xFF:
        length = int.from_bytes(content[at : at + 3])
        found.append((at, length))
        at += 12 + (length + 3 & ~3)
    return found


def damage_entry(chance: random.Random, sample: Sample) -> None:
    start, end = chance.choice(blocks(sample))
    at, length = chance.choice(entries(sample.sound, start, end))
    match chance.randrange(5):
        case 0 | 1:
            sample.content[at + 4 : at + 12] = (places(chance, sample) & 2**64 - 1).to_bytes(8)
        case 2:
            sample.content[at : at + 4] = chance.getrandbits(32).to_bytes(4)
        case 3:
            sample.content[at + 3] = chance.choice((0, 1, 2, 0xFF))
        case 4:
            sample.content[at + 12 + chance.randrange(length)] = chance.randrange(256)


def damage_head(chance: random.Random, sample: Sample) -> None:
    start, _ = chance.choice(blocks(sample))
    at = start + chance.choice((4, 8, 12))
    sample.content[at : at + 4] = (chance.choice((places(chance, sample), chance.randrange(70))) & 0xFFFFFFFF).to_bytes(
        4
    )


def exchange_blocks(chance: random.Random, sample: Sample) -> None:
    (one, end), (other, other_end) = chance.choice(blocks(sample)), chance.choice(blocks(sample))
    sample.content[one + 4 : end] = sample.sound[other + 4 : other_end]


def damage_bytes(chance: random.Random, sample: Sample) -> None:
    """Any byte of a block, its first word included, where the file itself is damaged."""
    start, end = chance.choice(blocks(sample))
    for _ in range(chance.choice((1, 1, 3, 20))):
        sample.content[chance.randrange(start + (chance.random() < 0.9) * 4, end)] = chance.randrange(256)


def test_a_damaged_index_changes_nothing(tmp_path: Path, plan: ReadPlan) -> None:
    chance = random.Random(21)
    samples = [
        Sample(tmp_path / str(seed) / "a", seed, indexed=True)
        for seed in range(5)
        if not (tmp_path / str(seed)).mkdir()
    ]
    damages: list[Damage] = [damage_entry, damage_entry, damage_head, exchange_blocks, damage_bytes]
    for _ in range(CASES):
        sample = chance.choice(samples)
        sample.content[:] = sample.sound
        for _ in range(chance.choice((1, 1, 2, 5))):
            chance.choice(damages)(chance, sample)
        sample.save()
        compare(sample, changed(plan, mode=chance.choice(("FAILFAST", "PERMISSIVE", "DROPMALFORMED"))))
        if chance.random() < 0.3:
            check_other_readers(bytes(sample.content))


def check_other_readers(content: bytes) -> None:
    """`pbio verify`, `cat` and `count` get to the end of the file, if its items lead there."""
    scanner = Scanner(content)
    with suppress(PbioError):
        list(scanner.items())
    looked = Scanner(content)
    codes = {problem.code for problem in Walk(looked, ()).problems()}
    assert looked.ordinal >= scanner.ordinal  # `verify` continues after damage
    assert codes <= {"PBIO_BAD_INDEX", "PBIO_BAD_ITEM", "PBIO_TRUNCATED", "PBIO_UNKNOWN_FORMAT", "PBIO_BAD_BODY"}
    lines = 0
    with suppress(PbioError):
        for line in items_to_json(Scanner(content)):
            lines += json.loads(line)["kind"] == "data"
    assert lines == scanner.ordinal


def test_a_wrong_index_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture, plan: ReadPlan) -> None:
    sample = Sample(tmp_path / "a", 1, indexed=True)
    start, end = blocks(sample)[2]
    at, _ = entries(sample.sound, start, end)[0]
    sample.content[at + 11] ^= 1
    sample.save()
    compare(sample, plan)
    assert "PBIO_BAD_INDEX" in caplog.text
    assert [problem.code for problem in Walk(Scanner(bytes(sample.content)), ()).problems()] == ["PBIO_BAD_INDEX"]


def test_planning_meets_damage_between_items_before_a_bad_record(tmp_path: Path, plan: ReadPlan) -> None:
    """A block that became a record of no format, after which no item begins."""
    sample = Sample(tmp_path / "a", 1, indexed=True)
    start, _ = blocks(sample)[1]
    sample.content[start : start + 8] = (int(ItemKind.DATA) << 24).to_bytes(4) + (8).to_bytes(4)
    sample.save()
    content = bytes(sample.content)
    plainly = outcome(read_batches(changed(plan, formats=()), FilePart("a"), io.BytesIO(content)))
    assert plainly[1] == "PBIO_UNKNOWN_FORMAT"
    assert outcome(in_parts(sample, plan)) == ([], "PBIO_BAD_ITEM")
    for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"):
        compare(sample, changed(plan, mode=mode))


# Damage to outlines.


def damage_text(chance: random.Random, sample: Sample) -> None:
    text = bytearray(sample.sidecar.read_bytes())
    for _ in range(chance.choice((1, 1, 3))):
        text[chance.randrange(len(text))] = chance.choice(
            (chance.randrange(256), ord(chance.choice('0123456789[]{},"')))
        )
    sample.sidecar.write_bytes(text)


def cut_text(chance: random.Random, sample: Sample) -> None:
    text = sample.sidecar.read_bytes()
    sample.sidecar.write_bytes(
        chance.choice((text[: chance.randrange(len(text))], text + text, b"", b"[" * 50_000, b"\xff" * 100, b"null"))
    )


def damage_json(chance: random.Random, sample: Sample) -> None:
    """False hints with a right digest too, as a program would write them."""
    said = json.loads(sample.sidecar.read_text())
    del said["digest"]
    point = chance.randrange(len(said["points"]))
    odd: Any = chance.choice((0, -1, 1e400, 2**70, None, "x", [], {}, True, chance.randrange(len(sample.sound))))
    match chance.randrange(8):
        case 0:
            said["points"][point][0] += chance.choice((-8, -1, 1, 8, 100))
        case 1:
            said["points"][point][chance.randrange(2)] = odd
        case 2:
            said[chance.choice(list(said))] = odd
        case 3:
            said["formats"] = said["formats"][:1] if chance.random() < 0.5 else said["formats"][::-1]
            said["points"] = [[offset, ordinal] for offset, ordinal in said["points"] if chance.random() < 0.5]
        case 4:
            said["samples"][chance.randrange(len(said["samples"]))] = odd
        case 5:
            said.pop(chance.choice(list(said)))
        case 6:
            said["formats"][0][chance.choice(("name", "id", "records", "body"))] = odd
        case 7:
            said["points"][point] = odd
    with_digest = (
        chance.random() < 0.3
        and "points" in said
        and said["points"] != json.loads(sample.sidecar.read_text())["points"]
    )
    sample.sidecar.write_text(json.dumps({**said, "digest": _digest(said) if with_digest else "0" * 32}))


def replace_file(chance: random.Random, sample: Sample) -> None:
    """Another file of the same size and time than the one that the outline was made of."""
    other = Sample(sample.path.parent / "other", chance.randrange(1000), indexed=False)
    padded = bytearray(other.sound)
    missing = len(sample.sound) - len(padded)
    if missing < 5:
        padded = bytearray(sample.sound)
        padded[100] ^= 0xFF
    else:
        padded += (1 << 24 | missing - 4).to_bytes(4) + bytes(missing - 4)
    other.path.unlink()
    sample.content[:] = padded


def shorten_file(chance: random.Random, sample: Sample) -> None:
    sample.content[:] = sample.content[: chance.choice([item.end for item in sample.items])]


def test_a_damaged_outline_changes_nothing(tmp_path: Path, plan: ReadPlan) -> None:
    chance = random.Random(22)
    damages: list[Damage] = [damage_text, cut_text, damage_json, damage_json, replace_file, shorten_file]
    samples = [
        Sample(tmp_path / str(seed) / "a", seed, indexed=False)
        for seed in range(5)
        if not (tmp_path / str(seed)).mkdir()
    ]
    texts = []
    for sample in samples:
        sample.write_outline()
        texts.append(sample.sidecar.read_bytes())
    for _ in range(CASES):
        number = chance.randrange(len(samples))
        sample = samples[number]
        sample.content[:] = sample.sound
        sample.sidecar.write_bytes(texts[number])
        chance.choice(damages)(chance, sample)
        sample.save()
        compare(sample, changed(plan, mode=chance.choice(("FAILFAST", "PERMISSIVE", "DROPMALFORMED"))))


def test_a_sound_outline_is_used(tmp_path: Path, plan: ReadPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample(tmp_path / "a", 1, indexed=False)
    sample.write_outline()
    file = sample.listed()
    outline = read_sidecar(FS, str(sample.path), file.size, file.modified)
    assert outline is not None
    assert len(outline.points) > 5
    assert len(outline_to_json(outline)) > 500
    monkeypatch.setattr(outlines, "file_to_outline", lambda *_: pytest.fail("it was walked"))
    assert outline_files([file], SPLIT, all_formats=True) == [outline]
    compare(sample, plan)
