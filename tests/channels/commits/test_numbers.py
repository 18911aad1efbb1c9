"""Large per-event data is stored beside the log, and read only by readers of these events."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.channels import ChannelSpace, Columns, Submission
from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.commits.groups import Groups, bound, set_aside
from pbio_spark.channels.log import history
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.faults.test_failures import failing
from tests.channels.spaces import COUNT, again, everything
from tests.source.channels.query import Query
from tests.source.local import load

NOW = timedelta(0)
COLUMNS = Columns(producer="p", sequence="s", event_time="t")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_NUMBERS", 4)


def table(first: int, count: int = 6) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int32()),
            "p": np.where(numbers % 3 == 0, "a", "b"),
            "s": numbers * numbers,
            "t": pa.array(numbers[::-1] * 1_000_003, pa.timestamp("us", "UTC")),
        }
    )


def publish(space: ChannelSpace, first: int) -> int:
    return space.publish([Submission("counts", table(first), columns=COLUMNS)]).events


def said(space: ChannelSpace) -> list[tuple[Any, ...]]:
    """By number: a commit has the events of one producer after the other's."""
    events = everything(space.channel("counts"))
    return sorted((event.values["n"], event.producer, event.sequence, event.event_time) for event in events)


def expected(*firsts: int) -> list[tuple[Any, ...]]:
    return [(row["n"], row["p"], row["s"], row["t"]) for first in firsts for row in table(first).to_pylist()]


def beside(space: ChannelSpace) -> list[Path]:
    return sorted((Path(space.root) / "_log").glob("*.numbers"))


@pytest.fixture
def full(space: ChannelSpace) -> ChannelSpace:
    space.create_channel("counts", COUNT)
    for first in (0, 6):
        assert publish(space, first) == 6
    return space


def test_numbers_that_lie_beside_the_log_are_those_that_were_published(full: ChannelSpace) -> None:
    assert len(beside(full)) == 2
    assert said(again(full)) == said(full) == expected(0, 6)
    assert publish(again(full), 6) == 0  # the last number of each is in the commit
    assert again(full).channel("counts").last_sequence("b") == 11 * 11
    assert list(problems(again(full))) == []
    rows = load(full.root, channel="counts", metadataColumn="event")
    facts = ("producer", "sequence", "event_time")
    assert sorted((row["n"], *(row["event"][name] for name in facts)) for row in rows) == expected(0, 6)
    query = Query(full, channel="counts", startingOffsets="earliest", metadataColumn="event", maxRecordsPerTrigger=4)
    found = [row for rows in query.batches() for row in rows]
    assert sorted((row["n"], row["event"]["sequence"]) for row in found) == [(n, n * n) for n in range(12)]
    full.compact()
    assert said(again(full)) == expected(0, 6)


def test_a_reader_that_skips_events_does_not_read_their_numbers(
    full: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pbio_spark.channels.log.files.Folder.read_part", lambda *_: pytest.fail("it reads them"))
    other = again(full)
    other.create_channel("others", COUNT).submit({"n": 1})
    assert [event.values["n"] for event in everything(again(full).channel("others"))] == [1]
    assert len(full.channel("counts").subscribe(start="earliest").channel.name) == 6


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "another"])
def test_damaged_numbers_are_told_and_other_events_are_read(full: ChannelSpace, damage: str) -> None:
    path, other = beside(full)
    data = path.read_bytes()
    match damage:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(data[:-8])
        case "changed":
            path.write_bytes(bytes(8) * (len(data) // 8))
        case _:
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        said(again(full))
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        load(full.root, channel="counts", metadataColumn="event")
    assert list(problems(again(full)))


def test_numbers_go_with_their_events(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT, keep=NOW)
    publish(space, 0)
    behind = again(space).channel("counts").subscribe(start="earliest")
    (Path(space.root) / "_log" / f"{'0' * 32}.numbers").write_bytes(b"of a dead writer")
    assert space.vacuum(grace=NOW, linger=NOW).files == 3
    assert beside(space) == []
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        list(behind.events())
    publish(space, 6)
    assert said(again(space)) == expected(6)
    assert list(problems(again(space))) == []


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_with_numbers_that_fails_anywhere_can_be_repeated(
    tmp_path_factory: pytest.TempPathFactory, after: bool
) -> None:
    def fresh() -> ChannelSpace:
        space = ChannelSpace.create(str(tmp_path_factory.mktemp("root") / "space"))
        space.create_channel("counts", COUNT)
        return space

    with failing(-1, after=False) as calls:
        publish(fresh(), 0)
    for number in range(len(calls)):
        space = fresh()
        with failing(number, after=after), suppress(PbioError):
            publish(space, 0)
        assert said(again(space)) in ([], expected(0))
        for one in (space, again(space)):
            publish(one, 0)
            assert said(one) == expected(0)
        again(space).vacuum(grace=NOW, linger=NOW)
        assert len(beside(space)) == len(os.listdir(Path(space.root) / "data")) == 1
        assert said(again(space)) == expected(0)


def test_groups_that_are_sent_to_tasks_take_their_numbers_along(full: ChannelSpace) -> None:
    entry = full.history.entry(2)
    assert entry is not None
    assert isinstance(entry.change, Data)
    for group in full.history.groups(entry.change):
        sent = pickle.loads(pickle.dumps(group.resolved()))
        assert isinstance(sent.sequences, np.ndarray)
        assert sent.sequences.tolist() == [n * n for n in range(6) if (n % 3 == 0) == (group.producer == "a")]


def test_what_was_set_aside_and_bound_is_what_it_was(full: ChannelSpace) -> None:
    entry = full.history.entry(2)
    assert entry is not None
    assert isinstance(entry.change, Data)
    whole = Groups.of(full.history.groups(entry.change))
    aside, values = set_aside(whole)
    together = np.concatenate(values)
    again_whole = bound(aside, lambda first, count: together[first : first + count])
    assert Groups.of(again_whole) == whole
    assert list(again_whole.numbered()) == list(whole.numbered())
