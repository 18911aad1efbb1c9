"""Bodies: those of the corpus byte for byte both ways, and hostile ones refused, quickly and by name."""

from __future__ import annotations

import os
import pickle
import random
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, OptInfo, StructLayout
from pbio_spark.formats.body.layouts import MAX_BODY, body_to_layouts, layouts_to_body
from pbio_spark.testing.strategies import formats
from tests.corpus import ffs_json

LONG = bool(os.environ.get("PBIO_LONG"))


def test_every_body_of_the_corpus_is_read_and_written_byte_for_byte() -> None:
    entries = ffs_json("formats.json")
    for entry in entries:
        format_ = Format.from_body(bytes.fromhex(entry["body"]))
        assert format_.id.hex() == entry["id"], entry["label"]
        assert layouts_to_body(format_.layouts).hex() == entry["body"], entry["label"]
        assert [_as_told(format_, layout) for layout in format_.structs] == entry["structs"], entry["label"]
        assert format_.body_version == entry["body_version"]
    assert len(entries) == 62


def _as_told(format_: Format, layout: StructLayout) -> dict[str, Any]:
    return {
        "name": layout.name,
        "record_length": layout.record_length,
        "byte_order": format_.byte_order,
        "pointer_size": format_.pointer_size,
        "float_format": format_.float_format,
        "alignment": layout.alignment,
        "column_major": int(format_.column_major),
        "variant": format_.is_variant_struct(layout.name),
        "fields": [[f.name, f.type, f.size, f.offset] for f in layout.fields],
        "opt_info": [
            {"type": f"0x{block.type:08x}", "len": len(block.data), "hex": block.data.hex()}
            for block in layout.opt_info
        ],
    }


def test_every_registration_of_the_corpus_makes_the_body() -> None:
    entries = [entry for entry in ffs_json("formats.json") if "registered" in entry]
    for entry in entries:
        blocks = {
            s["name"]: tuple(OptInfo(int(b["type"], 16), bytes.fromhex(b["hex"])) for b in s["opt_info"])
            for s in entry["structs"]
        }
        registered = [
            StructLayout(
                s["name"],
                tuple(FieldLayout(*field) for field in s["fields"]),
                s["struct_size"],
                opt_info=blocks.get(s["name"], ()),
            )
            for s in entry["registered"]
        ]
        made = Format.from_structs(
            registered,
            "x86-64",
            column_major=bool(entry["structs"][0]["column_major"]),
            keep_defaults=entry["label"] == "default_values_kept",
        )
        assert (made.id.hex(), made.body.hex()) == (entry["id"], entry["body"]), entry["label"]
    assert len(entries) == 16


@given(formats())
def test_formats_survive_their_body_and_pickling(format_: Format) -> None:
    again = Format.from_body(format_.body, format_.id)
    assert again == format_
    assert hash(again) == hash(format_)
    assert (again.layouts, again.record) == (format_.layouts, format_.record)
    assert pickle.loads(pickle.dumps(format_)).record == format_.record
    assert body_to_layouts(format_.body) == format_.layouts
    assert all(layout.name in str(format_) for layout in format_.structs)


def test_a_body_may_be_arranged_in_any_way() -> None:
    """Offsets are followed, not guessed: the same structure with its strings after the opt-info table, and shared."""
    strings_at = 28 + 2 * 16 + 12
    strings = b"integer\0n\0"
    sub = struct.pack(">HBB", 0, 2, 0) + struct.pack(
        "<IIiBBHHBB2xH", *(strings_at + 8, 2, 8, 8, 28, 2), *(28 + 2 * 16, 0, 4), 0
    )
    sub += struct.pack("<IIii", strings_at + 8, strings_at, 4, 0)
    sub += struct.pack("<IIii", strings_at + 3, strings_at, 4, 4)
    sub += bytes(12) + strings + bytes(-len(strings) % 4)
    sub = struct.pack(">H", len(sub)) + sub[2:]
    body = struct.pack(">HBBBBH", len(sub) + 8, 0, 2, 0, 0, 0) + sub
    format_ = Format.from_body(body)
    assert [(f.name, f.type) for f in format_.structs[0].fields] == [("n", "integer"), ("eger", "integer")]
    assert format_.body == body != layouts_to_body(format_.layouts)


