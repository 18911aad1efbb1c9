"""Streams under a name: a subscriber resumes where a query left off, and keeps unread events."""

from __future__ import annotations

from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace, Position
from pbio_spark.channels.presence import subscribers
from tests.channels.spaces import COUNT
from tests.source.channels.query import Query
from tests.source.channels.streams.published import EARLIEST, NOW, publish


@pytest.mark.parametrize("limit", [{}, {"maxRecordsPerTrigger": 1}])
def test_a_subscriber_resumes_where_a_query_left_off(space: ChannelSpace, limit: dict[str, int]) -> None:
    space.create_channel("others", COUNT)
    space.create_channel("older", COUNT)
    publish(space, 100, channel="older")
    publish(space, 0)
    publish(space, 1, channel="others")
    offset = None

    def run(*names: str, **options: Any) -> list[int]:
        nonlocal offset
        query = Query(space, offset, channels=",".join(names), **limit, **options)
        offset = query.offset if offset is None else offset
        rows = sorted(number for batch in query.numbers() for number in batch)
        offset = query.offset
        return rows

    assert run("counts", "others", **EARLIEST) == [0, 1]
    publish(space, 2)
    publish(space, 3, channel="others")
    assert run("counts") == [2]
    publish(space, 4, channel="others")
    publish(space, 5)
    assert run("counts") == [5]
    publish(space, 6)
    publish(space, 7, channel="others")
    assert run("counts", "others") == [3, 4, 6, 7]
    assert run("counts", "others") == []
    assert run("counts", "others", "older") == [
        100
    ]  # as with Kafka, what is new in a query begins with its first event
    space.create_channel("newer", COUNT)
    publish(space, 8, channel="newer")
    assert run("counts", "others", "older", "newer") == [8]
    publish(space, 9, channel="older")
    assert run("counts", "others", "older", "newer") == [9]


def test_a_named_subscriber_resumes_without_a_checkpoint(space: ChannelSpace) -> None:
    publish(space, 0)
    read = {"channel": "counts", "subscriber": "spark"}
    first = Query(space, **read, **EARLIEST)
    assert first.batch() == [{"n": 0}]
    publish(space, 1)
    assert first.batch() == [{"n": 1}]
    # That it begins its next batch is what tells that this one is finished.
    again_ = Query(space, **read)
    assert again_.numbers() == [[1]]
    publish(space, 2)
    assert Query(space, **read).numbers() == [[2]]
    assert Query(space, channel="counts").numbers() == []
    assert space.channel("counts").subscribe(name="spark").position == Position(5)


def test_a_name_keeps_what_it_has_not_read_and_no_more(space: ChannelSpace) -> None:
    kept = space.create_channel("kept", COUNT, keep="subscribed")
    query = Query(space, channel="kept", subscriber="spark")
    query.batch()
    kept.submit({"n": 1})
    assert space.vacuum(grace=NOW, linger=NOW).channels == ()
    assert query.numbers() == [[1]]
    assert space.vacuum(grace=NOW, linger=NOW).channels == ("kept",)


def test_each_channel_resumes_where_the_named_subscriber_left_off(space: ChannelSpace) -> None:
    other = space.create_channel("other", COUNT)
    publish(space, 0)
    other.submit({"n": 10})
    quiet = Query(space, channel="other", subscriber="spark", **EARLIEST)
    assert quiet.numbers() == [[10]]
    busy = Query(space, channel="counts", subscriber="spark", **EARLIEST)
    for n in range(1, 4):
        publish(space, n)
    assert busy.numbers() == [[0, 1, 2, 3]]
    other.submit({"n": 11})
    both = Query(space, channels="counts,other", subscriber="spark")
    assert both.numbers() == [[11]]
    old = space.create_channel("old", COUNT)
    old.submit({"n": 20})
    assert both.numbers() == []
    assert Query(space, channelPattern=".*", subscriber="spark").numbers() == [[20]]  # it came to be since
    assert Query(space, channels="old", subscriber="new").numbers() == []


def test_a_stream_acknowledges_only_channels_with_events(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        space.create_channel(name, COUNT)
    query = Query(space, channelPattern="..?", subscriber="spark")
    query.batch()
    said: list[int] = []
    known = subscribers.acknowledge

    def acknowledge(folder: Any, channel: int, *more: Any) -> Any:
        said.append(channel)
        return known(folder, channel, *more)

    monkeypatch.setattr(subscribers, "acknowledge", acknowledge)
    for n in range(3):
        publish(space, n, channel="b")
        assert query.numbers() == [[n]]
    assert said == [space.channel("b").info.id] * 3
