"""Arrays that one loop fills: not zeroed first, and not made in a row of transforms; compared with the interpreter."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import ecode
from ecode.columns import BatchProgram, batch, columns_of, values_of
from ecode.columns.binding import ColumnBinding
from ecode.columns.inputs import input_buffers
from ecode.interpreter.row import Row
from ecode.types import FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT16, UINT32, Array, Field, record
from tests.columns.checked import CheckedKernel

LONG = bool(os.environ.get("PBIO_LONG"))
SIZES = {"n": INT32, "m": INT64}
WIDTHS = Field("w", Array(INT32, (5,)))
NUMBERS = (FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, UINT16, UINT32)

FILLS = (
    "for (i = 0; i < new.n; i++) old.v[i] = {value};",
    "for (i = 0; i < old.n; i++) old.v[i] = {value};",
    "for (i = 0; new.n > i; ++i) {{ old.v[i] = {value}; }}",
    "i = 0; while (i < new.n) {{ old.v[i] = {value}; i = i + 1; }}",
    "for (l = 0; l < new.n; l++) old.v[l] = {long};",
    "for (i = 0; i < new.n - 1; i++) old.v[i] = {value};",
    "for (i = 0; i < new.a; i++) old.v[i] = {value};",
    "for (i = 1; i < new.n; i++) old.v[i] = {value};",
    "for (i = 0; i <= new.n - 1; i++) old.v[i] = {value};",
    "for (i = new.n - 1; i >= 0; i--) old.v[i] = {value};",
    "for (i = 0; i < new.n; i++) old.v[i] += {value};",
    "for (i = 0; i < new.n; i++) if (new.v[i] > 2) old.v[i] = {value};",
    "for (i = 0; i < new.n; i++) {{ if (i == 3) break; old.v[i] = {value}; }}",
    "for (i = 0; i < 3; i++) old.v[i] = {value};",
    "old.v[0] = 7; for (i = 0; i < new.n; i++) old.v[i] = {value};",
    "for (i = 0; i < new.n; i++) old.v[i] = {value}; k = old.v[1]; old.a = k;",
    "if (new.a > 1) for (i = 0; i < new.n; i++) old.v[i] = {value};",
    "if (new.a > 2) return 1; for (i = 0; i < new.n; i++) old.v[i] = {value};",
    "for (i = 0; i < new.n; i++) old.v[i] = {value}; if (new.a > 3) old.n = 2;",
    "for (i = 0; i < new.n; i++) old.v[i] = {value}; scale = 9; i = 40;",
    "for (i = 0; i < new.n; i++) {{ old.v[i] = {value}; scale = scale + 1; }}",
    "for (k = 0; k < 2; k++) for (i = 0; i < new.n; i++) old.v[i] = {value} + k;",
    "while (new.a) {{ for (i = 0; i < new.n; i++) old.v[i] = {value}; break; }}",
    "for (i = 0; i < new.n; i++) old.v[i] = {value}; for (i = 0; i < new.n; i++) old.v[i] = 2;",
)
VALUES = (
    "new.v[i]",
    "new.v[i] + 1",
    "new.v[i] * scale - new.a",
    "new.v[i] / 3 + i",
    "(new.a > 3 ? new.v[i] : -1)",
    "new.w[i]",
    "new.v[i] > 3 && new.a",
    "new.v[i] + new.v[i]",
    "new.v[new.n - 1 - i]",
    "new.v[i + new.a - 2]",
    "i * 3",
    "new.v[i] / new.a",
    "(new.v[i] > 3 ? new.v[i] : -1)",
    "old.a + new.v[i]",
    "new.a",
    "-new.v[i] + total++",
    "5",
)
SIZINGS = ("old.n = new.n;",) * 6 + (
    "old.n = new.n + 1;",
    "old.n = new.a;",
    "old.n = 4;",
    "old.n = new.n; old.n = new.n;",
    "if (new.a) old.n = new.n;",
)


def transform(random: Random, types: dict[str, Any], limits: ecode.Limits, often: float) -> ecode.Program:
    """A program between two records of a size, an array of that size, and a number; so often no array need be made."""
    is_plain = random.random() < often
    value, text = random.choice(VALUES[:7] if is_plain else VALUES), random.choice(FILLS[:5] if is_plain else FILLS)
    fill = text.format(value=value, long=value.replace("[i]", "[l]").replace("i *", "l *").replace("- i", "- l"))
    sizing, after = (
        SIZINGS[0] if is_plain else random.choice(SIZINGS),
        random.choice(("", "", "old.a = new.a + i;", "old.a = new.v[0];")[: 4 - is_plain]),
    )
    source = f"""{{
        int i; long l; int k; int scale = 3; static int total = 0;
        old.a = new.a;
        {sizing}
        {fill} {after}
        {random.choice(("return 1;", "return new.a != 3;")) if "return" in fill else ""}
    }}"""
    params = [ecode.Param("new", types["new"]), ecode.Param("old", types["old"], ecode.Mode.OUT)]
    return ecode.compile(source, params, INT32 if "return" in source else None, limits=limits)


def types(random: Random, numbers: Sequence[Any] = NUMBERS) -> Any:
    size = random.choice((INT32, INT32, INT32, INT64, INT16, UINT32))
    element = random.choice(numbers)
    return record("r", [Field("a", INT32), Field("n", size), Field("v", Array(element, ("n",))), WIDTHS])


def outcomes(row: Row, events: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    statics = row.statics
    for event in events:
        try:
            outcome = row.run({"new": event}, statics)
            found.append(outcome.output if outcome.passed else None)
        except ecode.Trap as trap:
            found.append((str(trap), trap.program))
    return found


def compiled(programs: list[ecode.Program], morphs: int, events: list[dict[str, Any]]) -> tuple[list[Any], str]:
    binding = ColumnBinding("new", programs[0].typed.param_types["new"])
    made = BatchProgram.in_row(programs, binding, morphs=morphs)
    first, last = programs[0].typed, programs[-1].typed
    column = columns_of(events, first.param_types["new"], first.structs)
    memory: Any = input_buffers(binding.sources, {"new": column}, first.param_types, first.structs, len(events), ())
    result = made.run({}, len(events), memory=memory)
    outputs = iter(values_of(result.outputs["old"], last.param_types["old"], last.structs))
    traps = {number: (str(trap), trap.program) for number, trap in result.traps}
    found = [traps.get(i) or (next(outputs) if passed else None) for i, passed in enumerate(result.passed)]
    return found, made.kernel.source


@pytest.mark.parametrize("seed", range(300 if LONG else 8))
def test_rows_of_transforms_that_fill_arrays(seed: int) -> None:
    compare(seed, NUMBERS)


@pytest.mark.parametrize("part", range(100 if LONG else 4))
def test_rows_of_transforms_touch_no_memory_but_theirs(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels as Python, every access checked. Python has no 32-bit floats, and divides none by zero."""
    monkeypatch.setattr(batch, "compile_kernel", lambda source: CheckedKernel(source, []))
    for seed in range(10**6 + 30 * part, 10**6 + 30 * part + 30):
        with suppress(ZeroDivisionError):
            compare(seed, [n for n in NUMBERS if n != FLOAT32])


