"""The kernel's records equal the oracle's, byte for byte, and hold the values of the rows."""

from __future__ import annotations

import os
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ecode.native import Kernel
from pbio_spark.columns.encode.encoder import Encoder, format_to_encoder
from pbio_spark.columns.encode.generate import encode_plan_to_text
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.columns.encode.planner import format_to_encode_plan
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.testing import strategies
from pbio_spark.wire import decode, encode
from tests.columns import arrow_rows
from tests.columns.checked import CheckedKernel
from tests.columns.expected import NotPresentableError, record_to_row
from tests.columns.records import decode_records, same
from tests.ffs.native import natural, struct
from tests.ffs_library import Context

# What recursive structures share may have other extents than one of its owners says; no rows stand for that.
LIMITS = strategies.Limits(long_double=False, recursive=False)
PRESENTATIONS = st.builds(
    Presentation,
    st.sampled_from(("string", "binary", "array")),
    st.sampled_from(("decimal", "long", "binary")),
    st.just("UTF-8"),
    st.integers(1, 3),
)
LONG = bool(os.environ.get("PBIO_LONG"))
FEW = settings(
    max_examples=100 if LONG else 4,
    suppress_health_check=list(HealthCheck),
    # Every step of shrinking would compile a kernel: a failing example is small enough as it is.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
MANY = settings(max_examples=5_000 if LONG else 200, suppress_health_check=list(HealthCheck), phases=FEW.phases)


def encode_rows(form: Format, batch: pa.RecordBatch, null_value: float | None = None, *, checked: bool) -> list[bytes]:
    """The records of a batch; `checked` does not compile the kernel, unless symbols become numbers in other memory."""
    null = None if null_value is None else NullValue(null_value)
    plan = format_to_encode_plan(form, batch.schema, null)
    if checked and not any(column.symbols for column in plan.columns):
        text = encode_plan_to_text(plan, wrap=False)
        memory = [(b.address, b.size) for column in batch.columns for b in column.buffers() if b is not None]
        encoder = Encoder(plan, False, cast(Kernel, CheckedKernel(text.source, memory)), text.constants)
    else:
        encoder = format_to_encoder(form, batch.schema, null_value=null)
    with patch.object(pa, "allocate_buffer", dirty_buffer):
        return cast("list[bytes]", encoder.encode(batch).to_array().to_pylist())


ALLOCATE = pa.allocate_buffer


def dirty_buffer(size: int) -> pa.Buffer:
    """Memory that is not zero by chance."""
    buffer = ALLOCATE(size)
    np.frombuffer(buffer, np.uint8)[:] = 0xAA
    return buffer


def in_the_middle(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of the rows that is a slice of a longer one."""
    return pa.RecordBatch.from_pylist([rows[-1], *rows, rows[0]], schema).slice(1, len(rows))


def agree_on_formats(data: st.DataObject, *, checked: bool) -> None:
    form, presentation = data.draw(strategies.formats(LIMITS)), data.draw(PRESENTATIONS)
    values = data.draw(st.lists(strategies.values(form), min_size=1, max_size=3))
    try:
        records = [encode(form, value) for value in values]
        rows = [record_to_row(form, decode(form, record, text=None), presentation) for record in records]
    except (NotPresentableError, UnicodeDecodeError):
        return  # no row represents such a record
    batch = in_the_middle(rows, record_to_arrow(form.record, presentation))
    # Where recursion ends, arrays have no column; null is what they were, too, as far as the rows can tell.
    for record, row in zip(encode_rows(form, batch, 0, checked=checked), rows, strict=True):
        again = decode(form, record, text=None)
        assert encode(form, again) == record
        assert same(record_to_row(form, again, presentation), row), (row, record)


@MANY
@given(st.data())
def test_kernels_agree_with_the_oracle(data: st.DataObject) -> None:
    agree_on_formats(data, checked=True)


@FEW
@given(st.data())
def test_compiled_kernels_agree_with_the_oracle(data: st.DataObject) -> None:
    agree_on_formats(data, checked=False)


def agree_on_rows(data: st.DataObject, *, checked: bool) -> None:
    schema, rows = data.draw(arrow_rows.rows())
    form = record_to_format(
        arrow_to_record(schema, "row"), data.draw(strategies.MACHINE_NAMES), body_version=data.draw(st.integers(0, 2))
    )
    batch = in_the_middle(rows, schema)
    records = encode_rows(form, batch, checked=checked)
    for record in records:
        assert encode(form, decode(form, record)) == record
    decoded = decode_records(form, records, checked=True)
    assert not decoded.status.any()
    assert same(decoded.batch.to_pylist(), batch.to_pylist())


@MANY
@given(st.data())
def test_rows_come_back(data: st.DataObject) -> None:
    agree_on_rows(data, checked=True)


@FEW
@given(st.data())
def test_rows_come_back_from_compiled_kernels(data: st.DataObject) -> None:
    agree_on_rows(data, checked=False)


def test_the_real_library_writes_the_same_bytes() -> None:
    structs = natural(
        [
            struct("sample", ("n", "integer", 4), ("name", "string", 8), ("v", "float[n]", 8), ("p", "*point", 12)),
            struct("point", ("x", "integer[3]", 4), ("tags", "string[2]", 8), ("flag", "boolean", 4)),
        ]
    )
    context = Context()
    registered = context.register(structs)
    form = Format.from_body(registered.body, registered.id)
    point = {"x": [1, -2, 3], "tags": ["a", None], "flag": True}
    rows = [
        {"n": 3, "name": "Ann", "v": [1.5, -2.0, 0.0], "p": point},
        {"n": 0, "name": None, "v": [], "p": None},
    ]
    batch = pa.RecordBatch.from_pylist(rows, record_to_arrow(form.record))
    assert encode_rows(form, batch, checked=False) == [context.encode(registered, row) for row in rows]


WIDE = "pbio_spark.columns.encode.generate.WIDE"
LESS = settings(MANY, max_examples=MANY.max_examples // 4)


@LESS
@given(st.data())
def test_kernels_in_a_loop_agree_with_the_oracle(data: st.DataObject) -> None:
    with patch(WIDE, data.draw(st.integers(0, 2))):
        agree_on_formats(data, checked=True)


@settings(FEW, max_examples=FEW.max_examples // 2)
@given(st.data())
def test_compiled_kernels_in_a_loop_agree_with_the_oracle(data: st.DataObject) -> None:
    with patch(WIDE, 1):
        agree_on_formats(data, checked=False)


@LESS
@given(st.data())
def test_rows_come_back_from_kernels_in_a_loop(data: st.DataObject) -> None:
    with patch(WIDE, data.draw(st.integers(0, 2))):
        agree_on_rows(data, checked=True)


def test_a_thousand_fields_are_written_in_a_loop_as_without_it() -> None:
    kinds = [
        (pa.int32(), lambda i: i - 500),
        (pa.string(), lambda i: None if i % 3 else "x" * (i % 20)),
        (pa.list_(pa.float64()), lambda i: None if i % 5 else [i / 2] * (i % 4)),
        (pa.bool_(), lambda i: None if i % 7 else bool(i % 2)),
        (pa.struct([("n", pa.int16()), ("t", pa.string())]), lambda i: {"n": i, "t": str(i)}),
    ]
    # A format has at most a hundred structures.
    chosen = [(f"f{i}", *kinds[i * i % 11 % 4 if i % 16 else 4]) for i in range(1000)]
    schema = pa.schema([(name, type_) for name, type_, _ in chosen])
    form = record_to_format(arrow_to_record(schema, "row", nulls="mask"), "be32")
    rows = [{name: make(i + shift) for i, (name, _, make) in enumerate(chosen)} for shift in range(3)]
    records = encode_rows(form, pa.RecordBatch.from_pylist(rows, schema), checked=True)
    assert [encode(form, decode(form, record)) for record in records] == records
    with patch(WIDE, 10_000):
        assert encode_rows(form, pa.RecordBatch.from_pylist(rows, schema), checked=True) == records
