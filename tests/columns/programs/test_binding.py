"""E-code over record bytes sees what the plain-Python codec sees, and nothing outside the record."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecode
from ecode.columns import OutputMemory, batch, values_of
from ecode.columns.batch import BatchProgram
from ecode.errors import TrapKind
from ecode.types import (
    CHAR,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT64,
    Array,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
    flat,
    record,
)
from pbio_spark.columns.programs.binding import WireBinding
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.testing import strategies
from pbio_spark.wire import decode, encode
from tests.columns.checked import CheckedKernel
from tests.columns.records import same

LIMITS = strategies.Limits(long_double=False, recursive=False, depth=3)


def run(
    monkeypatch: pytest.MonkeyPatch, form: Format, wanted: Record, records: list[bytes], *programs: ecode.Program
) -> batch.BatchResult:
    memory = np.frombuffer(b"".join(records), np.uint8)
    lengths = np.array([len(r) for r in records], np.int64)
    ends = memory.__array_interface__["data"][0] + np.cumsum(lengths)
    starts = ends - lengths + form.header_size
    binding = WireBinding(form, wanted)
    readable = [(memory.__array_interface__["data"][0], memory.nbytes)]
    texts = {name: np.frombuffer(text, np.uint8) for name, text in binding.texts.items()}
    with monkeypatch.context() as patch:
        patch.setattr(batch, "compile_kernel", lambda source: CheckedKernel(source, readable))
        compiled = BatchProgram.in_row(programs, binding)
    texts = {name: np.frombuffer(text, np.uint8) for name, text in binding.texts.items()}
    outputs = OutputMemory(allocate=pa.allocate_buffer)
    return compiled.run({}, len(records), memory={"starts": starts, "ends": ends, **texts}, outputs=outputs)


def seen(value: Any, type_: Type, owner: dict[str, Any], structs: dict[str, Struct]) -> Any:
    """A value of the codec as E-code has it: chars and enumerations have a sign, arrays in arrays are one, and null is
    as many zeros as the counts say."""
    match type_:
        case Ref(name):
            held = dict.fromkeys((f.name for f in structs[name].fields), None) if value is None else value
            return {f.name: seen(held[f.name], f.type, held, structs) for f in structs[name].fields}
        case Array(element, dims):
            extents = [(owner[dim] or 0) if isinstance(dim, str) else dim for dim in dims]

            def nested(part: Any, left: list[int]) -> Any:
                if not left:
                    return seen(part, element, owner, structs)
                return [nested(None if part is None else part[i], left[1:]) for i in range(left[0])]

            return nested(value, extents)
        case Pointer(target):
            is_array = isinstance(flat(type_), Array)
            return None if value is None and not is_array else seen(value, target, owner, structs)
    if value is None:
        return None if type_ == STRING else 0.0 if type_.kind is Kind.FLOAT else 0
    if type_.kind in (Kind.CHAR, Kind.ENUMERATION):
        return value - 2 ** (8 * type_.size) if value >= 2 ** (8 * type_.size - 1) else value
    return int(value) if isinstance(value, bool) else value


def has_hidden_slots(form: Format) -> bool:
    """Whether slots may be left unread that the codec reads: those of rows of arrays without wanted elements."""
    return any(flat(f.type) != f.type for struct in form.record.structs for f in struct.fields)


PASS = "{ return 1; }"
MANY = settings(max_examples=5_000 if os.environ.get("PBIO_LONG") else 100, suppress_health_check=list(HealthCheck))


@given(st.data())
@MANY
def test_programs_see_what_the_codec_sees(data: st.DataObject) -> None:
    form = data.draw(strategies.formats(LIMITS))
    values = data.draw(st.lists(strategies.values(form), min_size=1, max_size=3))
    records = [encode(form, value) for value in values]
    try:
        program = ecode.compile(PASS, [ecode.Param("input", form.record)])
        with pytest.MonkeyPatch.context() as patch:
            result = run(patch, form, form.record, records, program)
    except (ecode.NotCompilable, ecode.ParameterError):
        return
    structs = {s.name: s for s in form.record.structs}
    top = Ref(form.name)
    assert result.passed.all(), result.traps
    found = values_of(result.outputs["input"], top, {s.name: s for s in form.record.flattened().structs})
    wanted = [seen(decode(form, r, text=None), top, {}, structs) for r in records]
    assert same(found, wanted), (found, wanted)


@given(st.data())
@MANY
def test_damaged_records_end_the_event_and_nothing_else(data: st.DataObject) -> None:
    form = data.draw(strategies.formats(LIMITS).filter(lambda form: not has_hidden_slots(form)))
    good = encode(form, data.draw(strategies.values(form)))
    if len(good) == form.header_size:
        return
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(form.header_size, len(good) - 1))
        bad[at] = data.draw(st.sampled_from((0, 1, 8, 0x7F, 0x80, 0xFF, len(good) & 0xFF)))
    try:
        program = ecode.compile(PASS, [ecode.Param("input", form.record)])
        with pytest.MonkeyPatch.context() as patch:
            result = run(patch, form, form.record, [bytes(bad)], program)
    except (ecode.NotCompilable, ecode.ParameterError):
        return
    try:
        decode(form, bytes(bad), text=None)
        code = ""
    except PbioError as error:
        code = error.code
    # Nothing is shared without end where no structure is recursive but through pointers that this test leaves out.
    assert not result.passed[0] or code in ("", "PBIO_RECORD_EXPANDS")


OLD = record("Msg", [Field("mean", FLOAT64), Field("name", STRING), Field("t", INT32)])
MIDDLE = record(
    "Msg", [Field("n", INT32), Field("loads", Array(FLOAT64, ("n",))), Field("name", STRING), Field("t", INT64)]
)
NEW = Record(
    (
        Struct("Msg", (Field("n", INT16), Field("hosts", Array(Ref("host"), ("n",))), Field("t", INT64))),
        Struct("host", (Field("name", STRING), Field("load", FLOAT64), Field("tag", Array(CHAR, (4,))))),
    )
)
NEW_TO_MIDDLE = """{
    int i;
    old.n = new.n;
    for (i = 0; i < new.n; i++) old.loads[i] = new.hosts[i].load;
    if (new.n > 0) old.name = new.hosts[0].name;
    old.t = new.t;
}"""
MIDDLE_TO_OLD = """{
    int i; double sum = 0;
    for (i = 0; i < new.n; i++) sum += new.loads[i];
    if (new.n > 0) old.mean = sum / new.n;
    old.name = new.name;
    old.t = new.t;
}"""
BUSY = "{ return input.mean > 2.0; }"


def morph(source: str, new: Record, old: Record) -> ecode.Program:
    return ecode.compile(source, [ecode.Param("new", new), ecode.Param("old", old, ecode.Mode.OUT)], returns=None)


@pytest.mark.parametrize("machine", ["le64", "be64", "be32", "le32"])
def test_programs_in_a_row_are_one_after_the_other(machine: str) -> None:
    programs = [morph(NEW_TO_MIDDLE, NEW, MIDDLE), morph(MIDDLE_TO_OLD, MIDDLE, OLD)]
    keep = ecode.compile(BUSY, [ecode.Param("input", OLD)])
    form = record_to_format(NEW, machine)
    values = [
        {
            "n": k % 4,
            "hosts": [{"name": f"h{k}", "load": i + k / 2, "tag": [0] * 4} for i in range(k % 4)] or None,
            "t": k,
        }
        for k in range(12)
    ]
    expected = []
    for value in values:
        step: dict[str, Any] = value | {"hosts": value["hosts"] or []}
        for program in programs:
            step = program.run({"new": step}).outputs["old"]
        if keep.run({"input": step}).returned:
            expected.append(step)
    with pytest.MonkeyPatch.context() as patch:
        result = run(patch, form, NEW, [encode(form, value) for value in values], *programs, keep)
    assert values_of(result.outputs["input"], Ref("Msg"), {"Msg": OLD.structs[0]}) == expected
    assert len(expected) == result.passed.sum() > 3


def test_a_trap_says_which_program_and_where() -> None:
    bad = morph("{\n  old.t = 1 / (int) new.t;\n}", MIDDLE, OLD)
    programs = [morph(NEW_TO_MIDDLE, NEW, MIDDLE), bad]
    form = record_to_format(NEW)
    records = [encode(form, {"n": 0, "hosts": None, "t": t}) for t in (1, 0)]
    with pytest.MonkeyPatch.context() as patch:
        result = run(patch, form, NEW, records, *programs)
    ((event, trap),) = result.traps
    assert (event, trap.kind, trap.line, trap.program) == (1, "division_by_zero", 2, 1)


WANTED = record(
    "Msg",
    [
        Field("T", INT64),
        Field("gone", INT32),
        Field("unit", STRING, Notes(default="kPa")),
        Field("gain", FLOAT64, Notes(default=1.5)),
        Field("small", INT16),
    ],
)


def test_fields_are_found_by_name_and_absent_ones_read_as_their_default() -> None:
    form = record_to_format(record("Msg", [Field("t", INT32), Field("small", INT64)]), "be64")
    source = """{
        output.there = present(input.T) + 10 * present(input.gone) + 100 * present(input.gain);
        output.t = input.T; output.gone = input.gone; output.unit = input.unit; output.gain = input.gain;
        output.small = input.small;
        return 1;
    }"""
    made = record(
        "Out",
        [
            *(Field(name, INT64) for name in ("there", "t", "gone", "small")),
            Field("unit", STRING),
            Field("gain", FLOAT64),
        ],
    )
    program = ecode.compile(source, [ecode.Param("input", WANTED), ecode.Param("output", made, ecode.Mode.OUT)])
    records = [encode(form, {"t": 7, "small": small}) for small in (-5, 40_000)]
    with pytest.MonkeyPatch.context() as patch:
        result = run(patch, form, WANTED, records, program)
    (row,) = values_of(result.outputs["output"], Ref("Out"), {"Out": made.structs[0]})
    assert row == {"there": 101, "t": 7, "gone": 0, "small": -5, "unit": b"kPa", "gain": 1.5}
    ((event, trap),) = result.traps  # 40,000 does not fit a short
    assert (event, trap.kind) == (1, "bad_record")


@pytest.mark.parametrize("count", [2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_null_array_with_a_count_that_nothing_can_hold_ends_its_event(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    wanted = record("r", [Field("m", UINT64), Field("t", Array(CHAR, ("m",))), Field("w", Array(INT64, ("m", "m")))])
    form = record_to_format(wanted, "le64")
    sound = encode(form, {"m": 0, "t": [], "w": []})
    at = form.header_size
    bad = sound[:at] + count.to_bytes(8, "little") + sound[at + 8 :]
    program = ecode.compile(PASS, [ecode.Param("input", wanted)])
    result = run(monkeypatch, form, wanted, [sound, bad, sound], program)
    assert result.passed.tolist() == [1, 0, 1]
    assert [trap.kind for _, trap in result.traps] == [TrapKind.SIZE_LIMIT]


@pytest.mark.parametrize("source", [PASS, "{ output = input; return 1; }"])
def test_null_arrays_of_many_zeros_end_their_event_alone(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    wanted = record("r", [Field("m", UINT64), Field("t", Array(CHAR, ("m",))), Field("w", Array(INT64, ("m",)))])
    form = record_to_format(wanted, "le64")
    sound = encode(form, {"m": 0, "t": [], "w": []})
    at = form.header_size

    def null(count: int) -> bytes:
        return sound[:at] + count.to_bytes(8, "little") + sound[at + 8 :]

    # Nine bytes each, and a few kilobytes are allowed.
    records = [sound, null(100), null(600), null(2**27), null(2**30), null(100), sound]
    params = [ecode.Param("input", wanted)]
    if source != PASS:
        params.append(ecode.Param("output", wanted, ecode.Mode.OUT))
    program = ecode.compile(source, params, limits=ecode.Limits(output_bytes=4000))
    result = run(monkeypatch, form, wanted, records, program)
    assert result.passed.tolist() == [1, 1, 0, 0, 0, 1, 1]
    assert {(event, trap.kind) for event, trap in result.traps} == {(i, TrapKind.SIZE_LIMIT) for i in (2, 3, 4)}


def test_strings_that_many_slots_share_end_only_their_event(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = record("r", [Field("n", INT32), Field("names", Array(STRING, ("n",)))])
    form = record_to_format(wanted, "le64")
    sound = encode(form, {"n": 1, "names": [b"abc"]})
    shared = bytearray(encode(form, {"n": 200, "names": [b"x" * 5000] + [None] * 199}))
    at = form.header_size
    table = at + int.from_bytes(shared[at + 8 : at + 16], "little")
    shared[table : table + 1600] = bytes(shared[table : table + 8]) * 200
    program = ecode.compile(PASS, [ecode.Param("input", wanted)], limits=ecode.Limits(output_bytes=4000))
    result = run(monkeypatch, form, wanted, [sound, bytes(shared), sound], program)
    assert result.passed.tolist() == [1, 0, 1]
    assert [trap.kind for _, trap in result.traps] == [TrapKind.SIZE_LIMIT]
