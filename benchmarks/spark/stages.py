"""Where a task's time goes: `python -m benchmarks.spark.stages write|write-channel|read|stream-in|stream-out [KIND]`.

The data source here is ours, with a clock around what it calls. Each process of Spark's writes what its clock counted
into a folder, and this adds it up. Stages are exclusive: what one calls of another counts for the other. `wait` is what
passes until Spark has the next batch ready: the JVM turns rows into Arrow, and both ends of the socket are part of it.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from benchmarks.spark.spark_scan import KINDS, PARTITIONS, session
from pbio_spark.channels import ChannelSpace
from pbio_spark.source.datasource import PbioDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FOLDER = "PBIO_STAGES"
"""The variable that says where processes put what they counted."""
ROWS = 6_000_000
FILES = 8
REPEATS = 3

WATCHED = {
    "open the space": ["pbio_spark.source.channels.writer:_opened"],
    "compile": ["pbio_spark.columns.encode.encoder:compile_kernel"],
    "concatenate": ["pbio_spark.source.channels.task:_pieces"],
    "group": [
        "pbio_spark.channels.publish.prepare:concentrate",
        "pbio_spark.channels.publish.gather:group",
        "pbio_spark.channels.publish.straight:group",
    ],
    "encode": ["pbio_spark.columns.encode.encoder:Encoder.encode_into"],
    "digest": ["pbio_spark.source.channels.task:contents_of_all", "pbio_spark.channels.publish.straight:contents_of"],
    "derive": ["pbio_spark.channels.derive.deriver:Deriver.derive"],
    "file": [
        "pbio_spark.source.write.output:OutputFile.__init__",
        "pbio_spark.source.write.output:OutputFile._write",
        "pbio_spark.source.write.output:OutputFile.close",
        "pbio_spark.disk:NewFile.write",
    ],
    "wait for the disk": [
        "pbio_spark.source.channels.background:BackgroundFiles.add",
        "pbio_spark.source.channels.background:BackgroundFiles.bring",
        "pbio_spark.source.channels.background:BackgroundFiles.wait",
    ],
    "outline": ["pbio_spark.source.write.writer:write_sidecar"],
    "bytes": ["pbio_spark.columns.files.chunks:Chunker.chunks"],
    "decode": ["pbio_spark.columns.files.batches:BatchMaker.chunk_to_batches"],
}
"""The stages, by the functions that they begin with."""


class Clock:
    """Counts wall and processor time by stage, of which one is running at any time."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self._stack: list[str] = []
        self._since = (0.0, 0.0)

    def enter(self, stage: str) -> None:
        self._count()
        self._stack.append(stage)

    def leave(self) -> None:
        self._count()
        self._stack.pop()

    def _count(self) -> None:
        now = time.perf_counter(), time.process_time()
        if self._stack:
            found = self.seconds.setdefault(self._stack[-1], [0.0, 0.0])
            found[0] += now[0] - self._since[0]
            found[1] += now[1] - self._since[1]
        self._since = now

    def during(self, stage: str, call: Callable[[], Any]) -> Any:
        self.enter(stage)
        try:
            return call()
        finally:
            self.leave()

    def each(self, stage: str, values: Iterator[Any]) -> Iterator[Any]:
        """Values, with the time that it takes to get them."""
        end = object()
        while (value := self.during(stage, functools.partial(next, values, end))) is not end:
            yield value

    def save(self) -> None:
        """Add what was counted to a file of this process, and begin again."""
        with open(f"{os.environ[FOLDER]}/{os.getpid()}", "a", encoding="ascii") as file:
            file.write(f"{json.dumps(self.seconds)}\n")
        self.seconds = {}


clock = Clock()
"""The one of this process."""


def watch() -> None:
    """Put the clock around what `WATCHED` names."""
    for stage, places in WATCHED.items():
        for place in places:
            module, _, path = place.partition(":")
            owner: Any = importlib.import_module(module)
            *outer, name = path.split(".")
            for one in outer:
                owner = getattr(owner, one)
            setattr(owner, name, _watched(stage, getattr(owner, name)))


