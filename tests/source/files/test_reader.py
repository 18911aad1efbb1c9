"""Reading files in batches: versions, names, columns, bad files. Most of it without a JVM (`local`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from ecode.types import CHAR, INT32, STRING, UINT64, Array, Field, Ref, Struct, record
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FolderStore
from pbio_spark.wire import FileWriter, encode
from tests.source.local import load, plan, source
from tests.source.samples import MIDDLE, NEW, OLD, OTHER, formatted, reading, write_readings

WIDE = StructType([StructField("n", LongType()), StructField("unit", StringType())])


@pytest.fixture
def generations(tmp_path: Path) -> Path:
    """Three generations of a sender on three machines."""
    write_readings(tmp_path / "1", OLD, range(2), "be32")
    write_readings(tmp_path / "2", MIDDLE, range(2, 4), "le64")
    write_readings(tmp_path / "3", NEW, range(4, 6), "be64")
    return tmp_path


def file_of(path: Path, *records: tuple[Any, dict[str, Any]]) -> Path:
    with FileWriter(path) as writer:
        for form, values in records:
            writer.data(form, values)
    return path


# Versions and names.


def test_the_union_of_all_versions(generations: Path) -> None:
    assert load(generations) == [
        {"n": 0, "unit": None, "count": None, "v": None},
        {"n": 1, "unit": None, "count": None, "v": None},
        {"n": 2, "unit": "u2", "count": None, "v": None},
        {"n": 3, "unit": "u3", "count": None, "v": None},
        {"n": 4, "unit": "u4", "count": 1, "v": [4.0]},
        {"n": 5, "unit": "u5", "count": 2, "v": [5.0, 5.5]},
    ]


def test_the_version_met_last(generations: Path) -> None:
    (generations / "3").unlink()
    assert load(generations, mergeSchema=False)[1:3] == [{"n": 1, "unit": None}, {"n": 2, "unit": "u2"}]


def test_a_schema_is_a_projection_and_loses_no_row(generations: Path) -> None:
    schema = StructType(
        [StructField("v", ArrayType(DoubleType())), StructField("N", LongType()), StructField("x", LongType())]
    )
    rows = load(generations, schema=schema, onUnfilled="ignore")
    assert rows[3:5] == [{"v": None, "N": 3, "x": None}, {"v": [4.0], "N": 4, "x": None}]


def test_impossible_columns_fail_in_planning_with_their_path(generations: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_INCOMPATIBLE_TYPE\](.|\n)*field \$\.unit"):
        plan(generations, schema=StructType([StructField("unit", LongType())]))


def test_several_names_are_listed_with_counts(generations: Path) -> None:
    write_readings(generations / "4", OTHER, range(3))
    with pytest.raises(PbioError) as caught:
        load(generations)
    assert caught.value.code == "PBIO_SEVERAL_FORMATS"
    assert "reading (6 records), event (3 records)" in caught.value.reason
    assert "formatName" in (caught.value.hint or "")
    assert [row["n"] for row in load(generations, formatName="event")] == [0, 1, 2]
    assert len(load(generations, formatName="event,reading")) == 9
    assert [row["n"] for row in load(generations, formatId=formatted(MIDDLE, "le64").id.hex())] == [2, 3]


def test_a_name_that_is_not_there(generations: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_NO_SCHEMA\](.|\n)*did you mean 'reading'"):
        load(generations, formatName="readings")


def test_the_reader_meets_a_second_name_after_the_head(tmp_path: Path) -> None:
    long = record("reading", [Field("n", INT32), Field("t", STRING)])
    records = [(formatted(long), {"n": i, "t": "x" * 500_000}) for i in range(4)]
    file_of(tmp_path / "a", *records, (formatted(OTHER), {"n": 9}))
    with pytest.raises(PbioError, match=r"\[PBIO_SEVERAL_FORMATS\]"):
        load(tmp_path, schema=StructType([StructField("n", LongType())]))
    write_readings(tmp_path / "b", OTHER, range(1))
    with pytest.raises(PbioError, match=r"reading \(at least"):
        load(tmp_path, scanLimit=1)


def test_columns_beyond_what_planning_walked_are_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = record("reading", [Field("n", INT32), Field("t", STRING)])
    point = Struct("point", (Field("x", INT32),))
    fields = [Field("n", INT32), Field("t", STRING), Field("at", Ref("point")), Field("more", INT32)]
    inner = record("reading", fields, [point])
    records = [(formatted(long), {"n": i, "t": "x" * 500_000}) for i in range(4)]
    last = {"n": 9, "t": "", "at": {"x": 1}, "more": 2}
    for name in "ab":
        file_of(tmp_path / name, *records, (formatted(inner), last), (formatted(inner, "be32"), last))
    rows = load(tmp_path, scanLimit=1)
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 9, 9] * 2
    assert set(rows[0]) == {"n", "t"}
    (told,) = [one.getMessage() for one in caplog.records if "scanLimit" in one.getMessage()]
    assert told.startswith(str(tmp_path / "a"))
    assert "lack, because planning stopped before them: at, more (format reading)" in told
    load(tmp_path, scanLimit=1)
    assert len([one for one in caplog.records if "scanLimit" in one.getMessage()]) == 2
    caplog.clear()
    load(tmp_path)
    load(tmp_path, schema=StructType([StructField("n", LongType())]), scanLimit=1)
    assert "scanLimit" not in caplog.text


def test_a_reader_format_need_not_have_records_nor_be_read(tmp_path: Path) -> None:
    with FileWriter(tmp_path / "a") as writer:
        writer.describe(formatted(MIDDLE))
        writer.data(formatted(OLD), {"n": 1})
        writer.data(formatted(OTHER), {"n": 2})
    there = formatted(MIDDLE).id.hex()
    assert load(tmp_path, formatName="reading", readerFormat=there) == [{"n": 1, "unit": None}]
    assert load(tmp_path, formatName="reading", readerFormat="reading") == [{"n": 1}]
    other = {"readerFormat": "event", "onReject": "drop"}
    assert load(tmp_path, formatName="reading", **other) == []
    assert load(tmp_path, formatId=formatted(OTHER).id.hex(), readerFormat=there, onReject="drop") == []
    with pytest.raises(PbioError, match=r"\[PBIO_UNKNOWN_FORMAT\](.|\n)*did you mean 'event'"):
        load(tmp_path, formatName="reading", readerFormat="evnt")


def test_a_name_in_latin_1_is_written_as_messages_show_it(tmp_path: Path) -> None:
    latin = "Gr\udcf6\udcdfe"
    named = formatted(record(latin, [Field("n", INT32)]))
    file_of(tmp_path / "a", (named, {"n": 1}), (formatted(OTHER), {"n": 2}))
    with pytest.raises(PbioError, match=r"Gr\\xf6\\xdfe \(1 records\)"):
        load(tmp_path)
    assert load(tmp_path, formatName=r"Gr\xf6\xdfe") == [{"n": 1}]
    assert load(tmp_path, formatName=r"event,Gr\xf6\xdfe") == [{"n": 1}, {"n": 2}]
    assert load(tmp_path, formatName=r"Gr\xf6\xdfe", readerFormat=r"Gr\xf6\xdfe") == [{"n": 1}]


def test_two_formats_with_one_id(tmp_path: Path) -> None:
    """Old IDs are numbers from servers, and two servers may give the same one to different formats."""
    forms = []
    for type_ in (OLD, record("reading", [Field("m", INT32)])):
        form = formatted(type_)
        forms.append(type(form).from_body(form.body, bytes.fromhex("0000000700000000")))
    file_of(tmp_path / "a", (forms[0], {"n": 1}))
    file_of(tmp_path / "b", (forms[1], {"m": 2}))
    assert load(tmp_path) == [{"n": 1, "m": None}, {"n": None, "m": 2}]


def test_formats_from_a_store(tmp_path: Path) -> None:
    write_readings(tmp_path / "data" / "a", OLD, range(1))
    new = encode(formatted(MIDDLE), reading(MIDDLE, 1))
    item = (3 << 24).to_bytes(4) + len(new).to_bytes(4) + new
    with (tmp_path / "data" / "a").open("ab") as file:
        file.write(item)
    with pytest.raises(PbioError, match=r"\[PBIO_UNKNOWN_FORMAT\](.|\n)*formatStore"):
        load(tmp_path / "data")
    FolderStore(str(tmp_path)).put(formatted(MIDDLE))
    with pytest.raises(PbioError, match=r"\[PBIO_UNKNOWN_FORMAT\](.|\n)*which is not in .*other") as caught:
        load(tmp_path / "data", formatStore=tmp_path / "other")
    assert "name its store" not in str(caught.value)
    assert load(tmp_path / "data", formatStore=tmp_path) == [{"n": 0, "unit": None}, {"n": 1, "unit": "u1"}]


# Columns.


def test_aliases_and_defaults(generations: Path) -> None:
    rows = load(generations, fieldAliases='{"number": "n"}', defaults='{"unit": "K", "count": -1}')
    assert rows[1] == {"number": 1, "unit": "K", "count": -1, "v": None}
    assert rows[5]["number"] == 5
    typed = StructType([StructField("id", LongType())])
    assert load(generations, schema=typed, fieldAliases='{"id": "n"}')[5] == {"id": 5}


def test_names_that_differ_in_case(tmp_path: Path) -> None:
    form = formatted(record("reading", [Field("a", INT32), Field("A", INT32)]))
    file_of(tmp_path / "x", (form, {"a": 1, "A": 2}))
    with pytest.raises(PbioError, match=r"\[PBIO_NAME_COLLISION\](.|\n)*fieldAliases(.|\n)*spark.sql.caseSensitive"):
        load(tmp_path)
    assert load(tmp_path, fieldAliases='{"b": "A"}') == [{"a": 1, "b": 2}]
    both = StructType([StructField("A", IntegerType()), StructField("a", IntegerType())])
    assert load(tmp_path, schema=both) == [{"A": 2, "a": 1}]


@pytest.mark.parametrize("options", [{"metadataColumn": "N"}, {"mode": "permissive", "columnNameOfCorruptRecord": "n"}])
def test_special_columns_may_not_be_fields(generations: Path, options: dict[str, str]) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_NAME_COLLISION\]"):
        load(generations, **options)


def test_folders_may_not_be_fields(tmp_path: Path) -> None:
    write_readings(tmp_path / "n=1" / "a", OLD, range(1))
    with pytest.raises(PbioError, match=r"\[PBIO_NAME_COLLISION\]"):
        load(tmp_path)
    with pytest.raises(PbioError, match=r"\[PBIO_NAME_COLLISION\]"):
        load(tmp_path, schema=StructType([StructField("n", LongType())]))


def test_metadata(generations: Path) -> None:
    row = load(generations, metadataColumn="_m")[3]["_m"]
    assert Path(row["file_path"]) == generations / "2"
    assert (row["ordinal"], row["format_name"], row["machine"]) == (1, "reading", "le64")
    assert row["format_id"] == formatted(MIDDLE, "le64").id.hex()
    assert row["offset"] + row["length"] == (generations / "2").stat().st_size
    some = StructType([StructField("_m", StructType([StructField("ordinal", LongType())]))])
    assert load(generations, schema=some, metadataColumn="_m")[3] == {"_m": {"ordinal": 1}}
    wrong = StructType([StructField("_m", StringType())])
    with pytest.raises(
        PbioError, match=r"\[PBIO_INCOMPATIBLE_TYPE\](.|\n)*metadataColumn(.|\n)*STRUCT<file_path: STRING"
    ):
        load(generations, schema=wrong, metadataColumn="_m")


def test_how_strings_and_unsigned_longs_are_shown(tmp_path: Path) -> None:
    form = formatted(record("r", [Field("u", UINT64), Field("c", Array(CHAR, (4,))), Field("s", STRING)]))
    file_of(tmp_path / "x", (form, {"u": 2**64 - 1, "c": [0xE9, 0, 0, 65], "s": b"\xe9"}))
    shown = load(tmp_path, encoding="iso-8859-1", unsignedLongAs="binary")
    assert shown == [{"u": b"\xff" * 8, "c": "é", "s": "é"}]
    shown = load(tmp_path, encoding="binary", charArraysAs="array")
    assert shown == [{"u": 2**64 - 1, "c": [0xE9, 0, 0, 65], "s": b"\xe9"}]
    for bad in ({"unsignedLongAs": "long", "encoding": "binary"}, {"encoding": "utf-8"}):
        with pytest.raises(PbioError, match=r"\[PBIO_(VALUE_BEYOND_TYPE|BAD_STRING)\]"):
            load(tmp_path, **bad)


def test_a_null_in_a_column_that_is_not_null(generations: Path) -> None:
    schema = StructType([StructField("unit", StringType(), nullable=False)])
    with pytest.raises(PbioError, match=r"\[PBIO_UNEXPECTED_NULL\](.|\n)*\$\.unit"):
        load(generations, schema=schema)
    assert load(generations, schema=schema, defaults='{"unit": ""}')[0] == {"unit": ""}


# Files that vanish.


def test_files_that_vanish(generations: Path) -> None:
    for ignore in (False, True):
        reader = plan(generations, schema=WIDE, ignoreMissingFiles=ignore)
        os.rename(generations / "2", generations.parent / "gone")
        (partition,) = reader.partitions()
        if ignore:
            assert sum(batch.num_rows for batch in reader.read(partition)) == 4
        else:
            with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\].*vanished"):
                list(reader.read(partition))
        os.rename(generations.parent / "gone", generations / "2")


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_NO_SCHEMA\]"):
        load(tmp_path)
    assert load(tmp_path, schema=WIDE) == []
    (tmp_path / "empty").touch()
    file_of(tmp_path / "magic")
    assert load(tmp_path, schema=WIDE) == []
    write_readings(tmp_path / "x", OLD, range(1))
    assert load(tmp_path) == [{"n": 0}]


# What Spark and users see.


def test_many_small_files_make_few_tasks_and_batches(tmp_path: Path) -> None:
    for i in range(20):
        write_readings(tmp_path / f"{i:02}", MIDDLE, range(3 * i, 3 * i + 3))
    reader = plan(tmp_path)
    (partition,) = reader.partitions()
    (batch,) = reader.read(partition)
    assert batch.column("n").to_pylist() == list(range(60))


def test_options_are_checked() -> None:
    with pytest.raises(PbioError, match=r"^\[PBIO_UNKNOWN_OPTION\]"):
        source("/nowhere", formatname2="x").schema()
    with pytest.raises(PbioError, match="'maxFilesPerTrigger' does not apply to read"):
        source("/nowhere", maxFilesPerTrigger=1).reader(WIDE)


def test_the_shim_is_light_and_never_fails() -> None:
    code = (
        "import sys, pyspark_pbio; print(pyspark_pbio.DefaultSource.name(), {'numba', 'llvmlite'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "pbio set()"
    code = "import sys; sys.modules['pyspark'] = None; import pyspark_pbio"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.spark
def test_spark_reads_views_and_several_paths_and_counts(spark: SparkSession, generations: Path) -> None:
    frame = spark.read.format("pbio").load([str(generations / "1"), str(generations / "3")])
    assert [row["n"] for row in frame.collect()] == [0, 1, 4, 5]
    assert spark.read.format("pbio").load(str(generations / "[12]")).count() == 4
    assert spark.read.format("pbio").schema(StructType([])).load(str(generations)).count() == 6
    spark.sql(f"create temporary view readings using pbio options (path '{generations}', metadataColumn '_m')")
    (row,) = spark.sql("select sum(n) s, count(distinct _m.format_id) f from readings").collect()
    assert (row["s"], row["f"]) == (15, 3)
