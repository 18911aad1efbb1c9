"""Every shape of input and output, in both engines: nested dynamic arrays, arrays of strings, pointers, ranks."""

from __future__ import annotations

from typing import Any

import pytest

import ecode
from ecode.columns import columns_of, values_of
from ecode.types import (
    BOOLEAN,
    CHAR,
    ENUMERATION,
    FLOAT64,
    INT16,
    INT32,
    STRING,
    UINT8,
    UINT32,
    UINT64,
    Array,
    Field,
    Pointer,
    Ref,
    Struct,
    record,
)

VEC = Struct("Vec", (Field("n", INT32), Field("v", Array(INT16, ("n",))), Field("name", STRING)))
NODE = Struct("Node", (Field("v", INT32), Field("names", Array(STRING, (2,)))))
FIELDS = [
    Field("k", INT32),
    Field("q", Array(Ref("Vec"), ("k",))),
    Field("one", Ref("Vec")),
    Field("s", Array(STRING, ("k",))),
    Field("r", INT32),
    Field("c", INT32),
    Field("m", Array(FLOAT64, ("r", "c"))),
    Field("fixed", Array(Ref("Node"), (2,))),
    Field("next", Pointer(Ref("Node"))),
    Field("far", Pointer(INT32)),
    Field("letter", CHAR),
    Field("flag", BOOLEAN),
    Field("kind", ENUMERATION),
    Field("big", UINT64),
]
STRUCTS = [VEC, NODE]
PARAMS = [
    ecode.Param("input", record("input", FIELDS, STRUCTS)),
    ecode.Param("output", record("output", FIELDS, STRUCTS), ecode.Mode.OUT),
]
EVENTS: list[dict[str, Any]] = [
    {
        "k": 2,
        "q": [{"n": 1, "v": [7], "name": "first"}, {"n": 3, "v": [1, 2, 3], "name": None}],
        "one": {"n": 2, "v": [5, 6], "name": "alone"},
        "s": ["x", None],
        "r": 2,
        "c": 3,
        "m": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        "fixed": [{"v": 1, "names": ["a", "b"]}, {"v": 2, "names": [None, ""]}],
        "next": {"v": 9, "names": ["p", "q"]},
        "far": 4,
        "letter": -3,
        "flag": 1,
        "kind": 2,
        "big": 1 << 63,
    },
    {
        "k": 0, "q": [], "one": {"n": 0, "v": [], "name": ""}, "s": [], "r": 0, "c": 5, "m": [],
        "fixed": [{"v": 0, "names": [None, None]}] * 2, "next": None, "far": None, "letter": 65, "flag": 0, "kind": 0,
        "big": 0,
    },
]  # fmt: skip
PROGRAMS = {
    "whole record": "{ output = input; return 1; }",
    "whole record, through a pointer": "{ int *p = &input.k; output = input; return *p; }",
    "element by element": """{
        int i, j;
        output.k = input.k;
        for (i = 0; i < input.k; i++) {
            output.q[i].n = input.q[i].n + 1;
            for (j = 0; j < input.q[i].n; j++) output.q[i].v[j] = input.q[i].v[j] * 2;
            output.q[i].name = input.q[i].name;
            output.s[i] = input.s[input.k - 1 - i];
        }
        output.one = input.one;
        return output.k;
    }""",
    "two dynamic extents": """{
        int i, j;
        output.r = input.c; output.c = input.r;
        for (i = 0; i < input.r; i++) for (j = 0; j < input.c; j++) output.m[j][i] = input.m[i][j];
        output.r--;
        return 1;
    }""",
    "pointers followed": """{
        if (input.next != NULL) { output.kind = input.next->v; output.s[0] = input.next->names[1]; }
        if (input.far) output.big = *input.far + input.big;
        return !input.next;
    }""",
    "pointers kept": """{
        Node *p = input.next;
        static int seen = 0;
        Node mine;
        mine.v = 5; mine.names[0] = input.s[0];
        output.next = p ? p : &mine;
        output.far = &mine.v;
        output.r = 8;
        seen++;
        return p == NULL || p->v == 9;
    }""",
    "a pointer through an array": """{
        Vec *p; int total = 0;
        for (p = input.q; p - input.q < input.k; p++) { short *w = p->v; if (p->n > 0) total += *w; }
        output.k = total;
        return total > 0;
    }""",
    "inner arrays after the outer one grew": """{
        output.k = 1; output.q[0].n = 2; output.q[0].v[1] = 4;
        output.k = 40; output.q[39].n = 1; output.q[39].v[0] = 6;
        output.k = 2; output.k = 3;
        return output.q[0].v[1];
    }""",
    "odd kinds": """{
        output.letter = input.letter - 1; output.flag = !input.flag; output.kind = input.kind + 1;
        output.big = input.big / 3 + (input.big > 5);
        return input.letter < 0;
    }""",
    "local records": """{
        Vec a, b; int i;
        a.n = 3; for (i = 0; i < a.n; i++) a.v[i] = i + input.k;
        b = a; b.v[0] = 100; a.n = 1;
        output.one = b; output.one.name = input.one.name;
        return a.v[0] + b.v[0];
    }""",
}


