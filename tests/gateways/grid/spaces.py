"""A gateway on a space, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pbio_spark.channels import ChannelSpace
from pbio_spark.gateways.grid import GridConsumer, GridEvent, GridGateway, GridProducer, GridSettings, GridSubscription
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.server import Listener, Server
from tests.gateways.grid.samples import LOAD, NAME, TYPES, VALUES


def new_space(folder: Path) -> ChannelSpace:
    """A space with a channel of the paper's event."""
    space = ChannelSpace.create(str(folder / "space"))
    space.create_channel(NAME, LOAD)
    return space


@asynccontextmanager
async def serving(space: ChannelSpace, limits: GatewayLimits | None = None, **settings: Any) -> AsyncIterator[str]:
    """A gateway that listens; its address."""
    gateway = GridGateway(space, GridSettings(**{"entry": 0.0, **settings}))
    async with Server([Listener(gateway, "127.0.0.1", 0)], limits or GatewayLimits(grace=5)) as server:
        host, port = server.addresses["grid"]
        yield f"{host}:{port}"


@asynccontextmanager
async def consumer_of(
    space: ChannelSpace, limits: GatewayLimits | None = None, **settings: Any
) -> AsyncIterator[GridConsumer]:
    """A consumer of a gateway."""
    async with serving(space, limits, **settings) as address, await GridConsumer.connect(address, TYPES) as consumer:
        yield consumer


async def hand_over(address: str, loads: Sequence[float], first: int | None = 0, name: str = NAME) -> str | None:
    """Have an archive take events; returns its final message."""
    producer = GridProducer({name: LOAD})
    async with await producer.connect(address) as connection:
        subscription = await connection.subscribe(name)
        for number, load in enumerate(loads):
            sequence = None if first is None else first + number
            await producer.publish(name, {**VALUES, "Load1": float(load)}, sequence=sequence)
        return await subscription.unsubscribe()


def submit(space: ChannelSpace, loads: Sequence[float], channel: str = NAME) -> None:
    """Publish events from here."""
    space.channel(channel).submit([{**VALUES, "Load1": float(load)} for load in loads])


def loads_in(space: ChannelSpace, channel: str = NAME) -> list[float]:
    """The content of a channel."""
    return [event.values["Load1"] for event in space.channel(channel).subscribe(start="earliest").events()]


async def take(events: GridSubscription, count: int) -> list[float]:
    """So many events of a subscription."""
    return [event.values["Load1"] for event in [await anext(events) for _ in range(count)]]


async def all_of(events: GridSubscription) -> list[GridEvent]:
    """All events until the subscription ends."""
    return [event async for event in events]
