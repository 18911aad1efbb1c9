"""Batches and streams read commits that were folded as they read all others."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.log import folds, reader
from pbio_spark.channels.upkeep import folding
from tests.channels.spaces import COUNT
from tests.source.channels.query import Query
from tests.source.local import load

NOW = timedelta(0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "SIZES", (10, 20))
    monkeypatch.setattr(folding, "KEPT", 2)
    # A stream that slept finds what was folded when it next lists the log; here it lists it each time.
    monkeypatch.setattr(reader, "LISTING_PAUSE", {True: 0.0, False: 0.0})


def fill(space: ChannelSpace, first: int, last: int) -> None:
    """Commits with events of some channels each; now and then a channel comes to be."""
    chance = random.Random(first)
    for n in range(first, last):
        if n % 12 == 0:
            space.create_channel(f"channel {n}", COUNT)
        names = [info.name for info in space.channels()]
        chosen = chance.sample(names, chance.randrange(1, min(len(names), 3) + 1))
        space.publish([Submission(name, [{"n": n}, {"n": -n}], producer=name, sequence=2 * n) for name in chosen])


WAYS: list[dict[str, Any]] = [
    {"channel": "channel 0"},
    {"channels": "channel 12,channel 0"},
    {"channelPattern": "channel .*"},
    {"channelPattern": "channel .*", "startingOffsets": "9.0.1", "endingOffsets": "31.0.1"},
]


def test_batches_are_the_same_before_and_after(space: ChannelSpace) -> None:
    fill(space, 0, 50)
    before = [load(space.root, metadataColumn="event", **way) for way in WAYS]
    assert all(before)
    for removes in (False, True):
        space.compact() if not removes else space.vacuum(linger=NOW)
        for way, rows in zip(WAYS, before, strict=True):
            after = load(space.root, metadataColumn="event", **way)
            assert [(row["n"], row["event"]["position"], row["event"]["channel"]) for row in after] == [
                (row["n"], row["event"]["position"], row["event"]["channel"]) for row in rows
            ]


@pytest.mark.parametrize("most", [1, 7])
def test_a_stream_that_slept_resumes_through_folded_commits(space: ChannelSpace, most: int) -> None:
    fill(space, 0, 10)
    options = {"channelPattern": "channel .*", "startingOffsets": "earliest", "metadataColumn": "event"}
    query = Query(space, maxRecordsPerTrigger=most, **options)
    found: list[Any] = []
    for _ in range(3):
        found += query.batch() or []
    fill(space, 10, 60)
    space.vacuum(linger=NOW)
    again = Query(space, query.offset, maxRecordsPerTrigger=most, **options)
    found_by_sleeper = [*found, *rest(query)]  # the same program, which has the space open
    found += rest(again)
    assert found_by_sleeper == found
    fill(space, 60, 62)
    found += rest(again)
    positions = [row["event"]["position"] for row in found]
    assert len(set(positions)) == len(positions)
    assert sorted(positions) == sorted(row["event"]["position"] for row in load(space.root, **options))


def rest(query: Query) -> list[Any]:
    found: list[Any] = []
    while (rows := query.batch()) is not None:
        found += rows
    return found
