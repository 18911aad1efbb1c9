"""Named subscriptions: a returning consumer gets the events that it missed."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import GridConsumer, GridEvent, GridSubscription
from tests.channels.spaces import again
from tests.gateways.grid.samples import NAME, TYPES
from tests.gateways.grid.spaces import all_of, consumer_of, new_space, serving, submit, take

VIEWER = {"Subscriber": "viewer"}


def positions(space: ChannelSpace) -> dict[str, str]:
    return {one.name: str(one.position) for one in space.subscribers()}


async def until(space: ChannelSpace, left: int) -> None:
    """Wait until the viewer has so many events left."""
    while True:
        (viewer,) = await asyncio.to_thread(space.subscribers)
        if (await asyncio.to_thread(space.backlog, viewer))[1] == left:
            return
        await asyncio.sleep(0.02)


def test_a_named_consumer_resumes_after_both_sides_were_restarted(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space) as consumer:
            events = await consumer.subscribe(NAME, VIEWER)
            await asyncio.to_thread(submit, space, range(3))
            assert await take(events, 3) == [0, 1, 2]
            await until(space, 0)
        assert list(positions(space)) == ["127.0.0.1/viewer"]
        submit(space, range(3, 6))
        async with consumer_of(again(space)) as consumer:
            found = await consumer.subscribe(NAME, {**VIEWER, "Count": 2})
            assert [event.values["Load1"] for event in await all_of(found)] == [3, 4]
        async with consumer_of(again(space)) as consumer, await consumer.subscribe(NAME, VIEWER) as events:
            assert await take(events, 1) == [5]

    asyncio.run(main())


def test_words_and_times_say_where_a_new_name_begins_and_a_position_always(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(4))

    async def main() -> None:
        async with consumer_of(space) as consumer:

            async def first(count: int, **asked: str) -> list[GridEvent]:
                return await all_of(await consumer.subscribe(NAME, {**VIEWER, "Count": count, **asked}))

            events = await first(3, After="earliest")
            assert [event.values["Load1"] for event in events] == [0, 1, 2]
            await until(space, 1)
            assert [event.values["Load1"] for event in await first(1, After="earliest")] == [3]
            await until(space, 0)
            back = str(events[0].position)
            assert [event.values["Load1"] for event in await first(2, After=back)] == [1, 2]
            assert await asyncio.to_thread(space.backlog, space.subscribers()[0]) == (0, 0)

    asyncio.run(main())


def test_a_filter_of_a_named_consumer_may_be_another_one_when_it_comes_back(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(10))

    async def main() -> None:
        async with consumer_of(space) as consumer:
            odd = {**VIEWER, "Filter": "{ return input.Load1 == 1.0 || input.Load1 == 3.0; }", "After": "earliest"}
            assert len(await all_of(await consumer.subscribe(NAME, {**odd, "Count": 2}))) == 2
            await until(space, 6)
            high = {**VIEWER, "Filter": "{ return input.Load1 > 7.5; }"}
            async with await consumer.subscribe(NAME, high) as events:
                assert await take(events, 2) == [8, 9]
            assert [info.name for info in space.channels()] == [NAME]

    asyncio.run(main())


def test_what_has_not_reached_the_consumers_machine_comes_again(tmp_path: Path) -> None:
    """Events that are held back, or wait for a peer that reads nothing, are not taken for delivered."""
    space = new_space(tmp_path)
    many = 20_000

    async def main() -> None:
        async with serving(space) as address:
            host, _, port = address.rpartition(":")
            consumer = await GridConsumer.connect(address, TYPES)
            await (await consumer.subscribe(NAME, {**VIEWER, "After": "earliest"})).unsubscribe()
            await asyncio.to_thread(submit, space, range(many))
            ask = (
                '<SubscribeRequest xmlns="http://www.gridforum.org/Performance/Protocol" requestID="1">'
                f'<SubscriptionID>1</SubscriptionID><{NAME} xmlns="http://www.gridforum.org/Performance/'
                'EventParameters"><Subscriber>viewer</Subscriber></UptimeCPULoad></SubscribeRequest>'
            ).encode()
            silent = socket.socket()
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect((host, int(port)))
            silent.sendall(len(ask).to_bytes(4) + ask)
            await asyncio.sleep(1.2)
            silent.close()
            left = space.backlog(space.subscribers()[0])[1]
            assert left > many // 2
            events = await consumer.subscribe(NAME, VIEWER)
            first = (await anext(events)).values["Load1"]
            assert first <= many - left
            assert await take(events, many - 1 - int(first)) == [*range(int(first) + 1, many)]
            await consumer.close()

    asyncio.run(main())


def test_the_last_of_a_period_is_not_taken_for_delivered_while_it_is_held(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(3))

    async def main() -> None:
        async with consumer_of(space) as consumer:
            asked = {**VIEWER, "After": "earliest", "Period": (100, "sec")}
            async with await consumer.subscribe(NAME, asked) as events:
                assert await take(events, 1) == [0]
                await until(space, 1)  # 1 is not wanted, 2 is held
            assert await take(await consumer.subscribe(NAME, VIEWER), 1) == [2]

    asyncio.run(main())


def test_the_last_connection_that_asks_for_a_name_has_it(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with (
            serving(space) as address,
            await GridConsumer.connect(address, TYPES) as one,
            await GridConsumer.connect(address, TYPES) as other,
        ):
            events = await one.subscribe(NAME, VIEWER)
            await asyncio.to_thread(submit, space, [0])
            assert await take(events, 1) == [0]
            await until(space, 0)
            taken = await other.subscribe(NAME, VIEWER)
            with pytest.raises(PbioError, match="another connection subscribes as 'viewer'"):
                await anext(events)
            assert await all_of(events) == []
            await asyncio.to_thread(submit, space, [1])
            assert await take(taken, 1) == [1]
            await until(space, 0)
            # and so is the same connection
            again_ = await other.subscribe(NAME, VIEWER)
            await asyncio.to_thread(submit, space, [2])
            assert await take(again_, 1) == [2]

    asyncio.run(main())


def test_many_who_ask_for_one_name_at_once_leave_one(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    found: list[list[float]] = [[] for _ in range(8)]

    async def collect(events: GridSubscription, into: list[float]) -> None:
        while True:
            with suppress(PbioError):  # it is told that another one has the name
                async for event in events:
                    into.append(event.values["Load1"])
                return

    async def main() -> None:
        async with consumer_of(space) as consumer:
            made = await asyncio.gather(*(consumer.subscribe(NAME, VIEWER) for _ in found))
            tasks = [asyncio.create_task(collect(*pair)) for pair in zip(made, found, strict=True)]
            await asyncio.to_thread(submit, space, range(3))
            while sum(map(len, found)) < 3 or sum(task.done() for task in tasks) < 7:
                await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    asyncio.run(main())
    assert sorted(found) == [[]] * 7 + [[0, 1, 2]]


@pytest.mark.parametrize("name", [" ", "a\nb", "x" * 201])
def test_what_cannot_be_a_name_is_refused(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        async with consumer_of(new_space(tmp_path)) as consumer:
            with pytest.raises(PbioError, match="Subscriber cannot be"):
                await consumer.subscribe(NAME, {"Subscriber": name})

    asyncio.run(main())


def test_a_peer_has_so_many_names_and_no_other_subscribers(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    space.channel(NAME).subscribe(name="viewer", start="earliest", expire_after=timedelta(days=1))

    async def main() -> None:
        async with consumer_of(space, subscribers=2) as consumer:
            for name in ("viewer", "other", "viewer"):
                await consumer.subscribe(NAME, {"Subscriber": name})
            with pytest.raises(PbioError, match="a peer may have 2 named subscribers"):
                await consumer.subscribe(NAME, {"Subscriber": "third"})
            with pytest.raises(PbioError, match="a query takes no parameters"):
                await consumer.query(NAME, VIEWER)

    asyncio.run(main())
    assert sorted(positions(space)) == ["127.0.0.1/other", "127.0.0.1/viewer", "viewer"]


@pytest.mark.parametrize("when", ["always", "subscribed"])
def test_a_named_consumer_of_a_derived_channel_resumes_too(tmp_path: Path, when: str) -> None:
    space = new_space(tmp_path)
    space.derive_channel("high", NAME, filter="{ return input.Load1 >= 2.0; }", when=when)

    async def main() -> None:
        async with serving(space) as address:
            for first in (2, 4):
                async with await GridConsumer.connect(address, {"high": TYPES[NAME]}) as consumer:
                    events = await consumer.subscribe("high", VIEWER)
                    if first == 2:
                        await asyncio.to_thread(submit, space, range(4))
                    assert await take(events, 2) == [first, first + 1]
                    await until(space, 0)
                if first == 2:  # while no consumer is there
                    await asyncio.to_thread(submit, space, range(4, 6))

    asyncio.run(main())
