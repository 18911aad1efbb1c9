"""The pages on the language: every example runs, in both engines, and does what its comment says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ecode
from ecode.cli.description import Description, described
from ecode.columns import columns_of, values_of

DOCS = Path(__file__).parents[2] / "docs" / "programs"
PAGES = ("e-code.md", "safe-filters.md")


def examples() -> list[Any]:
    found = []
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        description = described(json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[0]))
        for number, block in enumerate(re.findall(r"```ecode\n(.*?)```", text, re.DOTALL), 1):
            comments, source = re.fullmatch(r"((?://[^\n]*\n)+)(.*)", block, re.DOTALL).groups()  # type: ignore[union-attr]
            said = [line.removeprefix("// ") for line in comments.splitlines()]
            found.append(pytest.param(description, source, said, id=f"{page}-{number}"))
    return found


@pytest.mark.parametrize(("description", "source", "said"), examples())
def test_example(description: Description, source: str, said: list[str]) -> None:
    options = {"functions": [ecode.PRINTF], "records": description.records, "limits": ecode.Limits(budget=10_000)}
    if said[0].startswith("error"):
        with pytest.raises(ecode.CompileError) as caught:
            ecode.compile(source, description.params, description.returns, **options)
        assert f"error {caught.value.category}" == said[0]
        return
    program = ecode.compile(source, description.params, description.returns, **options)
    if "bounded" in said[0]:
        assert ("bounded" if program.analysis.is_bounded else "unbounded") == said[0]
        return
    statics, state = program.statics, program.statics
    for line in said:
        given, result = line.split(" -> ")
        inputs = json.loads(given)
        assert interpreted(program, inputs, statics, result) == result
        assert compiled(program, inputs, state, result) == result
    assert statics == state


def spoken(returned: Any, outputs: dict[str, Any], result: str) -> str:
    """An outcome in the words of the page, as much of the outputs as it mentions."""
    _, comma, mentioned = result.partition(", ")
    if not comma:
        return str(returned)
    wanted = json.loads(mentioned)
    shown = {param: {name: outputs[param][name] for name in fields} for param, fields in wanted.items()}
    return f"{returned}, {json.dumps(shown, default=lambda text: text.decode())}"


def interpreted(program: ecode.Program, inputs: dict[str, Any], statics: ecode.Statics, result: str) -> str:
    try:
        outcome = program.run(inputs, statics)
    except ecode.Trap as trap:
        return f"trap {trap.kind}"
    return spoken(outcome.returned, outcome.outputs, result)


def compiled(program: ecode.Program, inputs: dict[str, Any], statics: ecode.Statics, result: str) -> str:
    types, structs = program.typed.param_types, program.typed.structs
    ins = [p.name for p in program.params if p.mode is not ecode.Mode.OUT]
    columns = {name: columns_of([inputs.get(name, {})], types[name], structs) for name in ins}
    made = program.kernel(ecode.Keep.ALL).run(columns, 1, statics)
    if made.traps:
        return f"trap {made.traps[0][1].kind}"
    outputs = {name: values_of(column, types[name], structs)[0] for name, column in made.outputs.items()}
    assert made.returned is not None
    assert program.typed.returns is not None
    return spoken(values_of(made.returned, program.typed.returns, {})[0], outputs, result)
