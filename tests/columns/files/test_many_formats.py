"""Files of many formats: those that decode alike share one plan and one decoder, and read as if each had its own."""

from __future__ import annotations

import io
import pickle
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ecode.types import (
    FLOAT64,
    INT32,
    INT64,
    NULL_BITS,
    STRING,
    UINT8,
    UINT32,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    record,
)
from pbio_spark.columns.decode import converter
from pbio_spark.columns.decode.converter import CompiledPlan, Converter, Decoder
from pbio_spark.columns.decode.plan import Absent
from pbio_spark.columns.files.compile import plan_read
from pbio_spark.columns.files.plan import (
    CORRUPT_TYPE,
    METADATA_TYPE,
    BatchLimits,
    ErrorPolicy,
    FilePart,
    ReadPlan,
    Selection,
)
from pbio_spark.columns.files.read import read_batches
from pbio_spark.columns.programs.routes import Request
from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.formats.body.layouts import layouts_to_body
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import MAGIC, encode
from pbio_spark.wire.writer import format_to_item
from tests.columns.records import same

WANTED = record("reading", [Field("n", INT64), Field("x", FLOAT64), Field("s", STRING)])
COLUMNS = [pa.field("n", pa.int64()), pa.field("x", pa.float64()), pa.field("s", pa.string())]
SCHEMA = pa.schema([*COLUMNS, pa.field("_format", METADATA_TYPE), pa.field("_bad", CORRUPT_TYPE)])

SHAPES = ("last", "first", "swapped", "narrow", "lacking", "short")
"""Where a format's own field is, or what else makes it decode in another way."""


def format_of(number: int, shape: str) -> Format:
    """A format that no other number has. All of `last`, and all of each other shape, have equal plans."""
    own, name = Field(f"own{number}", INT32), f"reading{number % 3}"
    fields = list(WANTED.fields)
    if shape == "narrow":
        fields[0] = Field("n", INT32)
    if shape == "lacking":
        fields = [fields[0], fields[2]]
    fields = [own, Field(f"long{number}", INT64), *fields] if shape == "first" else [*fields, own]
    if shape == "short":
        fields = fields[:2] + fields[3:]
    return record_to_format(record(name, fields), "be32" if shape == "swapped" else "le64")


def item_of(raw: bytes) -> bytes:
    return (3 << 24).to_bytes(4) + len(raw).to_bytes(4) + raw


def record_of(form: Format, value: int, damage: str) -> bytes:
    given = {"n": value, "x": value / 4, "s": f"text {value}"}
    names = [field.name for field in form.record.fields]
    raw = bytearray(encode(form, {name: given.get(name, 7) for name in names}))
    if damage == "slot" and "s" in names:
        place = next(field.offset for field in form.structs[0].fields if field.name == "s")
        raw[form.header_size + place : form.header_size + place + form.pointer_size] = b"\x7f" * form.pointer_size
    if damage == "text" and "s" in names:
        raw = bytearray(bytes(raw).replace(b"text ", b"te\xfft "))
    return bytes(raw)


Entry = tuple[Format, bytes, bool]
"""A record's format, its bytes, and whether its format item precedes it again."""


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    formats = [format_of(i, draw(st.sampled_from(SHAPES[:3] + ("last",) * 3 + SHAPES[3:]))) for i in range(5)]
    made = []
    for value in range(draw(st.integers(1, 16))):
        form = draw(st.sampled_from(formats))
        damage = draw(st.sampled_from(("", "", "", "", "slot", "text")))
        made.append((form, record_of(form, value, damage), draw(st.booleans())))
    return made


def written(given: list[Entry]) -> tuple[bytes, list[int]]:
    """A file, each format before its first record or again before others; and where its records are."""
    content, known, places = bytearray(MAGIC), set[bytes](), []
    for form, raw, again in given:
        if again or form.id not in known:
            content += format_to_item(form)
            known.add(form.id)
        places.append(len(content))
        content += item_of(raw)
    return bytes(content), places


