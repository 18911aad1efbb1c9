"""Opt-info: notes survive every body, FFS's blocks are read, and hostile ones do no harm."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import (
    BOOLEAN,
    CHAR,
    ENUMERATION,
    FLOAT64,
    INT8,
    INT32,
    NO_NOTES,
    STRING,
    UINT64,
    Array,
    Default,
    Field,
    Notes,
    Pointer,
    Ref,
    Struct,
    Type,
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format, OptInfo
from pbio_spark.formats.body.opt_info import EVOL, NOTES, FormatTransform, opt_info_to_transforms
from pbio_spark.formats.layout import record_to_format
from tests.corpus import ffs_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DEFAULTS: dict[Type, st.SearchStrategy[Default]] = {
    INT8: st.integers(-128, 127),
    UINT64: st.integers(0, 2**64 - 1),
    FLOAT64: st.floats(allow_nan=False) | st.integers(-10, 10),
    BOOLEAN: st.booleans(),
    STRING: TEXT,
    Array(CHAR, (8,)): TEXT,
    ENUMERATION: st.integers(0, 2**32 - 1),
    Ref("inner"): st.none(),
    Pointer(INT32): st.none(),
}


@st.composite
def noted_fields(draw: st.DrawFn, name: str) -> Field:
    type_ = draw(st.sampled_from(list(DEFAULTS)))
    symbols = draw(st.dictionaries(TEXT, st.integers(0, 2**32 - 1), max_size=3)) if type_ == ENUMERATION else {}
    symbols = {symbol: value for value, symbol in {v: k for k, v in symbols.items()}.items()}
    return Field(
        name,
        type_,
        Notes(
            logical=draw(st.none() | TEXT),
            symbols=tuple(symbols.items()),
            units=draw(st.none() | TEXT),
            accuracy=draw(st.none() | TEXT),
            default=draw(st.none() | DEFAULTS[type_]),
            weight=draw(st.none() | st.floats(0, 1e9)),
            hidden=draw(st.booleans()),
        ),
    )


@given(st.data(), st.sampled_from(["le64", "be32"]), st.integers(0, 2))
def test_notes_of_every_structure_survive(data: st.DataObject, machine: str, version: int) -> None:
    outer = [data.draw(noted_fields(f"f{i}")) for i in range(3)]
    inner = Struct("inner", tuple(Field(f.name, FLOAT64, Notes(units=f.notes.units)) for f in outer))
    made = record_to_format(record("r", [Field("i", Ref("inner")), *outer], [inner]), machine, body_version=version)
    assert made.record.fields[1:] == tuple(outer)
    assert made.record.struct("inner") == inner


@pytest.mark.parametrize("default", [math.nan, math.inf, -math.inf])
def test_defaults_that_json_does_not_know(default: float) -> None:
    made = record_to_format(record("r", [Field("a", FLOAT64, Notes(default=default))]))
    (block,) = made.structs[0].opt_info
    json.loads(block.data, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert str(made.record.fields[0].notes.default) == str(default)


def test_a_plain_field_costs_nothing() -> None:
    assert record_to_format(record("r", [Field("a", INT32)])).structs[0].opt_info == ()


def with_notes(notes: Any, type_: Type = INT32) -> Format:
    text = notes if isinstance(notes, bytes) else json.dumps({"fields": {"a": notes}}).encode()
    return record_to_format(record("r", [Field("a", type_)]), opt_info=[OptInfo(NOTES, text)])


def test_what_a_later_version_says_is_left_alone() -> None:
    made = with_notes({"units": "m", "colour": ["blue"]})
    assert made.record.fields[0].notes == Notes(units="m")
    assert with_notes(b'{"fields": {}, "more": 1}').record.fields[0].notes == NO_NOTES


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"\xff", b"[]", b"{}", b"null", b'{"fields": 3}', b'{"fields": {"a": []}}', b"[" * 100_000),
        *(b'{"fields": {"b": {}}}', b'{"fields": {"a": {"weight": NaN}}}', b'{"fields": {"a": {"weight": 1e999}}}'),
        b'{"fields": {"a": {"default": ' + b"9" * 10_000 + b"}}}",
        b'{"fields": {"a": {"default": ' + b"9" * 4_000 + b"}}}",
    ],
)
def test_hostile_json_is_an_error(text: bytes) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPT_INFO"):
        with_notes(text)


def cases(key: str, type_: Type, *values: object) -> list[tuple[dict[str, Any], Type]]:
    return [({key: value}, type_) for value in values]


CONTRADICTIONS = [
    *(case for key, value in (("logical", 1), ("units", []), ("accuracy", 0.1)) for case in cases(key, INT32, value)),
    *cases("weight", INT32, "1", -1, True),
    *cases("hidden", INT32, 1, None),
    *cases("default", INT32, 2**31, 1.5, "1", True, [], {}),
    *cases("default", FLOAT64, "1", True),
    *cases("default", BOOLEAN, 1, "true"),
    *cases("default", STRING, 1, True),
    *cases("default", Array(INT32, (2,)), 1),
    *cases("symbols", INT32, [["a", 1]]),
    *cases("symbols", ENUMERATION, 3, None, [3], [["a"]], [["a", "b"]], [["a", True]], [["a", -1]]),
    *cases("symbols", ENUMERATION, [["a", 1], ["a", 2]], [["a", 1], ["b", 1]]),
    ({"default": "b", "symbols": [["a", 1]]}, ENUMERATION),
]


@pytest.mark.parametrize(("notes", "type_"), CONTRADICTIONS)
def test_notes_that_contradict_the_field_are_refused(notes: dict[str, Any], type_: Type) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPT_INFO") as caught:
        with_notes(notes, type_)
    assert caught.value.field == "$.a"


def test_only_one_block_of_notes() -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPT_INFO"):
        record_to_format(
            record("r", [Field("a", INT32, Notes(units="m"))]), opt_info=[OptInfo(NOTES, b'{"fields": {}}')]
        )


def test_blocks_of_ffs_in_the_corpus() -> None:
    entries = ffs_json("formats.json")
    formats = {e["label"]: Format.from_body(bytes.fromhex(e["body"])) for e in entries}
    (transform,) = formats["transform.ffs: reading"].transforms
    assert transform.prior.hex() in {e["id"] for e in entries}
    assert "old." in transform.ecode


def test_transforms_of_all_id_versions() -> None:
    ids = [b"\1\2\3\4\0\0\0\0", b"\1\0\0\1\x7f\0\0\1\0\2", b"\2\0\0\1abcdefgh"]
    blocks = [OptInfo(EVOL, i + b"old.a = new.a;\0") for i in ids]
    assert opt_info_to_transforms(blocks) == tuple(FormatTransform(i, "old.a = new.a;") for i in ids)


@pytest.mark.parametrize("data", [b"", b"\2\0\0\1abcdefgh", b"\2\0\0\1abcd", b"\3\0\0\1abcdefgh\0"])
def test_broken_transforms_are_errors(data: bytes) -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_(OPT_INFO|ID)"):
        opt_info_to_transforms([OptInfo(EVOL, data)])
