"""One live channel: old and new readers, a new format that joins, compaction and vacuum, all at once."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecode.types import FLOAT64, INT32, Field, record
from pbio_spark.channels import ChannelSpace, Event
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import record_to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OLD = record("load", [Field("n", INT32), Field("average", FLOAT64)])
NEW = record("load", [Field("n", INT32), Field("total", FLOAT64), Field("cpus", INT32)])
NEW_FORMAT = evolve(
    record_to_format(OLD),
    record_to_format(NEW, "be32"),
    "{ old.n = new.n; old.average = new.total / new.cpus; }",
)
COUNT, SIZE = 80, 4
"""How many events each producer makes, and how many at once."""
NEW_PRODUCERS = ("new 0", "new 1")
PRODUCERS = ("old 0", "old 1", *NEW_PRODUCERS)


def test_old_and_new_live_on_one_channel_while_it_is_compacted(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "space")
    ChannelSpace.create(root).create_channel("loads", record_to_format(OLD))
    heard: dict[str, list[Event]] = defaultdict(list)
    failures: list[BaseException] = []
    done = threading.Event()

    def run(work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def publish(producer: str) -> None:
        channel = ChannelSpace.open(root).channel("loads")
        for first in range(0, COUNT, SIZE):
            numbers = range(first, first + SIZE)
            if producer in NEW_PRODUCERS:
                rows = [{"n": n, "total": 8.0 * n, "cpus": 4} for n in numbers]
                channel.submit(rows, format=NEW_FORMAT, producer=producer, sequence=first)
            else:
                channel.submit([{"n": n, "average": 2.0 * n} for n in numbers], producer=producer, sequence=first)
            time.sleep(0.02)

    def subscribe(name: str, handlers: Any) -> None:
        subscription = ChannelSpace.open(root).channel("loads").subscribe(handlers, start="earliest", name=name)
        while not (done.is_set() and subscription.run() == 0):
            time.sleep(0.01)

    def look_after() -> None:
        space = ChannelSpace.open(root)
        while not done.is_set():
            space.compact(small=1 << 20, target=1 << 20)
            space.vacuum(grace=timedelta(hours=1), linger=timedelta(0))
            time.sleep(0.1)

    kept = {"old": heard["old"].append}
    readers = [
        run(lambda: subscribe("old", kept["old"])),
        run(lambda: subscribe("new", {NEW: heard["new"].append, None: heard["rest"].append})),
    ]
    stream = spark.readStream.format("pbio").option("channel", "loads").option("startingOffsets", "earliest")
    queries = [
        to_memory(stream.option("metadataColumn", "m").load(root), "live_old"),
        to_memory(
            stream.option("metadataColumn", "m")
            .option("readerFormat", record_to_json(NEW))
            .option("onReject", "drop")
            .option("mismatchThreshold", "0")
            .load(root),
            "live_new",
        ),
    ]
    keeper = run(look_after)
    writers = [run(lambda p=producer: publish(p)) for producer in ("old 0", "old 1")]  # type: ignore[misc]
    time.sleep(0.5)
    writers += [run(lambda p=producer: publish(p)) for producer in NEW_PRODUCERS]  # type: ignore[misc]
    for thread in writers:
        thread.join()
    for query in queries:
        query.processAllAvailable()
        query.stop()
    done.set()
    for thread in (*readers, keeper):
        thread.join()
    assert failures == []

    expected = list(range(COUNT))
    for producer in PRODUCERS:
        own = [event for event in heard["old"] if event.producer == producer]
        assert [(e.sequence, e.values) for e in own] == [(n, {"n": n, "average": 2.0 * n}) for n in expected]
        own = [event for event in heard["new"] if event.producer == producer]
        news = [(n, {"n": n, "total": 8.0 * n, "cpus": 4}) for n in expected]
        assert [(e.sequence, e.values) for e in own] == (news if producer in NEW_PRODUCERS else [])
        rest = [event.sequence for event in heard["rest"] if event.producer == producer]
        assert rest == ([] if producer in NEW_PRODUCERS else expected)
    for name in ("old", "new"):
        assert [e.position for e in heard[name]] == sorted({e.position for e in heard[name]})
    assert rows_of(spark, "live_old") == {
        producer: [{"n": n, "average": 2.0 * n} for n in expected] for producer in PRODUCERS
    }
    assert rows_of(spark, "live_new") == {
        producer: [{"n": n, "total": 8.0 * n, "cpus": 4} for n in expected] for producer in NEW_PRODUCERS
    }
    space = ChannelSpace.open(root)
    assert space.history.catch_up().compactions, "nothing was compacted"
    assert list(problems(space)) == []


def to_memory(frame: DataFrame, name: str) -> Any:
    return frame.writeStream.format("memory").queryName(name).start()


def rows_of(spark: SparkSession, table: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each producer in the order of their positions; their sequence numbers must be in that order too."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows = sorted(spark.table(table).collect(), key=lambda row: [int(part) for part in row.m.position.split(".")])
    for row in rows:
        assert row.m.sequence == len(found[row.m.producer])
        found[row.m.producer].append({name: value for name, value in row.asDict().items() if name != "m"})
    return dict(found)
