"""Files as rows and tables, without Spark."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pbio_spark as pbio
from tests.test_layers import loaded_by

LOAD = {"Load": {"host": "string", "load": "float64", "cpus": "int32"}}
ROWS = [{"host": "a", "load": 0.5, "cpus": 4}, {"host": None, "load": 2.0, "cpus": 8}]
RECORD = pbio.parse_record(LOAD)


def write(path: Path, rows: Any = ROWS, type_: Any = LOAD, **options: Any) -> Path:
    with pbio.open_writer(path, type_, **options) as writer:
        writer.write(rows)
    return path


def error_of(call: Callable[[], Any]) -> pbio.PbioError:
    with pytest.raises(pbio.PbioError) as raised:
        call()
    return raised.value


@pytest.mark.parametrize("machine", ["sparc", "i386", "le64", pbio.MACHINES["be64"]])
def test_what_is_written_is_read(tmp_path: Path, machine: str | pbio.Machine) -> None:
    record = pbio.parse_record(LOAD)
    write(tmp_path / "loads.ffs", type_=pbio.Format.of(record, machine))
    assert list(pbio.read(tmp_path)) == list(pbio.read(str(tmp_path / "*.ffs"))) == ROWS
    assert [form.record for form in pbio.read_formats(tmp_path)] == [record]


def test_tables_and_their_nulls_come_back(tmp_path: Path) -> None:
    table = pa.table({"n": [1, None], "at": [datetime(2026, 1, 1, tzinfo=UTC), None], "v": [[1.5], None]})
    write(tmp_path / "t.ffs", table, table.schema, nulls="mask", formatName="reading")
    assert pbio.read_arrow(tmp_path).to_pylist() == table.to_pylist()
    assert [form.name for form in pbio.read_formats(tmp_path)] == ["reading"]


def test_options_are_those_of_spark_and_values_may_be_objects(tmp_path: Path) -> None:
    path = write(tmp_path / "loads.ffs")
    assert list(pbio.read(path, filter="{ return input.load > 1; }", columns=["cpus"])) == [{"cpus": 8}]
    wanted = pbio.record("Load", [pbio.Field("cpus", pbio.INT64), pbio.Field("load", pbio.FLOAT64)])
    read = pbio.read_arrow(path, readerFormat=wanted, mismatchThreshold=0.9, fieldAliases={"average": "load"})
    assert read.schema.names == ["cpus", "average"]
    assert read.schema.field("cpus").type == pa.int64()
    assert list(pbio.read(path, formatName=["Other", "Load"], recursiveFileLookup=True)) == ROWS
    schema = pa.schema([("load", pa.float64()), ("extra", pa.int32())])
    assert error_of(lambda: pbio.read_arrow(path, schema=schema)).code == "PBIO_UNFILLED"
    assert pbio.read_arrow(path, schema=schema, onUnfilled="ignore")["extra"].to_pylist() == [None, None]


def test_a_new_version_reaches_old_readers(tmp_path: Path) -> None:
    old = pbio.Format.of(pbio.parse_record({"T": {"celsius": "float64"}}))
    new = pbio.Format.of(pbio.parse_record({"T": {"kelvin": "float64"}}), "sparc")
    new = pbio.evolve(old, new, "{ old.celsius = new.kelvin - 273.15; }")
    write(tmp_path / "new.ffs", {"kelvin": 300.0}, new, beside=[old])
    (row,) = pbio.read(tmp_path, readerFormat=old.record)
    assert row == {"celsius": pytest.approx(26.85)}


def test_a_file_is_continued(tmp_path: Path) -> None:
    for _ in range(3):
        write(tmp_path / "grows.ffs", append=True)
    assert list(pbio.read(tmp_path)) == 3 * ROWS
    write(tmp_path / "grows.ffs")
    assert list(pbio.read(tmp_path)) == ROWS


def test_flushed_rows_can_be_read_while_the_file_is_open(tmp_path: Path) -> None:
    with pbio.open_writer(tmp_path / "open.ffs", LOAD) as writer:
        writer.write(ROWS)
        assert list(pbio.read(tmp_path)) == []
        writer.flush()
        assert list(pbio.read(tmp_path)) == ROWS


def test_a_bad_row_is_named_and_those_before_it_stay(tmp_path: Path) -> None:
    rows: list[Any] = [ROWS[0]] * 1503
    rows[1207] = {"host": "a", "load": "much", "cpus": 1}
    error = error_of(lambda: write(tmp_path / "bad.ffs", rows))
    assert error.code == "PBIO_BAD_VALUE"
    assert error.reason.startswith("row 1207: ")
    assert len(list(pbio.read(tmp_path))) == 1207
    assert "row 0: 'cpus' is None" in str(error_of(lambda: write(tmp_path / "x.ffs", {**ROWS[0], "cpus": None})))
    assert "did you mean 'host'?" in str(error_of(lambda: write(tmp_path / "x.ffs", {"hots": "a"})))


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        (lambda path: pbio.read_arrow(path, formatNam="x"), "PBIO_UNKNOWN_OPTION", "did you mean 'formatName'?"),
        (lambda path: pbio.read_arrow(path, columns=["lode"]), "PBIO_UNKNOWN_COLUMN", "did you mean 'load'?"),
        (lambda path: pbio.read_arrow(path, colums=["load"]), "PBIO_UNKNOWN_OPTION", "did you mean 'columns'?"),
        (lambda path: pbio.open_writer(path / "a.ffs", LOAD, apend=True), "PBIO_UNKNOWN_OPTION", "mean 'append'?"),
        (lambda path: pbio.open_writer(LOAD, path / "a.ffs"), "PBIO_BAD_PATH", "the path comes first"),
        (lambda path: pbio.read_arrow(pbio.ChannelSpace.create(path / "s").root), "PBIO_CHANNEL_SPACE", "subscribe("),
        (
            lambda path: pbio.ChannelSpace.create(path / "s").create_channel(LOAD, "loads"),  # type: ignore[arg-type]
            "PBIO_BAD_OPTION",
            "the name comes first",
        ),
        (lambda path: pbio.read_arrow(path, columns="load"), "PBIO_BAD_OPTION", "give a list"),
        (lambda path: pbio.read_arrow(path, schema="load DOUBLE"), "PBIO_BAD_OPTION", "columns=[...]"),
        (lambda path: pbio.read_arrow(path, mode=object()), "PBIO_BAD_OPTION", "cannot be of type object"),
        (lambda path: pbio.read_arrow(path, channel="loads"), "PBIO_BAD_OPTION", "ChannelSpace.open"),
        (
            lambda path: (
                write(path / "t.ffs", [], {"t": {"day": "date", "at": "timestamp"}})
                and pbio.read_arrow(path / "t.ffs", filter='{ return input.day > "2026-01-01"; }')
            ),
            "PBIO_BAD_PROGRAM",
            "the days since 1970-01-01",
        ),
        (
            lambda path: (
                write(path / "t.ffs", [], {"t": {"day": "date", "at": "timestamp"}})
                and pbio.read_arrow(path / "t.ffs", filter='{ return "2026-01-01" == input.at; }')
            ),
            "PBIO_BAD_PROGRAM",
            "the microseconds since 1970-01-01, UTC",
        ),
        (lambda path: pbio.read_arrow([]), "PBIO_NO_PATH", "name a file"),
        (lambda path: pbio.read_arrow(7), "PBIO_BAD_PATH", "give a str or a Path"),
        (lambda path: pbio.read_arrow(path / "no"), "PBIO_PATH_NOT_FOUND", "no"),
        (lambda path: pbio.open_writer(path / "no/a.ffs", LOAD), "PBIO_PATH_NOT_FOUND", "make it first"),
        (lambda path: pbio.open_writer(path / "a.ffs", 7), "PBIO_BAD_TYPE", "give a Record"),
        (lambda path: pbio.open_writer(path / "a.ffs", LOAD, checksums=True), "PBIO_BAD_OPTION", "single file"),
        (lambda path: pbio.open_writer(path / "a.ffs", LOAD, nulls="mask"), "PBIO_BAD_OPTION", "Arrow schema"),
        (lambda path: pbio.open_writer(path / "a.ffs", LOAD, Nulls="mask"), "PBIO_BAD_OPTION", "'*float64' in JSON"),
        (lambda path: pbio.Format.of(LOAD), "PBIO_BAD_TYPE", "parse_record"),
        (
            lambda path: pbio.Format.of(pbio.parse_record(LOAD), "spark"),
            "PBIO_UNKNOWN_MACHINE",
            "did you mean 'sparc'?",
        ),
        (lambda path: pbio.Format.of(pbio.parse_record(LOAD), 7), "PBIO_UNKNOWN_MACHINE", "sparc"),
    ],
)
def test_misuse_says_what_to_do(tmp_path: Path, call: Callable[[Path], Any], code: str, said: str) -> None:
    write(tmp_path / "loads.ffs")
    error = error_of(lambda: call(tmp_path))
    assert error.code == code
    assert said in str(error)
    assert not (tmp_path / "a.ffs").exists()


def test_every_name_is_there() -> None:
    assert all(hasattr(pbio, name) for name in pbio.__all__)
    assert set(pbio.__all__) <= set(dir(pbio))


WITHOUT = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("pyspark", "hypothesis") else find(name, package)
sys.modules["pyspark"] = sys.modules["hypothesis"] = None
from pbio_spark import *
import pbio_spark
assert record and "from_pbio" not in globals()
try:
    pbio_spark.from_pbio
except PbioError as error:
    print(error.code, error.hint)
"""


