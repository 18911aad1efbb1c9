"""Channels: publishing into many and for many subscribers, how soon an event is there, and Spark beside its sources.

Publishing waits for the disk, so that what else the machine writes shows; the best of several runs counts. How long a
subscriber waits for an event of another process is compared with 10 ms, which is what it may.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pyarrow as pa

from benchmarks import Row, side_by_side
from benchmarks.spark.idle import Idle
from benchmarks.spark.spark_scan import session
from ecode.types import FLOAT64, INT32, INT64, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Columns, Position, Submission
from pbio_spark.channels.commits.commit import Commit, Data, DataFile
from pbio_spark.channels.commits.commit_json import commit_to_json, json_to_commit
from pbio_spark.channels.commits.groups import Group, Groups
from pbio_spark.channels.log.layout import commit_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64), Field("volume", INT32)])
STAMP = record("stamp", [Field("sent", INT64)])
EVENTS = 1_000_000
CHANNELS = (1, 16, 256, 4096)
SUBSCRIBERS = (1, 8, 64)
COMMITS = 100_000
SAMPLES = 200
ROWS = 4_000_000
FILES = 8
BATCHES = 25


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield from into_channels()
        yield from into_types()
        yield from for_subscribers()
        yield from python_latency(folder)
        yield from start(folder)
        spark = session()
        try:
            yield from spark_channels(spark, folder)
            yield from spark_latency(spark, folder)
            yield from spark_throughput(spark, folder)
        finally:
            spark.stop()
    finally:
        shutil.rmtree(folder)


def into_channels() -> Iterator[Row]:
    """The same events in one commit, for one channel and for many; in memory: a disk is never twice the same."""
    space = ChannelSpace.create("memory://many")
    names = pa.array([f"channel {n}" for n in range(CHANNELS[-1])])
    for name in names.to_pylist():
        space.create_channel(name, STOCK)
    chance = np.random.default_rng(7)

    def publisher(count: int) -> Callable[[], object]:
        table = stocks().append_column("channel", names.take(pa.array(chance.integers(0, count, EVENTS))))
        return lambda: space.publish([Submission(None, table, columns=Columns(channel="channel"))])

    one = publisher(1)
    one()
    for count in CHANNELS[1:]:
        many = publisher(count)
        ours, theirs = side_by_side(many, one)
        yield Row(f"into {count} channels, in memory", "into 1", ours, theirs, EVENTS, "events", 0.91)
        fsspec.filesystem("memory").rm("/many/data", recursive=True)
        yield Row(
            f"into {count} channels, bytes", "into 1", stored(space, many), stored(space, one), unit="memory", goal=0.91
        )


def into_types() -> Iterator[Row]:
    """The first commit of a process for channels of many types, beside one for as many channels of one type: what each
    type costs until its formats are read and what encodes it is compiled."""
    count = CHANNELS[-1]
    names = pa.array([f"channel {number}" for number in range(count)])
    table = stocks().slice(0, 10 * count)
    table = table.append_column("channel", names.take(pa.array(np.arange(table.num_rows) % count)))

    def publisher(root: str, types: int) -> Callable[[], object]:
        space = ChannelSpace.create(root)
        for number, name in enumerate(names.to_pylist()):
            space.create_channel(name, record(f"stock {number % types}", STOCK.fields))
        return lambda: ChannelSpace.open(root).publish([Submission(None, table, columns=Columns(channel="channel"))])

    many, one = publisher("memory://types", count), publisher("memory://type", 1)
    one()
    yield Row(f"first, into {count} types, in memory", "into 1", *side_by_side(many, one), table.num_rows, "events")


def stocks() -> pa.Table:
    """Events of STOCK."""
    numbers = np.arange(EVENTS)
    return pa.table(
        {
            "name": pa.array(["ACME", "INITECH", "HOOLI"] * (EVENTS // 3 + 1))[:EVENTS],
            "price": numbers % 1000 / 8,
            "volume": pa.array(numbers.astype(np.int32)),
        }
    )


def stored(space: ChannelSpace, publish: Callable[[], object]) -> int:
    """The bytes that a publication adds to a space."""
    store = fsspec.filesystem("memory")
    before = store.du(space.root)
    publish()
    return int(store.du(space.root) - before)


def for_subscribers() -> Iterator[Row]:
    """What publishing costs the writer, in memory, with and without named subscribers."""
    table = stocks()

    def publisher(count: int) -> Callable[[], object]:
        space = ChannelSpace.create(f"memory://for {count}")
        channel = space.create_channel("stocks", STOCK)
        for number in range(count):
            channel.subscribe(name=f"subscriber {number}")
        return lambda: channel.submit(table)

    none = publisher(0)
    none()
    for count in SUBSCRIBERS:
        ours, theirs = side_by_side(publisher(count), none)
        yield Row(f"for {count} subscribers, in memory", "for none", ours, theirs, EVENTS, "events", 0.91)
        for folder in (0, count):
            fsspec.filesystem("memory").rm(f"/for {folder}/data", recursive=True)


def python_latency(folder: Path) -> Iterator[Row]:
    """From before an event is submitted until a handler in another process has it."""
    space = ChannelSpace.create(f"{folder}/latency")
    channel = space.create_channel("stamps", STAMP)
    code = f"from benchmarks.events.channels import listen; listen({space.root!r}, {SAMPLES})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        listener.stdout.readline()
        for _ in range(SAMPLES):
            time.sleep(0.01)
            channel.submit({"sent": time.time_ns()})
        waits = json.loads(listener.stdout.readline())
    yield Row("from publisher to subscriber", "10 ms", statistics.median(waits), 0.010, goal=1)


def listen(root: str, count: int) -> None:
    """Print how long each event took."""
    waits: list[float] = []
    subscription = ChannelSpace.open(root).channel("stamps").subscribe()
    print("ready", flush=True)
    for event in subscription.events(timeout=None):
        waits.append((time.time_ns() - event.values["sent"]) / 1e9)
        if len(waits) == count:
            break
    print(json.dumps(waits))


def start(folder: Path) -> Iterator[Row]:
    """A reader that opens a space, and has the newest event of a channel."""

    def opener(commits: int) -> Callable[[], object]:
        root = f"{folder}/{commits} commits"
        space = ChannelSpace.create(root)
        channel = space.create_channel("stamps", STAMP)
        channel.submit({"sent": 0})
        lengthen(space, commits)
        channel.submit({"sent": 1})

        def read() -> None:
            reader = ChannelSpace.open(root)
            newest = reader.channel("stamps").info.last
            (event,) = reader.channel("stamps").subscribe(start=Position(newest)).events()
            assert event.values == {"sent": 1}

        return read

    long, short = opener(COMMITS), opener(100)
    yield Row(f"start on {COMMITS} commits", "on 100", *side_by_side(long, short), goal=0.5)


def lengthen(space: ChannelSpace, commits: int) -> None:
    """Add many commits to a log, of an event each, all of which lie in the one data file that there is."""
    history = space.history
    state = history.catch_up()
    entry = history.entry(state.version)
    assert entry is not None
    assert isinstance(entry.change, Data)
    (file,), (group,) = entry.change.files, entry.change.groups
    own = Groups.of([Group(group.channel, 0, group.start, group.end, 0, 1, group.format)])
    while state.version < commits:
        version, change = state.version + 1, Data(state.control, (DataFile(file.path, file.bytes),), own)
        made = commit_to_json(Commit(space.id, f"{version:032x}", state.time, change, state.digest), version)
        Path(space.folder.path(commit_path(version))).write_bytes(made)
        state.apply(json_to_commit(made, version))
        if state.version % 100 == 0:
            history.checkpoint()


def spark_channels(spark: SparkSession, folder: Path) -> Iterator[Row]:
    """The same rows from Spark in one commit, for one channel and for many."""
    space = ChannelSpace.create(f"{folder}/concentrated")
    for number in range(CHANNELS[-1]):
        space.create_channel(f"channel {number}", STOCK)

    def writer(count: int) -> Callable[[], object]:
        columns = ["concat('name ', id % 100) name", "id / 8D price", "int(id) volume"]
        frame = spark.range(0, ROWS, 1, 2).selectExpr(*columns, f"concat('channel ', id * 7919 % {count}) channel")
        made = frame.write.format("pbio").mode("append").option("channelColumn", "channel")
        return lambda: made.save(space.root)

    one = writer(1)
    one()
    for count in CHANNELS[1:]:
        yield Row(f"Spark into {count} channels", "into 1", *side_by_side(writer(count), one), ROWS, "rows", 0.91)


def spark_latency(spark: SparkSession, folder: Path) -> Iterator[Row]:
    """How long a micro-batch of a few rows takes, from a channel and from others, all to memory. Something is published
    all the while, whatever is read, since disk and processors serve that too."""
    space = ChannelSpace.create(f"{folder}/stream")
    channel = space.create_channel("stamps", STAMP)
    spark.dataSource.register(Idle)
    sources = {
        "a channel": spark.readStream.format("pbio").option("channel", "stamps").load(space.root),
        "from a Python source that does nothing": spark.readStream.format("idle").load(),
        "from rate": spark.readStream.format("rate").option("rowsPerSecond", 50).load(),
    }
    times: dict[str, list[float]] = {name: [] for name in sources}
    for _ in range(3):
        for name, frame in sources.items():
            times[name].append(batch_time(to_memory(frame), lambda: channel.submit({"sent": time.time_ns()})))
    ours, *theirs = (statistics.median(taken) for taken in times.values())
    for against, taken, goal in zip(list(sources)[1:], theirs, (0.91, None), strict=True):
        yield Row("a micro-batch from a channel", against, ours, taken, goal=goal)


def to_memory(frame: DataFrame) -> StreamingQuery:
    return frame.writeStream.format("memory").queryName("sink").start()


def batch_time(query: StreamingQuery, feed: Callable[[], object]) -> float:
    """The median time of micro-batches that have rows, in seconds."""
    times: dict[int, int] = {}
    try:
        while len(times) < BATCHES:
            feed()
            time.sleep(0.02)
            progress: Any = query.lastProgress
            if progress is not None and progress["numInputRows"]:
                times[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
    finally:
        query.stop()
    return statistics.median(list(times.values())[5:]) / 1000


def spark_throughput(spark: SparkSession, folder: Path) -> Iterator[Row]:
    """Streams of the same rows into channels and into Parquet files, and out of them: the time of their micro-batches,
    without the second or two in which Python's part of a stream starts."""
    columns = ["id", "concat('name ', id % 1000) name", "id / 8D price", "int(id) volume", "'p' || id % 8 producer"]
    frame = spark.range(0, ROWS, 1, FILES).selectExpr(*columns)
    frame.write.parquet(f"{folder}/rows")
    space = ChannelSpace.create(f"{folder}/spark")
    for name in ("rows", "once"):
        space.create_channel(name, frame.schema)
    runs = iter(range(1000))

    def run(reader: Any, path: str, sink: str, target: str, **options: str) -> float:
        stream = reader.load(path).writeStream.format(sink).options(**options).trigger(availableNow=True)
        query = stream.option("checkpointLocation", f"{folder}/checkpoint {next(runs)}").start(target)
        query.awaitTermination()
        return sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress) / 1000

    def files() -> Any:
        return spark.readStream.format("parquet").schema(frame.schema)

    def into(channel: str) -> float:
        return run(files(), f"{folder}/rows", "pbio", space.root, channel=channel, producerColumn="producer")

    written = [(into("rows"), run(files(), f"{folder}/rows", "parquet", f"{folder}/sink {n}")) for n in range(3)]
    ours, theirs = map(min, zip(*written, strict=True))
    yield Row("a stream into a channel", "parquet sink", ours, theirs, ROWS, "rows")
    into("once")
    channel = spark.readStream.format("pbio").option("channel", "once").option("startingOffsets", "earliest")

    def batch() -> float:
        start = time.perf_counter()
        events = spark.read.format("pbio").option("channel", "once").load(space.root)
        events.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    sources = (lambda: run(channel, space.root, "noop", ""), batch, lambda: run(files(), f"{folder}/rows", "noop", ""))
    ours, whole, theirs = map(min, zip(*([source() for source in sources] for _ in range(3)), strict=True))
    yield Row("a stream out of a channel", "a batch of the same events", ours, whole, ROWS, "rows", 0.8)
    yield Row("a stream out of a channel", "parquet source", ours, theirs, ROWS, "rows")
