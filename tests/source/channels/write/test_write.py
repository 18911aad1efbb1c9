"""Writing to channels: events published once and in order, refusals, and leftovers of failures."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.native import compile as compiler
from ecode.types import INT32, Field, Notes, record
from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.channels.upkeep.check import leftovers, problems
from pbio_spark.errors import PbioError
from pbio_spark.source.channels import task as channel_task
from pbio_spark.source.channels import writer as channel_writer
from tests.channels.spaces import everything, values
from tests.source.by_hand import run_task, stream_writer, write, write_stream, writer
from tests.source.channels.conftest import STOCK

DEAR = "{ return input.price > param.limit; }"
NAMES = ("ACME", "Bolt", "Cog")


def rows(*numbers: int, **more: list[Any] | pa.Array) -> pa.RecordBatch:
    """Stocks, one for each number, which is its price."""
    names = [NAMES[number % 3] for number in numbers]
    return pa.RecordBatch.from_pydict({"name": names, "price": [float(number) for number in numbers], **more})


def prices(channel: Channel) -> list[float]:
    return [row["price"] for row in values(channel)]


def files(space: ChannelSpace) -> list[str]:
    return sorted(path.name for path in (Path(space.root) / "data").iterdir())


def commits(space: ChannelSpace) -> int:
    return ChannelSpace.open(space.root).history.catch_up().version


def is_sound(space: ChannelSpace) -> bool:
    """Whether all that is there is right, and named by a commit."""
    found = ChannelSpace.open(space.root)
    return not list(problems(found)) and not leftovers(found)


def refusal(code: str) -> Any:
    return pytest.raises(PbioError, match=rf"\[{code}\]")


# What is published


def test_a_write_is_one_commit_with_a_file_for_each_task(space: ChannelSpace, stocks: Channel) -> None:
    write(space, [rows(0, 1), rows(2)], rows(3), rows(0)[:0], channel="stocks")
    assert [(str(event.position), event.values["price"]) for event in everything(stocks)] == [
        ("2.0.0", 0.0),
        ("2.0.1", 1.0),
        ("2.0.2", 2.0),
        ("2.1.0", 3.0),
    ]
    assert (commits(space), len(files(space))) == (2, 2)
    assert is_sound(space)


def test_columns_of_producer_and_time_are_not_fields(space: ChannelSpace, stocks: Channel) -> None:
    when = datetime(2026, 1, 31, 12, tzinfo=UTC)
    batch = rows(
        *(0, 1, 2),
        who=pa.array(["feed-1", None, "feed-1"]),
        number=pa.array([7, 0, 9], pa.int64()),
        at=pa.array([when + timedelta(seconds=n) for n in range(3)], pa.timestamp("us", "America/New_York")),
    )
    told = {"producer": "feed-2", "producerColumn": "who", "sequenceColumn": "number", "eventTimeColumn": "at"}
    # The plan is in UTC, and Spark sends the rows in the time zone of its session.
    planned = batch.schema.set(4, pa.field("at", pa.timestamp("us", "UTC")))
    made = writer(space, planned, channel="stocks", **told)
    made.commit([run_task(made, 0, batch)])
    assert [(e.producer, e.sequence, e.event_time, e.values["price"]) for e in everything(stocks)] == [
        ("feed-1", 7, when, 0.0),
        ("feed-1", 9, when + timedelta(seconds=2), 2.0),
        ("feed-2", 0, when + timedelta(seconds=1), 1.0),
    ]
    assert set(values(stocks)[0]) == {"name", "price"}


def test_a_column_is_a_field_as_well_if_the_type_has_it(space: ChannelSpace, stocks: Channel) -> None:
    write(space, rows(4, 5), channel="stocks", producerColumn="name")
    assert [(event.producer, event.values["name"]) for event in everything(stocks)] == [
        ("Bolt", "Bolt"),
        ("Cog", "Cog"),
    ]


def test_rows_for_hundreds_of_channels_are_one_commit(space: ChannelSpace) -> None:
    channels = [space.create_channel(f"c{n}", STOCK if n % 2 else pa.schema([("n", pa.int64())])) for n in range(300)]
    numbers = [[n for n in range(1200) if n % 2] for _ in range(2)]
    both = [
        rows(*own, to=[f"c{n % 300}" for n in own], n=own).take(pa.array(range(len(own))[:: (1, -1)[i]]))
        for i, own in enumerate(numbers)
    ]
    before = commits(space)
    write(space, *both, channelColumn="to")
    assert (commits(space) - before, len(files(space))) == (1, 2)
    for number, channel in enumerate(channels):
        own = [float(n) for n in range(number, 1200, 300)] if number % 2 else []
        assert prices(channel) == own + own[::-1]
    assert is_sound(space)


def test_a_row_without_a_channel_goes_to_the_one_that_is_named(space: ChannelSpace, stocks: Channel) -> None:
    others = space.create_channel("others", STOCK)
    batch = rows(1, 2, 3, to=["others", None, "others"])
    write(space, batch, channel="stocks", channelColumn="to")
    assert (prices(stocks), prices(others)) == ([2.0], [1.0, 3.0])
    with refusal("PBIO_CANNOT_BE_NULL") as caught:
        write(space, batch, channelColumn="to")
    assert "row 1" in str(caught.value)


def test_much_data_becomes_several_files(space: ChannelSpace, stocks: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_task, "PIECE", 4000)
    batches = [rows(*range(n, n + 20), seq=list(range(n, n + 20))) for n in range(0, 100, 20)]
    write(space, batches, channel="stocks", producer="p", sequenceColumn="seq")
    assert [event.sequence for event in everything(stocks)] == list(range(100))
    assert (commits(space), len(files(space))) == (2, 2)


def test_an_event_may_have_more_than_the_channel(space: ChannelSpace, stocks: Channel) -> None:
    write(space, rows(1, volume=pa.array([10], pa.int32())), channel="stocks")
    assert values(stocks) == [{"name": "Bolt", "price": 1.0}]
    more = record("stock", [*STOCK.fields, Field("volume", INT32)])
    seen: list[dict[str, Any]] = []
    stocks.subscribe({more: lambda event: seen.append(event.values)}, start="earliest").run()
    assert seen == [{"name": "Bolt", "price": 1.0, "volume": 10}]


@pytest.mark.parametrize("told", [{"machine": "sparc"}, {"byteOrder": "big", "pointerSize": 4}])
def test_events_are_laid_out_for_a_machine(space: ChannelSpace, stocks: Channel, told: dict[str, Any]) -> None:
    write(space, rows(1, 2), channel="stocks", **told)
    (entry,) = (space.history.entry(2),)
    assert entry is not None
    (group,) = space.history.groups(entry.change)  # type: ignore[arg-type]
    form = space.formats.get(bytes.fromhex(group.format))
    assert form is not None
    assert (form.byte_order, form.pointer_size) == ("big", 4)
    assert prices(stocks) == [1.0, 2.0]


def test_columns_of_another_type_carry_the_way_to_the_channel(space: ChannelSpace, stocks: Channel) -> None:
    program = "{ old.name = new.name; old.price = new.cents / 100.0; }"
    batch = pa.RecordBatch.from_pydict({"name": ["ACME"], "cents": pa.array([7450], pa.int64())})
    for target in ("stock", stocks.format.id.hex()):
        told = json.dumps([{"to": target, "ecode": program}])
        write(space, batch, channel="stocks", transforms=told)
    assert values(stocks) == [{"name": "ACME", "price": 74.5}] * 2
    with refusal("PBIO_UNKNOWN_FORMAT"):
        writer(space, batch.schema, channel="stocks", transforms=json.dumps([{"to": "stok", "ecode": program}]))


def test_nulls_become_what_the_option_says(space: ChannelSpace, stocks: Channel) -> None:
    batch = pa.RecordBatch.from_pydict({"name": ["ACME"], "price": pa.array([None], pa.float64())})
    with refusal("PBIO_CANNOT_BE_NULL") as caught:
        write(space, batch, channel="stocks")
    assert "nullValue" in str(caught.value)
    assert "rows 0 to 0 of partition 0" in str(caught.value)
    write(space, batch, channel="stocks", nullValue="-1")
    assert prices(stocks) == [-1.0]


def test_a_space_may_be_in_a_bucket(bucket: str) -> None:
    space = ChannelSpace.create(bucket)
    stocks = space.create_channel("stocks", STOCK)
    dear = space.derive_channel("dear", "stocks", filter=DEAR, parameters={"limit": 1.5})
    for batch_id in (0, 1, 1):
        write_stream(space, batch_id, rows(batch_id), rows(batch_id + 2), channel="stocks")
    assert (prices(stocks), prices(dear)) == ([0.0, 2.0, 1.0, 3.0], [2.0, 3.0])
    assert is_sound(space)


# Derived channels, and changes between tasks and commit


def test_derived_channels_are_filled_where_tasks_write(space: ChannelSpace, stocks: Channel) -> None:
    dear = space.derive_channel("dear", "stocks", filter=DEAR, parameters={"limit": 1.5})
    write(space, rows(0, 1, 2), rows(3), channel="stocks")
    assert (prices(dear), dear.status) == ([2.0, 3.0], "accepted")
    assert len(files(space)) == 2
    assert is_sound(space)


def test_a_channel_derived_meanwhile_has_the_events(space: ChannelSpace, stocks: Channel) -> None:
    made = writer(space, rows(0).schema, channel="stocks")
    messages = [run_task(made, 0, rows(0, 1, 2)), run_task(made, 1, rows(3))]
    dear = space.derive_channel("dear", "stocks", filter=DEAR, parameters={"limit": 1.5})
    made.commit(messages)
    assert (prices(stocks), prices(dear)) == ([0.0, 1.0, 2.0, 3.0], [2.0, 3.0])
    assert len(files(space)) == 2
    assert is_sound(space)


def test_parameters_set_meanwhile_hold_for_the_events(space: ChannelSpace, stocks: Channel) -> None:
    dear = space.derive_channel("dear", "stocks", filter=DEAR, parameters={"limit": 1.5})
    made = writer(space, rows(0).schema, channel="stocks")
    messages = [run_task(made, 0, rows(0, 1, 2, 3))]
    space.set_parameters("dear", {"limit": 2.5})
    made.commit(messages)
    assert (prices(stocks), prices(dear)) == ([0.0, 1.0, 2.0, 3.0], [3.0])
    # The next writer of the process does not remember what was.
    write(space, rows(2, 3), channel="stocks")
    assert prices(dear) == [3.0, 3.0]
    assert is_sound(space)


def test_to_a_channel_dropped_meanwhile_nothing_is_published(space: ChannelSpace, stocks: Channel) -> None:
    other = space.create_channel("other", STOCK)
    made = writer(space, rows(0, to=["other"]).schema, channelColumn="to")
    messages = [run_task(made, 0, rows(0, 1, to=["stocks", "other"]))]
    space.drop_channel("stocks")
    with refusal("PBIO_UNKNOWN_CHANNEL"):
        made.commit(messages)
    assert prices(other) == []
    # Spark calls this after a commit that failed; then the events may be published, and their file must stay.
    made.abort(messages)
    assert len(files(space)) == 1


def test_another_space_in_its_place_gets_nothing(tmp_path: Path, space: ChannelSpace, stocks: Channel) -> None:
    schema = rows(0).schema
    batch, stream = writer(space, schema, channel="stocks"), stream_writer(space, schema, channel="stocks")
    messages = [run_task(batch, 0, rows(0))], [run_task(stream, 0, rows(0))]
    Path(space.root).rename(tmp_path / "gone")
    anew = ChannelSpace.create(space.root)
    again = anew.create_channel("stocks", STOCK)
    with refusal("PBIO_NO_SPACE"):
        batch.commit(messages[0])
    with refusal("PBIO_NO_SPACE"):
        stream_writer(space, schema, channel="stocks").commit(messages[1], 0)
    write(anew, rows(1), channel="stocks")
    assert prices(again) == [1.0]
    assert is_sound(anew)


# Once, and in order


# Failures


def test_a_writer_waits_for_subscribers(space: ChannelSpace, stocks: Channel) -> None:
    subscription = stocks.subscribe(lambda event: None, start="earliest", name="late")
    subscription.run()
    told = {"channel": "stocks", "delivery": "sync", "syncTimeout": "0s"}
    with refusal("PBIO_NOT_DELIVERED"):
        write_stream(space, 0, rows(0), **told)
    assert prices(stocks) == [0.0]
    with refusal("PBIO_NOT_DELIVERED"):
        write_stream(space, 0, rows(0), **told)
    subscription.run()
    write_stream(space, 0, rows(0), **told)
    assert prices(stocks) == [0.0]


def test_tasks_do_not_compile(
    space: ChannelSpace, stocks: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = rows(0, 2, to=["stocks", "stocks"], volume=[10, 20])
    dear = space.derive_channel("dear", "stocks", filter=DEAR, parameters={"limit": 1.5})
    sent = pickle.dumps(writer(space, more.schema, channelColumn="to"))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("ECODE_CACHE_DIR", str(tmp_path / "cache"))
        elsewhere.setattr(compiler, "_compiled", {})
        elsewhere.setattr(compiler, "_compile", lambda *arguments: pytest.fail("a task compiles"))
        made = pickle.loads(sent)
        message = run_task(made, 0, more)
    made.commit([message])
    assert (prices(stocks), prices(dear)) == ([0.0, 2.0], [2.0])


def test_the_driver_compiles_a_bounded_number_of_encoders_for_tasks(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types of equal shape count once; tasks compile the others."""
    monkeypatch.setattr(channel_writer, "COMPILED", 2)
    for number in range(9):
        units = Notes(units=f"of shape {number // 3}")
        space.create_channel(f"c{number}", record(f"type {number}", [Field("n", INT32, units)]))
    names = [f"c{number}" for number in range(9)]
    batch = pa.RecordBatch.from_pydict({"channel": names, "n": pa.array(range(9), pa.int32())})
    made = writer(space, batch.schema, channelColumn="channel")
    assert len(made._tools.preparer.encoders) == 2
    write(space, batch, channelColumn="channel")
    assert [values(space.channel(name)) for name in names] == [[{"n": number}] for number in range(9)]
