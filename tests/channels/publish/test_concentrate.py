"""Rows for many channels from many producers at once: each event reaches its channel, in its producer's order."""

from __future__ import annotations

import json
import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecode.types import INT32, Field, record
from pbio_spark.channels import ChannelSpace, Columns, Submission
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.log import history
from pbio_spark.channels.publish.packed import pack
from pbio_spark.channels.publish.prepare import Preparer
from pbio_spark.channels.publish.publisher import Publisher
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, again, everything

ALL = Columns("channel", "producer", "sequence", "at")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table(rows: list[tuple[str | None, str | None, int, int, int]]) -> pa.Table:
    """Channel, producer, sequence number, event time in seconds, and the event."""
    channels, producers, sequences, times, values = zip(*rows, strict=True) if rows else ((),) * 5
    return pa.table(
        {
            "channel": pa.array(channels, pa.string()),
            "producer": pa.array(producers, pa.string()),
            "sequence": pa.array(sequences, pa.int64()),
            "at": pa.array([EPOCH + timedelta(seconds=t) for t in times], pa.timestamp("us", "UTC")),
            "n": pa.array(values, pa.int32()),
        }
    )


def said(space: ChannelSpace, name: str) -> list[tuple[str | None, int | None, datetime | None, int]]:
    return [(e.producer, e.sequence, e.event_time, e.values["n"]) for e in everything(space.channel(name))]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from([None, "p", "q"]),
            st.integers(0, 99),
            st.integers(0, 3),
            st.integers(0, 9),
        ),
        max_size=40,
    ),
    st.integers(0, 40),
)
@settings(max_examples=40)
def test_events_come_once_in_order_with_all_that_was_said_of_them(
    rows: list[tuple[str, str | None, int, int, int]], cut: int
) -> None:
    space = ChannelSpace.create(f"memory://{uuid.uuid4().hex}")
    try:
        for name in "abc":
            space.create_channel(name, COUNT)
        named = [row for row in rows if row[1] is not None]
        first: dict[tuple[str, str | None, int], tuple[str, str | None, int, int, int]] = {}
        for row in named[:cut]:
            first.setdefault(row[:3], row)
        space.publish([Submission(None, table(named[:cut]), columns=ALL)])
        # What comes later is new if its number is above all that its producer had on the channel.
        highest = {key[:2]: max(k[2] for k in first if k[:2] == key[:2]) for key in first}
        later: dict[tuple[str, str | None, int], tuple[str, str | None, int, int, int]] = {}
        for row in named[cut:]:
            if row[2] > highest.get(row[:2], -1):
                later.setdefault(row[:3], row)
        published = again(space).publish([Submission(None, table(named[cut:]), columns=ALL)])
        assert published.events == len(later)
        for name in "abc":
            for producer in "pq":
                expected = [
                    (producer, row[2], EPOCH + timedelta(seconds=row[3]), row[4])
                    for part in (first, later)
                    for key, row in sorted(part.items(), key=lambda pair: pair[0][2])
                    if key[:2] == (name, producer)
                ]
                assert [event for event in said(again(space), name) if event[0] == producer] == expected
        assert list(problems(again(space))) == []
    finally:
        fsspec.filesystem("memory").rm(space.root, recursive=True)


def test_rows_without_numbers_stay_in_their_order(space: ChannelSpace) -> None:
    for name in "ab":
        space.create_channel(name, COUNT)
    rows = [("ab"[n % 2], [None, "p", "q"][n % 3], 0, 0, n) for n in range(600)]
    columns = Columns(channel="channel", producer="producer")
    events = table(rows).drop_columns(["sequence", "at"])
    assert space.publish([Submission(None, events, columns=columns)]).events == 600
    for name in "ab":
        for producer in (None, "p", "q"):
            own = [n for p, _, _, n in said(space, name) if p == producer]
            assert own == [row[4] for row in rows if row[:2] == (name, producer)]


def test_a_producer_or_a_channel_may_be_said_for_the_rows_that_say_none(space: ChannelSpace) -> None:
    for name in "ab":
        space.create_channel(name, COUNT)
    events = table([("a", None, 0, 0, 1), (None, "p", 0, 0, 2), (None, None, 1, 0, 3)])
    space.publish([Submission("b", events, producer="q", columns=ALL)])
    assert said(space, "a") == [("q", 0, EPOCH, 1)]
    assert sorted(said(space, "b")) == [("p", 0, EPOCH, 2), ("q", 1, EPOCH, 3)]


