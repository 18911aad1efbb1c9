"""Random datasets and random queries: every query gives the rows of a full read, filtered in Python.

The oracle knows the written data, but not BP5: arrays are painted block after block. `PBIO_SEEDS=1000-2000` runs
other seeds.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.bp5.data import flat
from pbio_spark.bp5.rows.elements import boxes
from tests.bp5.made import Joined, Local, Maker, PerWriter
from tests.bp5.values import read, spelled

FIRST, _, LAST = os.environ.get("PBIO_SEEDS", "0-12").partition("-")
PALETTES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("i1", "i2", "i4", "i8"), (0, 1, 2, 7, -1, -100)),
    **dict.fromkeys(("u1", "u2", "u4", "u8"), (0, 1, 2, 7, 200)),
    **dict.fromkeys(("f4", "f8"), (0.0, 1.0, 2.5, 7.0, -1.0, math.nan, math.inf)),
}
CONSTANTS = ("0", "1", "2", "2.5", "7")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
Test = Callable[[dict[str, Any]], bool]
"""Whether a row passes, by the values that it has."""


@dataclass
class Array:
    """An array as its blocks make it: `covered` says where there is one."""

    values: np.ndarray[Any, Any]
    covered: np.ndarray[Any, Any]
    blocks: list[tuple[tuple[int, ...], np.ndarray[Any, Any]]]


@dataclass
class Made:
    """A dataset, as it was put: a dict for each step."""

    path: Path
    kinds: dict[str, str]
    group: list[str]
    dimensions: int
    units: dict[str, float] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)


class Chance(random.Random):
    def often(self) -> bool:
        return self.random() < 0.8

    def seldom(self) -> bool:
        return self.random() < 0.25

    def numbers(self, kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return np.array(self.choices(PALETTES[kind], k=math.prod(shape)), kind).reshape(shape)

    def box(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        low = tuple(self.randrange(n) for n in shape)
        return low, tuple(self.randint(a + 1, n) - a for a, n in zip(low, shape, strict=True))

    def slabs(self, shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The array in slabs along its first dimension, as writers divide it."""
        cuts = [0, *sorted(self.sample(range(1, shape[0]), min(shape[0] - 1, self.randrange(4)))), shape[0]]
        for begin, end in pairwise(cuts):
            yield (begin, *(0 for _ in shape[1:])), (end - begin, *shape[1:])

    def array(self, kind: str, shape: tuple[int, ...]) -> Array:
        """Slabs that cover everything, or boxes that leave gaps and lie over each other."""
        places = [self.box(shape) for _ in range(self.randint(1, 4))] if self.seldom() else list(self.slabs(shape))
        made = Array(np.zeros(shape, kind), np.zeros(shape, np.bool_), [])
        for low, count in places:
            where = tuple(slice(a, a + n) for a, n in zip(low, count, strict=True))
            block = self.numbers(kind, count)
            made.values[where], made.covered[where] = block, True
            made.blocks.append((low, block))
        return made


def make(chance: Chance, path: Path) -> Made:
    kinds = {f"s{i}": chance.choice([*PALETTES, "text"]) for i in range(chance.randint(1, 4))}
    group = [f"a b/{i}" for i in range(chance.randint(1, 3))]
    kinds |= {name: chance.choice([*PALETTES]) for name in group}
    made = Made(path, kinds, group, chance.randint(1, 3))
    numbers = [name for name, kind in kinds.items() if kind != "text"]
    made.units = {name: chance.choice([0.5, -2.0]) for name in chance.sample(numbers, chance.randrange(len(numbers)))}
    operator = "null" if chance.seldom() else None
    maker = Maker(path, operator=operator)
    for number in range(chance.randint(1, 7)):
        if number and chance.seldom():
            maker.close()
            maker = Maker(path, append=True, operator=operator)
        step = values_of_step(chance, made)
        units = {f"{name}/unitSI": unit for name, unit in made.units.items()} if not number else {}
        write(maker, step, units, chance)
        made.steps.append(step)
    maker.close()
    return made


