"""Bad records and damaged files, by mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pbio_spark.errors import PbioError
from pbio_spark.wire import encode
from tests.source.files.test_reader import WIDE
from tests.source.local import load
from tests.source.samples import MIDDLE, formatted, reading, write_readings


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A good file, and one with a good record, a bad one, and damage after them."""
    write_readings(tmp_path / "1", MIDDLE, range(2))
    path = write_readings(tmp_path / "2", MIDDLE, range(10, 12))
    data = bytearray(path.read_bytes())
    size = len(encode(formatted(MIDDLE), reading(MIDDLE, 11)))
    data[len(data) - size + 32] = 0xFF  # the last record's pointer to its text
    path.write_bytes(bytes(data) + b"\xee" * 30)
    return tmp_path


def test_failfast(damaged: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_ITEM\]"):
        load(damaged)
    path = damaged / "2"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(
        PbioError, match=rf"\[PBIO_BAD_POINTER\](.|\n)*{damaged}/2(, record \d+)?, offset \d+(.|\n)*reading(.|\n)*unit"
    ):
        load(damaged, schema=WIDE)


def test_permissive(damaged: Path) -> None:
    rows = load(damaged, mode="PERMISSIVE")
    assert [row["n"] for row in rows] == [0, 1, 10, None, None]
    assert [row["_corrupt_record"] is None for row in rows] == [True, True, True, False, False]
    bad, rest = (row["_corrupt_record"] for row in rows[3:])
    assert bad["reason"].startswith("[PBIO_BAD_POINTER]")
    assert bad["format_id"] == formatted(MIDDLE).id.hex()
    assert bad["bytes"].startswith(formatted(MIDDLE).id)
    assert rest["reason"].startswith("[PBIO_BAD_ITEM]")
    assert rest["bytes"] == b"\xee" * 30
    assert rest["offset"] + rest["length"] == (damaged / "2").stat().st_size


def test_corrupt_columns_of_other_types(damaged: Path) -> None:
    for type_, value in (
        (BinaryType(), b"\xee" * 30),
        (StructType([StructField("bytes", BinaryType())]), {"bytes": b"\xee" * 30}),
    ):
        schema = StructType([StructField("n", LongType()), StructField("bad", type_)])
        rows = load(damaged, schema=schema, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
        assert rows[-1] == {"n": None, "bad": value}
    text = StructType([StructField("_corrupt_record", StringType())])
    with pytest.raises(PbioError, match=r"\[PBIO_INCOMPATIBLE_TYPE\](.|\n)*BINARY"):
        load(damaged, schema=text, mode="PERMISSIVE")


def test_dropmalformed(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert [row["n"] for row in load(damaged, mode="DROPMALFORMED")] == [0, 1, 10]
    assert "2 bad records dropped" in caplog.text


def test_ignore_corrupt_files(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    (damaged / "3").write_bytes(b"no such file format")
    for mode in ("FAILFAST", "PERMISSIVE"):
        with pytest.raises(PbioError, match=r"\[PBIO_NOT_FFS\]"):
            load(damaged / "3", damaged / "1", mode=mode)
    rows = load(damaged, ignoreCorruptFiles=True, mode="DROPMALFORMED")
    assert [row["n"] for row in rows] == [0, 1, 10]
    assert "PBIO_NOT_FFS" in caplog.text
    assert "PBIO_BAD_ITEM" in caplog.text


def test_a_tail_that_is_cut_off(tmp_path: Path) -> None:
    path = write_readings(tmp_path / "a", MIDDLE, range(3))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PbioError, match=r"\[PBIO_TRUNCATED\]"):
        load(path)
    for tail in ("ignore", "wait"):
        assert [row["n"] for row in load(path, truncatedTail=tail)] == [0, 1]
    rows = load(path, mode="PERMISSIVE")
    assert [row["n"] for row in rows] == [0, 1, None]


@pytest.mark.spark
def test_spark_shows_our_errors(spark: SparkSession, damaged: Path) -> None:
    with pytest.raises(PySparkException, match=r"\[PBIO_UNKNOWN_OPTION\](.|\n)*did you mean 'mode'"):
        spark.read.format("pbio").option("mod", "x").load(str(damaged))
    with pytest.raises(PySparkException, match=r"\[PBIO_NO_PATH\](.|\n)*CREATE TEMPORARY VIEW"):
        spark.read.format("pbio").load()
    path = damaged / "2"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PySparkException, match=r"\[PBIO_BAD_POINTER\](.|\n)*field \$\.unit"):
        spark.read.format("pbio").schema("n int, unit string").load(str(damaged)).collect()
