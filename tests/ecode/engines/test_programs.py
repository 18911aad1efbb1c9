"""Programs as a host sees them: results, state, traps, services, analysis; with both engines where possible."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import ecode
from ecode.columns import Column, columns_of, values_of
from ecode.types import (
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Basic,
    Field,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    record,
)

STOCK = record("stock", [Field("symbol", STRING), Field("price", FLOAT64)])
RANGE = "{ if ((input.price < 75.0) || (input.price > 80.0)) { return 1; } return 0; }"
MONITORING = """{
int i, len = 0;
for ( i = 0; i < new.number_of_cpus; i = i + 1)
    len += new.rqueue_length[i];
old.avg_rqueue_length = len / new.number_of_cpus;
old.free_memory = new.total_memory -
    new.used_memory;
old.rx_tx_bytes = new.rx_bytes + new.tx_bytes;
}"""
NEW = record(
    "MonitoringMsg",
    [
        Field("number_of_cpus", INT32),
        Field("rqueue_length", Array(INT32, ("number_of_cpus",))),
        *(Field(name, INT32) for name in ("total_memory", "used_memory", "rx_bytes", "tx_bytes")),
    ],
)
OLD = record("MonitoringMsg", [Field(name, INT32) for name in ("avg_rqueue_length", "free_memory", "rx_tx_bytes")])


def simple(source: str, returns: Basic | None = INT32, *fields: Field, **options: Any) -> ecode.Program:
    """A program on a record `input` with these fields."""
    return ecode.compile(source, [ecode.Param("input", record("input", fields))], returns, **options)


def batch_of(program: ecode.Program, name: str, values: list[Any]) -> Column:
    return columns_of(values, program.typed.param_types[name], program.typed.structs)


def test_statics_survive_events_and_roll_back_on_traps() -> None:
    source = '{ static int n = 10; static string last = "-"; static int a[3]; static short n2;\n'
    source += "n += 1; a[n % 3]++; n2--; last = input.s; return a[input.x]; }"
    program = simple(source, INT32, Field("x", INT32), Field("s", STRING))
    assert program.statics == {"n": 10, "last": b"-", "a": [0, 0, 0], "n2": 0}
    events = [{"x": 0, "s": "one"}, {"x": 9, "s": "two"}, {"x": 1, "s": "x" * 1000}]
    expected = {"n": 12, "last": b"x" * 1000, "a": [1, 0, 1], "n2": -2}
    statics = program.statics
    for event in events[:1]:
        program.run({"input": event}, statics)
    before = dict(statics)
    with pytest.raises(ecode.Trap):
        program.run({"input": events[1]}, statics)
    assert statics == before
    program.run({"input": events[2]}, statics)
    assert statics == expected
    state = program.statics
    result = program.kernel().run({"input": batch_of(program, "input", events)}, 3, state)
    assert [event for event, _ in result.traps] == [1]
    assert state == expected


def test_services_and_printf_go_to_the_log() -> None:
    emit = ecode.service("void emit(int port, double v)", lambda port, v: None, "0", is_logged=True)
    source = '{ int i; for (i = 0; i < input.x; i++) emit(i, input.x * 0.5); printf("%s=%d!", input.s, input.x);\n'
    source += "return 10 / input.x; }"
    program = simple(source, INT32, Field("x", INT32), Field("s", STRING), functions=[emit, ecode.PRINTF])
    expected = (("emit", (0, 1.0)), ("emit", (1, 1.0)), ("printf", ("abc=2!",)))
    assert program.run({"input": {"x": 2, "s": "abc"}}).log == expected
    events = [{"x": 2, "s": "abc"}, {"x": 0, "s": None}, {"x": 1, "s": None}]
    result = program.kernel().run({"input": batch_of(program, "input", events)}, 3)
    # What an event logged before it trapped is not there.
    assert result.log == (
        *((0, name, arguments) for name, arguments in expected),
        (2, "emit", (0, 0.5)),
        (2, "printf", ("(null)=1!",)),
    )


def test_a_service_without_native_form_runs_in_the_interpreter_only() -> None:
    program = simple("{ return ask(2); }", functions=[ecode.service("int ask(int x)", lambda x: x + 40)])
    assert program.run({"input": {}}).returned == 42
    with pytest.raises(ecode.NotCompilable, match="ask"):
        program.kernel()


def test_any_name_reaches_its_field() -> None:
    fields = [Field("integer field", INT32), Field("for", INT32), Field("é", INT32)]
    program = simple('{ return input["integer field"] * 100 + input.for * 10 + input["é"]; }', INT32, *fields)
    event = {"integer field": 1, "for": 2, "é": 3}
    assert program.run({"input": event}).returned == 123
    result = program.kernel(ecode.Keep.ALL).run({"input": batch_of(program, "input", [event])}, 1)
    assert result.returned is not None
    assert result.returned.data is not None
    assert result.returned.data.tolist() == [123]


def test_absent_fields_read_as_default_or_zero() -> None:
    fields = [Field("x", INT32, Notes(default=7)), Field("y", INT32), Field("p", Pointer(INT32))]
    program = simple("{ return input.x * 10 + input.y + present(input.x) + 2 * present(input.p); }", INT32, *fields)
    assert program.run({"input": {}}).returned == 70
    assert program.run({"input": {"x": 1, "y": 2, "p": 5}}).returned == 15


def test_two_versions_of_one_structure() -> None:
    old = record("r", [Field("p", Ref("Point"))], [Struct("Point", (Field("x", INT16),))])
    new = record("r", [Field("p", Ref("Point"))], [Struct("Point", (Field("x", FLOAT64), Field("y", INT64)))])
    params = [ecode.Param("new", new), ecode.Param("old", old, ecode.Mode.OUT)]
    program = ecode.compile("{ old.p.x = new.p.x + new.p.y; }", params, None)
    assert program.run({"new": {"p": {"x": 1.5, "y": 2}}}).outputs["old"] == {"p": {"x": 3}}


def test_columns_that_a_program_never_writes_are_not_there() -> None:
    output = record(
        "output", [Field("a", INT32), Field("b", STRING), Field("n", INT32), Field("v", Array(INT32, ("n",)))]
    )
    program = ecode.compile("{ output.a = 1; }", [ecode.Param("output", output, ecode.Mode.OUT)], None)
    assert list(program.kernel().run({}, 2).outputs["output"].children) == ["a"]


def test_output_that_grows_beyond_every_first_guess() -> None:
    output = record("output", [Field("n", INT32), Field("v", Array(INT64, ("n",))), Field("s", STRING)])
    source = "{ int i; for (i = 0; i < 20000; i++) { output.n++; output.v[i] = i * input.x; }\n"
    source += "output.s = input.s; return 1; }"
    fields = record("input", [Field("x", INT32), Field("s", STRING)])
    program = ecode.compile(source, [ecode.Param("input", fields), ecode.Param("output", output, ecode.Mode.OUT)])
    events = batch_of(program, "input", [{"x": x, "s": "y" * 500 * x} for x in range(4)])
    rows = values_of(program.kernel().run({"input": events}, 4).outputs["output"], Ref("output"), program.typed.structs)
    assert [row["v"] for row in rows] == [[i * x for i in range(20000)] for x in range(4)]
    assert [len(row["s"]) for row in rows] == [0, 500, 1000, 1500]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("{ while (1) ; return 1; }", "budget_exceeded"),
        ("{ int i; for (i = 0; i <= 2147483647; i++) ; return 1; }", "budget_exceeded"),
        ("{ again: goto again; return 1; }", "budget_exceeded"),
        ("{ output.n = -1; return 1; }", "negative_size"),
        ("{ output.n = 2147483647; return 1; }", "size_limit"),
        ("{ int i; for (i = 1; i < 1000; i++) output.n = i * 1000; return 1; }", "size_limit"),
        ("{ int *p; return *p; }", "index_out_of_range"),
        ("{ int a; int *p = &a; p = p + 2; return 1; }", "index_out_of_range"),
        ("{ int a; int *p = &a; return p[1]; }", "index_out_of_range"),
        ("{ string s; return s[0]; }", "index_out_of_range"),
        ('{ string s = "abc"; return s[4]; }', "index_out_of_range"),
        ("{ return 1 % (output.n * 1); }", "division_by_zero"),
        ("#include <string.h>\n{ string s; return strlen(s); }", "index_out_of_range"),
    ],
)
def test_traps(source: str, kind: str) -> None:
    output = record("output", [Field("n", INT32), Field("v", Array(INT64, ("n",)))])
    limits = ecode.Limits(budget=1_000_000, output_bytes=1 << 20)
    program = ecode.compile(source, [ecode.Param("output", output, ecode.Mode.OUT)], limits=limits)
    with pytest.raises(ecode.Trap) as caught:
        program.run({})
    assert caught.value.kind == kind
    ((_, trap),) = program.kernel().run({}, 1).traps
    assert str(trap) == str(caught.value)


def test_a_batch_program_needs_no_compiler_where_it_is_sent() -> None:
    program = ecode.compile(RANGE, [ecode.Param("input", STOCK)])
    column = batch_of(program, "input", [{"symbol": "x", "price": price} for price in (1.0, 77.0)])
    script = (
        "import pickle, sys; kernel, column = pickle.load(sys.stdin.buffer)\n"
        "print(kernel.run({'input': column}, 2).passed.tolist(), 'numba' in sys.modules, 'lark' in sys.modules)"
    )
    sent = pickle.dumps((program.kernel(), column))
    done = subprocess.run([sys.executable, "-c", script], input=sent, capture_output=True, check=True)
    assert done.stdout.decode().split("] ")[0] == "[1, 0"
    assert "True" not in done.stdout.decode().split()[2]


def broken(column: Column, **changes: Any) -> Column:
    array = column.children["rqueue_length"]
    children = dict(column.children)
    for name, value in changes.items():
        if name == "number_of_cpus":
            children[name] = Column(2, np.array(value, np.int32))
        elif name == "offsets":
            children["rqueue_length"] = Column(2, None, np.array(value, np.int32), None, array.children)
        else:
            children["rqueue_length"] = Column(2, None, array.offsets, None, {"[]": Column(1, np.zeros(1, np.int32))})
    return Column(2, children=children)


@pytest.mark.parametrize(
    "changes",
    [
        {"number_of_cpus": [3, 2]},
        {"number_of_cpus": [-1, 2]},
        {"number_of_cpus": [2]},
        {"offsets": [0, 2, 400]},
        {"offsets": [0, -2, 4]},
        {"offsets": [2, 0, 4]},
        {"offsets": [0, 2]},
        {"offsets": [2**31 - 1, -(2**31), 2]},
        {"offsets": [2**31 - 1, -(2**31), 2], "number_of_cpus": [1, -(2**31) + 2]},
        {"items": None},
    ],
)
def test_columns_that_contradict_themselves_are_refused(changes: dict[str, Any]) -> None:
    program = ecode.compile(MONITORING, [ecode.Param("new", NEW), ecode.Param("old", OLD, ecode.Mode.OUT)], None)
    memory = dict.fromkeys(("total_memory", "used_memory", "rx_bytes", "tx_bytes"), 1)
    good = batch_of(program, "new", [{"number_of_cpus": 2, "rqueue_length": [1, 2], **memory}] * 2)
    with pytest.raises(ecode.ParameterError, match=r"^\[ECODE_PARAMETER\] new"):
        program.kernel().run({"new": broken(good, **changes)}, 2)


def nested(levels: int, extent: int) -> Record:
    """A structure in a structure in a structure ..."""
    inner = (Struct(f"s{i}", (Field("f", Array(Ref(f"s{i + 1}"), (extent,))),)) for i in range(levels))
    return Record((*inner, Struct(f"s{levels}", (Field("x", INT32),))))


@pytest.mark.parametrize(
    "bad",
    [
        record("r", [Field("p", Ref("r"))]),
        record("r", [Field("p", Ref("nowhere"))]),
        record("r", [Field("v", Array(INT32, ("n",)))]),
        record("r", [Field("v", Array(INT32, (1 << 40,)))]),
        nested(500, 1),
        nested(60, 9),
    ],
)
def test_impossible_record_types_are_refused(bad: Record) -> None:
    with pytest.raises(ecode.ParameterError):
        ecode.compile("{ return 1; }", [ecode.Param("input", bad)])


def test_a_record_type_that_lacks_something_says_what_to_add() -> None:
    for field, hint in (
        (Field("p", Ref("nowhere")), "add it to the structures"),
        (Field("v", Array(INT32, ("n",))), "add Field('n', INT32) to r"),
    ):
        with pytest.raises(ecode.ParameterError) as caught:
            ecode.compile("{ return 1; }", [ecode.Param("input", record("r", [field]))])
        assert hint in caught.value.hint


def test_a_program_is_its_text_when_it_travels() -> None:
    program = ecode.compile(RANGE, [ecode.Param("input", STOCK)])
    copy = pickle.loads(pickle.dumps(program))
    assert copy.run({"input": {"price": 1.0}}).returned == 1


def test_analysis_of_loops_state_and_warnings() -> None:
    source = "#include <math.h>\n{ static int s; int k; int i; double d = 0; while (d < 10) d += sqrt(2.0);\n"
    source += "for (i = 0; i < input.n; i++) if (input.n > i * 2) return k; s++; return s; }"
    analysis = simple(source, INT32, Field("n", INT32), Field("unused", INT32)).analysis
    assert not analysis.is_bounded
    assert analysis.statics == ("s",)
    assert analysis.functions == ("sqrt",)
    assert analysis.reads == {"input": {"n"}}
    assert [warning.message for warning in analysis.warnings] == ["'k' may be read before it is written; it is 0 then"]
    assert simple("{ int i; for (i = 9; i >= 0; i--) if (i == 3) break; return i; }").analysis.is_bounded
    assert not simple("{ int i; for (i = 0; i < 9; i++) i--; return i; }").analysis.is_bounded
    assert not simple("{ int i = 0; top: i++; if (i < 3) goto top; return i; }").analysis.is_bounded


NAMES = """
    range copy zero heap log literals statics passed kernel status event row table state budget frame t1 x_t1 lambda
    None
    load_int32 as_int32 c_sqrt _1 budget_given input_x_data max_int64 trapped saved def int64 print __name__
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_variables_may_have_any_name(name: str) -> None:
    """Also those that generated text uses itself."""
    source = f"{{ int i, {name} = input.x; double s = 0; for (i = 0; i < 3; i++) s += {name}; {name}++;"
    program = simple(source + f" if (input.x < 0) return 1 / 0; return {name} + s; }}", INT32, Field("x", INT32))
    result = program.kernel(ecode.Keep.ALL).run({"input": batch_of(program, "input", [{"x": 5}, {"x": -1}])}, 2)
    assert result.returned is not None
    assert result.returned.data is not None
    assert result.returned.data.tolist() == [21] == [program.run({"input": {"x": 5}}).returned]


