"""Channels of a space for Grid peers: archives, queries, names, the directory."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Field, Notes, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import EventName, GridConsumer, GridGateway, GridProducer, GridSettings, gateways
from pbio_spark.gateways.server import Listener, Server
from tests.gateways.grid.samples import LOAD, NAME, TIME, TYPES, VALUES
from tests.gateways.grid.spaces import all_of, consumer_of, hand_over, loads_in, new_space, serving, submit, take


def test_queries_and_names(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    space.create_channel("not a name", LOAD)
    space.create_channel("NotXml", record("r", [Field("a b", FLOAT64)]))
    space.create_channel("weather", record("r", [Field("c", FLOAT64, Notes(units="C"))]))

    async def main() -> None:
        names = {"http://www.example.org/weather": {"Humidity": "weather", "Gone": "gone", "Odd": "not a name"}}
        async with consumer_of(space, names=names) as consumer:
            weather = EventName("Humidity", "http://www.example.org/weather")
            odd = EventName("Odd", weather.namespace)
            assert await consumer.names() == [weather, odd, EventName(NAME), EventName("weather")]
            with pytest.raises(PbioError, match="has been published yet"):
                await consumer.query(weather)
            before = datetime.now(UTC)
            space.channel("weather").submit({"c": 21.5})
            event = await consumer.query(weather)
            assert (event.values["c"], event.namespace) == ("21.5", weather.namespace)
            assert event.time >= before - timedelta(seconds=1)  # that of its publication
            assert event.node is not None
            assert event.node.children[0].get("units") == "C"
            when = datetime(2000, 1, 1, tzinfo=UTC)
            space.channel("weather").submit([{"c": 1.0}, {"c": 2.0}], event_time=when)
            assert (await consumer.query(weather, {"Period": (1, "min")})).values["c"] == "2.0"
            assert (await consumer.query(weather)).time == when
            with pytest.raises(PbioError, match="a query takes no parameters but Fields"):
                await consumer.query(weather, {"After": "earliest"})
            with pytest.raises(PbioError, match=r"cannot be an element in XML \(\$\[\"a b\"\]\)"):
                await consumer.query("NotXml")
        async with consumer_of(space, names=names, only_names=True) as consumer:
            assert await consumer.names() == [weather, odd]

    asyncio.run(main())


def test_an_archive_takes_each_numbered_event_once(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with serving(space, archive=NAME) as address:
            assert await hand_over(address, range(5)) is None
            assert loads_in(space) == [0, 1, 2, 3, 4]
            assert await hand_over(address, range(8)) == "5 events of 127.0.0.1/1 were known already"
            assert loads_in(space) == [0, 1, 2, 3, 4, 5, 6, 7]
            assert space.channel(NAME).last_sequence("127.0.0.1/1") == 7
            await hand_over(address, [9, 9], first=None)
            assert loads_in(space)[-2:] == [9, 9]
            with pytest.raises(PbioError, match="PBIO_REFUSED"):
                await hand_over(address, [1], name="Other")

    asyncio.run(main())
    event = next(iter(space.channel(NAME).subscribe(start="earliest").events()))
    assert (event.producer, event.sequence, event.event_time) == ("127.0.0.1/1", 0, VALUES["TimeStamp"])


def test_events_that_do_not_suit_the_channel_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    other = record(NAME, [Field("Load1", STRING), *LOAD.fields[1:-1], TIME, Field("More", INT32)])

    async def main() -> str | None:
        producer = GridProducer({NAME: other})
        async with serving(space, archive="*") as address, await producer.connect(address) as connection:
            subscription = await connection.subscribe(NAME)
            for number, load in enumerate(("0", "x", "2", "3")):
                values = {**VALUES, "Load1": load, "More": 1, "HostName": None if number == 3 else "h"}
                await producer.publish(NAME, values, sequence=5 if number == 3 else number)
            await producer.publish(NAME, {**VALUES, "Load1": "9", "More": 1}, sequence=1)
            return await subscription.unsubscribe()

    said = asyncio.run(main())
    assert said == (
        "3 elements without a field were left out; "
        "2 events were refused, the first because: not a number: 'x' ($.Load1)"
    )
    assert loads_in(space) == [0, 2, 3]


def test_what_only_publishing_finds_is_left_out_too(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel(NAME, record(NAME, [*LOAD.fields, Field("Sequence", INT64)]))

    async def main() -> str | None:
        async with serving(space, archive=NAME, linger=0.5) as address:
            producer = GridProducer(TYPES)
            async with await producer.connect(address) as connection:
                subscription = await connection.subscribe(NAME)
                for number in (0, 1, 1 << 62, 3):
                    await producer.publish(NAME, {**VALUES, "Load1": float(number)}, sequence=number)
                return await subscription.unsubscribe()

    said = asyncio.run(main())
    assert said is not None
    assert "events were refused" in said
    assert loads_in(space)[:2] == [0, 1]


def test_a_channel_is_made_from_an_event_that_nothing_describes(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    tide = record("Tide", [Field("height", FLOAT64, Notes(units="m")), TIME])

    async def main() -> None:
        producer = GridProducer({"Tide": tide})
        async with serving(space, archive="*", create=True) as address, await producer.connect(address) as connection:
            subscription = await connection.subscribe("Tide")
            for height in (1.5, 1.6):
                await producer.publish(
                    "Tide", {"height": height, "TimeStamp": VALUES["TimeStamp"]}, sequence=int(height * 10)
                )
            assert await subscription.unsubscribe() is None
            async with await GridConsumer.connect(address) as consumer:
                event = await consumer.query("Tide")
        assert (event.values["height"], event.node and event.node.children[0].get("units")) == ("1.6", "m")

    asyncio.run(main())
    channel = space.channel("Tide")
    assert [event.values["height"] for event in channel.subscribe(start="earliest").events()] == ["1.5", "1.6"]
    assert channel.last_sequence("127.0.0.1/1") == 16


def test_a_peer_that_sends_nothing_is_a_consumer_from_when_it_asked(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space, archive="*", wait=0.2) as consumer, await consumer.subscribe(NAME) as events:
            await asyncio.to_thread(submit, space, range(3))
            assert await take(events, 3) == [0, 1, 2]

    asyncio.run(main())


def test_a_producer_that_takes_its_time_is_one_all_the_same(tmp_path: Path) -> None:
    """It may get events of others meanwhile, which it has not asked for."""
    space = new_space(tmp_path)

    async def main() -> None:
        producer = GridProducer(TYPES)
        async with serving(space, archive="*", wait=0.1) as address, await producer.connect(address) as connection:
            subscription = await connection.subscribe(NAME)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(submit, space, [9])
            for number in range(3):
                await producer.publish(NAME, {**VALUES, "Load1": float(number)}, sequence=number)
                await asyncio.sleep(0.05)
            assert await subscription.unsubscribe() is None

    asyncio.run(main())
    assert loads_in(space) == [9, 0, 1, 2]


def test_two_connections_cannot_be_one_producer(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        producers = [GridProducer(TYPES), GridProducer(TYPES)]
        async with serving(space, archive=NAME) as address:
            connections = [await producer.connect(address) for producer in producers]
            subscriptions = [await connection.subscribe(NAME) for connection in connections]
            await producers[0].publish(NAME, VALUES, sequence=0)
            assert await subscriptions[0].unsubscribe() is None
            await producers[1].publish(NAME, VALUES, sequence=1)
            assert await subscriptions[1].unsubscribe() is None
            subscriptions = [await connection.subscribe(NAME) for connection in connections]
            for producer in producers:
                await producer.publish(NAME, VALUES, sequence=2)
            said = await asyncio.gather(*(one.unsubscribe() for one in subscriptions), return_exceptions=True)
            assert sorted(isinstance(one, PbioError) for one in said) == [False, True]
            for connection in connections:
                await connection.close()

    asyncio.run(main())
    assert len(loads_in(space)) == 3


def test_an_event_that_cannot_be_published_is_reported_and_the_gateway_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, and a defect."""
    space = new_space(tmp_path)
    publish = type(space).publish

    async def main() -> None:
        async with serving(space, archive=NAME) as address:
            for error in (PbioError("PBIO_NO_ROOM", "the disk is full"), ZeroDivisionError("a defect")):

                def fail(*_: object, error: Exception = error) -> None:
                    raise error

                monkeypatch.setattr(type(space), "publish", fail)
                with pytest.raises(PbioError, match=r"PBIO_REFUSED|PBIO_DISCONNECTED"):
                    await hand_over(address, [1])
                monkeypatch.setattr(type(space), "publish", publish)
                assert await hand_over(address, [2], first=None) is None

    asyncio.run(main())
    assert loads_in(space) == [2, 2]


