"""The kernels give what the plain-Python codec gives."""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ecode.native.table import address_of
from ecode.types import FLOAT64, INT32, STRING, Array, Field, Pointer, Ref, Struct
from ecode.types import record as record_type
from pbio_spark.columns.decode.converter import Decoder, Int64s, compile_plan
from pbio_spark.columns.decode.planner import format_to_plan
from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import DEFAULT, Presentation, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.testing import strategies
from pbio_spark.wire import VALUE_COST, decode, encode, room_of
from tests.columns.encode.test_generate import encode_rows
from tests.columns.expected import NotPresentableError, record_to_row
from tests.columns.records import decode_records, same

PRESENTATIONS = st.builds(
    Presentation,
    st.sampled_from(("string", "binary", "array")),
    st.sampled_from(("decimal", "long", "binary")),
    st.sampled_from(("ISO-8859-1", "binary", "UTF-8")),
    st.integers(1, 3),
)
# The codec gives one object for what several nodes of a recursive structure share, which rows cannot follow where the
# nodes disagree on its extents. The corpus has recursive structures; `test_read` reads them.
LIMITS = strategies.Limits(long_double=False, recursive=False)


def agree(data: st.DataObject, **options: bool) -> None:
    form = data.draw(strategies.formats(LIMITS))
    presentation = data.draw(PRESENTATIONS)
    values = data.draw(st.lists(strategies.values(form), min_size=1, max_size=3))
    records = [encode(form, value) for value in values]
    decoded = decode_records(form, records, presentation, **options)
    assert decoded.batch.schema == record_to_arrow(form.record, presentation)
    decoded.batch.validate(full=not decoded.status.any())
    for i, record in enumerate(records):
        try:
            row = record_to_row(form, decode(form, record, text=None), presentation)
        except (NotPresentableError, UnicodeDecodeError):
            assert decoded.status[i]
        else:
            assert not decoded.status[i]
            (found,) = decoded.batch.slice(i, 1).to_pylist()
            assert same(found, row), (found, row)


@given(st.data(), st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_kernels_agree_with_the_oracle(data: st.DataObject, fused: bool) -> None:
    agree(data, fused=fused, checked=True)


@given(st.data(), st.booleans())
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # Every step of shrinking would compile kernels: a failing example is small enough as it is.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
def test_compiled_kernels_agree_with_the_oracle(data: st.DataObject, fused: bool) -> None:
    agree(data, fused=fused)


@st.composite
def mutated(draw: st.DrawFn, record: bytes, start: int) -> bytes:
    """The record with a few bytes changed after its header, slots and counts most of all."""
    changed = bytearray(record)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(start, len(record) - 1))
        changed[at] = draw(st.sampled_from((0, 1, 8, 0x7F, 0x80, 0xFF, len(record) & 0xFF)))
    return bytes(changed)


@given(st.data(), st.booleans())
@settings(max_examples=20_000 if os.environ.get("PBIO_LONG") else 300, suppress_health_check=list(HealthCheck))
def test_damaged_records_are_refused_by_both_or_read_alike(data: st.DataObject, fused: bool) -> None:
    form = data.draw(strategies.formats(LIMITS))
    presentation = Presentation("binary", "decimal", data.draw(st.sampled_from(("ISO-8859-1", "binary"))))
    record = encode(form, data.draw(strategies.values(form)))
    if len(record) == form.header_size:
        return
    changed = data.draw(mutated(record, form.header_size))
    decoded = decode_records(form, [changed], presentation, fused=fused, checked=True)
    try:
        values = decode(form, changed, text=None)
    except PbioError as error:
        values, code = None, error.code
    if values is None:
        # The codec counts every part of a record, the kernels what becomes columns: it gives up a little earlier.
        assert decoded.status[0] or code == "PBIO_RECORD_EXPANDS"
    else:
        assert not decoded.status[0]
        (found,) = decoded.batch.to_pylist()
        row = record_to_row(form, values, presentation)
        assert same(found, row), (found, row)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("column_major", [False, True])
