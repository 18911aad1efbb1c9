"""Code that traps, costs too much, never ends or grows: its channel suffers, and the parent's events flow on."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ecode.types import INT64, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Source, Submission, problems
from pbio_spark.channels.commits import commit_json
from pbio_spark.channels.derive import period
from pbio_spark.channels.log import folds, history
from pbio_spark.channels.publish import late
from pbio_spark.channels.upkeep import folding
from pbio_spark.errors import PbioError
from tests.channels.derive.replay import check
from tests.channels.spaces import again, values

EVENT = record("event", [Field("n", INT64), Field("s", STRING)])
COUNTING = "{ state.n += 1; return 1; }"


@pytest.fixture
def base(space: ChannelSpace) -> Channel:
    return space.create_channel("base", EVENT)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the sources in seconds, whose last item is the time."""
    now = [1_000_000_000]
    monkeypatch.setattr(late, "now", lambda: now[-1] * 1_000_000)
    return now


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": n, "s": f"s{n}"} for n in numbers]


def numbers(channel: Channel) -> list[int]:
    return [row["n"] for row in values(channel)]


def states(channel: Channel) -> dict[str, Any]:
    derived = channel.space.history.catch_up().derived
    return {name: json.loads(held.text)["state"] for name, held in derived.states.get(channel.info.id, {}).items()}


@pytest.mark.parametrize("mend", ["replace", "parameters"])
@pytest.mark.parametrize("state", [None, {"n": 0}])
def test_code_that_always_traps_is_suspended_until_it_changes(
    base: Channel, mend: str, state: dict[str, Any] | None
) -> None:
    space = base.space
    source = "{ return 6 / (input.n * param.by) > 0; }"
    bad = space.derive_channel("bad", "base", filter=source, parameters={"by": 0}, state=state, max_traps=3)
    base.submit(rows(1, 2))
    assert bad.status == "accepted"
    base.submit(rows(3))
    assert "suspended: 3 events in a row ended in a trap" in bad.status
    base.submit(rows(4))
    seen = sum(report.seen for report in space.history.catch_up().derived.reports[bad.info.id].values())
    assert seen == 3
    if mend == "replace":
        space.replace_channel("bad", filter="{ return input.n; }", state=state)
    else:
        space.set_parameters("bad", {"by": 1})
    base.submit(rows(5))
    assert (bad.status, numbers(bad), numbers(base)) == ("accepted", [5], [1, 2, 3, 4, 5])
    check(space)


@pytest.mark.parametrize("state", [None, {"n": 0}])
def test_code_that_one_source_cannot_afford_is_derived_at_another(base: Channel, state: dict[str, Any] | None) -> None:
    source = "{ int i, k = 1; for (i = 0; i < 1000; i++) k = k * 3 + i; return k != 0; }"
    dear = base.space.derive_channel("dear", "base", filter=source, state=state)
    poor = ChannelSpace.open(base.space.root, source=Source("poor", max_cost=100))
    poor.channel("base").submit(rows(1))
    assert "refused" in dear.status
    base.submit(rows(2))
    assert (numbers(dear), numbers(base)) == ([2], [1, 2])
    reports = base.space.history.catch_up().derived.reports[dear.info.id]
    assert sorted(report.status for report in reports.values()) == ["accepted", "refused"]


@pytest.mark.parametrize("state", [None, {"n": 0}])
def test_code_that_loops_ends_at_its_budget(base: Channel, state: dict[str, Any] | None) -> None:
    source = "{ int i = 0; while (input.n == 2) i++; return 1; }"
    loops = base.space.derive_channel("loops", "base", filter=source, state=state, max_cost=5_000)
    base.submit(rows(1, 2, 3))
    assert numbers(loops) == [1, 3]
    check(base.space)


def test_a_period_that_never_ends_makes_nothing_and_leaves_its_state(base: Channel, clock: list[int]) -> None:
    endless = base.space.derive_channel(
        "endless", "base", filter=COUNTING, state={"n": 0}, period="{ state.n += 100; return 2; }", every=1
    )
    for n in range(2):
        base.submit(rows(n))
        clock.append(clock[-1] + 2)
    assert (numbers(endless), states(endless)) == ([0, 1], {"": {"n": 2}})
    (report,) = base.space.history.catch_up().derived.reports[endless.info.id].values()
    assert report.trapped == 1
    assert period.MOST_EMITTED == 1000
    check(base.space)


