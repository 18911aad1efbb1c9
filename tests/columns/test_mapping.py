"""Every rule of the mapping, through every direction: decoding both ways, encoding, program outputs, filters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecode
from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT64,
    INT16,
    INT32,
    STRING,
    UINT8,
    Array,
    Field,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    record,
)
from pbio_spark.columns.programs.output import ProgramOutput
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.mapping import ColumnSpec, FieldRule, Mapped, map_columns, map_written
from pbio_spark.formats.arrow.names import Names, record_to_counts
from pbio_spark.formats.arrow.schema import (
    ITEM,
    MAP,
    How,
    Presentation,
    SchemaColumn,
    record_to_arrow,
    record_to_columns,
)
from pbio_spark.formats.layout import record_to_format
from pbio_spark.testing import strategies
from pbio_spark.wire import decode, encode
from tests.columns.encode.test_generate import encode_rows
from tests.columns.programs.test_binding import run
from tests.columns.records import decode_records

MACHINES = ("x86-64", "sparc")
PAIR = Struct("pair", (Field("k", INT32), Field("v", FLOAT64)))
RAGGED = Struct("ragged", (Field("m", INT32, Notes(hidden=True)), Field("item", Array(INT32, ("m",)))))
SYMBOLS = (("RED", 0), ("GREEN", 1))
COUNTED = record("r", [Field("n", INT32), Field("v", Array(INT16, ("n",)))])


def one(type_: Any, structs: Iterable[Struct] = (), *, count: bool = False, **notes: Any) -> Record:
    counts = [Field("n", INT32, Notes(hidden=True))] if count else []
    return record("r", [*counts, Field("a", type_, Notes(**notes))], list(structs))


@dataclass(frozen=True)
class Case:
    """A record type, a value as the codec has it, and the value of the column `column`.

    `test` is E-code that holds for the record, of the type `seen`. `written` is the error where the column has no field
    to be written to.
    """

    record: Record
    value: dict[str, Any]
    row: Any
    test: str
    column: str = "a"
    arrow: pa.DataType | None = None
    seen: Record | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    written: str = ""

    @property
    def schema(self) -> pa.Schema:
        if self.arrow is not None:
            return pa.schema([(self.column, self.arrow)])
        return record_to_arrow(self.record)


BYTES16 = list((12345).to_bytes(16, "little"))
CASES: dict[FieldRule, Case] = {
    FieldRule.ABSENT: Case(
        one(INT32),
        {"a": 1},
        7,
        "input.b == 7",
        column="b",
        arrow=pa.int32(),
        seen=record("r", [Field("b", INT32, Notes(default=7))]),
        spec={"defaults": {"b": 7}},
        written="PBIO_UNKNOWN_COLUMN",
    ),
    FieldRule.COUNT: Case(
        record("r", [Field("m", INT32), Field("v", Array(INT16, ("m",)))]),
        {"m": 2, "v": [5, 6]},
        2,
        "input.n == 2 && input.v[1] == 6",
        column="n",
        arrow=pa.int32(),
        seen=COUNTED,
        spec={"counts": record_to_counts(COUNTED)},
        written="PBIO_UNKNOWN_COLUMN",
    ),
    FieldRule.NUMBER: Case(one(INT32), {"a": -3}, -3, "input.a == -3"),
    FieldRule.SYMBOL: Case(one(ENUMERATION, symbols=SYMBOLS), {"a": 1}, "GREEN", "input.a == 1"),
    FieldRule.STRING: Case(one(STRING), {"a": "hü"}, "hü", "input.a[0] == 'h'"),
    FieldRule.CHARS: Case(one(Array(CHAR, (4,))), {"a": list(b"ab\0\0")}, "ab", "input.a[1] == 'b'"),
    FieldRule.DECIMAL: Case(
        one(Array(CHAR, (16,)), logical="decimal(20,2)"), {"a": BYTES16}, Decimal("123.45"), "input.a[0] == 57"
    ),
    FieldRule.POINTER: Case(one(Pointer(INT32)), {"a": 9}, 9, "*input.a == 9"),
    FieldRule.STRUCT: Case(one(Ref("pair"), [PAIR]), {"a": {"k": 1, "v": 2.5}}, {"k": 1, "v": 2.5}, "input.a.v == 2.5"),
    FieldRule.ITEM: Case(
        one(Array(Ref("ragged"), (2,)), [RAGGED], logical=ITEM),
        {"a": [{"m": 1, "item": [4]}, {"m": 2, "item": [5, 6]}]},
        [[4], [5, 6]],
        "input.a[1].item[1] == 6",
    ),
    FieldRule.LIST: Case(one(Array(INT32, ("n",)), count=True), {"n": 2, "a": [7, 8]}, [7, 8], "input.a[1] == 8"),
    FieldRule.ROWS: Case(
        one(Array(CHAR, (2, 3))), {"a": [list(b"ab\0"), list(b"c\0\0")]}, ["ab", "c"], "input.a[1][0] == 'c'"
    ),
    FieldRule.MAP: Case(
        one(Array(Ref("pair"), ("n",)), [PAIR], count=True, logical=MAP),
        {"n": 1, "a": [{"k": 3, "v": 0.5}]},
        [(3, 0.5)],
        "input.a[0].k == 3",
    ),
}


def decoded(form: Format, case: Case, *, fused: bool) -> Any:
    spec = ColumnSpec(case.schema, **case.spec)
    found = decode_records(form, [encode(form, case.value)], spec=spec, fused=fused, checked=True)
    assert not found.status.any()
    return found.batch.to_pylist()[0][case.column]


def written(form: Format, case: Case) -> Any:
    """What decoding gives of the record that encoding made of the row; the codec reads it as the value."""
    if case.written:
        with pytest.raises(PbioError) as caught:
            map_written(form.record, case.schema)
        assert caught.value.code == case.written
        return case.row
    (made,) = encode_rows(form, pa.RecordBatch.from_pylist([{case.column: case.row}], case.schema), checked=True)
    assert decode(form, made) == decode(form, encode(form, case.value))
    return case.row


def passed_on(form: Format, case: Case) -> Any:
    """The column of what a program passes on unchanged."""
    program = ecode.compile("{ return 1; }", [ecode.Param("input", form.record)])
    with pytest.MonkeyPatch.context() as patch:
        result = run(patch, form, form.record, [encode(form, case.value)], program)
    output = ProgramOutput(form.record, ColumnSpec(case.schema, **case.spec))
    batch, bad = output.to_batch(result.outputs["input"])
    assert not len(bad)
    batch.validate(full=True)
    return batch.to_pylist()[0][case.column]


def filtered(form: Format, case: Case) -> Any:
    """The row, if a filter sees the value in the record."""
    seen = case.seen or case.record
    for source, is_kept in ((case.test, True), (f"!({case.test})", False)):
        program = ecode.compile(f"{{ return {source}; }}", [ecode.Param("input", seen)])
        with pytest.MonkeyPatch.context() as patch:
            result = run(patch, form, seen, [encode(form, case.value)], program)
        assert result.passed.astype(bool).tolist() == [is_kept]
    return case.row


DIRECTIONS: dict[str, Callable[[Format, Case], Any]] = {
    "decode, fused": lambda form, case: decoded(form, case, fused=True),
    "decode, ready-made": lambda form, case: decoded(form, case, fused=False),
    "encode": written,
    "program output": passed_on,
    "filter": filtered,
}


def rules(tree: Iterable[Mapped]) -> Iterator[FieldRule]:
    for node in tree:
        yield node.rule
        yield from rules(node.parts)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rule", FieldRule)
def test_every_rule_holds_in_every_direction(rule: FieldRule, direction: str, machine: str) -> None:
    case = CASES[rule]
    form = record_to_format(case.record, machine)
    assert rule in rules(map_columns(form.record, ColumnSpec(case.schema, **case.spec)))
    assert DIRECTIONS[direction](form, case) == case.row


NAMES = record("r", [Field("Temp", INT32), Field("TEMP", INT32), Field("Other", INT32)])
VALUES = {"Temp": 1, "TEMP": 2, "Other": 3}


@pytest.mark.parametrize("direction", [name for name in DIRECTIONS if name != "encode"])
@pytest.mark.parametrize(("name", "value"), [("Temp", 1), ("TEMP", 2), ("other", 3), ("temp", None)])
def test_a_name_means_the_same_field_in_every_direction(direction: str, name: str, value: int | None) -> None:
    form = record_to_format(NAMES, "x86-64")
    case = Case(
        NAMES, VALUES, value, f"input.{name} == {value or 0}", name, pa.int32(), record("r", [Field(name, INT32)])
    )
    if value is not None:
        assert DIRECTIONS[direction](form, case) == value
        return
    with pytest.raises(PbioError) as caught:
        DIRECTIONS[direction](form, case)
    assert (caught.value.code, caught.value.field) == ("PBIO_AMBIGUOUS_NAME", "$.temp")


def test_columns_to_be_written_have_exactly_the_name_of_their_field() -> None:
    for name, code in (("other", "PBIO_UNKNOWN_COLUMN"), ("temp", "PBIO_UNKNOWN_COLUMN")):
        with pytest.raises(PbioError) as caught:
            map_written(NAMES, pa.schema([(name, pa.int32())]))
        assert caught.value.code == code
    alike = record("r", [Field("caf\udce9", INT32), Field("caf\\xe9", INT32)])
    with pytest.raises(PbioError, match="shown alike") as caught:
        map_written(alike, pa.schema([("caf\\xe9", pa.int32())]))
    assert caught.value.code == "PBIO_AMBIGUOUS_NAME"


def test_a_count_is_that_of_the_first_array_that_is_there() -> None:
    wanted = record(
        "r", [Field("n", INT32), Field("gone", Array(INT16, ("n",))), Field("v", Array(Pointer(UINT8), ("n",)))]
    )
    has = record("r", [Field("m", INT32), Field("V", Array(Pointer(UINT8), ("m",)))])
    case = Case(
        has,
        {"m": 2, "V": [1, 2]},
        2,
        "input.n == 2",
        "n",
        pa.int64(),
        wanted,
        {"counts": record_to_counts(wanted)},
        "PBIO_UNKNOWN_COLUMN",
    )
    for direction in DIRECTIONS.values():
        assert direction(record_to_format(has, "x86-64"), case) == 2


def test_program_outputs_have_the_nulls_that_bits_and_marks_say() -> None:
    schema = pa.schema(
        [
            ("i", pa.int32()),
            ("s", pa.struct([("x", pa.int32()), ("t", pa.string())])),
            ("v", pa.list_(pa.field("element", pa.int16(), nullable=True))),
        ]
    )
    rows = [
        {"i": None, "s": {"x": 1, "t": "a"}, "v": [1, None]},
        {"i": 2, "s": {"x": None, "t": None}, "v": None},
        {"i": 3, "s": None, "v": []},
    ]
    form = record_to_format(arrow_to_record(schema, "r", "mask"), "x86-64")
    records = encode_rows(form, pa.RecordBatch.from_pylist(rows, schema), checked=True)
    assert decode_records(form, records, schema=schema, checked=True).batch.to_pylist() == rows
    program = ecode.compile("{ return 1; }", [ecode.Param("input", form.record)])
    with pytest.MonkeyPatch.context() as patch:
        result = run(patch, form, form.record, records, program)
    batch, bad = ProgramOutput(form.record, ColumnSpec(schema)).to_batch(result.outputs["input"])
    assert (batch.to_pylist(), bad.tolist()) == (rows, [])


def test_aliases_count_where_the_own_name_finds_nothing_or_too_much() -> None:
    struct = NAMES.structs[0]
    names = Names({"temp": "TEMP", "Temp": "Other", "x": "other", "y": "gone"})
    found = {name: names.find(struct, name, (name,)) for name in ("temp", "Temp", "x", "y")}
    assert {name: one and one.name for name, one in found.items()} == {
        "temp": "TEMP",
        "Temp": "Temp",
        "x": "Other",
        "y": None,
    }


def test_paths_say_where_names_need_quotes_and_where_elements_are() -> None:
    inner = Struct("p", (Field("unit price", INT32),))
    made = record("r", [Field("a", Array(Ref("p"), (2,)))], [inner])
    ((column,), (element,)) = (tree := map_columns(made, ColumnSpec(record_to_arrow(made)))), tree[0].parts
    (price,) = element.parts
    assert (column.where, element.where, price.where) == ("$.a", "$.a[]", '$.a[]["unit price"]')
    assert price.path == ("a", "unit price")
    wrong = pa.schema([("a", pa.list_(pa.struct([("unit price", pa.string())])))])
    with pytest.raises(PbioError) as caught:
        decode_records(record_to_format(made, "x86-64"), [], schema=wrong)
    assert caught.value.field == '$.a[]["unit price"]'


LOOKS = st.builds(
    Presentation,
    st.sampled_from(("string", "binary", "array")),
    st.sampled_from(("decimal", "long", "binary")),
    st.sampled_from(("UTF-8", "binary")),
    st.integers(1, 3),
)
INFERRED = {
    How.NUMBER: {FieldRule.NUMBER},
    How.BOOLEAN: {FieldRule.NUMBER},
    How.DECIMAL: {FieldRule.NUMBER, FieldRule.DECIMAL},
    How.SYMBOL: {FieldRule.SYMBOL},
    How.TEXT: {FieldRule.STRING, FieldRule.CHARS},
    How.BYTES: {FieldRule.NUMBER, FieldRule.CHARS},
    How.LIST: {FieldRule.LIST, FieldRule.ROWS},
    How.MAP: {FieldRule.MAP},
    How.ITEM: {FieldRule.ITEM},
    How.STRUCT: {FieldRule.STRUCT},
}


def assert_alike(columns: Iterable[SchemaColumn], tree: Iterable[Mapped]) -> None:
    for column, one in zip(columns, tree, strict=True):
        node = one
        while node.rule is FieldRule.POINTER:
            (node,) = node.parts
        assert node.rule in INFERRED[column.how]
        assert node.arrow == column.arrow
        assert one.field is None or one.field == column.field
        assert_alike(column.children, node.parts)


@given(strategies.record_types(strategies.Limits(long_double=False)), LOOKS)
@settings(max_examples=2000 if os.environ.get("PBIO_LONG") else 100, suppress_health_check=list(HealthCheck))
def test_an_inferred_schema_maps_onto_its_record_type_by_the_same_rules(made: Record, look: Presentation) -> None:
    assert_alike(record_to_columns(made, look), map_columns(made, ColumnSpec(record_to_arrow(made, look), look)))


@pytest.mark.parametrize("rule", [rule for rule, case in CASES.items() if case.arrow is None])
def test_every_rule_is_that_of_an_inferred_schema(rule: FieldRule) -> None:
    made = CASES[rule].record
    assert_alike(record_to_columns(made), map_columns(made, ColumnSpec(record_to_arrow(made))))


def test_every_way_to_present_a_field_has_a_rule() -> None:
    assert set(INFERRED) == set(How)
    assert set().union(*INFERRED.values()) | {FieldRule.ABSENT, FieldRule.COUNT, FieldRule.POINTER} == set(FieldRule)
