"""Replacements of nulls that a format cannot represent, and refused replacements."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from ecode.types import (
    CHAR,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    Array,
    Default,
    Field,
    Notes,
    Ref,
)
from pbio_spark.columns.encode.encoder import format_to_encoder
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import decode
from tests.columns.encode.test_encoder import F64, HIDDEN, I8, I16, I32, POINT, form_of, one, write


def test_null_value_is_what_nulls_become() -> None:
    form = form_of(
        Field("i", INT8),
        Field("u", UINT8),
        Field("d", INT64, Notes(logical="decimal(9,2)")),
        Field("D", Array(CHAR, (16,)), Notes(logical="decimal(38,1)")),
        Field("m", Array(INT16, (2,))),
        Field("n", INT32, HIDDEN),
        Field("v", Array(INT32, ("n",))),
        Field("p", Ref("point")),
        structs=(POINT,),
    )
    arrow = {
        "i": I8,
        "u": I16,
        "d": pa.decimal128(9, 2),
        "D": pa.decimal128(38, 1),
        "m": pa.list_(I16),
        "v": pa.list_(I32),
        "p": pa.struct([("x", I32), ("tag", pa.string())]),
    }
    (found,) = write(form, arrow, dict.fromkeys(arrow), null=7)
    assert found.pop("D") == list((70).to_bytes(16, "little"))
    assert found == {"i": 7, "u": 7, "d": 700, "m": [7, 7], "n": 0, "v": None, "p": {"x": 7, "tag": None}}
    (found,) = write(form, arrow, {**dict.fromkeys(arrow), "v": [1, None], "u": 1, "m": [None, 2]}, null=-1)
    assert (found["v"], found["m"]) == ([1, -1], [-1, 2])
    with pytest.raises(PbioError, match=r"PBIO_CANNOT_BE_NULL[^$]*\$\.u"):  # it has no value -1
        write(form, arrow, dict.fromkeys(arrow), null=-1)
    (found,) = write(one("f", FLOAT32), {"f": F64}, {"f": None}, null=math.nan)
    assert math.isnan(found["f"])
    with pytest.raises(PbioError, match="PBIO_CANNOT_BE_NULL"):
        write(one("f", INT32), {"f": I32}, {"f": None}, null=math.nan)


@pytest.mark.parametrize(
    ("arrow", "null"),
    [
        (pa.decimal128(3, 2), -999),
        (pa.decimal128(3, 2), 0.001),
        (pa.int8(), 300),
        (pa.int32(), 0.5),
        (pa.int32(), math.nan),
        (pa.float64(), 2**53 + 1),
        (pa.list_(pa.int8()), 300),
        (pa.struct([("a", pa.int8())]), 300),
    ],
    ids=str,
)
def test_a_null_value_that_a_column_cannot_hold_is_refused_before_writing(arrow: pa.DataType, null: float) -> None:
    schema = pa.schema([("f", arrow), ("g", pa.float32())])
    encoder = format_to_encoder(record_to_format(arrow_to_record(schema, "r")), schema, null_value=NullValue(null))
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION[^$]*nullValue[^$]*\$\.f"):
        encoder.checked()


TIMES = {
    "b": pa.bool_(),
    "t": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "x": pa.list_(pa.timestamp("us")),
    "n": pa.int16(),
}


def test_a_number_for_all_nulls_is_neither_a_boolean_nor_a_date() -> None:
    """It would turn a date into 1970, and an unknown value into false."""
    schema = pa.schema(list(TIMES.items()))
    encoder = format_to_encoder(record_to_format(arrow_to_record(schema, "r")), schema, null_value=NullValue(0))
    there = {"b": True, "t": 1, "day": 1, "x": [1], "n": None}
    assert encoder.checked().encode(pa.RecordBatch.from_pylist([there], schema))
    for name, empty in (("b", None), ("t", None), ("day", None), ("x", [None])):
        with pytest.raises(PbioError, match=rf"PBIO_CANNOT_BE_NULL[^$]*\$\.{name}(.|\n)*nullValue"):
            encoder.encode(pa.RecordBatch.from_pylist([{**there, name: empty}], schema))


def test_null_values_by_column() -> None:
    types = {**TIMES, "s": pa.struct([("a", pa.int8()), ("b", pa.int8())]), "d": pa.decimal128(9, 2)}
    schema = pa.schema(list(types.items()))
    form = record_to_format(arrow_to_record(schema, "r"))
    given = {
        "b": True,
        "t": "2026-01-01T00:00:00Z",
        "day": "2026-01-02",
        "x": 5,
        "s.a": -1,
        "s.b": -2,
        "d": 1.5,
        "n": 7,
    }
    encoder = format_to_encoder(form, schema, null_value=NullValue(by_column=tuple(given.items()))).checked()
    row = {"x": [None], "s": {"a": None, "b": None}}
    (data,) = encoder.encode(pa.RecordBatch.from_pylist([row], schema)).to_array().to_pylist()
    found = decode(form, data)
    assert {name: found[name] for name in types} == {
        "b": True,
        "t": 1767225600000000,
        "day": 20455,
        "x": [5],
        "n": 7,
        "s": {"a": -1, "b": -2},
        "d": 150,
    }


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("dya", 1, "did you mean 'day'"),
        ("s", 1, "can already be null"),
        ("name", "-", "can already be null"),
        ("day", "soon", "no such value"),
        ("b", 2, "no such value"),
        ("n", 2**15, "no such value"),
        ("s.a", "x", "no such value"),
        ("n", True, "no such value"),
    ],
)
def test_null_values_that_are_none_of_their_columns_are_refused_before_writing(
    column: str, value: Default, said: str
) -> None:
    types = {**TIMES, "s": pa.struct([("a", pa.int8())]), "name": pa.string()}
    schema = pa.schema(list(types.items()))
    form = record_to_format(arrow_to_record(schema, "r"))
    with pytest.raises(PbioError, match=rf"PBIO_BAD_OPTION(.|\n)*nullValue(.|\n)*{said}"):
        format_to_encoder(form, schema, null_value=NullValue(by_column=((column, value),))).checked()


def test_a_null_value_need_not_fit_where_no_null_can_be() -> None:
    schema = pa.schema([pa.field("f", pa.int8(), nullable=False), pa.field("s", pa.string()), pa.field("n", I32)])
    form = record_to_format(arrow_to_record(schema, "r"))
    assert format_to_encoder(form, schema, null_value=NullValue(300)).checked()
