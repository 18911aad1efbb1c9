"""Writing in an existing format: exactly its bytes, or an error with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import CHAR, FLOAT32, FLOAT64, INT32, UINT8, UINT32, Array, Field, Pointer, Ref, Struct, record
from pbio_spark.columns.encode.encoder import format_to_encoder
from pbio_spark.columns.files.plan import FilePart
from pbio_spark.columns.files.read import read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FolderStore
from pbio_spark.source.options.parse import parse_options
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.write.write_format import formats_to_write
from pbio_spark.wire import FileWriter, encode
from tests.plans import plan_of

POINT = Struct("point", (Field("x", FLOAT32), Field("tag", Array(CHAR, (4,)))))
READING = record(
    "reading",
    [
        Field("n", INT32),
        Field("values", Array(FLOAT32, ("n",))),
        Field("name", Array(CHAR, (8,))),
        Field("matrix", Array(UINT8, (2, 2))),
        Field("at", Ref("point")),
        Field("maybe", Pointer(Ref("point"))),
        Field("id", UINT32),
    ],
    [POINT],
)
P = {"x": 0.5, "tag": [65, 66, 0, 0]}
VALUES: list[dict[str, Any]] = [
    {"n": 2, "values": [1.0, 2.5], "name": [*b"probe", 0, 0, 0], "matrix": [[1, 2], [3, 4]], "at": P, "maybe": None},
    {"n": 0, "values": None, "name": [*b"probe-12"], "matrix": [[0, 0], [0, 255]], "at": P, "maybe": P},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file from a big-endian 32-bit machine."""
    form = record_to_format(READING, "sparc")
    with FileWriter(tmp_path / "a#b.ffs") as writer:
        for number, values in enumerate(VALUES):
            writer.data(form, {**values, "id": 2**32 - 1 - number})
    return tmp_path / "a#b.ffs"


def formats(schema: pa.Schema, *, target: Path | None = None, **options: str) -> tuple[Format, ...]:
    return formats_to_write(parse_options(options, Scope.WRITE), schema, None if target is None else str(target))


def test_what_was_read_is_written_as_it_was(file: Path) -> None:
    form = record_to_format(READING, "sparc")
    schema = record_to_arrow(form.record)
    assert formats(schema, writeFormat=f"{file}#reading") == (form,)
    assert formats(schema, writeFormat=f"{file}#{form.id.hex()}") == formats(schema, writeFormat=str(file)) == (form,)
    with file.open("rb") as source:
        batches = list(read_batches(plan_of(schema), FilePart(str(file)), source))
    encoder = format_to_encoder(form, schema, is_complete=True)
    records = [one for batch in batches for one in encoder.encode(batch).to_array().to_pylist()]
    assert records == [encode(form, {**v, "id": 2**32 - 1 - i}) for i, v in enumerate(VALUES)]


def test_a_count_is_the_length_of_its_array_or_is_compared(file: Path) -> None:
    form = record_to_format(READING, "sparc")
    schema = record_to_arrow(form.record)
    row = {"values": [1.0], "name": "x", "matrix": [[1, 2], [3, 4]], "at": {"x": 1.0, "tag": ""}, "id": 1}
    without = schema.remove(schema.get_field_index("n"))
    encoder = format_to_encoder(form, without, is_complete=True)
    assert encoder.encode(pa.RecordBatch.from_pylist([row], without))
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE(.|\n)*\$\.values"):
        format_to_encoder(form, schema).encode(pa.RecordBatch.from_pylist([{**row, "n": 2}], schema))


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("values", [0.1], "values"),
        ("name", "much too long", "name"),
        ("matrix", [[1, 2]], "matrix"),
        ("matrix", [[1, 2], [3, 256]], "matrix"),
        ("id", -1, "id"),
        ("id", 2**32, "id"),
        ("at", {"x": 0.1, "tag": ""}, "at.x"),
    ],
)
def test_values_that_a_field_does_not_have_are_refused_by_name(column: str, value: Any, field: str) -> None:
    form = record_to_format(READING, "sparc")
    schema = pa.schema(
        [
            ("values", pa.list_(pa.float64())),
            ("name", pa.string()),
            ("matrix", pa.list_(pa.list_(pa.int16()))),
            ("at", pa.struct([("x", pa.float64()), ("tag", pa.string())])),
            ("maybe", pa.struct([("x", pa.float64()), ("tag", pa.string())])),
            ("id", pa.int64()),
        ]
    )
    row = {"values": [], "name": "", "matrix": [[1, 2], [3, 4]], "at": {"x": 0.5, "tag": ""}, "maybe": None, "id": 1}
    encoder = format_to_encoder(form, schema, is_complete=True)
    with pytest.raises(PbioError, match=rf"PBIO_BAD_VALUE\] row 1(.|\n)*\$\.{field}"):
        encoder.encode(pa.RecordBatch.from_pylist([row, {**row, column: value}], schema))


