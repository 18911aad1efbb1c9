"""Gateways: Grid events in XML, beside expat alone and beside the same events as thin streams

The paper (2001, a Pentium III of 933 MHz): 4,300 messages decoded and 28,100 encoded a second in C++; in Java 600 and
21,900.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.parsers.expat import ParserCreate

from benchmarks import Row, side_by_side
from ecode.types import FLOAT64, INT64, STRING, Field, Notes, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import Stone, ThinGateway, ThinSettings
from pbio_spark.gateways.grid import GridConsumer, GridGateway, GridProducer, GridSettings
from pbio_spark.gateways.grid.peers.session import event_to_frame
from pbio_spark.gateways.grid.protocol.messages import EVENTS
from pbio_spark.gateways.grid.values.compiled import EventWriter
from pbio_spark.gateways.grid.values.plan import record_to_plan
from pbio_spark.gateways.grid.values.shapes import ShapeReader
from pbio_spark.gateways.server import Listener, Server
from pbio_spark.wire import FileWriter

NAME = "UptimeCPULoad"
LOAD = record(
    NAME,
    [
        *(Field(name, FLOAT64) for name in ("Load1", "Load5", "Load15")),
        Field("HostName", STRING),
        Field("TimeStamp", INT64, Notes(logical="timestamp")),
    ],
)
TYPES = {NAME: LOAD}
MESSAGES = 20_000
SENT = 40_000
SAMPLES = 200
SPARK_SAMPLES = 15


def rows() -> Iterator[Row]:
    yield from decoding()
    yield from encoding()
    yield from between_processes()
    folder = Path(tempfile.mkdtemp())
    try:
        yield from into_a_channel(folder)
        yield from to_spark(folder)
    finally:
        shutil.rmtree(folder)


def event(number: int) -> dict[str, Any]:
    """An event, whose numbers have as many digits as the paper's, or more."""
    when = datetime.fromtimestamp(973_806_705 + number, UTC)
    return {"Load1": number / 8, "Load5": 1.6, "Load15": number / 100, "HostName": "foo.gov", "TimeStamp": when}


