"""Streams of channels that come to be, are dropped, or are created again while a query runs or is down."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT32, Field, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT
from tests.source.channels.query import Query, columns
from tests.source.channels.streams.published import EARLIEST, publish


def test_channels_that_come_to_be_are_read_by_their_pattern(space: ChannelSpace) -> None:
    query = Query(space, channelPattern="c.*")
    publish(space, 0)
    space.create_channel("cats", COUNT).submit({"n": 1})
    space.create_channel("dogs", COUNT).submit({"n": 2})
    space.create_channel("cows", record("cow", [Field("n", INT32), Field("milk", FLOAT64)])).submit({"n": 3, "milk": 1})
    assert query.numbers() == [[0, 1, 3]]
    space.drop_channel("cats")
    publish(space, 4)
    assert query.numbers() == [[4]]
    assert Query(space, query.offset, channelPattern="c.*", startingOffsets="latest").numbers() == []


def test_a_pattern_may_match_nothing_yet(space: ChannelSpace) -> None:
    query = Query(space, schema=columns(("n", pa.int32())), channelPattern="later.*", **EARLIEST)
    assert query.batch() is None
    space.create_channel("later", COUNT).submit({"n": 1})
    assert query.numbers() == [[1]]
    with pytest.raises(PbioError, match="PBIO_NO_SCHEMA"):
        Query(space, channelPattern="never")


def test_a_dropped_channel_ends_the_stream_when_its_events_have_been_read(space: ChannelSpace) -> None:
    query = Query(space, channel="counts")
    publish(space, 1)
    space.drop_channel("counts")
    space.create_channel("counts", COUNT).submit({"n": 2})
    assert query.batch() == [{"n": 1}]
    for _ in range(2):
        with pytest.raises(PbioError, match=r"PBIO_UNKNOWN_CHANNEL.*has been dropped"):
            query.batch()


def test_a_channel_recreated_while_a_query_was_down_is_another_channel(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    space.create_channel("others", COUNT)
    publish(space, 0)
    for is_read in (False, True):
        query = Query(space, channels="counts,others", **EARLIEST)
        if is_read:
            query.batches()
        space.drop_channel("counts")
        anew = space.create_channel("counts", record("count", [Field("n", INT32), Field("more", FLOAT64)]))
        anew.submit({"n": 7, "more": 0.5})
        publish(space, 8, channel="others")
        for _ in range(2):
            with pytest.raises(
                PbioError, match=r"PBIO_EVENTS_GONE.*'counts' was dropped and created again: it is number"
            ):
                Query(space, query.offset, channels="counts,others").batch()
        on = Query(space, query.offset, channels="counts,others", failOnDataLoss=False)
        assert on.numbers() == [[7, 8]]
        assert "dropped and created again" in caplog.text
        assert Query(space, on.offset, channels="counts,others").numbers() == []  # it is the new one's now
        assert Query(space, query.offset, channels="others").numbers() == [[8]]  # it is no longer wanted
        space.drop_channel("others")
        space.create_channel("others", COUNT)


def test_a_pattern_misses_what_a_dropped_channel_had_left(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    cats = space.create_channel("cats", COUNT)
    publish(space, 0)
    before = Query(space, channelPattern="c.*", **EARLIEST)
    cats.submit({"n": 1})
    through = Query(space, channelPattern="c.*", **EARLIEST)
    assert through.numbers() == [[0, 1]]
    space.drop_channel("cats")
    space.create_channel("cats", COUNT).submit({"n": 2})
    publish(space, 3)
    with pytest.raises(PbioError, match=r"PBIO_EVENTS_GONE.*'cats' was dropped before its events from 3\.0\.0 on"):
        Query(space, before.offset, channelPattern="c.*").batch()
    assert Query(space, before.offset, channelPattern="co.*").numbers() == [[0, 3]]
    assert Query(space, through.offset, channelPattern="c.*").numbers() == [[2, 3]]
    on = Query(space, before.offset, channelPattern="c.*", failOnDataLoss=False)
    assert on.numbers() == [[0, 2, 3]]
    assert "'cats' was dropped" in caplog.text
    assert Query(space, on.offset, channelPattern="c.*").numbers() == []
