"""Derived channels where Spark writes: services that the writer grants, state in order, refusals with reasons."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import ecode
from ecode.types import FLOAT64, INT64, Field, record
from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.errors import PbioError
from tests.channels.derive.replay import check
from tests.channels.spaces import everything, values
from tests.source.by_hand import run_task, stream_writer, write, write_stream, writer
from tests.source.local import load

STAMP = record("stamp", [Field("price", FLOAT64), Field("at", INT64)])
STAMPED = "{ output.price = input.price; output.at = (long)clock(); return 1; }"
CHANGED = "{ if (input.price == state.last) return 0; state.last = input.price; state.seen += 1; return 1; }"
ORDER = {"channel": "stocks", "producerColumn": "who", "sequenceColumn": "seq"}


def rows(who: str, first: int, *prices: float) -> pa.RecordBatch:
    """Prices of one producer, numbered from `first` on."""
    numbers = list(range(first, first + len(prices)))
    made = {"name": [who] * len(prices), "price": list(prices), "who": [who] * len(prices), "seq": numbers}
    return pa.RecordBatch.from_pydict(made)


@pytest.fixture
def changed(space: ChannelSpace, stocks: Channel) -> Channel:
    return space.derive_channel("changed", "stocks", filter=CHANGED, state={"last": 0.0, "seen": 0})


def test_a_service_is_granted_to_the_tasks_by_name(space: ChannelSpace, stocks: Channel) -> None:
    stamped = space.derive_channel("stamped", "stocks", transform=STAMPED, type=STAMP, services=["clock"])
    write(space, rows("a", 0, 1.0), **ORDER)
    assert values(stamped) == []
    assert "does not grant the service 'clock'" in stamped.status
    write(space, rows("a", 1, 2.0, 3.0), rows("b", 0, 4.0), **ORDER, services="clock, load")
    assert [row["price"] for row in values(stamped)] == [2.0, 3.0, 4.0]
    assert all(row["at"] > 1_600_000_000 for row in values(stamped))
    with pytest.raises(PbioError, match="did you mean 'clock'") as caught:
        writer(space, rows("a", 0, 1.0).schema, **ORDER, services="clok")
    assert caught.value.code == "PBIO_BAD_OPTION"


ENGINE = ecode.service("double engine(int number)", lambda number: 100.0 + number)


def test_a_service_of_ones_own_is_named_by_its_module(space: ChannelSpace, stocks: Channel) -> None:
    warm = space.derive_channel(
        "warm",
        "stocks",
        transform="{ output.price = input.price + engine(7); return 1; }",
        type=STAMP,
        services=["double engine(int number)"],
    )
    write(space, rows("a", 0, 1.0), **ORDER, services=f"clock,{__name__}:ENGINE")
    assert [row["price"] for row in values(warm)] == [108.0]


@pytest.mark.parametrize(
    ("services", "said"),
    [
        (f"{__name__}:ENGIN", "did you mean 'ENGINE'"),
        (f"{__name__}:rows", "has no service 'rows'"),
        ("no.such.module:f", "addPyFile"),
        ("os:system", "has no service 'system'"),
        (":f", "is not a module"),
    ],
)
def test_an_unknown_service_is_reported_while_spark_plans(
    space: ChannelSpace, stocks: Channel, services: str, said: str
) -> None:
    with pytest.raises(PbioError) as caught:
        writer(space, rows("a", 0, 1.0).schema, **ORDER, services=services)
    assert said in str(caught.value)


def test_state_is_that_of_a_replay_whatever_tasks_wrote(space: ChannelSpace, changed: Channel) -> None:
    write(space, rows("a", 0, 1.0, 1.0, 2.0), rows("b", 0, 5.0, 5.0), **ORDER)
    write(space, rows("b", 2, 5.0, 6.0), rows("a", 3, 2.0, 1.0), **ORDER)
    assert [(event.producer, event.values["price"]) for event in everything(changed)] == [
        *(("a", 1.0), ("a", 2.0), ("b", 5.0)),
        *(("b", 6.0), ("a", 1.0)),
    ]
    check(ChannelSpace.open(space.root))


def test_a_batch_of_a_stream_that_is_tried_again_leaves_the_state(space: ChannelSpace, changed: Channel) -> None:
    first = [rows("a", 0, 1.0, 2.0), rows("b", 0, 1.0)]
    write_stream(space, 0, *first, **ORDER)
    write_stream(space, 0, *first, **ORDER)
    # A task that is tried again after its batch failed, and the batch after that.
    made = stream_writer(space, first[0].schema, **ORDER)
    lost = run_task(made, 0, rows("a", 2, 2.0, 3.0))
    made.abort([lost, None], 1)
    write_stream(space, 1, rows("a", 2, 2.0, 3.0), rows("b", 1, 1.0), **ORDER)
    assert [event.values["price"] for event in everything(changed)] == [1.0, 2.0, 1.0, 3.0]
    check(ChannelSpace.open(space.root))


def test_the_metadata_say_under_which_version_an_event_was_made(space: ChannelSpace, stocks: Channel) -> None:
    space.derive_channel("high", "stocks", filter="{ return input.price > param.least; }", parameters={"least": 1.0})
    write(space, rows("a", 0, 1.0, 2.0), **ORDER)
    changed = space.set_parameters("high", {"least": 4.0})
    write(space, rows("a", 2, 3.0, 5.0), **ORDER)

    def versions(channel: str) -> list[tuple[float, int | None]]:
        read = load(space.root, channel=channel, metadataColumn="m")
        return [(row["price"], row["m"]["derivation_version"]) for row in read]

    assert versions("high") == [(2.0, space.channel("high").info.id), (5.0, changed)]
    assert versions("stocks") == [(1.0, None), (2.0, None), (3.0, None), (5.0, None)]


@pytest.mark.parametrize("told", [{}, {"producer": "p"}])
def test_what_has_no_order_is_refused_and_said_once(
    space: ChannelSpace, changed: Channel, caplog: pytest.LogCaptureFixture, told: dict[str, str]
) -> None:
    with caplog.at_level(logging.WARNING, "pbio_spark.source"):
        for _ in range(2):
            plain = [rows("a", 0, 1.0).select(["name", "price"]), rows("b", 0, 2.0).select(["name", "price"])]
            write(space, *plain, channel="stocks", **told)
    said = [one.getMessage() for one in caplog.records if "'changed'" in one.getMessage()]
    assert len(said) == 1
    assert "2 tasks write events" in said[0]
    assert "sequenceColumn" in said[0]
    assert values(changed) == []
    assert "refused" in changed.status
    write(space, rows("a", 0, 7.0).select(["name", "price"]), channel="stocks", **told)
    assert [row["price"] for row in values(changed)] == [7.0]