def test_a_stop_ends_subscriptions_in_order_and_keeps_what_came(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        producer = GridProducer(TYPES)
        async with serving(space, archive=NAME, linger=5.0) as address:
            consumer = await GridConsumer.connect(address, TYPES)
            events = await consumer.subscribe(NAME, {"After": "latest"})
            connection = await producer.connect(address)
            subscription = await connection.subscribe(NAME)
            for number in range(10):
                await producer.publish(NAME, {**VALUES, "Load1": float(number)}, sequence=number)
        assert await all_of(events) == []  # it ended, and not by a broken connection
        assert subscription.is_over
        with pytest.raises(PbioError, match="PBIO_DISCONNECTED"):
            await subscription.unsubscribe()
        await consumer.close()
        await connection.close()

    asyncio.run(main())
    assert loads_in(space) == [*range(10)]


def test_the_directory_knows_the_gateways_that_are_there(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    assert gateways(space) == []

    async def main() -> None:
        async with serving(space, entry=60.0) as address:
            (entry,) = await asyncio.to_thread(gateways, space)
            assert (entry.address, entry.names) == (address, (EventName(NAME),))
            assert gateways(space, datetime.now(UTC) + timedelta(seconds=61)) == []
            async with serving(space, entry=60.0):
                assert len(gateways(space)) == 2

    asyncio.run(main())
    assert gateways(space) == []


@pytest.mark.parametrize(
    ("host", "advertise", "entered"),
    [
        ("0.0.0.0", "", None),
        ("0.0.0.0", "node7.example.org:0", "node7.example.org:{port}"),
        ("0.0.0.0", "[fe80::7]:26400", "[fe80::7]:26400"),
        ("127.0.0.1", "", "127.0.0.1:{port}"),
        ("127.0.0.1", "relay:9", "relay:9"),
    ],
)
def test_the_directory_has_an_address_that_others_can_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, advertise: str, entered: str | None
) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        gateway = GridGateway(space, GridSettings(advertise=advertise))
        async with Server([Listener(gateway, host, 0)]) as server:
            port = server.addresses["grid"][1]
            expected = [] if entered is None else [entered.format(port=port)]
            assert [entry.address for entry in gateways(space)] == expected

    asyncio.run(main())
    assert ("[grid] advertise" in caplog.text) == (entered is None)


def test_events_of_the_settings_without_a_channel_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    space = new_space(tmp_path)

    async def run() -> None:
        names = {"urn:other": {"Load": NAME + "s", "Right": NAME}}
        async with serving(space, names=names, archive=f"{NAME} Nosuch"):
            pass
        async with serving(space, archive="Made", create=True):
            pass

    asyncio.run(run())
    assert [record.getMessage().partition(":")[2].strip() for record in caplog.records] == [
        f"events Load: [PBIO_UNKNOWN_CHANNEL] unknown channel '{NAME}s' at: {space.root} hint: did you mean '{NAME}'?",
        f"events Nosuch: [PBIO_UNKNOWN_CHANNEL] unknown channel 'Nosuch' at: {space.root} "
        "hint: `pbio space ls` lists them",
    ]