@cache
def plan_with(formats: tuple[Format, ...], program: str, most: int = 32768) -> ReadPlan:
    """A plan that knows some formats, as tasks get it."""
    selection = Selection(SCHEMA, metadata_column="_format", corrupt_column="_bad", request=REQUESTS[program])
    limits = BatchLimits(most_records=most)
    made = plan_read(selection, formats, coming=formats, errors=ErrorPolicy("PERMISSIVE"), limits=limits)
    return pickle.loads(pickle.dumps(made))  # type: ignore[no-any-return]


def read(content: bytes, plan: ReadPlan) -> list[dict[str, Any]]:
    batches = list(read_batches(plan, FilePart("a.ffs"), io.BytesIO(content)))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == SCHEMA
    return [row for batch in batches for row in batch.to_pylist()]


def alone(entry: Entry, place: int, number: int, program: str) -> list[dict[str, Any]]:
    """What a file of only this record gives, with the places that it has in the whole file."""
    content, (own,) = written([entry])
    rows = read(content, plan_with((entry[0],), program))
    for row in rows:
        row["_format"] |= {"offset": place, "ordinal": number}
        if row["_bad"] is not None:
            said = re.sub(r", offset (\d+)", lambda at: f", offset {int(at[1]) + place - own}", row["_bad"]["reason"])
            row["_bad"] |= {"offset": place, "reason": said.replace("record 0", f"record {number}")}
    return rows


MADE = "{ output.n = input.n * 2; output.x = input.n; output.s = input.s; return input.n % 5 != 2; }"
REQUESTS = {
    "columns": None,
    "filter": Request(columns=WANTED, typed=WANTED, keep="{ return input.n % 3 != 1; }"),
    "trap": Request(columns=WANTED, typed=WANTED, keep="{ return 6 / (input.n % 4) > 1; }"),
    "transform": Request(columns=WANTED, typed=WANTED, make=MADE),
}


@pytest.mark.parametrize("program", list(REQUESTS))
@given(entries(), st.sampled_from([1, 3, 32768]))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_many_formats_read_as_each_alone(program: str, given: list[Entry], most: int) -> None:
    content, places = written(given)
    formats = tuple({form.id: form for form, _, _ in given}.values())
    expected = [
        row
        for number, (entry, place) in enumerate(zip(given, places, strict=True))
        for row in alone(entry, place, number, program)
    ]
    assert same(read(content, plan_with(formats, program, most)), expected)
    # Formats that the plan does not know are met in the file.
    assert same(read(content, plan_with(formats[:1], program, most)), expected)


def plans_of(formats: list[Format], program: str = "columns") -> ReadPlan:
    return plan_read(Selection(pa.schema(COLUMNS), request=REQUESTS[program]), formats, coming=formats)


@pytest.mark.parametrize("program", ["columns", "filter", "transform"])
def test_formats_that_decode_alike_cost_little_more_than_their_bodies(program: str) -> None:
    """How long a task takes to unpickle its plan follows from this."""
    few, many = (len(pickle.dumps(plans_of([format_of(i, "last") for i in range(n)], program))) for n in (3, 13))
    assert (many - few) / 10 < len(pickle.dumps(format_of(0, "last"))) + (100 if program == "columns" else 600)


def test_formats_that_decode_alike_have_one_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Counted(Decoder):
        def __init__(self, compiled: CompiledPlan) -> None:
            made.append(compiled)
            super().__init__(compiled)

    monkeypatch.setattr(converter, "Decoder", Counted)
    formats = [format_of(i, shape) for i, shape in enumerate(("last", "first", "swapped") * 30)]
    content, _ = written([(form, record_of(form, i, ""), False) for i, form in enumerate(formats)])
    for known in (formats, []):
        made.clear()
        batches = list(read_batches(plans_of(known), FilePart("a.ffs"), io.BytesIO(content)))
        assert len(made) == 3
        assert [batch.num_rows for batch in batches] == [90]
        assert batches[0]["n"].to_pylist() == list(range(90))


