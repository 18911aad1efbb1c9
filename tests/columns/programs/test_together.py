"""Filters that see records in turn select what each of them selects alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT64, STRING, Field, record
from pbio_spark.columns import (
    FilterConverter,
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


def converter(form: Any, source: str) -> FilterConverter:
    request = Request((("event", EVENT),), keep=source, parameters=LEAST)
    plan = plan_read(Selection(pa.schema([]), request=request), (form,), coming=[form])
    made = plan.converters[form.id]
    assert isinstance(made, FilterConverter)
    return with_parameters(made, {"least": 100})  # type: ignore[return-value]
