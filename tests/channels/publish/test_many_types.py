"""Rows for channels of many types at once: each channel gets what it would get alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from ecode.types import INT32, INT64, STRING, Field, Notes, Record, record
from pbio_spark.channels import ChannelSpace, Columns, Submission
from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.publish import prepare
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from tests.channels.spaces import again, everything

TYPES = 15
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def type_of(number: int) -> Record | Format:
    """Types of four shapes; those of one lack a field of the rows, which they need not have."""
    name = f"type {'x' * (number % 7)}{number}"
    n, s = Field("n", INT32), Field("s", STRING)
    match number % 5:
        case 0 | 1:
            return record(name, [n, s])
        case 2:
            return record(name, [s, Field("n", INT64)])
        case 3:
            return Format.of(record(name, [n]), "be32")
        case _:
            return record(name, [s, Field("n", INT32, Notes(units="m"))])


@pytest.fixture
def spaces() -> Iterator[tuple[ChannelSpace, ChannelSpace]]:
    made = []
    for _ in range(2):
        space = ChannelSpace.create(f"memory://{uuid.uuid4().hex}")
        for number in reversed(range(TYPES)):
            for name in (f"c{number}", f"d{number}"):
                space.create_channel(name, type_of(number))
        made.append(space)
    yield made[0], made[1]
    for space in made:
        fsspec.filesystem("memory").rm(space.root.removeprefix("memory://"), recursive=True)


def rows_of(count: int) -> pa.Table:
    numbers = [k * 7919 % count for k in range(count)]
    return pa.table(
        {
            "channel": [f"{'cd'[k % 2]}{k // 2 % TYPES}" for k in numbers],
            "n": pa.array(numbers, pa.int32()),
            "s": ["text " * (k % 4) if k % 3 else None for k in numbers],
            "who": [f"p{k % 3}" for k in numbers],
            "number": pa.array([k // 5 for k in range(count)], pa.int64()),
            "at": pa.array([EPOCH + timedelta(seconds=k % 11) for k in numbers], pa.timestamp("us", "UTC")),
        }
    )


def said(space: ChannelSpace) -> dict[str, list[Any]]:
    names = [f"{letter}{number}" for letter in "cd" for number in range(TYPES)]
    events = {name: everything(space.channel(name)) for name in names}
    return {name: [(e.values, e.producer, e.sequence, e.event_time) for e in own] for name, own in events.items()}


@pytest.mark.parametrize(
    "columns",
    [Columns("channel"), Columns("channel", "who"), Columns("channel", "who", "number", "at")],
    ids=["channels", "producers", "numbers and times"],
)
@pytest.mark.parametrize("is_large", [False, True], ids=["few rows for each type", "many"])
def test_channels_of_many_types_get_what_each_gets_alone(
    spaces: tuple[ChannelSpace, ChannelSpace], columns: Columns, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(prepare, "_MANY_ROWS", 3)
    together, alone = spaces
    rows = rows_of(300).select(["n", "s", *columns.names])
    for part in (rows, rows.slice(100, 150)):  # again, where numbers are known
        together.publish([Submission(None, part, columns=columns)])
        for name in dict.fromkeys(part["channel"].to_pylist()):
            mask = pa.array([one == name for one in part["channel"].to_pylist()])
            alone.publish([Submission(None, part.filter(mask), columns=columns)])
    assert said(together) == said(alone)
    assert sum(map(len, said(together).values())) >= 250
    assert list(problems(again(together))) == []


def test_an_encoder_runs_once_for_types_of_equal_shape(
    spaces: tuple[ChannelSpace, ChannelSpace], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    encode = prepare.Encoders.encode

    def counted(self: Any, batch: pa.RecordBatch, formats: Any, counts: Any, null_value: Any) -> Any:
        ran.append(len(formats))
        return encode(self, batch, formats, counts, null_value)

    monkeypatch.setattr(prepare.Encoders, "encode", counted)
    spaces[0].publish([Submission(None, rows_of(300).select(["channel", "n", "s"]), columns=Columns("channel"))])
    assert sorted(ran) == [3, 3, 6]


def test_the_events_of_each_type_name_only_their_own_producers(spaces: tuple[ChannelSpace, ChannelSpace]) -> None:
    space, rows = spaces[0], rows_of(300).select(["channel", "n", "s"])
    rows = rows.append_column("who", rows["channel"])
    names = {info.id: info.name for info in space.channels()}
    submission = Submission(None, rows, columns=Columns("channel", "who"))
    for made in prepare.Preparer(space.formats).prepare(submission, space.find):
        groups = made.groups
        assert [groups.producers[k] for k in groups.rows["producer"]] == [names[k] for k in groups.rows["channel"]]
        assert len(groups.producers) == len(groups)


def test_a_value_that_does_not_fit_is_refused_with_the_type_concerned(
    spaces: tuple[ChannelSpace, ChannelSpace],
) -> None:
    space = spaces[0]
    rows = rows_of(300).select(["channel", "n", "s"])
    texts = ["a\0b" if row["channel"] == "c11" else row["s"] for row in rows.to_pylist()]
    with pytest.raises(PbioError, match="PBIO_BAD_VALUE") as caught:
        space.publish([Submission(None, rows.set_column(2, "s", pa.array(texts)), columns=Columns("channel"))])
    assert caught.value.format == space.channel("c11").format.name
    assert not any(said(space).values())


def test_events_in_a_given_format_keep_it(spaces: tuple[ChannelSpace, ChannelSpace]) -> None:
    """The types of the channels have its shape, but it is not theirs."""
    space = spaces[0]
    form = space.channel("c0").format
    rows = pa.table({"channel": [f"c{5 * k}" for k in range(3)] + [f"c{5 * k + 1}" for k in range(3)]})
    rows = rows.append_column("n", pa.array(range(6), pa.int32())).append_column("s", pa.array(["a"] * 6))
    space.publish([Submission(None, rows, format=form, columns=Columns("channel"))])
    state = space.history.catch_up()
    entry = space.history.entry(state.version)
    assert entry is not None
    assert isinstance(entry.change, Data)
    assert entry.change.groups.formats == (form.id.hex(),)
    assert [event.values["n"] for event in everything(space.channel("c6"))] == [4]
