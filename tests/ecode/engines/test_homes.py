"""Arrays of an output are made in their columns: with changing sizes and dropped rows, as by the interpreter."""

from __future__ import annotations

import random

import pytest

import ecode
from ecode.columns import columns_of, values_of
from ecode.types import FLOAT64, INT8, INT32, Array, Field, Ref, record

INPUT = record("input", [Field("a", INT32), Field("b", INT32), Field("c", INT32)])
OUTPUT = record(
    "output",
    [
        Field("n", INT32),
        Field("v", Array(FLOAT64, ("n",))),
        Field("m", INT32),
        Field("w", Array(INT8, ("m", 3))),
        Field("u", Array(INT32, ("n",))),
    ],
)
FILL = "for (i = 0; i < output.n; i++) output.v[i] += 10 * i + input.c;"
PROGRAMS = {
    "once": f"output.n = input.a; {FILL}",
    "grows": f"output.n = input.a; {FILL} output.n = input.a + input.b; {FILL}",
    "shrinks": f"output.n = input.a + input.b; {FILL} output.n = input.b; {FILL} output.n = input.a; {FILL}",
    "by one": "for (i = 0; i < input.a; i++) { output.n++; output.v[i] = i; output.u[i] = -i; }",
    "sometimes": f"if (input.c > 0) output.n = input.a; {FILL} if (input.c > 1) {{ output.n = 0; output.n = 2; }}",
    "two": f"output.m = input.b; output.n = input.a; {FILL} for (i = 0; i < output.m; i++) output.w[i][2] = i;",
    "beside": "output.n = input.a; for (i = 0; i < output.n; i++) { output.v[i] = i; output.u[i] = 2 * output.v[i]; }",
    "traps": f"output.n = input.a; {FILL} output.v[input.b] = 1;",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_that_change_their_size(name: str) -> None:
    chance, sizes = random.Random(name), (0, 0, 1, 2, 5, 40)
    events = [{key: chance.choice(sizes) for key in "ab"} | {"c": chance.randrange(4)} for _ in range(300)]
    source = f"{{ int i; {PROGRAMS[name]} return input.c != 2; }}"
    params = [ecode.Param("input", INPUT), ecode.Param("output", OUTPUT, ecode.Mode.OUT)]
    program = ecode.compile(source, params)
    expected, traps = [], []
    for number, event in enumerate(events):
        try:
            outcome = program.run({"input": event})
        except ecode.Trap:
            traps.append(number)
            continue
        if outcome.returned:
            expected.append(outcome.outputs["output"])
    structs = program.typed.structs
    result = program.kernel().run({"input": columns_of(events, Ref("input"), structs)}, len(events))
    assert [number for number, _ in result.traps] == traps
    rows = values_of(result.outputs["output"], Ref("output"), structs)
    written = [{key: value for key, value in row.items() if value is not None} for row in rows]
    assert written == [{key: row[key] for key in own} for own, row in zip(written, expected, strict=True)]
    assert sum(len(row["v"]) for row in written if "v" in row) > 100
    assert bool(traps) == (name == "traps")
