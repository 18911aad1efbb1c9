"""Subscribers with code at the sources: it stays while they do, is shared or their own, and can be replaced."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from ecode.types import FLOAT64, INT32, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace, EagerSubscription, Event
from pbio_spark.channels.derive.modulator import Modulator
from pbio_spark.channels.presence import subscribers
from pbio_spark.errors import PbioError
from tests.channels.spaces import again, values

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64), Field("volume", INT32)])
WORTH = record("worth", [Field("amount", FLOAT64)])
DEAR = Modulator(filter="{ return input.price > 50.0; }")
BOUND = Modulator(filter="{ return input.price > param.least; }", parameters={"least": 50.0})
AMOUNT = Modulator(transform="{ output.amount = input.price * input.volume; return 1; }", type=WORTH)


@pytest.fixture
def stocks(space: ChannelSpace) -> Channel:
    return space.create_channel("stocks", STOCK)


def rows(*prices: float) -> list[dict[str, Any]]:
    return [{"name": "a", "price": float(price), "volume": 2} for price in prices]


def names(space: ChannelSpace) -> list[str]:
    return [info.name.partition("~")[0] for info in again(space).channels()]


def eager(channel: Channel, handler: Any, modulator: Modulator, **more: Any) -> EagerSubscription:
    made = channel.subscribe(handler, modulator=modulator, **more)
    assert isinstance(made, EagerSubscription)
    return made


def test_the_code_is_at_the_sources_while_its_subscriber_is_there(stocks: Channel) -> None:
    seen: list[float] = []
    with eager(stocks, lambda event: seen.append(event.values["price"]), DEAR) as subscription:
        again(stocks.space).channel("stocks").submit(rows(40, 60, 70))
        assert subscription.run() == 2
        assert names(stocks.space) == ["stocks", "stocks"]
    assert seen == [60, 70]
    assert names(stocks.space) == ["stocks"]


def test_code_with_static_variables_is_not_shared(stocks: Channel) -> None:
    """Its state begins with its subscriber."""
    second = Modulator(filter="{ static int calls = 0; return ++calls % 2 == 0; }")
    first = eager(stocks, None, second)
    stocks.submit(rows(1))
    other = eager(stocks, None, second)
    stocks.submit(rows(2, 3))
    assert [event.values["price"] for event in first.events()] == [2]
    assert [event.values["price"] for event in other.events()] == [3]


def test_equal_code_is_one_channel_until_the_last_subscriber_leaves(stocks: Channel) -> None:
    first, second = (eager(again(stocks.space).channel("stocks"), None, DEAR) for _ in range(2))
    own = eager(stocks, None, BOUND)
    assert first.channel.id == second.channel.id != own.channel.id
    first.close()
    stocks.submit(rows(60))
    assert [event.values["price"] for event in second.events()] == [60]
    third = eager(stocks, None, DEAR)
    with pytest.raises(PbioError, match="other subscribers share this code"):
        second.replace(BOUND)
    third.close()
    second.close()
    second.close()
    own.close()
    assert names(stocks.space) == ["stocks"]


def test_code_with_state_or_parameters_belongs_to_one_subscriber(stocks: Channel) -> None:
    one, other = eager(stocks, None, BOUND), eager(stocks, None, BOUND)
    frozen = Modulator(filter=BOUND.filter, parameters=BOUND.parameters, frozen=True)
    assert eager(stocks, None, frozen).channel.id == eager(stocks, None, frozen).channel.id
    one.set_parameters({"least": 10})
    stocks.submit(rows(20, 60))
    assert [event.values["price"] for event in one.events()] == [20, 60]
    assert [event.values["price"] for event in other.events()] == [60]


def test_both_halves_are_exchanged_at_the_same_event(stocks: Channel) -> None:
    seen: list[Any] = []

    def price(event: Event) -> tuple[str, float]:
        return "price", event.values["price"]

    def amount(event: Event) -> tuple[str, float] | None:
        return None if event.values["amount"] > 1000 else ("amount", event.values["amount"])

    subscription = eager(stocks, seen.append, DEAR, demodulator=price)
    stocks.submit(rows(40, 60))
    subscription.replace(AMOUNT, demodulator=amount)
    stocks.submit(rows(40, 600, 70))
    assert subscription.run() == 4
    assert seen == [("price", 60.0), ("amount", 80.0), ("amount", 140.0)]


def test_a_named_subscriber_finds_its_code_again(stocks: Channel) -> None:
    seen: list[float] = []
    for price in (60, 70, 80):
        with eager(stocks, lambda event: seen.append(event.values["price"]), BOUND, name="clerk") as subscription:
            subscription.run()
        stocks.submit(rows(price))
    subscription.run()
    assert seen == [60, 70, 80]
    assert names(stocks.space) == ["stocks", "stocks"]
    subscription.unsubscribe()
    assert names(stocks.space) == ["stocks"]


def test_all_code_under_a_name_ends_at_once(stocks: Channel, caplog: pytest.LogCaptureFixture) -> None:
    """That of before stays, with what was not read, so that a program can go back to its last version."""
    space = stocks.space
    dear = space.derive_channel("dear", "stocks", filter=DEAR.filter)
    dear.subscribe(name="clerk")
    old = eager(stocks, None, BOUND, name="clerk")
    assert not caplog.records
    stocks.submit(rows(60))
    new = eager(again(space).channel("stocks"), None, AMOUNT, name="clerk")
    assert "'clerk' has other code at the sources of 'stocks'" in caplog.text
    shared, other = eager(stocks, None, DEAR, name="clerk"), eager(stocks, None, DEAR, name="other")
    assert [event.values["price"] for event in eager(stocks, None, BOUND, name="clerk").events()] == [60]
    assert len({old.channel.id, new.channel.id, shared.channel.id}) == 3
    stocks.unsubscribe("clerk")
    assert {info.id for info in again(space).channels()} == {stocks.info.id, dear.info.id, other.channel.id}
    assert [(one.channel, one.name) for one in space.subscribers()] == [
        (dear.info.id, "clerk"),
        (other.channel.id, "other"),
    ]
    stocks.unsubscribe("clerk")


def test_replaced_code_is_derived_as_before(stocks: Channel) -> None:
    space = stocks.space
    dear = space.derive_channel("dear", "stocks", filter=DEAR.filter, when="subscribed")
    space.replace_channel("dear", filter="{ return input.price > 10.0; }")
    stocks.submit(rows(20))
    with dear.subscribe() as subscription:
        space.replace_channel("dear", filter="{ return input.price > 15.0; }")
        stocks.submit(rows(12, 30))
        assert [event.values["price"] for event in subscription.events()] == [30]
    stocks.submit(rows(40))
    assert [row["price"] for row in values(dear)] == [30]
    space.replace_channel("dear", filter="{ return input.price > 15.0; }", when="always")
    stocks.submit(rows(50))
    space.replace_channel("dear", filter="{ return input.price > 55.0; }")
    stocks.submit(rows(50, 60))
    assert [row["price"] for row in values(dear)] == [30, 50, 60]


def test_a_channel_is_derived_only_while_it_has_subscribers(stocks: Channel) -> None:
    space = stocks.space
    dear = space.derive_channel("dear", "stocks", filter=DEAR.filter, when="subscribed")
    stocks.submit(rows(60))
    with dear.subscribe() as subscription:
        stocks.submit(rows(70))
        assert [event.values["price"] for event in subscription.events()] == [70]
    stocks.submit(rows(80))
    assert [row["price"] for row in values(dear)] == [70]


def test_what_a_dead_subscriber_left_goes_with_the_next_vacuum(
    stocks: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager(stocks, None, DEAR)
    eager(stocks, None, BOUND, name="clerk", expire_after=timedelta(hours=1))
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 2 * 3600 * 10**9)
    space = again(stocks.space)
    space.vacuum(grace=timedelta(0), linger=timedelta(0))
    monkeypatch.setattr(time, "time_ns", lambda: now + 5 * 3600 * 10**9)
    space.vacuum(grace=timedelta(0), linger=timedelta(0))
    assert names(stocks.space) == ["stocks"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"modulator": Modulator(filter="{ return input.prize; }")}, "PBIO_BAD_PROGRAM"),
        ({"modulator": "{ return 1; }"}, "PBIO_BAD_OPTION.*expected a Modulator, not str"),
        ({"modulator": Modulator()}, "PBIO_BAD_OPTION.*the modulator has no code"),
        ({"demodulator": print}, "PBIO_BAD_OPTION.*demodulator= needs modulator="),
        ({"name": "~x"}, "PBIO_BAD_OPTION.*cannot begin with"),
    ],
)
def test_what_a_subscriber_cannot_ask_for(stocks: Channel, said: dict[str, Any], reason: str) -> None:
    with pytest.raises(PbioError, match=reason):
        stocks.subscribe(print, **said)
    assert names(stocks.space) == ["stocks"]


def test_parameters_that_were_set_are_kept_and_said(stocks: Channel, caplog: pytest.LogCaptureFixture) -> None:
    dear = Modulator(filter="{ return input.price > param.least; }", parameters={"least": 10})
    with stocks.subscribe(modulator=dear, name="desk") as first:
        first.set_parameters({"least": 20})
    assert caplog.text == ""
    with stocks.subscribe(modulator=dear, name="desk") as again_there:
        assert "'desk' keeps the parameters that were set" in caplog.text
        stocks.submit(rows(15.0, 25.0))
        assert [event.values["price"] for event in again_there.events()] == [25.0]


def test_closing_while_another_thread_reads_leaves_nothing(stocks: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread is about to record that the subscriber is there when another closes it."""
    acknowledge, closing = subscribers.acknowledge, list[threading.Thread]()
    subscription = eager(stocks, None, DEAR)

    def slowly(*given: Any, **more: Any) -> Any:
        closing.append(threading.Thread(target=subscription.close))
        closing[-1].start()
        closing[-1].join(0.3)
        return acknowledge(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(subscribers, "acknowledge", slowly)
        assert list(subscription.events(timeout=None)) == []
    for thread in closing:
        thread.join()
    assert closing
    with pytest.raises(PbioError, match="the subscription has ended"):
        next(subscription.events())
    assert names(stocks.space) == ["stocks"]
