"""Names that columns may have: every way of writing refuses those that crash the real library."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ecode.types import INT32, STRING, Field, Record, Ref, Struct, record
from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, decode
from tests.columns.encode.test_generate import encode_rows
from tests.ffs_library import read_file
from tests.source.by_hand import save

READ = [
    "",
    " a",
    "a ",
    "a b",
    "a[b]",
    "a]",
    "[",
    "*",
    ")x",
    "x",
    "X",
    "5",
    "-5",
    "+5a",
    "0x1",
    "é",
    "integer",
    "t\tb\nn",
]


def test_the_library_reads_all_names_that_are_let_through(tmp_path: Path) -> None:
    names = [*READ, "n" * 10_000]
    lists = pa.list_(pa.field("element", pa.int32(), nullable=False))
    pairs = pa.struct([pa.field("q", pa.int32(), nullable=False)])
    for number, type_ in enumerate((pa.int32(), lists, pairs)):
        schema = pa.schema([(name, type_) for name in names])
        made = record_to_format(columns_to_record(schema, "5 r[" * number))
        value = (7, [7, 8], {"q": 7})[number]
        values = {field.name: 2 if field.notes.hidden else value for field in made.record.fields}
        path = tmp_path / f"{number}.ffs"
        with FileWriter(path) as writer:
            writer.data(made, values)
        assert [item["value"] for item in read_file(path) if item["kind"] == "data"] == [values]


@pytest.mark.parametrize("name", ["sum(x)", "count(1)", "(", "a\0b"])
def test_every_way_of_writing_refuses_other_names(name: str, tmp_path: Path) -> None:
    number = pa.field(name, pa.int32())
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("events", record("event", [Field("n", INT32)]))
    inner = Record((Struct("outer", (Field("in", Ref("inner")),)), Struct("inner", (Field(name, INT32),))))
    for schema in (
        pa.schema([number]),
        pa.schema([("s", pa.struct([number]))]),
        pa.schema([("l", pa.list_(pa.struct([number])))]),
        pa.schema([("m", pa.map_(pa.string(), pa.struct([number])))]),
    ):
        batch = pa.RecordBatch.from_pylist([], schema)
        with pytest.raises(PbioError, match=r"PBIO_BAD_NAME(.|\n)*withColumnRenamed"):
            save(str(tmp_path / "folder"), batch)
        with pytest.raises(PbioError, match="PBIO_BAD_NAME"):
            space.create_channel("other", schema)
    with pytest.raises(PbioError, match="PBIO_BAD_NAME"):
        space.create_channel("other", inner)
    more = pa.record_batch([pa.array([1], pa.int32())] * 2, ["n", name])
    with pytest.raises(PbioError, match="PBIO_BAD_NAME"):
        space.publish([Submission("events", more)])
    assert [channel.name for channel in space.channels()] == ["events"]
    assert not (tmp_path / "folder").exists()


def test_names_in_latin_1_are_written_as_they_were_read() -> None:
    form = record_to_format(record("Gr\udcf6\udcdfe", [Field("gr\udcf6\udcdfe", INT32), Field("s", STRING)]))
    schema = record_to_arrow(form.record)
    assert schema.names == [r"gr\xf6\xdfe", "s"]
    made = record_to_format(columns_to_record(schema, r"Gr\xf6\xdfe"))
    assert (made.name, [field.name for field in made.record.fields]) == (form.name, ["gr\udcf6\udcdfe", "s"])
    assert b"gr\xf6\xdfe\0" in made.body
    batch = pa.RecordBatch.from_pylist([{r"gr\xf6\xdfe": 7, "s": "a"}], schema)
    (encoded,) = encode_rows(made, batch, checked=True)
    assert decode(made, encoded) == {"gr\udcf6\udcdfe": 7, "s": "a"}