def values_of_step(chance: Chance, made: Made) -> dict[str, Any]:
    shape = tuple(chance.randint(1, 9) for _ in range(made.dimensions))
    step: dict[str, Any] = {}
    for name, kind in made.kinds.items():
        if not chance.often():
            continue
        if kind == "text":
            step[name] = chance.choice(["", "a", "bcd", "é"])
        else:
            step[name] = chance.array(kind, shape) if name in made.group else chance.numbers(kind, ())[()]
    if chance.seldom():
        step["local"] = Local([chance.numbers("f8", (chance.randint(1, 4),)) for _ in range(chance.randint(1, 3))])
    if chance.seldom():
        step["joined"] = Joined([chance.numbers("i4", (chance.randint(1, 3), 2)) for _ in range(chance.randint(1, 3))])
    if chance.seldom():
        step["each"] = PerWriter(chance.numbers("i8", ())[()])
    return step


def write(maker: Maker, step: dict[str, Any], units: dict[str, float], chance: Chance) -> None:
    maker.engine.begin_step()
    for name, unit in units.items():
        maker.io.define_attribute(name, unit)
    for name, value in step.items():
        maker.put(name, (value.values.shape, value.blocks) if isinstance(value, Array) else value)
        if chance.seldom():
            maker.flush()
    maker.engine.end_step()


