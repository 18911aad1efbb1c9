"""Code that a reader in Spark gives to the sources: the options `modulator` and `parameters`."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from ecode.types import FLOAT64, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Modulator
from pbio_spark.errors import PbioError
from pbio_spark.formats.record_json import record_to_json
from tests.channels.derive.replay import check
from tests.source.channels.query import Query
from tests.source.local import load, source

HIGH = "{ return input.price > param.least; }"
TWICE = {
    "transform": "{ state.n += 1; output.twice = 2 * input.price; return state.n % 2; }",
    "type": json.loads(record_to_json(record("twice", [Field("twice", FLOAT64)]))),
    "state": {"n": 0},
}


def of(space: ChannelSpace, offset: dict[str, Any] | None = None, **options: Any) -> Query:
    given = {"channel": "stocks", "modulator": HIGH, "parameters": '{"least": 2.0}'}
    return Query(space, offset, **(given | options))


def submit(stocks: Channel, *prices: float) -> None:
    stocks.submit([{"name": "A", "price": price} for price in prices], producer="p")


def prices(query: Query) -> list[float]:
    return [row["price"] for rows in query.batches() for row in rows]


def derived(space: ChannelSpace) -> list[str]:
    return [info.name for info in space.channels() if info.derivation is not None]


def test_the_code_lives_with_the_query(space: ChannelSpace, stocks: Channel) -> None:
    assert source(space.root, channel="stocks", modulator=HIGH, parameters='{"least": 1}').schema()
    assert derived(space) == []  # to know the columns takes no channel
    query = of(space)
    assert len(derived(space)) == 1
    submit(stocks, 1, 2, 3, 4)
    assert prices(query) == [3, 4]
    assert space.channel(derived(space)[0]).status == "accepted"
    query.planner.stop()
    assert derived(space) == []
    assert space.subscribers() == []


def test_a_transform_with_state_makes_the_columns(space: ChannelSpace, stocks: Channel) -> None:
    query = Query(space, channel="stocks", modulator=json.dumps(TWICE))
    submit(stocks, 1, 2, 3)
    submit(stocks, 4, 5)
    assert [row for rows in query.batches() for row in rows] == [{"twice": 2.0}, {"twice": 6.0}, {"twice": 10.0}]
    check(ChannelSpace.open(space.root))


def test_bounds_move_by_a_shared_block(space: ChannelSpace, stocks: Channel) -> None:
    space.create_parameters("view", {"least": 2.0})
    query = of(space, parameters="view")
    submit(stocks, 1, 3)
    space.set_parameters("view", {"least": 0.0})
    submit(stocks, 1, 3)
    assert prices(query) == [3, 1, 3]


def test_a_killed_query_resumes_with_the_same_code_and_state(space: ChannelSpace, stocks: Channel) -> None:
    query = Query(space, channel="stocks", modulator=json.dumps(TWICE))
    submit(stocks, 1)
    query.batches()
    submit(stocks, 2, 3)  # no subscriber is there, but none has said that it left
    again = Query(space, query.offset, channel="stocks", modulator=json.dumps(TWICE))
    assert again.batches() == [[{"twice": 6.0}]]
    assert len(derived(space)) == 1
    again.planner.stop()
    assert derived(space) == []


def test_a_query_that_was_stopped_does_not_pass_over_events_in_silence(
    space: ChannelSpace, stocks: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    query = of(space)
    submit(stocks, 3)
    assert prices(query) == [3]
    query.planner.stop()
    again = of(space, query.offset)
    assert again.batches() == []  # nothing was published meanwhile
    submit(stocks, 4)
    assert prices(again) == [4]
    again.planner.stop()
    submit(stocks, 5)
    with pytest.raises(PbioError, match="option subscriber") as caught:
        of(space, again.offset).batches()
    assert caught.value.code == "PBIO_EVENTS_GONE"
    ignoring = of(space, again.offset, failOnDataLoss=False)
    with caplog.at_level(logging.WARNING):
        assert ignoring.batches() == ignoring.batches() == []
    assert len([one for one in caplog.records if "no source ran this code" in one.getMessage()]) == 1
    submit(stocks, 6)
    assert prices(ignoring) == [6]


def test_other_code_on_an_old_checkpoint_is_said(space: ChannelSpace, stocks: Channel) -> None:
    query = of(space, subscriber="desk")
    submit(stocks, 3)
    assert prices(query) == [3]
    submit(stocks, 4)
    with pytest.raises(PbioError, match="other code or parameters"):
        of(space, query.offset, subscriber="desk", parameters='{"least": 0.0}').batches()
    assert prices(of(space, query.offset, subscriber="desk")) == [4]


def test_under_a_name_the_code_stays(space: ChannelSpace, stocks: Channel) -> None:
    query = of(space, subscriber="desk")
    submit(stocks, 3)
    assert prices(query) == [3]
    query.planner.stop()
    submit(stocks, 4)
    assert prices(of(space, query.offset, subscriber="desk")) == [4]
    # Without its checkpoint it resumes where it has acknowledged.
    submit(stocks, 5)
    assert prices(of(space, subscriber="desk")) == [5]
    (name,) = derived(space)
    space.channel(name).unsubscribe("desk")
    assert derived(space) == []


def test_a_new_name_reads_a_shared_channel_from_now_on(space: ChannelSpace, stocks: Channel) -> None:
    code = '{"filter": "{ return input.price > 2; }"}'
    first = Query(space, channel="stocks", modulator=code)
    submit(stocks, 3)
    second = Query(space, channel="stocks", modulator=code, subscriber="desk")
    earliest = Query(space, channel="stocks", modulator=code, subscriber="archive", startingOffsets="earliest")
    submit(stocks, 4)
    assert (prices(first), prices(second), prices(earliest)) == ([3, 4], [4], [3, 4])
    assert len(derived(space)) == 1
    first.planner.stop()
    assert len(derived(space)) == 1


def test_a_batch_reads_what_came_since_the_first_one(
    space: ChannelSpace, stocks: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    submit(stocks, 3)
    with caplog.at_level(logging.WARNING):
        assert load(space.root, channel="stocks", modulator=json.dumps(TWICE)) == []
        submit(stocks, 4, 5, 6)
        before = space.history.catch_up().version
        assert load(space.root, channel="stocks", modulator=json.dumps(TWICE)) == [{"twice": 8.0}, {"twice": 12.0}]
        assert space.history.catch_up().version == before  # to read it again writes nothing
    assert len([one for one in caplog.records if "from now on" in one.getMessage()]) == 1
    assert len(derived(space)) == 1


def test_available_now_ends_where_the_log_did(space: ChannelSpace, stocks: Channel) -> None:
    query = of(space, subscriber="desk")
    query.planner.prepareForTriggerAvailableNow()
    submit(stocks, 3)
    assert prices(query) == []
    bounded = Query.__new__(Query)
    bounded.planner, bounded.offset = of(space, query.offset, subscriber="desk").planner, query.offset
    bounded.planner.prepareForTriggerAvailableNow()
    assert prices(bounded) == [3]
    submit(stocks, 4)
    assert prices(bounded) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"modulator": "{ return input.prise > 1; }", "parameters": None}, "'price'"),
        ({"modulator": '{"filtr": "{ return 1; }"}', "parameters": None}, "did you mean 'filter'"),
        ({"modulator": '{"max_cost": 5}', "parameters": None}, "did you mean 'maxCost'"),
        (
            {"modulator": '{"filter": "{ return 1; }", "parameters": {"a": 1}}', "parameters": None},
            "an option of their",
        ),
        ({"modulator": '{"filter": 7}', "parameters": None}, "takes a program"),
        ({"modulator": "{}", "parameters": None}, "it is empty"),
        (
            {"modulator": '{"filter": "{ return 1; }", "services": ["clok"]}', "parameters": None},
            "did you mean 'clock'",
        ),
        ({"modulator": '{"period": "{ return 1; }", "every": "1x"}', "parameters": None}, "cannot be"),
        ({"modulator": '{"transform": "{ return 1; }", "type": {"t": {"a": "dobule"}}}', "parameters": None}, "double"),
        ({"parameters": "veiw"}, "unknown parameter block 'veiw'"),
        ({"parameters": '{"least": null}'}, "least"),
        ({"parameters": None}, "give parameters"),
        ({"modulator": None}, "needs modulator"),
        ({"channel": None, "channels": "stocks"}, "does not apply to channels"),
        ({"channel": None}, "does not apply to files"),
        ({"channel": "stoks"}, "did you mean 'stocks'"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_derived(
    space: ChannelSpace, stocks: Channel, options: dict[str, Any], said: str
) -> None:
    given = {"channel": "stocks", "modulator": HIGH, "parameters": '{"least": 2.0}'} | options
    given = {name: value for name, value in given.items() if value is not None}
    space.create_parameters("view", {"least": 2.0})
    with pytest.raises(PbioError) as caught:
        source(space.root, **given).schema()
    assert said in str(caught.value)
    assert derived(space) == []


def test_a_stream_that_cannot_be_planned_leaves_no_code(space: ChannelSpace, stocks: Channel) -> None:
    given = source(space.root, channel="stocks", modulator="{ return 1; }", filter="{ return input.prise; }")
    reader = given.streamReader(given.schema())
    with pytest.raises(PbioError, match="prise"):
        reader.initialOffset()
    with pytest.raises(PbioError, match="prise"):
        load(space.root, channel="stocks", modulator="{ return 1; }", filter="{ return input.prise; }")
    assert derived(space) == []


def test_a_named_subscriber_in_python_reads_a_shared_channel_from_now_on(space: ChannelSpace, stocks: Channel) -> None:
    code = Modulator(filter="{ return input.price > 2; }")
    with stocks.subscribe(modulator=code) as first:
        submit(stocks, 3)
        second = stocks.subscribe(modulator=code, name="desk")
        submit(stocks, 4)
        assert [event.values["price"] for event in first.events()] == [3, 4]
        assert [event.values["price"] for event in second.events()] == [4]


def test_a_source_that_refuses_the_code_is_named_once(
    space: ChannelSpace, stocks: Channel, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would say why the stream is empty."""
    monkeypatch.setattr("pbio_spark.channels.subscribe.streams.eager_stream.ASK_EVERY", 0.0)
    query = of(
        space, modulator=json.dumps({"filter": "{ return clock() > 0; }", "services": ["clock"]}), parameters="{}"
    )
    for price in (1, 2):
        submit(stocks, price)
        assert prices(query) == []
    (said,) = [record.message for record in caplog.records if "this reader's code" in record.message]
    assert "has refused this reader's code on stocks" in said
    assert "clock" in said