def decoding() -> Iterator[Row]:
    """Messages to values, beside expat, which is given no handler."""
    plan = record_to_plan(LOAD, NAME, EVENTS)
    writer = EventWriter(plan)
    messages = [event_to_frame("12", writer.write(event(number)))[4:] for number in range(MESSAGES)]
    reader = ShapeReader({"12": plan})

    def ours() -> None:
        for message in messages:
            reader.read(message)

    def parse(separator: str | None) -> None:
        for message in messages:
            ParserCreate(None, separator).Parse(message, True)

    yield Row("decode", "expat", *side_by_side(ours, lambda: parse("}")), MESSAGES, "messages", 0.67)
    yield Row("decode", "expat, no name spaces", *side_by_side(ours, lambda: parse(None)), MESSAGES, "messages")

    def carefully() -> None:
        for message in messages[: MESSAGES // 10]:
            ShapeReader({"12": plan}).read(message)

    careful = side_by_side(carefully, lambda: parse("}"), 2)[0] * 10
    yield Row("decode", "the first of each form", side_by_side(ours, ours, 2)[0], careful, MESSAGES, "messages")


def encoding() -> Iterator[Row]:
    """Values to frames, beside the goal of 200,000 a second."""
    writer = EventWriter(record_to_plan(LOAD, NAME, EVENTS))
    events = [event(number) for number in range(MESSAGES)]

    def ours() -> None:
        for one in events:
            event_to_frame("12", writer.write(one))

    best = side_by_side(ours, lambda: None)[0]
    yield Row("encode", "200 k/s", best, MESSAGES / 200_000, MESSAGES, "messages", 1)


def between_processes() -> Iterator[Row]:
    """From a producer in another process to a consumer."""

    async def main() -> tuple[float, list[float]]:
        code = "from benchmarks.events.gateways import produce; produce()"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            consumer = await GridConsumer.connect(address, TYPES)
            events = await consumer.subscribe(NAME)
            process.stdin.write("\n")
            process.stdin.flush()
            waits = []
            for _ in range(SAMPLES):
                one = await anext(events)
                waits.append(time.time() - one.time.timestamp())
            begun = time.perf_counter()
            for _ in range(SENT):
                await anext(events)
            took = time.perf_counter() - begun
            await consumer.close()
        return took, waits

    took, waits = asyncio.run(main())
    yield Row("producer to consumer", "", took, None, SENT, "events")
    yield Row("producer to consumer, median latency", "1 ms", statistics.median(waits), 0.001, goal=1)


def produce() -> None:
    """A producer for a consumer: events one by one, then many."""

    async def main() -> None:
        producer = GridProducer(TYPES)
        async with producer.listen("127.0.0.1:0") as address:
            print(address, flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for number in range(SAMPLES):
                await asyncio.sleep(0.005)
                await producer.publish(NAME, {**event(number), "TimeStamp": datetime.now(UTC)})
            await asyncio.sleep(0.2)
            for number in range(SENT):
                await producer.publish(NAME, event(number))
            await asyncio.sleep(2)

    asyncio.run(main())


def into_a_channel(folder: Path) -> Iterator[Row]:
    """The same events into a channel until they are durable, as XML and as a thin stream; and their bytes."""
    space = ChannelSpace.create(f"{folder}/space")
    space.create_channel(NAME, LOAD)
    events = [event(number) for number in range(SENT)]
    plan = record_to_plan(LOAD, NAME, EVENTS)
    text = b"".join(event_to_frame("1", EventWriter(plan).write(one)) for one in events)
    stream = thin(events)
    grid = GridGateway(space, GridSettings(archive="*", entry=0.0))
    evpath = ThinGateway(space, ThinSettings(stones={1: Stone(NAME)}))

    async def main() -> tuple[float, float]:
        async with Server([Listener(grid, "127.0.0.1", 0), Listener(evpath, "127.0.0.1", 0)]) as server:
            as_xml, as_thin = [], []
            for _ in range(3):
                as_xml.append(await send_xml(address_of(server), events))
                as_thin.append(await asyncio.to_thread(send_thin, server.addresses["evpath"], stream))
        return min(as_xml), min(as_thin)

    as_xml, as_thin = asyncio.run(main())
    yield Row("into a channel, as XML", "a thin stream", as_xml, as_thin, SENT, "events")
    yield Row(f"bytes of {SENT} events, as XML", "a thin stream", len(text), len(stream), unit="memory")


def address_of(server: Server) -> str:
    """Where Grid events are served."""
    host, port = server.addresses["grid"]
    return f"{host}:{port}"


async def send_xml(address: str, events: list[dict[str, Any]]) -> float:
    """The seconds until an archive has events."""
    begun = time.perf_counter()
    producer = GridProducer(TYPES)
    async with await producer.connect(address) as connection:
        subscription = await connection.subscribe(NAME)
        for one in events:
            await producer.publish(NAME, one)
        await subscription.unsubscribe()
    return time.perf_counter() - begun


def thin(events: list[dict[str, Any]]) -> bytes:
    """A thin stream of events."""
    file, form = io.BytesIO(), Format.of(LOAD)
    with FileWriter(file) as writer:
        writer.comment("Stone 1")
        for one in events:
            writer.data(form, {**one, "TimeStamp": int(one["TimeStamp"].timestamp() * 1e6)})
    return file.getvalue()


def send_thin(address: tuple[str, int], stream: bytes) -> float:
    """The seconds until a gateway has published a thin stream."""
    begun = time.perf_counter()
    with socket.create_connection(address) as connection:
        connection.sendall(stream)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1):
            pass
    return time.perf_counter() - begun


def to_spark(folder: Path) -> Iterator[Row]:
    """From a producer of either kind, through a gateway, to a micro-batch of Spark; and many events at once."""
    from benchmarks.spark.spark_scan import session

    spark = session()
    space = ChannelSpace.create(f"{folder}/to spark")
    space.create_channel(NAME, LOAD)
    waits: list[float] = []
    came = asyncio.Event()
    counts: list[int] = []
    as_xml: list[float] = []
    took: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def take(batch: Any, _: int) -> None:
            now = time.time()
            counts.append(batch.count())
            if counts[-1] < 1000:
                waits.extend(now - one["TimeStamp"].timestamp() for one in batch.collect())
            loop.call_soon_threadsafe(came.set)

        async def until_it_came() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await came.wait()
            came.clear()

        frame = spark.readStream.format("pbio").option("channel", NAME).load(space.root)
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/checkpoint").start()
        producer = GridProducer(TYPES)
        gateway = GridGateway(space, GridSettings(archive="*", entry=0.0, linger=0.001))
        evpath = ThinGateway(space, ThinSettings(stones={1: Stone(NAME)}, linger=0.001))
        async with Server([Listener(gateway, "127.0.0.1", 0), Listener(evpath, "127.0.0.1", 0)]) as server:
            connection = await producer.connect(address_of(server))
            await connection.subscribe(NAME)
            await asyncio.sleep(5)
            for number in range(SPARK_SAMPLES):
                await producer.publish(NAME, {**event(number), "TimeStamp": datetime.now(UTC)})
                await until_it_came()
            as_xml.extend(waits)
            waits.clear()
            thin_address = server.addresses["evpath"]
            for number in range(SPARK_SAMPLES):
                stream = thin([{**event(number), "TimeStamp": datetime.now(UTC)}])
                await asyncio.to_thread(send_thin, thin_address, stream)
                await until_it_came()
            stream = thin([event(number) for number in range(SENT)])
            begun, before = time.perf_counter(), sum(counts)
            await asyncio.to_thread(send_thin, thin_address, stream)
            while sum(counts) < before + SENT:
                await until_it_came()
            took.append(time.perf_counter() - begun)
            await connection.close()
        await asyncio.to_thread(query.stop)

    try:
        asyncio.run(main())
    finally:
        spark.stop()
    yield Row("producer to Spark, median latency", "1 s", statistics.median(as_xml[2:]), 1.0, goal=1)
    yield Row("thin stream to Spark, median latency", "1 s", statistics.median(waits), 1.0, goal=1)
    yield Row("thin stream to Spark", "", took[0], None, SENT, "events")