def shown(value: Any, unit: float | None, *, nulls: bool = False) -> Any:
    """A value as a row has it."""
    if isinstance(value, Array):
        plain = (value.values * unit if unit else value.values).astype(object)
        plain = np.where(value.covered | (not nulls), plain, None)
        return [shown(one, None) for one in plain]
    if isinstance(value, Local):
        return [shown(block, None) for block in value.blocks]
    if isinstance(value, Joined):
        return shown(np.concatenate(value.blocks), None)
    if isinstance(value, PerWriter):
        return [shown(value.value, None)]
    if isinstance(value, np.ndarray):
        return [shown(one, None) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return spelled(value * unit if unit and not isinstance(value, str) else value)


def condition(chance: Chance, names: dict[str, str]) -> tuple[str, Test]:
    """Comparisons of fields, `&&`, `||` and `present`; what is absent is zero."""
    if chance.seldom():
        (left, first), (right, second) = condition(chance, names), condition(chance, names)
        if chance.seldom():
            return f"({left} || {right})", lambda row: first(row) or second(row)
        return f"({left} && {right})", lambda row: first(row) and second(row)
    name = chance.choice([*names])
    said = f'input["{name}"]'
    if names[name] == "text":
        word = chance.choice(["a", "bcd"])
        return f'{said} == "{word}"', lambda row: row.get(name) == word
    if chance.seldom():
        return f"present({said})", lambda row: row.get(name) is not None
    sign, constant = chance.choice([*COMPARISONS]), chance.choice(CONSTANTS)
    return f"{said} {sign} {constant}", lambda row: COMPARISONS[sign](row.get(name) or 0, float(constant))


def options_of(chance: Chance) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if chance.seldom():
        made["fromStep"] = chance.randrange(3)
    if chance.seldom():
        made["toStep"] = made.get("fromStep", 0) + chance.randrange(4)
    if chance.seldom():
        made["uncovered"] = "null"
    if chance.seldom():
        made["applyUnitSI"] = "true"
    made["maxBatchBytes"] = chance.choice(["16m", "1", "24", "200"])
    made["maxPartitionBytes"] = chance.choice(["128m", "4096", "1000"])
    made["recordsPerBatch"] = chance.choice([32768, 1, 7])
    return made


def of_steps(made: Made, options: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from list(enumerate(made.steps))[options.get("fromStep", 0) : options.get("toStep")]


def projected(chance: Chance, table: pa.Schema) -> pa.Schema:
    names = chance.sample(table.names, chance.randint(1, len(table.names)))
    return pa.schema([table.field(name) for name in names])


def check(found: pa.Table, rows: list[dict[str, Any]]) -> None:
    names = found.schema.names
    assert [[repr(spelled(row[name])) for name in names] for row in found.to_pylist()] == [
        [repr(row.get(name)) for name in names] for row in rows
    ]


def query_steps(chance: Chance, made: Made) -> None:
    options = options_of(chance)
    units = made.units if "applyUnitSI" in options else {}
    nulls = "uncovered" in options
    scalars = {name: kind for name, kind in made.kinds.items() if name not in made.group} | {"step": "i8"}
    known = {name for step in made.steps for name in step} | {"step"}
    passes: Test = lambda row: True  # noqa: E731
    if chance.often():
        text, passes = condition(chance, {name: kind for name, kind in scalars.items() if name in known})
        options["where"] = "{ return " + text + "; }"
    rows = []
    for number, step in of_steps(made, options):
        values = {name: value.item() if isinstance(value, np.generic) else value for name, value in step.items()}
        seen = {n: v * units[n] if n in units and n in scalars else v for n, v in values.items()} | {"step": number}
        if passes(seen):
            rows.append({"step": number, **{n: shown(v, units.get(n), nulls=nulls) for n, v in step.items()}})
    schema = read(made.path, **{name: options[name] for name in ("applyUnitSI",) if name in options}).schema
    check(read(made.path, schema=projected(chance, schema), **options), rows)


def query_elements(chance: Chance, made: Made) -> None:
    options = options_of(chance)
    units = made.units if "applyUnitSI" in options else {}
    asked = chance.sample(made.group, chance.randint(1, len(made.group)))
    if not any(name in step for step in made.steps for name in asked):
        return
    there = [name for name in asked if any(name in step for step in made.steps)]
    index = ["index"] if made.dimensions == 1 else [f"index{i}" for i in range(made.dimensions)]
    options |= {"rows": "elements", "variables": ",".join(there)}
    scalars = [n for n in made.kinds if n not in made.group and any(n in step for step in made.steps)]
    passes: Test = lambda row: True  # noqa: E731
    if chance.often():
        names = {n: made.kinds[n] for n in [*there, *scalars]} | dict.fromkeys([*index, "step"], "i8")
        text, passes = condition(chance, names)
        options["where"] = "{ return " + text + "; }"
    rows = []
    for number, step in of_steps(made, options):
        arrays = {name: step[name] for name in there if name in step}
        if not arrays:
            continue
        for place in product(*map(range, next(iter(arrays.values())).values.shape)):
            row: dict[str, Any] = {"step": number, **dict(zip(index, place, strict=True))}
            for name, array in arrays.items():
                value = array.values[place].item() * units.get(name, 1)
                row[name] = value if array.covered[place] or "uncovered" not in options else None
            for name in scalars:
                if name in step:
                    value = step[name].item() if isinstance(step[name], np.generic) else step[name]
                    row[name] = value if isinstance(value, str) else value * units.get(name, 1)
            if passes(row):
                rows.append({name: spelled(value) for name, value in row.items()})
    needed = {name: options[name] for name in ("rows", "variables", "applyUnitSI") if name in options}
    table = read(made.path, **needed).schema
    steps = read(made.path, **{name: needed[name] for name in ("applyUnitSI",) if name in needed}).schema
    table = pa.schema([*table, *(steps.field(name) for name in scalars if chance.seldom())])
    check(read(made.path, schema=projected(chance, table), **options), rows)


def query_blocks(chance: Chance, made: Made) -> None:
    options = options_of(chance)
    options = {n: v for n, v in options.items() if n not in ("applyUnitSI", "uncovered")}
    name = chance.choice(made.group)
    if not any(name in step for _, step in of_steps(made, options)):
        return
    found = read(made.path, rows="blocks", variables=name, **options).to_pylist()
    wanted = [
        (number, list(low), list(block.shape), shown(block.reshape(-1), None))
        for number, step in of_steps(made, options)
        if name in step
        for low, block in step[name].blocks
    ]
    assert [(r["step"], r["start"], r["count"], spelled(r["value"])) for r in found] == wanted


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST or FIRST) + 1))
def test_every_query_gives_what_was_put(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Chance(seed)
    made = make(chance, tmp_path / "run.bp")
    for _ in range(6):
        monkeypatch.setattr(boxes, "SMALL", chance.choice([0, 2, 8192]))
        monkeypatch.setattr(flat, "LEAST", chance.choice([1, 1 << 16]))
        chance.choice([query_steps, query_elements, query_elements, query_blocks])(chance, made)
