"""The cost of programs: both engines charge the same at the same place, for everything that takes time or memory."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import ecode
from ecode.columns import columns_of, values_of
from ecode.types import FLOAT64, INT32, STRING, Array, Field, Ref, Struct, record

PAIR = Struct("Pair", (Field("a", INT32), Field("m", INT32), Field("v", Array(FLOAT64, ("m",))), Field("s", STRING)))
INPUT = record(
    "input",
    [
        Field("s", STRING),
        Field("t", STRING),
        Field("n", INT32),
        Field("z", Array(INT32, ("n",))),
        Field("o", Ref("Pair")),
    ],
    [PAIR],
)
OUTPUT = record("output", [Field("m", INT32), Field("v", Array(Ref("Pair"), ("m",))), Field("o", Ref("Pair"))], [PAIR])
PARAMS = [ecode.Param("input", INPUT), ecode.Param("output", OUTPUT, ecode.Mode.OUT)]
EVENT = {"s": "abcabcabd", "t": "abd", "n": 5, "z": [1, 2, 3, 4, 5]}
EVENT |= {"o": {"a": 1, "m": 40, "v": [0.5] * 40, "s": "x"}}


def program_of(text: str, **limits: int) -> ecode.Program:
    options = {"functions": [ecode.PRINTF], "limits": ecode.Limits(**limits)}
    return ecode.compile(f"#include <string.h>\n{{ {text} }}", PARAMS, **options)


def trapped(program: ecode.Program, event: dict[str, Any], budget: int | None = None) -> tuple[str, str]:
    """How an event ends in the interpreter and in compiled code."""
    kernel = program.kernel(ecode.Keep.ALL)
    result = kernel.run({"input": columns_of([event], Ref("input"), program.typed.structs)}, 1, budget=budget)
    try:
        program.run({"input": event}, budget=budget)
    except ecode.Trap as trap:
        return str(trap), str(dict(result.traps).get(0))
    return "", str(dict(result.traps).get(0, ""))


WORKING = [
    "int i, s = 0; for (i = 0; i < input.n; i++) s += input.z[i]; return s;",
    "int i = 0; while (1) { if (input.z[i] == 4) break; i++; } return i;",
    "int i = 0; do { i++; if (i == 2) continue; } while (i < 9); return i;",
    "int i = 0; again: i++; if (i < 7) goto again; return i;",
    "int i, j, s = 0; for (i = 0; i < 3; i++) { for (j = 0; j < i; j++) { s += j; if (s > 2) break; } } return s;",
    "return strstr(input.s, input.t) != NULL;",
    'return strcmp(input.s, input.t) + strncmp(input.s, input.t, 2) + strspn(input.s, "ab") + strcspn(input.s, "d");',
    "return strchr(input.s, 'd') != strrchr(input.s, 'd');",
    'return input.s == input.t || input.s == "abcabcabd";',
    "output.o = input.o; output.m = 3; output.v[1] = input.o; output.m = 1; output.m = 40; return 1;",
    "int i; for (i = 0; i < 5; i++) output.o = input.o; return 1;",
    "int i; for (i = 0; i < 3; i++) { char big[5000]; big[i] = 1; if (big[2]) return 1; } return 0;",
    "static string last; static string a[3]; a[input.n & 1] = input.s; last = input.t; return 1;",
    'int i; for (i = 0; i < 3; i++) printf("%s %d", input.s, i); return 1;',
    'attr_list l = create_attr_list(), m; set_int_attr(l, input.s, 1); set_string_attr(l, "k", input.t);\n'
    "set_int_attr(l, input.s, 2); m = copy_attr_list(l); free_attr_list(l); return attr_ivalue(m, input.s);",
]


@pytest.mark.parametrize("text", WORKING)
def test_both_engines_charge_the_same_at_the_same_place(text: str) -> None:
    program = program_of(text)
    work = program.run({"input": EVENT}).work
    assert work > 0
    assert trapped(program, EVENT, work) == ("", "")
    for budget in {0, work // 3, work // 2, work - 1}:
        one, other = trapped(program, EVENT, budget)
        assert one == other
        assert "ECODE_BUDGET_EXCEEDED" in one


@pytest.mark.parametrize("text", WORKING)
def test_both_engines_allocate_the_same(text: str) -> None:
    found = [trapped(program_of(text, output_bytes=size), EVENT) for size in (0, 8, 30, 100, 400, 900, 2000)]
    assert [one for one, _ in found] == [other for _, other in found]


def test_the_analysis_bounds_what_is_charged() -> None:
    for text in WORKING:
        program = program_of(text)
        cost = program.analysis.cost
        names = {name for names in cost.terms for name in names}
        if program.analysis.is_bounded:
            assert program.run({"input": EVENT}).work <= cost.at(dict.fromkeys(names, 100)), text


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("return strstr(input.s, input.t) != NULL;", {"s": "a" * 80_000, "t": "a" * 40_000 + "b"}),
        ("return strspn(input.s, input.t);", {"s": "a" * 80_000, "t": "b" * 80_000 + "a"}),
        ("return strcspn(input.s, input.t);", {"s": "a" * 80_000, "t": "b" * 80_000}),
    ],
)
def test_string_functions_are_linear(text: str, event: dict[str, Any]) -> None:
    program = program_of(text)
    assert program.run({"input": event}).work < 300_000
    assert trapped(program, event) == ("", "")


@pytest.mark.parametrize(
    ("text", "trap"),
    [
        (
            "struct B { char c[500000]; }; struct B a, b; int i; for (i = 0; i < 20000; i++) b = a; return b.c[7];",
            "budget",
        ),
        ("int i; for (i = 0; i < 1 << 30; i++) { char c[500000]; c[i & 1023] = 1; } return 1;", "budget"),
        ("int i; for (i = 0; i < 1 << 30; i++) { output.m = 0; output.m = 100000; } return 1;", "budget"),
        ("int i; for (i = 0; i < 1 << 20; i++) if (input.s == input.t) i--; return 1;", "budget"),
        ("int i; attr_list l = create_attr_list(); while (1) l = copy_attr_list(l); return 1;", "size"),
        ("while (1) create_attr_list(); return 1;", "size"),
        ('while (1) printf("%s", input.s); return 1;', "size"),
        ("static string a[30]; int i; for (i = 0; i < 30; i++) a[i] = input.s; return 1;", "size"),
    ],
)
def test_work_and_memory_have_an_end(text: str, trap: str) -> None:
    event = {"s": "x" * 100_000, "t": "x" * 100_000}
    one, other = trapped(program_of(text, output_bytes=1 << 20), event, 10_000_000)
    assert one == other
    assert {"budget": "BUDGET_EXCEEDED", "size": "SIZE_LIMIT"}[trap] in one


def test_strings_are_found_as_python_finds_them() -> None:
    random, pairs = Random(7), []
    for _ in range(3000):
        letters = b"ab" if random.random() < 0.8 else b"abc\x80\xff"
        s, t = (bytes(random.choices(letters, k=random.randrange(most))) for most in (24, 7))
        pairs.append((s, t * random.randrange(1, 4)))
    events = [{"s": s, "t": t} for s, t in pairs]
    found = "char *p = input.s, *q = strstr(input.s, input.t); if (q == NULL) return -1; return q - p;"
    for text, expected in (
        (found, [s.find(t) for s, t in pairs]),
        ("return strspn(input.s, input.t);", [len(s) - len(s.lstrip(t)) if t else 0 for s, t in pairs]),
        ("return strcspn(input.s, input.t);", [next((i for i, c in enumerate(s) if c in t), len(s)) for s, t in pairs]),
    ):
        program = program_of(text)
        columns = columns_of(events, Ref("input"), program.typed.structs)
        result = program.kernel(ecode.Keep.ALL).run({"input": columns}, len(events))
        assert result.returned is not None
        assert values_of(result.returned, INT32, {}) == expected
        assert [program.run({"input": event}).returned for event in events[:300]] == expected[:300]


def test_a_source_refuses_what_costs_too_much_and_says_how_much() -> None:
    cheap = program_of("int i, s = 0; for (i = 0; i < 9000; i++) s += i; return s;")
    slow = program_of("int i, s = 1; for (i = 0; i < 900000; i++) s = s * 3 + i; return s;")
    ecode.check_source({"filter": cheap})
    with pytest.raises(ecode.CostError, match=r"the filter takes up to 9,900,0\d\d units") as caught:
        ecode.check_source({"filter": slow}, raise_by="max_cost=")
    assert "max_cost=" in caught.value.hint
    ecode.check_source({"filter": slow}, 10_000_000)
    with pytest.raises(ecode.CostError, match=r"the filter takes .* and the transform takes"):
        ecode.check_source({"filter": cheap, "transform": cheap}, cheap.analysis.fixed_cost + 1)
    ecode.check_source({"filter": program_of("while (input.n) ; return 1;")})
