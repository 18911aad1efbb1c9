"""Published events are there whole and once; events that a channel could not deliver are refused, with the reason."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Field, Notes, Ref, Struct, record
from pbio_spark.channels import Channel, ChannelSpace, Submission
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import ItemKind, Scanner
from tests.channels.spaces import COUNT, NEW, OLD, READING, again, everything, reading, values


def test_rows_and_columns_become_the_same_events(space: ChannelSpace) -> None:
    channel = space.create_channel("readings", READING)
    rows = [reading(n) for n in range(5)]
    batch = pa.RecordBatch.from_pylist(rows, schema=record_to_arrow(READING))
    channel.submit(rows)
    channel.submit(batch)
    channel.submit(pa.Table.from_batches([batch.slice(0, 2), batch.slice(2)]))
    channel.submit(rows[0])
    assert values(channel) == [*rows, *rows, *rows, rows[0]]
    assert values(again(space).channel("readings")) == values(channel)


def test_publishing_nothing_makes_no_commit(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    published = channel.submit([])
    assert (published.version, published.events) == (None, 0)
    assert os.listdir(Path(space.root) / "data") == []


def test_events_have_their_producer_and_their_time(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    happened = datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC)
    before = datetime.now(UTC)
    channel.submit([{"n": 1}, {"n": 2}], producer="eagle", sequence=11, event_time=happened)
    channel.submit({"n": 3})
    first, second, third = everything(channel)
    assert [(e.producer, e.sequence, e.event_time) for e in (first, second)] == [
        ("eagle", 11, happened),
        ("eagle", 12, happened),
    ]
    assert (third.producer, third.sequence, third.event_time) == (None, None, None)
    assert before <= first.published == second.published <= third.published <= datetime.now(UTC)
    assert first.position < second.position < third.position


@pytest.mark.parametrize("shared", [True, False])
def test_what_has_been_published_is_not_published_again(space: ChannelSpace, shared: bool) -> None:
    channel = space.create_channel("counts", COUNT)
    other = channel if shared else again(space).channel("counts")
    rows = [{"n": n} for n in range(10)]
    assert channel.submit(rows[:4], producer="p", sequence=0).events == 4
    known = other.submit(rows[:4], producer="p", sequence=0)
    assert (known.version, known.events, known.known) == (None, 0, 4)
    more = other.submit(rows[2:7], producer="p", sequence=2)
    assert (more.events, more.known) == (3, 2)
    assert channel.submit(rows[1:3], producer="q", sequence=1).events == 2  # another producer's numbers are others
    assert channel.submit(rows[9:], producer="p", sequence=9).events == 1  # producers may leave numbers out
    assert [(e.producer, e.sequence, e.values["n"]) for e in everything(channel)] == [
        *(("p", n, n) for n in range(7)),
        *(("q", n, n) for n in (1, 2)),
        ("p", 9, 9),
    ]


def test_one_commit_holds_a_batch_for_many_channels_grouped_in_one_file(space: ChannelSpace) -> None:
    channels = [space.create_channel(f"counts {i}", COUNT) for i in range(20)]
    batch = [Submission(f"counts {n % 20}", [{"n": n}], producer=f"p{n % 3}", sequence=n) for n in range(60)]
    published = space.publish(batch)
    assert published.events == 60
    assert len(os.listdir(Path(space.root) / "data")) == 1
    for i, channel in enumerate(channels):
        assert values(channel) == [{"n": n} for n in range(i, 60, 20)]
        assert {event.position.version for event in everything(channel)} == {published.version}


def test_a_data_file_is_one_that_any_reader_of_ffs_reads(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    space.create_channel("readings", READING)
    space.publish([Submission("readings", [reading(1)]), Submission("counts", [{"n": 1}, {"n": 2}])])
    (path,) = (Path(space.root) / "data").iterdir()
    scanner = Scanner(path.read_bytes())
    records = [scanner.formats[item.format_id].name for item in scanner.items() if item.kind is ItemKind.DATA]
    assert records == ["count", "count", "reading"]


def test_a_batch_is_published_once_by_its_transaction(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    for batch in (0, 0, 1, 0, 3, 2):
        for one in (space, again(space)):
            one.publish([Submission("counts", [{"n": batch}])], transaction=("query 7", batch))
    space.publish([Submission("counts", [{"n": 100}])], transaction=("another", 0))
    assert [row["n"] for row in values(channel)] == [0, 1, 3, 100]


def test_all_of_a_batch_or_nothing(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    for wrong in (Submission("county", [{"n": 2}]), Submission("counts", [{"n": None}])):
        with pytest.raises(PbioError):
            space.publish([Submission("counts", [{"n": 1}]), wrong])
    assert values(channel) == []
    assert os.listdir(Path(space.root) / "data") == []


def code_of(channel: Channel, *args: Any, **options: Any) -> str:
    with pytest.raises(PbioError) as caught:
        channel.submit(*args, **options)
    return caught.value.code


def test_what_cannot_be_an_event_is_refused(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    assert code_of(channel, {"m": 1}) == "PBIO_UNKNOWN_COLUMN"
    assert code_of(channel, {}) == "PBIO_CANNOT_BE_NULL"
    assert code_of(channel, {"n": "one"}) == "PBIO_BAD_VALUE"
    assert code_of(channel, {"n": 2**40}) == "PBIO_BAD_VALUE"
    assert code_of(channel, pa.table({"n": [2**40]})) == "PBIO_BAD_VALUE"
    assert code_of(channel, {"n": 1}, sequence=1) == "PBIO_BAD_OPTION"
    assert code_of(channel, {"n": 1}, producer="p", sequence=-1) == "PBIO_BAD_OPTION"
    assert code_of(channel, {"n": 1}, producer="") == "PBIO_BAD_OPTION"
    assert code_of(channel, {"n": 1}, event_time=datetime(2020, 1, 1)) == "PBIO_BAD_OPTION"
    assert values(channel) == []


@pytest.mark.parametrize("type_", ["count", None, 3])
def test_an_invalid_type_is_refused(space: ChannelSpace, type_: Any) -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*schema"):
        space.create_channel("counts", type_)
    assert space.channels() == []


def test_what_other_libraries_would_take_is_refused_with_what_is_taken_here(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    frame: Any = pa.table({"n": [1]}).to_pandas()
    pairs: Any = [("counts", [{"n": 1}])]
    day: Any = "2026-01-01"
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE(.|\n)*pyarrow.Table.from_pandas"):
        channel.submit(frame)
    one: Any = Submission("counts", [{"n": 1}])
    for refused in (pairs, pairs[0], one):
        with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*Submission\(channel, events\)"):
            space.publish(refused)
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*datetime.now"):
        channel.submit({"n": 1}, event_time=day)
    assert channel.submit(pa.Table.from_pandas(frame).cast(record_to_arrow(COUNT))).events == 1


WIDER = record("tally", [Field("who", INT32), Field("n", INT32)])


def test_events_may_have_more_than_the_channels_type(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    channel.submit({"who": 3, "n": 7}, format=record_to_format(WIDER, "be32"))
    channel.submit(pa.table({"n": pa.array([8], pa.int32()), "note": ["an extension"]}))
    channel.submit({"n": 9})
    assert values(channel) == [{"n": 7}, {"n": 8}, {"n": 9}]


def test_events_with_less_than_the_channels_type_are_refused_with_what_they_lack(space: ChannelSpace) -> None:
    channel = space.create_channel("tallies", WIDER)
    with pytest.raises(PbioError, match="PBIO_REJECTED") as caught:
        channel.submit({"n": 1}, format=record_to_format(COUNT))
    text = str(caught.value)
    assert text.startswith("[PBIO_REJECTED] the events lack who int32, which the channel 'tallies' has\n")
    assert "0.50" in text
    assert text.count("hint") == 1
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("add the missing fields, or add a transform")
    assert values(channel) == []


AT = Field("at", INT64, Notes(logical="timestamp"))
INNER = [Struct("point", (Field("x", FLOAT64),))]
TEXTS = [Struct("point", (Field("x", STRING),))]


@pytest.mark.parametrize(
    ("wanted", "given", "values_", "said", "hint"),
    [
        ([Field("who", INT32)], Field("who", STRING), "p", "who is string instead of int32", "give the fields"),
        ([AT], Field("at", INT64), 5, "at is int64 instead of int64 (timestamp)", "give the fields"),
        (
            [Field("p", Ref("point"))],
            Field("p", Ref("point")),
            {"x": "a"},
            "p.x is string instead of float64",
            "give the fields",
        ),
        ([Field("p", Ref("point"))], Field("p", INT32), 1, "p is int32 instead of point", "give the fields"),
        (
            [Field("who", INT32), Field("more", INT32)],
            Field("who", STRING),
            "p",
            "lack more int32, which the channel 'tallies' has, and have fields of other types than the channel "
            "'tallies': who is string instead of int32",
            "add the missing fields and give the others",
        ),
    ],
)
def test_events_with_fields_of_other_types_are_refused_with_the_field_and_both_types(
    space: ChannelSpace, wanted: list[Field], given: Field, values_: Any, said: str, hint: str
) -> None:
    channel = space.create_channel("tallies", record("t", [Field("n", INT32), *wanted], INNER if "p" in said else ()))
    form = record_to_format(record("t", [given, Field("n", INT32)], TEXTS if given.type == Ref("point") else ()))
    with pytest.raises(PbioError, match="PBIO_REJECTED") as caught:
        channel.submit({given.name: values_, "n": 1}, format=form)
    assert said in str(caught.value).splitlines()[0]
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)
    assert values(channel) == []


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"n": 1}, {}], "row 1 has no 'n'"),
        ([{"n": None}], "row 0: 'n' is None"),
    ],
)
def test_a_row_without_a_value_is_told_in_the_words_of_rows(
    space: ChannelSpace, rows: list[dict[str, Any]], reason: str
) -> None:
    with pytest.raises(PbioError, match="PBIO_CANNOT_BE_NULL") as caught:
        space.create_channel("counts", COUNT).submit(rows)
    assert caught.value.reason == reason
    assert "nullValue" not in str(caught.value)
    assert "'*float64' in JSON" in str(caught.value)
    nullable = space.create_channel("some", {"count": {"n": "*int32"}})
    nullable.submit(rows)
    assert [event.values["n"] for event in everything(nullable)] == [row.get("n") for row in rows]


def test_a_value_that_is_lacking_in_a_structure_is_told_by_its_path(space: ChannelSpace) -> None:
    inner = Struct("inner", (Field("n", INT32),))
    channel = space.create_channel("outer", record("outer", [Field("of", Ref("inner"))], [inner]))
    with pytest.raises(PbioError, match=r"PBIO_CANNOT_BE_NULL\] row 1") as caught:
        channel.submit([{"of": {"n": 1}}, {"of": {}}])
    assert caught.value.field == "$.of.n"
    assert "nullValue" not in str(caught.value)


def test_what_subscribers_could_not_be_given_is_refused(space: ChannelSpace) -> None:
    """A wider number is decided value by value (DESIGN decision 35); a type that never fits is refused as a whole."""
    channel = space.create_channel("counts", COUNT)
    wide = record_to_format(record("count", [Field("n", INT64)]))
    assert code_of(channel, {"n": 2**31}, format=wide) == "PBIO_VALUE_BEYOND_TYPE"
    text = record_to_format(record("count", [Field("n", STRING)]))
    assert code_of(channel, {"n": "1"}, format=text) == "PBIO_REJECTED"
    assert values(channel) == []
    channel.submit({"n": 2**31 - 1}, format=wide)
    assert values(channel) == [{"n": 2**31 - 1}]


def versions() -> tuple[Format, Format]:
    old = record_to_format(record("load", [Field("average", FLOAT64)]))
    new = record_to_format(record("load", [Field("total", FLOAT64), Field("cpus", INT32)]))
    return old, evolve(old, new, "{ old.average = new.total / (12 / new.cpus); }")


def test_a_new_format_joins_by_its_transform_and_its_traps_are_refused(space: ChannelSpace) -> None:
    old, new = versions()
    channel = space.create_channel("loads", old)
    channel.submit({"average": 1.5})
    channel.submit({"total": 6.0, "cpus": 4}, format=new)
    assert values(channel) == [{"average": 1.5}, {"average": 2.0}]
    assert code_of(channel, {"total": 6.0, "cpus": 0}, format=new) == "PBIO_TRAP"
    assert len(values(channel)) == 2


def test_a_producer_that_starts_again_learns_its_last_number(space: ChannelSpace) -> None:
    counts, others = space.create_channel("counts", COUNT), space.create_channel("others", COUNT)
    mine = again(space).channel("counts")
    assert mine.last_sequence("p") is None
    counts.submit([{"n": 1}, {"n": 2}], producer="p", sequence=10)
    others.submit([{"n": 1}], producer="p", sequence=90)
    assert (mine.last_sequence("p"), mine.last_sequence("q")) == (11, None)
    assert mine.submit({"n": 3}, producer="p", sequence=12).events == 1
    space.drop_channel("counts")
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        mine.last_sequence("p")


def test_a_clock_that_jumps_back_does_not_turn_the_log_around(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = space.create_channel("counts", COUNT)
    channel.submit({"n": 1})
    monkeypatch.setattr("time.time_ns", lambda: 10**9)
    channel.submit({"n": 2})
    first, second = everything(again(space).channel("counts"))
    assert timedelta(0) <= second.published - first.published < timedelta(hours=1)


def test_a_refusal_ends_when_the_format_in_between_is_there(space: ChannelSpace) -> None:
    older = evolve(NEW, record_to_format(record("load", [Field("sum", FLOAT64), Field("n", INT32)])), BACK)
    channel = space.create_channel("loads", OLD)
    event = {"sum": 6.0, "n": 3}
    assert code_of(channel, event, format=older) == "PBIO_REJECTED"
    assert code_of(channel, event, format=older) == "PBIO_REJECTED"
    again(space).formats.put(NEW)
    assert channel.submit(event, format=older).events == 1
    assert values(channel) == [{"average": 2.0}]


BACK = "{ old.total = new.sum; old.cpus = new.n; }"
