"""The state of programs, alone and in a row: both engines keep the same, event after event."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings

import ecode
from ecode import Mode, Param
from ecode.columns import BatchProgram, OutputMemory, columns_of, values_of
from ecode.columns.binding import ColumnBinding
from ecode.columns.inputs import input_buffers
from ecode.columns.run import BatchResult
from ecode.interpreter.row import Row
from ecode.outcome import Statics
from ecode.typed_to_numba import statics as statics_text
from ecode.types import INT32, INT64, STRING, Array, Field, Ref, Struct, record
from tests.ecode import programs
from tests.ecode.test_engines import INCLUDE, LONG, PROGRAMS, SEEDS, plain

KEPT = record(
    "kept",
    [
        *(Field(name, type_) for name, type_ in programs.NUMBERS.items()),
        Field("v", Array(INT32, (4,))),
        Field("o", Ref("Point")),
        Field("s", STRING),
        Field("t", Array(STRING, (2,))),
        Field("u", Ref("Pair")),
    ],
    [programs.POINT, Struct("Pair", (Field("one", STRING), Field("x", INT64)))],
)
STATE = Param("state", KEPT, Mode.STATE)
FILTER, TRANSFORM = [programs.PARAMS[0], STATE], [*programs.PARAMS, STATE]


class Maker(programs.Maker):
    """Programs that read and write state and static variables; without `has_output` they write nothing else."""

    def __init__(self, random: Random, *, has_output: bool) -> None:
        super().__init__(random, is_c=False)
        self.has_output = has_output

    def program(self) -> str:
        self.locals, self.counters, self.fresh, self.depth = [], set(), 0, 1
        lines = [
            "static long n = 2; n += 1;",
            'static string last = "x"; last = input.s;',
            "static Point at; at.x += 1;",
        ]
        lines = [self.declaration(), *(line for line in lines if self.random.random() < 0.3)]
        lines += [self.kept(), self.statement(), self.kept()]
        if self.random.random() < 0.3:
            lines.append(f"if ({self.condition(1)}) return {self.integer(1)};")
        text = "{ " + "\n".join([*lines, self.kept(), f"return {self.integer(2)}; }}"])
        return text if self.has_output else text.replace("output.", "made.").replace("{", "{ output made;", 1)

    def statement(self) -> str:
        return self.kept() if self.depth < 3 and self.random.random() < 0.3 else super().statement()

    def kept(self) -> str:
        choose, name = self.random.choice, self.random.choice(list(programs.NUMBERS))
        return choose(
            [
                f"state.{name} = {self.value(programs.NUMBERS[name], 2)};",
                f"state.{name} += {self.integer(1)};",
                f"state.{choose('abcdefghpq')}++;",
                f"state.v[{self.integer(1)} & 3] = {self.integer(1)};",
                f"state.v[{self.integer(1)}] += 1;",
                "state.o = input.o;",
                "output.o = state.o;",
                f"state.o.k[state.a & 1] = {self.integer(1)};",
                f"state.s = {self.string()};",
                f"state.t[{self.integer(1)} & 1] = {self.string()};",
                "state.t[1] = state.s; state.s = state.t[0];",
                f"state.u.one = {self.string()}; state.u.x += 1;",
                "output.s = state.u.one;",
                "{ int *q = &state.v[1]; q[state.b & 3] += 2; *q += 1; }"
                if self.random.random() < 0.3
                else "state.e--;",
                "if (state.e > 4) { state.e = 0; return 0; }",
                "if (state.s == input.s) state.g += strlen(state.t[0] ? state.t[0] : input.t);",
            ]
        )

    def integer_leaf(self) -> str:
        return f"state.{self.random.choice('abcdefgh')}" if self.random.random() < 0.2 else super().integer_leaf()

    def string(self) -> str:
        return self.random.choice(["state.s", "state.t[1]"]) if self.random.random() < 0.3 else super().string()


def in_row(row: list[ecode.Program], names: tuple[str, ...] = ()) -> tuple[BatchProgram, ColumnBinding]:
    binding = ColumnBinding("input", row[0].typed.param_types["input"])
    return BatchProgram.in_row(row, binding, names=names), binding


def run(
    compiled: tuple[BatchProgram, ColumnBinding],
    row: list[ecode.Program],
    events: list[dict[str, Any]],
    statics: Statics,
    most_bytes: int | None = None,
    **more: Any,
) -> BatchResult:
    batch, binding = compiled
    first, structs = row[0].typed, row[0].typed.structs
    column = columns_of(events, first.param_types["input"], structs)
    count = len(events)
    memory: Any = input_buffers(binding.sources, {"input": column}, first.param_types, structs, count, ())
    return batch.run(more, count, statics, memory=memory, outputs=OutputMemory(most_bytes=most_bytes))


def interpreted(row: Row, events: list[dict[str, Any]], statics: Statics) -> list[Any]:
    """For each event its output, None where it is dropped, its trap."""
    found: list[Any] = []
    for event in events:
        try:
            outcome = row.run({"input": event}, statics)
            found.append(plain(outcome.output) if outcome.passed else None)
        except ecode.Trap as trap:
            found.append((str(trap), trap.program))
    return found


def compiled_row(
    compiled: tuple[BatchProgram, ColumnBinding],
    row: list[ecode.Program],
    events: list[dict[str, Any]],
    statics: Statics,
) -> list[Any]:
    result = run(compiled, row, events, statics)
    ((name, column),) = result.outputs.items()
    outputs = iter(values_of(column, row[-1].typed.param_types[name], row[-1].typed.structs))
    traps = {number: (str(trap), trap.program) for number, trap in result.traps}
    return [
        traps[i] if i in traps else plain(next(outputs)) if passed else None for i, passed in enumerate(result.passed)
    ]


@settings(PROGRAMS, max_examples=600 if LONG else 4)
@given(SEEDS)
def test_a_row_keeps_the_state_that_its_plain_twin_keeps(seed: int) -> None:
    random = Random(seed)
    limits = ecode.Limits(budget=random.choice([300, 2000, 100_000]), output_bytes=random.choice([200, 1 << 20]))
    sources = [INCLUDE + Maker(random, has_output=False).program(), INCLUDE + Maker(random, has_output=True).program()]
    given = [FILTER, TRANSFORM]
    records = (programs.OUTPUT,)
    row = [ecode.compile(s, p, records=records, limits=limits) for s, p in zip(sources, given, strict=True)]
    row = row[random.choice([0, 0, 1]) :]
    statics_text._MOST_PARTS = random.choice([0, 32])
    try:
        compiled = in_row(row)
    finally:
        statics_text._MOST_PARTS = 32
    maker = Maker(random, has_output=True)
    events = [maker.event() for _ in range(10)]
    twin = Row(row)
    expected, found = twin.statics, twin.statics
    for part in (events[:6], events[6:]):
        assert compiled_row(compiled, row, part, found) == interpreted(twin, part, expected), sources
        assert plain(found) == plain(expected), sources


STOCK = record("stock", [Field("x", INT32), Field("s", STRING)])
SEEN = record("seen", [Field("n", INT64), Field("last", STRING), Field("a", Array(INT32, (3,)))])
COUNTED = record("counted", [Field("n", INT64), Field("own", INT32), Field("last", STRING)])


def stock_row() -> list[ecode.Program]:
    """A filter and a transform that share `state`, and have a static `n` each."""
    state = Param("state", SEEN, Mode.STATE)
    keep = "{ static int n = 10; n += 1; state.n += input.x; state.a[input.x] = n; return state.n & 1; }"
    make = """{ static int n; n += 1; output.n = state.n; output.own = n; output.last = state.last;
        state.last = input.s; state.n += 100; }"""
    return [
        ecode.compile(keep, [Param("input", STOCK), state]),
        ecode.compile(make, [Param("input", STOCK), Param("output", COUNTED, Mode.OUT), state], None),
    ]


def test_the_filter_updates_what_the_transform_of_the_same_event_sees() -> None:
    row = stock_row()
    twin, batch = Row(row, ("filter", "transform")), in_row(row, ("filter", "transform"))
    assert twin.statics == batch[0].initial == {
        "state": {"n": 0, "last": None, "a": [0, 0, 0]}, "filter.n": 10, "transform.n": 0
    }  # fmt: skip
    events = [{"x": x, "s": "s" * x} for x in (1, 2, 1, 3, -1, 2, 0)]
    state, other = twin.statics, twin.statics
    expected = interpreted(twin, events, state)
    assert compiled_row(batch, row, events, other) == expected
    assert other == state == {
        "state": {"n": 206, "last": b"ss", "a": [15, 13, 14]}, "filter.n": 15, "transform.n": 2
    }  # fmt: skip
    assert [e if not isinstance(e, tuple) else "trap" for e in expected] == [
        {"n": 1, "own": 1, "last": None}, {"n": 103, "own": 2, "last": b"s"}, None, "trap", "trap", None, None,
    ]  # fmt: skip
