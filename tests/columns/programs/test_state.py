"""Programs of readers that keep state: once for each record, in order, never ahead of the delivered rows."""

from __future__ import annotations

import io
import json
import pickle
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import ecode
from ecode.types import (
    BOOLEAN,
    CHAR,
    ENUMERATION,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Field,
    Notes,
    Pointer,
    Ref,
    Struct,
    record,
)
from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.plan import FilePart, ReadPlan
from pbio_spark.columns.files.read import read_batches
from pbio_spark.columns.programs.converter import (
    FilterConverter,
    ProgramConverter,
    samples_of,
    statics_of,
    with_parameters,
    with_samples,
    with_state,
)
from pbio_spark.columns.programs.routes import Request
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter
from tests.plans import plan_of

EVENT = record("event", [Field("x", INT64), Field("s", STRING)])
OUT = record("out", [Field("n", INT64), Field("sum", INT64), Field("text", STRING)])
STATE = record("state", [Field("n", INT64), Field("sum", INT64), Field("last", Array(INT64, (2,)))])
COUNT = "state.n += 1; state.sum += input.x; state.last[state.n & 1] = input.x;"
FORMS = tuple(record_to_format(EVENT, machine) for machine in ("le64", "be32"))
FILTER = Request((("event", EVENT),), keep=f"{{ {COUNT} return state.n % 3 == 0; }}", state=STATE, ordered=True)
BOTH = Request(
    (("event", EVENT),),
    columns=OUT,
    keep="{ static int n; n += 1; state.n += 1; return input.x != 3; }",
    make="""{ static int n = 100; n += 1; state.sum += input.x; output.n = n; output.sum = state.sum;
        output.text = input.s; if (input.x == 7) state.last[input.x] = 1; }""",
    state=STATE,
    ordered=True,
)


def plan(request: Request, forms: tuple[Format, ...] = FORMS[:1], **more: Any) -> ReadPlan:
    schema = pa.schema([]) if request.make is None else record_to_arrow(OUT)
    schema = schema.append(pa.field("_place", pa.struct([("ordinal", pa.int64())])))
    made = plan_of(schema, request=request, metadata_column="_place", mode="DROPMALFORMED", **more)
    return replace(made, converters={form.id: compile_converter(made, form, fused=False) for form in forms})


def stateful(given: ReadPlan, statics: dict[str, Any]) -> ReadPlan:
    return replace(given, converters={i: with_state(c, statics) for i, c in given.converters.items()})


def content(events: list[dict[str, Any]], forms: list[Format]) -> bytes:
    file = io.BytesIO()
    with FileWriter(file) as writer:
        for form, event in zip(forms, events, strict=True):
            writer.data(form, event)
    return file.getvalue()


def expected(request: Request, events: list[dict[str, Any]]) -> list[tuple[list[int], dict[str, Any]]]:
    """For each event the ordinals that came of it, and the state afterwards, by the interpreter."""
    params = [ecode.Param("input", EVENT), ecode.Param("state", STATE, ecode.Mode.STATE)]
    row = [ecode.compile(request.keep or "", params)]
    if request.make is not None:
        row.append(ecode.compile(request.make, [*params, ecode.Param("output", OUT, ecode.Mode.OUT)], None))
    twin = ecode.Row(row, ("filter", "transform") if len(row) > 1 else ("",))
    state, found = twin.statics, []
    for number, event in enumerate(events):
        try:
            passed = twin.run({"input": event}, state).passed
        except ecode.Trap:
            passed = False
        found.append(([number] if passed else [], deepcopy(state)))
    return found


@pytest.mark.parametrize("request_", [FILTER, BOTH], ids=["filter", "both"])
@pytest.mark.parametrize("most_bytes", [1 << 20, 2000, 300])
@pytest.mark.parametrize("count", [1, 2])
def test_each_record_changes_the_state_once_and_in_order(request_: Request, most_bytes: int, count: int) -> None:
    """Also where batches end early because the output is large, and where records of two formats alternate."""
    random = Random(most_bytes + count)
    events = [{"x": random.choice([1, 3, 5, 7, 11]), "s": "s" * random.choice([0, 5, 150])} for _ in range(200)]
    forms = [FORMS[random.random() < 0.2] if count == 2 else FORMS[0] for _ in events]
    given = plan(request_, FORMS[:1], most_bytes=most_bytes)
    # The second format, if any, appears only while the file is read.
    statics: dict[str, Any] = {}
    known = expected(request_, events)
    seen: list[int] = []
    for batch in read_batches(stateful(given, statics), FilePart("a"), io.BytesIO(content(events, forms))):
        seen += batch.column("_place").field("ordinal").to_pylist()
        # The state is that after some record between the last one handed out and the next one.
        after = [state for number, (_, state) in enumerate(known) if number >= seen[-1]]
        nexts = [number for number, (rows, _) in enumerate(known) if rows and number > seen[-1]]
        assert statics in after[: (nexts[0] if nexts else len(known)) - seen[-1]]
    assert seen == [number for rows, _ in known for number in rows]
    assert statics == known[-1][1]


