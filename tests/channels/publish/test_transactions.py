"""A repeated batch is recognised by its number; another batch with that number is an error, and is not published."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.channels import ChannelSpace, Columns, Submission
from pbio_spark.channels.commits.contents import Contents, contents_of
from pbio_spark.channels.commits.groups import Group, Groups
from pbio_spark.channels.log import history
from pbio_spark.channels.publish.packed import contents_of_all
from pbio_spark.channels.publish.prepare import Preparer
from pbio_spark.columns.encode.encoder import Encoded
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import record_to_arrow
from tests.channels.spaces import COUNT, READING, again, reading, values


@pytest.fixture
def counts(space: ChannelSpace) -> ChannelSpace:
    space.create_channel("counts", COUNT)
    return space


def publish(space: ChannelSpace, number: int, *events: int, **more: Any) -> int:
    submission = Submission("counts", [{"n": n} for n in events], **more)
    return space.publish([submission], transaction=("query", number)).events


def published(space: ChannelSpace) -> list[int]:
    return [row["n"] for row in values(again(space).channel("counts"))]


def test_other_events_under_a_number_that_is_known_are_refused(counts: ChannelSpace) -> None:
    for number in range(4):
        publish(counts, 2 * number, number, number + 100)
    assert publish(again(counts), 5, 7) == 0  # it was passed over
    files = os.listdir(Path(counts.root) / "data")
    for number, events, said in (
        (6, [3, 103, 104], "was published with 2 events, and now has 3; the last one published is 6"),
        (6, [3], "was published with 2 events, and now has 1"),
        (6, [3, 104], "was published with 2 events, and now has different ones"),
        (2, [0, 100], "now has different ones; the last one published is 6"),
        (0, [1], "was published with 2 events, and now has 1"),
    ):
        for one in (counts, again(counts)):
            with pytest.raises(PbioError, match=rf"PBIO_OTHER_BATCH.*batch {number} of 'query' .*{said}") as caught:
                publish(one, number, *events)
            assert "checkpoint" in (caught.value.hint or "")
    assert os.listdir(Path(counts.root) / "data") == files
    for number in range(4):
        assert publish(again(counts), 2 * number, number + 100, number) == 0  # the order is another, the events are not
    assert published(counts) == [0, 100, 1, 101, 2, 102, 3, 103]
    assert publish(counts, 7, 4) == 1


def test_what_events_say_of_themselves_counts(counts: ChannelSpace) -> None:
    counts.create_channel("more", COUNT)
    publish(counts, 0, 1, 1, producer="p", sequence=0)
    for said in ({"producer": "q", "sequence": 0}, {"producer": "p", "sequence": 2}, {"producer": "p"}, {}):
        with pytest.raises(PbioError, match="PBIO_OTHER_BATCH"):
            publish(counts, 0, 1, 1, **said)
    with pytest.raises(PbioError, match="PBIO_OTHER_BATCH"):
        counts.publish([Submission("more", [{"n": 1}, {"n": 1}], producer="p", sequence=0)], transaction=("query", 0))
    assert publish(counts, 0, 1, 1, producer="p", sequence=0) == 0


def test_a_batch_of_which_a_part_was_known_is_the_same_batch(counts: ChannelSpace) -> None:
    counts.channel("counts").submit([{"n": 0}, {"n": 1}], producer="p", sequence=0)
    for expected in (1, 0):
        assert publish(again(counts), 0, 0, 1, 2, producer="p", sequence=0) == expected
    with pytest.raises(PbioError, match="PBIO_OTHER_BATCH"):
        publish(counts, 0, 2, producer="p", sequence=2)


def test_batches_of_old_are_known_by_their_numbers(counts: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 3)
    for number in range(4):
        publish(counts, number, number)
    for path in (Path(counts.root) / "_log").glob("*.json"):
        made = json.loads(path.read_bytes())
        for name in ("version", "number", "prior"):
            del made[name]
        if "data" in made:
            made["data"]["transaction"] = made["data"]["transaction"][:2]
        path.write_text(json.dumps(made, separators=(",", ":")))
    for path in (Path(counts.root) / "_log").glob("*.checkpoint"):
        made = json.loads(path.read_bytes())
        del made["digest"]
        made["transactions"] = {name: number for name, (number, _) in made["transactions"].items()}
        path.write_text(json.dumps(made, separators=(",", ":")))
    old = again(counts)
    for number in range(4):
        assert publish(old, number, 77) == 0  # their source is unknown
    assert publish(old, 4, 4) == 1
    with pytest.raises(PbioError, match="PBIO_OTHER_BATCH"):
        publish(old, 4, 5)
    assert published(counts) == [0, 1, 2, 3, 4]


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.integers(0, 3)), min_size=1), st.randoms())
def test_contents_are_those_of_events_however_they_are_split_and_ordered(
    events: list[tuple[bytes, int]], chance: random.Random
) -> None:
    def of(chosen: list[tuple[bytes, int]]) -> Contents:
        ends = np.cumsum([0, *(len(data) for data, _ in chosen)])
        groups = [
            Group(channel, 0, int(ends[i]), int(ends[i + 1]), i, 1, "0" * 24) for i, (_, channel) in enumerate(chosen)
        ]
        return contents_of(Encoded(pa.py_buffer(b"".join(data for data, _ in chosen)), ends), Groups.of(groups))

    other = events.copy()
    chance.shuffle(other)
    middle = chance.randrange(len(events) + 1)
    whole = of(events)
    assert whole.events == len(events)
    assert of(other) == whole
    assert of(other[:middle]) + of(other[middle:]) == whole if 0 < middle < len(other) else True
    data, channel = chance.choice(events)
    assert of([*events, (data, channel)]) != whole
    assert of([*(one for one in events if one[0] != data), (data + b"\0", channel)]) != whole


def test_groups_of_many_events_count_each_one(space: ChannelSpace) -> None:
    """However a table is cut into submissions, and its producers into groups, the contents are the same."""
    space.create_channel("readings", READING)
    chance = random.Random(3)
    rows = [{**reading(n), "who": chance.choice("ab"), "at": n * n, "number": n} for n in range(60)]
    own = record_to_arrow(READING)
    schema = own.append(pa.field("who", pa.string())).append(pa.field("at", pa.timestamp("us", "UTC")))
    schema = schema.append(pa.field("number", pa.int64()))

    def of(chosen: list[dict[str, Any]]) -> Contents:
        table = pa.Table.from_pylist(chosen, schema)
        columns = Columns(producer="who", sequence="number", event_time="at")
        submission = Submission("readings", table, columns=columns)
        return contents_of_all(Preparer(space.formats).prepare(submission, space.find))

    space.history.catch_up()
    whole = of(rows)
    assert of(rows[:17]) + of(rows[17:]) == whole
    parts = [of([row]) for row in rows]
    assert sum(parts, Contents()) == whole
    for name, value in (("who", "c"), ("at", 7), ("number", 100), ("name", "other")):
        assert of([*rows[:-1], {**rows[-1], name: value}]) != whole
