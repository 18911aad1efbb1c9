"""Every file, buffer and format of the corpus, read to its expected lines and written again byte for byte."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.formats import Format
from pbio_spark.wire import (
    FileWriter,
    ItemKind,
    Scanner,
    attributes_from_bytes,
    decode,
    encode,
    items_to_json,
    read_block,
    read_index,
    record_to_json,
)
from tests.corpus import expected_items, ffs_files, ffs_json
from tests.ffs.test_library import stream_to_file
from tests.wire.json_values import json_to_values

FILES = ("generated/*.ffs", "foreign/*.ffs", "golden/file_output.*.bin", "golden/index_output.*.bin")
STREAMS = "golden/context_test_output.*.bin"

# Records with garbage of their writer's memory between the fields, by file; the corpus names them.
GARBAGE = {
    "context_test_output.rhe4-64.bin": ["string_array"] * 5,
    "context_test_output.sun8-64.bin": ["string_array"] * 5,
    "file_output.win64.bin": ["EventV"] * 3,
    "index_output.win64.bin": ["EventV"] * 2,
}

# Files whose writer repeated the format before every record.
REPEATING = [f"file_output.{machine}.bin" for machine in ("ia64", "rhe4", "rhe5", "sun8", "sun8-64")]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return stream_to_file(data) if path.name.startswith("context_test_output") else data


def lines(path: Path, kinds: Iterable[str]) -> list[dict[str, Any]]:
    read = (json.loads(line) for line in items_to_json(Scanner(content(path), path.name)))
    return [line for line in read if line["kind"] in kinds]


def texts(lines: Iterable[Any]) -> list[str]:
    """JSON values as strings that keep the order of keys and tell 1 from 1.0 and 0.0 from -0.0."""
    return [json.dumps(line) for line in lines]


@pytest.mark.parametrize("path", ffs_files("generated/*.ffs", "foreign/*.ffs"))
def test_reads_generated_files(path: Path) -> None:
    read, expected = all_of(path), expected_items(path)
    if path.name == "transform.le32.ffs":  # here the corpus shows only the first of two opt-info blocks
        blocks = read[0]["struct"]["opt_info"]
        assert [block["type"] for block in blocks] == ["0x45564f4c", "0x584d4c20"]
        del blocks[1:]
    assert texts(read) == texts(expected)


def all_of(path: Path) -> list[dict[str, Any]]:
    return lines(path, ["comment", "format", "data", "index"])


@pytest.mark.parametrize("path", ffs_files("golden/*.bin"))
def test_reads_golden_files(path: Path) -> None:
    read = lines(path, ["comment", "data"])
    for line in read:
        line.pop("id", None)
    expected = expected_items(path)
    if path.match(STREAMS):
        assert expected.pop() == {"kind": "end"}
    assert texts(read) == texts(expected)


@pytest.mark.parametrize("path", ffs_files("golden/*.bin"))
def test_reads_formats_of_golden_files(path: Path) -> None:
    expected = json.loads(path.with_suffix(".formats.json").read_text())
    read = lines(path, ["format"])
    for line in read:
        line["structs"] = [line["struct"], *line["subformats"]]
    assert texts(same_keys(expected, read)) == texts(expected)


def same_keys(expected: Any, read: Any) -> Any:
    """The part of `read` that has the keys of `expected`, in their order; some stand in the top structure."""
    if isinstance(expected, list):
        assert len(expected) == len(read)
        return [same_keys(*pair) for pair in zip(expected, read, strict=True)]
    if isinstance(expected, dict):
        found = {**read["struct"], **read} if "struct" in read else read
        return {key: same_keys(part, found[key]) for key, part in expected.items()}
    return read


@pytest.mark.parametrize("path", ffs_files("golden/index_output.*.bin"))
def test_reads_index_of_golden_files(path: Path) -> None:
    expected = [json.loads(line) for line in path.with_suffix(".index.jsonl").read_text().splitlines()]
    assert texts(lines(path, ["index"])) == texts(expected)


@pytest.mark.parametrize("path", ffs_files(*FILES, STREAMS))
def test_encodes_every_record_again(path: Path) -> None:
    scanner = Scanner(content(path), path.name)
    different = []
    for item in scanner.items():
        if item.kind is ItemKind.DATA:
            form, record = scanner.format_of(item), scanner.read(item)
            again = encode(form, decode(form, record))
            assert len(again) == len(record)
            assert record_to_json(form, again) == record_to_json(form, record)
            different += [form.name] if again != record else []
    assert different == GARBAGE.get(path.name, [])


@pytest.mark.parametrize("path", ffs_files(*FILES))
def test_writes_every_file_again(path: Path) -> None:
    data = path.read_bytes()
    file = io.BytesIO()
    with FileWriter(file, indexed=is_indexed(data)) as writer:
        copy_items(data, writer)
    if path.name in REPEATING:
        read, again = lines(path, ["comment", "data"]), Scanner(file.getvalue())
        assert texts(line for line in map(json.loads, items_to_json(again)) if line["kind"] != "format") == texts(read)
    else:
        assert file.getvalue() == data


@pytest.mark.parametrize("path", ffs_files("generated/indexed*.ffs"))
def test_appending_makes_the_file_that_one_go_makes(path: Path) -> None:
    data = path.read_bytes()
    count = sum(item.kind in (ItemKind.COMMENT, ItemKind.DATA) for item in Scanner(data).items())
    for split in range(count + 1):
        file = io.BytesIO()
        with FileWriter(file, indexed=True) as writer:
            copy_items(data, writer, range(split))
        with FileWriter(file, indexed=True, append=True) as writer:
            copy_items(data, writer, range(split, count))
        assert file.getvalue() == data, split


@pytest.mark.parametrize("path", ffs_files("generated/indexed*.ffs", "golden/index_output.*.bin"))
def test_index_leads_to_every_item(path: Path) -> None:
    data = path.read_bytes()
    blocks = read_index(Scanner(data))
    assert blocks is not None
    items = {item.offset: item for item in Scanner(data).items() if item.kind in (ItemKind.FORMAT, ItemKind.DATA)}
    entries = [entry for block in blocks for entry in block.entries]
    assert [(e.offset, e.format_id, e.is_data) for e in entries] == [
        (i.offset, i.format_id, i.kind is ItemKind.DATA) for i in items.values()
    ]
    for block in blocks:
        assert [items[e.offset].ordinal for e in block.entries if e.is_data] == list(block.ordinals)


def test_encodes_every_buffer() -> None:
    formats = {
        entry["id"]: Format.from_body(bytes.fromhex(entry["body"]), bytes.fromhex(entry["id"]))
        for entry in ffs_json("formats.json")
    }
    for entry in ffs_json("encoded.json"):
        form, record = formats[entry["format_id"]], bytes.fromhex(entry["buffer"])
        assert (form.header_size, len(record)) == (entry["header_size"], entry["length"])
        assert texts([json.loads(record_to_json(form, record))]) == texts([entry["value"]])
        assert encode(form, json_to_values(form, entry["value"])) == record
        assert encode(form, decode(form, record)) == record


def is_indexed(data: bytes) -> bool:
    return any(item.kind is ItemKind.INDEX for item in Scanner(data).items())


def copy_items(data: bytes, writer: FileWriter, only: range | None = None) -> None:
    """Writes the comments and records of a file, or those among them that `only` counts, with their attributes."""
    scanner = Scanner(data)
    attributes: dict[int, bytes] = {}
    count = 0
    for item in scanner.items():
        if item.kind is ItemKind.INDEX:
            attributes = {e.offset: e.attributes for e in read_block(scanner, item).entries if e.attributes}
        if item.kind not in (ItemKind.COMMENT, ItemKind.DATA):
            continue
        if only is None or count in only:
            if item.kind is ItemKind.COMMENT:
                writer.comment(scanner.comment(item))
            else:
                listed = attributes.get(item.offset)
                parsed = None if listed is None else attributes_from_bytes(listed)
                writer.data(scanner.format_of(item), scanner.read(item), parsed)
        count += 1
