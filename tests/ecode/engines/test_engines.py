"""Both engines agree on every program and input, and with a C compiler where the program is plain C."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ecode
from ecode.columns import BatchProgram, columns_of, values_of
from ecode.types import FLOAT32, FLOAT64, INT32, Ref
from tests.ecode.engines import programs, shapes

LONG = os.environ.get("PBIO_LONG") == "1"
PROGRAMS = settings(
    max_examples=1000 if LONG else 25,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
INCLUDE = "#include <string.h>\n"


def plain(value: Any) -> Any:
    """A value that can be compared: NaN equals NaN, and zeros keep their sign."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return (repr(value) if not math.isnan(value) else "nan") if isinstance(value, float) else value


def interpreted(program: ecode.Program, events: list[dict[str, Any]]) -> tuple[list[Any], Any]:
    """For each event its outcome or its trap; the statics after all of them."""
    found: list[Any] = []
    statics = program.statics
    for event in events:
        try:
            outcome = program.run({"input": event}, statics)
            found.append((outcome.returned, plain(outcome.outputs["output"])))
        except ecode.Trap as trap:
            found.append(str(trap))
    return found, plain(statics)


def compiled(
    program: ecode.Program, events: list[dict[str, Any]], batch: BatchProgram | None = None
) -> tuple[list[Any], Any]:
    statics, structs = program.statics, program.typed.structs
    batch = batch or program.kernel(ecode.Keep.ALL)
    column = columns_of(events, Ref("input"), structs)
    result = batch.run({"input": column}, len(events), statics)
    outputs = iter(values_of(result.outputs["output"], Ref("output"), structs))
    assert result.returned is not None
    returned = iter(values_of(result.returned, INT32, {}))
    traps = {number: str(trap) for number, trap in result.traps}
    found = [traps[i] if i in traps else (next(returned), plain(next(outputs))) for i in range(len(events))]
    return found, plain(statics)


SEEDS = st.integers(0, 2**32)


@PROGRAMS
@given(SEEDS)
def test_engines_agree(seed: int) -> None:
    maker = programs.Maker(Random(seed), is_c=False)
    source = INCLUDE + maker.program()
    program = ecode.compile(source, programs.PARAMS, limits=ecode.Limits(budget=100_000))
    events = [maker.event() for _ in range(12)]
    assert compiled(program, events) == interpreted(program, events), source


@pytest.mark.parametrize("part", range(10 if LONG else 1))
@settings(PROGRAMS, max_examples=500 if LONG else 6)
@given(SEEDS)
def test_engines_agree_on_other_shapes(part: int, seed: int) -> None:
    """On what the events cost, too: a budget of one unit less must end them. Parts show how far a long run is."""
    maker = shapes.Maker(Random(seed))
    source = "#include <string.h>\n#include <math.h>\n" + maker.program()
    program = ecode.compile(source, shapes.PARAMS, limits=ecode.Limits(budget=50_000, output_bytes=1 << 20))
    events = [maker.event() for _ in range(12)]
    try:
        batch = program.kernel(ecode.Keep.ALL)
    except ecode.NotCompilable as error:
        assert "cannot compile 'present' for a parameter into which" in str(error), source  # noqa: PT017 - rare
        return
    assert compiled(program, events, batch) == interpreted(program, events), source
    for event in events[:2]:
        try:
            work = program.run({"input": event}).work
        except ecode.Trap:
            continue
        if work:
            columns = columns_of([event], Ref("input"), program.typed.structs)
            assert batch.run({"input": columns}, 1, budget=work).traps == (), source
            ((_, trap),) = batch.run({"input": columns}, 1, budget=work - 1).traps
            with pytest.raises(ecode.Trap) as caught:
                program.run({"input": event}, budget=work - 1)
            assert str(caught.value) == str(trap), source


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@settings(PROGRAMS, max_examples=200 if LONG else 5)
@given(seed=SEEDS)
def test_interpreter_agrees_with_gcc(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    maker = programs.Maker(Random(seed), is_c=True)
    sources = [maker.program() for _ in range(20)]
    library = gcc(tmp_path_factory.mktemp("gcc"), sources)
    for number, source in enumerate(sources):
        program = ecode.compile(source, programs.PARAMS)
        for _ in range(4):
            event = maker.event()
            outcome = program.run({"input": event})
            returned, output = call_c(library, number, event)
            assert outcome.returned == returned, source
            expected = {name: plain(outcome.outputs["output"][name]) for name in programs.C_FIELDS}
            assert expected == plain(output), source


class Plain(ctypes.Structure):
    _fields_ = [
        *(
            (name, getattr(ctypes, f"c_{type_}"))
            for name, type_ in programs.NUMBERS.items()
            if type_ not in (FLOAT32, FLOAT64)
        ),
        ("p", ctypes.c_float),
        ("q", ctypes.c_double),
        ("v", ctypes.c_int32 * 4),
    ]


def gcc(folder: Path, sources: list[str]) -> ctypes.CDLL:
    fields = " ".join(f"{programs.C_NAMES[type_]} {name};" for name, type_ in programs.NUMBERS.items())
    text = f"struct rec {{ {fields} int v[4]; }};\n"
    for number, source in enumerate(sources):
        body = source.replace("input.", "input->").replace("output.", "output->")
        text += f"int run{number}(struct rec *input, struct rec *output) {body}\n"
    (folder / "p.c").write_text(text)
    options = ["-std=gnu99", "-O0", "-fwrapv", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, "-o", folder / "p.so", folder / "p.c"], check=True)
    return ctypes.CDLL(str(folder / "p.so"))


def call_c(library: ctypes.CDLL, number: int, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    given_, made = Plain(), Plain()
    for name in programs.C_FIELDS:
        setattr(given_, name, (ctypes.c_int32 * 4)(*event["v"]) if name == "v" else event[name])
    returned = library[f"run{number}"](ctypes.byref(given_), ctypes.byref(made))
    output = {name: list(made.v) if name == "v" else getattr(made, name) for name in programs.C_FIELDS}
    return returned, output