@pytest.mark.parametrize(
    ("id_length", "version", "variant", "size"),
    [
        *((8, v, False, 8) for v in (0, 1, 2)),
        *((10, v, False, 16) for v in (0, 1, 2)),
        *((12, v, False, 16) for v in (0, 1, 2)),
        *((8, v, True, 16) for v in (0, 1, 2)),
        *((10, v, True, 16 + 8 * (v == 2)) for v in (0, 1, 2)),
        *((12, v, True, 16 + 8 * (v == 2)) for v in (0, 1, 2)),
    ],
)
def test_the_header_has_the_specified_size(id_length: int, version: int, variant: bool, size: int) -> None:
    field = FieldLayout("a", "string" if variant else "integer", 8, 0)
    made = Format.from_structs([StructLayout("f", (field,), 8)], "le64", body_version=version)
    ids = {8: b"\1\2\3\4\0\0\0\0", 10: b"\1\0\0\1\x7f\0\0\1\0\2", 12: made.id}
    assert Format.from_body(made.body, ids[id_length]).header_size == size


# Formats that lie --------------------------------------------------------------------------------------------------


def one(*fields: tuple[str, str, int, int], length: int = 64, name: str = "f", **more: Any) -> StructLayout:
    return StructLayout(name, tuple(FieldLayout(*field) for field in fields), length, **more)


N = ("n", "integer", 4, 0)

CONTRADICTIONS: list[tuple[str, tuple[StructLayout, ...], str]] = [
    ("beyond the end", (one(("a", "integer", 4, 61)),), "BAD_LAYOUT"),
    ("static array beyond the end", (one(("a", "integer[20]", 4, 0)),), "BAD_LAYOUT"),
    ("huge nested array", (one(("a", "s[2147483647]", 4, 0)), one(N, length=4, name="s")), "BAD_LAYOUT"),
    ("overlap", (one(("a", "integer", 8, 0), ("b", "integer", 8, 4)),), "BAD_LAYOUT"),
    ("overlap by an inner structure", (one(("a", "s", 8, 0), N), one(N, length=8, name="s")), "BAD_LAYOUT"),
    ("same field name", (one(("a", "integer", 4, 0), ("a", "integer", 4, 4)),), "BAD_LAYOUT"),
    ("same structure name", (one(N), one(N)), "BAD_LAYOUT"),
    ("itself in place", (one(("a", "f", 64, 0)),), "BAD_LAYOUT"),
    ("itself in an array", (one(("a", "(f[1])[2]", 64, 0)),), "BAD_LAYOUT"),
    ("itself through another", (one(("a", "s", 64, 0)), one(("b", "f", 64, 0), name="s")), "BAD_LAYOUT"),
    ("no such count", (one(("a", "integer[m]", 4, 8), N),), "BAD_LAYOUT"),
    ("count behind a pointer", (one(("a", "*(integer[m])", 4, 8), N),), "BAD_LAYOUT"),
    ("count is a float", (one(("a", "integer[n]", 4, 8), ("n", "float", 4, 0)),), "BAD_LAYOUT"),
    ("count is an array", (one(("a", "integer[n]", 4, 8), ("n", "integer[1]", 4, 0)),), "BAD_LAYOUT"),
    ("structure of no bytes", (one(("a", "s[1000000000]", 1, 0)), one(length=0, name="s")), "BAD_LAYOUT"),
    ("field smaller than its structure", (one(("a", "s", 4, 0)), one(N, length=8, name="s")), "BAD_LAYOUT"),
    ("unknown structure", (one(("a", "s", 4, 0)),), "BAD_TYPE_STRING"),
    ("integer of 3 bytes", (one(("a", "integer", 3, 0)),), "BAD_TYPE_STRING"),
    ("notes that are no JSON", (one(N, opt_info=(OptInfo(0x4E4F5445, b"["),)),), "BAD_OPT_INFO"),
]