def _watched(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        made = clock.during(stage, functools.partial(function, *args, **named))
        return clock.each(stage, made) if isinstance(made, Iterator) else made

    return call


if FOLDER in os.environ:
    watch()


class Watched:
    """Wraps a reader or writer that Spark calls. It loads this module, and so the clock, wherever it is unpickled."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def timed(self, stage: str, name: str, *args: Any) -> Any:
        try:
            return clock.during(stage, lambda: getattr(self.inner, name)(*args))
        finally:
            clock.save()


class WatchedWriter(Watched, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        made: WriterCommitMessage = self.timed("other", "write", clock.each("wait", iter(iterator)))
        return made

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.timed("commit", "commit", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.inner.abort(messages)


class WatchedStreamWriter(Watched, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        made: WriterCommitMessage = self.timed("other", "write", clock.each("wait", iter(iterator)))
        return made

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.timed("commit", "commit", messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.inner.abort(messages, batchId)


class WatchedReader(Watched, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        made: Sequence[InputPartition] = self.timed("plan", "partitions")
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _handed_over(self.inner.read(partition))


class WatchedStreamReader(Watched, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> Any:  # noqa: N802
        return self.timed("offsets", "initialOffset")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        made: ReadLimit = self.inner.getDefaultReadLimit()
        return made

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.timed("offsets", "prepareForTriggerAvailableNow")

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:  # noqa: N802
        return self.timed("offsets", "latestOffset", start, limit)

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        made: Sequence[InputPartition] = self.timed("plan", "partitions", start, end)
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _handed_over(self.inner.read(partition))


def _handed_over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches; what passes until Spark has taken one, and asks for the next, is `wait`."""
    clock.enter("other")
    for batch in batches:
        clock.enter("wait")
        yield batch
        clock.leave()
    clock.leave()
    clock.save()


class Staged(PbioDataSource):
    """Ours, watched."""

    @classmethod
    def name(cls) -> str:
        return "staged"

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return self._made(WatchedWriter, lambda: super(Staged, self).writer(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        return self._made(WatchedStreamWriter, lambda: super(Staged, self).streamWriter(schema, overwrite))

    def reader(self, schema: StructType) -> Any:
        return self._made(WatchedReader, lambda: super(Staged, self).reader(schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        return self._made(WatchedStreamReader, lambda: super(Staged, self).streamReader(schema))

    def _made(self, kind: type[Watched], make: Callable[[], Any]) -> Any:
        try:
            return kind(clock.during("plan", make))
        finally:
            clock.save()


def main() -> None:
    what, kinds = sys.argv[1], [kind for kind in KINDS if not sys.argv[2:] or sys.argv[2] in kind]
    with tempfile.TemporaryDirectory() as root:
        os.environ[FOLDER] = f"{root}/clocks"
        spark = session()
        try:
            spark.dataSource.register(Staged)
            for kind in kinds:
                _show(spark, what, kind, Path(root) / kind.replace(" ", "-"))
        finally:
            spark.stop()


def _show(spark: SparkSession, what: str, kind: str, folder: Path) -> None:
    run = prepare(spark, what, KINDS[kind], folder)
    clocks = Path(os.environ[FOLDER])
    took = []
    for number in range(REPEATS + 1):
        if number <= 1:  # the first run starts processes
            shutil.rmtree(clocks, ignore_errors=True)
            clocks.mkdir()
        took.append(run())
    stages: dict[str, list[float]] = {}
    for file in clocks.iterdir():
        for line in file.read_text().splitlines():
            for stage, (wall, cpu) in json.loads(line).items():
                found = stages.setdefault(stage, [0.0, 0.0])
                found[0] += wall / REPEATS
                found[1] += cpu / REPEATS
    wall = sum(took[1:]) / REPEATS
    print(f"\n### {what}, {kind}: {ROWS / wall / 1e6:.2f} M rows/s, {wall:.2f} s\n")
    print("| stage | ms a run | of it processor | ns a row |\n| --- | --- | --- | --- |")
    for stage, (seconds, cpu) in sorted(stages.items(), key=lambda item: -item[1][0]):
        print(f"| {stage} | {seconds * 1e3:.0f} | {cpu * 1e3:.0f} | {seconds / ROWS * 1e9:.0f} |")
    per_task = sum(seconds for seconds, _ in stages.values())
    print(f"| all of these, {PARTITIONS} at once | {per_task * 1e3:.0f} | | {per_task / ROWS * 1e9:.0f} |", flush=True)


def prepare(spark: SparkSession, what: str, columns: list[str], folder: Path) -> Callable[[], float]:
    """What is watched, ready to be run; it tells how many seconds it took."""
    frame = spark.range(0, ROWS, 1, PARTITIONS).selectExpr(*columns)
    runs = iter(range(1000))
    space = ChannelSpace.create(f"{folder}/space")
    space.create_channel("rows", frame.schema)

    def timed(run: Callable[[], object]) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    def stream(reader: Any, path: str, sink: str, target: str, **options: str) -> float:
        made = reader.load(path).writeStream.format(sink).options(**options).trigger(availableNow=True)
        query = made.option("checkpointLocation", f"{folder}/checkpoint-{next(runs)}").start(target)
        query.awaitTermination()
        return sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress) / 1000

    if what == "write":
        writer = frame.write.format("staged").mode("overwrite")
        return lambda: timed(lambda: writer.save(f"{folder}/rows"))
    if what == "write-channel":
        writer = frame.write.format("staged").mode("append").option("channel", "rows")
        return lambda: timed(lambda: writer.save(space.root))
    if what == "stream-in":
        spark.range(0, ROWS, 1, FILES).selectExpr(*columns).write.parquet(f"{folder}/parquet")
        files = spark.readStream.format("parquet").schema(frame.schema)
        return lambda: stream(files, f"{folder}/parquet", "staged", space.root, channel="rows")
    if what == "read":
        frame.write.format("pbio").mode("overwrite").save(f"{folder}/rows")
        largest = max(file.stat().st_size for file in (folder / "rows").glob("part-*"))
        reader = spark.read.format("staged").schema(frame.schema).option("maxPartitionBytes", largest)
        return lambda: timed(lambda: reader.load(f"{folder}/rows").write.format("noop").mode("overwrite").save())
    if what == "stream-out":
        frame.write.format("pbio").mode("append").option("channel", "rows").save(space.root)
        source = spark.readStream.format("staged").option("channel", "rows").option("startingOffsets", "earliest")
        return lambda: stream(source, space.root, "noop", "")
    sys.exit(f"unknown: {what!r}; one of write, write-channel, read, stream-in, stream-out")


if __name__ == "__main__":
    # Spark's processes must find the class in its module, not in __main__.
    importlib.import_module("benchmarks.spark.stages").main()
