"""The bridge to the real library, tested with every file, format and encoded record of the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import expected_items, ffs_files, ffs_json
from tests.ffs.native import NativeField, NativeStruct, natural, struct
from tests.ffs_library import Context, Item, LibraryCrash, library, read_file, write_file


def values(items: Iterable[dict[str, Any]]) -> list[str]:
    """Comments and records as strings that tell 1 from 1.0 and 0.0 from -0.0, the order of fields aside."""
    compared = ("kind", "text", "format", "value", "attrs")
    return [
        json.dumps({key: item[key] for key in compared if key in item}, sort_keys=True)
        for item in items
        if item["kind"] in ("comment", "data")
    ]


@pytest.mark.parametrize(
    "path", ffs_files("generated/*.ffs", "foreign/*.ffs", "golden/file_output.*.bin", "golden/index_output.*.bin")
)
def test_reads_every_file_of_the_corpus(path: Path) -> None:
    assert values(read_file(path)) == values(expected_items(path))


@pytest.mark.parametrize("path", ffs_files("golden/context_test_output.*.bin"))
def test_reads_every_stream_of_the_corpus(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "stream.ffs"
    file.write_bytes(stream_to_file(path.read_bytes()))
    assert values(read_file(file)) == values(expected_items(path))


def stream_to_file(stream: bytes) -> bytes:
    """The same items in an FFS file: with the magic and with two-word heads of data items (ffs-wire-format 2.3)."""
    file, at = [bytes.fromhex("4356ffa9")], 0
    while at < len(stream):
        kind, length = stream[at], int.from_bytes(stream[at + 1 : at + 4])
        if kind == 2:
            end = at + 8 + length + int.from_bytes(stream[at + 4 : at + 8])
            file.append(stream[at:end])
        else:
            assert kind == 3
            end = at + 4 + length
            if length:
                file.append(bytes.fromhex("03000000") + stream[at + 1 : at + 4].rjust(4, b"\0") + stream[at + 4 : end])
        at = end
    return b"".join(file)


def structs_of(rows: list[dict[str, Any]]) -> tuple[NativeStruct, ...]:
    """The structures of a format as the corpus describes them."""
    return tuple(
        NativeStruct(
            row["name"],
            tuple(NativeField(*f) for f in row["fields"]),
            row["struct_size"] if "struct_size" in row else row["record_length"],
            tuple((int(o["type"], 16), bytes.fromhex(o["hex"])) for o in row.get("opt_info", [])),
        )
        for row in rows
    )


def test_registers_formats_as_the_corpus_did() -> None:
    for entry in ffs_json("formats.json"):
        if "registered" in entry:
            opt_info = {row["name"]: row["opt_info"] for row in entry["structs"]}
            rows = [{**row, "opt_info": opt_info.get(row["name"], [])} for row in entry["registered"]]
            context = Context(
                column_major=entry["label"] == "column_major", keep_defaults=entry["label"] == "default_values_kept"
            )
            made = context.register(structs_of(rows))
            assert (made.id.hex(), made.body.hex()) == (entry["id"], entry["body"]), entry["label"]


@pytest.mark.parametrize("code_generation", [False, True])
def test_encodes_and_decodes_the_records_of_the_corpus(code_generation: bool) -> None:
    formats = {entry["id"]: entry for entry in ffs_json("formats.json")}
    for record in ffs_json("encoded.json"):
        entry = formats[record["format_id"]]
        column_major = bool(entry["structs"][0]["column_major"])
        encoded = bytes.fromhex(record["buffer"])

        writer = Context(column_major=column_major)
        made = writer.register(structs_of(entry["structs"]))
        assert made.id.hex() == record["format_id"]
        assert writer.encode(made, record["value"]).hex() == record["buffer"], record["format"]

        if not (code_generation and column_major):  # defect 6: generated code loses elements there
            reader = Context(library(code_generation))
            reader.load(bytes.fromhex(entry["id"]), bytes.fromhex(entry["body"]))
            expected = json.dumps(record["value"], sort_keys=True)
            for how in ("copy", "buffer", "place"):
                assert json.dumps(reader.decode(encoded, how), sort_keys=True) == expected, (record["format"], how)


LIST = natural([struct("list", ("v", "integer", 4), ("label", "string", 8), ("next", "*list", 8))])
READING = natural(
    [
        struct("reading", ("n", "integer", 2), ("at", "point[2]", 0), ("series", "float[n]", 4), ("near", "*point", 0)),
        struct("point", ("x", "float", 8), ("label", "string", 8), ("flags", "unsigned integer[3]", 1)),
    ]
)


def point(x: float | str, label: str | None) -> dict[str, Any]:
    return {"x": x, "label": label, "flags": [1, 2, 255]}


def reading(number: int) -> dict[str, Any]:
    return {
        "n": number % 3,
        "at": [point(number / 2, "a"), point("-Infinity" if number else 0.0, None)],
        "series": [float(i) for i in range(number % 3)] or None,
        "near": point(-0.0, "ümlaut") if number % 2 else None,
    }


CYCLE = {
    "$nodes": [
        {"v": 0, "label": "head", "next": {"$node": 1}},
        {"v": 1, "label": None, "next": {"$node": 2}},
        {"v": 2, "label": "", "next": {"$node": 1}},
    ]
}


RECORDS = [(READING, reading(number)) for number in range(40)] + [(LIST, CYCLE)]


@pytest.mark.parametrize("indexed", [False, True])
def test_reads_what_it_writes(tmp_path: Path, indexed: bool) -> None:
    path = tmp_path / "written.ffs"
    write_file(path, ["before", *(Item(*record) for record in RECORDS), "ümlaut"], indexed)

    items = read_file(path)
    assert [item["text"] for item in items if item["kind"] == "comment"] == ["before", "ümlaut"]
    assert [item["value"] for item in items if item["kind"] == "data"] == [value for _, value in RECORDS]
    assert any(item["kind"] == "index" for item in items) is indexed


def test_reads_attributes_and_finds_records_through_the_index(tmp_path: Path) -> None:
    path = tmp_path / "indexed.ffs"
    write_file(path, (Item(*record, {"iteration": -7, "who": "me", "scale": 2.5}) for record in RECORDS), indexed=True)

    items = read_file(path, seek=[40, 3, 0, 39])
    assert [item["value"] for item in items if item["kind"] == "sought"] == [RECORDS[n][1] for n in (40, 3, 0, 39)]
    for item in items:
        if item["kind"] in ("data", "sought"):
            found = {a["type"]: a["value"] for a in item["attrs"]}
            assert found == {"int4": -7, "string": "me", "float8": 2.5}


def test_a_damaged_file_ends_only_the_reading_process(tmp_path: Path) -> None:
    path = tmp_path / "damaged.ffs"
    write_file(path, [Item(LIST, CYCLE)])
    path.write_bytes(path.read_bytes() + b"\x77\x00\x00\x00")
    with pytest.raises(LibraryCrash, match="after 2 items"):
        read_file(path)


def test_both_ways_of_converting_live_in_one_process() -> None:
    """Defect 5 of the library tells them apart: generated code widens floats wrongly."""
    narrow, wide = (natural([struct("x", ("v", "float", size))]) for size in (4, 8))
    converted = {}
    for code_generation in (False, True):
        context = Context(library(code_generation))
        converted[code_generation] = context.decode(context.encode(context.register(narrow), {"v": 1.5}), target=wide)
    assert converted[False] == {"v": 1.5}
    assert converted[True] != {"v": 1.5}
