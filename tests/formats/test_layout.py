"""Layouts: those of C compilers, here and on the machines whose files the corpus holds."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    UINT16,
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
    Type,
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.body.opt_info import FormatTransform, transform_to_opt_info
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.machine import MACHINES
from pbio_spark.testing.strategies import record_types
from tests.corpus import ffs_json

GOLDEN = Path(__file__).parents[1] / "golden" / "formats.json"

C_TYPES: dict[Kind, dict[int, Any]] = {
    Kind.INTEGER: {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64},
    Kind.UNSIGNED: {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64},
    Kind.BOOLEAN: {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64},
    Kind.ENUMERATION: {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64},
    Kind.FLOAT: {4: ctypes.c_float, 8: ctypes.c_double, 16: ctypes.c_longdouble},
    Kind.CHAR: {1: ctypes.c_char},
}


def c_struct(of: Record, name: str, made: dict[str, Any]) -> Any:
    """The structure as this machine's C compiler lays it out."""
    if name not in made:
        fields = [(f"f{i}", c_type(of, f.type, made)) for i, f in enumerate(of.struct(name).fields)]
        made[name] = type("S", (ctypes.Structure,), {"_fields_": fields})
    return made[name]


def c_type(of: Record, type_: Type, made: dict[str, Any]) -> Any:
    match type_:
        case Ref(name):
            return c_struct(of, name, made)
        case Array(element, dims) if not type_.is_dynamic:
            c = c_type(of, element, made)
            for dim in reversed(dims):
                c = c * int(dim)
            return c
        case Basic(kind, size) if kind is not Kind.STRING:
            return C_TYPES[kind][size]
    return ctypes.c_void_p


@given(record_types())
def test_native_layouts_are_those_of_the_c_compiler(type_: Record) -> None:
    made: dict[str, Any] = {}
    for layout in record_to_format(type_).structs:
        c = c_struct(type_, layout.name, made)
        assert layout.record_length == ctypes.sizeof(c)
        assert layout.alignment == ctypes.alignment(c)
        assert [f.offset for f in layout.fields] == [getattr(c, f"f{i}").offset for i in range(len(layout.fields))]


@given(record_types(), st.sampled_from(sorted(MACHINES)), st.integers(0, 2))
def test_a_format_has_the_record_type_it_was_made_for(type_: Record, machine: str, version: int) -> None:
    made = record_to_format(type_, machine, body_version=version)
    assert (made.name, made.body_version) == (type_.name, version)
    assert set(made.record.structs) == set(type_.structs)


MACHINE_OF = {
    "sun8": "be32",
    "armv6l": "arm",
    "osx": "le64",
    "s390x": "be64",
    "win32": "arm",
    "fc14": "le32",
    "win64": "le64",
    "powerpc64": "be64",
}


def test_formats_of_foreign_machines_are_laid_out_as_they_were_there() -> None:
    golden = [e for e in ffs_json("formats.json") if e["label"].startswith("golden")]
    for entry in golden:
        theirs = Format.from_body(bytes.fromhex(entry["body"]))
        _, system, _ = entry["label"].split(":")[0].split(".")
        ours = record_to_format(
            theirs.record,
            MACHINE_OF[system],
            body_version=theirs.body_version,
            opt_info=theirs.structs[0].opt_info,
        )
        assert (ours.id.hex(), ours.body.hex()) == (entry["id"], entry["body"]), entry["label"]
    assert len(golden) == 24


POINT = Struct("point", (Field("x", FLOAT64, Notes(units="m", weight=2.0)), Field("y", FLOAT64)))
GOLDEN_RECORDS = {
    "everything": record(
        "everything",
        [
            Field("tiny", INT8),
            Field("kind", ENUMERATION, Notes(symbols=(("cold", 0), ("hot", 7)), default="hot")),
            Field("when", INT64, Notes(logical="timestamp", units="us")),
            Field("ok", BOOLEAN),
            Field("name", STRING, Notes(default="")),
            Field("tag", Array(CHAR, (5,))),
            Field("points_count", INT32, Notes(hidden=True)),
            Field("points", Array(Pointer(Ref("point")), ("points_count",))),
            Field("at", Ref("point")),
            Field("grid", Array(FLOAT32, (2, 3)), Notes(accuracy="0.1")),
            Field("big", UINT64, Notes(weight=0.5)),
            Field("Größe in mm", UINT16),
        ],
        [POINT],
    ),
    "list": record("list", [Field("v", INT16), Field("next", Pointer(Ref("list")))]),
}


@pytest.mark.parametrize("machine", ["le64", "be64", "be32", "le32"])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("name", GOLDEN_RECORDS)
def test_golden_bodies(name: str, machine: str, version: int) -> None:
    """Format IDs are for ever: what this project once wrote, it writes again."""
    transform = transform_to_opt_info(FormatTransform(b"\2\0\0\1abcdefgh", "old.v = new.v;"))
    made = record_to_format(GOLDEN_RECORDS[name], machine, body_version=version, opt_info=[transform])
    expected = json.loads(GOLDEN.read_text())[f"{name} {machine} {version}"]
    assert {"id": made.id.hex(), "body": made.body.hex()} == expected


WRONG = [
    ("$.a", Field("a", Ref("nowhere"))),
    ("$.a", Field("a", Basic(Kind.INTEGER, 3))),
    ("$.a", Field("a", Basic(Kind.INTEGER, 0))),
    ("$.a", Field("a", Array(INT32, (0,)))),
    ("$.a", Field("a", Array(INT32, ()))),
    ("$.a", Field("a", Array(INT32, ("m",)))),
    ("$.a", Field("a", Ref("float"))),
    ("$.a", Field("a", Array(INT32, ("b]",)))),
    (None, Field("a", Ref("wrong"))),
    (None, Field("a\0", INT32)),
    (None, Field("a\ud800", INT32)),
    ("$.b]", Field("b]", INT32)),
]


@pytest.mark.parametrize(("path", "field"), WRONG)
def test_what_no_format_can_say_is_refused(path: str | None, field: Field) -> None:
    type_ = record("wrong", [Field("b]", INT32), field], [Struct("float", (Field("x", INT32),))])
    with pytest.raises(PbioError) as caught:
        record_to_format(type_)
    assert caught.value.code in ("PBIO_BAD_LAYOUT", "PBIO_BAD_TYPE_STRING")
    assert caught.value.field == path


def test_version_0_has_its_limits() -> None:
    type_ = record("wide", [Field(f"field {i}", INT32) for i in range(3000)])
    assert len(record_to_format(type_, body_version=1).body) > 0xFFFF
    with pytest.raises(PbioError, match="PBIO_BAD_LAYOUT"):
        record_to_format(type_, body_version=0)


def test_an_unknown_machine_gets_a_hint() -> None:
    with pytest.raises(PbioError, match=r"PBIO_UNKNOWN_MACHINE.*\n.*did you mean 'x86-64'"):
        record_to_format(record("r", [Field("a", INT32)]), "x86_64")
