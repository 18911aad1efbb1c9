"""Events with dates and times that Python cannot represent: nothing is lost, and no subscriber is stuck."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.channels import Channel, ChannelSpace, Position
from pbio_spark.errors import PbioError

DAY = {"o": {"id": "int", "day": "date"}}
AT = pa.struct([("when", pa.list_(pa.timestamp("us", "UTC")))])
TIMES = pa.schema([("id", pa.int32()), ("at", AT)])
BEYOND = 2932897  # 10000-01-01


@pytest.fixture
def days(space: ChannelSpace) -> Channel:
    """The events 0 to 5 in one commit, of which 3 is in the year 10000."""
    channel = space.create_channel("days", DAY)
    channel.submit(days_of(range(6), 3))
    return channel


def days_of(numbers: Any, *bad: int) -> pa.Table:
    ids = list(numbers)
    stored = [BEYOND if n in bad else 20000 for n in ids]
    return pa.table({"id": pa.array(ids, pa.int32()), "day": pa.array(stored, pa.date32())})


def run(channel: Channel, **options: Any) -> tuple[list[int], PbioError | None]:
    """What a handler sees in one run of the named subscriber, and how the run ends."""
    seen: list[int] = []
    subscription = channel.subscribe(lambda event: seen.append(event.values["id"]), name="n", **options)
    try:
        assert subscription.run() == len(seen)
    except PbioError as error:
        return seen, error
    return seen, None


def test_only_what_the_handler_has_seen_is_acknowledged(days: Channel) -> None:
    days.submit(days_of(range(6, 9)))
    seen, error = run(days, start="earliest")
    assert seen == [0, 1, 2]
    assert error is not None
    assert (error.code, error.file, error.record, error.field) == (
        "PBIO_BAD_VALUE",
        "channel days",
        "event 2.0.3",
        "$.day",
    )
    text = str(error)
    assert all(said in text for said in ("10000-01-01", "mode='DROPMALFORMED'", "seek('2.0.4')"))
    assert run(days)[0] == []
    assert days.subscribe(name="n").position == Position.parse("2.0.3")


def test_a_first_event_that_python_lacks_takes_no_other_with_it(space: ChannelSpace) -> None:
    channel = space.create_channel("days", DAY)
    channel.submit(days_of(range(4), 0))
    assert run(channel, start="earliest")[0] == []
    assert run(channel, mode="DROPMALFORMED") == ([1, 2, 3], None)
    assert run(channel) == ([], None)


def test_the_way_to_continue_that_the_error_names_works(days: Channel, caplog: pytest.LogCaptureFixture) -> None:
    subscription = days.subscribe(start="earliest")
    seen: list[int] = []
    with pytest.raises(PbioError) as raised:
        seen.extend(event.values["id"] for event in subscription.events())
    with pytest.raises(PbioError):  # it is not passed over by asking again
        next(subscription.events())
    subscription.seek(str(raised.value.hint).rpartition("seek('")[2].removesuffix("')"))
    assert [event.values["id"] for event in subscription.events()] == [4, 5]
    with caplog.at_level(logging.WARNING, "pbio_spark.channels"):
        dropped = days.subscribe(start="earliest", mode="DROPMALFORMED").events()
        assert [event.values["id"] for event in dropped] == [0, 1, 2, 4, 5]
    assert "channel days: 1 event dropped" in caplog.text
    (delivery,) = days.subscribe(start="earliest").deliveries()
    assert delivery.batch.column("day").cast(pa.int32()).to_pylist() == [20000, 20000, 20000, BEYOND, 20000, 20000]


def test_a_time_inside_lists_and_structures_is_named(space: ChannelSpace) -> None:
    channel = space.create_channel("times", TIMES)
    values = [{"when": [0, 1]}, {"when": [0, -(10**17)]}, {"when": [253402300800000000]}, {"when": []}]
    bare = pa.array(values, pa.struct([("when", pa.list_(pa.int64()))]))
    channel.submit(pa.table({"id": pa.array(range(4), pa.int32()), "at": bare.cast(AT)}))
    _, error = run(channel, start="earliest")
    assert error is not None
    assert error.field == "$.at.when[1]"
    assert "-1199" in error.reason
    assert run(channel, mode="DROPMALFORMED")[0] == [3]


def test_a_subscriber_whose_types_have_no_handler_has_seen_nothing(days: Channel) -> None:
    with pytest.raises(PbioError, match="no handlers"):
        (subscription := days.subscribe(name="n", start="earliest")).run()
    subscription.acknowledge()
    assert run(days, mode="DROPMALFORMED")[0] == [0, 1, 2, 4, 5]
