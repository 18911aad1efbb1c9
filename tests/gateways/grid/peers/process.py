"""Other processes of the tests: `python -m tests.gateways.grid.peers.process WHAT ADDRESS ...` prints lines of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from pbio_spark.gateways.grid import GridConsumer, GridEvent, GridProducer
from tests.gateways.grid.samples import NAME, TYPES, VALUES


def show(event: GridEvent) -> None:
    """Print an event."""
    made = {**event.values, "TimeStamp": event.time.isoformat()}
    print(json.dumps([event.name, made, event.sequence, event.position]), flush=True)


async def consume(address: str, *parameters: str) -> None:
    """Names, a query and a subscription; until the producer ends it."""
    async with await GridConsumer.connect(address, TYPES) as consumer:
        print(json.dumps([name.name for name in await consumer.names()]), flush=True)
        show(await consumer.query(NAME))
        async with await consumer.subscribe(NAME, dict(zip(parameters[::2], parameters[1::2], strict=True))) as events:
            print("subscribed", flush=True)
            async for event in events:
                show(event)
    print("ended", flush=True)


async def produce(address: str) -> None:
    """Listen, and publish an event for each line of input."""
    producer = GridProducer(TYPES)
    async with producer.listen(address) as bound:
        print(bound, flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(await producer.publish(NAME, {**VALUES, "Load1": float(line)}), flush=True)


async def hand_over(address: str, count: str) -> None:
    """A producer-initiated subscription of so many events."""
    producer = GridProducer(TYPES)
    async with await producer.connect(address) as connection:
        subscription = await connection.subscribe(NAME)
        for number in range(int(count)):
            await producer.publish(NAME, {**VALUES, "Load1": float(number)}, sequence=number)
        print(await subscription.unsubscribe(), flush=True)


WHAT: dict[str, Callable[..., Awaitable[None]]] = {"consume": consume, "produce": produce, "hand_over": hand_over}

if __name__ == "__main__":
    asyncio.run(WHAT[sys.argv[1]](*sys.argv[2:]))
