"""The place of events does not matter: groups that are packed, moved or gone; damage loses no other events."""

from __future__ import annotations

import pickle
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.source.channels.plan import pack
from tests.channels.spaces import COUNT
from tests.source.channels.query import columns
from tests.source.channels.read.test_read import ALL, NOW, filled, numbers, refusal
from tests.source.local import batches, load, plan, source

NO_ITEM, NO_END, FAR = b"\xee" * 8, b"\3\0\0\0\x7f\0\0\0", b"\3\0\0\0\0\0\0\xc0"


@pytest.fixture
def space(space: ChannelSpace) -> ChannelSpace:
    return filled(space)


def test_small_groups_are_read_in_one_go_by_one_task(space: ChannelSpace) -> None:
    assert [len(part.reading.stretches) for part in plan(space.root, channel="counts").partitions()] == [3]
    space.compact()
    assert [len(part.reading.stretches) for part in plan(space.root, channel="counts").partitions()] == [1]
    assert numbers(space) == ALL
    assert load(space.root, channels="counts,readings", startingOffsets="5.0.1")[0]["n"] == 11


def test_groups_are_packed_in_the_order_of_the_log(space: ChannelSpace) -> None:
    space.compact()
    parts = plan(space.root, channel="counts", maxPartitionBytes=150).partitions()
    assert len(parts) > 1
    assert numbers(space, maxPartitionBytes=150) == ALL


