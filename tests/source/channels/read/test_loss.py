"""Events that are lost, and channels that are dropped, mean the same to a subscription and to Spark's readers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

from pbio_spark.channels import ChannelSpace, Columns
from pbio_spark.channels.log import history
from pbio_spark.channels.log.layout import DATA
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT
from tests.source.channels.query import Query
from tests.source.local import batches, plan

NOW = timedelta(0)

Read: TypeAlias = "Callable[[list[int]], object]"
"""Appends what a reader has not had so far to a list, until nothing is left."""
Open: TypeAlias = "Callable[[ChannelSpace, str, bool], Read]"
"""Opens a reader of the channel `counts` at a place; it says whether loss is an error."""


def subscription(space: ChannelSpace, start: str, fail: bool) -> Read:
    opened = space.channel("counts").subscribe(start=start, fail_on_loss=fail)
    return lambda seen: seen.extend(event.values["n"] for event in opened.events())


def batch(space: ChannelSpace, start: str, fail: bool) -> Read:
    planned = plan(space.root, channel="counts", startingOffsets=start, failOnDataLoss=fail)
    return lambda seen: seen.extend(row["n"] for part in batches(planned) for row in part.to_pylist())


def stream(space: ChannelSpace, start: str, fail: bool) -> Read:
    query = Query(space, channel="counts", startingOffsets=start, failOnDataLoss=fail)

    def read(seen: list[int]) -> None:
        while (rows := query.batch()) is not None:
            seen.extend(row["n"] for row in rows)

    return read


def numbers(read: Read) -> list[int]:
    seen: list[int] = []
    read(seen)
    return seen


readers = pytest.mark.parametrize("reader", [subscription, batch, stream])


@pytest.fixture
def space(space: ChannelSpace) -> ChannelSpace:
    """Commits 2 to 4 have an event of `counts` each."""
    space.create_channel("counts", COUNT, keep=NOW)
    for n in range(3):
        space.channel("counts").submit({"n": n})
    return space


@readers
@pytest.mark.parametrize("linger", [NOW, timedelta(days=1)])
def test_removed_events_are_gone_even_while_their_files_linger(
    space: ChannelSpace, reader: Open, linger: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    assert space.vacuum(linger=linger).channels == ("counts",)
    assert len(list(Path(space.root, DATA).iterdir())) == (0 if linger == NOW else 3)
    space.channel("counts").submit({"n": 7})
    with pytest.raises(PbioError, match=r"PBIO_EVENTS_GONE.*'counts' before .* are no longer kept"):
        numbers(reader(space, "3.0.0", True))
    with caplog.at_level(logging.WARNING):
        assert numbers(reader(space, "3.0.0", False)) == [7]
    assert "events of the channel counts before" in caplog.text
    assert numbers(reader(space, "earliest", True)) == [7]


@readers
def test_files_that_are_removed_while_a_reader_is_open_are_gone(
    space: ChannelSpace, reader: Open, caplog: pytest.LogCaptureFixture
) -> None:
    failing, tolerant = (reader(space, "earliest", fail) for fail in (True, False))
    space.vacuum(linger=NOW)
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        numbers(failing)
    with caplog.at_level(logging.WARNING):
        assert numbers(tolerant) == []
    assert "PBIO_EVENTS_GONE" in caplog.text


@readers
@pytest.mark.parametrize("fail", [True, False])
def test_the_events_of_a_dropped_channel_are_read_before_its_end_is_an_error(
    space: ChannelSpace, reader: Open, fail: bool
) -> None:
    seen: list[int] = []
    read = reader(space, "earliest", fail)
    space.drop_channel("counts")
    if reader is batch:
        read(seen)
    else:
        with pytest.raises(PbioError, match=r"PBIO_UNKNOWN_CHANNEL.*'counts' has been dropped"):
            read(seen)
    assert seen == [0, 1, 2]


@readers
def test_a_dropped_channel_whose_files_are_removed_is_an_error_unless_loss_is_tolerated(
    space: ChannelSpace, reader: Open, caplog: pytest.LogCaptureFixture
) -> None:
    failing, tolerant = (reader(space, "3.0.0", fail) for fail in (True, False))
    space.drop_channel("counts")
    space.vacuum(linger=NOW)
    with pytest.raises(PbioError, match=r"PBIO_UNKNOWN_CHANNEL.*'counts' has been dropped"):
        numbers(failing)
    caplog.clear()
    with caplog.at_level(logging.WARNING), nullcontext() if reader is batch else pytest.raises(PbioError) as end:
        assert numbers(tolerant) == []
    assert caplog.text.count("'counts' has been dropped") == 2
    assert end is None or end.value.code == "PBIO_UNKNOWN_CHANNEL"


@readers
@pytest.mark.parametrize("fail", [True, False])
def test_a_file_that_should_be_there_is_an_error_whatever_is_tolerated(
    space: ChannelSpace, reader: Open, fail: bool
) -> None:
    for file in Path(space.root, DATA).iterdir():
        file.unlink()
    with pytest.raises(PbioError, match=r"PBIO_BAD_LOG.*a data file that the log names is missing"):
        numbers(reader(space, "earliest", fail))


@readers
@pytest.mark.parametrize("start", ["99.0.0", "5.0.1"])
def test_a_position_after_the_end_is_refused(space: ChannelSpace, reader: Open, start: str) -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_OFFSET.*is after the end of the space, 5\.0\.0"):
        reader(space, start, True)


@readers
def test_sequence_numbers_removed_with_their_events_are_not_damage(
    space: ChannelSpace, reader: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie in a file of their own, which `vacuum` removes with the events."""
    monkeypatch.setattr(history, "MOST_NUMBERS", 2)
    rows = pa.table({"n": pa.array(range(4), pa.int32()), "number": [1, 2, 4, 8]})
    space.channel("counts").submit(rows, producer="p", columns=Columns(sequence="number"))
    assert numbers(reader(space, "5.0.0", True)) == [0, 1, 2, 3]
    failing, tolerant = (reader(space, "5.0.0", fail) for fail in (True, False))
    space.vacuum(linger=NOW)
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        numbers(failing)
    with caplog.at_level(logging.WARNING):
        assert numbers(tolerant) == []
    assert "are no longer kept" in caplog.text
