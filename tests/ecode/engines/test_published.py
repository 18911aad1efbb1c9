"""The programs of the papers: filters, averages and a morph, and their analysis."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import ecode
from ecode.columns import Column, values_of
from ecode.types import (
    FLOAT32,
    FLOAT64,
    Array,
    Field,
    record,
)
from tests.ecode.engines.test_programs import MONITORING, NEW, OLD, RANGE, STOCK, batch_of

WIND = """{
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
}"""


def test_published_stock_filter() -> None:
    program = ecode.compile(RANGE, [ecode.Param("input", STOCK)])
    prices = [74.9, 75.0, 80.0, 80.1, float("nan")]
    events = [{"symbol": "IBM", "price": price} for price in prices]
    assert [program.run({"input": event}).returned for event in events] == [1, 0, 0, 1, 0]
    passed = program.kernel().run({"input": batch_of(program, "input", events)}, 5).passed
    assert passed.tolist() == [1, 0, 0, 1, 0]


def test_published_stock_filter_with_a_parameter_block() -> None:
    source = "{ if ((input.price < param.low) || (input.price > param.high)) { return 1; } return 0; }"
    block = record("block", [Field("low", FLOAT64), Field("high", FLOAT64)])
    program = ecode.compile(source, [ecode.Param("input", STOCK), ecode.Param("param", block, ecode.Mode.PARAM)])
    events = batch_of(program, "input", [{"symbol": "A", "price": price} for price in (1.0, 5.0, 9.0)])
    kernel = program.kernel()
    for low, high, expected in ((2.0, 8.0, [1, 0, 1]), (0.0, 8.0, [0, 0, 1]), (0.0, 10.0, [0, 0, 0])):
        limits = batch_of(program, "param", [{"low": low, "high": high}])
        assert kernel.run({"input": events, "param": limits}, 3).passed.tolist() == expected


def test_published_wind_average() -> None:
    wind = record("wind", [Field("wind_velocity", Array(FLOAT32, (253, 37)))])
    output = record("average", [Field("average_velocity", FLOAT64)])
    program = ecode.compile(WIND, [ecode.Param("input", wind), ecode.Param("output", output, ecode.Mode.OUT)])
    values = np.random.default_rng(1).uniform(0, 30, (3, 253, 37)).astype(np.float32)
    total = [sum(float(v[j][i]) for i in range(37) for j in range(253)) / (37 * 253) for v in values]
    data = Column(3, children={"wind_velocity": Column(3, children={"[]": Column(values.size, values.ravel())})})
    result = program.kernel().run({"input": data}, 3)
    assert result.outputs["output"].children["average_velocity"].data is not None
    assert result.outputs["output"].children["average_velocity"].data.tolist() == total
    one = program.run({"input": {"wind_velocity": values[0].tolist()}})
    assert one.outputs["output"]["average_velocity"] == total[0]


def test_published_morph() -> None:
    """A void program from `new` to `old`; both types have one name."""
    program = ecode.compile(MONITORING, [ecode.Param("new", NEW), ecode.Param("old", OLD, ecode.Mode.OUT)], None)
    memory = {"total_memory": 10, "used_memory": 4, "rx_bytes": 7, "tx_bytes": 8}
    events = [{"number_of_cpus": 3, "rqueue_length": [1, 2, 6], **memory}, {"number_of_cpus": 0, **memory}]
    expected = {"avg_rqueue_length": 3, "free_memory": 6, "rx_tx_bytes": 15}
    assert program.run({"new": events[0]}).outputs == {"old": expected}
    result = program.kernel().run({"new": batch_of(program, "new", events)}, 2)
    assert values_of(result.outputs["old"], program.typed.param_types["old"], program.typed.structs) == [expected]
    assert [(event, trap.kind, trap.line) for event, trap in result.traps] == [(1, ecode.TrapKind.DIVISION_BY_ZERO, 5)]
    with pytest.raises(ecode.Trap, match=r"\[ECODE_DIVISION_BY_ZERO\]") as caught:
        program.run({"new": events[1]})
    assert (caught.value.line, caught.value.column) == (5, 29)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_analysis_of_the_published_programs() -> None:
    morph = ecode.compile(MONITORING, [ecode.Param("new", NEW), ecode.Param("old", OLD, ecode.Mode.OUT)], None).analysis
    assert morph.is_bounded
    assert morph.cost.degree == 1
    assert morph.cost.at({"new.number_of_cpus": 100}) < 2000
    assert morph.writes == {"old": {"avg_rqueue_length", "free_memory", "rx_tx_bytes"}}
    assert "new.rqueue_length" in str(morph)
    wind = record("wind", [Field("wind_velocity", Array(FLOAT32, (253, 37)))])
    output = record("average", [Field("average_velocity", FLOAT64)])
    average = ecode.compile(WIND, [ecode.Param("input", wind), ecode.Param("output", output, ecode.Mode.OUT)]).analysis
    assert average.is_bounded
    assert average.cost.degree == 0
    assert average.cost.at({}) > 253 * 37
