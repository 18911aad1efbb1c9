"""Numbers at the ends of their types: arithmetic wraps, and a sum that wraps around passes no check."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ecode
from ecode.columns import columns_of
from ecode.errors import ParameterError, TrapKind
from ecode.types import INT8, INT16, INT32, INT64, UINT8, UINT32, UINT64, Array, Field, Ref, Struct, record
from tests.ecode.engines.test_engines import compiled, interpreted

LEAST, MOST = -(2**63), 2**63 - 1
INPUT = record(
    "input",
    [
        Field("c", INT8),
        Field("s", INT16),
        Field("i", INT32),
        Field("l", INT64),
        Field("m", INT64),
        Field("a", UINT8),
        Field("w", UINT32),
        Field("u", UINT64),
        Field("n", INT32),
        Field("v", Array(INT32, ("n",))),
    ],
)
PAIR = Struct("pair", (Field("x", INT64), Field("y", Array(INT64, (3,)))))
OUTPUT = record(
    "output",
    [
        *(Field(f"g{i}", INT64) for i in range(12)),
        Field("n", INT64),
        Field("z", Array(INT32, ("n",))),
        Field("u", UINT64),
        Field("y", Array(Ref("pair"), ("u",))),
        Field("o", UINT64),
        Field("t", Array(UINT8, ("o", 4))),
    ],
    [PAIR],
)
PARAMS = [ecode.Param("input", INPUT), ecode.Param("output", OUTPUT, ecode.Mode.OUT)]
ENDS = {
    "c": (-128, 127), "s": (-(2**15), 2**15 - 1), "i": (-(2**31), 2**31 - 1), "l": (LEAST, LEAST + 1, MOST),
    "m": (MOST, MOST - 1, LEAST), "a": (255, 3), "w": (2**32 - 1,), "u": (2**64 - 1, 2**63, 2**63 - 1),
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    dict(zip(ENDS, values, strict=True)) | {"n": n % 3, "v": [10, 11, 12][: n % 3]}
    for n, values in enumerate(itertools.islice(itertools.product(*ENDS.values()), 0, None, 7))
]


def assert_same(source: str, events: list[dict[str, Any]] = EVENTS) -> list[Any]:
    program = ecode.compile(source, PARAMS, limits=ecode.Limits(budget=1000))
    found = compiled(program, events)
    assert found == interpreted(program, events), source
    return found[0]


def results(*expressions: str) -> str:
    return "{ " + " ".join(f"output.g{i} = {e};" for i, e in enumerate(expressions)) + " return 1; }"


@pytest.mark.parametrize(
    "expressions",
    [
        ("input.l + 1 > input.l", "input.l - 1 < input.l", "input.l + input.m < input.l", "input.l * 2 / 2 == input.l",
         "-input.l < 0", "(input.l << 1) > 0", "input.l * 3 > 0", "input.l * input.m", "input.l + input.a",
         "input.u + 1 > input.u", "input.u * 3 > 5", "-input.u > 0"),
        ("-input.c", "-input.s", "4 * -input.c", "(4 * -input.c) ^ 0x80000000u", "-input.s > 0", "~input.c", "-input.i",
         "-input.i == input.i", "-input.c == 128", "-input.s / 2", "-(input.c) >> 3", "-input.a"),
        ("9223372036854775807L + input.a", "9223372036854775807L + input.w", "input.a - 9007199254740993L",
         "(9223372036854775800L | input.a) + input.w * 5L", "1000000000000000001L * input.a",
         "input.w * 9007199254740993L", "input.c * 9007199254740993L", "18446744073709551615ul + input.a",
         "18446744073709551615ul > input.c", "9223372036854775808ul / (input.a + 1)", "input.u + input.c",
         "(input.a ? input.u : input.w) + 1"),
        ("(output.g1 = 256) << 63", "(output.g2 = 9223372036854775807L) * 4", "(output.g3 = 9223372036854775807L) + 1",
         "(output.u = 0ul, 18446744073709551615ul) * 3 > 5", "(output.g5 = 7) << 40",
         "(output.g6 = 5, 9223372036854775807L) + 9223372036854775807L > 0", "-(output.g7 = -9223372036854775807L - 1)",
         "~(output.g8 = -1) * 9223372036854775807L", "(output.g9 = 2147483647) << 31"),
    ],
    ids=["sums", "opposites", "wide constants", "constants only"],
)  # fmt: skip
def test_arithmetic_wraps_in_both_engines(expressions: tuple[str, ...]) -> None:
    assert_same(results(*expressions))


@pytest.mark.parametrize("type_", ["char", "short", "unsigned char", "int", "long", "unsigned long"])
def test_variables_wrap_in_both_engines(type_: str) -> None:
    assert_same(
        f"{{ {type_} x = input.l, y = input.m, z; x++; y += 5; z = -x; output.g0 = x; output.g1 = y; output.g2 = z > 0;"
        f" output.g3 = -z * 4; output.g4 = x * y; output.g5 = x-- > 0; output.g6 = (z = x, -z); return -y > 0; }}"
    )


MASK = "0x7fffffffffffffff"
FAR = [
    {**EVENTS[0], "l": one, "m": other, "n": 4, "v": [1, 2, 3, 4]}
    for one, other in [
        (MOST, MOST),
        (MOST, 1),
        (LEAST, LEAST),
        (MOST, MOST - 7),
        (1 << 62, 1 << 62),
        (LEAST, 0),
        (1, 2),
    ]
]


@pytest.mark.parametrize(
    "source",
    [
        "{ return input.v[(input.l & MASK) + (input.m & MASK)]; }",
        "{ if (input.l > 0 && input.m > 0) return input.v[input.l + input.m]; return 0; }",
        "{ int a[4]; int b[4]; a[3] = 7; b[(input.l & MASK) + (input.m & MASK)] = 777; return a[3]; }",
        "{ int b[4]; b[0] = 5; return b[(input.l & MASK) * (input.m & MASK)]; }",
        "{ output.n = 4; output.u = 2; output.y[(input.l & MASK) + (input.m & MASK)].x = 777; return 1; }",
        "{ output.n = 4; output.z[(input.l & MASK) + (input.m & MASK)] = 777; return 1; }",
        "{ output.o = 4; output.t[(input.l & MASK) + (input.m & MASK)][1] = 7; return 1; }",
        "{ int a[4]; int *p = &a[1]; a[0] = 5; p = p + ((input.l & MASK) + (input.m & MASK)); return *p; }",
        "{ pair a[4]; pair *p = &a[1]; p += input.l; p -= input.m; p->x = 3; return p->x; }",
        "{ int a[4]; int *p = a; return p[(input.l & MASK) + (input.m & MASK)]; }",
        "{ return input.v[9223372036854775807L]; }",
        "{ return input.v[4611686018427387904L]; }",
        "{ return input.v[18446744073709551615ul]; }",
        "{ return input.v[input.u]; }",
        '{ string s = "abc"; return s[(input.l & MASK) + (input.m & MASK)]; }',
        "{ string s = \"abc\"; char *p = s; p = p + ((input.l & MASK) + (input.m & MASK)); return *p; }",
    ],
)  # fmt: skip
def test_an_index_that_has_wrapped_is_out_of_range(source: str) -> None:
    assert_same(source.replace("MASK", MASK), FAR)


@pytest.mark.parametrize("size", ["input.l", "input.m", "input.u", "1L << 62", "1L << 61", "1L << 31", "-1", "0"])
def test_sizes_at_the_ends_end_the_event(size: str) -> None:
    """Counts times sizes do not wrap around to something small."""
    for field, write in (("n", "output.z[3] = 1;"), ("u", "output.y[2].x = 1;"), ("o", "output.t[1][3] = 1;")):
        found = assert_same(f"{{ output.{field} = {size}; {write} return 1; }}", FAR)
        assert isinstance(found[0], str), "it traps"


def test_an_unsigned_size_is_too_large_and_not_negative() -> None:
    (found,) = assert_same("{ output.u = 9223372036854775808ul; return 1; }", EVENTS[:1])
    assert f"ECODE_{TrapKind.SIZE_LIMIT.upper()}" in found
    (found,) = assert_same("{ output.n = -1; return 1; }", EVENTS[:1])
    assert f"ECODE_{TrapKind.NEGATIVE_SIZE.upper()}" in found


HEADS = [
    "for (i = 2147483640; i < 3000000000L; i++)",
    "for (i = 2147483640; i <= 2147483647; i++)",
    "for (i = 2147483640; i < 2147483647; i++)",
    "for (i = -2147483640; i >= -2147483647 - 1; i--)",
    "for (i = -2147483640; i > -3000000000L; i--)",
    "for (i = 2147483640; i < input.m; i++)",
    "for (i = input.i; i <= input.i; i++)",
    "for (i = 2147483640; i <= input.i; i = i + 1)",
]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("type_", ["int", "long"])
def test_counters_pass_the_end_of_their_type(head: str, type_: str) -> None:
    """A loop that can end early continues where its counter wraps; another would never end."""
    leave = f"{{ {type_} i; int n = 0; {head} if (++n > 20) break; output.g0 = i; output.g1 = i < 0; return n; }}"
    assert_same(leave)
    stay = f"{{ {type_} i; int n = 0; {head} n += i & 3; output.g0 = i; return n; }}"
    assert_same(stay)


def test_a_counter_that_wraps_is_checked_as_an_index() -> None:
    """What its condition says of a counter is not believed beyond the end of its type."""
    program = ecode.compile(
        "{ int i; int k = 0; int a[4]; a[0] = 1; "
        "for (i = 2147483646; i < 3000000000L; i++) { if (++k > 3) return a[i]; } return 0; }",
        PARAMS,
        limits=ecode.Limits(budget=1000),
    )
    assert compiled(program, EVENTS[:1]) == interpreted(program, EVENTS[:1])


@pytest.mark.parametrize(("one", "other"), [(MOST, LEAST), (1 << 62, -(1 << 61)), (MOST, -(1 << 62)), (0, LEAST)])
def test_loops_of_more_rounds_than_fit_end_at_once(one: int, other: int) -> None:
    for head in ("i = input.m; i < input.l; i++", "i = input.m; i <= input.l; i++", "i = input.l; i >= input.m; i--"):
        source = f"{{ long i; for ({head}) output.g0 = output.g0 * 3 + (i ^ output.g0); return 1; }}"
        (found,) = assert_same(source, [{**EVENTS[0], "l": one, "m": other}])
        assert f"ECODE_{TrapKind.BUDGET_EXCEEDED.upper()}" in found


def test_size_fields_whose_product_wraps_are_not_believed() -> None:
    """2^32 rows of 2^32 are not none."""
    type_ = record("input", [Field("n", INT64), Field("m", INT64), Field("v", Array(INT32, ("n", "m")))])
    program = ecode.compile("{ return input.v[5][7]; }", [ecode.Param("input", type_)])
    column = columns_of([{"n": 0, "m": 0, "v": []}], Ref("input"), program.typed.structs)
    for n, m in ((1 << 32, 1 << 32), (1 << 62, 4), (MOST, MOST), (1, 1)):
        column.children["n"].data = np.array([n])
        column.children["m"].data = np.array([m])
        with pytest.raises(ParameterError, match=r"differ\n  hint: leave the column of the size out"):
            program.kernel().run({"input": column}, 1)