def test_deep_programs_compile_or_say_why_not() -> None:
    nested = "{ int i, s = 0; " + "if (input.x > s) { s++; " * 45 + "}" * 45 + " return s; }"
    assert simple(nested, INT32, Field("x", INT32)).kernel().run(
        {"input": Column(1, children={"x": Column(1, np.array([20], np.int32))})}, 1
    ).passed.tolist() == [1]
    loops = "{ int s = 0; " + "while (s < 3) { " * 30 + "s++; " + "}" * 30 + " return s; }"
    program = simple(loops)
    assert program.run({"input": {}}).returned == 3
    with pytest.raises(ecode.NotCompilable, match="loops"):
        program.kernel()
    sums = simple("{ return " + " + ".join(f"(input.x * {i})" for i in range(90)) + "; }", INT32, Field("x", INT32))
    assert sums.run({"input": {"x": 1}}).returned == sum(range(90))
    assert sums.kernel().run({"input": batch_of(sums, "input", [{"x": 1}])}, 1).passed.tolist() == [1]


def linked(length: int) -> dict[str, Any]:
    """A list of nodes as a plain value."""
    node: dict[str, Any] = {"v": 0, "next": None}
    for v in range(1, length):
        node = {"v": v, "next": node}
    return node


def test_recursive_records_and_impossible_values() -> None:
    node = record("node", [Field("v", INT32), Field("next", Pointer(Ref("node")))])
    params = [ecode.Param("input", node), ecode.Param("x", FLOAT64)]
    source = "{ node *p = &input; int sum = 0; while (p) { sum += p->v; p = p->next; } return sum + x; }"
    program = ecode.compile(source, params)
    assert program.run({"input": linked(50), "x": 0.5}).returned == sum(range(50))
    deep = linked(50_000)
    for bad in (deep, 5, None, {"v": 1 << 40}, {"v": 0.5}, {"w": 1}, {"v": "1"}):
        with pytest.raises(ecode.ParameterError):
            program.run({"input": bad, "x": 0})
    for number in (10**400, "1", None, [1.0]):
        with pytest.raises(ecode.ParameterError):
            program.run({"input": {}, "x": number})
    with pytest.raises(ecode.ParameterError, match="missing"):
        program.run({})
    with pytest.raises(ecode.NotCompilable, match="recursive"):
        program.kernel()
    while deep["next"]:  # taken apart from the outside, so that freeing it does not recurse
        deep = deep["next"]


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("{ int a[3]; int i = input.n; a[i] = 1; }", "index 7, but 'a' has length 3"),
        ("{ double d = input.v[input.n - 8]; }", "index -1, but 'input.v' has length 2"),
        ("{ double d = input.w[1][input.n]; }", "index 7, but 'input.w' has length 4"),
        ("{ int c = input.s[input.n]; }", "index 7, but 'input.s' has length 2"),
        ("{ int c = input.t[0]; }", "'input.t' is null"),
    ],
)
def test_an_index_is_told_with_its_array_and_the_length(source: str, detail: str) -> None:
    fields = [Field("n", INT32), Field("c", INT32), Field("v", Array(FLOAT64, ("c",)))]
    fields += [Field("w", Array(FLOAT64, (2, 4))), Field("s", STRING), Field("t", STRING)]
    program = ecode.compile(source, [ecode.Param("input", record("input", fields))], None)
    value = {"n": 7, "c": 2, "v": [1.0, 2.0], "w": [[0.0] * 4] * 2, "s": "ab", "t": None}
    with pytest.raises(ecode.Trap) as caught:
        program.run({"input": value})
    assert caught.value.detail == detail
    assert str(caught.value).endswith(f": {detail}")
    assert caught.value.excerpt.splitlines()[0] == f"    {source}"
    ((_, trap),) = program.kernel().run({"input": batch_of(program, "input", [value])}, 1).traps
    assert str(trap) == str(caught.value)
