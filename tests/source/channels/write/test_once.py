"""Each event is published once: numbered writes, batches of streams, tasks that fail, aborts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.channels import Channel, ChannelSpace, Publisher
from pbio_spark.errors import PbioError
from pbio_spark.source.channels import task as channel_task
from pbio_spark.source.channels import writer as channel_writer
from pbio_spark.source.channels.writer import TaskEvents
from tests.channels.spaces import everything
from tests.source.by_hand import run_task, stream_writer, write, write_stream, writer
from tests.source.channels.write.test_write import commits, files, is_sound, prices, refusal, rows


def numbered(*numbers: int) -> pa.RecordBatch:
    return rows(*numbers, seq=list(numbers))


FEED = {"channel": "stocks", "producer": "feed", "sequenceColumn": "seq"}


def test_known_events_are_left_out(space: ChannelSpace, stocks: Channel, caplog: pytest.LogCaptureFixture) -> None:
    write(space, numbered(0, 1, 2), **FEED)
    write(space, numbered(1, 2, 3), numbered(4), **FEED)
    assert "published before" not in caplog.text
    assert [event.sequence for event in everything(stocks)] == [0, 1, 2, 3, 4]
    before = commits(space), files(space)
    write(space, numbered(0, 1), numbered(2, 3), **FEED)
    assert "all 4 events had been published before" in caplog.text
    assert (commits(space), files(space)) == before
    assert is_sound(space)


def test_a_producer_spread_over_tasks_is_refused(space: ChannelSpace, stocks: Channel) -> None:
    with refusal("PBIO_OUT_OF_ORDER") as caught:
        write(space, numbered(0, 2), numbered(1, 3), **FEED)
    assert "sortWithinPartitions" in str(caught.value)
    assert prices(stocks) == []


def test_a_numbered_write_is_published_once(space: ChannelSpace, stocks: Channel) -> None:
    for version in (3, 3, 2):
        write(space, rows(version), channel="stocks", txnAppId="nightly", txnVersion=version)
    write(space, rows(3), channel="stocks", txnAppId="other", txnVersion=3)
    write(space, rows(4), channel="stocks", txnAppId="nightly", txnVersion=4)
    assert prices(stocks) == [3.0, 3.0, 4.0]
    assert len(files(space)) == 3


def test_a_batch_of_a_stream_is_published_once(space: ChannelSpace, stocks: Channel) -> None:
    for batch_id in (0, 0, 1, 2, 2):
        write_stream(space, batch_id, rows(batch_id), rows(batch_id + 10), channel="stocks")
    assert prices(stocks) == [0.0, 10.0, 1.0, 11.0, 2.0, 12.0]
    assert len(files(space)) == 6
    assert is_sound(space)


def test_other_rows_under_the_number_of_a_batch_are_refused(space: ChannelSpace, stocks: Channel) -> None:
    """As where the checkpoint is restored, or its last files were lost: the next batch takes in more, or what another
    batch had, or has rows where it had none."""
    for batch_id in (0, 1, 3):
        write_stream(space, batch_id, rows(batch_id, batch_id + 10), channel="stocks")
    published, there = prices(stocks), files(space)
    for batch_id, wrong in ((3, rows(3, 13, 14)), (3, rows(3)), (3, rows(4, 14)), (1, rows(3, 13)), (2, rows(2))):
        with refusal("PBIO_OTHER_BATCH") as caught:
            write_stream(space, batch_id, wrong, channel="stocks")
        assert f"batch {batch_id} of" in caught.value.reason
        assert "failOnDataLoss=false" in (caught.value.hint or "")
    write_stream(space, 3, rows(13), rows(3), channel="stocks")  # the same ones, divided otherwise
    write_stream(space, 3, rows(5), channel="stocks", failOnDataLoss=False)
    assert (prices(stocks), files(space)) == (published, there)
    write(space, rows(0), channel="stocks", txnAppId="nightly", txnVersion=5)
    with refusal("PBIO_OTHER_BATCH"):
        write(space, rows(1), channel="stocks", txnAppId="nightly", txnVersion=5)


def test_writing_no_rows_makes_no_commit(space: ChannelSpace, stocks: Channel) -> None:
    before = commits(space)
    write(space, rows(0)[:0], channel="stocks")
    write_stream(space, 0, rows(0)[:0], channel="stocks")
    stream_writer(space, rows(0).schema, channel="stocks").commit([], 1)
    assert (commits(space), files(space)) == (before, [])


class LostError(Exception):
    pass


def lose(self: object, path: str) -> None:
    raise LostError


def test_a_task_that_fails_leaves_nothing(
    space: ChannelSpace, stocks: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_task, "PIECE", 1)
    made = writer(space, rows(0).schema, channel="stocks")
    bad = pa.RecordBatch.from_pydict({"name": ["ACME"], "price": pa.array([None], pa.float64())})
    with refusal("PBIO_CANNOT_BE_NULL") as caught:
        run_task(made, 7, rows(0), rows(1), bad)
    assert "rows 2 to 2 of partition 7" in str(caught.value)
    assert files(space) == []


def test_an_abort_removes_what_is_surely_not_published(space: ChannelSpace, stocks: Channel) -> None:
    for made in (
        writer(space, rows(0).schema, channel="stocks"),
        stream_writer(space, rows(0).schema, channel="stocks"),
    ):
        messages = [run_task(made, 0, rows(0)), None, run_task(made, 2, rows(2))]
        assert len(files(space)) == 2
        made.abort(messages, *([] if isinstance(made, channel_writer.ChannelWriter) else [0]))
        assert files(space) == []


def test_an_abort_after_a_commit_with_unknown_outcome_removes_nothing(
    space: ChannelSpace, stocks: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stream_writer(space, rows(0).schema, channel="stocks")
    messages: list[TaskEvents | None] = [run_task(made, 0, rows(0))]
    real = Publisher.publish

    def publish_and_fail(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        raise PbioError("PBIO_OUTCOME_UNKNOWN", "the reply was lost")

    monkeypatch.setattr(Publisher, "publish", publish_and_fail)
    with pytest.raises(PbioError, match="lost"):
        made.commit(messages, 0)
    made.abort(messages, 0)
    assert prices(stocks) == [0.0]
    monkeypatch.undo()
    write_stream(space, 0, rows(0), channel="stocks")  # Spark tries the batch again
    assert prices(stocks) == [0.0]
    assert is_sound(space)


def test_a_stream_has_its_own_transactions(space: ChannelSpace, stocks: Channel) -> None:
    with refusal("PBIO_UNKNOWN_OPTION") as caught:
        stream_writer(space, rows(0).schema, channel="stocks", txnAppId="a", txnVersion=1)
    assert "writeStream" in str(caught.value)


def test_the_largest_number_is_what_the_error_says(stocks: Channel) -> None:
    with pytest.raises(PbioError, match=r"give whole numbers from 0 to \d+") as caught:
        write(stocks.space, rows(1, seq=[2**63 - 1]), **FEED)
    largest = int(caught.value.hint.rpartition(" ")[2])
    with pytest.raises(PbioError, match="negative or too large"):
        write(stocks.space, rows(1, seq=[largest + 1]), **FEED)
    write(stocks.space, rows(1, seq=[largest]), **FEED)
    assert stocks.last_sequence("feed") == largest
