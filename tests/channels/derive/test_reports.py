"""`ChannelSpace.derivations`: the reports of each source on each derived channel."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ecode.types import FLOAT64, INT32, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace, DerivationReport, Source, derivations_to_arrow

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64), Field("volume", INT32)])


@pytest.fixture
def stocks(space: ChannelSpace) -> Channel:
    return space.create_channel("stocks", STOCK)


def by_source(space: ChannelSpace) -> dict[tuple[str, str | None], DerivationReport]:
    return {(row.channel, row.source): row for row in space.derivations()}


def test_each_source_has_a_row_that_counts_what_it_did(stocks: Channel) -> None:
    space = stocks.space
    assert space.derivations() == []
    assert derivations_to_arrow([]).num_rows == 0
    space.derive_channel("high", "stocks", filter="{ return 100 / input.volume > 0; }")
    space.derive_channel("loaded", "stocks", filter="{ return load() >= 0; }", services=["load"])
    [high, loaded] = space.derivations()
    assert (high.source, high.status, high.version, high.seen, high.reported) == (None, "pending", 0, 0, None)
    assert (loaded.channel, loaded.parent, loaded.status, loaded.reason) == ("loaded", "stocks", "pending", None)

    a = ChannelSpace.open(space.root, source=Source("a", services=["load"]))
    b = ChannelSpace.open(space.root, source=Source("b"))
    for where, volumes in ((a, [1, 200, 0]), (a, [2]), (b, [300, 4])):
        where.channel("stocks").submit([{"name": "x", "price": 1.0, "volume": volume} for volume in volumes])
    rows = by_source(space)
    assert sorted(rows, key=str) == [("high", "a"), ("high", "b"), ("loaded", "a"), ("loaded", "b")]
    counts = {key: (row.seen, row.made, row.refused, row.trapped) for key, row in rows.items()}
    assert counts["high", "a"] == (4, 2, 1, 1)
    assert counts["high", "b"] == (2, 1, 1, 0)
    assert counts["loaded", "a"] == (4, 4, 0, 0)
    assert counts["loaded", "b"] == (0, 0, 0, 0)
    high = rows["high", "a"]
    assert high.bytes * 2 == high.parent_bytes > 0
    assert high.reported is not None
    assert abs(datetime.now(UTC) - high.reported).total_seconds() < 3600
    assert rows["loaded", "b"].status == "refused"
    assert "does not grant" in (rows["loaded", "b"].reason or "")
    assert {row.status for key, row in rows.items() if key != ("loaded", "b")} == {"accepted"}

    version = space.replace_channel("high", filter="{ return 1; }")
    assert by_source(space)["high", "a"].status == "pending"
    a.channel("stocks").submit([{"name": "x", "price": 1.0, "volume": 0}])
    rows = by_source(space)
    assert (rows["high", "a"].status, rows["high", "a"].version, rows["high", "b"].status) == (
        "accepted",
        version,
        "pending",
    )
    table = derivations_to_arrow(space.derivations())
    assert table.column("seen").to_pylist() == [5, 2, 5, 0]
    assert table.column("reported").type.tz == "UTC"
    space.drop_channel("high")
    assert {row.channel for row in space.derivations()} == {"loaded"}


def test_how_a_channel_was_made_over_time(stocks: Channel) -> None:
    space = stocks.space
    rows = [{"name": "x", "price": float(price), "volume": 1} for price in range(10)]
    assert stocks.derivation_versions() == []
    space.create_parameters("bounds", {"least": 3.0})
    space.derive_channel("high", "stocks", filter="{ return input.price > param.least; }", parameters={"least": 5.0})
    first = space.channel("high").info.id
    stocks.submit(rows)
    moved = space.set_parameters("high", {"least": 7.0})
    stocks.submit(rows)
    stocks.submit(rows)
    lower = space.replace_channel("high", filter="{ return input.price < param.least; }", parameters="bounds")
    stocks.submit(rows)
    shared = space.set_parameters("bounds", {"least": 2.0})
    stocks.submit(rows)
    own = space.replace_channel("high", filter="{ return 0; }")
    space.set_parameters("bounds", {"least": 9.0})
    stocks.submit(rows)
    versions = space.channel("high").derivation_versions()
    assert [(one.version, one.change, one.events, one.parameters) for one in versions] == [
        (first, "created", 4, {"least": 5.0}),
        (moved, "parameters", 4, {"least": 7.0}),
        (lower, "replaced", 3, {"least": 3.0}),
        (shared, "parameters", 2, {"least": 2.0}),
        (own, "replaced", 0, {}),
    ]
    assert [one.version for one in versions if one.filter == versions[2].filter] == [lower, shared]
    made = {event.derivation for event in space.channel("high").subscribe(start="earliest").events()}
    assert made == {one.version for one in versions if one.events}
    table = derivations_to_arrow(versions)
    assert table.column("parameters").to_pylist()[0] == '{"least": 5.0}'
    assert table.column("events").to_pylist() == [4, 4, 3, 2, 0]


def test_what_code_costs_is_said(stocks: Channel) -> None:
    space = stocks.space
    space.derive_channel("high", "stocks", filter="{ return input.price > 1.0; }")
    [little] = space.derivations()
    loop = "{ int i; int n = 0; for (i = 0; i < 100; i++) n += input.volume; return n; }"
    space.replace_channel("high", filter=loop)
    [more] = space.derivations()
    assert 0 < (little.cost or 0) < 10 < 100 < (more.cost or 0) < 2000
    other = record("stock", [Field("name", STRING)])
    space.derive_channel("part", "stocks", transform="{ output = input; return 1; }", type=STOCK)
    space.derive_channel("of part", "part", filter="{ return input.volume; }")
    space.replace_channel("part", transform="{ output.name = input.name; return 1; }", type=other)
    assert {row.channel: row.cost for row in space.derivations()}["of part"] is None
    assert derivations_to_arrow(space.derivations()).column("cost").null_count == 1


def test_events_of_period_do_not_hide_the_refused_ones(stocks: Channel) -> None:
    stocks.space.derive_channel("twice", "stocks", period="{ return emitted < 3 ? 2 : 0; }", every=1e-6)
    for _ in range(2):  # the first begins to wait
        stocks.submit([{"name": "x", "price": 1.0, "volume": 1}])
    [row] = stocks.space.derivations()
    assert (row.seen, row.made, row.refused) == (2, 5, 0)
    some = "{ output.volume = emitted; return emitted < 3 ? 2 : 0; }"
    few = stocks.space.derive_channel(
        "few", "stocks", filter="{ return 0; }", dequeue="{ return input.volume > 0; }", period=some, every=1e-6
    )
    for _ in range(2):
        stocks.submit([{"name": "x", "price": 1.0, "volume": 1}] * 4)
    again = ChannelSpace.open(stocks.space.root)
    [row] = [one for one in again.derivations() if one.channel == "few"]
    assert len(list(few.subscribe(start="earliest").events())) == 2
    assert (row.seen, row.made, row.refused, row.trapped) == (8, 2, 9, 0)


def test_a_source_is_named_where_it_derives_nothing_any_more(space: ChannelSpace, stocks: Channel) -> None:
    space.derive_channel("bad", "stocks", filter="{ return 1 / (input.volume - input.volume); }", max_traps=1)
    for _ in range(2):
        published = stocks.submit([{"name": "x", "price": 1.0, "volume": 1}])
    assert space.channel("bad").status.startswith("suspended")
    assert published.version is not None
    entry = space.history.entry(published.version)
    assert entry is not None
    assert entry.change.source == space.source.name
    assert entry.change.made == ()


def test_a_lost_format_hides_the_cost_and_nothing_else(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("c", record("r", [Field("x", INT32)]))
    made = record("o", [Field("y", INT32)])
    derived = space.derive_channel("d", "c", transform="{ output.y = input.x; return 1; }", type=made)
    (tmp_path / "space" / "_formats" / derived.info.format).unlink()
    assert [(report.channel, report.cost) for report in ChannelSpace.open(space.folder.root).derivations()] == [
        ("d", None)
    ]