ENUM = Basic(Kind.ENUMERATION, 4)


def laid_out(machine: str = "le64", *, float_format: int | None = None, column_major: bool = False) -> Format:
    fields = FieldLayout("m", "integer[2][3]", 4, 0), FieldLayout("x", "float", 8, 24)
    form = Format.from_structs([StructLayout("reading", fields, 32)], machine, column_major=column_major)
    layouts = replace(form.layouts, float_format=float_format or form.float_format)
    return Format.from_body(layouts_to_body(layouts))


def noted(type_: Basic, **notes: Any) -> Format:
    flags = Field("flags", Array(UINT8, (1,)), Notes(logical=NULL_BITS, hidden=True))
    return record_to_format(record("reading", [Field("v", type_, Notes(**notes)), flags]), "le64")


ALMOST = {
    "byte order": [laid_out(), laid_out("be64")],
    "byte order of floats": [laid_out(float_format=code) for code in (1, 2, 3)],
    "order of indices": [laid_out(), laid_out(column_major=True)],
    "symbols": [noted(ENUM, symbols=(("red", 1), ("blue", 2))), noted(ENUM, symbols=(("red", 2), ("blue", 1)))],
    "scale": [noted(INT64, logical="decimal(10,2)"), noted(INT64, logical="decimal(10,3)")],
    "null bits": [noted(INT64, null_bit=0), noted(INT64, null_bit=1), noted(INT64)],
    "sign": [noted(INT32), noted(UINT32)],
}
"""Formats that differ in no more than this: size and places are equal."""


@pytest.mark.parametrize("what", list(ALMOST))
def test_formats_that_differ_in_one_respect_share_nothing(what: str) -> None:
    types = {"symbols": pa.string(), "scale": pa.decimal128(20, 3)}
    columns = [pa.field(name, type_) for name, type_ in (("m", pa.list_(pa.list_(pa.int64()))), ("x", pa.float64()))]
    if ALMOST[what][0].record.fields[0].name == "v":
        columns = [pa.field("v", types.get(what, pa.int64()))]
    plan = plan_read(Selection(pa.schema(columns)), coming=ALMOST[what])
    found = [one for one in plan.converters.values() if isinstance(one, Converter)]
    assert len({one.format.id for one in found}) == len(ALMOST[what])
    assert len({one.plan.size for one in found}) == 1
    assert len({id(one.compiled) for one in found}) == len(found)


def test_defaults_that_only_compare_equal_are_told_apart() -> None:
    assert Absent(pa.float64(), 0.0) != Absent(pa.float64(), -0.0)
    assert Absent(pa.float64(), float("nan")) == Absent(pa.float64(), float("nan"))
    assert Absent(pa.int64(), 1) != Absent(pa.int64(), True)


def test_records_before_a_broken_format_item_are_read_first() -> None:
    first, second = format_of(0, "last"), format_of(1, "last")
    content, (_, place) = written([(first, record_of(first, 1, ""), False), (second, record_of(second, 2, ""), False)])
    item = len(format_to_item(second))
    broken = content[: place - item + 24] + b"\xff" * (item - 24) + content[place:]
    batches = read_batches(plans_of([first]), FilePart("a.ffs"), io.BytesIO(broken))
    assert next(batches)["n"].to_pylist() == [1]
    with pytest.raises(PbioError, match="PBIO_BAD"):
        next(batches)


def test_a_format_that_was_unpickled_is_the_same() -> None:
    for shape in SHAPES:
        form = format_of(1, shape)
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(form))))
        assert (again.name, again.base_length, again.is_variant) == (form.name, form.base_length, form.is_variant)
        assert (again.machine, again.header_size) == (form.machine, form.header_size)
        assert again == form
        assert hash(again) == hash(form)
        assert again.record == form.record
        assert again.layouts == form.layouts
        assert str(again) == str(form)
        assert again.is_recursive(form.name) == form.is_recursive(form.name)
        with pytest.raises(AttributeError, match="no attribute 'colour'"):
            again.colour  # noqa: B018
