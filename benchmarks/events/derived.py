"""Derived channels: what their code costs sources, and what it saves subscribers.

The events are small, so that what is done for each shows; publishing waits for the disk, so that the best of several
runs counts.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import Row, side_by_side
from ecode.types import FLOAT64, INT32, INT64, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Columns, Submission

STOCK = record("stock", [Field("id", INT64), Field("price", FLOAT64), Field("volume", INT32), Field("day", INT32)])
PRICE = record("price", [Field("price", FLOAT64)])
EVENTS = 500_000
DERIVATIONS = (1, 8, 64)
KEPT = (2, 10, 30)
PRODUCERS = 2_000


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield from beside_none(folder)
        yield from state(folder)
        yield from producers(folder)
        yield from selections(folder)
        yield from first_events(folder)
    finally:
        shutil.rmtree(folder)


def beside_none(folder: Path) -> Iterator[Row]:
    """Writers of a channel from which others are derived, and of one without."""
    batch = stocks(EVENTS)
    plain = channel(folder / "none")
    for count in DERIVATIONS:
        parent = channel(folder / f"{count}")
        for number in range(count):
            parent.space.derive_channel(
                f"d{number}",
                "stocks",
                filter="{ return input.price < param.most; }",
                parameters={"most": (number + 1) / 30 / count},
            )
        times = submitted(parent, plain, batch)
        yield Row(f"publish with {count} stateless filters", "publish alone", *times, EVENTS, "events", goal=0.5)
    parent = channel(folder / "whole")
    for number in range(DERIVATIONS[-1]):
        parent.space.derive_channel(f"d{number}", "stocks", filter=f"{{ return input.price >= {-number}.0; }}")
    times = submitted(parent, plain, batch)
    yield Row(f"publish with {DERIVATIONS[-1]} that keep all", "publish alone", *times, EVENTS, "events", goal=0.5)


def state(folder: Path) -> Iterator[Row]:
    """A filter that keeps state, and one that does not."""
    batch = stocks(EVENTS)
    plain, kept = channel(folder / "stateless"), channel(folder / "stateful")
    plain.space.derive_channel("some", "stocks", filter="{ return input.price > 0.9; }")
    source = "{ double by = input.price - state.last; state.last = input.price; return by > 0.9; }"
    kept.space.derive_channel("some", "stocks", filter=source, state={"last": 0.0})
    yield Row(
        "publish with a stateful filter", "a stateless one", *submitted(kept, plain, batch), EVENTS, "events", goal=0.83
    )


def producers(folder: Path) -> Iterator[Row]:
    """The same with many producers in a commit, each of which has a state of its own."""
    count = 4 * PRODUCERS
    who = np.char.add("p", (np.arange(count) // 4).astype(str))
    batch = stocks(count).append_column("who", pa.array(who))
    plain, kept = channel(folder / "stateless producers"), channel(folder / "stateful producers")
    plain.space.derive_channel("some", "stocks", filter="{ return input.price > 0.9; }")
    source = "{ double by = input.price - state.last; state.last = input.price; return by > 0.9; }"
    kept.space.derive_channel("some", "stocks", filter=source, state={"last": 0.0})

    def publish(one: Channel) -> None:
        one.space.publish([Submission("stocks", batch, columns=Columns(producer="who"))])

    for one in (kept, plain):
        publish(one)
    times = side_by_side(partial(publish, kept), partial(publish, plain))
    what = f"publish events of {PRODUCERS} producers with a stateful filter"
    yield Row(what, "a stateless one", *times, count, "events")
    for one, source in ((plain, "output.price = input.price"), (kept, "output.price = state.sum += input.price")):
        state = {"sum": 0.0} if one is kept else None
        one.space.drop_channel("some")
        one.space.derive_channel("made", "stocks", transform=f"{{ {source}; return 1; }}", type=PRICE, state=state)
        publish(one)
    times = side_by_side(partial(publish, kept), partial(publish, plain))
    yield Row(what.replace("filter", "transform"), "a stateless one", *times, count, "events")


def selections(folder: Path) -> Iterator[Row]:
    """The same events for a subscriber: by a derived channel, by a filter where they are read, or after reading."""
    batch = stocks(EVENTS)
    for kept in KEPT:
        source = f"{{ return input.price < {1 / kept}; }}"
        parent = channel(folder / f"kept{kept}")
        derived = parent.space.derive_channel("some", "stocks", filter=source)
        plain = channel(folder / f"all{kept}")

        def by_derived(parent: Channel = parent, derived: Channel = derived) -> None:
            parent.submit(batch)
            count(derived)

        def by_filter(plain: Channel = plain, source: str = source) -> None:
            plain.submit(batch)
            count(plain, source)

        by_derived()
        by_filter()
        times = side_by_side(by_derived, by_filter)
        yield Row(f"publish, and read 1 of {kept} derived", "filter where it is read", *times, EVENTS, "events", goal=1)
        reading = side_by_side(partial(count, derived, None, "earliest"), partial(count, plain, source, "earliest"))
        yield Row(f"read 1 of {kept} derived", "filter where it is read", *reading, None, "events", goal=1)
        after = side_by_side(partial(count, derived, None, "earliest"), partial(kept_after, plain, 1 / kept))
        yield Row(f"read 1 of {kept} derived", "select after reading", *after, None, "events", goal=1)


def first_events(folder: Path) -> Iterator[Row]:
    """The first event under other parameters or other code, and an event as such."""
    parent, plain = channel(folder / "changes"), channel(folder / "changed")
    for one in (parent, plain):
        one.space.derive_channel(
            "some", "stocks", filter="{ return input.price >= param.least; }", parameters={"least": 0.0}
        )
    event = stocks(1)

    def changed() -> None:
        parent.space.set_parameters("some", {"least": 0.0})
        parent.submit(event)

    def replaced() -> None:
        parent.space.replace_channel("some", filter="{ return input.price >= param.most; }", parameters={"most": 0.0})
        parent.submit(event)

    for run, what in ((changed, "changed parameters"), (replaced, "replaced code")):
        run()
        plain.submit(event)
        times = side_by_side(run, lambda: plain.submit(event), repeats=20)
        yield Row(f"first event under {what}", "one event", *times, 1, "event", goal=0.5)


def channel(root: Path) -> Channel:
    return ChannelSpace.create(str(root)).create_channel("stocks", STOCK)


def stocks(count: int) -> pa.RecordBatch:
    chance = np.random.default_rng(7)
    columns: dict[str, Any] = {
        "id": np.arange(count),
        "price": chance.random(count),
        "volume": chance.integers(0, 100, count, dtype=np.int32),
        "day": np.zeros(count, np.int32),
    }
    return pa.RecordBatch.from_pydict(columns)


def submitted(first: Channel, second: Channel, batch: pa.RecordBatch) -> tuple[float, float]:
    for one in (first, second):
        one.submit(batch)
    return side_by_side(lambda: first.submit(batch), lambda: second.submit(batch))


def count(of: Channel, source: str | None = None, start: str = "latest") -> int:
    """How many events a subscriber gets of the last commit, or of all."""
    where: Any = f"{of.space.history.catch_up().version}.0.0" if start == "latest" else start
    subscription = of.subscribe(start=where, filter=source)
    return sum(delivery.batch.num_rows for delivery in subscription.deliveries())


def kept_after(of: Channel, least: float) -> int:
    batches = [delivery.batch for delivery in of.subscribe(start="earliest").deliveries()]
    return sum(pc.sum(pc.less(batch["price"], least)).as_py() or 0 for batch in batches)
