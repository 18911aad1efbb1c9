"""Writing a folder: the content of the files and of the folder, refusals, and leftovers of failures."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.source.files.planning import scan_files
from pbio_spark.source.files.reader import PbioPartition, PbioReader
from pbio_spark.source.options.options import Options
from pbio_spark.source.write.folders import FolderColumns
from pbio_spark.source.write.writer import PbioWriter, TaskOutput
from pbio_spark.wire import ItemKind, Scanner, decode, read_index
from pbio_spark.wire.hints.sidecar import outline_from_json, sidecar_path
from tests.channels.spaces import COUNT, again, values

pytestmark = pytest.mark.spark


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.ffs") if not path.name.startswith("."))


def records_in(*paths: Path) -> list[dict[str, Any]]:
    """The records of files by the plain-Python reader."""
    found: list[dict[str, Any]] = []
    for path in paths:
        scanner = Scanner(path.read_bytes(), str(path))
        found += [decode(scanner.format_of(i), scanner.read(i)) for i in scanner.items() if i.kind is ItemKind.DATA]
    return found


def numbers(spark: SparkSession, count: int = 10, partitions: int = 1) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as int) n", "concat('t', id) t")


def test_a_folder_of_files(spark: SparkSession, tmp_path: Path) -> None:
    numbers(spark, 10, 2).write.format("pbio").mode("append").option("formatName", "reading").save(str(tmp_path))
    files = files_in(tmp_path)
    assert len(files) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_SUCCESS", *(file.name for file in files)]
    assert sorted(record["n"] for record in records_in(*files)) == list(range(10))
    scanner = Scanner(files[0].read_bytes())
    next(scanner.items())
    (format,) = scanner.formats.values()  # noqa: A001
    assert (format.name, format.record.fields[1].name) == ("reading", "t")


def test_append_and_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "new")
    numbers(spark, 3).write.format("pbio").mode("append").save(folder)
    numbers(spark, 4).write.format("pbio").mode("append").save(folder)
    assert len(records_in(*files_in(Path(folder)))) == 7
    (Path(folder) / ".keep").touch()
    numbers(spark, 2).write.format("pbio").mode("overwrite").save(folder)
    assert [record["n"] for record in records_in(*files_in(Path(folder)))] == [0, 1]
    assert (Path(folder) / ".keep").exists()


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_other_modes_are_refused_by_spark(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        numbers(spark).write.format("pbio").mode(mode).save(str(tmp_path))


def test_no_rows_leave_a_file_with_the_format(spark: SparkSession, tmp_path: Path) -> None:
    numbers(spark, 0).write.format("pbio").mode("append").save(str(tmp_path))
    (file,) = files_in(tmp_path)
    scanner = Scanner(file.read_bytes())
    assert [item.kind for item in scanner.items()] == [ItemKind.FORMAT]


def test_max_records_per_file(spark: SparkSession, tmp_path: Path) -> None:
    numbers(spark, 10).write.format("pbio").mode("append").option("maxRecordsPerFile", 4).save(str(tmp_path))
    assert [len(records_in(file)) for file in files_in(tmp_path)] == [4, 4, 2]


@pytest.mark.parametrize(
    ("options", "machine"),
    [
        ({"machine": "be32"}, "be32"),
        ({"byteOrder": "big"}, "be64"),
        ({"pointerSize": "4"}, "le32"),
        ({"machine": "s390x", "pointerSize": "4"}, "be32"),
    ],
)
def test_machines(spark: SparkSession, tmp_path: Path, options: dict[str, str], machine: str) -> None:
    numbers(spark, 3).write.format("pbio").mode("append").options(**options).save(str(tmp_path))
    (file,) = files_in(tmp_path)
    assert records_in(file) == [{"n": n, "t": f"t{n}"} for n in range(3)]
    scanner = Scanner(file.read_bytes())
    list(scanner.items())
    assert [format.machine for format in scanner.formats.values()] == [machine]  # noqa: A001


def test_partition_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, "a/b", 1), (2, None, 1), (1, "a/b", 2), (1, "", 3)]
    frame = spark.createDataFrame(rows, "k int, s string, n int").coalesce(1)
    frame.write.format("pbio").mode("append").option("partitionColumns", "k,s").save(str(tmp_path))
    found = {str(f.parent.relative_to(tmp_path)): [r["n"] for r in records_in(f)] for f in files_in(tmp_path)}
    assert found == {
        "k=1/s=a%2Fb": [1, 2],
        "k=2/s=__HIVE_DEFAULT_PARTITION__": [1],
        "k=1/s=": [3],
    }


def test_more_folders_than_files_may_be_open(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 400, 1, 1).selectExpr("id % 100 k", "id n")
    frame.write.format("pbio").mode("append").option("partitionColumns", "k").save(str(tmp_path))
    for k in range(100):
        found = [record["n"] for record in records_in(*files_in(tmp_path / f"k={k}"))]
        assert found == [k, k + 100, k + 200, k + 300]


def test_rows_are_divided_in_their_order() -> None:
    columns = FolderColumns.of(pa.schema([("k", pa.int32()), ("n", pa.int32())]), ["k"])
    batch = pa.record_batch({"k": pa.array([1, 2, 1], pa.int32()), "n": pa.array([1, 2, 3], pa.int32())})
    divided = {folder: rows.column("n").to_pylist() for folder, rows in columns.divide(batch)}
    assert divided == {"k=1/": [1, 3], "k=2/": [2]}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("x", "unknown column"),
        ("k,K", "named twice"),
        ("d", "double"),
        ("k,n,d", "double"),
        ("k,n", "would have no column left"),
    ],
)
def test_bad_partition_columns(columns: str, reason: str) -> None:
    fields = [("k", pa.int32()), ("n", pa.int32()), *([("d", pa.float64())] if "d" in columns else [])]
    with pytest.raises(PbioError, match=rf"\[PBIO_BAD_OPTION\].*partitionColumns.*{reason}"):
        FolderColumns.of(pa.schema(fields), columns.split(","))


def test_an_ffs_index(spark: SparkSession, tmp_path: Path) -> None:
    numbers(spark, 30).write.format("pbio").mode("append").option("index", "ffs").save(str(tmp_path))
    (file,) = files_in(tmp_path)
    blocks = read_index(Scanner(file.read_bytes()))
    assert blocks is not None
    assert blocks[-1].ordinals.stop == 30
    assert records_in(file) == [{"n": n, "t": f"t{n}"} for n in range(30)]


def test_a_large_file_gets_a_sidecar(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 90_000, 1, 1).selectExpr("id", "repeat('x', 100) t")
    frame.write.format("pbio").mode("append").save(str(tmp_path))
    (file,) = files_in(tmp_path)
    outline = outline_from_json(Path(sidecar_path(str(file))).read_bytes())
    assert outline is not None
    assert outline.is_of(file.stat().st_size, file.stat().st_mtime)
    assert outline.counts == (90_000,)
    assert len(outline.points) == file.stat().st_size // (4 << 20)
    scanner = Scanner(file.read_bytes(), formats={f.id: f for f in outline.formats}, offset=outline.points[-1].offset)
    first = next(scanner.items())
    assert decode(outline.formats[0], scanner.read(first))["id"] == outline.points[-1].ordinal


def test_files_of_one_block_have_outlines_that_leave_them_out(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 30_000, 1, 3).selectExpr("id", "repeat('x', 20) t")
    frame.write.format("pbio").mode("append").save(str(tmp_path))
    small = tmp_path / "small"
    frame.limit(100).write.format("pbio").mode("append").save(str(small))
    files = files_in(tmp_path)[:3]
    outlines = [outline_from_json(Path(sidecar_path(str(file))).read_bytes()) for file in files]
    assert [outline.points for outline in outlines if outline is not None] == [()] * 3
    assert not [path for path in small.iterdir() if path.name.endswith(".outline")]

    def kept(**options: object) -> tuple[list[int], int]:
        parsed = Options(filter="{ return input.id >= 19000 && input.id < 19990; }", **options)  # type: ignore[arg-type]
        reader = PbioReader(
            scan_files([str(tmp_path)], parsed, all_formats=True), pa.schema([("id", pa.int64())]), is_projection=True
        )
        splits = [split for part in reader.partitions() if isinstance(part, PbioPartition) for split in part.splits]
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [value for batch in batches for value in batch["id"].to_pylist()], len(splits)

    assert kept() == (list(range(19_000, 19_990)), 1)
    assert kept(skip_blocks=False) == (list(range(19_000, 19_990)), 3)


@pytest.mark.parametrize(
    ("columns", "code", "place"),
    [
        ("interval '1' day i", "PBIO_UNSUPPORTED_TYPE", "$.i"),
        ("array(named_struct('x', interval '1' month)) a", "PBIO_UNSUPPORTED_TYPE", "$.a"),
        ("parse_json('1') v", "PBIO_UNSUPPORTED_TYPE", "$.v"),
        ("1 n, 2 n", "PBIO_BAD_LAYOUT", "$.n"),
    ],
)
def test_types_that_are_refused(spark: SparkSession, tmp_path: Path, columns: str, code: str, place: str) -> None:
    frame = spark.sql(f"select {columns}")
    with pytest.raises(PySparkException) as caught:
        frame.write.format("pbio").mode("append").save(str(tmp_path / "out"))
    assert f"[{code}]" in str(caught.value)
    assert f"field {place}" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_null_is_refused_by_name_and_the_option_helps(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("select * from values (1, array(1)), (2, null), (cast(null as int), array(2)) t(n, a)").coalesce(
        1
    )
    with pytest.raises(PySparkException) as caught:
        frame.write.format("pbio").mode("append").save(str(tmp_path))
    text = str(caught.value)
    assert "[PBIO_CANNOT_BE_NULL] row 1" in text
    assert "at: rows 0 to 2 of partition 0" in text
    assert "field $.a" in text
    assert "nullValue" in text
    assert list(tmp_path.iterdir()) == []
    frame.write.format("pbio").mode("append").option("nullValue", -1).save(str(tmp_path))
    found = [(record["n"], record["a"]) for record in records_in(*files_in(tmp_path))]
    assert found == [(1, [1]), (2, None), (-1, [2])]


def test_a_failed_job_leaves_the_folder_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    numbers(spark, 3).write.format("pbio").mode("append").save(str(tmp_path))
    before = files_in(tmp_path)
    broken = spark.range(0, 20, 1, 2).selectExpr("if(id = 19, assert_true(false), id) n")
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException):
            broken.write.format("pbio").mode(mode).save(str(tmp_path))
        assert [path for path in files_in(tmp_path) if path.parent == tmp_path] == before
        assert (tmp_path / "_SUCCESS").exists()


def test_a_retried_task_leaves_no_duplicate(spark: SparkSession, tmp_path: Path) -> None:
    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails after all its rows")

    frame = spark.range(0, 3_000, 1, 2).mapInArrow(fail_once, "id long")
    frame.write.format("pbio").mode("append").save(str(tmp_path))
    assert sorted(record["id"] for record in records_in(*files_in(tmp_path))) == list(range(3_000))
    assert len(files_in(tmp_path)) == 2
    assert not list(tmp_path.glob("_staging*"))


def test_a_refused_write_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    for folder in (tmp_path / "new", tmp_path):
        writer = PbioWriter(str(folder), Options(), SCHEMA, overwrite=False)
        writer.output(fsspec.filesystem("file"), f"{folder}/{writer.staging}", "a").discard()
        writer.abort([])
        assert list(tmp_path.iterdir()) == []


def test_abort_after_a_commit_that_failed_keeps_what_is_published(tmp_path: Path) -> None:
    writer = PbioWriter(str(tmp_path), Options(), pa.schema([("n", pa.int32())]), overwrite=False)
    fs = fsspec.filesystem("file")
    files = [writer.output(fs, f"{tmp_path}/{writer.staging}", name).close() for name in ("a", "b")]
    (tmp_path / writer.staging / "b").unlink()
    with pytest.raises(FileNotFoundError):
        writer.commit([TaskOutput(tuple(files))])
    writer.abort([])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


SCHEMA = pa.schema([("n", pa.int32())])


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    made = ChannelSpace.create(str(tmp_path / "all" / "k=1"))
    made.create_channel("counts", COUNT).submit({"n": 7})
    return made


@pytest.mark.parametrize("inside", ["", "data", "data/new/folder", "_log"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_files_are_not_written_into_a_channel_space(space: ChannelSpace, inside: str, overwrite: bool) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_CHANNEL_SPACE\](.|\n)*choose another folder") as caught:
        PbioWriter(f"{space.root}/{inside}", Options(), SCHEMA, overwrite)
    assert caught.value.file == space.root
    link = Path(space.root).parent / "link"
    link.symlink_to(space.root)
    with pytest.raises(PbioError, match="PBIO_CHANNEL_SPACE"):
        PbioWriter(f"{link}/{inside}", Options(), SCHEMA, overwrite)


def test_an_overwrite_does_not_remove_a_channel_space(spark: SparkSession, space: ChannelSpace) -> None:
    folder = Path(space.root).parent
    numbers(spark).write.format("pbio").mode("append").save(str(folder))
    beside = files_in(folder)
    for above in (folder, folder.parent):
        with pytest.raises(PySparkException, match=r"PBIO_CHANNEL_SPACE(.|\n)*k=1"):
            numbers(spark).write.format("pbio").mode("overwrite").save(str(above))
    by_folder = numbers(spark).selectExpr("1 AS k", "n").write.format("pbio").option("partitionColumns", "k")
    with pytest.raises(PySparkException, match="PBIO_CHANNEL_SPACE"):
        by_folder.mode("append").save(str(folder))
    assert files_in(folder) == beside
    assert values(again(space).channel("counts")) == [{"n": 7}]


@pytest.mark.parametrize("place", ["all/k=1", "all"])
def test_a_space_that_came_while_files_were_written_is_kept(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "all" / "k=1"
    writer = PbioWriter(str(folder), Options(), SCHEMA, overwrite=True)
    staged = writer.output(fsspec.filesystem("file"), f"{folder}/{writer.staging}", "a").close()
    made = tmp_path / place / ("" if place == "all" else "inner")
    made.mkdir(exist_ok=True)
    (made / "_space.json").touch()
    (made / "events.pbio").touch()
    with pytest.raises(PbioError, match="PBIO_CHANNEL_SPACE"):
        writer.commit([TaskOutput((staged,))])
    writer.abort([])
    assert [path.name for path in folder.rglob("*") if path.is_file() and path.name == "a"] == []
    assert (made / "events.pbio").exists()


def test_channel_spaces_of_other_file_systems_are_kept(bucket: str) -> None:
    for root in (f"memory:///{uuid.uuid4().hex}", f"{bucket}/all"):
        check_that_a_space_is_kept(root)


def check_that_a_space_is_kept(root: str) -> None:
    ChannelSpace.create(f"{root}/space")
    for path, overwrite in ((f"{root}/space/data", False), (root, True)):
        with pytest.raises(PbioError, match="PBIO_CHANNEL_SPACE") as caught:
            PbioWriter(path, Options(), SCHEMA, overwrite)
        assert caught.value.file == f"{root}/space"
    PbioWriter(root, Options(), SCHEMA, overwrite=False)


def test_streams_are_sent_to_channels(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load()
    query = (
        stream.writeStream.format("pbio").option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "o"))
    )
    with pytest.raises(PySparkException, match="PBIO_USE_A_CHANNEL"):
        query.awaitTermination(60)


def test_other_file_systems() -> None:
    writer = PbioWriter("memory://written", Options(), pa.schema([("n", pa.int32())]), overwrite=False)
    writer.commit([])
    names = [path.rpartition("/")[2] for path in fsspec.filesystem("memory").find("/written")]
    assert len(names) == 2
    assert "_SUCCESS" in names
