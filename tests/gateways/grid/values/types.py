"""Random types of events, and values of them."""

from __future__ import annotations

import string
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT32,
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
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.written import columns_to_record
from tests.gateways.grid.samples import TIME

NAMES = st.text(string.ascii_letters + "_é", min_size=1, max_size=4).filter(
    lambda name: name not in ("TimeStamp", "Sequence")
)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(
    lambda time: time.replace(fold=0)
)
TEXT = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff")
    | st.sampled_from("<>&'\"\t\n\r {}%\\")
)

SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *((getattr(pa, f"int{bits}")(), st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)) for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=8)),
    (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    (pa.timestamp("us", "UTC"), TIMES),
    (pa.timestamp("us"), st.datetimes().map(lambda time: time.replace(fold=0))),
    (pa.decimal128(10, 2), st.decimals(-(10**7), 10**7, places=2)),
    (pa.decimal128(38, 6), st.decimals(-(10**20), 10**20, places=6)),
]

COLUMNS = st.recursive(
    st.sampled_from([type_ for type_, _ in SCALARS]),
    lambda inner: (
        inner.filter(lambda type_: not pa.types.is_map(type_)).map(pa.list_)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))
        | st.sampled_from([type_ for type_, _ in SCALARS]).map(lambda type_: pa.map_(pa.string(), type_))
    ),
    max_leaves=4,
)


@st.composite
def record_types(draw: st.DrawFn) -> Record:
    """Types of events: columns as of Spark, with nulls or without, and what only C programs have."""
    fields = draw(st.dictionaries(NAMES, COLUMNS, min_size=1, max_size=4))
    schema = pa.schema([*fields.items(), ("TimeStamp", pa.timestamp("us", "UTC"))])
    made = st.sampled_from(("mask", "pointer")).map(lambda nulls: columns_to_record(schema, "event", nulls))  # type: ignore[arg-type]
    return draw(st.just(FOREIGN) | made)


FOREIGN = Record(
    (
        Struct(
            "foreign",
            (
                Field("small", UINT8),
                Field("huge", UINT64),
                Field("short", FLOAT32, Notes(units="sec", accuracy="+/-0.5")),
                Field("own", FLOAT32, Notes(units="m")),
                Field("own_accuracy", STRING, Notes(logical="accuracy")),
                Field("chars", Array(CHAR, (8,))),
                Field("rows", Array(CHAR, (2, 8))),
                Field("fixed", Array(FLOAT32, (2, 3))),
                Field("colour", ENUMERATION, Notes(symbols=(("red", 0), ("dark blue", 1)))),
                Field("n", UINT8, Notes(hidden=True)),
                Field("many", Array(Ref("point"), ("n",))),
                Field("maybe", Pointer(Ref("point"))),
                TIME,
            ),
        ),
        Struct("point", (Field("x", FLOAT32), Field("name", STRING))),
    )
)


@st.composite
def values(draw: st.DrawFn, of: Record) -> dict[str, Any]:
    """Values of an event, as a channel delivers them; no array is null, which XML cannot tell from an empty one."""
    if of is FOREIGN:
        return draw(FOREIGN_VALUES)
    made = {field.name: draw(_value(field.type, is_nullable=True)) for field in record_to_arrow(of)}
    made["TimeStamp"] = draw(TIMES)
    return made


def _value(type_: pa.DataType, *, is_nullable: bool) -> st.SearchStrategy[Any]:
    if pa.types.is_map(type_):
        pairs = st.tuples(_value(type_.key_type, is_nullable=False), _value(type_.item_type, is_nullable=False))
        return st.lists(pairs, max_size=3)
    if pa.types.is_list(type_):
        return st.lists(_value(type_.value_type, is_nullable=False), max_size=3)
    if pa.types.is_struct(type_):
        made: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {field.name: _value(field.type, is_nullable=True) for field in type_}
        )
    else:
        made = next(strategy for known, strategy in SCALARS if known == type_)
    return st.none() | made if is_nullable else made


_CHARS = TEXT.filter(lambda text: len(text.encode()) <= 8)
_FLOATS = st.floats(width=32)
_POINT = st.fixed_dictionaries({"x": _FLOATS, "name": st.none() | TEXT})
FOREIGN_VALUES = st.fixed_dictionaries(
    {
        "small": st.integers(0, 255),
        "huge": st.integers(0, 2**64 - 1).map(Decimal),
        "short": _FLOATS,
        "own": _FLOATS,
        "own_accuracy": st.none() | TEXT,
        "chars": _CHARS,
        "rows": st.lists(_CHARS, min_size=2, max_size=2),
        "fixed": st.lists(st.lists(_FLOATS, min_size=3, max_size=3), min_size=2, max_size=2),
        "colour": st.sampled_from(("red", "dark blue")),
        "many": st.lists(_POINT, max_size=3),
        "maybe": st.none() | _POINT,
        "TimeStamp": TIMES,
    }
)

ONE = record("one", [Field("x", FLOAT32), TIME])