def test_states_that_grow_too_large_are_refused_and_stay_as_they_were(base: Channel) -> None:
    root = base.space.root
    grows = base.space.derive_channel("grows", "base", filter="{ state.s = input.s; return 1; }", state={"s": ""})
    small = ChannelSpace.open(root, source=Source("small", max_state=100, max_states=150)).channel("base")
    small.submit([{"n": 1, "s": "x" * 50}], producer="p")
    small.submit([{"n": 2, "s": "x" * 200}], producer="p")
    assert "200" not in grows.status
    assert "the source allows 100 for a producer" in grows.status
    small.submit([{"n": 3, "s": "y" * 50}], producer="q")
    assert numbers(grows) == [1, 3]
    small.submit([{"n": 4, "s": "z" * 50}], producer="r")
    assert "the states of all producers" in grows.status
    assert numbers(base) == [1, 2, 3, 4]
    check(base.space)


def test_wrong_parameters_and_blocks_are_refused_at_once(base: Channel) -> None:
    space = base.space
    space.derive_channel("some", "base", filter="{ return input.n > param.least; }", parameters={"least": 1})
    version = space.history.catch_up().version
    wrong: list[dict[str, Any]] = [{"least": "a"}, {"least": 1.5}, {"least": None}, {"least": [1]}, {"least": True}]
    for one in [*wrong, {"most": 1}, {"least": 2**63}]:
        with pytest.raises(PbioError) as caught:
            space.set_parameters("some", one)
        assert caught.value.code == "PBIO_BAD_OPTION"
    with pytest.raises(PbioError, match="unknown parameter block 'nowhere'"):
        space.derive_channel("other", "base", filter="{ return 1; }", parameters="nowhere")
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        space.set_parameters("nowhere", {"least": 1})
    assert space.history.catch_up().version == version


@pytest.mark.parametrize("what", ["filter", "transform", "dequeue", "period"])
def test_state_that_is_not_there_is_said_to_be(base: Channel, what: str) -> None:
    options: dict[str, Any] = {what: "{ state.n = 1; return 0; }"}
    if what == "transform":
        options["type"] = EVENT
    if what == "period":
        options["every"] = 1
    with pytest.raises(PbioError, match=r"give state=\{\.\.\.\}"):
        base.space.derive_channel("bad", "base", **options)


@pytest.mark.parametrize("years", [1, -1])
def test_clocks_that_jump_run_a_period_once_or_restart_it(base: Channel, clock: list[int], years: int) -> None:
    made = base.space.derive_channel(
        "made", "base", filter="{ return 0; }", period="{ output.n = -1; return 1; }", every=60
    )
    for seconds in (0, years * 365 * 86_400, 1, 60, 1):
        clock.append(clock[-1] + seconds)
        base.submit(rows(1))
    assert numbers(made) == [-1] * (2 if years > 0 else 1)
    check(base.space)


