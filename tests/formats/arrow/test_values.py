"""One record as tables show it: the plain code and the compiled code agree."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pbio_spark.columns import ErrorPolicy, Selection, ValueReader, format_to_encoder, plan_read, rows_to_batch
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.values import Shown
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.body.opt_info import Nulls
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.testing.strategies import Limits, formats, values
from pbio_spark.wire import decode, encode
from tests.columns.arrow_rows import rows

EXAMPLES = 500 if os.environ.get("PBIO_LONG") else 12  # each is compiled
relaxed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def in_tables(form: Format, record: bytes) -> dict[str, Any]:
    """What the compiled reader makes of a record."""
    plan = plan_read(Selection(record_to_arrow(form.record)), (form,), errors=ErrorPolicy())
    (found,) = ValueReader(plan).read(pa.array([record], pa.binary())).to_pylist()
    return dict(found)


def plain(value: Any) -> Any:
    """A value to be compared: NaN is NaN, 0.0 is not -0.0, time zones are one, and 5 is Decimal(5)."""
    match value:
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime() if value.tzinfo is not None:
            return repr(value.astimezone(UTC))
        case Decimal() if not value.as_tuple().exponent:
            return repr(int(value))
    return repr(value)


@relaxed
@given(st.data())
def test_records_of_any_format_are_shown_as_in_tables(data: st.DataObject) -> None:
    form = data.draw(formats(Limits(recursive=False, long_double=False, pointers=False, structs=2, fields=3)))
    record = encode(form, data.draw(values(form)))
    try:
        wanted = in_tables(form, record)
    except PbioError:
        return  # bytes that are not UTF-8: `decode` may still have them
    assert plain(Shown(form).shown(decode(form, record))) == plain(wanted)


@settings(relaxed, max_examples=10 * EXAMPLES)
@given(rows(), st.sampled_from(("le64", "be32")), st.sampled_from(("none", "mask")))
def test_rows_are_stored_as_in_tables(
    given_rows: tuple[pa.Schema, list[dict[str, Any]]], machine: str, nulls: Nulls
) -> None:
    schema, table = given_rows
    form = record_to_format(columns_to_record(schema, "r", nulls), machine)
    both = Shown(form)
    for row in pa.RecordBatch.from_pylist(table, schema).to_pylist():
        assert plain(both.shown(decode(form, encode(form, both.stored(row))))) == plain(row)


EVERY = {
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "price": "decimal(10,2)",
    "big": "decimal(30,2)[]",
    "raw": "binary",
    "tag": "char[4]",
    "n": "int32",
    "v": "float64[n]",
}
ROW: dict[str, Any] = {
    "at": datetime(1960, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    "local": datetime(9999, 12, 31, 23, 59, 59, 999999),
    "day": date(1, 1, 1),
    "price": Decimal("-1.5"),
    "big": [Decimal(-1), Decimal("12345678901234567890.12")],
    "raw": b"\0\xff",
    "tag": "ada",
    "v": np.arange(2.0),
}


@pytest.mark.parametrize("machine", ["le64", "be32"])
def test_bytes_are_those_of_the_compiled_writer(machine: str) -> None:
    form = record_to_format(json_to_record({"r": EVERY}), machine)
    batch = rows_to_batch([ROW], form)
    record = encode(form, Shown(form).stored(ROW))
    assert format_to_encoder(form, batch.schema).checked().encode(batch).to_array().to_pylist() == [record]
    assert plain(Shown(form).shown(decode(form, record))) == plain(in_tables(form, record))


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("day", datetime(2020, 1, 1, 12), "has a time of day"),
        ("price", Decimal("1.255"), "it has more than 2 digits after the point"),
        ("price", Decimal("1." + "0" * 70 + "1"), "it has more than 10 digits"),
        ("price", Decimal("1E+999999"), "it has more than 10 digits"),
        ("price", Decimal("NaN"), "it is not a finite number"),
        ("price", Decimal("sNaN"), "it is not a finite number"),
        ("price", 1.5, "give a Decimal"),
        ("price", 10**9, "it has more than 10 digits"),
        ("big", [Decimal(1), "x"], "give a Decimal"),
        ("tag", "adamant", "it takes 7 bytes, but there is room for only 4"),
        ("tag", "a\0b", "it holds a NUL"),
        ("raw", [1], "give bytes"),
        ("at", "2020-01-01", "give a datetime"),
        ("at", 5, "is a number, not a time"),
        ("day", 5, "is a number, not a date"),
        ("local", datetime(2020, 1, 1, tzinfo=UTC), "has a time zone"),
    ],
)
def test_what_would_lose_a_part_is_refused(field: str, value: Any, why: str) -> None:
    form = record_to_format(json_to_record({"r": EVERY}))
    with pytest.raises(PbioError) as caught:
        encode(form, Shown(form).stored({**ROW, field: value}))
    assert caught.value.code == "PBIO_BAD_VALUE"
    assert caught.value.field is not None
    assert caught.value.field.startswith(f"$.{field}")
    assert why in caught.value.reason


def test_a_null_and_an_empty_array_are_told_apart_where_the_format_does() -> None:
    form = record_to_format(json_to_record({"r": {"a": "int32[]", "s": "string"}}))
    assert Shown(form).shown(decode(form, encode(form, {"a": [], "s": None}))) == {"a": [], "s": None}


def test_a_misspelled_field_is_suggested() -> None:
    form = record_to_format(json_to_record({"r": {"load": "float64"}}))
    with pytest.raises(PbioError) as caught:
        encode(form, Shown(form).stored({"laod": 1.0}))
    assert caught.value.hint == "did you mean 'load'?"


@pytest.mark.parametrize("value", [(1.0, 2.0), range(1, 3), np.array([1.0, 2.0]), [1, 2]])
def test_a_list_may_be_any_sequence_of_numbers(value: Any) -> None:
    form = record_to_format(json_to_record({"r": {"v": "float64[]"}}))
    both = Shown(form)
    assert both.shown(decode(form, encode(form, both.stored({"v": value})))) == {"v": [1.0, 2.0]}
