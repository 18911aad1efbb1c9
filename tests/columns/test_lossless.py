"""Only lossless: a number becomes a column's exactly, or its record is bad; exact Python is the oracle."""

from __future__ import annotations

import ctypes
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecode.columns import Column
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
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Type,
    record,
)
from morph.comparison.convertible import CONVERTIBLE, field_fits
from pbio_spark.columns.decode.planner import format_to_plan
from pbio_spark.columns.programs.output import ProgramOutput
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import decimal_type, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import decode, encode
from tests.columns.records import decode_records, same

BYTES = Array(CHAR, (16,))
SOURCES: list[tuple[Type, str | None]] = [
    *((type_, None) for type_ in (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)),
    *((type_, None) for type_ in (FLOAT32, FLOAT64, CHAR, BOOLEAN, ENUMERATION, Basic(Kind.ENUMERATION, 8))),
    *((INT64, f"decimal({p},{s})") for p, s in ((1, 0), (5, 2), (18, 0), (18, 18))),
    *((BYTES, f"decimal({p},{s})") for p, s in ((19, 0), (20, 2), (38, 0), (38, 10), (38, 38))),
]
DECIMALS = ((1, 0), (3, 2), (10, 0), (18, 4), (19, 0), (20, 0), (38, 0), (38, 10), (38, 38))
WANTED: list[pa.DataType] = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.decimal128(p, s) for p, s in DECIMALS),
]
BITS = (0, 7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64, 100, 126)
DIGITS = (1, 2, 3, 4, 9, 10, 17, 18, 19, 20, 27, 28, 29, 36, 37, 38)
ENDS = sorted(
    {sign * (power + step) for power in (*(2**n for n in BITS), *(10**n for n in DIGITS))
     for sign in (1, -1) for step in (-1, 0, 1)}
    | {0, 2**24 + 2, 2**53 + 2, 2**127 - 1, -(2**127), 5**18 * 3, 5**27, 25, 125, 150, 200}
)  # fmt: skip
FLOATS = [
    *(0.0, -0.0, 0.1, 0.5, 1.5, 2.0, math.nan, math.inf, -math.inf, 5e-324, 1e300, 2.0**53, 2.0**-149, 2.0**-150),
    *(2.0**127, 3.4028234663852886e38, 3.4028235677973366e38, 1.17549435e-38, 16777217.0, -(2.0**63)),
]


def exact(type_: Type, logical: str | None, value: Any) -> Any:
    """What a value means: a Fraction, a truth value, or a float that is not a fraction or whose zero has a sign."""
    decimal = decimal_type(logical)
    if type_ == BYTES:
        value = int.from_bytes(bytes(value), "little", signed=True)
    if decimal is not None:
        return Fraction(value, 10**decimal.scale)
    return value if isinstance(value, bool | float) else Fraction(value)


def survivor(value: Any, want: pa.DataType) -> Any:
    """The value as one of a column of that type, as `to_pylist` gives it; None if the type does not have it."""
    if pa.types.is_boolean(want):
        return value if isinstance(value, bool) else None
    if isinstance(value, float):
        narrow = value if want.bit_width == 64 else ctypes.c_float(value).value
        return narrow if math.isnan(value) or narrow == value else None
    value = Fraction(value)
    if pa.types.is_floating(want):
        try:
            near = float(value) if want.bit_width == 64 else ctypes.c_float(float(value)).value
        except OverflowError:
            return None
        return near if math.isfinite(near) and Fraction(near) == value else None
    if pa.types.is_decimal(want):
        unscaled = value * 10**want.scale
        if unscaled.denominator != 1 or abs(unscaled) >= 10**want.precision:
            return None
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -want.scale))
    fits = value.denominator == 1 and -(2 ** (want.bit_width - 1)) <= value < 2 ** (want.bit_width - 1)
    return int(value) if fits else None


def values_of(type_: Type) -> list[Any]:
    """Values at the ends of types, as the codec takes them."""
    if type_ == BYTES:
        return [list(n.to_bytes(16, "little", signed=True)) for n in ENDS]
    assert isinstance(type_, Basic)
    match type_.kind:
        case Kind.FLOAT:
            return FLOATS if type_.size == 8 else [v for v in map(_single, FLOATS) if v is not None]
        case Kind.BOOLEAN:
            return [False, True]
    bits = 8 * type_.size
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if type_.kind is Kind.INTEGER else (0, 2**bits)
    return [n for n in ENDS if low <= n < high]


def _single(value: float) -> float | None:
    return None if 3.40282351e38 < abs(value) < math.inf else ctypes.c_float(value).value


def accepts(type_: Type, logical: str | None, want: pa.DataType) -> bool:
    form = record_to_format(record("r", [Field("v", type_, Notes(logical=logical))]))
    try:
        format_to_plan(form, ColumnSpec(pa.schema([("v", want)])))
    except PbioError as error:
        assert error.code == "PBIO_INCOMPATIBLE_TYPE"  # noqa: PT017 - some pairs are refused
        return False
    return True


