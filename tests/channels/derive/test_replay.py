"""The events and states of any derivations equal those of an independent replay of the log."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

import ecode
from ecode.types import FLOAT64, INT64, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Modulator, Source, Submission
from pbio_spark.channels.publish import late
from pbio_spark.errors import PbioError
from tests.channels.derive.replay import check
from tests.channels.spaces import values

LONG = bool(os.environ.get("PBIO_LONG"))
EVENT = record("event", [Field("n", INT64), Field("x", FLOAT64), Field("s", STRING)])
SUM = record("sum", [Field("count", INT64), Field("total", FLOAT64), Field("last", STRING)])
TWICE = ecode.service("double twice(double x)", lambda x: 2 * x)

PARAMETERS = {"by": 2, "scale": 0.5, "tag": "a", "bounds": [1.0, 3.0]}
STATE = {"n": 0, "sum": 0.0, "seen": "", "last": [0.0, 0.0]}
FILTERS = [
    "{ return input.n % param.by != 0; }",
    "{ return input.x >= param.bounds[0] && input.x < param.bounds[param.bounds_count - 1]; }",
    "{ static int calls = 0; calls++; return calls % param.by; }",
    "{ state.n += 1; state.sum += input.x * param.scale; state.last[input.n % 2] = input.x; return state.n % 3; }",
    "{ state.n += 1; if (input.n % 5 == 0) return 7 / (input.n % 5); return input.s == param.tag; }",
    "{ if (input.s == state.seen) return 0; state.seen = input.s; return 1; }",
]
TRANSFORMS = {
    EVENT.name: [
        "{ output.n = input.n + param.by; output.x = param.scale; output.s = input.s; return 1; }",
        "{ static int calls = 0; calls++; output = input; output.n = calls; return input.n != 4; }",
    ],
    SUM.name: [
        "{ output.count = input.n; output.total = input.x * param.scale; output.last = input.s; return input.n != 3; }",
        '{ static double most = 0; static string who = ""; if (input.x > most) { most = input.x; who = input.s; } '
        "output.total = most; output.last = who; return 1; }",
        "{ state.n += 1; state.seen = input.s; output.count = state.n; output.total = state.last[0]; "
        "return 10 / (input.n - 2) != 9; }",
    ],
}
DEQUEUES = {
    EVENT.name: [
        "{ return input.n != state.n; }",
        "{ output.x = state.sum; output.n = input.n + 1; return 1; }",
        "{ static int left = 0; left++; output.n = 100 / (input.n - 4); return left % 4; }",
    ],
    SUM.name: [
        "{ state.n += 1; output.count = state.n; return 1; }",
        "{ return input.last != param.tag; }",
    ],
}
PERIODS = {
    EVENT.name: ["{ output.n = state.n; output.x = state.sum; output.s = state.seen; state.sum = 0; return 1; }"],
    SUM.name: [
        "{ output.count = emitted; output.total = state.sum; return emitted < 2 ? 2 : 1; }",
        "{ static int runs = 0; runs++; output.count = runs; state.n = 0; return 1 + 1 / (runs % 3); }",
    ],
}


def modulator(chance: random.Random, *, is_same_type: bool = False, block: str | None = None) -> Modulator:
    """Any code that there is."""
    is_made = not is_same_type and chance.random() < 0.5
    own = SUM if is_made else EVENT
    is_transformed = is_made or chance.random() < 0.3
    has = chance.random() < 0.7
    period = chance.choice(PERIODS[own.name]) if has and chance.random() < 0.5 else None
    return Modulator(
        filter=chance.choice(FILTERS) if chance.random() < 0.7 else None,
        transform=chance.choice(TRANSFORMS[own.name]) if is_transformed else None,
        type=own if is_transformed else None,
        parameters=PARAMETERS if block is None else block,
        state=STATE,
        dequeue=chance.choice(DEQUEUES[own.name]) if has and chance.random() < 0.5 else None,
        period=period,
        every=None if period is None else chance.choice([1, 5, 60]),
        services=["double twice(double x)"] if chance.random() < 0.2 else (),
        max_traps=chance.choice([2, 1000]),
    )


class Actor:
    """Does anything to a space, through several objects of it, at a clock of its own."""

    def __init__(self, space: ChannelSpace, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance = chance
        self.seconds = 1_000
        monkeypatch.setattr(late, "now", lambda: self.seconds * 1_000_000)
        services = [TWICE]
        names = ["one", "two", "one"]
        self.spaces = [ChannelSpace.open(space.root, source=Source(name, services=services)) for name in names]
        space.create_channel("base", EVENT)
        space.create_parameters("block", PARAMETERS)
        self.parents = {"base": 0}
        self.derived: list[str] = []
        self.made = 0
        self.sent: dict[str, int] = {}
        self.actions: list[Callable[[ChannelSpace], Any]] = [
            *[self.publish] * 8, self.derive, self.derive, self.change, self.change, self.replace, self.drop,
        ]  # fmt: skip

    def step(self) -> None:
        self.seconds += self.chance.choice([0, 1, 3, 61, -2, -100])
        space = self.chance.choice(self.spaces)
        self.chance.choice(self.actions)(space)

    def event(self) -> dict[str, Any]:
        chance = self.chance
        return {"n": chance.randint(0, 9), "x": chance.choice([0.0, 1.5, 2.5, -3.25]), "s": chance.choice("abé")}

    def publish(self, space: ChannelSpace) -> None:
        submissions = []
        for _ in range(self.chance.randint(1, 3)):
            events = [self.event() for _ in range(self.chance.randint(1, 6))]
            producer = self.chance.choice(["p", "q", "r", None])
            if producer in [one.producer for one in submissions]:
                continue
            first = self.sent.get(producer, 0) if producer else None
            if producer and first and self.chance.random() < 0.3:  # some of them again
                first -= 1
            if producer:
                self.sent[producer] = max(self.sent.get(producer, 0), first + len(events))
            submissions.append(Submission("base", events, producer=producer, sequence=first))
        space.publish(submissions)

    def derive(self, space: ChannelSpace) -> None:
        if len(self.derived) >= 6:
            return
        self.made += 1
        parent = self.chance.choice(["base", "base", *(name for name in self.derived if name.startswith("e"))])
        block = self.chance.choice([None, "block"])
        is_same = self.chance.random() < 0.5
        name = f"{'e' if is_same else 'm'}{self.made}"
        space.derive_channel(name, parent, modulator(self.chance, is_same_type=is_same, block=block))
        self.derived.append(name)

    def change(self, space: ChannelSpace) -> None:
        chance = self.chance
        values = {
            "by": chance.randint(0, 4), "scale": chance.choice([1, -0.5]), "tag": chance.choice("ab"),
            "bounds": [-5.0, *[2.0] * chance.randint(0, 2), 5.0],
        }  # fmt: skip
        own = [name for name in self.derived if not space.channel(name).info.derivation.shared]  # type: ignore[union-attr]
        some = dict(chance.sample(sorted(values.items()), 2))
        space.set_parameters(chance.choice(["block", *own]), some, lazy=chance.choice([None, None, 1000]))

    def replace(self, space: ChannelSpace) -> None:
        names = [name for name in self.derived if name.startswith("e")]
        if names:
            space.replace_channel(self.chance.choice(names), modulator(self.chance, is_same_type=True))

    def drop(self, space: ChannelSpace) -> None:
        if self.derived and self.chance.random() < 0.5:
            name = self.chance.choice(self.derived)
            info = space.channel(name).info
            if space.history.state.children(info.id):
                with pytest.raises(PbioError, match="before the channels derived from it"):
                    space.drop_channel(name)
                return
            space.drop_channel(name)
            self.derived.remove(name)


@pytest.mark.parametrize("seed", range(300 if LONG else 2))
def test_anything_that_is_done_to_derivations(space: ChannelSpace, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    actor = Actor(space, random.Random(seed), monkeypatch)
    for _ in range(40):
        actor.step()
    check(space, [TWICE])


def test_static_variables_stay_with_their_program_when_another_joins_it(space: ChannelSpace) -> None:
    first = "{ static int calls = 0; calls++; return calls % 2; }"
    base = space.create_channel("base", EVENT)
    odd = space.derive_channel("odd", "base", filter=first)
    rows = [{"n": n, "x": 0.0, "s": ""} for n in range(3)]
    base.submit(rows)
    negative = "{ output.n = -input.n; return 1; }"
    space.replace_channel("odd", filter=first, transform=negative, type=EVENT)
    base.submit(rows)
    space.replace_channel("odd", filter=first)
    base.submit(rows)
    assert [row["n"] for row in values(odd)] == [0, 2, -1, 0, 2]
    check(space)


def test_code_that_its_parents_new_type_no_longer_suits_can_be_replaced(space: ChannelSpace) -> None:
    base = space.create_channel("base", EVENT)
    space.derive_channel("middle", "base", filter="{ return 1; }")
    last = space.derive_channel("last", "middle", filter="{ return input.n; }")
    space.replace_channel("middle", transform="{ output.count = input.n; return 1; }", type=SUM)
    base.submit([{"n": 1, "x": 0.0, "s": ""}])
    assert "refused" in last.status
    assert "'n'" in last.status
    space.replace_channel("last", filter="{ return input.count; }")
    base.submit([{"n": 2, "x": 0.0, "s": ""}])
    assert last.status == "accepted"
    assert [row["count"] for row in values(space.channel("last"))] == [2]