class Few:
    """Decodes at most three records at once, and of more than five none."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def decode(self, starts: Any, ends: Any) -> Any:
        if len(starts) > 5:
            raise OverflowError
        return self.inner.decode(starts[:3], ends[:3])


def test_a_filter_does_not_run_ahead_of_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [{"x": n % 7, "s": None} for n in range(100)]
    made = FilterConverter.decoder

    def decoder(self: FilterConverter, most_bytes: int = 0) -> Any:
        found = made(self, most_bytes or 1 << 20)
        found._inner = Few(found._inner)  # type: ignore[assignment]
        return found

    monkeypatch.setattr(FilterConverter, "decoder", decoder)
    known, seen = expected(FILTER, events), []
    statics = statics_of(next(iter(plan(FILTER).converters.values())))  # type: ignore[arg-type]
    data = content(events, [FORMS[0]] * len(events))
    for batch in read_batches(stateful(plan(FILTER), statics), FilePart("a"), io.BytesIO(data)):
        assert batch.num_rows <= 3
        seen += batch.column("_place").field("ordinal").to_pylist()
        (following,) = [n for n, (rows, _) in enumerate(known) if rows and n > seen[-1]][:1] or [len(known)]
        assert statics in [state for _, state in known[seen[-1] : following]]
    assert seen == [number for rows, _ in known for number in rows]
    assert statics == known[-1][1]


def test_each_program_has_static_variables_of_its_own_and_the_state_is_one() -> None:
    for request, names in ((FILTER, {"state"}), (BOTH, {"state", "filter.n", "transform.n"})):
        (converter,) = plan(request).converters.values()
        statics = statics_of(converter)  # type: ignore[arg-type]
        assert statics.keys() == names
        assert statics["state"] == {"n": 0, "sum": 0, "last": [0, 0]}
        assert isinstance(converter, ProgramConverter if request is BOTH else FilterConverter)


def test_state_resumes_from_a_copy() -> None:
    """Also as JSON keeps it, and in a converter that was pickled."""
    events = [{"x": n, "s": "abc"} for n in range(30)]
    known = expected(BOTH, events)
    statics: dict[str, Any] = {}
    for part in (events[:13], events[13:]):
        again: ReadPlan = pickle.loads(pickle.dumps(plan(BOTH)))
        statics = json.loads(json.dumps(statics))
        data = content(part, [FORMS[0]] * len(part))
        assert sum(b.num_rows for b in read_batches(stateful(again, statics), FilePart("a"), io.BytesIO(data)))
    assert statics == known[-1][1]


def test_a_read_without_order_refuses_state() -> None:
    hidden = replace(FILTER, state=None, keep="{ static int n; return n++; }")
    for request in (FILTER, BOTH, hidden):
        with pytest.raises(PbioError, match="keeps state"):
            plan(replace(request, ordered=False))


def test_a_state_that_is_not_the_programs_is_an_error() -> None:
    data = content([{"x": 1, "s": None}], [FORMS[0]])
    for value in ({"n": 2**63}, {"n": "a"}, {"last": [1]}, {"last": [1, 2, 3]}, {"other": 1}, 5):
        with pytest.raises(ecode.ParameterError, match="state"):
            list(read_batches(stateful(plan(FILTER), {"state": value}), FilePart("a"), io.BytesIO(data)))


BLOCK = record(
    "block",
    [
        Field("count", INT32),
        Field("bounds", Array(FLOAT64, ("count",))),
        Field("name", STRING),
        Field("box", Ref("box")),
        Field("grid", Array(INT32, (2, 2))),
        Field("boxes", Array(Ref("box"), ("few",))),
        Field("few", INT64),
    ],
    [Struct("box", (Field("lo", INT64), Field("hi", INT64), Field("label", STRING)))],
)
INSIDE = """{ int i; long sum = 0;
    for (i = 0; i < param.count; i++) sum += param.bounds[i];
    for (i = 0; i < param.few; i++) sum += param.boxes[i].hi + (param.boxes[i].label == input.s);
    if (input.s == param.name) return 1;
    return (input.x >= param.box.lo && input.x < param.box.hi) || sum + param.grid[1][0] > 9; }"""


def test_a_parameter_block_may_be_any_record_and_change_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request((("event", EVENT),), keep=INSIDE, parameters=BLOCK)
    events = [{"x": n, "s": s} for n in range(6) for s in (None, "a", "abc")]
    data = content(events, [FORMS[0]] * len(events))
    compiled = plan(request)
    monkeypatch.setattr("ecode.columns.batch.compile_kernel", None)
    program = ecode.compile(INSIDE, [ecode.Param("input", EVENT), ecode.Param("param", BLOCK, ecode.Mode.PARAM)])
    for block in (
        {},
        {"name": "abc"},
        {"box": {"lo": 2, "hi": 4}},
        {"bounds": [1.0, 5.0]},
        {"bounds": [1.0, 5.0, 9.0, 2.0], "name": "x"},
        {"boxes": [{"hi": 9, "label": "a"}, {"hi": -1, "label": "abc"}], "grid": [[0, 0], [1, 5]]},
        {"boxes": [{"hi": 3}, {"label": "abc"}] * 3, "few": 6},
    ):
        given = replace(compiled, converters={i: with_parameters(c, block) for i, c in compiled.converters.items()})
        found = [
            n
            for batch in read_batches(given, FilePart("a"), io.BytesIO(data))
            for n in batch.column("_place").field("ordinal").to_pylist()
        ]
        assert found == [n for n, e in enumerate(events) if program.run({"input": e, "param": block}).returned], block


@pytest.mark.parametrize(
    "block",
    [{"bounds": 1.0}, {"bounds": [1], "count": 2}, {"nme": "x"}, {"box": {"lo": 0.5}}, {"name": 5}, {"grid": [[1, 2]]}],
)
def test_a_parameter_of_another_type_is_an_error(block: dict[str, Any]) -> None:
    (converter,) = plan(Request((("event", EVENT),), keep=INSIDE, parameters=BLOCK)).converters.values()
    with pytest.raises(ecode.ParameterError, match="param"):
        with_parameters(converter, block)  # type: ignore[arg-type]


def test_a_transform_may_begin_with_a_copy_of_the_whole_record() -> None:
    deep = Struct("deep", (Field("n", INT32), Field("xs", Array(FLOAT64, ("n",))), Field("name", STRING)))
    symbols = Notes(symbols=(("A", 0), ("B", 1)))
    fields: dict[str, tuple[Any, Any]] = {
        "x": (INT32, 1), "s": (STRING, "abc"), "absent": (STRING, None), "k": (INT32, 2), "c": (CHAR, 200),
        "z": (Array(INT16, ("k",)), [1, -2]), "grid": (Array(FLOAT64, ("k", 2)), [[1, 2], [3, 4]]),
        "o": (Ref("deep"), {"n": 1, "xs": [2.5], "name": "one"}), "text": (Array(CHAR, (4,)), [97, 98, 0, 0]),
        "many": (Array(Ref("deep"), ("k",)), [{"n": 0, "xs": [], "name": None}, {"n": 2, "xs": [1, 2], "name": "t"}]),
        "p": (Pointer(Ref("deep")), {"n": 0, "xs": [], "name": "far"}), "null": (Pointer(Ref("deep")), None),
        "e": (ENUMERATION, 1), "b": (BOOLEAN, True), "names": (Array(STRING, ("k",)), ["a", None]),
    }  # fmt: skip
    made = record(
        "event",
        [Field(name, type_, symbols if name == "e" else Notes()) for name, (type_, _) in fields.items()],
        [deep],
    )
    schema = record_to_arrow(made)
    for machine in ("le64", "be32"):
        data = content([{name: value for name, (_, value) in fields.items()}], [record_to_format(made, machine)])
        request = Request((("event", made),), columns=made, make="{ output = input; output.x += 1; }")
        given = [plan_of(schema), plan_of(schema, request=request)]
        (plain,), (copied,) = (
            [row for batch in read_batches(one, FilePart("a"), io.BytesIO(data)) for row in batch.to_pylist()]
            for one in given
        )
        assert copied == {**plain, "x": 2}


def test_services_are_granted_and_sampled_ones_come_with_the_batch() -> None:
    load = ecode.service("double load()", lambda: 0.0, is_sampled=True)
    request = Request((("event", EVENT),), keep="{ return load() * 10 > input.x; }", functions=(load,))
    given = plan(request)
    (converter,) = given.converters.values()
    assert samples_of(converter) == {"load"}  # type: ignore[arg-type]
    data = content([{"x": n, "s": None} for n in range(10)], [FORMS[0]] * 10)
    for value in (0.0, 0.35, 5.0):
        sampled = {i: with_samples(c, {"load": value}) for i, c in given.converters.items()}  # type: ignore[arg-type]
        batches = read_batches(replace(given, converters=sampled), FilePart("a"), io.BytesIO(data))
        assert sum(batch.num_rows for batch in batches) == sum(value * 10 > n for n in range(10))
    with pytest.raises(ecode.ParameterError, match="'load'"):
        list(read_batches(given, FilePart("a"), io.BytesIO(data)))
    with pytest.raises(PbioError, match="unknown name 'load'"):
        plan(replace(request, functions=()))
