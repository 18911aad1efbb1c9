"""Derived channels: their events come with the parent's, made by its writers, with the parameters of that commit."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Submission
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.log.state_json import json_to_state, state_to_json
from pbio_spark.columns.programs import gathered
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from tests.channels.spaces import again, everything, values

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64), Field("volume", INT32)])
TURNOVER = record("turnover", [Field("name", STRING), Field("amount", FLOAT64), Field("unset", INT64)])
SLOW = "{ int i, s = 1; for (i = 0; i < 900000; i++) s = s * 3 + i; return s; }"
PRODUCT = "{ if (input.volume == 0) return 0; output.name = input.name; output.amount = input.price * input.volume; }"


@pytest.fixture
def stocks(space: ChannelSpace) -> Channel:
    return space.create_channel("stocks", STOCK)


def stock(name: str, price: float, volume: int = 1) -> dict[str, object]:
    return {"name": name, "price": price, "volume": volume}


def names(channel: Channel) -> list[str]:
    return [row["name"] for row in values(channel)]


def test_a_filter_and_a_transform_and_one_of_the_other(stocks: Channel) -> None:
    space = stocks.space
    dear = space.derive_channel("dear", "stocks", filter="{ return input.price > 75.0; }")
    sums = space.derive_channel("sums", "stocks", transform=f"{PRODUCT[:-1]} return 1; }}", type=TURNOVER)
    both = space.derive_channel("both", "dear", transform=f"{PRODUCT[:-1]} return 1; }}", type=TURNOVER)
    assert [channel.status for channel in (stocks, dear, sums, both)] == ["direct", "pending", "pending", "pending"]
    other = again(space).channel("stocks")
    other.submit([stock("a", 10), stock("b", 80, 2), stock("c", 90, 0)], producer="p", sequence=0)
    assert values(dear) == [stock("b", 80, 2), stock("c", 90, 0)]
    assert values(sums) == [{"name": "a", "amount": 10.0, "unset": 0}, {"name": "b", "amount": 160.0, "unset": 0}]
    assert values(both) == [{"name": "b", "amount": 160.0, "unset": 0}]
    assert [channel.status for channel in (dear, sums, both)] == ["accepted"] * 3
    made = [*everything(dear), *everything(sums), *everything(both)]
    assert {event.position.version for event in made} == {everything(stocks)[0].position.version}
    assert {(event.producer, event.sequence) for event in made} == {("p", None)}


def test_what_was_published_before_makes_no_derived_events_again(stocks: Channel) -> None:
    all_ = stocks.space.derive_channel("all", "stocks", filter="{ return 1; }")
    for _ in range(2):
        stocks.submit([stock("a", 1), stock("b", 2)], producer="p", sequence=0)
    stocks.submit([stock("b", 2), stock("c", 3)], producer="p", sequence=1)
    assert names(all_) == ["a", "b", "c"]


def test_parameters_hold_from_the_next_commit_on_for_every_writer(stocks: Channel) -> None:
    space, rival = stocks.space, again(stocks.space)
    source = "{ return input.price >= param.low && input.volume > param.least; }"
    channel = space.derive_channel("some", "stocks", filter=source, parameters={"low": 75.0, "least": 0})
    batch = [stock("cheap", -5.5), stock("dear", 80)]
    stocks.submit(batch)
    rival.set_parameters("some", {"low": -6})
    assert channel.status == "pending"
    stocks.submit(batch)
    space.set_parameters("some", {"low": -1e300, "least": 5})
    rival.channel("stocks").submit([*batch, stock("much", 1, 6)])
    assert names(channel) == ["dear", "cheap", "dear", "much"]
    derivation = again(space).channel("some").info.derivation
    assert derivation is not None
    assert derivation.parameters.values == {"low": -1e300, "least": 5}


def test_a_commit_whose_parameters_changed_meanwhile_is_made_again(
    stocks: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, rival = stocks.space, again(stocks.space)
    source = "{ return input.price >= param.low; }"
    channel = space.derive_channel("some", "stocks", filter=source, parameters={"low": 0.0})
    original = Deriver.derive

    def derive(self: Deriver, *args: object) -> object:
        monkeypatch.setattr(Deriver, "derive", original)
        rival.set_parameters("some", {"low": 50.0})
        return original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Deriver, "derive", derive)
    stocks.submit([stock("a", 10), stock("b", 60)])
    assert names(channel) == ["b"]
    assert len(space.folder.names("data")) == 1


def test_events_with_more_fields_and_of_other_machines_are_derived_from_too(stocks: Channel) -> None:
    dear = stocks.space.derive_channel("dear", "stocks", filter="{ return input.price > 75.0; }")
    wide = record("stock", [Field("place", STRING), *STOCK.fields])
    stocks.submit(
        [stock("a", 1) | {"place": "x"}, stock("b", 80) | {"place": "y"}], format=record_to_format(wide, "be32")
    )
    stocks.submit(pa.table({"name": ["c"], "price": [76.0], "volume": pa.array([1], pa.int32()), "t": [1]}))
    assert values(dear) == [stock("b", 80), stock("c", 76)]


def test_an_event_on_which_a_program_traps_is_left_out_and_the_parents_are_published(stocks: Channel) -> None:
    source = "{ return 100 / input.volume > 10; }"
    channel = stocks.space.derive_channel("some", "stocks", filter=source)
    stocks.submit([stock("a", 1, 1), stock("b", 1, 0), stock("c", 1, 2)])
    assert names(channel) == ["a", "c"]
    assert names(stocks) == ["a", "b", "c"]


def test_a_writer_that_cannot_derive_says_so_and_publishes_what_it_can(
    stocks: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = stocks.space.derive_channel("some", "stocks", filter="{ return 1; }")
    other = again(stocks.space)

    def refuse(*_: object) -> None:
        raise PbioError("PBIO_BAD_PROGRAM", "not here")

    with monkeypatch.context() as patch:
        patch.setattr(Deriver, "step", refuse)
        other.channel("stocks").submit([stock("a", 1)])
    assert names(stocks) == ["a"]
    assert names(some) == []
    assert some.status.startswith("refused: [PBIO_BAD_PROGRAM] not here")
    (path,) = (Path(stocks.space.root) / "_log").glob("*3.json")
    assert json.loads(path.read_bytes())["data"]["refused"][0][0] == some.info.id


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"filter": "{ return input.prize; }"}, "PBIO_BAD_PROGRAM"),
        ({"filter": "{ return"}, "PBIO_BAD_PROGRAM"),
        ({"filter": "{ return input.price > state.least; }"}, "PBIO_BAD_PROGRAM"),
        ({"filter": "{ param.n = 1; return 1; }", "parameters": {"n": 3}}, "PBIO_BAD_PROGRAM"),
        ({"filter": "{ return param.n; }"}, "PBIO_BAD_PROGRAM"),
        ({"filter": SLOW}, "PBIO_BAD_PROGRAM"),
        ({"filter": "{ return 1; }", "max_cost": 0}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "max_cost": True}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "max_cost": "1"}, "PBIO_BAD_OPTION"),
        ({"transform": PRODUCT}, "PBIO_BAD_OPTION"),
        ({"type": TURNOVER}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "parameters": {"a b": 3}}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "parameters": {"n": float("nan")}}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "parameters": {"n": 2**63}}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "parameters": {"n": True}}, "PBIO_BAD_OPTION"),
        ({"filter": "{ return 1; }", "parameters": [1]}, "PBIO_BAD_OPTION"),
    ],
)
def test_what_cannot_be_derived_is_refused_when_it_is_asked_for(
    stocks: Channel, options: dict[str, object], code: str
) -> None:
    with pytest.raises(PbioError) as caught:
        stocks.space.derive_channel("some", "stocks", **options)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert [info.name for info in stocks.space.channels()] == ["stocks"]


def test_the_cost_of_an_event_has_a_limit_that_can_be_raised(stocks: Channel) -> None:
    with pytest.raises(
        PbioError, match=r"the filter takes up to 9,9\d\d,\d\d\d units .* 1,000,000 are allowed"
    ) as caught:
        stocks.space.derive_channel("slow", "stocks", filter=SLOW)
    assert "max_cost=" in str(caught.value.hint)
    slow = stocks.space.derive_channel("slow", "stocks", filter=SLOW, max_cost=10_000_000)
    stocks.submit(stock("a", 1))
    assert names(slow) == ["a"]


def test_where_the_event_decides_those_beyond_the_limit_are_left_out(stocks: Channel) -> None:
    source = "{ int i, s = 1; for (i = 0; i < input.price; i++) s = s * 3 + i; return s; }"
    stocks.space.derive_channel("some", "stocks", filter=source, max_cost=5_000)
    other = again(stocks.space)  # the limit is in the log
    other.channel("stocks").submit([stock("a", 3), stock("b", 1e6), stock("c", 5)])
    assert names(other.channel("some")) == ["a", "c"]


def test_a_program_that_lacks_its_parameters_is_refused_with_a_hint(stocks: Channel) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_PROGRAM") as caught:
        stocks.space.derive_channel("some", "stocks", filter="{ return input.price > param.least; }")
    assert caught.value.hint == "give parameters={...}"
    with pytest.raises(PbioError, match="PBIO_BAD_PROGRAM") as caught:
        stocks.space.derive_channel("some", "stocks", filter="{ return param.n + m; }", parameters={"n": 1})
    assert caught.value.hint is None


def test_parameters_that_are_not_there_or_of_another_type_are_refused(stocks: Channel) -> None:
    space = stocks.space
    space.derive_channel("some", "stocks", filter="{ return param.least; }", parameters={"least": 1})
    for name, values_ in (("some", {"last": 1}), ("some", {"least": 1.5}), ("stocks", {"least": 1})):
        with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
            space.set_parameters(name, values_)


def test_a_parent_is_dropped_after_its_children(stocks: Channel) -> None:
    space = stocks.space
    space.derive_channel("some", "stocks", filter="{ return 1; }")
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        space.drop_channel("stocks")
    space.drop_channel("some")
    stocks.submit(stock("a", 1))
    space.drop_channel("stocks")
    assert space.channels() == []


def test_derivations_survive_a_checkpoint(stocks: Channel) -> None:
    space = stocks.space
    space.derive_channel("some", "stocks", filter="{ return param.n; }", parameters={"n": 1, "x": 0.5})
    stocks.submit(stock("a", 1))
    state = space.history.catch_up()
    copy = json_to_state(state_to_json(state), space.id, state.version)
    assert copy.channels == state.channels
    assert [info.name for info in copy.children(stocks.info.id)] == ["some"]


def test_arrays_pass_through_a_derivation(space: ChannelSpace) -> None:
    wave = record("wave", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))])
    channel = space.create_channel("waves", wave)
    loud = space.derive_channel("loud", "waves", filter="{ return input.n > 0 && input.v[0] > 1.0; }")
    space.publish([Submission("waves", [{"n": k, "v": [float(k)] * k} for k in range(4)])])
    assert values(loud) == [{"n": k, "v": [float(k)] * k} for k in (2, 3)]
    assert len(values(channel)) == 4


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"n": "7"}, "n takes a number, not '7'"),
        ({"n": None}, "n takes a number, not None"),
        ({"n": [1]}, r"n takes a number, not \[1\]"),
        (7, "not a mapping of parameters: '7'"),
        (None, "not a mapping of parameters: 'None'"),
        ({}, "no parameters are given"),
    ],
    ids=["string", "none", "list", "number", "nothing", "empty"],
)
def test_odd_parameters_are_refused(space: ChannelSpace, odd: Any, reason: str) -> None:
    space.create_channel("stocks", STOCK)
    space.derive_channel("few", "stocks", filter="{ return input.price > param.n; }", parameters={"n": 2})
    with pytest.raises(PbioError, match=reason) as caught:
        space.set_parameters("few", odd)
    assert caught.value.code == "PBIO_BAD_OPTION"
    assert space.parameters("few") == {"n": 2}
    assert space.history.catch_up().version == 2


def test_filters_are_compiled_for_shared_numbers_only_where_there_are_four(
    stocks: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver compiles them before it sends the deriver to tasks, and so does a process that publishes."""
    compiled = 0
    real = gathered._filter_to_gathered

    def counted(*given: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return real(*given)

    monkeypatch.setattr(gathered, "_filter_to_gathered", counted)
    space = stocks.space
    for number in range(3):
        space.derive_channel(f"over {number}", "stocks", filter=f"{{ return input.price > {number}.0; }}")
    deriver = Deriver(space.formats)
    deriver.warm(stocks.info.id, record_to_format(STOCK), space.history.catch_up())
    stocks.submit([stock("a", 0.5), stock("b", 10)])
    assert compiled == 0
    space.derive_channel("over 3", "stocks", filter="{ return input.price > 3.0; }")
    deriver.warm(stocks.info.id, record_to_format(STOCK), space.history.catch_up())
    assert compiled == 4
    monkeypatch.setattr(gathered, "_filter_to_gathered", None)
    sent = pickle.loads(pickle.dumps(deriver))
    sent.warm(stocks.info.id, record_to_format(STOCK), space.history.catch_up())
    monkeypatch.setattr(gathered, "_filter_to_gathered", counted)
    again(space).channel("stocks").submit([stock("c", 2.5)])
    assert compiled == 8
    assert [names(space.channel(f"over {number}")) for number in range(4)] == [
        ["a", "b", "c"],
        ["b", "c"],
        ["b", "c"],
        [],
    ]
