"""Overwrites: the files that they remove and keep, the folders that they refuse, the partitions that they replace."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pbio_spark.errors import PbioError
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.options.options import Options
from pbio_spark.source.write.folders import FolderColumns
from pbio_spark.source.write.overwrite import replaced_files
from pbio_spark.source.write.writer import OVERWRITES, PbioWriter
from tests.odd.permissions import bound_by_permissions
from tests.source.by_hand import save
from tests.source.local import load
from tests.source.samples import OLD, write_readings

DYNAMIC = {OVERWRITES: "DYNAMIC"}


def rows(*values: Any, **types: pa.DataType) -> pa.RecordBatch:
    """A batch of columns n, k, j as far as the values have them."""
    names = ("n", "k", "j")[: len(values[0]) if values else len(types)]
    defaults = {"n": pa.int64(), "k": pa.string(), "j": pa.string()} | types
    columns = [pa.array([value[i] for value in values], defaults[name]) for i, name in enumerate(names)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([(name, defaults[name]) for name in names]))


def found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def numbers(folder: Path, **options: Any) -> list[Any]:
    return sorted(tuple(row.values()) for row in load(folder, **options))


def test_what_is_not_ours_is_left_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, rows((1,)), rows((2,)))
    (data,) = list(tmp_path.glob("part-00000*"))
    (tmp_path / f".{data.name}.outline").write_text("{}")
    (tmp_path / "notes.txt").write_text("years of work")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.ffs").write_bytes(data.read_bytes())
    with caplog.at_level(logging.WARNING):
        save(tmp_path, rows((3,)), overwrite=True)
    (new,) = list(tmp_path.glob("part-*"))
    assert found(tmp_path) == sorted([".git/x.ffs", "_SUCCESS", "notes.txt", new.name])
    assert "notes.txt" in caplog.text
    (tmp_path / "notes.txt").unlink()
    assert numbers(tmp_path) == [(3,)]


@pytest.mark.parametrize("names", [["thesis.txt"], ["a.ffs", "b.ffs"], ["sub/a.txt"], ["k=1/x.csv"]])
def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("no records")
    before = found(tmp_path)
    with pytest.raises(PbioError, match=rf"\[PBIO_NOT_EMPTY\].*{names[0]}"):
        save(tmp_path, rows((1,)), overwrite=True)
    assert found(tmp_path) == before


def test_a_folder_of_folders_that_the_source_wrote_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save(tmp_path / name, rows((1,)))
    before = found(tmp_path)
    with pytest.raises(PbioError, match=r"\[PBIO_NOT_EMPTY\]"):
        save(tmp_path, rows((1,)), overwrite=True)
    assert found(tmp_path) == before


def test_records_that_would_stay_among_the_new_ones(tmp_path: Path) -> None:
    save(tmp_path, rows((1,)), rows((2,)))
    write_readings(tmp_path / "sensor", OLD, range(3))
    with pytest.raises(PbioError, match=r"\[PBIO_NOT_EMPTY\].*sensor"):
        save(tmp_path, rows((1,)), overwrite=True)


def test_a_folder_that_comes_to_hold_others_meanwhile(tmp_path: Path) -> None:
    writer = PbioWriter(str(tmp_path), Options(), rows((1,)).schema, overwrite=True)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(PbioError, match=r"\[PBIO_NOT_EMPTY\]"):
        writer.commit([])
    assert (tmp_path / "thesis.txt").exists()


def test_records_behind_a_link_are_neither_removed_nor_left_among_the_new_ones(tmp_path: Path) -> None:
    save(tmp_path / "other", rows((1,)), rows((2,)))
    save(tmp_path / "out", rows((1, "a")), rows((2, "a")), partitionColumns="k")
    (tmp_path / "out" / "k=b").symlink_to(tmp_path / "other")
    with pytest.raises(PbioError, match=r"PBIO_NOT_EMPTY.*does not follow links.*k=b"):
        save(tmp_path / "out", rows((3, "a")), overwrite=True, partitionColumns="k")
    assert numbers(tmp_path / "other") == [(1,), (2,)]
    assert sorted(row["n"] for row in load(tmp_path / "out")) == [1, 1, 2, 2]


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, overwrite in (("file", True), ("file", False), ("file/sub", True), ("file/sub", False)):
        with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\].*must be a folder"):
            save(tmp_path / path, rows((1,)), overwrite=overwrite)


def test_colons_name_no_other_folder(tmp_path: Path) -> None:
    save(tmp_path / "x", rows((1,)))
    save(tmp_path / "x::y", rows((2,)), overwrite=True)
    assert (numbers(tmp_path / "x"), numbers(tmp_path / "x::y")) == ([(1,)], [(2,)])


ODD = "a::b%20?#[x]*{y} \t\n:é"


@pytest.mark.parametrize("root", ["", "memory://odd"])
def test_odd_names_are_plain(tmp_path: Path, root: str) -> None:
    odd = ODD.replace("::", ":") if root else ODD  # fsspec's own file system in memory has another meaning for it
    folder = f"{root or tmp_path}/{odd}"
    for overwrite in (False, True):
        save(folder, rows((1, odd)), rows((2, odd)), overwrite=overwrite, partitionColumns="k", maxRecordsPerFile=1)
        assert sorted(row["n"] for row in load(folder)) == [1, 2]
        assert {row["k"] for row in load(folder)} == {odd}
    fs, _ = fsspec.url_to_fs(root or "/")
    assert [path for path in fs.find(folder if not root else f"/odd/{odd}") if "_staging" in path] == []


# --- partitions


@pytest.mark.parametrize(("options", "conf"), [({"partitionOverwriteMode": "Dynamic"}, {}), ({}, DYNAMIC)])
def test_only_partitions_that_are_written_are_replaced(
    tmp_path: Path, options: dict[str, str], conf: dict[str, str]
) -> None:
    options["partitionColumns"] = "k"
    save(tmp_path, rows((1, "a"), (2, "b")), rows((3, None), (4, "c")), **options)
    save(tmp_path, rows((5, "b")), rows((6, None)), overwrite=True, conf=conf, **options)
    assert sorted(load(tmp_path), key=lambda row: row["n"]) == [
        {"n": 1, "k": "a"},
        {"n": 4, "k": "c"},
        {"n": 5, "k": "b"},
        {"n": 6, "k": None},
    ]
    save(tmp_path, rows(n=pa.int64(), k=pa.string()), overwrite=True, conf=conf, **options)
    assert len(load(tmp_path)) == 4
    save(tmp_path, rows((7, "b")), overwrite=True, conf={}, **{**options, "partitionOverwriteMode": "static"})
    assert load(tmp_path) == [{"n": 7, "k": "b"}]


def test_the_option_has_the_word_before_the_session(tmp_path: Path) -> None:
    given = {"partitionColumns": "k", "partitionOverwriteMode": "static"}
    save(tmp_path, rows((1, "a")), **given)
    save(tmp_path, rows((2, "b")), overwrite=True, conf=DYNAMIC, **given)
    assert load(tmp_path) == [{"n": 2, "k": "b"}]


def test_without_partition_columns_all_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, rows((1,)))
    save(tmp_path, rows((2,)), overwrite=True, conf=DYNAMIC)
    assert load(tmp_path) == [{"n": 2}]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("there", "added"), [("k", ""), ("", "k"), ("k,j", "j,k"), ("k,j", "k"), ("k", "K")])
def test_files_divided_by_other_columns_are_not_added(tmp_path: Path, there: str, added: str, overwrite: bool) -> None:
    batch = rows((1, "a", "b"))
    save(tmp_path, batch, partitionColumns=there)
    before = found(tmp_path)
    renamed = batch.rename_columns(["n", "K", "j"]) if added == "K" else batch
    with pytest.raises(PbioError, match=r"\[PBIO_(BAD_PARTITIONS|NOT_EMPTY)\]"):
        save(tmp_path, renamed, partitionColumns=added, **({"partitionOverwriteMode": "dynamic"} if overwrite else {}))
    assert found(tmp_path) == before
    if overwrite and added:
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_PARTITIONS\]"):
            save(tmp_path, renamed, partitionColumns=added, overwrite=True, conf=DYNAMIC)
        assert found(tmp_path) == before


NONE = rows(n=pa.int64(), k=pa.string())


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("partitions", [(NONE,), (NONE, NONE)])
def test_no_rows(tmp_path: Path, overwrite: bool, partitions: tuple[pa.RecordBatch, ...]) -> None:
    for columns in ("", "k"):
        folder = tmp_path / (columns or "plain")
        save(folder, *partitions, overwrite=overwrite, partitionColumns=columns)
        assert load(folder) == []
        save(folder, rows((1, "a")), partitionColumns=columns)
        save(folder, *partitions, partitionColumns=columns)
        assert load(folder) == [{"n": 1, "k": "a"}]
        save(folder, *partitions, overwrite=True, partitionColumns=columns)
        assert load(folder) == []


def test_some_tasks_without_rows(tmp_path: Path) -> None:
    save(tmp_path, NONE, rows((1, "a")), NONE, partitionColumns="k")
    assert load(tmp_path) == [{"n": 1, "k": "a"}]


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=5))
def test_folder_names_come_back(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    folder = tmp_path_factory.mktemp("names")
    columns = FolderColumns.of(pa.schema([("n", pa.int64()), ("a=b %", pa.string())]), ["a=b %"])
    batch = pa.record_batch({"n": pa.array(range(len(values)), pa.int64()), "a=b %": values})
    for name, _ in columns.divide(batch):
        (folder / name).mkdir()
        (folder / name / "x").touch()
    files = list_files([str(folder)], Options())
    shutil.rmtree(folder)
    assert {file.partition for file in files} == {(("a=b %", value),) for value in values}


def test_a_value_too_long_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\].*too long"):
        save(tmp_path, rows((1, "x" * 300)), partitionColumns="k")
    assert found(tmp_path) == []


def test_spark_escapes_the_same_characters(spark: SparkSession, tmp_path: Path) -> None:
    values = ["".join(map(chr, range(1, 64))), "".join(map(chr, range(64, 128))), "é%2F", "", None, "a b", "."]
    frame = spark.createDataFrame(list(enumerate(values)), "n int, k string").coalesce(1)
    frame.write.partitionBy("k").parquet(str(tmp_path / "spark"))
    frame.write.format("pbio").option("partitionColumns", "k").mode("append").save(str(tmp_path / "pbio"))
    names = [sorted(name for name in os.listdir(tmp_path / kind) if "=" in name) for kind in ("spark", "pbio")]
    # Spark makes a null of an empty string, which here stays what it is.
    assert ["k=", *names[0]] == names[1]


def test_the_session_says_which_partitions_an_overwrite_replaces(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "n int, k string")
    write = {"pbio": lambda f, p: f.write.format("pbio").option("partitionColumns", "k").mode("overwrite").save(p)}
    write["parquet"] = lambda f, p: f.write.partitionBy("k").mode("overwrite").parquet(p)
    spark.conf.set(OVERWRITES, "dynamic")
    try:
        for kind, to in write.items():
            to(frame, str(tmp_path / kind))
            to(frame.where("k = 'b'").selectExpr("n + 1 AS n", "k"), str(tmp_path / kind))
            rows = spark.read.format(kind).load(str(tmp_path / kind)).collect()
            assert sorted((row["n"], row["k"]) for row in rows) == [(1, "a"), (3, "b")]
    finally:
        spark.conf.unset(OVERWRITES)


def test_nothing_there_is_replaced(tmp_path: Path) -> None:
    assert replaced_files(fsspec.filesystem("file"), str(tmp_path / "nothing")) == []


@pytest.mark.parametrize("locked", ["k=b", "k=b/part.ffs"], ids=["folder", "file"])
def test_what_cannot_be_looked_at_is_not_left_among_the_new_rows(tmp_path: Path, locked: str) -> None:
    save(tmp_path, rows((1, "a"), (2, "b")), partitionColumns="k")
    (old,) = (tmp_path / "k=b").glob("*.ffs")
    old.rename(old.parent / "part.ffs")
    before = found(tmp_path)
    mode = (tmp_path / locked).stat().st_mode
    (tmp_path / locked).chmod(0)
    try:
        with bound_by_permissions(), pytest.raises(PbioError, match="PBIO_NO_PERMISSION"):
            save(tmp_path, rows((3, "a")), overwrite=True, partitionColumns="k")
    finally:
        (tmp_path / locked).chmod(mode)
    assert found(tmp_path) == before
    assert sorted(row["n"] for row in load(tmp_path)) == [1, 2]


def test_an_overwrite_of_one_partition_does_not_look_at_the_others(tmp_path: Path) -> None:
    save(tmp_path, rows((1, "a"), (2, "b")), partitionColumns="k")
    (tmp_path / "k=b").chmod(0)
    try:
        with bound_by_permissions():
            replaced = replaced_files(fsspec.filesystem("file"), str(tmp_path), ["k=a"])
    finally:
        (tmp_path / "k=b").chmod(0o755)
    assert [Path(path).parent.name for path in replaced] == ["k=a"]
