"""Binary values decode as by the plain codec, wherever they are in memory and whatever is between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, record
from pbio_spark.columns import BatchLimits, ErrorPolicy, Selection, ValueReader, plan_read
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FolderStore, MemoryStore
from pbio_spark.wire import decode, encode

FIELDS = [Field("id", INT64), Field("name", STRING), Field("k", INT32), Field("v", Array(FLOAT64, ("k",)))]
SMALL = record_to_format(record("small", [Field("id", INT32)]))
FORMATS = [record_to_format(record("reading", FIELDS), machine) for machine in ("le64", "be32")]
LATER = record_to_format(record("reading", [*FIELDS, Field("more", INT32)]), "be64")
UNKNOWN = record_to_format(record("nobody", [Field("x", INT32)]))
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.list_(pa.float64()))])


def value_of(form: Format, number: int) -> bytes:
    values: dict[str, Any] = {"id": number, "name": f"name {number}", "k": number % 3, "v": [0.5] * (number % 3)}
    if form is LATER:
        values["more"] = 7
    return encode(form, values)


GOOD = st.builds(value_of, st.sampled_from([*FORMATS, LATER]), st.integers(0, 9))
BAD = st.one_of(
    st.binary(max_size=24),
    st.just(encode(UNKNOWN, {"x": 1})),
    # The end is cut off, or there is more than the header says.
    st.builds(lambda value, cut: value[:cut], GOOD, st.integers(0, 30)),
    st.builds(lambda value, more: value + more, GOOD, st.binary(min_size=1, max_size=9)),
)


def expected(value: bytes | None) -> dict[str, Any] | None:
    """The oracle: what a value is by itself."""
    for form in (*FORMATS, LATER):
        if value is not None and value.startswith(form.id):
            try:
                values = decode(form, value)
            except PbioError:
                return None
            # Of an empty array the codec says None.
            return {name: values[name] if name != "v" else values[name] or [] for name in SCHEMA.names}
    return None


def reader_of(mode: str = "PERMISSIVE", most: int = 1 << 15) -> ValueReader:
    store = MemoryStore()
    for form in (*FORMATS, LATER):
        store.put(form)
    plan = plan_read(
        Selection(SCHEMA),
        FORMATS,
        errors=ErrorPolicy(mode=mode),  # type: ignore[arg-type]
        limits=BatchLimits(most, 1 << 24),
        store=store,
    )
    return ValueReader(plan)


READERS = {most: reader_of(most=most) for most in (1, 3, 1 << 15)}


@given(
    st.lists(st.one_of(GOOD, GOOD, BAD, st.none()), max_size=12),
    st.integers(0, 3),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    st.sampled_from(sorted(READERS)),
)
@settings(max_examples=150)
def test_each_value_is_what_it_is_by_itself(
    values: list[bytes | None], before: int, type_: pa.DataType, most: int
) -> None:
    array = pa.array([b"something else"] * before + values + [b"behind"], type_).slice(before, len(values))
    made = READERS[most].read(array)
    made.validate(full=True)
    assert made.to_pylist() == [expected(value) for value in values]


@given(st.lists(GOOD, min_size=1, max_size=8), st.integers(0, 8), BAD)
@settings(max_examples=40)
def test_the_first_bad_value_is_named(values: list[bytes], at: int, bad: bytes) -> None:
    at = min(at, len(values))
    array = pa.array([None, *values[:at], bad, *values[at:]], pa.binary())
    if expected(bad) is not None:
        return
    with pytest.raises(PbioError) as caught:
        reader_of("FAILFAST", most=4).read(array)
    assert caught.value.file == f"binary value {at + 1} of its batch"
    assert caught.value.offset is None or 0 <= caught.value.offset <= len(bad)


def test_a_format_that_comes_later_is_looked_for_once_it_comes() -> None:
    reader = reader_of("FAILFAST")
    assert reader.read(pa.array([value_of(FORMATS[0], 4)])).to_pylist() == [expected(value_of(FORMATS[0], 4))]
    mixed = [value_of(form, 5) for form in (LATER, FORMATS[1], LATER)]
    assert reader.read(pa.array(mixed)).to_pylist() == [expected(one) for one in mixed]


def test_an_unknown_format_is_missed_in_the_store_that_was_asked(tmp_path: Path) -> None:
    unknown = pa.array([encode(UNKNOWN, {"x": 1})], pa.binary())
    for store, hint in ((FolderStore(tmp_path), f"not in {tmp_path}"), (None, "with the option formatStore")):
        reader = ValueReader(plan_read(Selection(SCHEMA), FORMATS, errors=ErrorPolicy(mode="FAILFAST"), store=store))
        with pytest.raises(PbioError, match="PBIO_UNKNOWN_FORMAT") as caught:
            reader.read(unknown)
        assert hint in (caught.value.hint or "")


def test_nothing() -> None:
    reader = reader_of("FAILFAST")
    assert reader.read(pa.array([], pa.binary())).to_pylist() == []
    assert reader.read(pa.array([None, None], pa.binary())).to_pylist() == [None, None]


@pytest.mark.parametrize("type_", [pa.int32(), pa.float64(), pa.list_(pa.binary()), pa.struct([("a", pa.binary())])])
def test_only_bytes_hold_records(type_: pa.DataType) -> None:
    for mode in ("FAILFAST", "PERMISSIVE"):
        with pytest.raises(PbioError, match=r"\[PBIO_INCOMPATIBLE_TYPE\].*a column of bytes, not of"):
            reader_of(mode).read(pa.array([None], type_))
    assert reader_of().read(pa.array([None, None])).to_pylist() == [None, None]
