"""Writes that are refused before a task starts, and by the task."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ecode.types import INT64, Field, record
from pbio_spark.channels import Channel, ChannelSpace
from tests.source.by_hand import run_task, stream_writer, writer
from tests.source.channels.write.test_write import files, refusal, rows


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("PBIO_UNKNOWN_CHANNEL", {"channel": "stoks"}),
        ("PBIO_UNKNOWN_COLUMN", {"channel": "stocks", "producerColumn": "nam"}),
        ("PBIO_UNKNOWN_COLUMN", {"channelColumn": "nam"}),
        ("PBIO_UNKNOWN_COLUMN", {"channelColumn": "name", "eventTimeColumn": "at"}),
        ("PBIO_INCOMPATIBLE_TYPE", {"channel": "stocks", "producer": "p", "sequenceColumn": "price"}),
        ("PBIO_INCOMPATIBLE_TYPE", {"channelColumn": "name", "producer": "p", "sequenceColumn": "price"}),
        ("PBIO_INCOMPATIBLE_TYPE", {"channel": "stocks", "eventTimeColumn": "price"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "sequenceColumn": "price"}),
        ("PBIO_BAD_OPTION", {"channelColumn": "name", "sequenceColumn": "price"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "producer": "a\nb"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "txnAppId": "nightly"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "txnVersion": "1"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "txnAppId": "nightly", "txnVersion": "-1"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "partitionColumns": "name"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "formatName": "stock"}),
        ("PBIO_BAD_OPTION", {"channel": "stocks", "delivery": "maybe"}),
        ("PBIO_BAD_OPTION", {"producer": "p"}),
        ("PBIO_CHANNEL_SPACE", {}),
        ("PBIO_UNKNOWN_OPTION", {"channel": "stocks", "channels": "stocks"}),
    ],
)
def test_refused_on_the_driver(space: ChannelSpace, stocks: Channel, code: str, told: dict[str, str]) -> None:
    with refusal(code):
        writer(space, rows(0).schema, **told)


def test_columns_that_lack_fields_are_refused_on_the_driver(space: ChannelSpace, stocks: Channel) -> None:
    with refusal("PBIO_REJECTED"):
        writer(space, pa.schema([("name", pa.string())]), channel="stocks")
    with refusal("PBIO_INCOMPATIBLE_TYPE"):
        writer(space, pa.schema([("name", pa.string()), ("price", pa.string())]), channel="stocks")


def test_a_channel_is_not_overwritten(space: ChannelSpace, stocks: Channel) -> None:
    with refusal("PBIO_BAD_OPTION") as caught:
        writer(space, rows(0).schema, overwrite=True, channel="stocks")
    assert 'mode("append")' in str(caught.value)
    with refusal("PBIO_BAD_OPTION") as caught:
        stream_writer(space, rows(0).schema, overwrite=True, channel="stocks")
    assert 'outputMode("append"), with withWatermark' in str(caught.value)


def test_a_row_for_no_channel_or_one_that_it_does_not_suit_is_refused_by_the_task(
    space: ChannelSpace, stocks: Channel
) -> None:
    space.create_channel("other", record("other", [Field("n", INT64)]))
    for to, code in (("stoks", "PBIO_UNKNOWN_CHANNEL"), ("other", "PBIO_REJECTED")):
        batch = rows(0, 1, to=["stocks", to])
        made = writer(space, batch.schema, channelColumn="to")
        with refusal(code) as caught:
            run_task(made, 3, batch)
        assert "partition 3" in str(caught.value)
        assert to in str(caught.value)
        assert ("create it first" in str(caught.value)) == (to == "stoks")
    assert files(space) == []


def test_a_plain_folder_has_no_channels(tmp_path: Path, space: ChannelSpace) -> None:
    folder = tmp_path / "plain"
    with refusal("PBIO_NO_SPACE"):
        writer(folder, rows(0).schema, channel="stocks")
    with refusal("PBIO_USE_A_CHANNEL") as caught:
        stream_writer(folder, rows(0).schema)
    assert "channel" in str(caught.value)
    with refusal("PBIO_CHANNEL_SPACE"):
        stream_writer(space, rows(0).schema)
    assert not folder.exists()