def test_columns_are_the_fields_of_the_format() -> None:
    schema = record_to_arrow(READING)
    form = record_to_format(READING)
    for name in ("values", "name", "maybe", "id"):
        with pytest.raises(PbioError, match=rf"PBIO_UNKNOWN_COLUMN\] no column fills(.|\n)*\$\.{name}"):
            format_to_encoder(form, schema.remove(schema.get_field_index(name)), is_complete=True)
    with pytest.raises(PbioError, match="did you mean 'name'"):
        format_to_encoder(form, schema.append(pa.field("nmae", pa.string())), is_complete=True)


def test_a_list_may_end_where_its_columns_do() -> None:
    node = Struct("node", (Field("v", INT32), Field("next", Pointer(Ref("node")))))
    form = record_to_format(record("list", [Field("head", Pointer(Ref("node")))], [node]))
    schema = pa.schema([("head", pa.struct([("v", pa.int32()), ("next", pa.struct([("v", pa.int32())]))]))])
    assert format_to_encoder(form, schema, is_complete=True)


def test_formats_are_found_by_id_with_those_that_they_lead_to(file: Path, tmp_path: Path) -> None:
    old, new = (record_to_format(record("load", [Field(name, FLOAT64)]), "le32") for name in ("total", "mean"))
    new = evolve(old, new, "{ old.total = 2 * new.mean; }")
    schema = record_to_arrow(new.record)
    for form in (old, new):
        FolderStore(str(tmp_path / "store")).put(form)
    assert formats(schema, writeFormat=new.id.hex(), formatStore=str(tmp_path / "store")) == (new, old)
    reading = record_to_format(READING, "sparc")
    assert formats(schema, target=file.parent, writeFormat=reading.id.hex()) == (reading,)
    (made,) = formats(schema, writeFormat='{"load": {"mean": "float32"}}', machine="sparc")
    assert made == record_to_format(record("load", [Field("mean", FLOAT32)]), "sparc")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"writeFormat": "{file}#raeding"}, "did you mean 'reading'"),
        ({"writeFormat": "{file}.no"}, "FILE#NAME"),
        ({"writeFormat": "{file}", "machine": "sparc"}, "'machine' has no effect with writeFormat"),
        ({"writeFormat": "{file}", "byteOrder": "big"}, "'byteOrder' has no effect"),
        ({"writeFormat": "{file}", "nulls": "mask"}, "'nulls' has no effect"),
        ({"writeFormat": "{file}", "formatName": "x"}, "'formatName' has no effect"),
        ({"writeFormat": "00" * 12}, "no file and no store"),
        ({"nulls": "value"}, "give the value with nullValue"),
        ({"nulls": "mask", "nullValue": "0"}, "'nullValue' does not apply to nulls=mask"),
    ],
)
def test_options_that_contradict_each_other_or_name_nothing_are_refused(
    file: Path, options: dict[str, str], said: str
) -> None:
    given = {name: value.replace("{file}", str(file)) for name, value in options.items()}
    with pytest.raises(PbioError, match=said):
        formats(pa.schema([("x", pa.int32())]), **given)