def test_with_a_filter_a_task_reads_more(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    space.compact()
    monkeypatch.setattr("pbio_spark.source.channels.plan.PARTITION_BYTES", 150)
    assert len(plan(space.root, channel="counts").partitions()) > 1
    keeps_all = "{ return 1; }"
    assert len(plan(space.root, channel="counts", filter=keeps_all).partitions()) == 1
    assert numbers(space, filter=keeps_all) == numbers(space) == ALL


@given(st.lists(st.tuples(st.integers(1, 1000), st.booleans()), max_size=50), st.integers(1, 3000), st.integers(0, 300))
def test_tasks_are_alike_in_size(pieces: list[tuple[int, bool]], most: int, cost: int) -> None:
    files = accumulate(is_new for _, is_new in pieces)
    found: Any = [SimpleNamespace(bytes=size, path=f"{at}") for (size, _), at in zip(pieces, files, strict=True)]
    packed = pack(found, most, cost)
    assert [piece for part in packed for piece in part] == found
    assert all(packed)
    total = sum(piece.bytes for piece in found) + cost * len({piece.path for piece in found})
    assert len(packed) <= -(-total // (most + cost))
    greatest = max((piece.bytes for piece in found), default=0) + cost
    assert all(sum(piece.bytes for piece in part) <= most + cost + greatest for part in packed)


def test_files_may_move_between_planning_and_reading(space: ChannelSpace) -> None:
    reader = plan(space.root, channel="counts")
    space.compact()
    assert space.vacuum(grace=NOW, linger=NOW).files == 6
    rows = [row["n"] for batch in batches(reader) for row in batch.to_pylist()]
    assert rows == ALL


def test_events_that_are_gone(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    keep = space.create_channel("kept", COUNT, keep=NOW)
    keep.submit([{"n": 1}])
    planned = [plan(space.root, channel="kept", failOnDataLoss=fail) for fail in (True, False)]
    assert space.vacuum(grace=NOW, linger=NOW).channels == ("kept",)
    keep.submit([{"n": 2}])
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        batches(planned[0])
    assert batches(planned[1]) == []
    assert "PBIO_EVENTS_GONE" in caplog.text
    assert load(space.root, channel="kept") == [{"n": 2}]
    assert load(space.root, channel="kept", startingTimestamp="0") == [{"n": 2}]
    assert refusal(space, channel="kept", startingOffsets="1").startswith("[PBIO_EVENTS_GONE]")
    assert load(space.root, channel="kept", startingOffsets="1", failOnDataLoss=False) == [{"n": 2}]
    assert numbers(space) == ALL


def test_a_lost_or_lying_file_is_an_error(space: ChannelSpace) -> None:
    paths = sorted(Path(space.root, "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    whole = paths[0].read_bytes()
    paths[0].write_bytes(whole[:-28] + b"\1\0\0\x18" + b"\0" * 24)  # its last event became a comment
    assert "the file has 2 events where the log has 3" in refusal(space, channel="counts")
    paths[0].write_bytes(whole[:-28] + b"\xee" * 28)
    assert "PBIO_BAD_ITEM" in refusal(space, channel="counts")
    schema = columns(("n", pa.int32()), ("_corrupt_record", pa.struct([("offset", pa.int64())])))
    rows = load(space.root, schema=schema, channel="counts", mode="permissive")
    assert [row["n"] for row in rows] == [0, 1, None, *ALL[3:]]
    assert rows[2]["_corrupt_record"] == {"offset": len(whole) - 28}
    paths[0].unlink()
    assert "PBIO_BAD_LOG" in refusal(space, channel="counts", failOnDataLoss=False)


def edited(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def place(space: ChannelSpace, channel: str, number: int) -> int:
    """Where the item of an event begins in the file that all commits were put together in."""
    return int(load(space.root, channel=channel, metadataColumn="m")[number]["m"]["offset"])


@pytest.mark.parametrize("data", [NO_ITEM, NO_END, FAR])
def test_damage_of_one_group_costs_no_other(space: ChannelSpace, data: bytes) -> None:
    space.compact()
    space.vacuum(grace=NOW, linger=NOW)
    (path,) = Path(space.root, "data").iterdir()
    at, foreign = place(space, "counts", 5), place(space, "readings", 0)
    whole = path.read_bytes()
    edited(path, foreign, data)
    assert numbers(space) == ALL
    path.write_bytes(whole)
    edited(path, at, data)
    with pytest.raises(PbioError) as caught:
        numbers(space)
    assert caught.value.offset == at
    schema = columns(("n", pa.int32()), ("_corrupt_record", pa.struct([("offset", pa.int64())])))
    rows = load(space.root, schema=schema, channel="counts", mode="permissive")
    assert [row["n"] for row in rows] == [0, 1, 2, 10, 11, None, 20, 21, 22]
    assert rows[5]["_corrupt_record"] == {"offset": at}
    dropped = load(space.root, schema=schema, channel="counts", mode="dropmalformed", startingOffsets="5.0.1")
    assert [row["n"] for row in dropped] == [11, 20, 21, 22]


def test_a_record_that_swallows_another_is_not_sound(space: ChannelSpace) -> None:
    path = Path(load(space.root, channel="counts", metadataColumn="m")[0]["m"]["file_path"])
    edited(path, place(space, "counts", 0) + 4, (20 + 28).to_bytes(4))
    with pytest.raises(PbioError, match="PBIO_BAD_RECORD"):
        numbers(space)
    with pytest.raises(PbioError, match="the file has 2 events where the log has 3"):
        numbers(space, mode="dropmalformed")


def test_a_dropped_channel_between_planning_and_reading(space: ChannelSpace) -> None:
    reader = plan(space.root, channel="counts")
    space.drop_channel("counts")
    space.vacuum(grace=NOW, linger=NOW)
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        batches(reader)
    assert refusal(space, channel="counts").startswith("[PBIO_UNKNOWN_CHANNEL]")


def test_what_was_found_out_travels_and_places_do_not(space: ChannelSpace) -> None:
    reader = plan(space.root, channel="counts")
    small = len(pickle.dumps(reader))
    for _ in range(20):
        space.channel("counts").submit({"n": 1})
    assert abs(len(pickle.dumps(plan(space.root, channel="counts"))) - small) < 100
    assert source(space.root, channel="counts").schema() == columns(("n", pa.int32()))
