"""Blocks that outlines let a filter skip: the rows with and without are the same, and changes of files are found."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import pbio_spark as pbio
from ecode.columns import batch
from ecode.types import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT16,
    UINT64,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Record,
    Ref,
    Struct,
    record,
)
from pbio_spark.cli.verify import range_problems
from pbio_spark.columns import format_to_encoder, ranges_kernel
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import record_to_json
from pbio_spark.source.files import outlines, planning, splits
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.source.options.options import Options
from pbio_spark.source.write import output
from pbio_spark.wire import FileWriter, Scanner, decode
from pbio_spark.wire.hints.sidecar import Outline, _digest, read_sidecar, sidecar_path, write_sidecar
from tests.columns.checked import CheckedKernel

CASES = 5_000 if os.environ.get("PBIO_LONG") else 60
FS = LocalFileSystem()
INNER = Struct("inner", (Field("d", INT32), Field("e", FLOAT32)))
EVERY = Record(
    (
        Struct(
            "r",
            (
                Field("a", INT32),
                Field("b", FLOAT64),
                Field("c", UINT64),
                Field("f", FLOAT32),
                Field("g", INT8),
                Field("h", Basic(Kind.ENUMERATION, 4), Notes(symbols=(("no", 0), ("yes", 4_000_000_000)))),
                Field("in", Ref("inner")),
                Field("s", STRING),
            ),
        ),
        INNER,
    )
)
WIDE = record("r", [Field("s", STRING), Field("b", FLOAT32), Field("a", INT64), Field("c", UINT16), Field("k", INT64)])
FEW = record("r", [Field("a", INT8), Field("s", STRING)])
MASKED = columns_to_record(
    pa.schema([("a", pa.int32()), ("b", pa.float64()), ("k", pa.int64()), ("s", pa.string())]), "r", "mask"
)
FORMATS = [
    record_to_format(one, machine)
    for one, machine in ((EVERY, "le64"), (EVERY, "be32"), (WIDE, "be64"), (FEW, "le32"), (MASKED, "le64"))
]
NARROW = [record("r", [Field("a", INT8), Field("s", STRING)]), record("r", [Field("b", FLOAT32), Field("s", STRING)])]
"""What readers want that cannot hold all values of the files."""
COMPARED = ("a", "b", "c", "f", "g", "h", "in.d", "in.e", "k")
"""What filters compare."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes have blocks like those of gigabytes; filters run as Python."""
    monkeypatch.setattr(outlines, "STEP", 400)
    monkeypatch.setattr(batch, "compile_kernel", lambda source: CheckedKernel(source, [(0, 1 << 63)]))


def index(path: Path) -> Outline:
    (file,) = list_files([str(path)], Options())
    with path.open("rb") as source:
        outline, error = file_to_outline(file, source, ranged=True)
    assert error is None
    write_sidecar(FS, str(path), outline)
    return outline