def compare(seed: int, numbers: Sequence[Any]) -> None:
    """Some transforms in a row over some events, compiled and interpreted."""
    random = Random(seed)
    length = random.choice((1, 2, 3, 4, 5))
    budget = random.choice((10**6, 10**6, 400, 150))
    limits = ecode.Limits(budget=budget, output_bytes=random.choice((1 << 20, 1 << 20, 100)))
    shapes = [types(random, numbers) for _ in range(length + 1)]
    if random.random() < 0.6:
        shapes = [shapes[0]] * (length + 1)
    often = random.choice((0.3, 0.8, 1.0))
    programs = [transform(random, {"new": shapes[i], "old": shapes[i + 1]}, limits, often) for i in range(length)]
    whole = shapes[0].flattened().structs[0].fields[2].type.element not in (FLOAT64, FLOAT32)
    events = []
    for _ in range(20):
        count = random.choice((0, 1, 2, 5, 9, 30))
        values = [random.randrange(100) if whole else random.randrange(-9, 99) / 2 for _ in range(count)]
        events.append({"a": random.randrange(-1, 6), "n": len(values), "v": values, "w": [7, -1, 3, 2, 300]})
    morphs = random.choice((length, length, length - 1))
    expected = outcomes(Row(programs, morphs=morphs), events)
    found, source = compiled(programs, morphs, events)
    for own, other in zip(found, expected, strict=True):
        if isinstance(own, dict) and isinstance(other, dict):
            own = {key: value for key, value in own.items() if value is not None}
            other = {key: other[key] for key in own}
        assert own == other, f"{seed}: {source}"


def chain(value: str, hops: int = 4, fill: str = FILLS[0]) -> list[ecode.Program]:
    shape = record("r", [Field("a", INT32), Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))])
    params = [ecode.Param("new", shape), ecode.Param("old", shape, ecode.Mode.OUT)]
    source = f"{{ int i; int scale = 2; old.a = new.a; old.n = new.n; {fill.format(value=value)} }}"
    return [ecode.compile(source, params, None) for _ in range(hops)]


@pytest.mark.parametrize(
    ("value", "loops"), [("new.v[i] + 1", 1), ("new.v[i] * scale", 1), ("new.v[i] + new.v[i]", 4), ("new.v[0]", 4)]
)
def test_transforms_in_a_row_become_one_loop_where_each_reads_an_element_once(value: str, loops: int) -> None:
    events = [{"a": 1, "n": n, "v": [float(n)] * n} for n in (0, 1, 3, 50)]
    programs = chain(value)
    found, source = compiled(programs, 4, events)
    assert found == outcomes(Row(programs, morphs=4), events)
    assert source.count("while (i") == loops
    assert len(re.findall(r"zero\(t\d", source)) == len(programs), "only where an array shrinks, which none does"


def test_a_deferred_array_does_not_repeat_work() -> None:
    """Each of twelve transforms reads each element twice: were they put into each other, 4,096 loads."""
    programs = chain("new.v[i] + new.v[i]", 12)
    found, source = compiled(programs, 12, [{"a": 0, "n": 2, "v": [1.0, 2.0]}])
    assert found[0]["v"] == [2.0**12, 2.0**13]
    assert source.count("load_float64") < 30
