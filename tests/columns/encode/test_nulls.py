"""Nulls that come back: every type, at every nesting, laid out for every machine, by both engines."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import BOOLEAN, CHAR, FLOAT64, INT32, INT64, STRING, UINT8, Array, Field, Notes, Pointer, record
from pbio_spark.columns.encode.encoder import format_to_encoder
from pbio_spark.columns.programs.routes import Request
from pbio_spark.columns.values import ValueReader
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.merge import merge
from pbio_spark.testing import strategies
from pbio_spark.wire import decode, encode
from tests.columns import arrow_rows
from tests.columns.encode.test_generate import FEW, MANY, encode_rows, in_the_middle
from tests.columns.records import decode_records, same
from tests.plans import plan_of

Mode = Literal["pointer", "mask"]
MODES: tuple[Mode, ...] = ("pointer", "mask")


def come_back(data: st.DataObject, *, checked: bool) -> None:
    schema, rows = data.draw(arrow_rows.rows(nulls=True))
    form = record_to_format(
        arrow_to_record(schema, "row", data.draw(st.sampled_from(MODES))),
        data.draw(strategies.MACHINE_NAMES),
        body_version=data.draw(st.integers(0, 2)),
    )
    batch = in_the_middle(rows, schema)
    records = encode_rows(form, batch, checked=checked)
    for written in records:
        assert encode(form, decode(form, written)) == written
    decoded = decode_records(form, records, checked=checked)
    assert not decoded.status.any()
    assert same(decoded.batch.to_pylist(), batch.to_pylist())
    assert Format.from_body(form.body, form.id).record == form.record


@MANY
@given(st.data())
def test_nulls_come_back(data: st.DataObject) -> None:
    come_back(data, checked=True)


@FEW
@given(st.data())
def test_nulls_come_back_from_compiled_kernels(data: st.DataObject) -> None:
    come_back(data, checked=False)


SCHEMA = pa.schema(
    [
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("v", pa.list_(pa.int32())),
        ("t", pa.timestamp("us", "UTC")),
        ("d", pa.decimal128(9, 2)),
    ]
)
T = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ROWS: list[dict[str, Any]] = [
    {"x": 1.5, "b": True, "v": [1, None, 3], "t": T, "d": Decimal("1.25")},
    dict.fromkeys(SCHEMA.names),
    {"x": 0.0, "b": False, "v": [], "t": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), "d": Decimal("0.00")},
]


def written(mode: Mode, machine: str = "be32", schema: pa.Schema = SCHEMA) -> tuple[Format, pa.Array]:
    """The rows as records that travel in a column."""
    form = record_to_format(arrow_to_record(schema, "row", mode), machine)
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA).select(schema.names).cast(schema)
    return form, format_to_encoder(form, schema).encode(batch).to_array().cast(pa.binary())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("present(input.x)", [0, 2]),
        ("input.x == 0.0", [1, 2]),
        ("!input.b", [1, 2]),
        ("present(input.v)", [0, 2]),
        ("input.v_count == 3 && present(input.b)", [0]),
        ("input.t == 0 && present(input.t)", [2]),
        ("!present(input.d) && !present(input.t) && !present(input.v)", [1]),
    ],
)
def test_filters_see_what_the_table_shows(mode: Mode, keep: str, kept: list[int]) -> None:
    form, values = written(mode)
    request = Request(typed=form.record, keep=f"{{ return {keep}; }}")
    found = ValueReader(plan_of(SCHEMA, formats=(form,), request=request)).read(values).to_pylist()
    assert found == [row if number in kept else None for number, row in enumerate(ROWS)]


@pytest.mark.parametrize("mode", MODES)
def test_a_null_is_zero_to_a_transform_which_may_ask(mode: Mode) -> None:
    form, values = written(mode)
    made = record("made", [Field("x", FLOAT64), Field("there", INT32), Field("sum", INT64), Field("first", INT32)])
    source = """{
        int i;
        output.x = input.x;
        output.there = present(input.x);
        for (i = 0; i < input.v_count; i++) output.sum += input.v[i];
        if (input.v_count > 1) output.first = 10 + input.v[1];
    }"""
    request = Request(typed=form.record, columns=made, make=source)
    found = ValueReader(plan_of(record_to_arrow(made), formats=(form,), request=request)).read(values).to_pylist()
    assert found == [
        {"x": 1.5, "there": 1, "sum": 4, "first": 10},
        {"x": 0.0, "there": 0, "sum": 0, "first": 0},
        {"x": 0.0, "there": 1, "sum": 0, "first": 0},
    ]


@pytest.mark.parametrize("mode", MODES)
def test_versions_with_other_nulls_have_one_union(mode: Mode) -> None:
    """A field that became nullable, or says so in another way, or whose bit is another one."""
    plain = record_to_format(record("row", [Field("x", FLOAT64), Field("d", INT64, Notes(logical="decimal(5,1)"))]))
    more = pa.schema([("new", pa.int8()), ("d", pa.decimal128(9, 2)), ("x", pa.float64()), ("v", pa.list_(pa.int32()))])
    other = record_to_format(arrow_to_record(more, "row", MODES[MODES.index(mode) - 1]), "le32")
    row = {"new": 1, "d": None, "x": None, "v": [None, 2]}
    form, values = written(mode)
    union = merge([plain.record, form.record, other.record])
    schema = record_to_arrow(union)
    assert schema.field("v").type.value_field.nullable
    assert "nulls" not in schema.names
    batch = pa.RecordBatch.from_pylist([row], more)
    mixed = [
        encode(plain, {"x": 2.5, "d": 15}),
        *values.to_pylist(),
        *format_to_encoder(other, more).encode(batch).to_array().to_pylist(),
    ]
    found = ValueReader(plan_of(schema, formats=(plain, form, other))).read(pa.array(mixed, pa.binary())).to_pylist()
    nothing = dict.fromkeys(schema.names)
    old = {**nothing, "x": 2.5, "d": Decimal("1.50")}
    assert found == [old, *({**nothing, **row} for row in ROWS), {**nothing, **row}]


def test_the_bytes_under_a_null_do_not_matter() -> None:
    """A stranger need not write zeros where its bits say null; both engines and programs see nothing there."""
    form, values = written("mask", "le64", SCHEMA.remove(2))
    values = values.to_pylist()
    head, at = form.header_size, {field.name: field.offset for field in form.structs[0].fields}
    full, bits = bytearray(values[0]), values[1][head + at["nulls"]]
    full[head + at["nulls"]] = bits
    records = pa.array([bytes(full)], pa.binary())
    nothing = dict.fromkeys(["x", "b", "t", "d"])
    assert decode(form, bytes(full)) == nothing
    assert ValueReader(plan_of(SCHEMA.remove(2), formats=(form,))).read(records).to_pylist() == [nothing]
    zero = "!present(input.x) && input.x == 0.0 && !input.b && input.t == 0"
    request = Request(typed=form.record, keep=f"{{ return {zero}; }}")
    assert ValueReader(plan_of(SCHEMA.remove(2), formats=(form,), request=request)).read(records).to_pylist() == [
        nothing
    ]


def test_a_reader_without_knowledge_of_the_mask_sees_one_more_field() -> None:
    form, values = written("mask", "be64")
    bare = Format.from_structs(
        [type(s)(s.name, s.fields, s.record_length) for s in form.structs], "be64", keep_defaults=True
    )
    found = decode(bare, bare.id + values[1].as_py()[len(form.id) :])
    assert found["nulls"] == [0b11111]
    assert (found["x"], found["v"]) == (0.0, None)
    assert decode(bare, bare.id + values[0].as_py()[len(form.id) :])["v_nulls"] == [0, 1, 0]


def test_nulls_of_rows_that_python_writes() -> None:
    """Both modes take None where the type says so, and refuse it elsewhere."""
    for mode in MODES:
        form = record_to_format(arrow_to_record(SCHEMA, "row", mode))
        row = {"x": None, "b": None, "v_count": 2, "v": [None, 7], "t": 0, "d": None}
        assert decode(form, encode(form, row)) == row
    plain = record_to_format(record("plain", [Field("x", FLOAT64)]))
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE[^$]*\$\.x"):
        encode(plain, {"x": None})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([Field("x", INT32, Notes(null_bit=0))], "must be a bit of the structure"),
        (
            [Field("x", INT32, Notes(null_bit=8)), Field("m", Array(UINT8, (1,)), Notes(logical="nulls"))],
            "must be a bit of the structure",
        ),
        (
            [
                Field("x", INT32, Notes(null_bit=1)),
                Field("y", INT32, Notes(null_bit=1)),
                Field("m", Array(UINT8, (1,)), Notes(logical="nulls")),
            ],
            "no other field uses",
        ),
        ([Field("m", Array(INT32, (1,)), Notes(logical="nulls"))], "must be an array of bytes"),
        ([Field("m", Array(UINT8, (1,)), Notes(logical="nulls", null_bit=0))], "must be an array of bytes"),
        (
            [Field(name, Array(UINT8, (1,)), Notes(logical="nulls")) for name in "mn"],
            "more than one field of bits",
        ),
        ([Field("v", Array(INT32, (3,)), Notes(null_items="m"))], "must name a field of bytes"),
        (
            [Field("v", Array(INT32, (3,)), Notes(null_items="m")), Field("m", Array(UINT8, (2,)))],
            "must name a field of bytes",
        ),
        (
            [Field("v", Array(STRING, (2,)), Notes(null_items="m")), Field("m", Array(UINT8, (2,)))],
            "must name a field of bytes",
        ),
        (
            [Field("v", Array(CHAR, (2,)), Notes(null_items="m")), Field("m", Array(UINT8, (2,)))],
            "must name a field of bytes",
        ),
        ([Field("x", Pointer(BOOLEAN), Notes(null_items="x"))], "must name a field of bytes"),
    ],
)
def test_notes_on_nulls_that_contradict_the_structure_are_refused(fields: list[Field], reason: str) -> None:
    with pytest.raises(PbioError, match=rf"PBIO_BAD_OPT_INFO(.|\n)*{reason}"):
        record_to_format(record("r", fields))
