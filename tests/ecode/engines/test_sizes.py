"""Programs of any size and shape: both engines run programs within the limits; others are refused with a figure."""

from __future__ import annotations

import pytest

import ecode
from ecode.cli.description import described
from ecode.columns import columns_of, values_of
from ecode.types import INT32, STRING, Array, Field, Pointer, Ref, Struct, record

INPUT = record("input", [Field("a", INT32), Field("s", STRING)])
LIST = Struct("List", (Field("p", Array(Pointer(INT32), (2,))), Field("one", Pointer(INT32))))
KEPT = record("input", [Field("q", Ref("Outer"))], [LIST, Struct("Outer", (Field("lists", Array(Ref("List"), (2,))),))])


def both(source: str, value: int = 1) -> tuple[int, int]:
    """The result in the interpreter and in compiled code."""
    program = ecode.compile(source, [ecode.Param("input", INPUT)])
    event = {"a": value, "s": "k7"}
    columns = columns_of([event], Ref("input"), program.typed.structs)
    result = program.kernel(ecode.Keep.ALL).run({"input": columns}, 1)
    assert result.returned is not None
    return program.run({"input": event}).returned, values_of(result.returned, INT32, {})[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{ return " + ",".join(["1"] * 1000) + "; }", 1),
        ("{ int x = 0; " + ",".join(["x++"] * 300) + "; return x; }", 300),
        ("{ int x = 0; " + "if (input.a) x += 1; " * 400 + "return x; }", 400),
        ("{ static string a[1000]; a[input.a] = input.s; return 1; }", 1),
        ("{\n  if (input.a)\n    input.a;\n  return 1;\n}", 1),
        ("{\n if (input.a == 1)\n { }\n else\n {\n ;\n }\n return 1; }", 1),
        ("{ if (input.a > 3) return 0;\n else\n 0;\n return 1; }", 1),
        (
            "{ int i; for (i = 0; i < 3; i++)\n ;\n while (i++ < 9)\n {\n }\n do\n 1;\n while (i++ < 20); return i; }",
            21,
        ),
        ("{ int i = 0;\n again:\n ;\n if (i++ < 3)\n goto again;\n else\n {\n i;\n }\n return i; }", 4),
        ("{ int x = input.a ? (1,\n 2) : (3,\n 4); if (x)\n 0;\n return x; }", 2),
    ],
)
def test_both_engines_take_it(source: str, expected: int) -> None:
    assert both(source) == (expected, expected)


@pytest.mark.parametrize(
    ("source", "figure"),
    [
        ("{ return " + "(" * 300 + "1" + ")" * 300 + "; }", "brackets"),
        ("{ return " + "+".join(["input.a"] * 300) + "; }", "100 levels"),
        ("{ return " + "- " * 150 + "input.a; }", "100 levels"),
        ("{ " + "if (input.a) ; else " * 300 + "; return 1; }", "100 levels"),
        ("{ " + "{" * 150 + "}" * 150 + " return 1; }", "100 levels"),
        ("{ return " + "input.a ? 1 : " * 150 + "2; }", "100 levels"),
        ("{ int x; " + "x = " * 150 + "1; return x; }", "100 levels"),
        ("{ return 1; " + " " * (1 << 18) + "}", "262,144"),
    ],
)
def test_the_parser_refuses_what_is_too_deep_or_too_long(source: str, figure: str) -> None:
    with pytest.raises(ecode.CompileError, match=r"\[ECODE_PARSE\]") as caught:
        ecode.compile(source, [ecode.Param("input", INPUT)])
    assert figure in str(caught.value)


@pytest.mark.parametrize(
    ("source", "figure"),
    [
        ("{ int a; " + "a = 1; " * 20_000 + "return a; }", "lines"),
        ("{ int a = 1; " + "if (input.a) a = 2; " * 2000 + "return a; }", "branches"),
        ("{ int a = 1; " + "a = a / input.a; " * 2000 + "return a; }", "branches"),
    ],
)
def test_what_is_too_large_to_compile_is_refused_before_it_is_tried(source: str, figure: str) -> None:
    program = ecode.compile(source, [ecode.Param("input", INPUT)])
    with pytest.raises(ecode.NotCompilable, match=rf"[0-9,]+ {figure} of compiled code, more than [0-9,]+"):
        program.kernel()
    assert program.run({"input": {"a": 1}}).returned in (1, 2)


@pytest.mark.parametrize(
    "source",
    [
        "{ List z; z = input.q.lists[0]; *z.p[0] = 99; return 1; }",
        "{ List z = input.q.lists[1]; *z.p[1] = 99; return 1; }",
        "{ List z; z = input.q.lists[0]; *z.one += 1; return 1; }",
        "{ Outer z; z = input.q; *z.lists[1].p[0] = 99; return 1; }",
        "{ Outer y, z; y = input.q; z = y; (*z.lists[0].p[1])++; return 1; }",
        "{ Outer z; int *p; z = input.q; p = z.lists[0].p[0]; *p = 9; return 1; }",
        "{ struct mine { int *p[2]; int *one; } z; z.p[1] = input.q.lists[0].p[1]; z.p[1][0] = 9; return 1; }",
    ],
)
def test_pointers_that_a_copy_brings_write_nothing(source: str) -> None:
    with pytest.raises(ecode.CompileError, match="read-only data"):
        ecode.compile(source, [ecode.Param("input", KEPT)])


@pytest.mark.parametrize("asked", ["if (input.next) return 1;", "while (input.next) return 1;"])
def test_a_pointer_of_a_recursive_type_may_be_asked_for(asked: str) -> None:
    node = record("node", [Field("v", INT32), Field("next", Pointer(Ref("node")))])
    for source in (f"{{ {asked} return 0; }}", "{ return input.next ? 1 : 0; }", "{ return input.next && 1; }"):
        program = ecode.compile(source, [ecode.Param("input", node)])
        events = [{"v": 1, "next": {"v": 2}}, {"v": 3}]
        assert [program.run({"input": event}).returned for event in events] == [1, 0]
        assert "present" in program.kernel().kernel.source


def test_mistakes_are_said_once_and_in_words_of_the_program() -> None:
    with pytest.raises(ecode.CompileError) as caught:
        ecode.compile("{ int x = x; return x; }")
    assert len(caught.value.diagnostics) == 1
    with pytest.raises(ecode.CompileError, match="E-code has no switch"):
        ecode.compile("{ switch (1) { case 1: return 2; } return 1; }")
    with pytest.raises(ecode.ParameterError, match="has no 'params'"):
        described({})
    with pytest.raises(ecode.ParameterError, match="expected a mapping of parameters, not '5'"):
        ecode.compile("{ return 1; }").run(5)  # type: ignore[arg-type]