def test_everything_is_imported_from_what_is_installed() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.stdout == "PBIO_MISSING_EXTRA pip install 'pbio-spark[spark]'\n", done.stderr


def test_files_need_no_spark() -> None:
    assert "pyspark" not in loaded_by("pbio_spark.tables")


def test_random_records_make_the_way(tmp_path: Path) -> None:
    """What `pbio_spark.testing` is for, as a user has it: records of any format, through a file."""
    program = """
import sys
from hypothesis import given, settings
import pbio_spark as pbio
from pbio_spark.testing import strategies

@settings(max_examples=20, database=None, deadline=None)
@given(strategies.formats().flatmap(lambda form: strategies.values(form).map(lambda row: (form, row))))
def check(pair):
    form, row = pair
    assert strategies.same_values(pbio.decode(form, pbio.encode(form, row)), row)

check()
"""
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[1], check=True)


DAYS = pa.schema([("n", pa.int32()), ("at", pa.struct([("day", pa.date32())]))])


def days(path: Path, *stored: int) -> Path:
    at = pa.StructArray.from_arrays([pa.array(stored, pa.date32())], fields=list(DAYS.field("at").type))
    return write(path, pa.table([pa.array(range(len(stored)), pa.int32()), at], schema=DAYS), DAYS)


def test_a_date_that_python_lacks_is_a_bad_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    days(tmp_path / "a.ffs", 0, 1)
    bad = days(tmp_path / "b.ffs", 2, 2932897, 3)
    numbers = [row["n"] for row in pbio.read(tmp_path, mode="DROPMALFORMED")]
    assert (numbers, "1 record dropped" in caplog.text) == ([0, 1, 0, 2], True)
    for options in ({}, {"schema": DAYS}, {"columns": ["at"]}, {"metadataColumn": "m", "mode": "failfast"}):
        rows = pbio.read(tmp_path, **options)
        assert [next(rows)["at"]["day"].day for _ in range(3)] == [1, 2, 3]
        error = error_of(lambda rows=rows: next(rows))  # type: ignore[misc]
        place = str(error.file).removeprefix("file://"), error.record, error.field
        assert (error.code, *place) == ("PBIO_BAD_VALUE", str(bad), 1, "$.at.day")
        assert "10000-01-01" in error.reason
    permitted = list(pbio.read(tmp_path, mode="PERMISSIVE"))[3]
    assert (permitted["n"], permitted["at"]) == (1, None)
    assert "10000-01-01" in permitted["_corrupt_record"]["reason"]
    assert pbio.read_arrow(tmp_path).num_rows == 5


