"""The record codec: the content of records, and the places of errors in bad ones."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

import numpy as np
import pytest

from ecode.types import (
    BOOLEAN,
    CHAR,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    Array,
    Basic,
    Field,
    Kind,
    Pointer,
    Ref,
    Struct,
    Type,
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.wire import EXPANSION_LIMIT, decode, encode, record_to_json
from tests.wire.samples import POINT, READING, TREE


def form_of(machine: str = "le64", /, *structs: Struct, **fields: Type) -> Format:
    return record_to_format(record("top", [Field(name, type_) for name, type_ in fields.items()], structs), machine)


def change(form: Format, encoded: bytes, *edits: tuple[int, int]) -> bytes:
    """The record with other bytes at some offsets from its base."""
    data = bytearray(encoded)
    for at, byte in edits:
        data[form.header_size + at] = byte
    return bytes(data)


def refusal(form: Format, encoded: bytes, **options: Any) -> PbioError:
    with pytest.raises(PbioError) as caught:
        decode(form, encoded, **options)
    return caught.value


# The base has 12 bytes: n at 0, v at 4, unit at 8. The variant part starts at 16: two numbers, then the text.
GOOD = encode(READING, {"n": 2, "v": [1.5, -2.0], "unit": "kPa"})


@pytest.mark.parametrize(
    ("edits", "code", "field", "reason"),
    [
        ([(7, 8)], "PBIO_BAD_POINTER", "$.v", "offset 8 of the record, outside its variant part 16 to 36"),
        ([(7, 36)], "PBIO_BAD_POINTER", "$.v", "offset 36"),
        ([(4, 255)], "PBIO_BAD_POINTER", "$.v", "offset 4278190096"),
        ([(7, 24)], "PBIO_BAD_POINTER", "$.v", "16 bytes at offset 24 of the record, which ends at 36"),
        ([(3, 3)], "PBIO_BAD_POINTER", "$.v", "24 bytes at offset 16"),
        ([(0, 255)], "PBIO_BAD_POINTER", "$.v", "34225520656 bytes at offset 16"),
        ([(11, 99)], "PBIO_BAD_POINTER", "$.unit", "offset 99"),
        ([(35, 1)], "PBIO_BAD_STRING", "$.unit", "no NUL"),
        ([(33, 0xFF)], "PBIO_BAD_STRING", "$.unit", "not utf-8"),
    ],
)
def test_bad_records_name_the_place(edits: list[tuple[int, int]], code: str, field: str, reason: str) -> None:
    error = refusal(READING, change(READING, GOOD, *edits), file="f.ffs", offset=1000)
    assert (error.code, error.field, error.file, error.format) == (code, field, "f.ffs", "reading")
    assert reason in error.reason
    assert error.offset is not None
    assert 1000 + READING.header_size <= error.offset < 1000 + len(GOOD)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert ("text= of decode" in (error.hint or "")) == (reason == "not utf-8")


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (b"", "format ID is "),
        (GOOD[:11], "format ID"),
        (GOOD[:12], "12 bytes, but its header alone needs 24"),
        (POINT.id + GOOD[12:], "not " + READING.id.hex()),
        (GOOD + b"\0", "36 bytes follow its header, but 37 do"),
        (GOOD[:-1], "36 bytes follow its header, but 35 do"),
        (
            GOOD[:12] + (8).to_bytes(8) + GOOD[20:24] + bytes(8),
            "8 bytes follow the header, but the format's structure has 12",
        ),
    ],
)
def test_bad_headers(encoded: bytes, reason: str) -> None:
    error = refusal(READING, encoded)
    assert error.code == "PBIO_BAD_RECORD"
    assert reason in error.reason


@pytest.mark.parametrize("length", [15, 17])
def test_flat_records_have_one_length(length: int) -> None:
    error = refusal(POINT, POINT.id + bytes(4 + length))
    assert error.code == "PBIO_BAD_RECORD"
    assert error.reason == f"{length} bytes follow the header, but the format's structure has 16"


def test_absent_arrays_may_have_any_count() -> None:
    encoded = change(READING, GOOD, (0, 255), (7, 0))
    assert decode(READING, encoded)["v"] is None
    assert encode(READING, {"n": -5, "v": None, "unit": None})


def test_counts_are_unsigned() -> None:
    form = form_of(n=INT8, v=Array(UINT8, ("n",)))
    encoded = encode(form, {"n": -56, "v": [1] * 200})
    assert decode(form, encoded) == {"n": -56, "v": [1] * 200}


def test_paths_lead_through_arrays_and_structures() -> None:
    inner = Struct("inner", (Field("unit price", STRING),))
    form = form_of("be32", inner, a=Array(Ref("inner"), (2, 3)), n=INT16, p=Array(Pointer(Ref("inner")), ("n",)))
    rows = [[{"unit price": None}] * 3] * 2
    encoded = encode(form, {"a": rows, "n": 2, "p": [None, {"unit price": "x"}]})
    assert refusal(form, change(form, encoded, (4 * 5, 1))).field == '$.a[1][2]["unit price"]'
    assert refusal(form, encoded[:-1] + b"x").field == '$.p[1]["unit price"]'


def test_text_is_what_the_reader_asks_for() -> None:
    form = form_of(s=STRING)
    encoded = encode(form, {"s": b"\xe9t\xe9"})
    assert refusal(form, encoded).code == "PBIO_BAD_STRING"
    assert decode(form, encoded, strict=False) == {"s": b"\xe9t\xe9"}
    assert decode(form, encoded, text="iso-8859-1") == {"s": "été"}
    assert decode(form, encoded, text=None) == {"s": b"\xe9t\xe9"}
    assert encode(form, {"s": "été"}, text="iso-8859-1") == encoded


def test_a_list_of_many_nodes() -> None:
    node_type = Struct("node", (Field("v", INT32), Field("next", Pointer(Ref("node")))))
    form = form_of("le32", node_type, head=Pointer(Ref("node")))
    count = 20 * sys.getrecursionlimit()
    head: dict[str, Any] | None = None
    for v in reversed(range(count)):
        head = {"v": v, "next": head}
    encoded = encode(form, {"head": head})
    node: Any = decode(form, encoded)["head"]
    for v in range(count):
        assert node["v"] == v
        node = node["next"]
    assert node is None
    assert len(json.loads(record_to_json(form, encoded))["$nodes"]) == count + 1


def tree(tag: str, left: Any = None, right: Any = None) -> dict[str, Any]:
    return {"tag": list(tag.encode()), "left": left, "right": right}


def test_sharing_and_cycles_come_back() -> None:
    shared = tree("sh")
    shared["right"] = shared
    root = tree("ro", shared, shared)
    encoded = encode(TREE, {"n": 3, "roots": [root, root, shared]})
    first, second, third = decode(TREE, encoded)["roots"]
    assert first is second
    assert first["left"] is first["right"] is third is third["right"]
    top = json.loads(record_to_json(TREE, encoded))["$nodes"][0]
    assert top == {"n": 3, "roots": [{"$node": 1}, {"$node": 1}, {"$node": 2}]}


def test_many_pointers_to_one_node_do_not_expand_it() -> None:
    node = tree("no")
    encoded = encode(TREE, {"n": 5000, "roots": [node] * 5000})
    assert len({id(root) for root in decode(TREE, encoded)["roots"]}) == 1


def test_flat_structures_are_copied_for_every_pointer() -> None:
    form = form_of("le64", Struct("p", (Field("x", INT32),)), a=Pointer(Ref("p")), b=Pointer(Ref("p")))
    one = {"x": 1}
    encoded = encode(form, {"a": one, "b": one})
    assert len(encoded) == form.header_size + 16 + 8 + 4
    decoded = decode(form, encoded)
    assert decoded["a"] == decoded["b"]
    assert decoded["a"] is not decoded["b"]


def test_a_pointer_to_the_record_has_no_bytes() -> None:
    form = record_to_format(record("ring", [Field("next", Pointer(Ref("ring")))]), "le64")
    ring: dict[str, Any] = {"next": None}
    ring["next"] = {"next": ring}
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE.*record itself") as caught:
        encode(form, ring)
    assert caught.value.field == "$.next.next"


def test_mutual_recursion_ends() -> None:
    structs = (Struct("a", (Field("b", Pointer(Ref("b"))),)), Struct("b", (Field("a", Pointer(Ref("a"))),)))
    form = form_of("be64", *structs, a=Pointer(Ref("a")))
    a: dict[str, Any] = {"b": None}
    a["b"] = {"a": a}
    decoded: Any = decode(form, encode(form, {"a": a}))
    assert decoded["a"]["b"]["a"] is decoded["a"]


def laughs(levels: int) -> tuple[Format, bytes]:
    """Each structure points twice to the next one, and both pointers lead to one place."""
    structs = [Struct("s0", (Field("v", INT64),))]
    for level in range(1, levels):
        ref = Pointer(Ref(f"s{level - 1}"))
        structs.append(Struct(f"s{level}", (Field("a", ref), Field("b", ref))))
    form = form_of("le64", *structs, top=Pointer(Ref(structs[-1].name)))
    at = [8 + 16 * i for i in range(levels)]
    data = at[0].to_bytes(8, "little")
    for level in range(1, levels):
        data += at[level].to_bytes(8, "little") * 2
    data += bytes(8)
    return form, form.id + len(data).to_bytes(8, "little") + bytes(4) + data


def test_few_bytes_do_not_become_many_values() -> None:
    form, encoded = laughs(4)
    leaf: dict[str, Any] = {"v": 0}
    for _ in range(3):
        leaf = {"a": leaf, "b": leaf}
    assert decode(form, encoded) == {"top": leaf}
    form, encoded = laughs(60)
    error = refusal(form, encoded)
    assert error.code == "PBIO_RECORD_EXPANDS"
    assert error.field is not None
    assert error.field.startswith("$.top.a.a.a")


def test_strings_that_overlap_are_bounded() -> None:
    count = 10 * EXPANSION_LIMIT
    form = form_of("le64", n=INT64, s=Array(STRING, ("n",)))
    encoded = bytearray(encode(form, {"n": count, "s": ["x"] * (count - 1) + ["y" * 400_000]}))
    last = encoded[form.header_size + 16 + 8 * (count - 1) :][:8]
    encoded[form.header_size + 16 : form.header_size + 16 + 8 * count] = last * count
    assert refusal(form, bytes(encoded)).code == "PBIO_RECORD_EXPANDS"


def test_empty_dimensions_are_bounded() -> None:
    form = form_of("le64", n=INT64, m=INT64, v=Array(FLOAT64, ("n", "m")), w=INT64)
    encoded = encode(form, {"n": 1, "m": 1, "v": [[0.5]], "w": 0})
    assert decode(form, change(form, encoded, (8, 0)))["v"] == [[]]
    assert decode(form, change(form, encoded, (0, 0)))["v"] == []
    assert refusal(form, change(form, encoded, (5, 1), (8, 0))).code == "PBIO_RECORD_EXPANDS"


def test_an_array_that_holds_itself_has_no_json() -> None:
    form = form_of("le64", Struct("t", (Field("n", INT64), Field("kids", Array(Ref("t"), ("n",))))), t=Ref("t"))
    kids: list[Any] = []
    kids.append({"n": 1, "kids": kids})
    encoded = encode(form, {"t": {"n": 1, "kids": kids}})
    decoded: Any = decode(form, encoded)
    assert decoded["t"]["kids"][0]["kids"] is decoded["t"]["kids"]
    with pytest.raises(PbioError, match="PBIO_RECORD_EXPANDS"):
        record_to_json(form, encoded)


REFUSED = [
    (INT8, 128),
    (INT8, 1.0),
    (UINT8, -1),
    (CHAR, "a"),
    (INT32, None),
    (BOOLEAN, 1),
    (Basic(Kind.FLOAT, 4), 1e300),
    (Basic(Kind.FLOAT, 16), 1.0),
    (FLOAT64, "NaN"),
    (FLOAT64, 10**400),
    (STRING, "a\0b"),
    (STRING, 5),
    (STRING, "\ud800"),
    (Array(INT8, (2,)), [1]),
    (Array(INT8, (2,)), None),
    (Array(INT8, (2,)), (1, 2)),
    (Array(INT8, (1, 2)), [[1, 2], [3, 4]]),
    (Array(INT8, ("n",)), [1, 2, 3]),
    (Array(INT8, ("n",)), []),
    (Ref("p"), None),
    (Ref("p"), {"x": 1, "y": 2}),
    (Ref("p"), {"y": 2}),
    (Pointer(Ref("p")), [1]),
]


@pytest.mark.parametrize(("type_", "value"), REFUSED, ids=[f"{type_}-{value!r:.20}" for type_, value in REFUSED])
def test_values_that_do_not_fit_are_refused(type_: Type, value: Any) -> None:
    form = form_of("le64", Struct("p", (Field("x", INT32),)), n=INT8, f=type_, r=Ref("p"))
    with pytest.raises(PbioError, match="PBIO_BAD_VALUE") as caught:
        encode(form, {"n": 2, "f": value, "r": {"x": 0}})
    assert (caught.value.format, (caught.value.field or "")[:3]) == ("top", "$.f")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int32", np.int32(5)),
        ("int8", np.uint64(5)),
        ("float64", np.float32(0.1)),
        ("float32", np.int64(3)),
        ("boolean", np.bool_(True)),
        ("int32[2]", [np.int16(1), np.int8(2)]),
    ],
)
def test_numbers_of_numpy_are_numbers(type_: str, value: Any) -> None:
    form = record_to_format(json_to_record({"t": {"x": type_}}))
    assert decode(form, encode(form, {"x": value})) == {"x": value}


@pytest.mark.parametrize(
    ("type_", "value", "hint"),
    [
        ("int8", np.int64(300), None),
        ("int64", np.float64(1.5), None),
        ("int32", np.datetime64("2026-01-01"), "give what is stored"),
        ("float64", np.longdouble(1), None),
        ("char[4]", "ab", "[97, 98] for 'ab'"),
        ("float64[2]", np.array([1.0, 2.0]), "value.tolist()"),
        ("float64[]", (1.0, 2.0), "list(value)"),
    ],
)
def test_what_is_stored_otherwise_gets_the_way_to_say_it(type_: str, value: Any, hint: str | None) -> None:
    form = record_to_format(json_to_record({"t": {"x": type_}}))
    with pytest.raises(PbioError, match="PBIO_BAD_VALUE") as caught:
        encode(form, {"x": value})
    assert hint in (caught.value.hint or "") if hint else caught.value.hint is None
    assert caught.value.field == "$.x"


def test_an_unknown_field_has_a_hint() -> None:
    with pytest.raises(PbioError, match=r"did you mean 'unit'\?"):
        encode(READING, {"n": 0, "v": None, "unti": "kPa"})


def test_a_structure_without_fields_has_json() -> None:
    form = Format.from_structs([StructLayout("nothing", (), 0, 1)])
    encoded = encode(form, {})
    assert (decode(form, encoded), record_to_json(form, encoded)) == ({}, "{}")


def test_names_that_are_not_text_have_json() -> None:
    form = Format.from_structs([StructLayout("s", (FieldLayout("a\udcff", "integer", 4, 0),), 4, 4)])
    assert record_to_json(form, encode(form, {"a\udcff": 1})) == '{"a\\udcff":1}'
