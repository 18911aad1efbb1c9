"""Golden files of our own, as annotated dumps: what the corpus does not show."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pbio_spark.wire import FileWriter, Kind, Scanner, decode, encode, items_to_json
from tests.wire.test_corpus import copy_items, is_indexed

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "wire").glob("*.hex"))


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
        if item.kind is Kind.DATA:
            form, record = scanner.format_of(item), scanner.read(item)
            assert encode(form, decode(form, record, strict=False)) == record
    file = io.BytesIO()
    with FileWriter(file, indexed=is_indexed(data)) as writer:
        copy_items(data, writer)
    assert file.getvalue() == data


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) == 6