def test_a_derivation_that_is_dropped_or_replaced_mid_publish(base: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    space, rival = base.space, again(base.space)
    for name in ("dropped", "replaced"):
        space.derive_channel(name, "base", filter=COUNTING, state={"n": 0})
    original = late.Late.derive
    done = []

    def derive(self: late.Late, *arguments: Any) -> bool:
        found = original(self, *arguments)
        if not done:
            done.append(rival.drop_channel("dropped"))
            rival.replace_channel("replaced", filter="{ state.n += 10; return 0; }", state={"n": 0})
        return found

    monkeypatch.setattr(late.Late, "derive", derive)
    space.publish([Submission("base", rows(1, 2))])
    replaced = space.channel("replaced")
    assert (numbers(base), numbers(replaced), states(replaced)) == ([1, 2], [], {"": {"n": 20}})
    with pytest.raises(PbioError, match="before the channels derived from it"):
        rival.drop_channel("base")
    check(space)


def test_long_states_lie_beside_the_log_in_checkpoints_and_through_vacuum(
    base: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LONGEST_STATES", 200)
    space = base.space
    keeps = space.derive_channel(
        "keeps", "base", filter="{ state.s = input.s; state.n += 1; return state.n % 2; }", state={"s": "", "n": 0}
    )
    for n in range(6):
        base.submit([{"n": n, "s": "s" * 300}], producer="pq"[n % 2], sequence=n // 2)
    assert list(Path(space.root).rglob("*states*"))
    space.history.checkpoint()
    space.compact(small=1 << 30)
    space.vacuum(grace=timedelta(0), linger=timedelta(0))
    assert [str(one) for one in problems(again(space))] == []
    other = again(space)
    assert (
        states(other.channel("keeps"))
        == states(keeps)
        == {"p": {"s": "s" * 300, "n": 3}, "q": {"s": "s" * 300, "n": 3}}
    )
    other.channel("base").submit(rows(6), producer="p", sequence=3)
    assert numbers(keeps) == [0, 1, 4, 5]
    check(other)


@pytest.mark.parametrize("longest", [1, 1 << 16])
def test_derived_events_and_states_are_read_from_folds(
    base: Channel, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr(folds, "SIZES", (3, 12))
    monkeypatch.setattr(folding, "KEPT", 2)
    monkeypatch.setattr(history, "LONGEST_STATES", longest)
    space = base.space
    odd = space.derive_channel("odd", "base", filter="{ state.n += 1; return state.n % 2; }", state={"n": 0})
    for n in range(20):
        base.submit(rows(n), producer="p", sequence=n)
        if n == 10:
            space.replace_channel("odd", filter="{ state.n += 1; return state.n % 3; }", state={"n": 0})
    space.vacuum(grace=timedelta(0), linger=timedelta(0))
    assert any(name.endswith(".fold") for name in space.folder.names("_log"))
    expected = [*range(0, 11, 2), *(n for n in range(11, 20) if (n + 1) % 3)]
    assert numbers(again(space).channel("odd")) == numbers(odd) == expected
    assert [str(one) for one in problems(again(space))] == []
    check(again(space))


def test_a_log_from_before_there_was_state_continues(base: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    space = base.space
    with monkeypatch.context() as before:
        before.setattr(commit_json, "VERSION", 2)
        old = space.derive_channel("old", "base", filter="{ return input.n; }")
        base.submit(rows(0, 1))
    new = again(space).derive_channel("new", "old", filter="{ state.n += 1; return state.n % 2; }", state={"n": 0})
    again(space).channel("base").submit(rows(2, 3, 4))
    assert (numbers(old), numbers(new)) == ([1, 2, 3, 4], [2, 4])
    assert [str(one) for one in problems(again(space))] == []
    check(again(space))


def test_a_refusal_is_thought_over_when_another_writer_changed_the_state(
    base: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = base.space
    grows = space.derive_channel(
        "grows", "base", filter='{ if (input.n) state.s = ""; else state.t = input.s; return 1; }',
        state={"s": "x" * 60, "t": ""},
    )  # fmt: skip
    small = ChannelSpace.open(space.root, source=Source("small", max_state=100)).channel("base")
    original, done = late.Late.derive, []

    def derive(self: late.Late, *arguments: Any) -> bool:
        found = original(self, *arguments)
        if not done:
            done.append(True)
            base.submit(rows(1), producer="p")
        return found

    monkeypatch.setattr(late.Late, "derive", derive)
    small.submit([{"n": 0, "s": "y" * 50}], producer="p")
    assert (numbers(grows), grows.status) == ([1, 0], "accepted")
    check(space)


def test_lazy_parameters_hold_at_the_latest_when_their_time_is_over(
    base: Channel, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    space, rival = base.space, again(base.space)
    some = space.derive_channel(
        "some", "base", filter="{ state.n += 1; return param.all; }", parameters={"all": 0}, state={"n": 0}
    )
    original, done = late.Late.derive, []

    def derive(self: late.Late, *arguments: Any) -> bool:
        found = original(self, *arguments)
        if not done:
            done.append(rival.set_parameters("some", {"all": 1}, lazy=0.000001))
            clock.append(1 << 32)
        return found

    monkeypatch.setattr(late.Late, "derive", derive)
    base.submit(rows(1))
    assert numbers(some) == [1]
    check(space)