def test_strings_in_arrays_of_arrays_are_contiguous_in_any_order_of_indices(fused: bool, column_major: bool) -> None:
    fields = (
        FieldLayout("rows", "char[2][3]", 1, 0),
        FieldLayout("line", "(char[2])[2]", 1, 6),
        FieldLayout("table", "(char[2])[2][2]", 1, 10),
    )
    form = Format.from_structs([StructLayout("r", fields, 18)], column_major=column_major)
    values = {
        "rows": [[97, 98, 99], [100, 0, 0]],
        "line": [[0, 0], [101, 0]],
        "table": [[[102, 103], [104, 0]], [[0, 105], [106, 107]]],
    }
    record = encode(form, values)
    (found,) = decode_records(form, [record], fused=fused).batch.to_pylist()
    assert found == {"rows": ["abc", "d"], "line": ["", "e"], "table": [["fg", "h"], ["", "jk"]]}
    assert same(found, record_to_row(form, decode(form, record, text=None), DEFAULT))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("column_major", [False, True])
def test_an_empty_array_may_claim_any_other_extent(fused: bool, column_major: bool) -> None:
    """No byte of the record bears out the other extent, so nothing may be made for it."""
    fields = (
        FieldLayout("n", "integer", 8, 0),
        FieldLayout("m", "integer", 8, 8),
        FieldLayout("x", "float[n][m]", 8, 16),
        FieldLayout("s", "string[n][m]", 8, 24),
    )
    form = Format.from_structs([StructLayout("r", fields, 32)], column_major=column_major)
    empty = encode(form, {"n": 0, "m": 0, "x": [], "s": []}) + bytes(8)
    record = bytearray(empty.replace(struct.pack("<q", 32), struct.pack("<q", 40), 1))  # the record's length
    struct.pack_into("<qqq", record, form.header_size + 8, (1 << 62) + 1, 32, 32)
    values = decode(form, bytes(record))
    assert values == {"n": 0, "m": (1 << 62) + 1, "x": [], "s": []}
    for checked in (False, True):
        assert decode_records(form, [bytes(record)], fused=fused, checked=checked).batch.to_pylist() == [values]


CUBES = Format.from_structs(
    [
        StructLayout(
            "cubes",
            (
                FieldLayout("c", "integer", 4, 0),
                FieldLayout("m", "integer", 4, 4),
                FieldLayout("k", "integer", 4, 8),
                FieldLayout("v", "float[c][m][k]", 8, 16),
                FieldLayout("s", "string[c][m][k]", 8, 24),
                FieldLayout("t", "char[c][m][k]", 1, 32),
                FieldLayout("w", "integer[3][m]", 4, 40),
            ),
            48,
        )
    ]
)


def cubes(*extents: int, is_null: bool) -> bytes:
    """A record of arrays without elements, after null pointers or pointers that lead somewhere."""
    c, m, k = extents
    lists = [[[]] * m if k == 0 else []] * c
    if is_null:
        values = {"c": c, "m": m, "k": k, "v": lists, "s": lists, "t": lists, "w": [[7] * m] * 3}
        return encode(CUBES, values)
    values = {"c": 1, "m": 1, "k": 1, "v": [[[1.0]]], "s": [[["a"]]], "t": [[[65]]], "w": [[7]] * 3}
    record = encode(CUBES, values)
    start = CUBES.header_size
    return record[:start] + b"".join(extent.to_bytes(4, "little") for extent in extents) + record[start + 12 :]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("is_null", [False, True])
def test_arrays_without_elements_keep_their_lists(fused: bool, is_null: bool) -> None:
    given = {
        (2, 0, 1): ([[], []], [[], []], [[], [], []]),
        (2, 0, 0): ([[], []], [[], []], [[], [], []]),
        (0, 1, 7): ([], [], [[7], [7], [7]]),
        (2, 1, 0): ([[[]], [[]]], [[""], [""]], [[7], [7], [7]]),
        (1, 0, 2**31 - 1): ([[]], [[]], [[], [], []]),
        (0, 0, 2**31 - 1): ([], [], [[], [], []]),
    }
    records = [cubes(*extents, is_null=is_null) for extents in given]
    decoded = decode_records(CUBES, records, fused=fused)
    assert not decoded.status.any()
    decoded.batch.validate(full=True)
    for record, row, (lists, texts, grid) in zip(records, decoded.batch.to_pylist(), given.values(), strict=True):
        assert (row["v"], row["s"], row["t"], row["w"]) == (lists, lists, texts, grid)
        values = decode(CUBES, record, text=None)
        assert same(row, record_to_row(CUBES, values, DEFAULT))
        if not is_null:
            assert values["v"] == lists
    assert [encode_rows(CUBES, decoded.batch.slice(i, 1), checked=True) for i in range(len(given))] == [
        [cubes(*extents, is_null=True)] for extents in given
    ]


