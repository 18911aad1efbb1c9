"""Publishing through a concentrator has the same results, errors and events as publishing directly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.channels import (
    Channel,
    ChannelSpace,
    Columns,
    Concentrator,
    Published,
    Source,
    Submission,
)
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, NEW, OLD, READING, everything, reading

pytestmark = pytest.mark.usefixtures("sockets")

WHEN = datetime(2026, 5, 1, tzinfo=UTC)


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def plain(_: ChannelSpace, a: Channel) -> object:
    return a.submit([{"n": 1}, {"n": 2}])


def numbered_twice(_: ChannelSpace, a: Channel) -> object:
    return [a.submit([{"n": n} for n in range(k)], producer="p", sequence=0) for k in (2, 2, 5)]


def out_of_order_in_one(space: ChannelSpace, _: Channel) -> object:
    return space.publish([Submission("a", [{"n": n}], producer="p", sequence=n) for n in (5, 3)])


def several_channels(space: ChannelSpace, _: Channel) -> object:
    said = [Submission(name, [{"n": n}], producer="p", sequence=n) for n in range(3) for name in ("b", "a")]
    return space.publish(said)


def by_columns(space: ChannelSpace, _: Channel) -> object:
    rows = table(
        n=pa.array([1, 2, 3, 4, 5], pa.int32()),
        to=["a", "b", "a", "b", "a"],
        who=["x", "y", "x", None, "z"],
        at=pa.array([WHEN] * 4 + [datetime(2027, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    )
    return space.publish([Submission(None, rows, columns=Columns("to", "who", None, "at"))])


def numbers_with_gaps(space: ChannelSpace, _: Channel) -> object:
    rows = table(n=pa.array([1, 2, 3], pa.int32()), k=[10, 40, 20], who=["x"] * 3)
    times = Columns(producer="who", sequence="k")
    return [space.publish([Submission("a", rows, columns=times)]) for _ in range(2)]


def of_a_wider_type(_: ChannelSpace, a: Channel) -> object:
    rows = table(n=pa.array([1, 2], pa.int32()), note=["new", None])
    return [a.submit(rows), a.submit(rows, event_time=WHEN), a.submit([{"n": 3}], event_time=WHEN)]


def lacking(_: ChannelSpace, a: Channel) -> object:
    return a.submit([{"m": 1}])


def beyond(_: ChannelSpace, a: Channel) -> object:
    return a.submit([{"n": 1}, {"n": 2**40}])


def nothing(_: ChannelSpace, a: Channel) -> object:
    return a.submit([])


def to_nowhere(space: ChannelSpace, _: Channel) -> object:
    return space.publish([Submission("ab", [{"n": 1}])])


def with_a_transform(space: ChannelSpace, _: Channel) -> object:
    return space.channel("load").submit([{"total": 4.0, "cpus": 2}], format=NEW)


def of_variable_length(space: ChannelSpace, _: Channel) -> object:
    return space.channel("readings").submit([reading(n) for n in range(7)], producer="p", sequence=3)


def as_a_batch(space: ChannelSpace, _: Channel) -> object:
    return [space.publish([Submission("a", [{"n": 1}])], transaction=("app", 3)) for _ in range(2)]


def in_sync(_: ChannelSpace, a: Channel) -> object:
    return a.submit([{"n": 1}], delivery="sync")


def derived(space: ChannelSpace, a: Channel) -> object:
    space.derive_channel("odd", "a", filter="{ return input.n % 2; }")
    total = "{ state.total = state.total + input.n; output.n = state.total; return 1; }"
    space.derive_channel("sums", "a", transform=total, type=COUNT, state={"total": 0})
    return [a.submit([{"n": n} for n in range(k, k + 4)], producer="p", sequence=k) for k in (0, 4)]


def trapping(space: ChannelSpace, a: Channel) -> object:
    space.derive_channel("shares", "a", filter="{ return 12 / input.n; }")
    return a.submit([{"n": n} for n in (0, 1, 2)])


CASES = [
    plain,
    numbered_twice,
    out_of_order_in_one,
    several_channels,
    by_columns,
    numbers_with_gaps,
    of_a_wider_type,
    lacking,
    beyond,
    nothing,
    to_nowhere,
    with_a_transform,
    of_variable_length,
    as_a_batch,
    in_sync,
    derived,
    trapping,
]


def space_of(root: Path) -> ChannelSpace:
    space = ChannelSpace.create(str(root))
    for name in "ab":
        space.create_channel(name, COUNT)
    space.create_channel("load", OLD)
    space.create_channel("readings", READING)
    return space


def shown(error: PbioError, root: str) -> tuple[str, ...]:
    return error.code, str(error).replace(root, "ROOT")


def run(root: Path, case: Callable[[ChannelSpace, Channel], object]) -> tuple[object, object]:
    """What a case returns or raises, and what there is then on all channels."""
    space = ChannelSpace.open(str(root))
    result: object
    try:
        result = case(space, space.channel("a"))
    except PbioError as error:
        result = shown(error, str(root))
    events = {
        info.name: [
            (one.position, one.producer, one.sequence, one.event_time, one.values)
            for one in everything(space.channel(info.name))
        ]
        for info in space.channels()
    }
    reports = [(one.channel, one.source, one.status, one.seen, one.made, one.trapped) for one in space.derivations()]
    return result, (events, reports)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_publication_has_the_same_result_either_way(
    tmp_path: Path, case: Callable[[ChannelSpace, Channel], object]
) -> None:
    space_of(tmp_path / "direct")
    through = space_of(tmp_path / "through")
    expected = run(tmp_path / "direct", case)
    with Concentrator(ChannelSpace.open(through.root, concentrator="off")) as concentrator:
        found = run(tmp_path / "through", case)
    assert found == expected
    fails = isinstance(expected[0], tuple)
    goes_directly = case in (nothing, as_a_batch, in_sync) or fails
    assert (concentrator.totals.publications > 0) != goes_directly


def test_a_source_with_services_derives_itself(tmp_path: Path) -> None:
    space_of(tmp_path / "space")
    space = ChannelSpace.open(str(tmp_path / "space"), source=Source("probe", services=["process"]))
    a = space.channel("a")
    with Concentrator(ChannelSpace.open(space.root, concentrator="off")) as concentrator:
        a.submit([{"n": 1}])
        assert concentrator.totals.publications == 1  # nothing is derived so far
        space.derive_channel("mine", "a", filter="{ return process() > 0; }", services=["process"])
        a.submit([{"n": 2}])
        assert concentrator.totals.publications == 1
    assert [event.values for event in everything(space.channel("mine"))] == [{"n": 2}]
    assert [(one.channel, one.source, one.status) for one in space.derivations()] == [("mine", "probe", "accepted")]


def test_many_formats_and_types_at_once(tmp_path: Path) -> None:
    """Publications of other threads meanwhile do not change what one gets."""
    space = space_of(tmp_path / "space")

    def submit(number: int) -> Published:
        rows = pa.RecordBatch.from_pylist([{"n": number, "x": 0.5}] if number % 3 == 0 else [{"n": number}])
        return space.channel("ab"[number % 2]).submit(rows, producer=f"p{number % 5}" if number % 4 else None)

    with Concentrator(ChannelSpace.open(space.root, concentrator="off")) as concentrator:
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(submit, range(80)))
        assert concentrator.totals.publications == 80
        assert concentrator.totals.commits < 80
    assert all(one.events == 1 and one.known == 0 for one in results)
    found = sorted(event.values["n"] for name in "ab" for event in everything(space.channel(name)))
    assert found == list(range(80))
