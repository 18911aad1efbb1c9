"""Rewrites the files `wire/layout_*` of this folder: `python -m tests.golden.make`.

A change of these files is a change of what this project writes, so they are made deliberately, never in a test. Each
file holds one kind of layout on every machine, in every body version; the values are written down here, not read back.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ecode.types import (
    BOOLEAN,
    CHAR,
    ENUMERATION,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    record,
)
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, ItemKind, Scanner, attribute, items_to_json

WIRE = Path(__file__).parent / "wire"
VARIANTS = (("le64", 2), ("be64", 2), ("le32", 2), ("be32", 2), ("le64", 0), ("be32", 0), ("be64", 1), ("le32", 1))
"""Both byte orders and pointer sizes in version 2; each of the older versions in both orders and both sizes."""

Values = dict[str, Any]
INDEXED = 6
"""So many records of each layout are in the indexed file; they fill several blocks."""

POINT = Struct("point", (Field("x", INT16), Field("y", FLOAT64)))
NAMED = Struct("named", (Field("name", STRING), Field("k", INT32), Field("v", Array(INT16, ("k",)))))
TREE = Struct("tree", (Field("tag", INT32), Field("left", Pointer(Ref("tree"))), Field("right", Pointer(Ref("tree")))))
SHARED: Values = {"tag": 3, "left": None, "right": None}
NUMBERS = (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)


def _numbers(values: list[int]) -> Values:
    return {f"{type_.kind.name[0].lower()}{type_.size}": value for type_, value in zip(NUMBERS, values, strict=True)}


LAYOUTS: dict[str, tuple[Record, list[Values]]] = {
    "fixed": (
        record(
            "fixed",
            [
                *(Field(name, type_) for name, type_ in zip(_numbers([0] * 8), NUMBERS, strict=True)),
                Field("f4", FLOAT32),
                Field("f8", FLOAT64),
            ],
        ),
        [
            _numbers([-128, -(2**15), -(2**31), -(2**63), 0, 0, 0, 0]) | {"f4": -0.5, "f8": 2.0**-1074},
            _numbers([127, 2**15 - 1, 2**31 - 1, 2**63 - 1, 255, 2**16 - 1, 2**32 - 1, 2**64 - 1])
            | {"f4": 16777216.0, "f8": 0.1},
        ],
    ),
    "strings": (
        record("strings", [Field("a", STRING), Field("pair", Array(STRING, (2,))), Field("b", STRING)]),
        [
            {"a": "odd", "pair": ["", None], "b": "Größe"},
            {"a": None, "pair": ["one", "one"], "b": ""},
        ],
    ),
    "dynamic": (
        record(
            "dynamic",
            [
                Field("v", Array(FLOAT64, ("n",))),
                Field("n", INT16),
                Field("grid", Array(INT16, ("n", 2))),
                Field("m", UINT8),
                Field("words", Array(STRING, ("m",))),
            ],
        ),
        [
            {"v": [1.5, -2.0], "n": 2, "grid": [[1, 2], [3, -4]], "m": 3, "words": ["a", None, ""]},
            {"v": None, "n": 0, "grid": None, "m": 0, "words": None},
        ],
    ),
    "static": (
        record("static", [Field("a", Array(INT16, (2, 3))), Field("b", Array(FLOAT32, (3,))), Field("c", INT8)]),
        [{"a": [[1, 2, 3], [-1, -2, -3]], "b": [0.5, 0.25, -8.0], "c": 7}],
    ),
    "nested": (
        record("nested", [Field("id", INT8), Field("at", Ref("point")), Field("who", Ref("named"))], [POINT, NAMED]),
        [{"id": 1, "at": {"x": -2, "y": 0.5}, "who": {"name": "Ann", "k": 3, "v": [7, 8, 9]}}],
    ),
    "pointers": (
        record(
            "pointers",
            [
                Field("number", Pointer(INT32)),
                Field("point", Pointer(Ref("point"))),
                Field("n", INT32),
                Field("points", Array(Pointer(Ref("point")), ("n",))),
                Field("block", Pointer(Array(INT16, (3,)))),
            ],
            [POINT],
        ),
        [
            {
                "number": 5,
                "point": {"x": 1, "y": 2.0},
                "n": 2,
                "points": [None, {"x": 3, "y": 4.0}],
                "block": [1, 2, 3],
            },
            {"number": None, "point": None, "n": 0, "points": None, "block": None},
        ],
    ),
    "recursive": (
        record("recursive", [Field("root", Pointer(Ref("tree")))], [TREE]),
        [{"root": {"tag": 1, "left": {"tag": 2, "left": SHARED, "right": None}, "right": SHARED}}, {"root": None}],
    ),
    "structs": (
        record(
            "structs",
            [Field("pair", Array(Ref("named"), (2,))), Field("n", INT32), Field("many", Array(Ref("named"), ("n",)))],
            [NAMED],
        ),
        [
            {
                "pair": [{"name": "a", "k": 1, "v": [1]}, {"name": None, "k": 0, "v": None}],
                "n": 2,
                "many": [{"name": "", "k": 2, "v": [2, 3]}, {"name": "z", "k": 0, "v": None}],
            }
        ],
    ),
    "chars": (
        record(
            "chars",
            [Field("c", CHAR), Field("tag", Array(CHAR, (5,))), Field("n", INT32), Field("t", Array(CHAR, ("n",)))],
        ),
        [{"c": 200, "tag": list(b"ab\0cd"), "n": 3, "t": list(b"xyz")}],
    ),
    "choices": (
        record(
            "choices",
            [
                *(Field(f"b{size}", Basic(Kind.BOOLEAN, size)) for size in (1, 2, 4, 8)),
                *(Field(f"e{size}", Basic(Kind.ENUMERATION, size)) for size in (1, 2, 4, 8)),
                Field("state", ENUMERATION, Notes(symbols=(("cold", 0), ("hot", 7)))),
                Field("ok", BOOLEAN, Notes(default=True)),
            ],
        ),
        [
            {
                "b1": True,
                "b2": False,
                "b4": True,
                "b8": True,
                "e1": 255,
                "e2": 65535,
                "e4": 4294967295,
                "e8": 2**64 - 1,
                "state": 7,
                "ok": False,
            }
        ],
    ),
    "long_doubles": (
        record("long_doubles", [Field("n", INT8), Field("wide", Basic(Kind.FLOAT, 16)), Field("f", FLOAT64)]),
        [{"n": 1, "wide": bytes(range(16)), "f": 1.5}],
    ),
    "null_bits": (
        record(
            "null_bits",
            [
                Field("a", FLOAT64, Notes(null_bit=0)),
                Field("n", INT32, Notes(hidden=True)),
                Field("v", Array(INT32, ("n",)), Notes(null_bit=1, null_items="v_nulls")),
                Field("v_nulls", Array(UINT8, ("n",)), Notes(hidden=True)),
                Field("nulls", Array(UINT8, (1,)), Notes(logical="nulls", hidden=True)),
            ],
        ),
        [{"a": None, "n": 3, "v": [1, None, 3]}, {"a": 2.5, "n": 0, "v": None}, {"a": 0.0, "n": 1, "v": [0]}],
    ),
}


def content(name: str, variants: Iterable[tuple[str, int]] = VARIANTS) -> bytes:
    """A file with the records of one layout, for machines and body versions."""
    of, values = LAYOUTS[name]
    file = io.BytesIO()
    with FileWriter(file) as writer:
        for machine, version in variants:
            form = record_to_format(of, machine, body_version=version)
            writer.comment(f"{machine}, version {version}")
            for value in values:
                writer.data(form, value)
    return file.getvalue()


def files() -> Iterator[tuple[str, str, bytes]]:
    """Name, a sentence, and the bytes of each file."""
    for name in LAYOUTS:
        what = name.replace("_", " ").capitalize()
        yield f"layout_{name}", f"{what} on every machine, in all body versions.", content(name)
    file = io.BytesIO()
    with FileWriter(file, indexed=True) as writer:
        for i in range(INDEXED):
            for machine in ("le64", "be32"):
                value = LAYOUTS["strings"][1][i % 2]
                writer.data(record_to_format(LAYOUTS["strings"][0], machine), value, [attribute("step", i)])
    yield "layout_indexed", "Index blocks with attributes over records of two machines.", file.getvalue()


def dump(title: str, data: bytes) -> str:
    """An annotated dump: in each line an offset, bytes, and at the start of an item what it is."""
    lines, at = [f"; {title}", f"0000  {data[:4].hex(' ', -4)}  ; magic"], 4
    scanner = Scanner(data)
    for item in scanner.items():
        meaning = item.kind.name.lower()
        if item.kind is ItemKind.COMMENT:
            meaning += f" {scanner.comment(item).decode()!r}"
        assert item.offset == at
        for start in range(item.offset, item.end, 32):
            line = f"{start:04x}  {data[start : min(start + 32, item.end)].hex(' ', -4)}"
            lines.append(line + (f"  ; {meaning}" if start == item.offset else ""))
        at = item.end
    return "\n".join(lines) + "\n"


def main() -> None:
    for name, title, data in files():
        (WIRE / f"{name}.hex").write_text(dump(title, data), encoding="utf-8")
        lines = "".join(line + "\n" for line in items_to_json(Scanner(data)))
        (WIRE / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