@pytest.mark.parametrize("is_null", [False, True])
def test_lists_without_elements_are_bounded(is_null: bool) -> None:
    """They cost memory, although they take no byte of the record."""
    most = room_of(0) // VALUE_COST
    for extents in ((most + 1, 0, 1), (most // 2 + 1, 2, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 2**31 - 1, 0)):
        record = bytearray(cubes(0, 1, 1, is_null=is_null))
        start = CUBES.header_size
        record[start : start + 12] = b"".join(extent.to_bytes(4, "little") for extent in extents)
        with pytest.raises(PbioError, match="PBIO_RECORD_EXPANDS"):
            decode(CUBES, bytes(record))
        assert decode_records(CUBES, [bytes(record)], checked=True).status.all()
    many = [cubes(most // 4, 0, 0, is_null=is_null)] * 100
    with pytest.raises(OverflowError):
        decode_records(CUBES, many, checked=True)


def addresses(form: Format, records: list[bytes]) -> tuple[npt.NDArray[np.uint8], Int64s, Int64s]:
    """Memory that holds records one after the other, where each begins after its header, and where it ends."""
    memory = np.frombuffer(b"".join(records), np.uint8)
    lengths = np.array([len(record) for record in records], np.int64)
    ends = address_of(memory) + np.cumsum(lengths)
    return memory, ends - lengths + form.header_size, ends


NESTED = record_to_format(
    record_type(
        "nested",
        [
            Field("n", INT32),
            Field("v", Array(FLOAT64, ("n",))),
            Field("s", STRING),
            Field("a", Array(Ref("pair"), ("n",))),
            Field("p", Pointer(Ref("pair"))),
        ],
        [Struct("pair", (Field("k", INT32), Field("t", STRING)))],
    )
)
LONGER = st.lists(strategies.values(NESTED), min_size=1, max_size=3)


@given(LONGER, LONGER, st.integers(1, 2000))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_decoder_that_has_seen_few_elements_reads_many(few: list[Any], many: list[Any], times: int) -> None:
    """The room for elements is that of the batch before: what does not fit is decoded again."""
    decoder = Decoder(compile_plan(format_to_plan(NESTED, ColumnSpec(record_to_arrow(NESTED.record))), fused=False))
    for values, repeated in ((few, 1), (many, times), (few, times)):
        records = [encode(NESTED, value) for value in values]
        _memory, starts, ends = addresses(NESTED, records * repeated)
        decoded = decoder.decode(starts, ends)
        decoded.batch.validate(full=True)
        assert not decoded.status.any()
        rows = [record_to_row(NESTED, decode(NESTED, record, text=None), DEFAULT) for record in records]
        assert same(decoded.batch.to_pylist(), rows * repeated)


def test_what_is_decoded_again_is_not_counted_twice() -> None:
    """48 strings that share their bytes become 48 times these: allowed, but not twice that."""
    names = [f"s{i}" for i in range(48)]
    form = record_to_format(record_type("shared", [Field(name, STRING) for name in names]))

    def shared(text: str) -> bytes:
        made = bytearray(encode(form, {name: text if name == "s0" else None for name in names}))
        first = form.header_size
        made[first : first + 8 * len(names)] = made[first : first + 8] * len(names)
        return bytes(made)

    decoder = Decoder(compile_plan(format_to_plan(form, ColumnSpec(record_to_arrow(form.record))), fused=False))
    for text in ("short", "long" * 100_000):
        row = decode(form, shared(text))
        assert set(row.values()) == {text}
        _memory, starts, ends = addresses(form, [shared(text)])
        decoded = decoder.decode(starts, ends)
        assert not decoded.status.any()
        assert decoded.batch.to_pylist() == [row]