def outcomes(program: ecode.Program) -> list[Any]:
    found: list[Any] = []
    for event in EVENTS:
        try:
            outcome = program.run({"input": event})
            found.append((outcome.returned, outcome.outputs["output"]))
        except ecode.Trap as trap:
            found.append(str(trap))
    return found


def batch_outcomes(program: ecode.Program) -> list[Any]:
    structs, types = program.typed.structs, program.typed.param_types
    result = program.kernel(ecode.Keep.ALL).run({"input": columns_of(EVENTS, types["input"], structs)}, len(EVENTS))
    assert result.returned is not None
    rows = values_of(result.outputs["output"], types["output"], structs)
    passed = iter(zip(values_of(result.returned, INT32, {}), rows, strict=True))
    traps = dict(result.traps)
    return [str(traps[i]) if i in traps else next(passed) for i in range(len(EVENTS))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_engines_agree(name: str) -> None:
    program = ecode.compile(PROGRAMS[name], PARAMS)
    assert batch_outcomes(program) == outcomes(program)


@pytest.mark.parametrize("one", [("a", INT32), "a", Field("a", "int")])  # type: ignore[arg-type]
def test_an_unknown_field_is_refused(one: Any) -> None:
    with pytest.raises(TypeError, match=r"Field\(\"n\", INT32\)"):
        record("x", [one])


def test_a_copied_record_is_the_record() -> None:
    program = ecode.compile(PROGRAMS["whole record"], PARAMS)
    returned, output = outcomes(program)[0]
    assert returned == 1
    assert output["q"][1]["v"] == [1, 2, 3]
    assert output["next"] == {"v": 9, "names": [b"p", b"q"]}
    assert output["m"] == EVENTS[0]["m"]


NUMBERED = record("a", [Field("c", UINT8), Field("e", UINT32), Field("n", INT32), Field("es", Array(UINT32, ("n",)))])
SYMBOLIC = record(
    "b", [Field("c", CHAR), Field("e", ENUMERATION), Field("n", INT32), Field("es", Array(ENUMERATION, ("n",)))]
)
OF_NUMBERS = {"c": 200, "e": 2**32 - 1, "n": 2, "es": [2**31, 5]}
OF_SYMBOLS = {"c": -56, "e": -1, "n": 2, "es": [-(2**31), 5]}


@pytest.mark.parametrize(
    "way", [(NUMBERED, OF_NUMBERS, SYMBOLIC, OF_SYMBOLS), (SYMBOLIC, OF_SYMBOLS, NUMBERED, OF_NUMBERS)]
)
@pytest.mark.parametrize("text", ["output = input;", "TYPE t; t = input; { TYPE *p = &output; *p = t; }"])
def test_a_record_is_copied_where_characters_and_enumerations_are_numbers_to_the_other(way: Any, text: str) -> None:
    """So readers' transforms, which see them as numbers, can begin with `output = input`."""
    source, given, target, wanted = way
    program = ecode.compile(
        f"{{ {text.replace('TYPE', target.name)} return 1; }}",
        [ecode.Param("input", source), ecode.Param("output", target, ecode.Mode.OUT)],
    )
    assert program.run({"input": given}).outputs["output"] == wanted
    column = columns_of([given], Ref(source.name), program.typed.structs)
    result = program.kernel().run({"input": column}, 1)
    assert values_of(result.outputs["output"], Ref(target.name), program.typed.structs) == [wanted]
