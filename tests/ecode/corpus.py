"""Runs every case of a folder of the corpus' shape: `python tests/ecode/corpus.py DIR [--engine python|numba]`.

Prints `N passed, M failed` and each failure; exits with 1 if any case failed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import ecode
from ecode.cli.description import described
from ecode.columns import columns_of, values_of
from ecode.types import FLOAT32, FLOAT64, Array, Pointer, Record, Ref, Struct, Type

FUNCTIONS = {
    function.name: function
    for function in (
        ecode.service("int twice(int x)", lambda x: 2 * x, "2 * {}"),
        ecode.service("int note(int x)", lambda x: x, "{}", is_logged=True),
        ecode.service("double scale(double x, double k)", lambda x, k: x * k, "{} * {}"),
        ecode.service("void emit(int port, double v)", lambda port, v: None, "0", is_logged=True),
        ecode.service("int slen(string s)", lambda s: len(s or b""), "{1}"),
    )
}
# Results of these functions may differ in the last two bits.
INEXACT = re.compile(r"\b(a?(cos|sin|tan)h?|atan2|exp2?|expm1|log(10|2|1p|b)?|hypot|pow|cbrt|erfc?|[lt]gamma)\s*\(")
Case = dict[str, Any]
Engine = Callable[[ecode.Program, Case], Iterator[ecode.Outcome]]
BUDGET = 20_000_000


def compiled(case: Case) -> ecode.Program:
    description = described(case)
    return ecode.compile(
        case["source"],
        description.params,
        description.returns,
        functions=[FUNCTIONS[f if isinstance(f, str) else f["name"]] for f in case.get("functions") or []],
        records=description.records,
        limits=ecode.Limits(budget=BUDGET),
    )


def floats(value: Any, type_: Type, known: dict[str, Struct]) -> Any:
    """JSON values as Python values of a type: "nan" and "inf" become floats."""
    match type_:
        case Array() if value is not None:
            inner = Array(type_.element, type_.dims[1:]) if len(type_.dims) > 1 else type_.element
            return [floats(item, inner, known) for item in value]
        case Pointer() if value is not None:
            return floats(value, type_.target, known)
        case Ref() if value is not None:
            fields = {f.name: f.type for f in known[type_.name].fields}
            return {name: floats(item, fields[name], known) for name, item in value.items()}
    return float(value) if type_ in (FLOAT32, FLOAT64) else value


def inputs(case: Case, call: Case) -> dict[str, Any]:
    """The values of a call, with floats where JSON has none."""
    found = {}
    for param in described(case).params:
        if param.name in call["inputs"]:
            is_record = isinstance(param.type, Record)
            known = {s.name: s for s in param.type.structs} if isinstance(param.type, Record) else {}
            found[param.name] = floats(call["inputs"][param.name], Ref(param.name) if is_record else param.type, known)
    return found


def python_engine(program: ecode.Program, case: Case) -> Iterator[ecode.Outcome]:
    statics = program.statics
    for call in case["calls"]:
        yield program.run(inputs(case, call), statics)


def numba_engine(program: ecode.Program, case: Case) -> Iterator[ecode.Outcome]:
    """Calls that share their parameter blocks run as one batch."""
    batch, statics, structs = program.kernel(ecode.Keep.ALL), program.statics, program.typed.structs
    types = program.typed.param_types
    blocks = {p.name for p in program.params if p.mode is ecode.Mode.PARAM}
    outs = [p.name for p in program.params if p.mode is ecode.Mode.OUT]
    calls = [inputs(case, call) for call in case["calls"]]
    for _, group in groupby(calls, lambda given: [given.get(name) for name in sorted(blocks)]):
        together = list(group)
        columns = {
            name: columns_of([given.get(name) for given in together][: 1 if name in blocks else None], type_, structs)
            for name, type_ in types.items()
            if name not in outs
        }
        result = batch.run(columns, len(together), statics)
        outputs = {name: values_of(result.outputs[name], types[name], structs) for name in outs}
        returns = program.typed.returns
        returned = [None] * len(together) if returns is None else None
        if result.returned is not None and returns is not None:
            returned = values_of(result.returned, returns, structs)
        assert returned is not None
        for i in range(len(together)):
            # A trap ends the runner's case, as it does with the interpreter.
            if result.traps and result.traps[0][0] == i:
                raise result.traps[0][1]
            called = tuple((name, arguments) for event, name, arguments in result.log if event == i)
            yield ecode.Outcome(returned[i], {name: rows[i] for name, rows in outputs.items()}, called)


ENGINES: dict[str, Engine] = {"python": python_engine, "numba": numba_engine}


def same(expected: Any, actual: Any, *, is_inexact: bool, signed_zero: bool) -> bool:
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            same(item, actual.get(name), is_inexact=is_inexact, signed_zero=signed_zero)
            for name, item in expected.items()
        )
    if isinstance(expected, list):
        return (isinstance(actual, list | tuple) and len(actual) == len(expected)) and all(
            same(e, a, is_inexact=is_inexact, signed_zero=signed_zero) for e, a in zip(expected, actual, strict=True)
        )
    if isinstance(actual, float):
        wanted = float(expected)
        if math.isnan(wanted):
            return math.isnan(actual)
        if signed_zero and math.copysign(1, wanted) != math.copysign(1, actual):
            return False
        return math.isclose(wanted, actual, rel_tol=4 * sys.float_info.epsilon) if is_inexact else wanted == actual
    if isinstance(actual, bytes):
        return expected == actual.decode("utf-8", "surrogateescape")
    return bool(expected == actual and type(expected) is type(actual))


def log(outcome: ecode.Outcome) -> list[Any]:
    return [list(arguments) if len(arguments) > 1 else arguments[0] for _, arguments in outcome.log]


def expect(what: str, expected: object, actual: object) -> None:
    if expected != actual:
        raise AssertionError(f"{what} {actual!r}, not {expected!r}")


def check(case: Case, engine: Engine) -> None:
    """Raises AssertionError with the difference."""
    wanted = case.get("recommended") or case
    if wanted.get("error"):
        try:
            compiled(case)
        except ecode.CompileError as error:
            expect("category", wanted["category"], error.category)
            return
        raise AssertionError("the program was accepted")
    outcomes = engine(compiled(case), case)
    if kind := wanted.get("runtime_error"):
        try:
            for _ in outcomes:
                pass
        except ecode.Trap as trap:
            expect("trap", kind, trap.kind)
            return
        raise AssertionError(f"no {kind}")
    results = wanted.get("results") or [
        {"outputs": c["expected_outputs"], "return": c["expected_return"], "log": c.get("expected_log")}
        for c in case["calls"]
    ]
    made = list(outcomes)
    expect("number of outcomes", len(results), len(made))
    for number, (expected, outcome) in enumerate(zip(results, made, strict=True), 1):
        options = {"is_inexact": bool(INEXACT.search(case["source"])), "signed_zero": case["id"] == "float-neg"}
        for what, one, other in (
            ("returned", expected["return"], outcome.returned),
            ("outputs", expected["outputs"], outcome.outputs),
            ("log", expected.get("log") or [], log(outcome)),
        ):
            assert same(one, other, **options), f"call {number}: {what} {other!r}, not {one!r}"


def cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        yield from json.loads(path.read_text())["cases"]


def failures(folder: Path, engine: Engine) -> tuple[int, list[str]]:
    """The number of cases that passed, and the failures of the others."""
    passed, failed = 0, []
    for case in cases(folder):
        try:
            check(case, engine)
            passed += 1
        except Exception as error:
            failed.append(f"{case['id']}: {type(error).__name__}: {error}")
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=ENGINES, default="python")
    arguments = parser.parse_args()
    passed, failed = failures(arguments.folder, ENGINES[arguments.engine])
    for failure in failed:
        print(failure)
    print(f"{passed} passed, {len(failed)} failed")
    return int(bool(failed) or not passed)


if __name__ == "__main__":
    sys.exit(main())
