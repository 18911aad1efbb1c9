"""Channels with equal derivations share events; parameters compile nothing; filters keep events as they are."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from ecode.native import compile as native
from ecode.types import FLOAT64, INT64, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Columns, Submission
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from tests.channels.spaces import again, everything, values

POINT = record("point", [Field("x", INT64), Field("y", FLOAT64)])
DOUBLED = "{ output.x = 2 * input.x; output.y = param.gain * input.y; return 1; }"


def data_bytes(space: ChannelSpace) -> int:
    return sum(space.folder.size(f"data/{name}") or 0 for name in space.folder.names("data"))


def test_channels_derived_alike_share_bytes(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    alone = space.derive_channel("alone", "points", filter="{ return input.x % 2; }")
    points.submit([{"x": x, "y": 0.0} for x in range(1000)])
    before = data_bytes(space)
    many = [
        space.derive_channel(
            f"d{i}", "points", filter=f"{{ return input.x % 2; }} /* {i} */" if i % 2 else "{return input.x%2;}"
        )
        for i in range(20)
    ]
    below = [space.derive_channel(f"b{i}", f"d{i}", filter="{ return input.x > 990; }") for i in range(20)]
    points.submit([{"x": x, "y": 0.0} for x in range(1000)], producer="p", sequence=0)
    assert data_bytes(space) < 2.1 * before
    positions = {tuple(event.position for event in everything(channel)) for channel in many}
    assert positions == {tuple(event.position for event in everything(alone))[500:]}
    assert all([row["x"] for row in values(channel)] == [991, 993, 995, 997, 999] for channel in below)
    assert {event.producer for event in everything(below[7])} == {"p"}
    assert list(problems(again(space))) == []


def test_a_filter_that_keeps_whole_groups_writes_no_bytes(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    rows = [{"x": x, "y": 0.0} for x in range(1000)]
    points.submit(rows)
    before = data_bytes(space)
    everything_ = [space.derive_channel(f"d{i}", "points", filter=f"{{ return input.x > {-i}; }}") for i in range(1, 9)]
    points.submit(rows)
    assert data_bytes(space) == 2 * before
    assert all(values(channel) == rows for channel in everything_)
    most = space.derive_channel("most", "d1", filter="{ return input.x > 1; }")
    same = space.derive_channel("same", "d1", filter="{ /* the same events */ return input.x >= 2; }")
    points.submit(rows)
    assert data_bytes(space) < 4.1 * before
    assert values(most) == values(same) == rows[2:]
    assert [event.position for event in everything(most)] == [event.position for event in everything(same)]
    assert list(problems(again(space))) == []


@pytest.mark.parametrize("seed", range(6))
def test_events_that_stay_where_they_are_keep_the_order_of_their_producers(space: ChannelSpace, seed: int) -> None:
    chance = random.Random(seed)
    space.create_channel("points", POINT)
    tests = {"all": "1", "few": "input.x % 5 == 0", "low": "input.x < 60", "high": "input.x >= 60"}
    for name, test in tests.items():
        space.derive_channel(name, "points", filter=f"{{ return {test}; }}")
        space.derive_channel(f"below_{name}", name, filter="{ return input.y > 0 || input.x < 30; }")
        space.derive_channel(f"summed_{name}", name, filter="{ static int n = 0; n += 1; return input.x >= 60 || n; }")
    sent: dict[str, list[dict[str, Any]]] = {}
    for _ in range(3):
        submissions = []
        for _ in range(chance.randrange(1, 5)):
            who, low = chance.choice("pq"), chance.choice([0, 40, 60])
            rows = [{"x": low + chance.randrange(40), "y": float(chance.randrange(2))} for _ in range(20)]
            rows = rows[: chance.choice([1, 3, 20])]
            submissions.append(Submission("points", rows, producer=who, sequence=len(sent.setdefault(who, []))))
            sent[who] += rows
        space.publish(submissions)
    kept = {"all": lambda x: True, "few": lambda x: x % 5 == 0, "low": lambda x: x < 60, "high": lambda x: x >= 60}
    for name, test in kept.items():
        for who, rows in sent.items():
            expected = [row for row in rows if test(row["x"])]
            assert of(space, name, who) == of(space, f"summed_{name}", who) == expected
            assert of(space, f"below_{name}", who) == [row for row in expected if row["y"] > 0 or row["x"] < 30]
    assert list(problems(again(space))) == []
    space.compact()
    assert list(problems(again(space))) == []


def of(space: ChannelSpace, name: str, producer: str) -> list[dict[str, Any]]:
    return [event.values for event in everything(again(space).channel(name)) if event.producer == producer]


def test_what_differs_is_not_shared(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    source = "{ return input.x / param.n > 0; }"  # 1 / 2 is 0, and 1 / 2.0 is not
    derived = [
        space.derive_channel(f"d{i}", "points", filter=source, parameters={"n": n}) for i, n in enumerate((2, 2.0, 1))
    ]
    points.submit([{"x": 1, "y": 0.0}])
    assert [len(values(channel)) for channel in derived] == [0, 1, 1]


def test_shared_events_survive_compaction_and_a_channel_that_goes(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    first, second = (space.derive_channel(name, "points", filter="{ return input.x % 2; }") for name in ("a", "b"))
    for x in range(4):
        points.submit([{"x": x, "y": 0.5}])
    space.drop_channel("a")
    assert space.compact() == 4
    space.vacuum()
    assert [row["x"] for row in values(second)] == [1, 3]
    assert list(problems(again(space))) == []
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        values(first)


def test_an_event_that_is_only_filtered_stays_as_it_is(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    positive = space.derive_channel("positive", "points", filter="{ return input.x > 0; }")
    alias = space.derive_channel("alias", "positive")
    wide = record("point", [*POINT.fields, Field("more", STRING)])
    rows = [{"x": x, "y": 0.5, "more": f"m{x}"} for x in (-1, 1, 2)]
    points.submit(rows, format=record_to_format(wide, "be32"))
    for channel in (positive, alias):
        assert [e.values for e in channel.subscribe({wide: print}, start="earliest").events()] == rows[1:]
        assert values(channel) == [{"x": x, "y": 0.5} for x in (1, 2)]


def test_a_filter_of_events_that_need_a_transform_sees_the_parents_type(space: ChannelSpace) -> None:
    old = record_to_format(POINT)
    new = evolve(
        old,
        record_to_format(record("point", [Field("z", INT64)]), "sparc"),
        "{ old.x = new.z + 1; old.y = new.z; }",
    )
    points = space.create_channel("points", old)
    high = space.derive_channel("high", "points", filter="{ return input.x > 5; }")
    points.submit([{"z": z} for z in range(3, 8)], format=new)
    assert values(high) == [{"x": z + 1, "y": float(z)} for z in range(5, 8)]


def test_parameters_compile_nothing(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    points = space.create_channel("points", POINT)
    kept = space.derive_channel("kept", "points", filter="{ return input.x >= param.m; }", parameters={"m": 0})
    gained = space.derive_channel("gained", "points", transform=DOUBLED, type=POINT, parameters={"gain": 1.0})
    points.submit([{"x": 1, "y": 1.0}])

    def refuse(*_: object) -> None:
        raise AssertionError("a change of parameters compiles")

    monkeypatch.setattr(native, "_compile", refuse)
    for n in range(5):
        space.set_parameters("kept", {"m": n})
        space.set_parameters("gained", {"gain": n / 2})
        points.submit([{"x": 2, "y": 1.0}])
    assert [row["x"] for row in values(kept)] == [1, 2, 2, 2]
    assert [row["y"] for row in values(gained)] == [1.0, 0.0, 0.5, 1.0, 1.5, 2.0]


def test_the_ends_of_parameters(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    ends = (-(2**63) + 1, 2**63 - 1, 0)
    channel = space.derive_channel("same", "points", filter="{ return input.x == param.m; }", parameters={"m": 1})
    for end in ends:
        space.set_parameters("same", {"m": end})
        points.submit([{"x": x, "y": 0.0} for x in ends])
    assert [row["x"] for row in values(channel)] == list(ends)


def test_a_long_chain_and_many_side_by_side(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    parent = "points"
    for i in range(1100):
        space.derive_channel(f"c{i}", parent, filter="{ return input.x > 0; }")
        parent = f"c{i}"
    for i in range(260):
        space.derive_channel(f"s{i}", "points", filter="{ return input.x > 1; }")
    points.submit([{"x": x, "y": 0.0} for x in range(4)])
    assert [row["x"] for row in values(space.channel("c1099"))] == [1, 2, 3]
    assert [row["x"] for row in values(space.channel("s259"))] == [2, 3]


@pytest.mark.parametrize("numbered", [False, True])
def test_submissions_of_one_publication_keep_their_order(space: ChannelSpace, numbered: bool) -> None:
    for name in ("a", "b"):
        space.create_channel(name, POINT)
    table = pa.table({"x": [1, 2], "y": [0.0, 0.0], "to": ["a", "b"], "seq": [0, 1]})
    columns = Columns(channel="to", sequence="seq" if numbered else None)
    space.publish(
        [
            Submission("b", [{"x": 0, "y": 0.0}], producer="p", sequence=0 if numbered else None),
            Submission(None, table if numbered else table.drop_columns(["seq"]), producer="p", columns=columns),
        ]
    )
    assert [row["x"] for row in values(space.channel("b"))] == [0, 2]


def test_a_filter_that_traps_stops_a_subscriber_only_if_it_wants_that(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    points.submit([{"x": x, "y": 0.0} for x in (2, 0, 5)])
    source = "{ return 10 / input.x > 1; }"
    with pytest.raises(PbioError, match="division by zero"):
        list(points.subscribe(start="earliest", filter=source).events())
    kept = points.subscribe(start="earliest", filter=source, mode="DROPMALFORMED", name="n")
    assert [event.values["x"] for event in kept.events()] == [2, 5]
    kept.acknowledge()
    assert list(points.subscribe(start="earliest", filter=source, mode="DROPMALFORMED", name="n").events()) == []


@pytest.mark.parametrize("options", [{"mode": "failfast"}, {"mode": "PERMISSIVE"}, {"on_reject": "dorp"}])
def test_words_that_a_subscription_does_not_know(space: ChannelSpace, options: dict[str, Any]) -> None:
    points = space.create_channel("points", POINT)
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        points.subscribe(**options)


@pytest.mark.parametrize("seed", range(6))
def test_random_derivations_against_a_model(space: ChannelSpace, seed: int) -> None:
    """Chains, equal and unequal programs, parameters that change, several submissions a publication."""
    rng = random.Random(seed)
    roots = ["a", "b"]
    for name in roots:
        space.create_channel(name, POINT)
    derived: dict[str, tuple[str, int | None, dict[str, int]]] = {}  # parent, modulus or a transform, parameters
    expected: dict[str, list[int]] = {name: [] for name in roots}
    spaces = [space, again(space)]

    def tell(name: str, x: int) -> None:
        expected[name].append(x)
        for child, (parent, modulus, block) in derived.items():
            if parent == name and modulus is None:
                tell(child, x + block["k"])
            elif parent == name and modulus is not None and x % modulus == block["k"]:
                tell(child, x)

    for step in range(60):
        own = rng.choice(spaces)
        choice = rng.random()
        if choice < 0.3 and len(derived) < 14:
            name, parent, k = f"d{step}", rng.choice([*roots, *derived]), rng.randrange(3)
            modulus = rng.choice([None, 2, 3])
            if modulus is None:
                source = "{ output.x = input.x + param.k; return 1; }"
                own.derive_channel(name, parent, transform=source, type=POINT, parameters={"k": k})
            else:
                source = f"{{ return input.x % {modulus} == param.k; }}"
                own.derive_channel(name, parent, filter=source, parameters={"k": k})
            derived[name], expected[name] = (parent, modulus, {"k": k}), []
        elif choice < 0.5 and derived:
            name = rng.choice([*derived])
            derived[name][2]["k"] = k = rng.randrange(3)
            own.set_parameters(name, {"k": k})
        else:
            submissions = []
            for _ in range(rng.randrange(1, 4)):
                xs = [rng.randrange(100) for _ in range(rng.randrange(1, 5))]
                if rng.random() < 0.5:
                    name = rng.choice([*roots, *derived])
                    submissions.append(Submission(name, [{"x": x, "y": 0.0} for x in xs], producer="p"))
                    told = [(name, x) for x in xs]
                else:
                    to = [rng.choice(roots) for _ in xs]
                    table = pa.table({"x": xs, "y": [0.0] * len(xs), "to": to})
                    submissions.append(Submission(None, table, producer="p", columns=Columns(channel="to")))
                    told = list(zip(to, xs, strict=True))
                for name, x in told:
                    tell(name, x)
            own.publish(submissions)
    for name, xs in expected.items():
        found = [row["x"] for row in values(again(space).channel(name))]
        # What was published straight into a derived channel and what was derived for it keep their own orders.
        assert (found if name in roots else sorted(found)) == (xs if name in roots else sorted(xs))
    assert list(problems(again(space))) == []
