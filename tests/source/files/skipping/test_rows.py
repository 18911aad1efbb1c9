"""A filter gives the same rows with and without skipping, and ranges match the values."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pbio_spark as pbio
from ecode.types import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT64,
    Array,
    Basic,
    Field,
    record,
)
from pbio_spark.columns import format_to_encoder, ranges_kernel
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import record_to_json
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.source.options.options import Options
from pbio_spark.source.write import output
from pbio_spark.wire import FileWriter, Scanner, decode
from tests.source.files.skipping.made import FORMATS, FS, index, write

CASES = 5_000 if os.environ.get("PBIO_LONG") else 60
NARROW = [record("r", [Field("a", INT8), Field("s", STRING)]), record("r", [Field("b", FLOAT32), Field("s", STRING)])]
"""What readers want that cannot hold all values of the files."""
COMPARED = ("a", "b", "c", "f", "g", "h", "in.d", "in.e", "k")
"""What filters compare."""


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
