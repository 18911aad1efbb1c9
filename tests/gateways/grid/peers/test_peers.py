"""Producers and consumers in processes of their own: the three interactions of the paper, with its values."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import pbio_spark as pbio
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import EventName, GridConsumer, GridProducer
from pbio_spark.gateways.grid.protocol.messages import EVENTS
from tests.gateways.grid.samples import LOAD, NAME, TYPES, VALUES

ROOT = Path(__file__).parents[4]
SHOWN = {**VALUES, "TimeStamp": "2000-11-09T21:51:45+00:00"}


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of `process.py`."""
    command = [sys.executable, "-m", "tests.gateways.grid.peers.process", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def line(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def say(started: subprocess.Popen[str], text: str) -> None:
    assert started.stdin is not None
    started.stdin.write(f"{text}\n")
    started.stdin.flush()


def test_the_papers_interactions_with_a_producer_in_another_process() -> None:
    with process("produce", "127.0.0.1:0") as producer:
        with pbio.GridConsumer.open(line(producer), TYPES) as consumer:
            assert consumer.names() == [EventName(NAME, EVENTS)]
            with pytest.raises(PbioError, match="PBIO_REFUSED") as caught:
                consumer.query(NAME)
            assert "no event 'UptimeCPULoad' has been published yet" in caught.value.reason
            with consumer.subscribe(NAME) as subscription:
                say(producer, "1.5")
                assert line(producer) == "1"
                event = subscription.next(60)
                assert event is not None
                assert (event.name, event.values, event.time) == (NAME, VALUES, VALUES["TimeStamp"])
            assert consumer.query(NAME).values == VALUES
            say(producer, "1.6")
            assert line(producer) == "0"  # there are no subscribers any more
        say(producer, "")
        assert producer.wait(60) == 0


def test_the_papers_interactions_with_a_consumer_in_another_process() -> None:
    with pbio.GridProducer.open(TYPES) as producer:
        producer.publish(NAME, VALUES)
        with process("consume", producer.address, "Count", "2") as consumer:
            assert json.loads(line(consumer)) == [NAME]
            assert json.loads(line(consumer)) == [NAME, SHOWN, None, None]
            assert line(consumer) == "subscribed"
            for load in (1.5, 2.5):
                assert producer.publish(NAME, {**VALUES, "Load1": load}) == 1
                assert json.loads(line(consumer)) == [NAME, {**SHOWN, "Load1": load}, None, None]
            assert line(consumer) == "ended"


def test_a_producer_initiates_a_subscription() -> None:
    async def main() -> list[Any]:
        async with GridConsumer.listen("127.0.0.1:0", TYPES, accept=[NAME]) as archive:
            with process("hand_over", archive.address, "3") as producer:
                found = [await anext(archive) for _ in range(3)]
                assert await asyncio.to_thread(line, producer) == "None"
        return [(event.values["Load1"], event.sequence) for event in found]

    assert asyncio.run(main()) == [(0.0, 0), (1.0, 1), (2.0, 2)]


def test_a_consumer_without_a_type_gets_strings() -> None:
    with pbio.GridProducer.open(TYPES) as producer, pbio.GridConsumer.open(producer.address) as consumer:
        producer.publish(NAME, VALUES, sequence=7)
        event = consumer.query(NAME)
    assert event.values["Load1"] == "1.5"
    assert (event.time, event.sequence) == (VALUES["TimeStamp"], 7)
    assert event.node is not None


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[GridProducer, GridConsumer]]:
    """A producer and a consumer that is connected to it."""
    producer = GridProducer(TYPES)
    async with (
        producer.listen("127.0.0.1:0") as address,
        await GridConsumer.connect(address, TYPES, **options) as consumer,
    ):
        yield producer, consumer


def test_what_a_producer_does_not_have_is_refused_with_what_it_has() -> None:
    async def main() -> None:
        async with pair() as (_, consumer):
            for name, asked, reason in (
                ("UptimeCPULoda", {}, "did you mean 'UptimeCPULoad'?"),
                (EventName(NAME, "urn:x"), {}, "in the name space 'urn:x'"),
                (NAME, {"Periode": 1}, "unknown parameter 'Periode'; did you mean 'Period'?"),
                (NAME, {"Period": (1, "kg")}, "'kg' (mass) cannot become 'sec' (time)"),
                (NAME, {"Period": -1}, "Period cannot be '-1'"),
                (NAME, {"Count": 0}, "Count cannot be '0'"),
            ):
                with pytest.raises(PbioError, match="PBIO_REFUSED") as caught:
                    await consumer.subscribe(name, asked)
                assert reason in caught.value.reason
            with pytest.raises(PbioError, match="PBIO_BAD_VALUE"):
                await consumer.subscribe(NAME, {"Period": object()})

    asyncio.run(main())


def test_period_sends_the_last_event_of_each() -> None:
    async def main() -> list[float]:
        async with pair() as (producer, consumer), await consumer.subscribe(NAME, {"Period": (0.05, "sec")}) as events:
            for load in range(5):
                await producer.publish(NAME, {**VALUES, "Load1": float(load)})
            return [(await anext(events)).values["Load1"] for _ in range(2)]

    assert asyncio.run(main()) == [0.0, 4.0]


def test_both_sides_may_unsubscribe_at_once() -> None:
    async def main() -> None:
        async with pair() as (producer, consumer):
            events = await consumer.subscribe(NAME, {"Count": 1})
            await asyncio.gather(events.unsubscribe(), producer.publish(NAME, VALUES))
            assert [event.values async for event in events] in ([VALUES], [])
            assert await producer.publish(NAME, VALUES) == 0
            async with await consumer.subscribe(NAME) as again:  # the connection is as good as before
                await producer.publish(NAME, VALUES)
                assert (await anext(again)).values == VALUES

    asyncio.run(main())


def test_an_event_without_a_value_is_refused_and_nothing_is_sent() -> None:
    async def main() -> None:
        async with pair() as (producer, consumer), await consumer.subscribe(NAME, {"Count": 1}) as events:
            with pytest.raises(PbioError, match="PBIO_CANNOT_BE_NULL"):
                await producer.publish(NAME, {"Load1": 1.5})
            with pytest.raises(PbioError, match="PBIO_UNKNOWN_COLUMN") as caught:
                await producer.publish(NAME, {**VALUES, "Laod1": 1.5})
            assert "did you mean" in str(caught.value.hint)
            with pytest.raises(PbioError, match="has no events 'x'"):
                await producer.publish("x", VALUES)
            before = datetime.now(UTC)
            await producer.publish(NAME, {**VALUES, "TimeStamp": None})
            assert (await anext(events)).time >= before

    asyncio.run(main())


def test_the_end_of_a_connection_is_told_to_all_who_wait() -> None:
    async def main() -> None:
        async with pair() as (_, consumer):
            events = await consumer.subscribe(NAME)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            await consumer.close()
            with pytest.raises(PbioError, match="PBIO_DISCONNECTED"):
                await waiting
            with pytest.raises(PbioError, match="PBIO_DISCONNECTED"):
                await consumer.names()
        with pytest.raises(PbioError, match="PBIO_NOT_LISTENING"):
            await GridConsumer.connect("127.0.0.1:1")

    asyncio.run(main())


def test_a_peer_that_does_not_answer() -> None:
    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with await GridConsumer.connect(f"127.0.0.1:{port}", reply_time=0.05) as consumer:
                with pytest.raises(PbioError, match=r"PBIO_NO_REPLY.*EventNamesRequest in 0.05 s"):
                    await consumer.names()

    asyncio.run(main())


def test_a_slow_consumer_holds_up_the_connection_and_not_the_memory() -> None:
    """Its events wait in the network until it takes them, and none is lost."""

    async def main() -> int:
        async with pair() as (producer, consumer), await consumer.subscribe(NAME) as events:
            publishing = asyncio.create_task(many(producer))
            await asyncio.sleep(0.2)
            count = 0
            async for event in events:
                assert event.values["Load1"] == count
                count += 1
                if count == 20_000:
                    break
            await publishing
            return count

    async def many(producer: GridProducer) -> None:
        for number in range(20_000):
            await producer.publish(NAME, {**VALUES, "Load1": float(number)})

    assert asyncio.run(main()) == 20_000


def test_the_blocking_face_ends_and_times_out() -> None:
    with pbio.GridProducer.open({NAME: LOAD}) as producer:
        with (
            pbio.GridConsumer.open(producer.address, TYPES) as consumer,
            consumer.subscribe(NAME, {"Count": 2}) as events,
        ):
            with pytest.raises(TimeoutError):
                events.next(0.01)
            producer.publish(NAME, VALUES)
            producer.publish(NAME, VALUES)
            assert [event.values for event in events] == [VALUES, VALUES]
        with pytest.raises(PbioError, match="PBIO_NOT_LISTENING"):
            pbio.GridProducer.open(TYPES, producer.address)


def test_the_blocking_face_can_be_used_where_a_loop_runs_as_in_a_notebook() -> None:
    async def cell() -> None:
        with (
            pbio.GridProducer.open({NAME: LOAD}) as producer,
            pbio.GridConsumer.open(producer.address, TYPES) as consumer,
        ):
            assert [one.name for one in consumer.names()] == [NAME]

    asyncio.run(cell())