@pytest.mark.parametrize(("type_", "logical"), SOURCES, ids=str)
def test_every_cell_at_the_ends_of_its_types(type_: Type, logical: str | None) -> None:
    """Kernels (as Python) agree with exact Python about each value that the codec wrote, alone and in arrays."""
    values = values_of(type_)
    form = record_to_format(record("r", [Field("v", type_, Notes(logical=logical))]))
    records = [encode(form, {"v": value}) for value in values]
    meanings = [exact(type_, logical, decode(form, one)["v"]) for one in records]
    for want in WANTED:
        if not accepts(type_, logical, want):
            continue
        decoded = decode_records(form, records, schema=pa.schema([("v", want)]), checked=True)
        expected = [survivor(meaning, want) for meaning in meanings]
        assert (decoded.status == 0).tolist() == [value is not None for value in expected], want
        for i, value in enumerate(expected):
            if value is not None:
                found = decoded.batch.column(0)[i].as_py()
                assert same(found, value), (want, found, value)


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_numbers_in_arrays(data: st.DataObject) -> None:
    """A value that does not survive makes its own record bad, and no neighbour; in arrays as alone."""
    type_, logical = data.draw(st.sampled_from([source for source in SOURCES if source[0] != BYTES]))
    want = data.draw(st.sampled_from([want for want in WANTED if accepts(type_, logical, want)]))
    rows = data.draw(st.lists(st.lists(st.sampled_from(values_of(type_)), max_size=4), min_size=1, max_size=5))
    fields = [Field("n", INT32), Field("v", Array(type_, ("n",)), Notes(logical=logical))]
    machine = data.draw(st.sampled_from(("native", "be32")))
    form = record_to_format(record("r", fields), machine)
    records = [encode(form, {"n": len(row), "v": row or None}) for row in rows]
    schema = pa.schema([("v", pa.list_(pa.field("element", want, nullable=False)))])
    decoded = decode_records(form, records, schema=schema, checked=True)
    for i, row in enumerate(rows):
        expected = [survivor(exact(type_, logical, value), want) for value in row]
        assert (decoded.status[i] == 0) == (None not in expected)
        if None not in expected:
            assert same(decoded.batch.column(0)[i].as_py(), expected)


KINDS: list[tuple[Type, str | None]] = [*SOURCES, (INT64, "timestamp"), (INT64, "timestamp_ntz"), (INT32, "date")]


@pytest.mark.parametrize(("type_", "logical"), KINDS, ids=str)
def test_what_matching_takes_reading_takes(type_: Type, logical: str | None) -> None:
    """One rule: a field that fits a wanted one can become its column; a column that is taken is one that fits."""
    source = Field("v", type_, Notes(logical=logical))
    for wanted, note in KINDS:
        want = Field("v", wanted, Notes(logical=note))
        column = record_to_arrow(record("r", [want])).field(0).type
        if field_fits(source, want):
            assert accepts(type_, logical, column), want
    for column in (*WANTED, pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()):
        (want,) = arrow_to_record(pa.schema([("v", column)]), "r").fields
        assert accepts(type_, logical, column) == field_fits(source, want), column


def test_a_float_is_not_an_integer_and_a_date_not_a_number() -> None:
    assert not accepts(FLOAT64, None, pa.int64())
    assert not accepts(FLOAT64, None, pa.decimal128(10, 2))
    assert not accepts(INT32, "date", pa.int32())
    assert not accepts(INT64, "timestamp", pa.int64())
    assert not accepts(INT8, None, pa.bool_())
    assert (Kind.FLOAT, Kind.INTEGER) not in CONVERTIBLE


def test_one_decimal_beyond_its_digits_leaves_its_neighbours_alone() -> None:
    form = record_to_format(arrow_to_record(pa.schema([("v", pa.decimal128(30, 0))]), "r"))
    numbers = [10**30 - 1, 5, 10**30, -(10**30 - 1), -(10**30), 10**30 - 50, 2**127 - 1, 7]
    records = [encode(form, {"v": list(n.to_bytes(16, "little", signed=True))}) for n in numbers]
    decoded = decode_records(form, records, checked=True)
    assert (decoded.status == 0).tolist() == [abs(n) < 10**30 for n in numbers]


@pytest.mark.parametrize("type_", [INT64, UINT64, FLOAT64, Basic(Kind.ENUMERATION, 8)], ids=str)
def test_what_a_program_made_follows_the_same_rule(type_: Basic) -> None:
    kind = {Kind.FLOAT: "f8", Kind.INTEGER: "i8"}.get(type_.kind, "u8")
    values = values_of(type_)
    made = np.array(values, kind).view("i8" if kind == "u8" and type_.kind is Kind.ENUMERATION else kind)
    for want in WANTED:
        if not accepts(type_, None, want):
            continue
        columns = ProgramOutput(record("r", [Field("v", type_)]), ColumnSpec(pa.schema([("v", want)])))
        column = Column(length=len(values), children={"v": Column(length=len(values), data=made)})
        batch, bad = columns.to_batch(column)
        expected = [survivor(exact(type_, None, value), want) for value in values]
        assert sorted(bad.tolist()) == [i for i, value in enumerate(expected) if value is None]
        for i, value in enumerate(expected):
            assert value is None or same(batch.column(0)[i].as_py(), value)
