"""Hypothesis strategies: Arrow schemas of Spark's types, and rows of them that formats of this project can hold."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Values = st.SearchStrategy[Any]

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
# Arrow's timestamps as Python's have these bounds.
TIMES = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))


def _decimals(precision: int, scale: int) -> Values:
    greatest = 10**precision - 1
    return st.integers(-greatest, greatest).map(lambda n: Decimal(n).scaleb(-scale) if scale else Decimal(n))


BASIC: list[tuple[pa.DataType, Values]] = [
    *((pa.type_for_alias(f"int{b}"), st.integers(-(1 << b - 1), (1 << b - 1) - 1)) for b in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.none() | TEXTS),
    (pa.binary(), st.binary(max_size=9)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), TIMES.map(lambda time: time.replace(tzinfo=datetime.UTC))),
    (pa.timestamp("us"), TIMES),
    (pa.decimal128(9, 2), _decimals(9, 2)),
    (pa.decimal128(18, 0), _decimals(18, 0)),
    (pa.decimal128(28, 10), _decimals(28, 10)),
]


@st.composite
def rows(draw: st.DrawFn, *, nulls: bool = False) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """A schema and some rows; with `nulls`, anything but the keys of maps may be null."""
    fields = draw(_fields(3, nulls))
    values = st.fixed_dictionaries({field.name: values for field, values in fields})
    return pa.schema([field for field, _ in fields]), draw(st.lists(values, min_size=1, max_size=4))


def _fields(depth: int, nulls: bool) -> st.SearchStrategy[list[tuple[pa.Field, Values]]]:
    names = st.lists(st.sampled_from(("a", "b", "a_count", "item", "key", "with blank", "[x]", "é")), unique=True)
    return names.filter(bool).flatmap(
        lambda names: st.tuples(*(_field(name, depth, nulls) for name in names)).map(list)
    )


@st.composite
def _field(draw: st.DrawFn, name: str, depth: int, nulls: bool) -> tuple[pa.Field, Values]:
    """A field that may be null where its values may."""
    kinds: list[Callable[[], tuple[pa.Field, Values]]] = [lambda: _basic(draw, name)] * 3
    if depth:
        kinds += [
            lambda: _struct(draw, name, depth - 1, nulls),
            lambda: _list(draw, name, depth - 1, nulls),
            lambda: _map(draw, name, depth - 1, nulls),
        ]
    field, values = draw(st.sampled_from(kinds))()
    return (field.with_nullable(True), st.none() | values) if nulls and draw(st.booleans()) else (field, values)


def _basic(draw: st.DrawFn, name: str) -> tuple[pa.Field, Values]:
    type_, values = draw(st.sampled_from(BASIC))
    return pa.field(name, type_, nullable=pa.types.is_string(type_)), values


def _struct(draw: st.DrawFn, name: str, depth: int, nulls: bool) -> tuple[pa.Field, Values]:
    fields = draw(_fields(depth, nulls))
    values: Values = st.fixed_dictionaries({field.name: values for field, values in fields})
    is_nullable = not nulls and draw(st.booleans())
    return (
        pa.field(name, pa.struct([field for field, _ in fields]), is_nullable),
        st.none() | values if is_nullable else values,
    )


def _list(draw: st.DrawFn, name: str, depth: int, nulls: bool) -> tuple[pa.Field, Values]:
    element, values = draw(_field("element", depth, nulls))
    return pa.field(name, pa.list_(element), nullable=False), st.lists(values, max_size=3)


def _map(draw: st.DrawFn, name: str, depth: int, nulls: bool) -> tuple[pa.Field, Values]:
    key, keys = draw(st.sampled_from(((pa.string(), TEXTS), (pa.int32(), st.integers(0, 9)))))
    item, values = draw(_field("value", depth, nulls))
    pairs = st.lists(st.tuples(keys, values), max_size=3, unique_by=lambda pair: pair[0])
    return pa.field(name, pa.map_(pa.field("key", key, nullable=False), item), nullable=False), pairs
