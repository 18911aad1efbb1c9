"""Filters that run together select what each of them selects alone."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ecode
from ecode.types import (
    BOOLEAN,
    CHAR,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    NULL_BITS,
    STRING,
    UINT8,
    UINT64,
    Array,
    Field,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    record,
)
from pbio_spark.columns import (
    FilterConverter,
    GatherableFilter,
    Request,
    Selection,
    format_to_encoder,
    plan_read,
    select_together,
    with_parameters,
)
from pbio_spark.columns.programs.together import TILE
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.layout import record_to_format

EVENT = record("event", [Field("n", INT64), Field("x", FLOAT64), Field("s", STRING)])
LEAST = record("p", [Field("least", INT64)])
FILTERS = [
    "{ return input.n % 7 == 0; }",
    "{ return input.n > param.least; }",
    "{ return 10 / (input.n % 1000) < 5; }",  # a trap now and then
    '{ return input.s == "s5"; }',
    "{ int i; int sum = 0; for (i = 0; i < input.n % 10; i++) sum += i; return sum > 20; }",
]


@pytest.mark.parametrize("count", [0, 1, TILE, 2 * TILE + 17])
def test_filters_in_turn_are_as_each_alone(count: int) -> None:
    form = record_to_format(EVENT)
    numbers = list(range(count))
    rows = pa.RecordBatch.from_pydict(
        {"n": numbers, "x": [0.5 * n for n in numbers], "s": [f"s{n % 11}" for n in numbers]},
        schema=record_to_arrow(EVENT),
    )
    encoded = format_to_encoder(form, rows.schema, wrap=False).encode(rows)
    first = encoded.buffer.address
    starts, ends = encoded.offsets[:-1] + first + form.header_size, encoded.offsets[1:] + first
    filters = [converter(form, source) for source in FILTERS]
    together = select_together(filters, starts, ends)
    for one, (passed, traps) in zip(filters, together, strict=True):
        alone, errors = one.decoder().select(starts, ends)
        assert passed.tolist() == np.flatnonzero(alone).tolist()
        assert {event: str(error) for event, error in traps.items()} == {e: str(error) for e, error in errors.items()}
    if count > 1:
        assert [len(passed) for passed, _ in together] == [expected(source, numbers) for source in range(len(FILTERS))]


def expected(number: int, numbers: list[int]) -> int:
    tests: list[Any] = [
        lambda n: n % 7 == 0,
        lambda n: n > 100,
        lambda n: n % 1000 != 0 and 10 // (n % 1000) < 5,
        lambda n: n % 11 == 5,
        lambda n: sum(range(n % 10)) > 20,
    ]
    return sum(map(tests[number], numbers))


def converter(form: Any, source: str, type_: Record = EVENT) -> FilterConverter:
    request = Request(((type_.name, type_),), keep=source, parameters=LEAST)
    plan = plan_read(Selection(pa.schema([]), request=request), (form,), coming=[form])
    made = plan.converters[form.id]
    assert isinstance(made, FilterConverter)
    return with_parameters(made, {"least": 100})  # type: ignore[return-value]


PLACE = Struct("place", (Field("lat", FLOAT32), Field("deep", Pointer(FLOAT64))))
WIDE = record(
    "wide",
    [
        Field("n", INT32),
        Field("at", Ref("place")),
        Field("b", UINT8),
        Field("h", INT16),
        Field("u", UINT64),
        Field("i", INT64),
        Field("x", FLOAT64),
        Field("s", STRING),
        Field("v", Array(FLOAT64, ("n",))),
        Field("w", Array(FLOAT64, (2,))),
        Field("on", BOOLEAN),
        Field("c", CHAR),
    ],
    [PLACE],
)
IN_PLACE = [
    "{ return input.at.lat > 0.5f; }",
    "{ return input.b == 7 || input.h < -100; }",
    "{ return input.u > param.least && input.i < 0; }",
    "{ return input.x * 2.0 >= input.at.lat; }",
    "{ int i, s = 0; for (i = 0; i < input.b; i++) s += input.h; return s % 2; }",
    "{ return input.i / (input.b - 7) > 0; }",  # a trap now and then
    "{ return 1; }",
]
ELSEWHERE = [
    "{ return input.n > 1; }",  # a count
    "{ return input.at.deep && *input.at.deep > 0.0; }",
    '{ return input.s == "a"; }',
    "{ return input.n > 0 && input.v[0] > 0.0; }",
    "{ return input.w[1] > 0.0; }",
    "{ return input.on; }",
    "{ return input.c == 'a'; }",
    "{ return present(input.x) && input.x > 0.0; }",
    "{ static int seen = 0; return seen++ % 2; }",
]


@pytest.mark.parametrize("machine", ["le64", "be64", "le32", "be32"])
def test_filters_see_the_same_numbers_gathered(machine: str) -> None:
    form = record_to_format(WIDE, machine=machine)
    chance = Random(1)
    rows = [wide_row(chance) for _ in range(TILE + 300)]
    encoded = format_to_encoder(form, record_to_arrow(WIDE), wrap=False).encode(
        pa.RecordBatch.from_pylist(rows, record_to_arrow(WIDE))
    )
    first = encoded.buffer.address
    starts, ends = encoded.offsets[:-1] + first + form.header_size, encoded.offsets[1:] + first
    filters = [converter(form, source, WIDE) for source in IN_PLACE]
    gathered = [GatherableFilter(form, filter_of(source)).gathered() for source in IN_PLACE]
    assert None not in gathered
    apart, together = select_together(filters, starts, ends), select_together(filters, starts, ends, gathered)
    for source, one, other in zip(IN_PLACE, apart, together, strict=True):
        assert one[0].tolist() == other[0].tolist(), source
        assert {event: str(error) for event, error in one[1].items()} == {
            e: str(error) for e, error in other[1].items()
        }
    assert 0 < len(together[1][0]) < len(rows)
    assert together[5][1]


@pytest.mark.parametrize("source", ELSEWHERE)
def test_a_filter_of_anything_else_is_not_gathered(source: str) -> None:
    assert GatherableFilter(record_to_format(WIDE), filter_of(source)).gathered() is None


@pytest.mark.parametrize(
    "field",
    [Field("x", FLOAT32), Field("x", INT64), Field("y", FLOAT64), Field("x", FLOAT64, notes=Notes(null_bit=0))],
    ids=["narrower", "whole", "absent", "nullable"],
)
def test_a_number_of_another_type_is_not_gathered(field: Field) -> None:
    bits = Field("bits", Array(UINT8, (1,)), notes=Notes(logical=NULL_BITS))
    other = record("wide", [Field("k", INT64), field, bits])
    assert GatherableFilter(record_to_format(other), filter_of("{ return input.x > 0.5; }")).gathered() is None


def filter_of(source: str) -> ecode.Program:
    return ecode.compile(source, [ecode.Param("input", WIDE), ecode.Param("param", LEAST, ecode.Mode.PARAM)])


def wide_row(chance: Random) -> dict[str, Any]:
    return {
        "n": 1,
        "at": {"lat": chance.random(), "deep": 0.5},
        "b": chance.randrange(10),
        "h": chance.randrange(-(2**15), 2**15),
        "u": chance.choice([0, 1, 100, 101, 2**63, 2**64 - 1]),
        "i": chance.choice([0, -1, 5, -(2**63), 2**63 - 1]),
        "x": chance.choice([0.0, -0.0, 0.25, 1e300]),
        "s": "a",
        "v": [chance.random()],
        "w": [0.0, chance.random()],
        "on": True,
        "c": 97,
    }