def test_a_writer_that_is_never_closed_says_what_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = pbio.open_writer(tmp_path / "x.ffs", {"a": {"id": "int"}})
    writer.write([{"id": 1}] * 5)
    del writer
    gc.collect()
    assert "x.ffs: the writer was never closed: 5 rows are lost" in caplog.text


def test_an_unknown_field_is_refused_as_it_is_written(tmp_path: Path) -> None:
    with pbio.open_writer(tmp_path / "x.ffs", {"a": {"id": "int", "temp": "float64"}}) as writer:
        writer.write({"id": 1, "temp": 0.5})
        with pytest.raises(pbio.PbioError, match=r"(?s)PBIO_UNKNOWN_COLUMN.*row 1.*did you mean 'temp'"):
            writer.write({"id": 1, "tmp": 2.0})
    assert [row["id"] for row in pbio.read(tmp_path / "x.ffs")] == [1]


@pytest.mark.parametrize(
    ("paths", "type_", "hint"),
    [
        (b"a.ffs", "bytes", "give a str or a Path"),
        (BytesIO(), "BytesIO", "file.name"),
        ([7], "int", "give a str or a Path"),
    ],
    ids=["bytes", "file", "number"],
)
def test_a_value_that_is_not_a_path_is_named(paths: Any, type_: str, hint: str) -> None:
    with pytest.raises(pbio.PbioError, match=f"a path cannot be of type {type_}") as caught:
        pbio.read_batches(paths)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("option", ["filter", "transform", "FILTER"])
@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (b"{ return 1; }", "{ return input.x > 3; }"),
        (len, "{ return"),
        (Path("f.c"), "path.read_text()"),
        (True, "{ ret"),
    ],
    ids=["bytes", "function", "path", "truth"],
)
def test_a_program_is_text(tmp_path: Path, option: str, value: Any, hint: str) -> None:
    with pytest.raises(pbio.PbioError, match="PBIO_BAD_OPTION") as caught:
        pbio.read_batches(tmp_path, **{option: value})
    assert hint in (caught.value.hint or "")


def test_a_table_or_a_frame_is_not_a_type_but_has_one(tmp_path: Path) -> None:
    for given, hint in (
        (pa.table({"a": [1]}), "table.schema"),
        (pd.DataFrame({"a": [1]}), "Schema.from_pandas(frame)"),
    ):
        with pytest.raises(pbio.PbioError, match="PBIO_BAD_TYPE") as caught:
            pbio.open_writer(tmp_path / "x.ffs", given)
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "rows",
    [
        [{}, {}],
        pa.table({"other": [1, 2]}).select([]),
        pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([]))),
    ],
    ids=["rows", "table", "batch"],
)
def test_records_without_fields_are_rows_too(tmp_path: Path, rows: Any) -> None:
    path = tmp_path / "ticks.ffs"
    with pbio.open_writer(path, {"tick": {}}) as writer:
        writer.write(rows)
    assert list(pbio.read(path)) == [{}, {}]
    assert pbio.read_arrow(path, metadataColumn="at").num_rows == pbio.read_arrow(path).num_rows == 2
