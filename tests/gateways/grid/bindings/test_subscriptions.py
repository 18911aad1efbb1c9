"""Subscriptions of Grid peers: their events, their start, their filters, and their end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import EventName, GridConsumer
from tests.gateways.grid.samples import LOAD, NAME, TYPES, VALUES
from tests.gateways.grid.spaces import all_of, consumer_of, hand_over, new_space, serving, submit, take


def test_a_subscription_gets_what_is_published(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space) as consumer, await consumer.subscribe(NAME) as events:
            await asyncio.to_thread(submit, space, range(3))
            assert await take(events, 3) == [0, 1, 2]
            await asyncio.to_thread(submit, space, [3])
            event = await anext(events)
            assert (event.values, event.position) == ({**VALUES, "Load1": 3.0}, None)
            await events.unsubscribe()
            submit(space, [4])
            assert await all_of(events) == []

    asyncio.run(main())


def test_after_begins_where_the_consumer_was(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(4))

    async def main() -> None:
        async with consumer_of(space) as consumer:
            async with await consumer.subscribe(NAME, {"After": "earliest"}) as events:
                first = [await anext(events) for _ in range(2)]
            async with await consumer.subscribe(NAME, {"After": first[-1].position}) as events:
                assert await take(events, 2) == [2, 3]
            async with await consumer.subscribe(
                NAME, {"After": datetime(2000, 1, 1, tzinfo=UTC), "Count": 4}
            ) as events:
                assert await take(events, 4) == [0, 1, 2, 3]
                assert await all_of(events) == []
            async with await consumer.subscribe(NAME, {"After": datetime.now(UTC) + timedelta(days=1)}):
                pass

    asyncio.run(main())


def test_filter_is_a_derived_channel_shared_with_equal_ones(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(4))
    dear = {"Filter": "{ return input.Load1 >= 2.0; }"}

    async def main() -> None:
        async with consumer_of(space) as consumer:
            async with await consumer.subscribe(NAME, dear) as one, await consumer.subscribe(NAME, dear) as other:
                derived = [info for info in space.channels() if info.derivation is not None]
                assert len(derived) == 1
                assert await consumer.names() == [EventName(NAME)]
                await asyncio.to_thread(submit, space, range(4))
                assert await take(one, 2) == await take(other, 2) == [2, 3]
            async with await consumer.subscribe(NAME, {**dear, "After": "earliest"}) as events:
                assert await take(events, 4) == [2, 3, 2, 3]
            for _ in range(100):
                if not [info for info in space.channels() if info.derivation is not None]:
                    break
                await asyncio.sleep(0.05)
            else:
                raise AssertionError("the derived channel stays")

    asyncio.run(main())


def test_fields_count_and_period(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(5))

    async def main() -> None:
        async with consumer_of(space) as consumer:
            asked: dict[str, Any] = {"After": "earliest", "Fields": "Load1 HostName", "Count": 2}
            async with await consumer.subscribe(NAME, asked) as events:
                found = await all_of(events)
            assert [event.values["Load1"] for event in found] == [0, 1]
            assert found[0].values["Load5"] is None
            assert found[0].time == VALUES["TimeStamp"]
            async with await consumer.subscribe(NAME, {"Period": (0.2, "sec"), "After": "earliest"}) as events:
                assert await take(events, 2) == [0, 4]
            assert (await consumer.query(NAME, {"Fields": "Load1 Load5 Load15 HostName"})).values["Load1"] == 4

    asyncio.run(main())


SLOW = "{ int i, s = 0; for (i = 0; i < 900000; i++) s = s * 3 + i; return s; }"


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("UptimeCPULoda", {}, "did you mean 'UptimeCPULoad'?"),
        (EventName(NAME, "urn:x"), {}, "no parameters are known in the name space 'urn:x'"),
        (NAME, {"Filtre": 1}, "unknown parameter 'Filtre'; did you mean 'Filter'? there are Period, After"),
        (NAME, {"Period": (1, "kg")}, "cannot become 'sec'"),
        (NAME, {"Period": "x"}, "not a number"),
        (NAME, {"Fields": "Laod1"}, "no field 'Laod1'; did you mean 'Load1'?"),
        (NAME, {"After": "yesterday"}, "After cannot be 'yesterday'"),
        (NAME, {"After": "99.0.0"}, ""),
        (NAME, {"Count": 1.5}, "Count cannot be '1.5'"),
        (NAME, {"Filter": "{ return input.Laod1; }"}, "did you mean 'Load1'?"),
        (NAME, {"Filter": SLOW}, "units of work"),
        (
            NAME,
            {"Filter": "{ int i, s = 0; for (i = 0; i < 900000; i++) s = s + i; return s; }", "After": "earliest"},
            "",
        ),
        ("gateways", {}, "there are no events 'gateways'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wish_that_cannot_be_fulfilled_is_a_failure_that_says_why(
    tmp_path: Path, name: Any, asked: dict[str, Any], reason: str
) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space, entry=60.0) as consumer:
            with pytest.raises(PbioError, match="PBIO_REFUSED") as caught:
                await consumer.subscribe(name, asked)
            assert reason in caught.value.reason
            assert await consumer.names() == [EventName(NAME)]

    asyncio.run(main())


def test_parameters_of_a_derived_channel_are_set(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    space.derive_channel("High", NAME, filter="{ return input.Load1 > param.limit; }", parameters={"limit": 9.0})

    async def main() -> None:
        async with serving(space) as address, await GridConsumer.connect(address, {"High": LOAD}) as consumer:
            async with await consumer.subscribe("High", {"limit": 1.5}) as events:
                await asyncio.to_thread(submit, space, range(4))
                assert await take(events, 2) == [2, 3]
            for asked, reason in (
                ({"limit": "x"}, "takes a number"),
                ({"limit": (1, "m")}, "no units"),
                ({"limti": 1}, "limit"),
            ):
                with pytest.raises(PbioError, match="PBIO_REFUSED") as caught:
                    await consumer.subscribe("High", asked)
                assert reason in caught.value.reason
        async with consumer_of(space, set_parameters=False) as consumer:
            with pytest.raises(PbioError, match="cannot be set from here"):
                await consumer.subscribe("High", {"limit": 1.5})

    asyncio.run(main())


def test_many_subscriptions_of_one_connection(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with serving(space, archive=NAME) as address, await GridConsumer.connect(address, TYPES) as consumer:
            events = [await consumer.subscribe(NAME, {"After": "latest"}) for _ in range(20)]
            await hand_over(address, range(50))
            for one in events:
                assert await take(one, 50) == [*range(50)]

    asyncio.run(main())


def test_a_channel_that_is_dropped_ends_its_subscriptions(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space) as consumer, await consumer.subscribe(NAME) as events:
            space.drop_channel(NAME)
            with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
                await anext(events)
            assert await all_of(events) == []

    asyncio.run(main())


def test_a_value_that_xml_cannot_hold_is_an_error_of_its_event(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space) as consumer, await consumer.subscribe(NAME) as events:
            await asyncio.to_thread(space.channel(NAME).submit, {**VALUES, "HostName": "\x01"})
            await asyncio.to_thread(submit, space, [1])
            with pytest.raises(PbioError, match=r"XML 1.0 cannot hold the character U\+0001"):
                await anext(events)
            assert await take(events, 1) == [1]

    asyncio.run(main())


def test_a_connection_has_so_many_subscriptions(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with consumer_of(space, subscriptions=2) as consumer:
            kept = [await consumer.subscribe(NAME) for _ in range(2)]
            with pytest.raises(PbioError, match="may have 2 subscriptions"):
                await consumer.subscribe(NAME)
            await kept[0].unsubscribe()
            await consumer.subscribe(NAME)

    asyncio.run(main())


def test_an_event_of_a_year_that_python_lacks_is_left_out(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    channel = space.channel(NAME)
    submit(space, range(3))
    (delivery,) = channel.subscribe(start="earliest").deliveries()
    times = delivery.batch.schema.field("TimeStamp")
    beyond = delivery.batch.set_column(
        delivery.batch.schema.get_field_index("TimeStamp"), times, pa.array([0, 2**62, 1]).cast(times.type)
    )
    channel.submit(beyond)

    async def main() -> None:
        async with consumer_of(space) as consumer:
            async with await consumer.subscribe(NAME, {"After": "earliest", "Count": 5}) as events:
                assert await take(events, 5) == [0, 1, 2, 0, 2]
            assert (await consumer.query(NAME)).values["Load1"] == 2

    asyncio.run(main())


def test_events_before_one_that_cannot_be_read_are_sent(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    submit(space, range(2))
    known = set((tmp_path / "space").rglob("*"))
    space.channel(NAME).submit([{**VALUES, "HostName": "x" * 1_000_000}])  # too much for the log itself
    (lost,) = [path for path in (tmp_path / "space" / "data").rglob("*") if path.is_file() and path not in known]
    lost.unlink()

    async def main() -> None:
        async with consumer_of(space) as consumer, await consumer.subscribe(NAME, {"After": "earliest"}) as events:
            assert await take(events, 2) == [0, 1]
            with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
                await anext(events)

    asyncio.run(main())
