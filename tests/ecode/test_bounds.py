"""An event that passes a filter, or on which it traps, keeps all bounds found in the program."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ecode
from ecode.analysis.bounds import program_to_bounds
from ecode.types import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Field,
    Ref,
    Struct,
    record,
)

TYPES = {
    "d": FLOAT64,
    "f": FLOAT32,
    "i1": INT8,
    "i2": INT16,
    "i4": INT32,
    "i8": INT64,
    "u1": UINT8,
    "u2": UINT16,
    "u4": UINT32,
    "u8": UINT64,
}
FIELDS = tuple(Field(name, type_) for name, type_ in TYPES.items())
INPUT = ecode.Param("input", record("event", [*FIELDS, Field("in", Ref("part"))], [Struct("part", FIELDS)]))
LITERALS = ("0", "1", "5", "-3", "0.5", "-1e9", "200", "4294967295u", "2147483648", "9007199254740993", "3.0f", "255")
OPERATORS = ("<", "<=", ">", ">=", "==", "!=")


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(tuple(TYPES)))
    field = draw(st.sampled_from((f"input.{name}", f"input.in.{name}")))
    left = draw(st.sampled_from((field, field, field, f"({field} + 1)", f"(10 / {field})")))
    sides = [left, draw(st.sampled_from(LITERALS))]
    if draw(st.booleans()):
        sides.reverse()
    return f"{sides[0]} {draw(st.sampled_from(OPERATORS))} {sides[1]}"


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("&&", "&&", "||")), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda one: f"!({one})"),
    ),
    max_leaves=5,
)
PROGRAMS = st.one_of(
    CONDITIONS.map("{{ return {}; }}".format),
    CONDITIONS.map("{{ if ({}) return 1; return 0; }}".format),
    CONDITIONS.map("{{ if ({}) {{ return 0; }} else {{ return 2; }} }}".format),
    st.tuples(CONDITIONS, CONDITIONS).map("{{ if ({0[0]}) return 0; return {0[1]}; }}".format),
    st.tuples(CONDITIONS, CONDITIONS).map("{{ if ({0[0]}) {{ if ({0[1]}) return 1; }} return 0; }}".format),
    st.tuples(CONDITIONS, CONDITIONS).map("{{ if ({0[0]}) return 1; if ({0[1]}) return 0; return 1; }}".format),
)


def values(name: str) -> st.SearchStrategy[Any]:
    if name in ("d", "f"):
        edges = st.sampled_from((0.0, -1.0, 5.0, math.nan, math.inf, 3.0))
        return st.one_of(edges, st.floats(width=64 if name == "d" else 32))
    kind = np.iinfo(name)  # numpy counts bytes, as the names do
    whole = [v for v in (0, 1, 5, -3, 200, kind.min, kind.max, 2**31, 2**53 + 1) if kind.min <= v <= kind.max]
    return st.one_of(st.sampled_from(whole), st.integers(int(kind.min), int(kind.max)))


PART = st.fixed_dictionaries({name: values(name) for name in TYPES})


def found(text: str) -> list[tuple[str, str, float]]:
    return [(".".join(b.path), b.op, b.value) for b in program_to_bounds(ecode.compile(text, [INPUT]).typed)]


@settings(max_examples=10_000 if os.environ.get("PBIO_LONG") else 200)
@given(PROGRAMS, st.lists(st.tuples(PART, PART), min_size=1, max_size=8))
def test_what_passes_meets_all_bounds(text: str, parts: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    program = ecode.compile(text, [INPUT])
    bounds = program_to_bounds(program.typed)
    for outer, inner in parts:
        event = {**outer, "in": inner}
        try:
            if not program.run({"input": event}).returned:
                continue
        except ecode.Trap:
            pass
        for bound in bounds:
            value: Any = event
            for name in bound.path:
                value = value[name]
            assert bound.may_hold(value, value), (text, bound, event)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ return 5 < input.d && input.i4 != 3 && input.in.u2 <= 7; }", [("d", ">", 5.0), ("in.u2", "<=", 7)]),
        ("{ if (input.i4 < 3) return 0; if (input.i8 == 7) return 1; return 0; }", [("i4", ">=", 3), ("i8", "==", 7)]),
        ("{ if (input.d > 1) { return input.f < 2; } else return 0; }", [("d", ">", 1.0)]),
        ("{ return !(input.i4 > 3 || input.i8 < 2); }", [("i4", "<=", 3), ("i8", ">=", 2)]),
        ("{ return !(input.d > 3); }", []),
        ("{ return input.d > 3 || input.d < 1; }", []),
        ("{ return 10 / input.i4 > 1 && input.d > 3; }", []),
        ("{ return input.d > 3 && 10 / input.i4 > 1 && input.f < 2; }", [("d", ">", 3.0)]),
        ("{ return input.i4 < 3u; }", []),
        ("{ static int n; n = n + 1; return input.d > 3; }", []),
        ("{ int n = 4; return input.d > n; }", []),
    ],
)
def test_which_bounds_are_found(text: str, expected: list[tuple[str, str, float]]) -> None:
    assert found(text) == expected


def test_nan_excludes_nothing() -> None:
    (bound,) = program_to_bounds(ecode.compile("{ return input.d > 3; }", [INPUT]).typed)
    least = np.array([math.nan, 0.0, 0.0, 0.0, 4.0])
    most = np.array([math.nan, 3.0, 3.5, math.nan, 5.0])
    assert bound.may_hold(least, most).tolist() == [True, False, True, True, True]


def test_a_value_too_large_for_a_float_is_infinite() -> None:
    (bound,) = program_to_bounds(ecode.compile("{ return input.f < 2.0f; }", [INPUT]).typed)
    assert bound.may_hold(np.array([-1e300, 1e300]), np.array([1.0, 1e300])).tolist() == [True, False]
