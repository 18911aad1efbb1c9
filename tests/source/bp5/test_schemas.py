"""Types in `.schema(...)` that a column can never have are errors when the read is planned."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.options import parse_bp5_options
from pbio_spark.source.bp5.plan import scan_to_wanted
from pbio_spark.source.bp5.scan import scan_datasets
from pbio_spark.source.options.scopes import Scope
from tests.bp5.test_golden import GOLDEN
from tests.bp5.values import read

TEXT, REAL, WHOLE, LIST = pa.string(), pa.float64(), pa.int64(), pa.list_
COMPLEX = pa.struct([("re", REAL), ("im", REAL)])


def planned(name: str, column: str, type_: pa.DataType, options: dict[str, str]) -> None:
    """Plan a read, and read nothing."""
    parsed = parse_bp5_options(options, Scope.READ)
    scan_to_wanted(scan_datasets([str(GOLDEN / f"{name}.bp")], parsed), pa.schema([(column, type_)]))


X, BLOCKS, TABLE = (
    {"rows": "elements", "variables": "cube"},
    {"rows": "blocks", "variables": "cube"},
    {"rows": "elements", "variables": "i2_2", "columns": "a,b"},
)
REFUSED: list[tuple[str, str, pa.DataType, dict[str, str], str]] = [
    ("absent", "a", TEXT, {}, "'a' is a global value of int64, which cannot become string ... ask for a BIGINT"),
    ("absent", "b", WHOLE, {}, "ask for b DOUBLE"),
    ("absent", "B", WHOLE, {}, "'b' is a global value of double"),
    ("absent", "late", REAL, {}, "ask for late STRING"),
    ("absent", "x", REAL, {}, "a global array of double with 1 dimension, ... ask for x ARRAY<DOUBLE>"),
    ("absent", "x", LIST(TEXT), {}, "ask for x ARRAY<DOUBLE>"),
    ("absent", "a", pa.timestamp("us", "UTC"), {}, "ask for a BIGINT"),
    ("arrays", "cube", LIST(LIST(REAL)), {}, "3 dimensions, which ... ask for cube ARRAY<ARRAY<ARRAY<FLOAT>>>"),
    ("arrays", "c16_2", LIST(LIST(REAL)), {}, "ask for c16_2 ARRAY<ARRAY<STRUCT<re: DOUBLE, im: DOUBLE>>>"),
    ("arrays", "c8_1", LIST(pa.struct([("re", REAL)])), {}, "STRUCT<re: FLOAT, im: FLOAT>"),
    ("local", "own", REAL, {}, "a local value of double, ... ask for own ARRAY<DOUBLE>"),
    ("local", "parts", LIST(pa.int32()), {}, "ask for parts ARRAY<ARRAY<INT>>"),
    ("attributes", "x", LIST(WHOLE), {"applyUnitSI": "true"}, "ask for x ARRAY<DOUBLE>"),
    ("names", "a.b", TEXT, {}, "'a.b' is a global value of int64"),
    ("names", "/data/0/x", TEXT, {}, "'/data/0/x' is a global value of int64"),
    ("names", "`a`", TEXT, {}, "'`a`' is a global value of int64"),
    ("absent", "step", TEXT, {}, "the column 'step' cannot be string ... it is step BIGINT"),
    ("absent", "STEP", TEXT, {}, "the column 'STEP' cannot be string"),
    ("arrays", "cube", TEXT, X, "'cube' is a global array of float, ... ask for cube FLOAT"),
    ("arrays", "cube", LIST(REAL), X, "ask for cube FLOAT"),
    ("arrays", "i2_2", WHOLE, X, "'i2_2' has 2 dimensions and 'cube' 3; elements have one index"),
    ("arrays", "index0", TEXT, X, "it is index0 BIGINT"),
    ("arrays", "INDEX1", REAL, X, "it is INDEX1 BIGINT"),
    ("arrays", "b", TEXT, TABLE, "'i2_2' is a global array of int16, ... ask for b SMALLINT"),
    ("arrays", "value", TEXT, BLOCKS, "ask for value ARRAY<FLOAT>, or value ARRAY<STRING>"),
    ("arrays", "min", WHOLE, BLOCKS, "ask for min FLOAT, or min STRING"),
    ("arrays", "value", LIST(REAL), {"rows": "blocks"}, "'c8_1' is a global array ... cannot become"),
    ("arrays", "count", LIST(TEXT), BLOCKS, "it is count ARRAY<BIGINT>"),
    ("arrays", "start", TEXT, BLOCKS, "it is start ARRAY<BIGINT>"),
    ("arrays", "Writer", TEXT, BLOCKS, "it is Writer INT"),
    ("arrays", "variable", WHOLE, {"rows": "variables"}, "it is variable STRING"),
    ("attributes", "value", TEXT, {"rows": "attributes"}, "it is value ARRAY<STRING>"),
]


@pytest.mark.parametrize(("name", "column", "type_", "options", "said"), REFUSED)
def test_types_that_can_never_be_are_errors_at_planning(
    name: str, column: str, type_: pa.DataType, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE") as raised:
        planned(name, column, type_, options)
    assert all(part in str(raised.value) for part in said.split(" ... "))


GIVEN: list[tuple[str, str, pa.DataType, dict[str, str], Any]] = [
    ("absent", "A", pa.int8(), {}, [1, None, None, 3, None]),
    ("absent", "Step", pa.int8(), {}, [0, 1, 2, 3, 4]),
    ("absent", "a", pa.decimal128(5, 1), {}, [1, None, None, 3, None]),
    ("absent", "late", pa.binary(), {}, [None, None, None, b"text", b""]),
    ("absent", "x", LIST(pa.float32()), {}, [[0, 1, 2], None, None, [1, 2, 3], None]),
    ("absent", "INDEX", pa.int16(), {"rows": "elements", "variables": "x"}, [0, 1, 2, 0, 1, 2]),
    ("absent", "WRITER", pa.int8(), {"rows": "blocks"}, [0, 0]),
    ("absent", "Value", LIST(TEXT), {"rows": "blocks"}, [["0", "1", "2"], ["1", "2", "3"]]),
    ("absent", "Steps", pa.int16(), {"rows": "variables"}, [2, 2, 2, 2]),
    ("local", "parts", LIST(LIST(WHOLE)), {"toStep": "2"}, [[[0]], [[1], [1, 2]]]),
    ("attributes", "x", LIST(REAL), {"applyUnitSI": "true", "fromStep": "2"}, [[1, 1.5], [1.5, 2]]),
]


@pytest.mark.parametrize(("name", "column", "type_", "options", "values"), GIVEN)
def test_columns_are_found_without_regard_to_case_and_may_be_of_other_sizes(
    name: str, column: str, type_: pa.DataType, options: dict[str, str], values: Any
) -> None:
    table = read(GOLDEN / f"{name}.bp", schema=pa.schema([(column, type_)]), **options)
    assert table[column].to_pylist() == values


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"variables": "i2_2", "columns": "a,A"}, "PBIO_NAME_COLLISION"),
        ({"variables": "i2_2", "columns": "index,b"}, "PBIO_NAME_COLLISION"),
        ({"variables": "i2_2", "columns": "a,Step"}, "PBIO_NAME_COLLISION"),
        ({"variables": "cube", "indexColumns": "a,b,cube"}, "PBIO_NAME_COLLISION.*\n.*\n.*indexColumns"),
        ({"variables": "cube", "indexColumns": "a,b,step"}, "PBIO_NAME_COLLISION"),
        (
            {"variables": "i2_2", "columns": "a"},
            r"PBIO_BAD_OPTION.*the table has 2 columns, but 1 are named(.|\n)*hint: name 2 ",
        ),
        ({"variables": "i2_2", "columns": "a,b,c"}, "PBIO_BAD_OPTION.*the table has 2 columns, but 3 are named"),
    ],
)
@pytest.mark.parametrize("schema", [None, pa.schema([("step", WHOLE)])])
def test_names_of_elements_that_collide_or_do_not_fit_a_table_are_errors(
    options: dict[str, str], said: str, schema: pa.Schema | None
) -> None:
    with pytest.raises(PbioError, match=said):
        read(GOLDEN / "arrays.bp", schema=schema, rows="elements", **options)


def test_whole_numbers_that_are_too_large_for_a_column_are_errors() -> None:
    schema = pa.schema([("i8_1", LIST(pa.int32()))])
    with pytest.raises(PbioError, match=r"PBIO_VALUE_BEYOND_TYPE(.|\n)*hint: BIGINT holds all values"):
        read(GOLDEN / "arrays.bp", schema=schema)


def test_blocks_of_several_types_are_text_and_an_empty_one_has_no_bounds() -> None:
    rows = read(GOLDEN / "arrays.bp", rows="blocks", toStep=1).to_pylist()
    values = {row["variable"]: (row["min"], row["max"], row["value"]) for row in rows}
    assert values["i4_1"] == ("-2147483648", "2147483647", ["-2147483648", "2147483647", "1", "7"])
    assert values["c16_1"][2][:2] == ['{"re": 1.0, "im": -2.0}', '{"re": 0.0, "im": Infinity}']
    assert values["none"] == (None, None, [])
