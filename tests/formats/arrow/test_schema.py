"""The table of types, both ways, and its rules; Spark itself is the judge of what Spark expects."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    UINT64,
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
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_spark_json
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.schema import (
    TABLE,
    How,
    Presentation,
    SchemaColumn,
    TypeRow,
    record_to_arrow,
    record_to_columns,
)
from pbio_spark.formats.arrow.spark_json_to_arrow import spark_json_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.testing.strategies import Limits, record_types

P = Struct("p", (Field("x", FLOAT64), Field("s", STRING), Field("n", INT32, Notes(hidden=True))))
P_ARROW = pa.struct([pa.field("x", pa.float64()), pa.field("s", pa.string())])
U = Basic(Kind.UNSIGNED, 1)


def not_null(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", type_, nullable=False))


def column(type_: Type, presentation: Presentation = Presentation(), **notes: Any) -> SchemaColumn:  # noqa: B008
    made = record("r", [Field("n", INT32), Field("a", type_, Notes(**notes))], [P])
    found = record_to_columns(made, presentation)[-1]
    assert found.name == "a"
    assert found.nullable
    return found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.type} {row.logical or ''}")
def test_every_row_of_the_table(row: TypeRow) -> None:
    found = column(row.type, logical=row.logical)
    assert (found.arrow, found.how, found.children) == (row.arrow, row.how, ())
    if row.written:
        made = arrow_to_record(pa.schema([pa.field("a", row.arrow)]), "r")
        assert made == record("r", [Field("a", row.type, Notes(logical=row.logical))])


def test_the_table_has_every_basic_type_but_long_double_and_no_two_rows_write_one_type() -> None:
    assert len([row for row in TABLE if row.logical is None]) == 4 + 4 + 2 + 1 + 4 + 4 + 1
    written = [row.arrow for row in TABLE if row.written]
    assert len(set(written)) == len(written)


COMPOSITES: list[tuple[Type, str | None, pa.DataType, How]] = [
    (Array(INT32, (3,)), None, not_null(pa.int32()), How.LIST),
    (Array(INT32, ("n",)), None, not_null(pa.int32()), How.LIST),
    (Array(INT32, (2, "n")), None, not_null(not_null(pa.int32())), How.LIST),
    (Array(Array(INT32, (2,)), (3,)), None, not_null(not_null(pa.int32())), How.LIST),
    (Array(Array(INT32, ("n",)), (3,)), None, pa.list_(not_null(pa.int32())), How.LIST),
    (Array(Pointer(INT32), ("n",)), None, pa.list_(pa.int32()), How.LIST),
    (Array(Pointer(Array(INT32, (3,))), ("n",)), None, pa.list_(not_null(pa.int32())), How.LIST),
    (Array(STRING, ("n",)), None, pa.list_(pa.string()), How.LIST),
    (Array(UINT64, ("n",)), None, not_null(pa.decimal128(20, 0)), How.LIST),
    (Pointer(Pointer(INT32)), None, pa.int32(), How.NUMBER),
    (Pointer(Array(INT32, (3,))), None, not_null(pa.int32()), How.LIST),
    (Ref("p"), None, P_ARROW, How.STRUCT),
    (Pointer(Ref("p")), None, P_ARROW, How.STRUCT),
    (Array(Ref("p"), ("n",)), None, not_null(P_ARROW), How.LIST),
    (Array(Pointer(Ref("p")), ("n",)), None, pa.list_(P_ARROW), How.LIST),
    (Array(CHAR, (8,)), None, pa.string(), How.TEXT),
    (Array(CHAR, ("n",)), None, pa.string(), How.TEXT),
    (Array(CHAR, (3, 8)), None, pa.list_(pa.string()), How.LIST),
    (Array(CHAR, (2, 3, 8)), None, not_null(pa.list_(pa.string())), How.LIST),
    (Pointer(CHAR), None, pa.int16(), How.NUMBER),
    (Array(CHAR, ("n",)), "binary", pa.binary(), How.BYTES),
    (Array(CHAR, (16,)), "decimal(38,10)", pa.decimal128(38, 10), How.DECIMAL),
    (Array(CHAR, ("n", 16)), "decimal(20,0)", not_null(pa.decimal128(20, 0)), How.LIST),
    (INT64, "decimal(18,2)", pa.decimal128(18, 2), How.DECIMAL),
    (Array(INT64, ("n",)), "timestamp", not_null(pa.timestamp("us", "UTC")), How.LIST),
    (INT64, "a later invention", pa.int64(), How.NUMBER),
    (STRING, "a later invention", pa.string(), How.TEXT),
]


@pytest.mark.parametrize(("type_", "logical", "arrow", "how"), COMPOSITES)
def test_composites(type_: Type, logical: str | None, arrow: pa.DataType, how: How) -> None:
    found = column(type_, logical=logical)
    assert (found.arrow, found.how) == (arrow, how)


CHOICES: list[tuple[Type, dict[str, Any], pa.DataType, How]] = [
    (UINT64, {"unsigned_long_as": "long"}, pa.int64(), How.NUMBER),
    (UINT64, {"unsigned_long_as": "binary"}, pa.binary(), How.BYTES),
    (Array(UINT64, (2,)), {"unsigned_long_as": "binary"}, pa.list_(pa.binary()), How.LIST),
    (Array(CHAR, (8,)), {"char_arrays_as": "binary"}, pa.binary(), How.BYTES),
    (Array(CHAR, (8,)), {"char_arrays_as": "array"}, not_null(pa.int16()), How.LIST),
    (Array(CHAR, (3, 8)), {"char_arrays_as": "array"}, not_null(not_null(pa.int16())), How.LIST),
    (Array(CHAR, (8,)), {"encoding": "binary"}, pa.binary(), How.BYTES),
    (STRING, {"encoding": "binary"}, pa.binary(), How.TEXT),
    (STRING, {"encoding": "ISO-8859-1"}, pa.string(), How.TEXT),
    (CHAR, {"char_arrays_as": "array"}, pa.int16(), How.NUMBER),
]


@pytest.mark.parametrize(("type_", "choice", "arrow", "how"), CHOICES)
def test_choices(type_: Type, choice: dict[str, Any], arrow: pa.DataType, how: How) -> None:
    found = column(type_, Presentation(**choice))
    assert (found.arrow, found.how) == (arrow, how)


def test_enumerations_with_known_symbols_are_strings() -> None:
    found = column(ENUMERATION, symbols=(("red", 0),))
    assert (found.arrow, found.how, found.field.notes.symbols) == (pa.string(), How.SYMBOL, (("red", 0),))
    assert column(Array(ENUMERATION, (2,)), symbols=(("red", 0),)).arrow == pa.list_(pa.string())


def test_hidden_fields_are_dropped_and_odd_names_shown() -> None:
    type_ = record("r", [Field("n", INT32, Notes(hidden=True)), Field("a\udcff`.b", Array(INT32, ("n",)))])
    assert record_to_arrow(type_).names == ["a\\xff`.b"]
    assert [found.field for found in record_to_columns(type_)] == [type_.fields[1]]


# Recursion ----------------------------------------------------------------------------------------------------------

LIST = record("list", [Field("v", INT32), Field("next", Pointer(Ref("list")))])
INNERMOST = pa.struct([pa.field("v", pa.int32())])


def test_recursion_is_an_error_that_names_the_option() -> None:
    with pytest.raises(PbioError, match="recursiveFieldMaxDepth") as caught:
        record_to_arrow(LIST)
    assert (caught.value.code, caught.value.field) == ("PBIO_RECURSIVE_FORMAT", "$.next")


def test_recursion_goes_as_deep_as_spark_avros() -> None:
    assert record_to_arrow(LIST, Presentation(recursive_depth=1)).names == ["v"]
    two = record_to_arrow(LIST, Presentation(recursive_depth=2))
    assert two == pa.schema([pa.field("v", pa.int32()), pa.field("next", INNERMOST)])
    three = record_to_arrow(LIST, Presentation(recursive_depth=3))
    assert three.field("next").type.field("next").type == INNERMOST


def test_recursion_through_others_and_in_arrays() -> None:
    tree = record(
        "tree",
        [Field("n", INT32), Field("kids", Array(Pointer(Ref("kid")), ("n",)))],
        [Struct("kid", (Field("tree", Pointer(Ref("tree"))), Field("w", INT32)))],
    )
    kids = record_to_arrow(tree, Presentation(recursive_depth=1)).field("kids").type
    assert kids == pa.list_(pa.struct([pa.field("w", pa.int32())]))


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "logical", "code"),
    [
        (INT32, "timestamp", "BAD_OPT_INFO"),
        (INT64, "date", "BAD_OPT_INFO"),
        (INT64, "decimal(20,0)", "BAD_OPT_INFO"),
        (Array(CHAR, (15,)), "decimal(20,0)", "BAD_OPT_INFO"),
        (Array(CHAR, (8,)), "timestamp", "BAD_OPT_INFO"),
        (Array(INT32, ("n",)), "map", "BAD_OPT_INFO"),
        (Array(Ref("p"), ("n", 2)), "map", "BAD_OPT_INFO"),
        (INT32, "binary", "BAD_OPT_INFO"),
        (Array(Ref("p"), ("n",)), "item", "BAD_OPT_INFO"),
        (Ref("p"), "date", "BAD_OPT_INFO"),
        (Basic(Kind.FLOAT, 16), None, "UNSUPPORTED_TYPE"),
    ],
)
def test_what_has_no_column_is_refused_with_its_path(type_: Type, logical: str | None, code: str) -> None:
    with pytest.raises(PbioError, match=f"PBIO_{code}") as caught:
        column(type_, logical=logical)
    assert (caught.value.field or "").startswith("$.a")


def test_small_formats_cannot_become_endless_tables() -> None:
    doubling = [
        Struct(f"s{i}", (Field("l", Pointer(Ref(f"s{i + 1}"))), Field("r", Ref(f"s{i + 1}")))) for i in range(50)
    ]
    with pytest.raises(PbioError, match="PBIO_SCHEMA_TOO_LARGE"):
        record_to_arrow(Record((*doubling, Struct("s50", (Field("x", INT32),)))))
    nested = [Struct(f"s{i}", (Field("x", Ref(f"s{i + 1}")),)) for i in range(90)]
    with pytest.raises(PbioError, match="PBIO_SCHEMA_TOO_LARGE"):
        record_to_arrow(Record((*nested, Struct("s90", (Field("x", INT32),)))))
    with pytest.raises(PbioError, match="PBIO_SCHEMA_TOO_LARGE"):
        column(Array(INT32, (1,) * 64))


@pytest.mark.parametrize(
    "arrow",
    [
        *(pa.null(), pa.duration("us"), pa.time64("ns"), pa.month_day_nano_interval(), pa.float16()),
        *(pa.timestamp("ns"), pa.date64(), pa.decimal256(50, 2), pa.decimal128(5, -2), pa.decimal128(5, 7)),
        *(pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.struct([]), pa.binary(4)),
        pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})]),
    ],
    ids=str,
)
@pytest.mark.parametrize("inside", [False, True])
def test_arrow_types_that_cannot_be_written_are_refused_by_name(arrow: pa.DataType, inside: bool) -> None:
    wrapped = pa.list_(pa.struct([pa.field("b", pa.map_(pa.string(), arrow))])) if inside else arrow
    with pytest.raises(PbioError, match="PBIO_UNSUPPORTED_TYPE") as caught:
        arrow_to_record(pa.schema([pa.field("a", wrapped)]), "r")
    assert caught.value.field == ("$.a[].b[].value" if inside else "$.a")


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_LAYOUT") as caught:
        arrow_to_record(pa.schema([pa.field("a", pa.int32()), pa.field("a", pa.int64())]), "r")
    assert caught.value.field == "$.a"


# Both ways ----------------------------------------------------------------------------------------------------------


def test_what_the_writer_makes_of_arrays() -> None:
    schema = pa.schema(
        [
            pa.field("v", pa.list_(pa.float64())),
            pa.field("v_count", pa.int64()),
            pa.field("ragged", pa.list_(pa.list_(pa.int32()))),
            pa.field("raw", pa.binary()),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.string()))),
            pa.field("s", P_ARROW),
            pa.field("in place", P_ARROW, nullable=False),
            pa.field("d", pa.list_(pa.decimal128(20, 2))),
        ]
    )
    assert str(arrow_to_record(schema, "r")) == (
        "r {\n"
        "  v_count_2: int32\n  v: float64[v_count_2]\n  v_count: int64\n"
        "  ragged_count: int32\n  ragged: r_ragged[ragged_count]\n"
        "  raw_count: int32\n  raw: char[raw_count]\n"
        "  m_count: int32\n  m: r_m[m_count]\n"
        "  s: *r_s\n  in place: r_in_place\n"
        "  d_count: int32\n  d: char[d_count][16]\n}\n"
        "r_ragged {\n  item_count: int32\n  item: int32[item_count]\n}\n"
        "r_m {\n  key: string\n  value_count: int32\n  value: string[value_count]\n}\n"
        "r_s {\n  x: float64\n  s: string\n}\n"
        "r_in_place {\n  x: float64\n  s: string\n}"
    )


NAMES = st.text(st.sampled_from('abAB [](){}*.`"1é_\u4e2d'), min_size=1, max_size=5)
LEAVES = st.sampled_from([row.arrow for row in TABLE if row.written] + [pa.binary()]) | st.builds(
    pa.decimal128, st.integers(5, 38), st.integers(0, 5)
)


def arrow_fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    return st.lists(
        st.builds(pa.field, NAMES, types, st.booleans()), min_size=1, max_size=4, unique_by=lambda f: f.name
    )


ARROW_TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda t, n: pa.list_(pa.field("element", t, n)), inner, st.booleans())
        | st.builds(
            lambda k, v, n: pa.map_(pa.field("key", k, nullable=False), pa.field("value", v, n)),
            *(inner, inner, st.booleans()),
        )
        | arrow_fields(inner).map(pa.struct)
    ),
    max_leaves=8,
)


def as_read(arrow: pa.DataType) -> pa.DataType:
    """The type with the nullability of decision 11: columns may be null, elements where the bytes can say so."""
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, as_read(f.type)) for f in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(element_as_read("element", arrow.value_field))
    if pa.types.is_map(arrow):
        key = pa.field("key", as_read(arrow.key_type), nullable=False)
        return pa.map_(key, element_as_read("value", arrow.item_field))
    return arrow


def element_as_read(name: str, field: pa.Field) -> pa.Field:
    number = not (pa.types.is_string(field.type) or pa.types.is_binary(field.type) or pa.types.is_nested(field.type))
    nullable = field.nullable if pa.types.is_struct(field.type) else not number
    return pa.field(name, as_read(field.type), nullable)


@given(arrow_fields(ARROW_TYPES), st.sampled_from(["le64", "be32"]))
def test_what_the_writer_makes_of_a_schema_reads_back_as_that_schema(fields: list[pa.Field], machine: str) -> None:
    schema = pa.schema(fields)
    form = record_to_format(arrow_to_record(schema, "r"), machine)
    assert record_to_arrow(form.record) == pa.schema([pa.field(f.name, as_read(f.type)) for f in schema])


def spark_arrow(schema: pa.Schema) -> pa.Schema:
    return to_arrow_schema(StructType.fromJson(json.loads(arrow_to_spark_json(schema))), timezone="UTC")


@given(record_types(Limits(recursive=False, long_double=False)), st.sampled_from(["string", "binary", "array"]))
def test_schemas_are_exactly_those_of_spark(type_: Record, chars: Any) -> None:
    schema = record_to_arrow(type_, Presentation(char_arrays_as=chars))
    assert spark_arrow(schema).equals(schema)


@given(arrow_fields(ARROW_TYPES))
def test_schemas_of_written_records_are_exactly_those_of_spark(fields: list[pa.Field]) -> None:
    schema = record_to_arrow(arrow_to_record(pa.schema(fields), "r"))
    assert spark_arrow(schema).equals(schema)
    assert spark_json_to_arrow(json.loads(arrow_to_spark_json(schema))).equals(schema)


@pytest.mark.parametrize("type_", ["interval day to second", {"type": "udt"}])
def test_types_of_spark_that_no_field_can_have_are_refused_by_name(type_: Any) -> None:
    said = {
        "fields": [
            {"name": "a", "type": {"type": "array", "elementType": type_, "containsNull": True}, "nullable": True}
        ]
    }
    with pytest.raises(PbioError, match=r"PBIO_UNSUPPORTED_TYPE(.|\n)*\$\.a"):
        spark_json_to_arrow(said)


@given(record_types(Limits(long_double=False)), st.integers(1, 4))
def test_columns_hold_together(type_: Record, depth: int) -> None:
    """Children are what the Arrow types of their parents say, so a planner may follow either."""
    waiting = list(record_to_columns(type_, Presentation(recursive_depth=depth)))
    while waiting:
        found = waiting.pop()
        waiting += found.children
        parts = [child.to_arrow() for child in found.children]
        match found.how:
            case How.STRUCT:
                assert list(found.arrow) == parts
            case How.LIST:
                target = found.type
                while isinstance(target, Pointer):
                    target = target.target
                assert isinstance(target, Array)
                inner = found.arrow
                for _ in (
                    target.dims[:-1] if found.children[0].how is How.TEXT and target.element == CHAR else target.dims
                ):
                    field, inner = inner.value_field, inner.value_type
                assert [field] == parts
            case _:
                assert not parts
