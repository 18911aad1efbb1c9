"""Streams of channels: each event in one batch, whatever happens between the batches."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecode.types import INT32, Field, record
from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.log import reader
from pbio_spark.channels.subscribe import follower
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from tests.channels.spaces import COUNT
from tests.source.channels.query import Query
from tests.source.channels.streams.published import EARLIEST, NOW, publish
from tests.source.local import batches, load, plan


def test_a_stream_starts_with_new_events_and_resumes_from_its_checkpoint(space: ChannelSpace) -> None:
    publish(space, 0)
    query = Query(space, channel="counts")
    assert query.batch() is None
    publish(space, 1, 2)
    publish(space, 3)
    assert query.numbers() == [[1, 2, 3]]
    publish(space, 4)
    assert Query(space, query.offset, channel="counts").numbers() == [[4]]
    kept = {"version": 1, "space": space.id, "position": "5.0.0", "channels": [1]}
    assert query.offset == {**kept, "formats": [space.channel("counts").info.format]}
    assert query.numbers() == [[4]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        (EARLIEST, [[0, 1, 2, 3]]),
        ({"startingOffsets": "2.0.1"}, [[1, 2, 3]]),
        ({"startingOffsets": "3"}, [[3]]),
        ({"startingTimestamp": "1999-12-31T23:00:00-01:00"}, [[0, 1, 2, 3]]),
        ({"maxRecordsPerTrigger": 2, **EARLIEST}, [[0, 1], [2, 3]]),
        ({"maxRecordsPerTrigger": 3, **EARLIEST}, [[0, 1, 2], [3]]),
        ({"maxRecordsPerTrigger": 9, **EARLIEST}, [[0, 1, 2, 3]]),
        ({"maxBytesPerTrigger": 1, **EARLIEST}, [[0], [1], [2], [3]]),
        ({"maxBytesPerTrigger": 60, **EARLIEST}, [[0, 1], [2, 3]]),
        ({"maxBytesPerTrigger": 60, "maxRecordsPerTrigger": 1, **EARLIEST}, [[0], [1], [2], [3]]),
    ],
)
def test_where_a_stream_starts_and_how_much_one_batch_reads(
    space: ChannelSpace, options: dict[str, Any], expected: list[list[int]]
) -> None:
    publish(space, 0, 1, 2)
    publish(space, 3)
    assert Query(space, channel="counts", **options).numbers() == expected


def test_a_batch_that_failed_comes_again_the_same(space: ChannelSpace) -> None:
    publish(space, 0, 1, 2)
    query = Query(space, channel="counts", maxRecordsPerTrigger=2, **EARLIEST)
    end = query.end()
    publish(space, 3)
    after = Query(space, query.offset, channel="counts")
    for _ in range(2):
        assert [[row["n"] for row in task] for task in after.tasks(end)] == [[0, 1]]
    space.compact()
    space.vacuum(grace=NOW, linger=NOW)
    assert [[row["n"] for row in task] for task in Query(space, query.offset, channel="counts").tasks(end)] == [[0, 1]]


def test_available_now_ends_with_what_there_was(space: ChannelSpace) -> None:
    publish(space, 0, 1, 2)
    query = Query(space, channel="counts", maxRecordsPerTrigger=2, **EARLIEST)
    query.planner.prepareForTriggerAvailableNow()
    publish(space, 3)
    assert query.numbers() == [[0, 1], [2]]
    assert query.offset["position"] == "3.0.0"
    assert Query(space, query.offset, channel="counts").numbers() == [[3]]


def test_commits_to_other_channels_make_no_batches(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    other = space.create_channel("other", COUNT)
    query = Query(space, channel="counts")
    start = query.offset
    for n in range(5):
        other.submit({"n": n})
        assert query.batch() is None
    assert query.offset == start
    publish(space, 1)
    assert query.batch() == [{"n": 1}]
    monkeypatch.setattr(follower, "PASSED", 2)
    for n in range(5):
        other.submit({"n": n})
    assert query.batch() == []  # so that a restart does not read them all again
    assert query.offset["position"] == "14.0.0"


def test_an_idle_stream_asks_for_one_commit(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LISTING_PAUSE", {True: 3600.0})
    query = Query(space, channel="counts")
    query.batch()
    asked: list[Any] = []
    monkeypatch.setattr("pbio_spark.channels.log.files.Folder.read", lambda _, name, *more: asked.append(name))
    for listing in ("names", "size"):
        monkeypatch.setattr(f"pbio_spark.channels.log.files.Folder.{listing}", lambda *_, **__: pytest.fail("it lists"))
    for _ in range(3):
        assert query.batch() is None
    assert asked == ["_log/00000000000000000002.json"] * 3


def test_two_spaces_mixed_up(space: ChannelSpace, tmp_path: Path) -> None:
    publish(space, 1)
    offset = Query(space, channel="counts").offset
    other = ChannelSpace.create(str(tmp_path / "other"))
    other.create_channel("counts", COUNT)
    for wrong, said in (
        ({**offset, "space": other.id}, "two spaces"),
        ({**offset, "position": "9.0.0"}, "after the end"),
        ({**offset, "from": {"1": "9.0.0"}}, "after the end"),
        ({**offset, "position": "9"}, "not a position"),
        ({**offset, "version": 2}, "version 2"),
        ({"version": 1, "names": [], "watermark": 0, "files": {}}, "not an offset of channels"),
        (2, "not an offset of channels: it has another form"),
        ([], "not an offset of channels: it has another form"),
    ):
        with pytest.raises(PbioError, match=rf"PBIO_BAD_OFFSET.*{said}"):
            Query(space, wrong, channel="counts").batch()
    # The log was replaced by an older copy of itself while a batch was on its way.
    with pytest.raises(PbioError, match="PBIO_BAD_OFFSET"):
        Query(space, offset, channel="counts").tasks({**offset, "position": "9.0.0"})


def test_an_offset_of_an_older_version_resumes_as_before(space: ChannelSpace) -> None:
    publish(space, 0)
    query = Query(space, channel="counts", **EARLIEST)
    old = {name: value for name, value in query.offset.items() if name != "channels"}
    on = Query(space, old, channel="counts")
    assert on.numbers() == [[0]]
    assert on.offset["channels"] == [1]


def test_a_lost_commit_stops_a_stream(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LISTING_PAUSE", {True: 0.0})
    monkeypatch.setattr(reader, "LISTING_SHARE", 0)
    query = Query(space, channel="counts")
    for n in range(4):
        publish(space, n)
    (Path(space.root) / "_log" / f"{3:020}.json").unlink()
    (Path(space.root) / "_log" / f"{4:020}.json").unlink()
    for ask in (query.batches, query.batches, lambda: Query(space, query.offset, channel="counts")):
        with pytest.raises(PbioError, match=r"PBIO_BAD_LOG.*commit 3 is missing, but commit 5 exists"):
            ask()


def test_a_new_format_is_announced_and_read(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    form = record_to_format(record("more", [Field("m", INT32), Field("n", INT32)]), "be32")
    log, fail = (Query(space, channel="counts", onNewFormat=what) for what in ("log", "fail"))
    publish(space, 1)
    assert log.numbers() == fail.numbers() == [[1]]
    assert not caplog.messages
    space.channel("counts").submit({"m": 2, "n": 2}, format=form)
    assert log.numbers() == [[2]]
    assert "a new format appeared" in caplog.text
    end = fail.end()
    with pytest.raises(PbioError, match="PBIO_NEW_FORMAT"):
        fail.tasks(end)
    next_run = Query(space, fail.offset, channel="counts", onNewFormat="fail")
    with pytest.raises(PbioError, match="PBIO_NEW_FORMAT"):
        next_run.batch()
    started_again = Query(space, fail.offset, channel="counts", onNewFormat="fail")  # as Spark does: the batch first
    assert [[row["n"] for row in task] for task in started_again.tasks(end)] == [[2]]
    started_again.offset = end
    publish(space, 3)
    space.channel("counts").submit({"m": 4, "n": 4}, format=form)
    assert started_again.numbers() == [[3, 4]]


def test_a_producer_has_one_task(space: ChannelSpace) -> None:
    for n in range(4):
        publish(space, 2 * n, producer="p")
        publish(space, 2 * n + 1, producer="q" if n % 2 else None)
    options = {"channel": "counts", "maxPartitionBytes": 1, "metadataColumn": "m", **EARLIEST}
    query = Query(space, **options)
    tasks = query.tasks(query.end())
    assert [[row["n"] for row in task] for task in tasks] == [[0, 2, 4, 6], [1], [3, 7], [5]]
    whole = Query(space, channel="counts", **EARLIEST)
    assert len(whole.tasks(whole.end())) == 1


def test_events_removed_before_they_were_read_are_reported(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    kept = space.create_channel("kept", COUNT, keep=NOW)
    publish(space, 0)
    query, other = Query(space, channels="counts,kept", **EARLIEST), Query(space, channel="kept")
    kept.submit({"n": 1})
    space.vacuum(grace=NOW, linger=NOW)
    kept.submit({"n": 2})
    for offset, names, expected in ((query.offset, "counts,kept", [[0, 2]]), (other.offset, "kept", [[2]])):
        with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
            Query(space, offset, channels=names).batch()
        assert Query(space, offset, channels=names, failOnDataLoss=False).numbers() == expected
        assert "of the channel kept before 4.0.1 are no longer kept" in caplog.text


def test_what_was_gone_when_a_stream_began_is_not_missed(space: ChannelSpace) -> None:
    kept = space.create_channel("kept", COUNT, keep=NOW)
    publish(space, 0)
    kept.submit({"n": 1})
    space.vacuum(grace=NOW, linger=NOW)
    kept.submit({"n": 2})
    publish(space, 3)
    first = Query(space, channels="counts,kept", maxRecordsPerTrigger=1, **EARLIEST)
    assert first.offset["from"] == {"2": "5.0.0"}
    assert first.batch() == [{"n": 0}]
    assert Query(space, first.offset, channels="counts,kept").numbers() == [[2, 3]]
    assert [row for rows in first.batches() for row in rows] == [{"n": 2}, {"n": 3}]
    assert "from" not in first.offset


def test_a_task_that_finds_its_file_gone(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    kept = space.create_channel("kept", COUNT, keep=NOW)
    queries = [Query(space, channel="kept", failOnDataLoss=fail) for fail in (True, False)]
    kept.submit({"n": 1})
    ends = [query.end() for query in queries]
    space.vacuum(grace=NOW, linger=NOW)
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        queries[0].tasks(ends[0])
    with caplog.at_level(logging.WARNING):
        assert queries[1].tasks(ends[1]) == [[]]
    assert "are no longer kept" in caplog.text


@given(
    commits=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=3), max_size=8),
    most=st.integers(1, 7),
    every=st.integers(1, 3),
)
@settings(max_examples=20)
def test_batches_of_any_size_are_the_events_of_the_log_in_order(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[tuple[int, int]]], most: int, every: int
) -> None:
    space = ChannelSpace.create(str(tmp_path_factory.mktemp("s") / "space"))
    for name in "abc":
        space.create_channel(name, COUNT)
    number = 0
    for commit in commits:
        submissions = []
        for channel, count in commit:
            submissions.append(Submission("abc"[channel], [{"n": number + i} for i in range(count)], producer="p"))
            number += count
        space.publish(submissions)
    start = Query(space, channels="a,c", maxRecordsPerTrigger=most, metadataColumn="m", **EARLIEST).offset
    found: list[Any] = []
    offset, sizes = start, []
    while True:
        query = Query(space, offset, channels="a,c", maxRecordsPerTrigger=most, metadataColumn="m")
        for _ in range(every):
            rows = query.batch()
            if rows is not None:
                sizes.append(len(rows))
                found += rows
        if query.offset == offset:
            break
        offset = query.offset
    events = [event for name in "ac" for event in space.channel(name).subscribe(start="earliest").events()]
    events.sort(key=lambda event: event.position)
    assert [(row["n"], row["m"]["position"]) for row in found] == [(e.values["n"], str(e.position)) for e in events]
    assert all(size == most for size in sizes[:-1])


def test_spaces_elsewhere_are_read_ahead_and_left_alone_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    space = ChannelSpace.create(f"memory://{uuid.uuid4().hex}")
    space.create_channel("counts", COUNT)
    for n in range(40):
        publish(space, n)
    monkeypatch.setattr(follower, "READ_AHEAD", 7)
    pauses: list[float] = []
    here, sleep = threading.get_ident(), time.sleep

    def pause(seconds: float) -> None:
        """Pauses of this thread only: a Spark session of an earlier test has threads of its own, which sleep too."""
        pauses.append(seconds) if threading.get_ident() == here else sleep(seconds)

    monkeypatch.setattr("time.sleep", pause)
    query = Query(space, channel="counts", maxRecordsPerTrigger=15, **EARLIEST)
    assert [len(batch) for batch in query.numbers()] == [15, 15, 10]
    for _ in range(10):
        assert query.batch() is None
    assert pauses[:5] == [0, 0, 0, 0, 0.01]
    assert pauses[-1] == 0.5
    publish(space, 40)
    assert query.numbers() == [[40]]
    assert pauses[-1] == 0
    space.compact()
    assert [row["n"] for row in load(space.root, channel="counts", startingOffsets="40.0.0")] == [38, 39, 40]


def test_a_space_in_a_bucket(bucket: str) -> None:
    space = ChannelSpace.create(bucket)
    space.create_channel("counts", COUNT)
    for n in range(5):
        publish(space, n, producer="p", sequence=n)
    planned = plan(bucket, channel="counts")
    query = Query(space, channel="counts", subscriber="spark", maxRecordsPerTrigger=3, **EARLIEST)
    assert query.batch() == [{"n": 0}, {"n": 1}, {"n": 2}]
    space.compact()
    space.vacuum(linger=NOW)
    assert [row["n"] for batch in batches(planned) for row in batch.to_pylist()] == list(range(5))
    assert query.numbers() == [[3, 4]]
    assert Query(space, channel="counts", subscriber="spark").numbers() == []
    with pytest.raises(PbioError, match=r"PBIO_CHANNEL_SPACE(.|\n)*counts"):
        load(bucket)
