"""The state of programs, alone and in a row: both engines keep the same, event after event."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import ecode
from ecode import Mode, Param
from ecode.columns import BatchProgram, OutputMemory, columns_of, values_of
from ecode.columns.binding import ColumnBinding
from ecode.columns.inputs import input_buffers
from ecode.columns.run import BatchResult
from ecode.interpreter.row import Row
from ecode.outcome import Statics
from ecode.typed_to_numba.state import statics as statics_text
from ecode.types import CHAR, FLOAT32, INT32, INT64, STRING, Array, Field, Pointer, Ref, Struct, record
from tests.ecode.engines import programs
from tests.ecode.engines.test_engines import INCLUDE, LONG, PROGRAMS, SEEDS, plain

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
    samples: Any = None,
) -> BatchResult:
    batch, binding = compiled
    first, structs = row[0].typed, row[0].typed.structs
    column = columns_of(events, first.param_types["input"], structs)
    count = len(events)
    memory: Any = input_buffers(binding.sources, {"input": column}, first.param_types, structs, count, ())
    memory |= batch.sampled(samples or {})
    return batch.run({}, count, statics, memory=memory, outputs=OutputMemory(most_bytes=most_bytes))


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


def test_a_sampled_service_gives_one_number_for_a_batch_and_needs_no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    host: dict[str, float] = {"load": 0.75, "queue": 2**40, "small": 300}
    services = [
        ecode.service("double load()", lambda: host["load"], is_sampled=True),
        ecode.service("long queue(void)", lambda: host["queue"], is_sampled=True, is_logged=True),
        ecode.service("unsigned char small()", lambda: host["small"], is_sampled=True),
    ]
    texts = [
        "{ return load() * 4 > input.x; }",
        "{ output.n = queue() + small() + (long)(100 * load()); output.own = input.x; return 1; }",
    ]
    params = [[Param("input", STOCK)], [Param("input", STOCK), Param("output", COUNTED, Mode.OUT)]]
    row = [ecode.compile(t, p, functions=services) for t, p in zip(texts, params, strict=True)]
    batch, _ = compiled = in_row(row)
    assert set(batch.event.samples) == {"load", "queue", "small"}
    monkeypatch.setattr("ecode.columns.batch.compile_kernel", None)
    events = [{"x": x, "s": None} for x in range(4)]
    for load in (0.75, 0.3, float("nan")):
        host["load"] = load
        result = run(compiled, row, events, {}, samples=host)
        outcomes = [Row(row).run({"input": event}) for event in events]
        assert result.passed.tolist() == [outcome.passed for outcome in outcomes]
        made = values_of(result.outputs["output"], Ref("counted"), row[1].typed.structs)
        assert made == [outcome.output for outcome in outcomes if outcome.passed]
        logged = [(number, *call) for number, outcome in enumerate(outcomes) for call in outcome.log]
        assert list(result.log) == logged
    with pytest.raises(ecode.ParameterError, match="'queue'"):
        batch.sampled({"load": 1, "small": 2})
    with pytest.raises(ecode.ParameterError, match="sampled"):
        ecode.service("double scale(double x)", abs, is_sampled=True)


def test_two_programs_cannot_mean_different_types_by_one_state() -> None:
    first, _ = stock_row()
    other = ecode.compile("{ return state.x; }", [Param("input", STOCK), Param("state", STOCK, Mode.STATE)])
    for make in (in_row, Row):
        with pytest.raises(ecode.ParameterError, match="'state'"):
            make([first, other])


DEEP = Struct("q", (Field("x", Array(Pointer(INT32), (2,))),))


@pytest.mark.parametrize(
    ("type_", "field"),
    [
        (record("r", [Field("n", INT32), Field("a", Array(INT32, ("n",)))]), "state.a"),
        (record("r", [Field("p", Pointer(INT32))]), "state.p"),
        (
            record("r", [Field("o", Ref("q"))], [DEEP]),
            r"state.o.x\[\]",
        ),
        (INT32, "state"),
    ],
)
def test_state_holds_only_what_has_a_fixed_place(type_: Any, field: str) -> None:
    with pytest.raises(ecode.ParameterError, match=field):
        ecode.compile("{ return 0; }", [Param("state", type_, Mode.STATE)])


def test_a_batch_that_ends_early_leaves_the_state_as_after_its_events() -> None:
    """Outputs that grow, and strings that do, run the event again; a full batch leaves it for the next one."""
    row = stock_row()
    twin, compiled = Row(row), in_row(row)
    events = [{"x": 2, "s": "s" * (i * 37 % 3000)} for i in range(60)]
    for event in events:
        event["x"] = 1 + (events.index(event) == 0)
    expected, found, known, done = twin.statics, twin.statics, [twin.statics], 0
    for event in events:
        twin.run({"input": event}, expected)
        known.append(deepcopy(expected))
    while done < len(events):
        result = run(compiled, row, events[done:], found, most_bytes=4000)
        done += len(result.passed)
        assert found == known[done]


def test_none_starts_afresh_each_time() -> None:
    program = ecode.compile("{ static int n = 4; return ++n == 5; }", [Param("input", STOCK)])
    batch, column = program.kernel(), columns_of([{"x": 1, "s": None}], Ref("stock"), program.typed.structs)
    assert [batch.run({"input": column}, 1).passed.tolist() for _ in range(2)] == [[1], [1]]
    assert batch.initial == {"n": 4}


def test_constant_strings_survive_others_that_change() -> None:
    text = '{ static const string a = "first"; static string b; b = input.s; return a == "first"; }'
    program = ecode.compile(text, [Param("input", STOCK)])
    events = [{"x": 1, "s": "s" * n} for n in range(9)]
    column, state = columns_of(events, Ref("stock"), program.typed.structs), program.statics
    assert program.kernel().run({"input": column}, 9, state).passed.tolist() == [1] * 9
    assert state == {"a": b"first", "b": b"s" * 8}


@pytest.mark.parametrize(
    "value",
    [
        {}, {"n": None}, {"a": [1, 2, 3]},
        {"a": [1, None, 3]}, {"a": None}, {"n": True}, {"last": "x"}, {"last": b"\0"},
        {"a": [1, 2]}, {"a": [1, 2, 3, 4]}, {"a": [1, 2, 2**31]}, {"a": [1, 2, 0.5]}, {"a": [[1, 2, 3]]}, {"a": "abc"},
        {"b": 1}, {"n": 2**63}, {"n": 1.0}, {"last": 5}, {"f": [1, 2.5]}, {"f": [1e300, -1e300]}, {"f": [1, True]},
        {"f": ["1", 2]}, {"f": [float("nan"), 2**70]}, {"c": [255, 1]}, {"c": [256, 1]}, {"c": [-128, 0]}, 5, None,
    ],
)  # fmt: skip
def test_both_engines_take_the_same_states(value: Any) -> None:
    fields = [*SEEN.structs[0].fields, Field("f", Array(FLOAT32, (2,))), Field("c", Array(CHAR, (2,)))]
    params = [Param("input", STOCK), Param("state", record("seen", fields), Mode.STATE)]
    program = ecode.compile("{ return state.n == 0; }", params)
    event: dict[str, Any] = {"x": 1, "s": None}
    column = columns_of([event], Ref("stock"), program.typed.structs)
    one, other = {"state": value}, {"state": value}
    try:
        program.run({"input": event}, one)
    except ecode.ParameterError:
        with pytest.raises(ecode.ParameterError, match="state"):
            program.kernel().run({"input": column}, 1, other)
        assert other == {"state": value}
    else:
        program.kernel().run({"input": column}, 1, other)
        assert plain(other) == plain(one)
