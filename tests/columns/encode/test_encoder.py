"""The input that an encoder accepts and refuses, its errors, and its pickling."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT64,
    Array,
    Field,
    Notes,
    Pointer,
    Ref,
    Struct,
    Type,
    record,
)
from pbio_spark.columns.encode.encoder import format_to_encoder
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import MAGIC, Scanner, decode
from pbio_spark.wire.container import ItemKind
from tests.columns.encode.test_generate import encode_rows

HIDDEN = Notes(hidden=True)


def form_of(*fields: Field, structs: tuple[Struct, ...] = (), machine: str = "be32") -> Format:
    return record_to_format(record("r", fields, structs), machine)


def one(name: str, type_: Type, **notes: Any) -> Format:
    """A format of one field, and a count if that is an array."""
    count = [Field("n", INT32, HIDDEN)] if "[n]" in str(type_) else []
    return form_of(*count, Field(name, type_, Notes(**notes)))


def write(
    form: Format, arrow: dict[str, pa.DataType], *rows: dict[str, Any], null: float | None = None
) -> list[dict[str, Any]]:
    """The values of the records of some rows, as the oracle reads them."""
    batch = pa.RecordBatch.from_pylist(list(rows), pa.schema(list(arrow.items())))
    return [decode(form, data) for data in encode_rows(form, batch, null, checked=True)]


I8, I16, I32, I64, F64 = pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64()
POINT = Struct("point", (Field("x", INT32), Field("tag", STRING)))
REFUSED: dict[str, tuple[Format, pa.DataType, Any, str, str]] = {
    # what: format with a field `f`, type of its column, value, code, text
    "null number": (one("f", INT32), I32, None, "PBIO_CANNOT_BE_NULL", "null"),
    "null list": (one("f", Array(INT32, ("n",))), pa.list_(I32), None, "PBIO_CANNOT_BE_NULL", "null"),
    "null in a list": (one("f", Array(INT32, ("n",))), pa.list_(I32), [1, None], "PBIO_CANNOT_BE_NULL", "$.f[]"),
    "null binary": (one("f", Array(CHAR, ("n",)), logical="binary"), pa.binary(), None, "PBIO_CANNOT_BE_NULL", "null"),
    "null structure": (
        form_of(Field("f", Ref("point")), structs=(POINT,)),
        pa.struct([("x", I32), ("tag", pa.string())]),
        None,
        "PBIO_CANNOT_BE_NULL",
        "null",
    ),
    "null row of a matrix": (
        one("f", Array(INT8, (1, 2))),
        pa.list_(pa.list_(I8)),
        [None],
        "PBIO_CANNOT_BE_NULL",
        "[]",
    ),
    "too large": (one("f", INT8), I32, 128, "PBIO_BAD_VALUE", "128 is beyond"),
    "too small": (one("f", INT8), I32, -129, "PBIO_BAD_VALUE", "-129 is beyond"),
    "negative": (one("f", UINT8), I16, -1, "PBIO_BAD_VALUE", "-1 is beyond"),
    "beyond signed": (one("f", INT64), pa.uint64(), 2**63, "PBIO_BAD_VALUE", "beyond"),
    "decimal beyond unsigned": (one("f", UINT64), pa.decimal128(20, 0), Decimal(2**64), "PBIO_BAD_VALUE", "beyond"),
    "decimal below unsigned": (one("f", UINT64), pa.decimal128(20, 0), Decimal(-1), "PBIO_BAD_VALUE", "beyond"),
    "decimal beyond long": (one("f", INT64), pa.decimal128(38, 0), Decimal(2**63), "PBIO_BAD_VALUE", "beyond"),
    "decimal beyond byte": (one("f", INT8), pa.decimal128(38, 0), Decimal(128), "PBIO_BAD_VALUE", "beyond"),
    "double beyond float": (one("f", FLOAT32), F64, 1e39, "PBIO_BAD_VALUE", "1e+39 is beyond"),
    "text with NUL": (one("f", STRING), pa.string(), "a\0b", "PBIO_BAD_VALUE", "NUL"),
    "chars with NUL": (one("f", Array(CHAR, (4,))), pa.string(), "a\0b", "PBIO_BAD_VALUE", "NUL"),
    "chars too long": (one("f", Array(CHAR, (4,))), pa.string(), "abcde", "PBIO_BAD_VALUE", "5 bytes"),
    "bytes too short": (one("f", Array(CHAR, (4,))), pa.binary(), b"abc", "PBIO_BAD_VALUE", "3 bytes"),
    "unsigned of 7 bytes": (one("f", UINT64), pa.binary(), b"1234567", "PBIO_BAD_VALUE", "7 bytes"),
    "array too long": (one("f", Array(INT8, (2,))), pa.list_(I8), [1, 2, 3], "PBIO_BAD_VALUE", "3 elements"),
    "ragged matrix": (one("f", Array(INT8, (2, "n"))), pa.list_(pa.list_(I8)), [[1], []], "PBIO_BAD_VALUE", "$.f[]"),
    "no symbol": (one("f", ENUMERATION, symbols=(("red", 1),)), pa.string(), "rad", "PBIO_BAD_VALUE", "'red'"),
    "digits out of range": (
        one("f", ENUMERATION, symbols=(("red", 1),)),
        pa.string(),
        "4294967296",
        "PBIO_BAD_VALUE",
        "",
    ),
    "count too large": (
        form_of(Field("n", INT8, HIDDEN), Field("f", Array(INT8, ("n",)))),
        pa.list_(I8),
        [0] * 128,
        "PBIO_BAD_VALUE",
        "128 elements",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses_values_with_column_and_row(what: str) -> None:
    form, arrow, bad, code, text = REFUSED[what]
    batch = pa.record_batch([pa.array([bad], arrow)], ["f"])
    with pytest.raises(PbioError) as caught:
        encode_rows(form, batch, checked=True)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.code == code
    assert error.field.startswith("$.f")
    assert "row 0" in str(error)
    assert text in str(error)
    assert ("nullValue" in str(error)) == (code == "PBIO_CANNOT_BE_NULL")


def test_the_first_bad_row_is_named_also_in_a_slice() -> None:
    batch = pa.record_batch([pa.array([[None], [1], [2, 3], [None]], pa.list_(I32))], ["f"]).slice(1)
    with pytest.raises(PbioError, match=r"row 2: null.*\n.*\$\.f\[\]"):
        encode_rows(one("f", Array(INT32, ("n",))), batch, checked=True)


@pytest.mark.parametrize(
    ("form", "arrow", "code", "text"),
    [
        (one("f", INT32), {"f": pa.string()}, "PBIO_INCOMPATIBLE_TYPE", "string"),
        (one("f", INT32), {"f": F64}, "PBIO_INCOMPATIBLE_TYPE", "double"),
        (one("f", FLOAT64), {"f": I32}, "PBIO_INCOMPATIBLE_TYPE", "int32"),
        (one("f", INT64), {"f": pa.timestamp("us")}, "PBIO_INCOMPATIBLE_TYPE", "timestamp"),
        (one("f", INT64, logical="timestamp"), {"f": pa.timestamp("us")}, "PBIO_INCOMPATIBLE_TYPE", "timestamp"),
        (one("f", INT64, logical="decimal(9,2)"), {"f": I64}, "PBIO_INCOMPATIBLE_TYPE", "decimal(9,2)"),
        (one("f", INT64, logical="decimal(9,2)"), {"f": pa.decimal128(9, 3)}, "PBIO_INCOMPATIBLE_TYPE", "(9, 3)"),
        (one("f", Array(INT8, (2, 2))), {"f": pa.list_(I8)}, "PBIO_INCOMPATIBLE_TYPE", "list"),
        (one("f", Pointer(INT8)), {"f": pa.list_(I8)}, "PBIO_INCOMPATIBLE_TYPE", "list"),
        (one("fig", INT8), {"fog": I8}, "PBIO_UNKNOWN_COLUMN", "'fig'"),
        (one("f", INT8), {}, "PBIO_CANNOT_BE_NULL", "$.f"),
        (one("f", Array(INT8, ("n",))), {}, "PBIO_CANNOT_BE_NULL", "nullValue"),
    ],
)
def test_refuses_schemas_before_anything_is_written(
    form: Format, arrow: dict[str, pa.DataType], code: str, text: str
) -> None:
    with pytest.raises(PbioError) as caught:
        format_to_encoder(form, pa.schema(list(arrow.items())))
    assert caught.value.code == code
    assert text in str(caught.value)


def test_refuses_two_columns_of_one_name_and_batches_of_another_schema() -> None:
    form = one("f", INT8)
    with pytest.raises(PbioError, match="PBIO_NAME_COLLISION"):
        format_to_encoder(form, pa.schema([("f", I8), ("f", I8)]))
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE"):
        format_to_encoder(form, pa.schema([("f", I8)])).encode(pa.record_batch([pa.array([1], I16)], ["f"]))


def test_counts_that_the_rows_hold_are_checked() -> None:
    form = form_of(Field("n", INT16), Field("v", Array(INT8, ("n",))))
    arrow = {"n": I16, "v": pa.list_(I8)}
    assert write(form, arrow, {"n": 2, "v": [1, 2]}, {"n": 3, "v": None}, {"n": 0, "v": []}) == [
        {"n": 2, "v": [1, 2]},
        {"n": 3, "v": None},
        {"n": 0, "v": None},
    ]
    for row in ({"n": 1, "v": [1, 2]}, {"n": 0, "v": [1]}, {"n": -1, "v": []}):
        with pytest.raises(PbioError, match=r"row 0: . elements[^$]*\$\.v"):
            write(form, arrow, row)
    with pytest.raises(PbioError, match="PBIO_CANNOT_BE_NULL"):  # it would come back as an empty array
        write(form, arrow, {"n": 0, "v": None})


def test_counts_are_filled_from_wherever_they_are_named() -> None:
    form = form_of(
        Field("rows", Array(INT8, ("n", "m"))),
        Field("n", UINT8),
        Field("ragged", Array(Pointer(Array(INT8, ("n",))), ("k",))),
        Field("behind", Pointer(Array(INT8, ("m",)))),
        Field("m", INT64),
        Field("k", INT32),
    )
    arrow = {"rows": pa.list_(pa.list_(I8)), "ragged": pa.list_(pa.list_(I8)), "behind": pa.list_(I8)}
    (found, empty) = write(
        form,
        arrow,
        {"rows": [[1, 2, 3], [4, 5, 6]], "ragged": [None, [7, 8]], "behind": [9, 9, 9]},
        {"rows": [], "ragged": [None], "behind": None},
    )
    assert found == {
        "rows": [[1, 2, 3], [4, 5, 6]],
        "n": 2,
        "ragged": [None, [7, 8]],
        "behind": [9, 9, 9],
        "m": 3,
        "k": 2,
    }
    assert empty == {"rows": None, "n": 0, "ragged": [None], "behind": None, "m": 0, "k": 1}
    with pytest.raises(PbioError, match="2 elements"):
        write(form, arrow, {"rows": [[1, 2, 3]], "ragged": [], "behind": [1, 2]})


def test_fields_without_a_column_become_their_default_or_null() -> None:
    inner = Struct("inner", (Field("a", INT8, Notes(default=5)), Field("s", STRING, Notes(default="né"))))
    form = form_of(
        Field("x", INT32),
        Field("e", ENUMERATION, Notes(symbols=(("red", 3),), default="red")),
        Field("f", FLOAT64, Notes(default=math.inf)),
        Field("c", Array(CHAR, (4,)), Notes(default="ab")),
        Field("s", STRING),
        Field("p", Pointer(Ref("inner"))),
        Field("in", Ref("inner")),
        Field("n", INT32),
        Field("v", Array(Ref("inner"), ("n",))),
        structs=(inner,),
    )
    arrow = {"x": I32, "v": pa.list_(pa.struct([("a", I8)]))}
    (found,) = write(form, arrow, {"x": 1, "v": [{"a": 1}, {"a": 2}]})
    assert found == {
        "x": 1,
        "e": 3,
        "f": math.inf,
        "c": [97, 98, 0, 0],
        "s": None,
        "p": None,
        "in": {"a": 5, "s": "né"},
        "n": 2,
        "v": [{"a": 1, "s": "né"}, {"a": 2, "s": "né"}],
    }


@pytest.mark.parametrize(
    ("type_", "default"),
    [(STRING, "a\0b"), (Array(CHAR, (4,)), "abcde"), (Array(CHAR, ("n",)), "abc"), (FLOAT32, 1e300)],
)
def test_defaults_that_cannot_be_written_are_refused(type_: Type, default: Any) -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE[^$]*\$\.f"):
        format_to_encoder(one("f", type_, default=default), pa.schema([]), null_value=NullValue(0))


def test_symbols_and_digits() -> None:
    form = one("f", ENUMERATION, symbols=(("red", 1), ("7", 2)))
    rows = [{"f": text} for text in ("red", "7", "8", "red")]
    assert [found["f"] for found in write(form, {"f": pa.string()}, *rows)] == [1, 2, 8, 1]
    with pytest.raises(PbioError, match="not a symbol"):
        write(form, {"f": pa.string()}, {"f": "08"})


def test_strings_are_padded_to_sensible_counts() -> None:
    form = form_of(Field("n", INT64), Field("f", Array(CHAR, ("n",))), Field("g", Array(CHAR, (2, "n"))))
    arrow = {"n": I64, "f": pa.string(), "g": pa.list_(pa.string())}
    (found,) = write(form, arrow, {"n": 3, "f": "ab", "g": ["c", "def"]})
    assert found == {"n": 3, "f": [97, 98, 0], "g": [[99, 0, 0], [100, 101, 102]]}
    for n in (-1, 2**40):
        with pytest.raises(PbioError, match="PBIO_BAD_VALUE"):
            write(form, arrow, {"n": n, "f": "ab", "g": ["c", "d"]})


def test_strings_in_column_major_arrays() -> None:
    fields = (FieldLayout("rows", "char[2][3]", 1, 0), FieldLayout("apart", "(char[2])[2][2]", 1, 6))
    form = Format.from_structs([StructLayout("r", fields, 14)], column_major=True)
    arrow = {"rows": pa.list_(pa.string()), "apart": pa.list_(pa.list_(pa.string()))}
    (found,) = write(form, arrow, {"rows": ["ab", "cde"], "apart": [["a", "b"], ["c", "d"]]})
    assert found == {"rows": [[97, 98, 0], [99, 100, 101]], "apart": [[[97, 0], [98, 0]], [[99, 0], [100, 0]]]}


def test_large_offsets_and_wide_lists_are_the_same() -> None:
    form = form_of(Field("s", STRING), Field("n", INT32, HIDDEN), Field("v", Array(INT16, ("n",))))
    arrow = {"s": pa.large_string(), "v": pa.large_list(I16)}
    assert write(form, arrow, {"s": "abc", "v": [1, 2]}, {"s": None, "v": []}) == [
        {"s": "abc", "n": 2, "v": [1, 2]},
        {"s": None, "n": 0, "v": None},
    ]


@pytest.mark.parametrize("machine", ["le64", "be32"])
def test_wrapped_records_are_items_of_a_file(machine: str) -> None:
    schema = pa.schema([("a", pa.int32()), ("s", pa.string())])
    form = record_to_format(arrow_to_record(schema, "r"), machine)
    batch = pa.RecordBatch.from_pylist([{"a": i, "s": "x" * i} for i in range(9)], schema)
    encoded = format_to_encoder(form, schema, wrap=True).encode(batch)
    item = (
        (ItemKind.FORMAT << 24 | len(form.id)).to_bytes(4, "big")
        + len(form.body).to_bytes(4, "big")
        + form.id
        + form.body
    )
    scanner = Scanner(MAGIC + item + encoded.buffer.to_pybytes())
    items = [i for i in scanner.items() if i.kind is ItemKind.DATA]
    assert [decode(form, scanner.read(i)) for i in items] == batch.to_pylist()
    assert [i.offset - len(MAGIC + item) for i in items] == encoded.offsets[:-1].tolist()
    assert encoded.offsets[-1] == encoded.buffer.size
    plain = format_to_encoder(form, schema).encode(batch)
    assert [scanner.read(i) for i in items] == plain.to_array().to_pylist()


def test_no_rows_and_no_columns() -> None:
    form = one("f", Array(INT32, ("n",)), default=None)
    encoder = format_to_encoder(form, pa.schema([("f", pa.list_(I32))]))
    encoded = encoder.encode(pa.record_batch([pa.array([], pa.list_(I32))], ["f"]))
    assert (encoded.buffer.size, encoded.offsets.tolist()) == (0, [0])


def test_an_encoder_travels_with_its_machine_code(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int32()), ("v", pa.list_(pa.float64()))])
    form = record_to_format(arrow_to_record(schema, "r"), "le64")
    encoder = format_to_encoder(form, schema)
    batch = pa.RecordBatch.from_pylist([{"a": 1, "v": [2.0]}], schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(batch)
    (tmp_path / "sent").write_bytes(pickle.dumps((encoder, sink.getvalue().to_pybytes())))
    program = (
        "import pickle, sys, pyarrow as pa\n"
        f"encoder, sent = pickle.loads(open({str(tmp_path / 'sent')!r}, 'rb').read())\n"
        "(batch,) = pa.ipc.open_stream(sent)\n"
        "print(encoder.encode(batch).buffer.to_pybytes().hex())\n"
        "assert 'numba' not in sys.modules\n"
    )
    environment = {**os.environ, "ECODE_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd=Path.cwd()
    )
    assert bytes.fromhex(done.stdout) == encoder.encode(batch).buffer.to_pybytes()
    assert "def kernel(count, table):" in encoder.source


def test_structures_are_written_as_deep_as_they_are_nested() -> None:
    arrow: pa.DataType = pa.int32()
    value: Any = 7
    for _ in range(20):
        arrow, value = pa.struct([("c", arrow)]), {"c": value}
    schema = pa.schema([("x", arrow)])
    form = record_to_format(arrow_to_record(schema, "r"))
    batch = pa.RecordBatch.from_pylist([{"x": value}], schema)
    (data,) = format_to_encoder(form, schema).encode(batch).to_array().to_pylist()
    assert decode(form, data) == {"x": value}


def test_a_double_that_no_float_holds_is_refused() -> None:
    assert write(one("f", FLOAT32), {"f": F64}, {"f": 0.5}, {"f": -0.0}) == [{"f": 0.5}, {"f": -0.0}]
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE[^$]*0\.1[^$]*\$\.f"):
        write(one("f", FLOAT32), {"f": F64}, {"f": 0.1})