@pytest.mark.parametrize(("structs", "code"), [pytest.param(*case[1:], id=case[0]) for case in CONTRADICTIONS])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_contradictions_are_refused(structs: tuple[StructLayout, ...], code: str, version: int) -> None:
    good = Format.from_structs([one(N)], "le64").layouts
    body = layouts_to_body(replace(good, structs=structs, version=version))
    with pytest.raises(PbioError, match=f"PBIO_{code}"):
        Format.from_body(body)


@pytest.mark.parametrize("machine", ["le64", "be32"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_byte_of_a_head_is_checked_or_harmless(machine: str, version: int) -> None:
    """No value of any single byte of the heads makes another error than ours."""
    structs = [one(N, ("s", "s[n]", 8, 8)), one(N, length=8, name="s")]
    body = Format.from_structs(structs, machine, body_version=version).body
    outcomes = set()
    for position in range(40):
        for value in range(256):
            changed = bytes((*body[:position], value, *body[position + 1 :]))
            outcomes.add(_outcome(changed))
    assert outcomes >= {"ok", "PBIO_BAD_BODY", "PBIO_BAD_LAYOUT"}


def _outcome(body: bytes) -> str:
    try:
        format_ = Format.from_body(body)
        layouts_to_body(format_.layouts)
    except PbioError as error:
        return error.code
    assert format_.body == body
    return "ok"


@settings(max_examples=2000 if LONG else 100)
@given(formats(), st.integers(0, 2**32))
def test_damaged_bodies_raise_nothing_but_pbio_errors(format_: Format, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        _outcome(_damaged(format_.body, chance))


def _damaged(body: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged))
        match chance.randrange(4):
            case 0:
                damaged[at] = chance.randrange(256)
            case 1:
                number = chance.choice((0, 1, 2**31 - 1, 2**32 - 1))
                damaged[at // 4 * 4 : at // 4 * 4 + 4] = struct.pack(chance.choice("<>") + "I", number)
            case 2:
                del damaged[max(at, 8) :]
            case _:
                place = chance.randrange(len(damaged))
                damaged[at : at + 4] = damaged[place : place + 4]
    damaged += bytes(-len(damaged) % 4)
    if chance.random() < 0.8:
        damaged[0:2] = struct.pack(">H", len(damaged) & 0xFFFF)
    return bytes(damaged)


def sub_body(fields: bytes, count: int, strings: bytes, table: int = 0, name: int = -1) -> bytes:
    """A little-endian version-2 body whose one structure has these field entries and strings, its name among them."""
    name = 28 + len(fields) + name % len(strings)
    tail = bytes(-(28 + len(fields) + len(strings)) % 4)
    length = 28 + len(fields) + len(strings) + len(tail)
    head = struct.pack(">HBB", length & 0xFFFF, 2, 0) + struct.pack(
        "<IIiBBHHBB", name, count, 2**31 - 1, 8, 28, 2, table & 0xFFFF, 0, 8
    )
    head += struct.pack(">H", length >> 16) + struct.pack("<H", table >> 16)
    total = length + 8
    return struct.pack(">HBBBBH", total & 0xFFFF, 0, 2, 0, 0, total >> 16) + head + fields + strings + tail


def wide(entry: Callable[[int], tuple[int, int, int, int]], strings: bytes, name: int = -1) -> bytes:
    """The same with 60,000 fields; `entry` gives the places of name and type in the strings, the size, the offset."""
    count = 60_000
    at = 28 + 16 * count
    rows = b"".join(
        struct.pack("<IIii", at + name, at + type_, size, offset)
        for name, type_, size, offset in (entry(i) for i in range(count))
    )
    return sub_body(rows, count, strings, name=name)


NAMES = b"".join(b"%05d\0" % i for i in range(60_000))
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    # Every field's name begins one byte later in one long text.
    "overlapping names": (lambda: wide(lambda i: (i, 0, 4, 4 * i), b"x" * 60_000 + b"\0"), "strings .* overlap"),
    # Every field has the same type string, which takes long to parse and whose size is always another.
    "one long type": (
        lambda: wide(lambda i: (6 * i, len(NAMES), i, 8 * i), NAMES + b"*" + b"P" * 500_000 + b"\0", len(NAMES) + 1),
        "more than 4096 characters",
    ),
    # Opt-info entries that all point to the same block, in a table that the strings make up.
    "one block many times": (
        lambda: sub_body(b"", 0, struct.pack("<III", 1, 400_000, 0) * 50_000 + bytes(16), table=28),
        "block is outside",
    ),
    "no end of the table": (
        lambda: sub_body(b"", 0, struct.pack("<III", 1, 0, 0) * 50_000 + b"\1\0", 28),
        "terminated",
    ),
    "too long": (lambda: bytes(MAX_BODY + 1), "more than the 16777216 allowed"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_small_bodies_cannot_make_much_of_themselves(bomb: str) -> None:
    """Each of these takes hours or gigabytes if it is believed."""
    make, reason = BOMBS[bomb]
    body = make()
    tracemalloc.start()
    try:
        with pytest.raises(PbioError, match=reason):
            Format.from_body(body, b"\1\2\3\4\0\0\0\0")
        assert tracemalloc.get_traced_memory()[1] < 40 * len(body)
    finally:
        tracemalloc.stop()


def test_very_wide_formats_are_fine() -> None:
    fields = tuple(FieldLayout(f"field {i}", "integer", 4, 4 * i) for i in range(20_000))
    made = Format.from_structs([StructLayout("wide", fields, 4 * 20_000)], "be64")
    assert len(Format.from_body(made.body).record.fields) == 20_000


def test_ids_are_verified_on_demand() -> None:
    made = Format.from_structs([one(N)], "le64")
    made.verify_id()
    Format.from_body(made.body, b"\1\2\3\4\0\0\0\0").verify_id()
    stranger = Format.from_body(made.body, made.id[:-1] + b"?")
    assert stranger != made
    with pytest.raises(PbioError, match="PBIO_BAD_ID"):
        stranger.verify_id()
    with pytest.raises(PbioError, match="PBIO_BAD_ID"):
        Format.from_body(made.body, made.id[:-1])


def test_recursion_is_seen_through_other_structures() -> None:
    made = Format.from_structs(
        [
            one(("x", "*a", 16, 0), ("y", "*b", 16, 8), name="top"),
            one(("b", "*b", 16, 0), name="a", length=16),  # a and b: mutual (ffs-wire-format 12.2)
            one(("a", "(*a)[n]", 16, 8), N, name="b", length=16),
            one(N, name="leaf", length=4),
        ]
    )
    assert {name for name in ("top", "a", "b") if made.is_recursive(name)} == {"top", "a", "b"}
    assert [layout.name for layout in made.structs] == ["top", "a", "b"]
    flat = Format.from_structs([one(("x", "*leaf", 4, 0), name="top"), one(N, name="leaf", length=4)])
    assert not flat.is_recursive("top")
    assert flat.is_variant
    assert not flat.is_variant_struct("leaf")


def test_formats_are_printable() -> None:
    made = Format.from_structs([one(N, ("<b>", "string", 8, 8), name="a<b")], "le64")
    assert "<b>" not in made._repr_html_().replace("<b>a&lt;b</b>", "")
    assert "+8  <b>  string" in str(made)
