"""Code that keeps state: each producer's events in order, `enqueue` first, then `period`, then `dequeue`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, Ref, Struct, record
from pbio_spark.channels import Channel, ChannelSpace, Source, Submission
from pbio_spark.channels.derive import step
from pbio_spark.channels.publish import late
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.columns import decode_apart
from tests.channels.derive.replay import check
from tests.channels.spaces import again, values

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64), Field("volume", INT32)])
MEAN = record("mean", [Field("n", INT64), Field("mean", FLOAT64)])


@pytest.fixture
def stocks(space: ChannelSpace) -> Channel:
    return space.create_channel("stocks", STOCK)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the sources, whose last item is the time."""
    now = [1_000]
    monkeypatch.setattr(late, "now", lambda: now[-1] * 1_000_000)
    return now


def rows(*prices: float) -> list[dict[str, Any]]:
    return [{"name": "a", "price": float(price), "volume": i} for i, price in enumerate(prices)]


def prices(channel: Channel) -> list[float]:
    return [row["price"] for row in values(channel)]


def test_each_producer_has_a_state_of_its_own_for_all_publishers(stocks: Channel) -> None:
    source = "{ if (input.price <= state.most) return 0; state.most = input.price; return 1; }"
    records = stocks.space.derive_channel("records", "stocks", filter=source, state={"most": 0.0})
    other = again(stocks.space).channel("stocks")
    stocks.submit(rows(3, 2, 5), producer="p", sequence=0)
    other.submit(rows(1, 4), producer="q", sequence=0)
    other.submit(rows(5, 2, 5, 6), producer="p", sequence=2)
    stocks.submit(rows(5, 7), producer="q", sequence=2)
    assert prices(records) == [3, 5, 1, 4, 6, 5, 7]
    assert prices(again(stocks.space).channel("records")) == [3, 5, 1, 4, 6, 5, 7]


def test_the_events_of_many_producers_go_through_a_filter_in_one_call(space: ChannelSpace) -> None:
    chance = random.Random(11)
    calls = space.create_channel("calls", record("call", [Field("n", INT32), Field("x", FLOAT64)]))
    source = """{
        static int calls = 0;
        calls += 1;
        state.last[calls % 3] = input.x;
        state.most = state.most > input.n ? state.most : input.n;
        if (10 / (input.n % 13) > 7) return 0;  // a trap now and then, which leaves the state as it was
        return calls % 2 == 1 || state.last[0] < param.least;
    }"""
    start = {"last": [0.0, 0.0, 0.0], "most": -1}
    space.derive_channel("some", "calls", filter=source, state=start, parameters={"least": 0.1})
    space.derive_channel("fewer", "some", filter="{ static int n = 5; return n++ % 3; }")
    sent = dict.fromkeys([*(f"p{i}" for i in range(60)), None], 0)
    for _ in range(4):
        submissions = []
        for _ in range(90):
            who = chance.choice([*sent])
            events = [{"n": chance.randrange(40), "x": chance.random()} for _ in range(chance.randrange(1, 4))]
            submissions.append(Submission("calls", events, producer=who, sequence=None if who is None else sent[who]))
            sent[who] += len(events)
        space.publish(submissions)
    check(space)
    assert len(values(space.channel("fewer"))) > 50
    assert len(calls.space.derivations()) == 2
    assert all(report.trapped > 20 for report in space.derivations() if report.channel == "some")
    assert list(problems(again(space))) == []


TRANSFORM = """{
    static int calls = 0;
    calls += 1;
    state.last[calls % 3] = input.x;
    output.n = 10 / (input.n % 7 - 3);  // a trap now and then
    output.last[0] = state.last[0];
    output.last[2] = input.x;
    output.inner.most = state.most = state.most > input.n ? state.most : input.n;
    return calls % 4 != 0;
}"""


