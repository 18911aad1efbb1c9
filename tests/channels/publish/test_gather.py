"""Events encoded batch by batch equal those of all batches prepared as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbio_spark.channels import ChannelSpace, Columns, Gatherer, Preparer, StraightWriter, Submission, is_straight
from pbio_spark.channels.commits.contents import Contents
from pbio_spark.channels.commits.groups import groups_to_json
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.publish.packed import contents_of_all, unpack
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.columns import checksum_kernel
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.layout import record_to_format

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("list", pa.list_(pa.field("item", pa.float64(), nullable=False))),
        pa.field("whose", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)
ROW = st.tuples(
    st.integers(-9, 9),
    st.sampled_from([None, "", "a", "a longer text"]),
    st.sampled_from([None, [], [1.5], [0.0, 2.0, 3.0]]),
    st.sampled_from("pq"),
    st.integers(0, 5),
    st.sampled_from([EPOCH, EPOCH + timedelta(seconds=1)]),
)
BATCHES = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=5)
COLUMNS = st.sampled_from(
    [
        Columns(),
        Columns(event_time="at"),
        Columns(producer="whose"),
        Columns(producer="whose", event_time="at"),
        Columns(producer="whose", sequence="number"),
        Columns(producer="whose", sequence="number", event_time="at"),
    ]
)


def batch_of(rows: Iterable[tuple[object, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


class World:
    """A space with one channel, and what writes to it."""

    def __init__(self, root: str) -> None:
        self.space = ChannelSpace.create(root)
        fields = pa.schema([SCHEMA.field(name) for name in ("n", "text", "list")])
        self.space.create_channel("events", record_to_format(columns_to_record(fields, "event", "mask")))
        self.info = self.space.history.state.named("events")
        self.preparer = Preparer(self.space.formats)

    def whole(self, batches: list[pa.RecordBatch], said: Submission) -> list[Prepared]:
        """The oracle: all batches as one."""
        table = pa.Table.from_batches(batches, SCHEMA)
        return self.preparer.prepare(replace(said, events=table), lambda name: self.info)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(str(tmp_path_factory.mktemp("gather") / "space"))


@given(BATCHES, BATCHES, COLUMNS, st.sampled_from([None, "p"]))
@settings(max_examples=30)
def test_gathered(
    world: World,
    first: list[list[tuple[object, ...]]],
    second: list[list[tuple[object, ...]]],
    columns: Columns,
    producer: str | None,
) -> None:
    said = Submission("events", batch_of([]), producer=producer, columns=columns)
    gatherer = Gatherer(world.preparer, world.info, said)
    for rows in (first, second, first):
        batches = [batch_of(part) for part in rows]
        for batch in batches:
            gatherer.add(batch)
        assert gatherer.rows == sum(map(len, rows))
        made, expected = gatherer.prepared(), world.whole(batches, said)
        assert len(made) == len(expected)
        for one, other in zip(made, expected, strict=True):
            assert one.format == other.format
            assert one.encoded.buffer.to_pybytes() == other.encoded.buffer.to_pybytes()
            assert np.array_equal(one.encoded.offsets, other.encoded.offsets)
            assert one.groups == other.groups


@given(BATCHES, st.sampled_from([Columns(), Columns(event_time="at")]), st.sampled_from([None, "p"]), st.booleans())
@settings(max_examples=30)
def test_straight_to_the_disk(
    world: World, rows: list[list[tuple[object, ...]]], columns: Columns, producer: str | None, has_sums: bool
) -> None:
    said = Submission("events", batch_of([]), producer=producer, columns=columns)
    folder = world.space.folder
    assert is_straight(folder, world.space.history.state, world.info, said)
    kernel = checksum_kernel() if has_sums else None
    writer = StraightWriter(folder, world.preparer, world.info, said, summing=kernel)
    for _ in range(2):  # the second file starts again
        batches = [batch_of(part) for part in rows]
        for batch in batches:
            writer.add(batch)
        expected = world.whole(batches, said)
        finished = writer.finished()
        if finished is None:
            assert expected == []
            continue
        writer.bring(finished)
        packed = finished.packed
        (made,) = unpack(folder, world.space.formats, packed, packed.own)
        (other,) = expected
        assert made.format == other.format
        assert made.encoded.buffer.to_pybytes() == other.encoded.buffer.to_pybytes()
        assert groups_to_json(made.groups) == groups_to_json(other.groups)
        assert packed.file.bytes == folder.size(packed.file.path)
        assert packed.contents == (contents_of_all(expected) if has_sums else Contents())
        assert (len(packed.derived), packed.refused, packed.descendants) == (0, (), ())
        folder.remove(packed.file.path)


def test_only_what_needs_no_order_goes_straight(world: World) -> None:
    state, folder = world.space.history.state, world.space.folder

    def goes(folder: Folder = folder, **said: object) -> bool:
        return is_straight(folder, state, world.info, Submission("events", batch_of([]), **said))  # type: ignore[arg-type]

    assert goes()
    assert goes(producer="p", event_time=EPOCH)
    for columns in (Columns(producer="p"), Columns(sequence="s"), Columns(channel="c")):
        assert not goes(columns=columns)
    assert not goes(producer="p", sequence=0)
    assert not goes(Folder("memory://elsewhere"))


def test_a_channel_from_which_others_are_derived_does_not(tmp_path: object) -> None:
    world = World(f"{tmp_path}/space")
    said = Submission("events", batch_of([]))
    assert is_straight(world.space.folder, world.space.history.state, world.info, said)
    world.space.derive_channel("some", "events", filter="{ return input.n > 1; }")
    assert not is_straight(world.space.folder, world.space.history.catch_up(), world.info, said)


ROWS = [(1, "a", [1.0], "p", 0, EPOCH)]


def test_a_batch_that_is_refused_leaves_what_came_before_it(world: World) -> None:
    bad = batch_of([(1, "a NUL\0ends it", *ROWS[0][2:])])
    columns = Columns(event_time="at")
    said = Submission("events", batch_of([]), columns=columns)
    gatherer = Gatherer(world.preparer, world.info, said)
    gatherer.add(batch_of(ROWS))
    with pytest.raises(PbioError, match="PBIO_BAD_VALUE"):
        gatherer.add(bad.cast(bad.schema))
    (made,) = gatherer.prepared()
    assert made.groups.events == 1


def test_a_file_that_is_given_up_is_gone(tmp_path: object) -> None:
    world = World(f"{tmp_path}/space")
    writer = StraightWriter(world.space.folder, world.preparer, world.info, Submission("events", batch_of([])))
    writer.add(batch_of(ROWS))
    writer.discard()
    writer.discard()
    assert writer.finished() is None
    assert world.space.folder.names("data") == world.space.folder.names("data", temporary=True) == []


@pytest.mark.parametrize("producer", [None, "p"])
@pytest.mark.parametrize("event_time", [None, EPOCH])
def test_contents_do_not_depend_on_how_events_are_grouped(
    world: World, producer: str | None, event_time: datetime | None
) -> None:
    said = Submission("events", batch_of([]), producer=producer, event_time=event_time)
    (whole,) = world.whole([batch_of([(n, "a", [], "p", 0, EPOCH) for n in range(7)])], said)
    halves = whole.groups.take(np.array([0, 0]))
    halves.rows["count"] = 3, 4
    halves.rows["ordinal"] = 0, 3
    assert contents_of_all([whole]) == contents_of_all([replace(whole, groups=halves)])
    fewer = whole.groups.take(np.array([0]))
    fewer.rows["count"] = 3
    rest = whole.groups.take(np.array([0]))
    rest.rows["count"], rest.rows["ordinal"] = 4, 3
    parts = [replace(whole, groups=groups) for groups in (fewer, rest)]
    assert contents_of_all(parts) == contents_of_all([whole])
