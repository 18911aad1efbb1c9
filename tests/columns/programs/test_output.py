"""Values that a program passes on unchanged become the batch that the plain decoder makes of the records."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecode
from ecode.columns import Column
from ecode.columns.column import ITEMS
from ecode.columns.layout import FilledBuffers
from ecode.types import (
    CHAR,
    FLOAT64,
    INT64,
    STRING,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
    flat,
    record,
)
from pbio_spark.columns.programs.output import ProgramOutput
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import DEFAULT, Presentation, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.testing import strategies
from pbio_spark.wire import decode, encode
from tests.columns import arrow_rows
from tests.columns.encode.test_generate import encode_rows
from tests.columns.programs.test_binding import run
from tests.columns.records import decode_records, same

PRESENTATIONS = st.builds(
    Presentation,
    st.sampled_from(("string", "binary", "array")),
    st.sampled_from(("decimal", "long", "binary")),
    st.sampled_from(("ISO-8859-1", "binary", "UTF-8")),
)
LIMITS = strategies.Limits(long_double=False, recursive=False, depth=2)
MANY = settings(max_examples=5_000 if os.environ.get("PBIO_LONG") else 150, suppress_health_check=list(HealthCheck))


def noted_formats() -> st.SearchStrategy[Format]:
    """Formats whose enumerations have names for some of their values."""
    return st.builds(
        lambda record, machine: record_to_format(with_symbols(record), machine),
        strategies.record_types(LIMITS),
        strategies.MACHINE_NAMES,
    )


def with_symbols(record: Record) -> Record:
    notes = Notes(symbols=(("zero", 0), ("one", 1), ("many", 200)))
    return Record(
        tuple(
            Struct(
                struct.name,
                tuple(
                    replace(f, notes=notes) if isinstance(f.type, Basic) and f.type.kind is Kind.ENUMERATION else f
                    for f in struct.fields
                ),
            )
            for struct in record.structs
        )
    )


def is_whole(value: Any, type_: Type, owner: dict[str, Any], structs: dict[str, Struct]) -> bool:
    """Whether no array is null although its count is not 0: what a program passes on are zeros then."""
    match type_:
        case Ref(name):
            return all(is_whole(value[f.name], f.type, value, structs) for f in structs[name].fields)
        case Pointer(target):
            return not isinstance(flat(type_), Array) if value is None else is_whole(value, target, owner, structs)
        case Array(element, dims):
            if value is None:
                return 0 in [owner[dim] if isinstance(dim, str) else dim for dim in dims]
            items = value
            for _ in dims[1:]:
                items = [item for part in items for item in part]
            return all(is_whole(item, element, owner, structs) for item in items)
    return True


def made_of(
    form: Format, records: list[bytes], presentation: Presentation, schema: pa.Schema
) -> tuple[pa.RecordBatch, Any, Any] | None:
    """The batch of a program that passes records on, which of them it passed, and which rows are bad."""
    try:
        program = ecode.compile("{ return 1; }", [ecode.Param("input", form.record)])
        with pytest.MonkeyPatch.context() as patch:
            result = run(patch, form, form.record, records, program)
    except (ecode.NotCompilable, ecode.ParameterError):
        return None
    output = ProgramOutput(form.record, ColumnSpec(schema, presentation))
    batch, bad = output.filled_to_batch(result.filled["input"])
    # Columns that are cut from the program's buffers are those that would be made value by value.
    made, bad_as_made = output.to_batch(result.outputs["input"])
    assert bad.tolist() == bad_as_made.tolist()
    assert batch.schema == made.schema
    assert same(batch.to_pylist(), made.to_pylist())
    return batch, result.passed.astype(bool), bad


@given(st.data(), st.booleans())
@MANY
def test_what_is_passed_on_is_what_the_decoder_gives(data: st.DataObject, noted: bool) -> None:
    form = data.draw(noted_formats() if noted else strategies.formats(LIMITS))
    presentation = data.draw(PRESENTATIONS)
    values = data.draw(st.lists(strategies.values(form), min_size=1, max_size=3))
    records = [encode(form, value) for value in values]
    structs = {s.name: s for s in form.record.structs}
    records = [r for r in records if is_whole(decode(form, r, text=None), Ref(form.name), {}, structs)]
    schema = record_to_arrow(form.record, presentation)
    made = made_of(form, records, presentation, schema)
    if made is None or not records:
        return
    batch, passed, bad = made
    assert passed.all()
    expected = decode_records(form, records, presentation, schema, checked=True)
    assert batch.schema == expected.batch.schema
    batch.validate(full=not len(bad))
    assert [i in bad for i in range(len(records))] == [bool(s) for s in expected.status]
    for i in {*range(len(records))}.difference(bad.tolist()):
        found, wanted = (whole.slice(i, 1).to_pylist() for whole in (batch, expected.batch))
        assert same(found, wanted), (found, wanted)


@given(st.data())
@MANY
def test_sparks_types_pass_through_programs(data: st.DataObject) -> None:
    schema, rows = data.draw(arrow_rows.rows())
    form = record_to_format(arrow_to_record(schema, "row"), data.draw(strategies.MACHINE_NAMES))
    batch = pa.RecordBatch.from_pylist(rows, schema)
    records = encode_rows(form, batch, checked=True)
    made = made_of(form, records, Presentation(), schema)
    assert made is not None
    found, passed, bad = made
    assert passed.all()
    assert not len(bad)
    found.validate(full=True)
    assert same(found.to_pylist(), batch.to_pylist())


@pytest.mark.parametrize(("type_", "most"), [(pa.decimal128(9, 2), 10**9), (pa.decimal128(18, 0), 10**18)])
def test_decimals_of_too_many_digits_make_bad_rows(type_: pa.DataType, most: int) -> None:
    schema = pa.schema([("d", type_)])
    record = arrow_to_record(schema, "row")
    output = Column(5, children={"d": Column(5, np.array([most - 1, most, 1 - most, -most, -(2**63)], np.int64))})
    batch, bad = ProgramOutput(record, ColumnSpec(schema)).to_batch(output)
    assert bad.tolist() == [1, 3, 4]
    assert [int(batch["d"][i].as_py().scaleb(type_.scale)) for i in (0, 2)] == [most - 1, 1 - most]


def test_long_decimals_become_numbers_that_have_their_digits() -> None:
    record = arrow_to_record(pa.schema([("d", pa.decimal128(28, 3))]), "row")
    value = (-1234567).to_bytes(16, "little", signed=True) + (10**28).to_bytes(16, "little")
    output = Column(2, children={"d": Column(2, children={ITEMS: Column(32, np.frombuffer(value, np.int8))})})
    batch, bad = ProgramOutput(record, ColumnSpec(pa.schema([("d", pa.decimal128(38, 3))]))).to_batch(output)
    assert [str(v) for v in batch["d"].to_pylist()] == ["-1234.567", str(10**25) + ".000"]
    assert not len(bad)
    digits = ProgramOutput(record, ColumnSpec(pa.schema([("d", pa.decimal128(28, 3))])))
    assert digits.to_batch(output)[1].tolist() == [1]
    for narrow, beyond in ((pa.decimal128(38, 2), [0]), (pa.decimal128(20, 3), [1]), (pa.int64(), [0, 1])):
        assert ProgramOutput(record, ColumnSpec(pa.schema([("d", narrow)]))).to_batch(output)[1].tolist() == beyond
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE"):
        ProgramOutput(record, ColumnSpec(pa.schema([("d", pa.string())]))).to_batch(output)


def test_arrays_without_elements_keep_their_lists_and_are_bounded() -> None:
    fields = (
        Field("c", INT64),
        Field("m", INT64),
        Field("w", Array(FLOAT64, ("c", "m"))),
        Field("t", Array(CHAR, ("c", "m"))),
    )
    form = record_to_format(record("r", fields))
    schema = record_to_arrow(form.record, DEFAULT)

    def made(*sizes: tuple[int, int]) -> list[Any]:
        records = [encode(form, {"c": c, "m": m, "w": None, "t": None}) for c, m in sizes]
        found = made_of(form, records, DEFAULT, schema)
        assert found is not None
        return [(row["w"], row["t"]) for row in found[0].to_pylist()]

    assert made((2, 0), (0, 2), (0, 0)) == [([[], []], ["", ""]), ([], []), ([], [])]
    for sizes in (((2**23, 0),), ((2**20, 0),) * 5):
        with pytest.raises(OverflowError):
            made(*sizes)


@pytest.mark.parametrize("host", [b"ada", "adé".encode(), b"ad\xe9"])
def test_columns_that_a_program_wrote_as_they_are_share_its_memory(host: bytes) -> None:
    inner = Struct("inner", (Field("host", STRING), Field("k", Basic(Kind.INTEGER, 4))))
    fields = (Field("n", INT64), Field("v", Array(FLOAT64, ("n",))), Field("in", Ref("inner")), Field("f", FLOAT64))
    form = record_to_format(record("r", fields, [inner]))
    rows: list[dict[str, Any]] = [
        {"n": 2, "v": [0.5, 1.5], "in": {"host": host, "k": -255}, "f": 2.5},
        {"n": 0, "v": [], "in": {"host": None, "k": 7}, "f": 0.0},
    ]
    with pytest.MonkeyPatch.context() as patch:
        program = ecode.compile("{ return 1; }", [ecode.Param("input", form.record)])
        filled = run(patch, form, form.record, [encode(form, one) for one in rows], program).filled["input"]
    own = record_to_arrow(form.record)
    names = own.names if host.isascii() else ["n", "v", "f"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FilledBuffers, "column", None)
        batch, _ = ProgramOutput(form.record, ColumnSpec(pa.schema([own.field(n) for n in names]))).filled_to_batch(
            filled
        )
    memory = {one.address for one in filled.memory.values() if isinstance(one, pa.Buffer)}
    assert {one.buffers()[1].address for one in (batch["n"], batch["v"], batch["v"].values, batch["f"])} <= memory
    if host.isascii():
        assert {one.address for one in batch["in"].field("host").buffers()[1:]} <= memory
    schema = pa.schema([*own, pa.field("none", pa.int8())])
    output = ProgramOutput(form.record, ColumnSpec(schema))
    batch, bad = output.filled_to_batch(filled)
    assert bad.tolist() == ([0] if host == b"ad\xe9" else [])
    text = host.decode() if not len(bad) else None
    assert batch.to_pylist() == [
        {"n": 2, "v": [0.5, 1.5], "in": {"host": text, "k": -255}, "f": 2.5, "none": None},
        {"n": 0, "v": [], "in": {"host": None, "k": 7}, "f": 0.0, "none": None},
    ]
    assert pickle.loads(pickle.dumps(output)).filled_to_batch(filled)[0].equals(batch)