@pytest.mark.parametrize("filter_", [None, "{ static int n = 0; n++; return input.n % 5 != 0 && n % 9 != 4; }"])
def test_the_events_of_many_producers_go_through_a_transform_in_one_call(
    space: ChannelSpace, filter_: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(13)
    inner = Struct("inner", (Field("most", INT32),))
    fields = [Field("n", INT32), Field("last", Array(FLOAT64, (3,))), Field("inner", Ref("inner"))]
    made = record("made", fields, [inner])
    space.create_channel("calls", record("call", [Field("n", INT32), Field("x", FLOAT64)]))
    start = {"last": [0.0, 0.0, 0.0], "most": -1}
    space.derive_channel("made", "calls", filter=filter_, transform=TRANSFORM, type=made, state=start)
    space.derive_channel("few", "made", filter="{ static int n = 5; return n++ % 3; }")
    together = 0

    def noting(*arguments: Any) -> Any:
        nonlocal together
        together += 1
        return decode_apart(*arguments)

    monkeypatch.setattr(step, "decode_apart", noting)
    sent = dict.fromkeys([*(f"p{i}" for i in range(60)), None], 0)
    for _ in range(4):
        submissions = []
        for _ in range(90):
            who = chance.choice([*sent])
            events = [{"n": chance.randrange(40), "x": chance.random()} for _ in range(chance.randrange(1, 4))]
            submissions.append(Submission("calls", events, producer=who, sequence=None if who is None else sent[who]))
            sent[who] += len(events)
        space.publish(submissions)
    assert together >= 4
    check(space)
    assert len(values(space.channel("few"))) > 50
    assert all(report.trapped > 20 for report in space.derivations() if report.channel == "made")
    assert list(problems(again(space))) == []


def test_static_variables_are_kept_too(stocks: Channel) -> None:
    odd = stocks.space.derive_channel("odd", "stocks", filter="{ static int n = 0; n++; return n % 2; }")
    for number in range(4):
        again(stocks.space).channel("stocks").submit(rows(number))
    assert prices(odd) == [0, 2]


def test_period_makes_events_of_its_own_once_its_time_has_passed(stocks: Channel, seconds: list[int]) -> None:
    means = stocks.space.derive_channel(
        "means",
        "stocks",
        transform="{ state.n += 1; state.sum += input.price; return 0; }",
        type=MEAN,
        state={"n": 0, "sum": 0.0},
        period="{ output.n = state.n; output.mean = state.sum / state.n; state.n = 0; state.sum = 0; return 1; }",
        every=60,
    )
    for later, price in ((0, 1), (30, 2), (30, 6), (59, 10), (1, 20), (9_999, 5)):
        seconds.append(seconds[-1] + later)
        stocks.submit(rows(price), producer="p")
    assert values(means) == [{"n": 3, "mean": 3.0}, {"n": 2, "mean": 15.0}, {"n": 1, "mean": 5.0}]
    seconds.append(10)  # a clock that goes back
    stocks.submit(rows(7), producer="p")
    seconds.append(70)
    stocks.submit(rows(9), producer="p")
    assert values(means)[3:] == [{"n": 2, "mean": 8.0}]


def test_dequeue_sees_the_state_after_all_events_of_the_commit(stocks: Channel) -> None:
    tops = stocks.space.derive_channel(
        "tops",
        "stocks",
        filter="{ if (input.price > state.most) state.most = input.price; return 1; }",
        state={"most": 0.0},
        dequeue="{ output.volume = input.volume + 100; return input.price == state.most; }",
    )
    stocks.submit(rows(3, 9, 4))
    stocks.submit(rows(1, 9))
    assert values(tops) == [{"name": "a", "price": 9.0, "volume": 101}, {"name": "a", "price": 9.0, "volume": 101}]


def test_services_are_granted_by_the_source_or_the_derivation_is_refused_there(stocks: Channel) -> None:
    made = "{ output.n = 1; output.mean = load(); return 1; }"
    loads = stocks.space.derive_channel("loads", "stocks", transform=made, type=MEAN, services=["load"])
    stocks.submit(rows(1))
    assert "does not grant the service 'load'" in loads.status
    granting = ChannelSpace.open(stocks.space.root, source=Source("probe", services=["load"]))
    granting.channel("stocks").submit(rows(1, 2))
    assert [row["n"] for row in values(loads)] == [1, 1]
    assert prices(stocks) == [1, 1, 2]


def test_a_subscriber_gets_the_type_that_the_channel_has_now(stocks: Channel) -> None:
    means = stocks.space.derive_channel("means", "stocks", filter="{ return 1; }")
    made = "{ output.n = input.volume; output.mean = input.price; return 1; }"
    again(stocks.space).replace_channel("means", transform=made, type=MEAN)
    stocks.submit(rows(5))
    assert values(means) == [{"n": 0, "mean": 5.0}]
