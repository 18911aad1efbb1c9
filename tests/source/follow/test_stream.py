"""Streams over a growing folder, through Spark; what a batch gets is tested in `test_follower`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.source.samples import MIDDLE, NEW, OLD, write_readings

pytestmark = pytest.mark.spark

Start = Callable[..., StreamingQuery]


class Sink:
    """The batches that a query gave, by their number; a batch that comes again replaces the first."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.fail_at: int | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        if number == self.fail_at:
            raise RuntimeError("the sink is broken")
        self.batches[number] = [row[0] for row in frame.collect()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def run(spark: SparkSession, folder: Path, sink: Sink, tmp_path: Path) -> Callable[..., StreamingQuery]:
    """Read all that is there, and end."""

    def run(schema: str | None = "n bigint, unit string", **options: Any) -> StreamingQuery:
        reader = spark.readStream.format("pbio").options(**options)
        frame = (reader.schema(schema) if schema else reader).load(str(folder))
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query

    return run


def offsets(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted(
        (path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit()),
        key=lambda p: int(p.name),
    )
    return [json.loads(path.read_text().splitlines()[2]) for path in files]


def test_each_run_resumes_where_the_last_one_ended(run: Start, sink: Sink, folder: Path, tmp_path: Path) -> None:
    write_readings(folder / "a", OLD, range(3), "be32")
    write_readings(folder / "b", MIDDLE, range(10, 12))
    run(maxFilesPerTrigger=1)
    assert sink.batches == {0: [0, 1, 2], 1: [10, 11]}
    run()
    assert sorted(sink.batches) == [0, 1]
    write_readings(folder / "a", OLD, range(3, 5), "be32", append=True)
    write_readings(folder / "c", NEW, range(20, 22), "be64")
    data = (folder / "c").read_bytes()
    (folder / "c").write_bytes(data[:-1])
    run()
    assert sink.batches[2] == [3, 4, 20]
    (folder / "c").write_bytes(data)
    run()
    assert sink.batches[3] == [21]
    last = offsets(tmp_path)[-1]
    assert set(last) == {"version", "names", "formats", "watermark", "files"}
    assert last["names"] == ["reading"]
    assert len(last["formats"]) == 3
    assert last["files"][str(folder / "c")]["to"][:2] == [len(data), 2]
    assert "from" not in last["files"][str(folder / "a")]


def test_a_failed_batch_comes_again_the_same(run: Start, sink: Sink, folder: Path) -> None:
    write_readings(folder / "a", MIDDLE, range(3))
    sink.fail_at = 0
    with pytest.raises(PySparkException, match="the sink is broken"):
        run()
    sink.fail_at = None
    write_readings(folder / "a", MIDDLE, range(3, 5), append=True)
    run()
    assert sink.batches == {0: [0, 1, 2], 1: [3, 4]}


def test_bytes_of_a_trigger(run: Start, sink: Sink, folder: Path) -> None:
    write_readings(folder / "a", MIDDLE, range(5))
    run(maxBytesPerTrigger=100)
    assert list(sink.batches.values()) == [[0], [1, 2], [3, 4]]  # the first one has its format before it


def test_a_bad_record_follows_the_mode(run: Start, sink: Sink, folder: Path) -> None:
    path = write_readings(folder / "a", MIDDLE, range(2))
    path.write_bytes(path.read_bytes() + b"\xee" * 9)
    with pytest.raises(PySparkException, match=r"\[PBIO_BAD_ITEM\]"):
        run()
    run(schema="_corrupt_record struct<length: bigint>", mode="permissive")
    assert [bad and bad["length"] for bad in sink.batches[0]] == [None, None, 9]


def test_a_stream_needs_a_schema(run: Start, sink: Sink, folder: Path) -> None:
    write_readings(folder / "a", MIDDLE, range(2))
    with pytest.raises(PySparkException, match=r"\[PBIO_NO_SCHEMA\](.|\n)*schemaInference"):
        run(schema=None)
    run(schema=None, schemaInference=True)
    assert sink.batches == {0: [0, 1]}


def test_folders_become_columns(run: Start, sink: Sink, folder: Path) -> None:
    write_readings(folder / "day=2026-01-31" / "a", MIDDLE, range(2))
    run(schema="day date, n int")
    assert [str(day) for day in sink.batches[0]] == ["2026-01-31"] * 2


def test_a_running_query_sees_what_comes(spark: SparkSession, folder: Path, sink: Sink, tmp_path: Path) -> None:
    frame = spark.readStream.format("pbio").schema("n int").load(str(folder))
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        for i in range(3):
            write_readings(folder / "a", MIDDLE, range(i, i + 1), append=i > 0)
            query.processAllAvailable()
            assert [n for batch in sink.batches.values() for n in batch] == list(range(i + 1))
    finally:
        query.stop()


def test_a_folder_that_was_gone_is_read_on_from_the_checkpoint(run: Start, sink: Sink, folder: Path) -> None:
    write_readings(folder / "a", MIDDLE, range(3))
    run()
    gone = folder.rename(folder.parent / "gone")
    with pytest.raises(PySparkException, match=r"\[PBIO_PATH_NOT_FOUND\](.|\n)*ignoreMissingFiles"):
        run()
    run(ignoreMissingFiles=True)
    gone.rename(folder)
    write_readings(folder / "a", MIDDLE, range(3, 5), append=True)
    run()
    assert list(sink.batches.values()) == [[0, 1, 2], [3, 4]]


def test_a_running_query_waits_for_its_folder(spark: SparkSession, folder: Path, sink: Sink, tmp_path: Path) -> None:
    write_readings(folder / "a", MIDDLE, range(2))
    frame = spark.readStream.format("pbio").schema("n int").option("ignoreMissingFiles", True).load(str(folder))
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()
        gone = folder.rename(tmp_path / "gone")
        query.processAllAvailable()
        write_readings(gone / "b", MIDDLE, range(2, 4))
        gone.rename(folder)
        query.processAllAvailable()
    finally:
        query.stop()
    assert list(sink.batches.values()) == [[0, 1], [2, 3]]
