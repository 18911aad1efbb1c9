"""Values in their columns: exact, by name, not null where the schema says so; or a bad record."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from ecode.types import CHAR, ENUMERATION, FLOAT64, INT32, INT64, STRING, Array, Field, Notes, Ref, Struct, record
from pbio_spark.columns.defaults import default_of
from pbio_spark.columns.files.null_check import unexpected_nulls
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import FieldRule, Mapped
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter
from tests.source.local import load

RED = (("RED", 0), ("GREEN", 1))
GREEN = (("GREEN", 0), ("RED", 1))


def put(path: Path, form: Format, *values: dict[str, Any]) -> Path:
    with FileWriter(path) as writer:
        for value in values:
            writer.data(form, value)
    return path


def of(*fields: Field, structs: tuple[Struct, ...] = ()) -> Format:
    return record_to_format(record("r", fields, structs))


def enumeration(*symbols: tuple[str, int]) -> Format:
    return of(Field("c", ENUMERATION, Notes(symbols=symbols)))


def spark_type(name: str, type_: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": {}}


def schema(*fields: dict[str, Any]) -> StructType:
    return StructType.fromJson({"type": "struct", "fields": list(fields)})


def test_an_integer_that_no_double_holds_is_a_bad_record_of_the_union(tmp_path: Path) -> None:
    put(tmp_path / "1.ffs", of(Field("id", INT64)), {"id": 2**53 + 1}, {"id": 2**53})
    put(tmp_path / "2.ffs", of(Field("id", FLOAT64)), {"id": 0.5})
    assert load(tmp_path, mode="DROPMALFORMED") == [{"id": 2.0**53}, {"id": 0.5}]
    for options in ({}, {"readerFormat": '{"r": {"id": "float64"}}'}):
        with pytest.raises(PbioError, match=r"\[PBIO_VALUE_BEYOND_TYPE\](.|\n)*double(.|\n)*\$\.id"):
            load(tmp_path, **options)


def test_a_decimal_is_an_integer_only_without_a_fraction(tmp_path: Path) -> None:
    price = Notes(logical="decimal(10,2)")
    put(tmp_path / "1.ffs", of(Field("price", INT64, price)), {"price": 150}, {"price": 200})
    put(tmp_path / "2.ffs", of(Field("price", INT64)), {"price": 7})
    as_long = schema(spark_type("price", "long"))
    assert load(tmp_path, schema=as_long, mode="DROPMALFORMED") == [{"price": 2}, {"price": 7}]
    found = load(tmp_path)
    assert found == [{"price": Decimal(text)} for text in ("1.50", "2.00", "7.00")]


def test_a_float_of_8_bytes_fits_one_of_4_value_by_value(tmp_path: Path) -> None:
    put(tmp_path / "1.ffs", of(Field("x", FLOAT64)), {"x": 0.5}, {"x": 0.1}, {"x": float("inf")})
    found = load(tmp_path, readerFormat='{"r": {"x": "float32"}}', mode="DROPMALFORMED")
    assert found == [{"x": 0.5}, {"x": float("inf")}]


@pytest.mark.parametrize("first", [RED, GREEN])
def test_the_name_of_an_enumeration_decides(tmp_path: Path, first: tuple[tuple[str, int], ...]) -> None:
    put(tmp_path / "1.ffs", enumeration(*first), {"c": 0})
    put(tmp_path / "2.ffs", enumeration(*RED), {"c": 0})
    assert load(tmp_path) == [{"c": first[0][0]}, {"c": "RED"}]
    assert load(tmp_path, schema=schema(spark_type("c", "string"))) == load(tmp_path)
    as_number = schema(spark_type("c", "long"))
    if first == RED:
        assert load(tmp_path, schema=as_number) == [{"c": 0}, {"c": 0}]
        assert load(tmp_path, filter="{ return input.c == 0; }") == [{"c": "RED"}, {"c": "RED"}]
        return
    for options in (
        {"schema": as_number},
        {"readerFormat": '{"r": {"c": "enumeration32"}}'},
        {"filter": "{ return input.c == 0; }"},
    ):
        with pytest.raises(PbioError, match=r"\[PBIO_INCOMPATIBLE_TYPE\](.|\n)*\$\.c"):
            load(tmp_path, **options)


def test_a_version_without_names_takes_those_of_the_others(tmp_path: Path) -> None:
    put(tmp_path / "1.ffs", of(Field("c", ENUMERATION)), {"c": 1}, {"c": 7})
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE"):
        load(tmp_path, schema=schema(spark_type("c", "string")))
    put(tmp_path / "2.ffs", enumeration(*RED), {"c": 0})
    assert load(tmp_path, mode="DROPMALFORMED") == [{"c": "GREEN"}, {"c": "RED"}]
    with pytest.raises(PbioError, match=r"\[PBIO_VALUE_BEYOND_TYPE\](.|\n)*no name"):
        load(tmp_path)
    put(tmp_path / "3.ffs", enumeration(*GREEN), {"c": 0})
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE"):
        load(tmp_path)


def test_characters_as_binary_have_all_bytes(tmp_path: Path) -> None:
    form = of(Field("n", INT32), Field("v", Array(CHAR, ("n",))), Field("m", Array(CHAR, (2, 3))))
    put(tmp_path / "1.ffs", form, {"n": 5, "v": [65, 0, 0, 66, 255], "m": [[1, 0, 2], [0, 0, 0]]})
    binary = schema(
        spark_type("v", "binary"),
        spark_type("m", {"type": "array", "elementType": "binary", "containsNull": True}),
    )
    whole = {"v": b"A\0\0B\xff", "m": [b"\1\0\2", bytes(3)]}
    assert load(tmp_path, schema=binary) == [whole]
    for options in ({"encoding": "binary"}, {"charArraysAs": "binary"}):
        assert load(tmp_path, **options) == [{"n": 5, **whole}]
    assert load(tmp_path)[0]["v"] == "A"


INNER = Struct("t", (Field("s", STRING),))


@pytest.mark.parametrize("array", [False, True])
def test_a_null_below_not_null_is_a_bad_record(tmp_path: Path, array: bool) -> None:
    inner = Array(Ref("t"), (1,)) if array else Ref("t")
    form = of(Field("id", INT32), Field("x", inner), structs=(INNER,))
    one, null = {"s": "a"}, {"s": None}
    put(tmp_path / "1.ffs", form, {"id": 1, "x": [null] if array else null}, {"id": 2, "x": [one] if array else one})
    struct: Any = {"type": "struct", "fields": [spark_type("s", "string", nullable=False)]}
    column: Any = {"type": "array", "elementType": struct, "containsNull": False} if array else struct
    wanted = schema(spark_type("id", "integer"), spark_type("x", column))
    with pytest.raises(PbioError, match=r"\[PBIO_UNEXPECTED_NULL\](.|\n)*\$\.x"):
        load(tmp_path, schema=wanted)
    good = {"id": 2, "x": [one] if array else one}
    assert load(tmp_path, schema=wanted, mode="DROPMALFORMED") == [good]
    assert load(tmp_path, schema=wanted, mode="PERMISSIVE") == [{"id": None, "x": None}, good]


def test_where_nulls_are_unexpected() -> None:
    strict = pa.list_(pa.field("element", pa.int32(), nullable=False))
    fields = [
        pa.field("l", strict),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
        pa.field("s", pa.struct([pa.field("a", pa.list_(pa.struct([pa.field("b", pa.int32(), nullable=False)])))])),
    ]
    rows = [
        {"l": [1], "m": [("k", None)], "s": None},
        {"l": None, "m": None, "s": {"a": [{"b": 1}]}},
        {"l": [1, None], "m": [], "s": {"a": None}},
        {"l": [], "m": [("k", 1)], "s": {"a": [None, {"b": None}]}},
    ]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema(fields))
    assert unexpected_nulls(batch) == {0: "$.m[].value", 2: "$.l[]", 3: "$.s.a[].b"}
    assert unexpected_nulls(batch.slice(1, 1)) == {}


def absent(type_: pa.DataType, default: Any) -> Mapped:
    return Mapped(FieldRule.ABSENT, ("x",), "$.x", type_, default=default)


@pytest.mark.parametrize(
    ("default", "type_"),
    [
        (1.5, pa.int32()),
        (300, pa.int8()),
        (2**53 + 1, pa.float64()),
        (1e39, pa.float32()),
        (1.555, pa.decimal128(5, 2)),
    ],
)
def test_a_default_for_an_unknown_column_is_refused(default: Any, type_: pa.DataType) -> None:
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE"):
        default_of(absent(type_, default))


def test_a_default_is_exact() -> None:
    assert default_of(absent(pa.decimal128(5, 2), 1.5)) == Decimal("1.50")
    assert default_of(absent(pa.int32(), 2.0)) == 2
