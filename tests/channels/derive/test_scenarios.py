"""The applications of ECho and JECho, with their figures: stock trades, climate data, a viewer of a grid."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import log10
from typing import Any

import numpy as np
import pytest

from ecode.types import FLOAT64, INT32, STRING, Array, Field, record
from pbio_spark.channels import Channel, ChannelSpace, EagerSubscription, Event
from pbio_spark.channels.derive.modulator import Modulator
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire.encode import encode
from tests.channels.spaces import again, everything, values

TRADE = record("trade", [Field("symbol", STRING), Field("trade_price", FLOAT64)])
WIND = record("wind", [Field("wind_velocity", Array(FLOAT64, (253, 37)))])
AVERAGE = record("average", [Field("average_velocity", FLOAT64)])
HEADER = 16
"""Bytes before the values of an encoded record: the ID of its format, padded."""


def trades(*prices: float) -> list[dict[str, Any]]:
    return [{"symbol": "IBM", "trade_price": float(price)} for price in prices]


def test_stock_trades_outside_a_range_whose_bounds_move_while_two_feeds_publish(space: ChannelSpace) -> None:
    stocks = space.create_channel("stocks", TRADE)
    fixed = space.derive_channel(
        "fixed",
        "stocks",
        filter="{ if ((input.trade_price < 75.5) || (input.trade_price > 78.5)) { return 1; } return 0; }",
    )
    bounds = {"range_low_bound": 75.5, "range_high_bound": 78.5}
    live = space.derive_channel(
        "live",
        "stocks",
        filter="""{
            if ((input.trade_price < param.range_low_bound) || (input.trade_price > param.range_high_bound)) {
                return 1; /* submit event into derived channel */
            }
            return 0;
        }""",
        parameters=bounds,
    )
    dice = random.Random(253)
    feeds = [stocks, again(space).channel("stocks")]
    expected: list[tuple[float, int]] = []
    version = space.find("live").version
    for number in range(12):
        prices = [75.5, 78.5, *(round(dice.uniform(70, 84), 1) for _ in range(20))]
        feeds[number % 2].submit(trades(*prices), producer=f"feed-{number % 2}", sequence=100 * number)
        low, high = bounds["range_low_bound"], bounds["range_high_bound"]
        expected += [(price, version) for price in prices if price < low or price > high]
        if number % 3 == 2:
            bounds = {"range_low_bound": dice.uniform(70, 77), "range_high_bound": dice.uniform(77, 84)}
            version = space.set_parameters("live", bounds)
    assert [(event.values["trade_price"], event.derivation) for event in everything(live)] == expected
    everywhere = [row["trade_price"] for row in values(stocks)]
    assert [row["trade_price"] for row in values(fixed)] == [p for p in everywhere if p < 75.5 or p > 78.5]


def test_every_second_event_of_each_source(space: ChannelSpace) -> None:
    stocks = space.create_channel("stocks", TRADE)
    second = space.derive_channel("second", "stocks", filter="{ static int n = 0; n = n + 1; return n % 2 == 0; }")
    for first in (0, 3, 6):
        stocks.submit(trades(*range(first, first + 3)), producer="p")
        again(space).channel("stocks").submit(trades(100 + first), producer="q")
    assert [row["trade_price"] for row in values(second)] == [1, 3, 5, 103, 7]


def test_the_average_of_a_grid_takes_a_ten_thousandth_of_its_bytes(space: ChannelSpace) -> None:
    winds = space.create_channel("winds", WIND)
    averages = space.derive_channel(
        "averages",
        "winds",
        type=AVERAGE,
        transform="""{
            int i;
            int j;
            double sum = 0.0;
            for(i = 0; i<37; i= i+1) {
                for(j = 0; j<253; j=j+1) {
                    sum = sum + input.wind_velocity[j][i];
                }
            }
            output.average_velocity = sum / (37 * 253);
            return 1;
        }""",
    )
    grids = np.random.default_rng(37).normal(10, 3, (4, 253, 37))
    winds.submit([{"wind_velocity": grid.tolist()} for grid in grids], producer="model", sequence=0)
    assert [row["average_velocity"] for row in values(averages)] == pytest.approx(grids.mean((1, 2)).tolist())

    event = encode(record_to_format(WIND), {"wind_velocity": grids[0].tolist()})
    average = encode(record_to_format(AVERAGE), {"average_velocity": 1.0})
    assert round(log10((len(event) - HEADER) / (len(average) - HEADER))) == 4
    assert space.find("winds").bytes > 2000 * space.find("averages").bytes  # with what precedes each event in a file


SIDE, LAYERS, CELLS = 8, 4, 16
TILE = record(
    "tile", [*(Field(name, INT32) for name in ("step", "layer", "x", "y")), Field("cells", Array(FLOAT64, (CELLS,)))]
)
CHANGES = record(
    "changes",
    [
        *(Field(name, INT32) for name in ("step", "layer", "x", "y", "n")),
        Field("cell", Array(INT32, ("n",))),
        Field("value", Array(FLOAT64, ("n",))),
    ],
)
INSIDE = """input.layer == param.layer && input.x >= param.left && input.x < param.right
    && input.y >= param.top && input.y < param.bottom"""
FILTER_MODE = f"{{ return {INSIDE}; }}"
DIFF_MODE = f"""
#include <math.h>
{{
    int i, n = 0;
    int at = ({SIDE} * input.y + input.x) * {CELLS};
    for (i = 0; i < {CELLS}; i++) if (fabs(input.cells[i] - state.sent[at + i]) > param.threshold) n++;
    if (n == 0) return 0;
    output.step = input.step; output.layer = input.layer; output.x = input.x; output.y = input.y;
    output.n = n;
    n = 0;
    for (i = 0; i < {CELLS}; i++) {{
        if (fabs(input.cells[i] - state.sent[at + i]) > param.threshold) {{
            state.sent[at + i] = input.cells[i];
            output.cell[n] = i;
            output.value[n] = input.cells[i];
            n++;
        }}
    }}
    return 1;
}}"""


class World:
    """A grid of tiles in some layers; each step changes a few cells."""

    def __init__(self) -> None:
        self.dice = np.random.default_rng(85)
        self.cells = self.dice.normal(0, 1, (LAYERS, SIDE, SIDE, CELLS))
        self.step = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        for layer, y, x in np.ndindex(LAYERS, SIDE, SIDE):
            yield {"step": self.step, "layer": layer, "x": x, "y": y, "cells": self.cells[layer, y, x].tolist()}

    def publish(self, grid: Channel) -> None:
        grid.submit(list(self.rows()), producer="model", sequence=self.step * LAYERS * SIDE * SIDE)
        self.step += 1
        self.cells += 5.0 * (self.dice.random(self.cells.shape) < 0.01)


class Viewer:
    """What a user sees: tiles as they come, and as they are put together from changes."""

    def __init__(self) -> None:
        self.cells = np.zeros((LAYERS, SIDE, SIDE, CELLS))
        self.seen: list[tuple[int, int, int, int]] = []

    def tile(self, event: Event) -> Event:
        row = event.values
        self.cells[row["layer"], row["y"], row["x"]] = row["cells"]
        return event

    def changes(self, event: Event) -> Event:
        row = event.values
        self.cells[row["layer"], row["y"], row["x"], row["cell"]] = row["value"]
        return event

    def draw(self, event: Event) -> None:
        self.seen.append(tuple(event.values[name] for name in ("step", "layer", "y", "x")))  # type: ignore[arg-type]


def box(layer: int, left: int, top: int, width: int = 3, height: int = 3) -> dict[str, int]:
    return {"layer": layer, "left": left, "right": left + width, "top": top, "bottom": top + height}


def inside(step: int, view: dict[str, int]) -> list[tuple[int, int, int, int]]:
    rows, columns = range(view["top"], view["bottom"]), range(view["left"], view["right"])
    return [(step, view["layer"], y, x) for y in rows for x in columns]


def test_a_viewer_moves_its_window_over_a_grid_and_then_sees_differences_only(space: ChannelSpace) -> None:
    grid, world, viewer = space.create_channel("grid", TILE), World(), Viewer()
    view = box(0, 1, 1)
    modulator = Modulator(filter=FILTER_MODE, parameters=view)
    subscription = grid.subscribe(viewer.draw, modulator=modulator, demodulator=viewer.tile)
    assert isinstance(subscription, EagerSubscription)
    name = subscription.channel.name

    def saved(since: tuple[int, int]) -> float:
        before, after = (space.find(one).bytes for one in ("grid", name))
        return 1 - (after - since[1]) / (before - since[0])

    expected = []
    for moved in (view, view, box(2, 5, 4), box(3, 0, 0, 4, 6)):
        if moved is not view:
            subscription.set_parameters(moved)
        expected += inside(world.step, moved)
        world.publish(grid)
    assert subscription.run() == len(expected)
    assert viewer.seen == expected
    assert saved((0, 0)) > 0.85

    last, whole = view, inside(0, box(0, 0, 0, SIDE, SIDE))
    subscription.replace(
        filter=f"{{ return input.layer == {last['layer']}; }}",
        transform=DIFF_MODE,
        type=CHANGES,
        state={"sent": [0.0] * (SIDE * SIDE * CELLS)},
        parameters={"threshold": 1e-9},
        demodulator=viewer.changes,
    )
    viewer.cells[:] = 0
    world.publish(grid)
    assert subscription.run() == len(whole)  # the state restarts: everything has changed once
    since = space.find("grid").bytes, space.find(name).bytes
    for _ in range(3):
        shown = world.cells.copy()
        world.publish(grid)
        subscription.run()
        np.testing.assert_array_equal(viewer.cells[last["layer"]], shown[last["layer"]])
    assert saved(since) > 0.95
    subscription.close()


@pytest.mark.parametrize("lazy", [None, 60.0])
def test_a_suspended_derivation_is_tried_again_once_its_parameters_change(
    space: ChannelSpace, lazy: float | None
) -> None:
    stocks = space.create_channel("stocks", TRADE)
    odd = space.derive_channel(
        "odd", "stocks", filter="{ return 10 / param.by; }", parameters={"by": 0}, state={"n": 0}, max_traps=3
    )
    for status in ("pending", "accepted", "suspended", "suspended"):
        assert odd.status.startswith(status)
        stocks.submit(trades(1, 2))
    space.set_parameters("odd", {"by": 1}, lazy=lazy)
    assert odd.status == "pending"
    stocks.submit(trades(3))
    assert odd.status == "accepted"
    assert [row["trade_price"] for row in values(odd)] == [3]
    space.set_parameters("odd", {"by": 2}, lazy=lazy)
    assert odd.status == ("pending" if lazy is None else "accepted")
