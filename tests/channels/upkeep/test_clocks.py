"""Clocks that jump, back and forth, by hours and by years: nothing is lost, and nothing is stuck forever."""

from __future__ import annotations

import random
import re
import time
from datetime import timedelta
from typing import Any

import pytest

import ecode
from ecode.types import FLOAT64, INT64, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Source
from pbio_spark.channels.upkeep.check import problems
from tests.channels.derive.replay import check
from tests.channels.spaces import again, values
from tests.pages.test_eager_handlers import RECIPES, examples

TICK = record("tick", [Field("n", INT64), Field("price", FLOAT64)])
YEAR = 365 * 86400
JUMPS = (3600, -3600, 7 * 3600, -5 * 3600, YEAR, -YEAR, 30 * YEAR, -30 * YEAR)
COUNTING = {"transform": "{ state.n += 1; return 0; }", "state": {"n": 0}, "type": TICK}
SUMMARY = {"period": "{ output.n = state.n; state.n = 0; return 1; }", "every": 60}


class Wrong:
    """The clock of a source, as seconds that differ from the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.off = 0.0
        real, real_ns = time.time, time.time_ns
        monkeypatch.setattr("time.time", lambda: real() + self.off)
        monkeypatch.setattr("time.time_ns", lambda: real_ns() + int(self.off * 1e9))


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Wrong:
    return Wrong(monkeypatch)


@pytest.fixture
def ticks(space: ChannelSpace, wrong: Wrong) -> Channel:
    """A channel whose source grants its clock."""
    space.create_channel("ticks", TICK, keep=timedelta(hours=2))
    clock = ecode.service("double clock()", lambda: time.time(), is_sampled=True)
    source = Source("feed", services=[clock])
    return ChannelSpace.open(space.root, source=source).channel("ticks")


def tick(channel: Channel, *numbers: int) -> None:
    rows = [{"n": n, "price": float(n)} for n in numbers]
    channel.submit(rows, producer="p", sequence=numbers[0])


def recipe(title: str) -> dict[str, Any]:
    """The code of a recipe in docs/events/eager-handlers.md."""
    call = re.search(r"space\.derive_channel\(\n.*?\n\)", examples(RECIPES[title]), re.DOTALL)
    assert call is not None
    given: dict[str, Any] = {}

    class Noting:
        def derive_channel(self, name: str, parent: str, **options: Any) -> None:
            given.update(options)

    exec(call[0], {"space": Noting()})
    return given


@pytest.mark.parametrize("seed", range(2))
def test_a_clock_that_jumps_loses_nothing_and_stops_nothing(
    ticks: Channel, wrong: Wrong, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance, space = random.Random(seed), ticks.space
    sums = space.derive_channel("sums", "ticks", **COUNTING, **SUMMARY)
    some = space.derive_channel(
        "some", "ticks", filter="{ return input.n % param.by == 0; }", parameters={"by": 1}, state={"n": 0}
    )
    clerk = again(space).channel("ticks").subscribe(name="clerk", start="earliest", expire_after=timedelta(hours=1))
    seen: list[int] = []
    count = 0
    for _ in range(12):
        wrong.off += chance.choice(JUMPS)
        tick(ticks, count, count + 1)  # may restart the clock of `period`
        by = chance.choice((1, 2))
        version = space.set_parameters("some", {"by": by}, lazy=chance.choice((None, 60)))
        wrong.off += 61
        made = len(values(sums))
        tick(ticks, count + 2, count + 3)
        assert len(values(sums)) == made + 1  # a period after the jump, at the latest
        (*_, last) = again(space).channel("some").subscribe(start="earliest").events()
        assert (last.derivation, last.values["n"]) == (version, count + 2 + (by == 1))
        count += 4
        seen += [event.values["n"] for event in clerk.events()]
        clerk.acknowledge()
        space.vacuum()
    assert seen == [*range(count)]
    resumed = again(space).channel("ticks").subscribe(name="clerk")
    tick(ticks, count)
    assert [event.values["n"] for event in resumed.events()] == [count]
    assert [row["n"] for row in values(ticks)] == [*range(count + 1)]  # no two hours have passed
    assert some.status == "accepted"
    check(again(space))
    assert not list(problems(again(space)))


def test_the_rate_limit_of_the_docs_continues_when_the_clock_jumps(ticks: Channel, wrong: Wrong) -> None:
    calm = ticks.space.derive_channel("calm", "ticks", **recipe("Rate limit"))
    count = 0
    for jump in (0, *JUMPS):
        wrong.off += jump
        tick(ticks, *range(count, count + 4))
        wrong.off += 10
        made = len(values(calm))
        tick(ticks, *range(count + 4, count + 8))
        count += 8
        assert len(values(calm)) == made + 2  # the burst


def test_a_clock_that_is_years_ahead_lets_no_young_event_go(ticks: Channel, wrong: Wrong) -> None:
    tick(ticks, 0)
    wrong.off = 2 * YEAR
    assert again(ticks.space).vacuum(linger=timedelta(0)).channels == ()
    assert [row["n"] for row in values(ticks)] == [0]
