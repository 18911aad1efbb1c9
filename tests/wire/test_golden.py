"""The conformance files of this project: bytes to values and back, values to bytes, damage to its error."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, ItemKind, Scanner, decode, encode, items_to_json
from tests.golden.make import LAYOUTS, VARIANTS, files
from tests.wire.test_corpus import copy_items, is_indexed

FOLDER = Path(__file__).parents[1] / "golden"
GOLDEN = sorted((FOLDER / "wire").glob("*.hex"))
DAMAGED: list[dict[str, Any]] = json.loads((FOLDER / "damaged.json").read_text())


def dump_to_bytes(dump: str) -> bytes:
    """The bytes of a dump: in each line an offset, bytes, and after a semicolon what they are."""
    data = b""
    for line in dump.splitlines():
        offset, _, digits = line.partition(";")[0].partition("  ")
        if offset:
            assert int(offset, 16) == len(data)
            data += bytes.fromhex(digits)
    return data


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_reads_to_the_expected_lines_and_back(path: Path) -> None:
    data = dump_to_bytes(path.read_text())
    assert list(items_to_json(Scanner(data))) == path.with_suffix(".jsonl").read_text().splitlines()
    scanner = Scanner(data)
    for item in scanner.items():
        if item.kind is ItemKind.DATA:
            form, record = scanner.format_of(item), scanner.read(item)
            assert encode(form, decode(form, record, strict=False)) == record
    file = io.BytesIO()
    with FileWriter(file, indexed=is_indexed(data)) as writer:
        copy_items(data, writer)
    assert file.getvalue() == data


@pytest.mark.parametrize(("name", "data"), [(name, data) for name, _, data in files()], ids=lambda part: str(part)[:20])
def test_writes_the_same_files_again(name: str, data: bytes) -> None:
    assert dump_to_bytes((FOLDER / "wire" / f"{name}.hex").read_text(encoding="utf-8")) == data


@pytest.mark.parametrize("name", LAYOUTS)
def test_reads_the_values_that_were_written(name: str) -> None:
    """What `make` wrote down, not what a reader once found."""
    of, values = LAYOUTS[name]
    scanner = Scanner(dump_to_bytes((FOLDER / "wire" / f"layout_{name}.hex").read_text(encoding="utf-8")))
    found = [
        (scanner.format_of(item), decode(scanner.format_of(item), scanner.read(item)))
        for item in scanner.items()
        if item.kind is ItemKind.DATA
    ]
    expected = [
        (record_to_format(of, machine, body_version=version), value)
        for machine, version in VARIANTS
        for value in values
    ]
    assert found == expected


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case["what"])
def test_damage_is_an_error_with_its_place(case: dict[str, Any]) -> None:
    data = bytearray(dump_to_bytes((FOLDER / "wire" / "annotated.hex").read_text(encoding="utf-8")))
    change = bytes.fromhex(case.get("bytes", ""))
    data[case.get("at", 0) : case.get("at", 0) + len(change)] = change
    with pytest.raises(PbioError) as caught:
        read_all(bytes(data[: case.get("cut")]))
    assert (caught.value.code, caught.value.offset) == (case["code"], case["offset"])


def read_all(data: bytes) -> None:
    scanner = Scanner(data)
    for item in scanner.items():
        if item.kind is ItemKind.COMMENT:
            scanner.comment(item)
        elif item.kind is ItemKind.DATA:
            record = scanner.read(item)
            decode(scanner.format_of(item), record, offset=item.end - len(record))


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) == 7 + len(list(files()))
