"""Batches of channels: they hold the events that Python subscribers get, wherever these are now."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from ecode.types import INT32, Field, record
from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.publish.submission import Columns
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from tests.channels.spaces import COUNT, NEW, OLD, READING, everything, reading
from tests.source.channels.query import Query, columns
from tests.source.local import load, plan

NOW = timedelta(0)


def filled(space: ChannelSpace) -> ChannelSpace:
    """Two channels; commits 3, 5, 7 have 3 events of the first, 4, 6, 8 one of the other."""
    space.create_channel("counts", COUNT)
    space.create_channel("readings", READING)
    for n in range(3):
        events = [{"n": 10 * n + i} for i in range(3)]
        space.channel("counts").submit(
            events, producer=f"p{n % 2}", sequence=10 * n, event_time=datetime(2026, 1, n + 1, tzinfo=UTC)
        )
        space.channel("readings").submit([reading(n)])
    return space


@pytest.fixture
def space(space: ChannelSpace) -> ChannelSpace:
    return filled(space)


def numbers(space: ChannelSpace, **options: Any) -> list[int]:
    return [row["n"] for row in load(space.root, **{"channel": "counts", **options})]


def refusal(space: ChannelSpace, **options: Any) -> str:
    with pytest.raises(PbioError) as caught:
        load(space.root, **options)
    return f"{caught.value}"


ALL = [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_a_channel_has_the_columns_of_its_type_and_all_its_events_in_order(space: ChannelSpace) -> None:
    assert numbers(space) == ALL
    assert load(space.root, channel="readings") == [reading(n) for n in range(3)]


def test_several_channels_are_one_union_in_the_order_of_the_log(space: ChannelSpace) -> None:
    rows = load(space.root, channels="counts, readings")
    assert set(rows[0]) == {"n", "id", "name", "k", "v"}
    assert [row["n"] if row["id"] is None else row["name"] for row in rows] == [
        *(0, 1, 2, "reading 0"),
        *(10, 11, 12, "reading 1"),
        *(20, 21, 22, "reading 2"),
    ]
    assert load(space.root, channelPattern="read.*") == load(space.root, channel="readings")
    assert load(space.root, channelPattern=".*") == rows


def test_channels_must_be_named_and_be_there(space: ChannelSpace, tmp_path: Path) -> None:
    said = refusal(space)
    assert said.startswith("[PBIO_CHANNEL_SPACE]")
    assert "the channels are counts, readings" in said
    assert "did you mean 'counts'" in refusal(space, channel="count")
    assert "option channels" in refusal(space, channel="counts,others")
    assert "no channel matches 'count'" in refusal(space, channelPattern="count")
    assert refusal(space, channel="counts", channels="readings").startswith("[PBIO_BAD_OPTION]")
    assert refusal(space, channelPattern="(").startswith("[PBIO_BAD_OPTION]")
    with pytest.raises(PbioError, match="PBIO_NO_SPACE"):
        load(tmp_path, channel="counts")
    with pytest.raises(PbioError, match="one space, not from 2"):
        load(tmp_path, space.root, channel="counts")


def test_options_of_files_and_of_channels_do_not_mix(space: ChannelSpace) -> None:
    assert "'pathGlobFilter' does not apply to channels" in refusal(space, channel="counts", pathGlobFilter="*")
    assert "'failOnDataLoss' does not apply to files" in refusal(space, failOnDataLoss=False)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, ALL),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": "5"}, ALL[3:]),
        ({"startingOffsets": "5.0.1"}, ALL[4:]),
        ({"startingOffsets": "5.0.3"}, ALL[6:]),
        ({"startingOffsets": "3.1.0"}, ALL[3:]),
        ({"endingOffsets": "5"}, ALL[:3]),
        ({"endingOffsets": "5.0.1"}, ALL[:4]),
        ({"startingOffsets": "5.0.1", "endingOffsets": "5.0.2"}, [11]),
        ({"startingOffsets": "7", "endingOffsets": "7"}, []),
        ({"startingTimestamp": "2000-01-01"}, ALL),
        ({"startingTimestamp": "4102444800000"}, []),
    ],
)
def test_a_batch_may_begin_and_end_anywhere(space: ChannelSpace, options: dict[str, str], expected: list[int]) -> None:
    assert numbers(space, **options) == expected


def test_a_batch_may_begin_at_a_time_of_publication(space: ChannelSpace) -> None:
    published = everything(space.channel("counts"))[3].published
    assert numbers(space, startingTimestamp=published.isoformat()) == ALL[3:]
    assert "exclude each other" in refusal(space, channel="counts", startingTimestamp="0", startingOffsets="1")


def test_an_invalid_position_is_an_error(space: ChannelSpace) -> None:
    for said in ("first", "1.2", "-1"):
        assert refusal(space, channel="counts", startingOffsets=said).startswith("[PBIO_BAD_OPTION]")
    assert refusal(space, channel="counts", startingOffsets="10").startswith("[PBIO_BAD_OFFSET]")
    assert refusal(space, channel="counts", endingOffsets="9.0.1").startswith("[PBIO_BAD_OFFSET]")
    assert refusal(space, channel="counts", endingOffsets="earliest").startswith("[PBIO_BAD_OPTION]")
    said = refusal(space, channel="counts", startingOffsets="7", endingOffsets="5.0.1")
    assert said.startswith("[PBIO_BAD_OPTION] endingOffsets 5.0.1 comes before startingOffsets 7.0.0")


def test_metadata_says_what_the_log_says(space: ChannelSpace) -> None:
    wide = [row.pop("m") for row in load(space.root, channels="counts,readings", metadataColumn="m")]
    events = everything(space.channel("counts"))
    assert [m["position"] for m in wide if m["channel"] == "counts"] == [str(event.position) for event in events]
    assert {m["channel"] for m in wide} == {"counts", "readings"}
    mine = [m for m in wide if m["channel"] == "counts"]
    assert [(m["producer"], m["sequence"], m["event_time"], m["published"]) for m in mine] == [
        (event.producer, event.sequence, event.event_time, event.published) for event in events
    ]
    assert [m["ordinal"] for m in mine] == [0, 1, 2] * 3
    assert {(m["format_name"], m["way"], m["target"]) for m in mine} == {("count", "direct", "count")}
    assert all(Path(m["file_path"]).is_file() and m["offset"] > 0 for m in wide)
    others = [m for m in wide if m["channel"] == "readings"]
    assert {(m["producer"], m["sequence"], m["event_time"]) for m in others} == {(None, None, None)}


def test_any_part_of_the_metadata_will_do(space: ChannelSpace) -> None:
    schema = columns(("m", pa.struct([("sequence", pa.int64()), ("position", pa.string())])))
    rows = load(space.root, schema=schema, channel="counts", metadataColumn="m", endingOffsets="4")
    assert [tuple(row["m"].values()) for row in rows] == [(0, "3.0.0"), (1, "3.0.1"), (2, "3.0.2")]
    with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE"):
        load(
            space.root,
            schema=columns(("m", pa.struct([("offsets", pa.int64())]))),
            channel="counts",
            metadataColumn="m",
        )


def test_events_that_say_each_for_themselves(space: ChannelSpace) -> None:
    when = [datetime(2026, 2, day, tzinfo=UTC) for day in range(1, 6)]
    rows = [{"n": n, "s": s, "t": t} for n, s, t in zip(range(5), (3, 5, 6, 9, 20), when, strict=True)]
    table = pa.RecordBatch.from_pylist(
        rows, schema=pa.schema([("n", pa.int32()), ("s", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])
    )
    space.publish([Submission("counts", table, producer="p9", columns=Columns(sequence="s", event_time="t"))])
    for options in ({}, {"startingOffsets": "9.0.2"}):
        read = load(space.root, channel="counts", metadataColumn="m", **options)[-3:]
        assert [(row["n"], row["m"]["sequence"], row["m"]["event_time"]) for row in read] == [
            (2, 6, when[2]),
            (3, 9, when[3]),
            (4, 20, when[4]),
        ]


def test_old_and_new_readers_of_one_channel_each_get_their_own_version(space: ChannelSpace) -> None:
    loads = space.create_channel("loads", OLD)
    loads.submit({"average": 1.0})
    loads.submit({"total": 6.0, "cpus": 2}, format=NEW)
    read = {"channel": "loads"}
    assert load(space.root, **read) == [{"average": 1.0}, {"average": 3.0}]
    wide = columns(("total", pa.float64()), ("cpus", pa.int32()), ("average", pa.float64()))
    assert load(space.root, schema=wide, **read) == [
        {"total": None, "cpus": None, "average": 1.0},
        {"total": 6.0, "cpus": 2, "average": None},
    ]
    new = {**read, "readerFormat": NEW.id.hex()}
    assert "PBIO_REJECTED" in refusal(space, **new)
    assert load(space.root, **new, onReject="drop") == [{"total": 6.0, "cpus": 2}]
    assert load(space.root, **new, onReject="corrupt", mode="dropmalformed") == [{"total": 6.0, "cpus": 2}]
    other = '{"wish": {"average": "float64", "cpus": "int32"}}'  # on a channel, names of formats do not matter
    assert load(space.root, **read, readerFormat=other)[0] == {"average": 1.0, "cpus": None}
    ways = [row["m"]["way"] for row in load(space.root, **read, metadataColumn="m")]
    assert ways == ["direct", f"via {OLD.id.hex()}"]


def test_a_filter_is_written_for_the_type_of_the_channel_or_the_one_that_is_wanted(space: ChannelSpace) -> None:
    loads = space.create_channel("loads", OLD)
    loads.submit([{"average": float(n)} for n in range(4)])
    loads.submit([{"total": 2.0 * n, "cpus": 2} for n in range(4)], format=NEW)
    dear = "{ return input.average > 1.5; }"
    assert [row["average"] for row in load(space.root, channel="loads", filter=dear)] == [2.0, 3.0, 2.0, 3.0]
    named = load(space.root, schema=columns(("average", pa.float64())), channel="loads", filter=dear)
    assert [row["average"] for row in named] == [2.0, 3.0, 2.0, 3.0]
    new = {"readerFormat": NEW.id.hex(), "onReject": "drop", "filter": "{ return input.total >= 4.0; }"}
    assert [row["total"] for row in load(space.root, channel="loads", **new)] == [4.0, 6.0]
    made = load(
        space.root,
        schema=columns(("twice", pa.float64())),
        channel="loads",
        transform="{ output.twice = 2 * input.average; }",
        startingOffsets="11",
    )
    assert [row["twice"] for row in made] == [0.0, 2.0, 4.0, 6.0]
    assert "PBIO_BAD_PROGRAM" in refusal(space, channel="loads", filter="{ return input.total; }")


def test_columns_are_as_for_files(space: ChannelSpace) -> None:
    schema = columns(("number", pa.int64()), ("more", pa.string()))
    rows = load(space.root, schema=schema, channel="counts", fieldAliases='{"number": "n"}', defaults='{"more": "?"}')
    assert rows[4] == {"number": 11, "more": "?"}
    space.channel("counts").submit(
        {"n": 1, "m": 2}, format=record_to_format(record("x", [Field("m", INT32), Field("n", INT32)]))
    )
    assert load(space.root, channel="counts")[-1] == {"n": 1}
    assert load(space.root, schema=columns(("m", pa.int32())), channel="counts")[-1] == {"m": 2}


def test_a_channel_without_events_has_the_fields_of_its_type(space: ChannelSpace) -> None:
    space.create_channel("empty", COUNT)
    given = StructType().add("n", "integer")
    wrong = StructType().add("n", "integer").add("m", "integer")
    assert load(space.root, channel="empty", schema=given) == []
    with pytest.raises(PbioError, match=r"PBIO_UNFILLED(.|\n)*'m'"):
        plan(space.root, channel="empty", schema=wrong)
    with pytest.raises(PbioError, match=r"PBIO_INCOMPATIBLE_TYPE"):
        plan(space.root, channel="empty", schema=StructType().add("n", "date"))
    assert load(space.root, channel="empty", schema=wrong, onUnfilled="ignore") == []
    # No event says so, but the other channel's type: it is not misspelled.
    both = StructType().add("n", "integer").add("name", "string")
    space.create_channel("later", READING)
    assert len(load(space.root, channels="counts,later", schema=both)) == len(ALL)
    # Events that need a transform of the reader's may come as well.
    transform = {"from": {"load": {"average": "float64"}}, "to": {"count": {"n": "int32"}}, "ecode": "{ to.n = 1; }"}
    assert load(space.root, channel="empty", schema=given, transforms=json.dumps([transform])) == []


"""Bytes that are not an item, a record without end, and one that reaches over what follows."""


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 2), st.integers(1, 4), st.sampled_from([None, "p", "q"])),
        st.tuples(st.just("many"), st.integers(1, 3)),
        st.tuples(st.just("compact")),
        st.tuples(st.just("vacuum")),
    ),
    max_size=14,
)


@given(steps=STEPS, cut=st.tuples(st.integers(0, 20), st.integers(0, 6)), most=st.sampled_from([60, 1 << 20]))
@settings(max_examples=25)
def test_spark_and_python_see_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], cut: tuple[int, int], most: int
) -> None:
    space = ChannelSpace.create(str(tmp_path_factory.mktemp("s") / "space"))
    forms = [OLD, NEW, OLD]
    for name in ("a", "b", "c"):
        space.create_channel(name, OLD)
    number = 0.0

    def events(count: int, kind: int) -> list[dict[str, float | int]]:
        nonlocal number
        number += count
        return [{"average": number - i} if kind != 1 else {"total": number - i, "cpus": 1} for i in range(count)]

    for step in steps:
        match step:
            case ("publish", kind, count, producer):
                form = forms[kind]
                space.channel("abc"[kind]).submit(events(count, kind), format=form, producer=producer)
            case ("many", count):
                space.publish([Submission(name, events(count, kind), forms[kind]) for kind, name in enumerate("abc")])
            case ("compact",):
                space.compact(target=300)
            case ("vacuum",):
                space.vacuum(grace=NOW, linger=NOW)
    expected = {name: everything(space.channel(name)) for name in "abc"}
    for name in "abc":
        rows = load(space.root, channel=name, metadataColumn="m", maxPartitionBytes=most)
        assert [(row["m"]["position"], row["m"]["producer"], row["average"]) for row in rows] == [
            (str(event.position), event.producer, event.values["average"]) for event in expected[name]
        ]
    everything_ = sorted((e.position, e.values["average"]) for found in expected.values() for e in found)
    end = space.history.catch_up().version + 1
    start = min(cut[0], end), 0, cut[1]
    if start[0] < end:
        rows = load(space.root, channels="c,b,a", startingOffsets=".".join(map(str, start)), maxPartitionBytes=most)
        place = (start[0], start[1], start[2])
        assert [row["average"] for row in rows] == [
            value for p, value in everything_ if (p.version, p.file, p.ordinal) >= place
        ]


def test_a_type_that_no_event_can_reach_is_refused_before_there_are_events(space: ChannelSpace) -> None:
    """So that a stream does not wait in vain. Any format of the space will do."""
    space.create_channel("loads", OLD)
    options: dict[str, Any] = {"channel": "loads", "readerFormat": '{"new": {"total": "float64", "cpus": "int32"}}'}
    assert "PBIO_REJECTED" in refusal(space, **options)
    with pytest.raises(PbioError, match="PBIO_REJECTED"):
        Query(space, **options).batch()
    assert load(space.root, **options, onReject="drop") == []
    assert load(space.root, **options, onUnfilled="warn") == []
    assert Query(space, **options, onUnfilled="ignore").batch() is None
    space.channel("loads").submit({"total": 6.0, "cpus": 2}, format=NEW)
    assert load(space.root, **options, startingOffsets="latest") == []
    assert Query(space, **options, startingOffsets="earliest").batch() == [{"total": 6.0, "cpus": 2}]
