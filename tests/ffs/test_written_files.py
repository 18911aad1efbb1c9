"""The real library reads what Spark's writer makes: nulls by masks and pointers, and files in a format of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.wire import ItemKind, Scanner
from tests.ffs.native import natural, struct
from tests.ffs_library import Item, read_file, write_file
from tests.source.by_hand import save
from tests.source.local import batches, load, plan

POINT = pa.struct([("x", pa.float32()), ("ok", pa.bool_())])
NULLABLE = pa.schema(
    [
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("v", pa.list_(pa.int64())),
        ("at", POINT),
        ("name", pa.string()),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"n": 1, "x": None, "v": [None, 7, None], "at": {"x": None, "ok": True}, "name": "a"},
    {"n": None, "x": 2.5, "v": [], "at": None, "name": None},
    {"n": None, "x": None, "v": None, "at": {"x": 0.5, "ok": None}, "name": ""},
]


def their_values(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("*.ffs")
    return [item["value"] for item in read_file(path) if item["kind"] == "data"]


@pytest.mark.parametrize("machine", ["le64", "be64"])
def test_a_mask_is_one_more_field_to_the_library(tmp_path: Path, machine: str) -> None:
    save(tmp_path, pa.RecordBatch.from_pylist(ROWS, NULLABLE), nulls="mask", machine=machine)
    assert load(tmp_path) == ROWS
    first, second, third = their_values(tmp_path)
    # A null reads as zero; the bits say which fields are null, in the order of those that may be.
    assert (first["n"], first["x"], first["v_count"], first["v"]) == (1, 0.0, 3, [0, 7, 0])
    assert (second["n"], second["x"], second["v_count"], second["name"]) == (0, 2.5, 0, None)
    assert (third["n"], third["x"], third["v"], third["name"]) == (0, 0.0, None, "")
    n, x, v = 1, 2, 4
    assert [value["nulls"][0] & (n | x | v) for value in (first, second, third)] == [x, n, n | x | v]
    assert first["v_nulls"] == [1, 0, 1]
    assert [None if value["at"] is None else value["at"]["x"] for value in (first, second, third)] == [0.0, None, 0.5]


def test_the_library_follows_the_pointers_of_nulls(tmp_path: Path) -> None:
    save(tmp_path, pa.RecordBatch.from_pylist(ROWS, NULLABLE), nulls="pointer")
    assert load(tmp_path) == ROWS
    assert [{name: value[name] for name in ("n", "x", "at", "name")} for value in their_values(tmp_path)] == [
        {name: row[name] for name in ("n", "x", "at", "name")} for row in ROWS
    ]


def test_the_library_reads_a_file_in_the_format_of_its_own(tmp_path: Path) -> None:
    native = natural(
        (
            struct(
                "sample",
                ("count", "integer", 4),
                ("values", "float[count]", 4),
                ("label", "char[6]", 1),
                ("grid", "unsigned integer[2][2]", 2),
                ("at", "place", 0),
                ("next", "*place", 0),
                ("text", "string", 8),
            ),
            struct("place", ("x", "double", 8), ("k", "integer", 2)),
        )
    )
    place = {"x": 0.25, "k": -3}
    values = [
        {
            "count": number,
            "values": [0.5] * number or None,
            "label": [97, 98, 0, 0, 0, 0],
            "grid": [[1, 2], [3, 65535 - number]],
            "at": place,
            "next": [None, place][number % 2],
            "text": [None, "", "ü"][number],
        }
        for number in range(3)
    ]
    theirs, ours = tmp_path / "theirs.ffs", tmp_path / "ours"
    write_file(theirs, [Item(native, value) for value in values])
    save(ours, *batches(plan(theirs)), writeFormat=f"{theirs}#sample")
    assert their_values(ours) == values
    (path,) = ours.glob("*.ffs")
    assert records(path) == records(theirs)


def records(path: Path) -> list[bytes]:
    """Each record as in a file, its format's ID first."""
    scanner = Scanner(path.read_bytes())
    return [bytes(scanner.read(item)) for item in scanner.items() if item.kind is ItemKind.DATA]