def number_for(chance: random.Random, form: Format, name: str, type_: Basic, near: float) -> Any:
    """A value of a field near some number, or an odd one."""
    has_null = any(f.notes.null_bit is not None for f in form.record.structs[0].fields)
    if has_null and chance.random() < 0.1:
        return None
    is_odd = chance.random() < 0.01
    if type_.kind is Kind.FLOAT:
        odd = (math.nan, math.inf, -math.inf, -0.0, 0.1, 1e300 if type_.size == 8 else 1e30, 2.0**60)
        value = chance.choice(odd) if is_odd or chance.random() < 0.05 else round(near * 4) / 4
        return float(np.float32(value)) if type_.size == 4 else value
    bits = 8 * type_.size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_.kind is Kind.INTEGER else (0, (1 << bits) - 1)
    value = chance.choice((low, high, high // 2 + 1, 0, 2**53 + 1)) if is_odd else int(near)
    return min(max(value, low), high)


def values_for(chance: random.Random, form: Format, near: float) -> dict[str, Any]:
    def of(struct: Struct) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field in struct.fields:
            match field.type:
                case Basic(Kind.STRING):
                    made[field.name] = "x" * chance.randrange(30)
                case Ref(name):
                    made[field.name] = of(form.record.struct(name))
                case Basic() as type_ if not field.notes.hidden:
                    made[field.name] = number_for(chance, form, field.name, type_, near + chance.gauss(0, 3))
        return made

    return of(form.record.structs[0])


def write(path: Path, chance: random.Random, formats: list[Format], count: int = 120) -> None:
    """A file whose values grow, with odd ones between."""
    with path.open("wb") as file, FileWriter(file) as writer:
        for number in range(count):
            form = formats[number * len(formats) // count] if chance.random() < 0.95 else chance.choice(formats)
            writer.data(form, values_for(chance, form, number))
            if chance.random() < 0.05:
                writer.comment("between")


def condition(chance: random.Random, names: list[str]) -> str:
    name = chance.choice(names)
    middle = 120 * chance.choice((-1, 0, 0.1, 0.5, 0.9, 1, 1.5))
    value = chance.choice((f"{middle:.2f}", str(int(middle)), str(int(middle)), "127", "4000000000u"))
    place = f"input.{name}" if name != "in.d" and name != "in.e" else f'input["in"].{name[3:]}'
    one, other = (place, value) if chance.random() < 0.8 else (value, place)
    return f"{one} {chance.choice(('<', '<=', '>', '>=', '==', '!='))} {other}"


def program(chance: random.Random, names: list[str]) -> str:
    terms = [condition(chance, names) for _ in range(chance.choice((1, 1, 2, 3)))]
    both = " && ".join(terms)
    return chance.choice(
        (
            f"{{ return {both}; }}",
            f"{{ return {both}; }}",
            f"{{ return !({' || '.join(terms)}); }}",
            f"{{ if ({both}) return 1; return 0; }}",
            f"{{ if ({terms[0]}) return 0; return {terms[-1]}; }}",
            f"{{ return {' || '.join(terms)}; }}",
            f'{{ return {both} && input.s != "xx"; }}',
            f'{{ return input.s != "xx" && {both}; }}',
            f"{{ return {both} && 100 / (int) input.a > 0; }}",
        )
    )


def outcome(paths: list[str], **options: Any) -> tuple[Any, str]:
    """The rows, as they are, or the error."""
    try:
        return repr(pbio.read_arrow(paths, metadataColumn="_m", **options).to_pylist()), ""
    except PbioError as error:
        return None, error.code


def test_skipped_and_not_skipped_agree(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(None if os.environ.get("PBIO_LONG") else 7)
    caplog.set_level(logging.INFO, "pbio_spark.source")
    kept = 0
    for case in range(CASES):
        folder = tmp_path / str(case)
        folder.mkdir()
        formats = chance.sample(FORMATS, chance.choice((1, 1, 2, 3)))
        for name in "ab"[: chance.choice((1, 2))]:
            write(folder / f"{name}.ffs", chance, formats)
            index(folder / f"{name}.ffs")
        fields = {f.name for form in formats for f in form.record.structs[0].fields}
        names = [name for name in COMPARED if name.split(".")[0] in fields]
        mode = chance.choice(("FAILFAST", "PERMISSIVE", "DROPMALFORMED"))
        options = {
            "filter": program(chance, names),
            "mode": mode,
            "maxPartitionBytes": chance.choice((1_000, 3_000, 1 << 20)),
        }
        if chance.random() < 0.4:
            reader = chance.choice(NARROW)
            names = [name for name in names if reader.structs[0].find(name) is not None] or ["a"]
            options |= {
                "readerFormat": record_to_json(reader),
                "mismatchThreshold": 1,
                "filter": program(chance, names),
            }
        elif chance.random() < 0.3 and "k" in fields:
            options["defaults"] = json.dumps({"k": chance.choice((-1, 50))})
        found = outcome([str(folder)], **options)
        assert found == outcome([str(folder)], skipBlocks=False, **options), options
        kept += found[0] not in (None, "[]")
        shutil.rmtree(folder)
    skipping = [record for record in caplog.records if record.message.startswith("the filter skips")]
    assert len(skipping) > CASES / 5
    assert kept > CASES / 5


def test_ranges_are_those_of_the_values(tmp_path: Path) -> None:
    """Beside what plain Python finds in decoded records."""
    chance = random.Random(3)
    write(tmp_path / "a.ffs", chance, FORMATS, 300)
    outline = index(tmp_path / "a.ffs")
    starts = np.array([0, *(point.offset for point in outline.points)])
    known: dict[tuple[bytes, tuple[str, ...], int], list[Any]] = {}
    counts: dict[tuple[bytes, int], int] = {}
    with (tmp_path / "a.ffs").open("rb") as source:
        scanner = Scanner(source)
        for item in scanner.items():
            if item.kind.name != "DATA":
                continue
            form, payload = scanner.format_of(item), scanner.read(item)
            block = int(np.searchsorted(starts, item.offset, "right")) - 1
            counts[form.id, block] = counts.get((form.id, block), 0) + 1
            value = decode(form, payload)
            for path in outline.ranges[outline.formats.index(form)].paths:
                at: Any = value
                for name in path:
                    at = at[name]
                at = {"no": 0, "yes": 4_000_000_000}.get(at, at) if isinstance(at, str) else at
                known.setdefault((form.id, path, block), []).append(0 if at is None else at)
    seen = 0
    for form, ranges in zip(outline.formats, outline.ranges, strict=True):
        assert ranges.records.tolist() == [counts.get((form.id, block), 0) for block in range(ranges.blocks)]
        for path in ranges.paths:
            found = ranges.of(path)
            assert found is not None
            for block in range(ranges.blocks):
                values = [v for v in known.get((form.id, path, block), []) if v == v]
                least, most = found[0][block].item(), found[1][block].item()
                assert (least, most) == (min(values), max(values)) if values else least > most
                seen += bool(values)
    assert seen > 200
    found_of = dict(zip(outline.formats, (len(ranges.paths) for ranges in outline.ranges), strict=True))
    assert found_of == dict(zip(FORMATS, (8, 8, 4, 1, 3), strict=True))


@pytest.mark.parametrize(
    ("found", "odd", "wanted"),
    [
        (INT32, 1000, INT8),
        (INT64, -(2**40), INT32),
        (UINT64, 2**63 + 1, INT64),
        (FLOAT64, -0.1, FLOAT32),
        (INT64, -(2**53) - 1, FLOAT64),
    ],
)
def test_a_value_that_the_filter_cannot_read_is_met(tmp_path: Path, found: Basic, odd: float, wanted: Basic) -> None:
    """Although no comparison could let its record pass, nor any other of its block."""
    form, path = record_to_format(record("r", [Field("a", found), Field("s", STRING)])), tmp_path / "a.ffs"
    for first in (0, odd):
        with path.open("wb") as file, FileWriter(file) as writer:
            for number in range(100):
                writer.data(form, {"a": number if number else first, "s": "x" * 20})
        index(path)
        wish = {"readerFormat": record_to_json(record("r", [Field("a", wanted), Field("s", STRING)]))}
        options = {**wish, "diffThreshold": 10, "mismatchThreshold": 1, "filter": "{ return input.a == 90; }"}
        rows, code = outcome([str(path)], **options)
        assert (rows, code) == outcome([str(path)], skipBlocks=False, **options)
        assert code == ("PBIO_VALUE_BEYOND_TYPE" if first else ""), rows


def test_a_default_is_of_the_type_that_the_filter_sees(tmp_path: Path) -> None:
    """0.1 as a float is more than 0.1 as a double."""
    old = record_to_format(record("r", [Field("s", STRING)]))
    new = record_to_format(record("r", [Field("s", STRING), Field("x", FLOAT32)]))
    with (tmp_path / "a.ffs").open("wb") as file, FileWriter(file) as writer:
        for _ in range(20):
            writer.data(old, {"s": "x" * 40})
        writer.data(new, {"s": "", "x": 5.0})
    index(tmp_path / "a.ffs")
    for sign, count in ((">", 21), ("<", 0)):
        options = {"filter": f"{{ return input.x {sign} 0.1; }}", "defaults": json.dumps({"x": 0.1})}
        for skips in (True, False):
            assert pbio.read_arrow(str(tmp_path), skipBlocks=skips, **options).num_rows == count


def test_a_size_that_the_filter_cannot_read_is_met(tmp_path: Path) -> None:
    """A program that goes into an array reads its size, whatever its first comparison says."""
    form = record_to_format(record("r", [Field("a", INT32), Field("n", INT32), Field("v", Array(INT8, ("n",)))]))
    wanted = record("r", [Field("a", INT32), Field("n", INT8), Field("v", Array(INT8, ("n",)))])
    path = tmp_path / "a.ffs"
    for size in (100, 200):
        with path.open("wb") as file, FileWriter(file) as writer:
            for number in range(40):
                count = 0 if number else size
                writer.data(form, {"a": number, "n": count, "v": [1] * count})
        index(path)
        options = {"readerFormat": record_to_json(wanted), "filter": "{ return input.a == 39 && input.v[0] == 1; }"}
        _, code = found = outcome([str(path)], **options)
        assert found == outcome([str(path)], skipBlocks=False, **options)
        assert (code == "PBIO_VALUE_BEYOND_TYPE") == (size > 127), code


def test_a_writer_finds_the_same_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "STEP", 400)
    schema = pa.schema([("a", pa.int32()), ("x", pa.float64()), ("s", pa.string())])
    form = record_to_format(columns_to_record(schema, "r", "mask"))
    file = output.OutputFile(
        FS, str(tmp_path), "a.ffs", [form, FORMATS[3]], indexed=False, summed=False, ranged=ranges_kernel()
    )
    encoder = format_to_encoder(form, schema, wrap=True)
    chance = random.Random(5)
    for _ in range(3):
        rows = [{"a": chance.choice((None, 5, -7)), "x": chance.random(), "s": "y" * 20} for _ in range(40)]
        file.add(encoder.encode(pa.RecordBatch.from_pylist(rows, schema)))
    written = file.close()
    with (tmp_path / "a.ffs").open("rb") as source:
        outline, _ = file_to_outline(list_files([str(tmp_path / "a.ffs")], Options())[0], source, ranged=True)
    assert written.points == outline.points
    assert len(outline.points) > 10
    assert [form.id for form in outline.formats] == [form.id, FORMATS[3].id]
    assert written.ranges == outline.ranges[0]
    assert not outline.ranges[1].records.any()


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
    assert list(range_problems(str(ordered), known)) == []
    (ranges,) = known.ranges
    most = np.frombuffer(ranges.most, "<i8").copy()
    most[1] += 1
    lie = replace(known, ranges=(replace(ranges, most=most.tobytes()),))
    (problem,) = range_problems(str(ordered), lie)
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
