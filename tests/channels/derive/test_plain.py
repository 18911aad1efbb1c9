"""Interpreted programs do what kernels do: events, states, traps."""

from __future__ import annotations

import pickle
import random
from typing import Any

import ecode
from pbio_spark.channels import Channel, ChannelSpace, Source
from tests.channels.derive.test_replay import EVENT, FILTERS, PARAMETERS, STATE, SUM, TRANSFORMS
from tests.channels.spaces import values

UNUSED = ecode.service("double unused(double x)", lambda x: x)


def states(channel: Channel) -> dict[str, str]:
    held = channel.space.history.catch_up().derived.states[channel.info.id]
    return {producer: one.text for producer, one in held.items()}


def test_the_interpreter_and_kernels_make_the_same(space: ChannelSpace) -> None:
    chance = random.Random(11)
    base = ChannelSpace.open(space.root, source=Source(services=[UNUSED])).create_channel("base", EVENT)
    pairs = []
    made = [(type_, one) for type_ in (EVENT, SUM) for one in TRANSFORMS[type_.name]]
    for number, (filter_, (own, transform)) in enumerate(zip(FILTERS, made, strict=False)):
        pair = [
            base.space.derive_channel(
                f"{number}-{len(services)}", "base", filter=filter_, transform=transform, type=own,
                parameters=PARAMETERS, state=STATE, services=services,
            )
            for services in ([], ["double unused(double x)"])
        ]  # fmt: skip
        pairs.append(pair)
    for _ in range(5):
        rows: list[dict[str, Any]] = [
            {
                "n": chance.randint(-3, 9),
                "x": chance.choice([0.0, -0.0, 1.5, 1e300, float("inf")]),
                "s": chance.choice("aé"),
            }
            for _ in range(12)
        ]
        base.submit(rows, producer=chance.choice("pq"))
    for kernel, plain in pairs:
        assert [repr(row) for row in values(kernel)] == [repr(row) for row in values(plain)]
        assert states(kernel) == states(plain)
    reports = base.space.history.catch_up().derived.reports
    counts = [[[one.trapped for one in reports[channel.info.id].values()] for channel in pair] for pair in pairs]
    assert all(kernel == plain for kernel, plain in counts)
    assert any(kernel != [0] for kernel, _ in counts)


def test_a_deriver_travels_after_it_has_run(space: ChannelSpace) -> None:
    base = ChannelSpace.open(space.root, source=Source(services=[ecode.service("double size(double x)", abs)]))
    base.create_channel("base", EVENT)
    code = {"filter": "{ static int n = 0; n++; return size(input.x) > 1; }", "services": ["double size(double x)"]}
    derived = base.derive_channel("large", "base", **code)
    base.channel("base").submit([{"n": 1, "x": -2.0, "s": "a"}], producer="p")
    assert len(values(derived)) == 1
    assert pickle.loads(pickle.dumps(base._deriver)).source.name == base.source.name