def test_a_column_that_the_channels_type_has_is_a_field_as_well(space: ChannelSpace) -> None:
    space.create_channel("a", record("numbered", [Field("n", INT32), Field("sequence", INT32)]))
    events = pa.table({"n": pa.array([5], pa.int32()), "sequence": pa.array([7], pa.int32())})
    space.publish([Submission("a", events, producer="p", columns=Columns(sequence="sequence"))])
    (event,) = everything(space.channel("a"))
    assert (event.sequence, event.values) == (7, {"n": 5, "sequence": 7})


def test_channels_of_several_types_are_filled_at_once(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    space.create_channel("tallies", record("tally", [Field("n", INT32), Field("who", INT32)]))
    events = pa.table(
        {
            "channel": ["counts", "tallies"] * 3,
            "n": pa.array(range(6), pa.int32()),
            "who": pa.array(range(6), pa.int32()),
        }
    )
    space.publish([Submission(None, events, columns=Columns(channel="channel"))])
    assert [e.values for e in everything(space.channel("counts"))] == [{"n": n} for n in (0, 2, 4)]
    assert [e.values for e in everything(space.channel("tallies"))] == [{"n": n, "who": n} for n in (1, 3, 5)]


def test_derived_channels_get_their_events_out_of_the_midst_of_others(space: ChannelSpace) -> None:
    for name in "abc":
        space.create_channel(name, COUNT)
    space.derive_channel("odd b", "b", filter="{ return input.n % 2; }")
    rows = [("abc"[n % 3], "pq"[n % 5 == 0], n, n % 7, n) for n in range(300)]
    space.publish([Submission(None, table(rows), columns=ALL)])
    for producer in "pq":
        expected = [
            (producer, EPOCH + timedelta(seconds=row[3]), row[4])
            for row in rows
            if row[0] == "b" and row[1] == producer and row[4] % 2
        ]
        own = [(p, at, n) for p, _, at, n in said(space, "odd b") if p == producer]
        assert own == expected


def code_of(space: ChannelSpace, events: Any, **options: Any) -> str:
    with pytest.raises(PbioError) as caught:
        space.publish(
            [Submission(options.pop("channel", None), events, columns=Columns(**options.pop("columns")), **options)]
        )
    return caught.value.code


def test_what_columns_cannot_say_is_refused(space: ChannelSpace) -> None:
    space.create_channel("a", COUNT)
    good = table([("a", "p", 0, 0, 1)])
    by_channel = {"channel": "channel"}
    assert code_of(space, good, columns={"channel": "chanel"}) == "PBIO_UNKNOWN_COLUMN"
    assert code_of(space, [{"n": 1}], columns=by_channel) == "PBIO_BAD_OPTION"
    assert code_of(space, table([("b", "p", 0, 0, 1)]), columns=by_channel) == "PBIO_UNKNOWN_CHANNEL"
    assert code_of(space, table([(None, "p", 0, 0, 1)]), columns=by_channel) == "PBIO_CANNOT_BE_NULL"
    assert (
        code_of(space, table([("a", "", 0, 0, 1)]), columns=by_channel | {"producer": "producer"}) == "PBIO_BAD_OPTION"
    )
    assert code_of(space, good, columns=by_channel | {"sequence": "sequence"}) == "PBIO_BAD_OPTION"
    assert code_of(space, good, columns=by_channel | {"sequence": "sequence"}, sequence=1) == "PBIO_BAD_OPTION"
    numbered = by_channel | {"producer": "producer", "sequence": "sequence"}
    assert code_of(space, table([("a", "p", -1, 0, 1)]), columns=numbered) == "PBIO_BAD_VALUE"
    assert code_of(space, good, columns=numbered | {"sequence": "producer"}) == "PBIO_INCOMPATIBLE_TYPE"
    assert code_of(space, good, columns=by_channel | {"event_time": "n"}) == "PBIO_INCOMPATIBLE_TYPE"
    naive = pa.table({"n": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us"))})
    assert code_of(space, naive, channel="a", columns={"event_time": "at"}) == "PBIO_INCOMPATIBLE_TYPE"
    nulls = pa.table({"n": pa.array([1, 2], pa.int32()), "at": pa.array([0, None], pa.timestamp("us", "UTC"))})
    far = pa.table({"n": [1], "at": pa.array([2**62], pa.timestamp("us", "UTC"))})
    assert code_of(space, far, channel="a", columns={"event_time": "at"}) == "PBIO_BAD_VALUE"
    assert code_of(space, nulls, channel="a", columns={"event_time": "at"}) == "PBIO_CANNOT_BE_NULL"
    assert everything(space.channel("a")) == []


def test_groups_that_are_many_have_a_directory_beside_the_log(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LONGEST_GROUPS", 500)
    for n in range(30):
        space.create_channel(f"c{n}", COUNT)
    space.derive_channel("high", "c7", filter="{ return input.n > 50; }")
    rows = [(f"c{n % 30}", "p", 2 * n, n, n) for n in range(90)]
    space.publish([Submission(None, table(rows), columns=ALL)])
    log = Path(space.root) / "_log"
    (directory,) = log.glob("*.groups")
    entry = json.loads((log / f"{32:020}.json").read_text())
    assert entry["data"]["directory"] == [f"_log/{directory.name}", directory.stat().st_size]
    other = again(space)
    for n in range(30):
        expected = [("p", 2 * m, EPOCH + timedelta(seconds=m), m) for m in (n, n + 30, n + 60)]
        assert said(other, f"c{n}") == expected
    assert [n for _, _, _, n in said(other, "high")] == [67]
    assert other.publish([Submission(None, table(rows), columns=ALL)]).events == 0
    assert list(problems(other)) == []
    (log / f"{'0' * 32}.groups").write_bytes(b"of a writer that died")
    removed = other.vacuum(grace=timedelta(0), linger=timedelta(0))
    assert (removed.files, directory.exists()) == (1, True)
    for damage in (directory.read_bytes()[:-1], b"x" * directory.stat().st_size):
        directory.write_bytes(damage)
        with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
            again(space).channel("c1")
        assert [error.code for error in problems(again(space))][:1] == ["PBIO_BAD_LOG"]


def numbered(numbers: list[int]) -> pa.Table:
    return table([("a", "p", n, 0, n) for n in numbers])


def test_files_that_tasks_wrote_are_committed_as_they_are_or_written_again(space: ChannelSpace) -> None:
    space.create_channel("a", COUNT)
    state, deriver = space.history.catch_up(), Deriver(space.formats)

    def packed(numbers: list[int]) -> Any:
        prepared = Preparer(space.formats).prepare(Submission(None, numbered(numbers), columns=ALL), space.find)
        return pack(space.folder, deriver, prepared, state)

    def commit(*files: Any, transaction: tuple[str, int] | None = None) -> Any:
        return Publisher(space.folder, space.history, space.formats, deriver).publish(files, transaction)

    files = [packed([0, 1, 2]), packed([3, 5])]
    assert commit(*files, transaction=("query", 0)).events == 5
    assert sorted(os.listdir(Path(space.root) / "data")) == sorted(os.path.basename(one.file.path) for one in files)
    assert commit(packed([7]), transaction=("query", 0)).events == 0  # the same batch again
    late = [packed([4, 5, 6, 8]), packed([9])]
    space.derive_channel("even", "a", filter="{ return input.n % 2 == 0; }")
    done = commit(*late)
    assert (done.events, done.known) == (3, 2)
    assert [n for _, _, _, n in said(again(space), "a")] == [0, 1, 2, 3, 5, 6, 8, 9]
    assert [n for _, _, _, n in said(again(space), "even")] == [6, 8]
    assert list(problems(again(space))) == []
    named = {file.path for v in range(2, 5) for file in getattr(space.history.entry(v).change, "files", ())}  # type: ignore[union-attr]
    assert {f"data/{name}" for name in os.listdir(Path(space.root) / "data")} == named
    with pytest.raises(PbioError, match="PBIO_OUT_OF_ORDER"):
        commit(packed([20, 22]), packed([21]))
    assert commit(packed([20, 22]), packed([20, 22, 23])).events == 3
    space.drop_channel("even")
    lost = packed([30])
    space.drop_channel("a")
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        commit(lost)
