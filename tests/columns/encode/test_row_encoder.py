"""Rows encoded without Arrow have the bytes that columns give them, and those that are odd are left to Arrow."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.native import Kernel
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
    Ref,
    Struct,
    record,
)
from pbio_spark.columns import Encoded, RowEncoder, format_to_row_encoder, rows_to_batch
from pbio_spark.columns.encode.encoder import Encoder
from pbio_spark.columns.encode.generate import encode_plan_to_text
from pbio_spark.columns.encode.planner import format_to_encode_plan
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import encode
from tests.columns.arrow_rows import TEXTS
from tests.columns.checked import CheckedKernel
from tests.columns.encode.test_generate import MANY

WHOLE = (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)
TYPES = (*WHOLE, FLOAT32, FLOAT64, BOOLEAN, STRING)
MACHINES = ("le64", "be64", "le32", "be32")
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 127, 128, 255, 256, -32769, 65536, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63, 2**64),
    *(0.0, -0.0, 1.5, float("inf"), float("nan"), 3.4028235e38, 3.4028235677973366e38, 3.41e38, 1e39, 1e308, 1e-46),
    *("", "é", "a\0", "\0", "\ud800", b"a", [1], {}),
)


def right(type_: Basic) -> st.SearchStrategy[Any]:
    """Values that a field of the type can hold."""
    bits = 8 * type_.size
    match type_.kind:
        case Kind.INTEGER:
            return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        case Kind.UNSIGNED:
            return st.integers(0, (1 << bits) - 1)
        case Kind.FLOAT:
            return st.floats(width=32 if bits == 32 else 64)
        case Kind.BOOLEAN:
            return st.booleans()
    return TEXTS


@st.composite
def flat_formats(draw: st.DrawFn) -> Format:
    """Formats of numbers and strings, some of which can be null by bits."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=6))
    own = record("r", [Field(f"f{i}", type_) for i, type_ in enumerate(types)])
    if draw(st.booleans()):
        own = columns_to_record(record_to_arrow(own), "r", "mask")
    return record_to_format(own, draw(st.sampled_from(MACHINES)))


def fields_of(form: Format) -> list[tuple[str, Basic]]:
    """The fields that rows have."""
    fields = form.record.structs[0].fields
    return [(field.name, field.type) for field in fields if isinstance(field.type, Basic) and not field.notes.hidden]


def made(form: Format) -> RowEncoder | None:
    return format_to_row_encoder(form, record_to_arrow(form.record))


def by_columns(form: Format, rows: list[Any]) -> Encoded:
    """The records as Arrow and the kernel make them."""
    batch = rows_to_batch(rows, form)
    plan = format_to_encode_plan(form, batch.schema)
    text = encode_plan_to_text(plan, wrap=True)
    memory = [(b.address, b.size) for column in batch.columns for b in column.buffers() if b is not None]
    kernel = cast(Kernel, CheckedKernel(text.source, memory))
    return Encoder(plan, True, kernel, text.constants).encode(batch)


def is_same(one: Encoded, other: Encoded) -> bool:
    return bool(one.buffer == other.buffer and (one.offsets == other.offsets).all())


def records_of(encoded: Encoded) -> list[bytes]:
    """The records without the heads of their items."""
    return [data[8:] for data in encoded.to_array().to_pylist()]


def fits(form: Format) -> bool:
    """Whether all columns of a format's own type are numbers and strings: an unsigned long may be a decimal."""
    types = record_to_arrow(form.record).types
    return not any(map(pa.types.is_decimal, types))


@MANY
@given(st.data())
def test_right_rows_have_the_bytes_of_columns_and_of_the_oracle(data: st.DataObject) -> None:
    form = data.draw(flat_formats())
    values = st.fixed_dictionaries({name: right(type_) for name, type_ in fields_of(form)})
    rows = data.draw(st.lists(values, min_size=1, max_size=4))
    encoder = made(form)
    assert (encoder is not None) == fits(form)
    if encoder is None:
        return
    encoded = pickle.loads(pickle.dumps(encoder)).encode([dict(reversed(row.items())) for row in rows])
    assert is_same(encoded, by_columns(form, rows))
    assert records_of(encoded) == [encode(form, row) for row in rows]


@MANY
@given(st.data())
def test_what_is_encoded_of_odd_rows_is_what_columns_make_of_them(data: st.DataObject) -> None:
    form = data.draw(flat_formats().filter(fits))
    odd = st.sampled_from(ODD)
    values = {name: st.one_of(right(type_), right(type_), odd) for name, type_ in fields_of(form)}
    rows = data.draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=2))
    if data.draw(st.integers(0, 9)) == 0:
        rows[-1] = data.draw(st.sampled_from(({}, rows[-1] | {"other": 1}, 5, [("f0", 1)])))
    encoder = made(form)
    assert encoder is not None
    encoded = encoder.encode(rows)
    try:
        expected = by_columns(form, rows)
    except PbioError:
        assert encoded is None
    else:
        assert encoded is None or is_same(encoded, expected)


NOT_FLAT = {
    "array": [Field("f", Array(INT32, (3,)))],
    "characters": [Field("f", Array(CHAR, (4,)))],
    "symbols": [Field("f", ENUMERATION, Notes(symbols=(("a", 1),)))],
    "date": [Field("f", INT32, Notes(logical="date"))],
    "time": [Field("f", INT64, Notes(logical="timestamp"))],
    "structure": [Field("f", Ref("s"))],
}


@pytest.mark.parametrize("what", NOT_FLAT)
def test_other_fields_are_left_to_columns(what: str) -> None:
    form = record_to_format(record("r", [Field("x", INT32), *NOT_FLAT[what]], [Struct("s", (Field("k", INT32),))]))
    assert made(form) is None


def test_columns_that_do_not_fill_the_format_are_left_to_arrow() -> None:
    form = record_to_format(record("r", [Field("x", INT32), Field("y", INT32, Notes(default=7))]))
    assert format_to_row_encoder(form, pa.schema([("x", pa.int32())])) is None


def test_numbers_that_fit_the_field_but_not_the_column_are_left_to_arrow() -> None:
    form = record_to_format(record("r", [Field("x", INT64)]))
    assert format_to_row_encoder(form, pa.schema([("x", pa.int16())])) is None
    encoder = format_to_row_encoder(record_to_format(record("r", [Field("x", INT16)])), pa.schema([("x", pa.int64())]))
    assert encoder is not None
    assert encoder.encode([{"x": 40_000}]) is None
