"""What the adios2 library writes is read back unchanged: random datasets, and blocks in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bp5.made import Maker, make
from tests.bp5.values import read, spelled

LONG = os.environ.get("PBIO_LONG") == "1"
Steps: TypeAlias = list[dict[str, tuple[Any, Any]]]
"""By variable its value, and how it is put."""

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"]


def numbers(kind: str, count: int) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Arrays of any bytes: every value that the type has."""
    size = np.dtype(kind).itemsize * count
    return st.binary(min_size=size, max_size=size).map(lambda raw: np.frombuffer(raw, kind).copy())


@st.composite
def variables(draw: st.DrawFn) -> dict[str, tuple[str, int]]:
    """Names, which differ to Spark as well, with a type and a number of dimensions."""
    text = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=8)
    names = draw(st.lists(text, min_size=1, max_size=5, unique_by=lambda name: name.lower()))
    named = [name for name in names if name.lower() != "step" and name.strip() == name]
    return {name: (draw(st.sampled_from([*KINDS, "text"])), draw(st.integers(0, 3))) for name in named}


@st.composite
def arrays(draw: st.DrawFn, kind: str, dimensions: int) -> Any:
    """An array, or (shape, blocks) that cover it along its first dimension, in any order."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=dimensions, max_size=dimensions)))
    whole = draw(numbers(kind, int(np.prod(shape)))).reshape(shape)
    if shape[0] < 2 or draw(st.booleans()):
        return whole, whole
    at = draw(st.integers(1, shape[0] - 1))
    rest = (0,) * (dimensions - 1)
    blocks = [((0, *rest), whole[:at]), ((at, *rest), whole[at:])]
    return whole, (shape, blocks if draw(st.booleans()) else blocks[::-1])


@st.composite
def datasets(draw: st.DrawFn) -> Steps:
    """Steps: by variable its value, and how it is put."""
    known = draw(variables())
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        step: dict[str, tuple[Any, Any]] = {}
        for name, (kind, dimensions) in known.items():
            if draw(st.integers(0, 3)) == 0:
                continue
            if kind == "text":
                value = draw(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=9))
                step[name] = value, value
            elif dimensions == 0:
                value = draw(numbers(kind, 1))[0]
                step[name] = value, value
            else:
                step[name] = draw(arrays(kind, dimensions))
        steps.append(step)
    return steps


def shown(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [shown(one) for one in value]
    if isinstance(value, np.complexfloating):
        return [spelled(float(value.real)), spelled(float(value.imag))]
    return spelled(value.item() if isinstance(value, np.generic) else value)


@settings(max_examples=2000 if LONG else 12)
@given(datasets(), st.sampled_from([None, "null"]))
def test_random_datasets_are_read_as_they_went_in(
    steps: list[dict[str, tuple[Any, Any]]], operator: str | None
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        maker = Maker(folder / "run.bp", operator=operator)
        for step in steps:
            maker.step({name: put for name, (_, put) in step.items()})
        maker.close()
        rows = read(folder / "run.bp").to_pylist()
        found = [{n: spelled(v) for n, v in row.items() if v is not None and n != "step"} for row in rows]
        assert found == [{name: shown(value) for name, (value, _) in step.items()} for step in steps]
    finally:
        shutil.rmtree(folder)


def test_a_step_without_variables_is_a_row(tmp_path: Path) -> None:
    path = make(tmp_path / "run.bp", [{"a": 1}, {}, {"a": 2}])
    assert read(path).to_pylist() == [{"step": 0, "a": 1}, {"step": 1, "a": None}, {"step": 2, "a": 2}]
    assert read(path, schema=read(path).schema.remove(1)).num_rows == 3


def test_a_folder_of_runs_is_one_table_with_the_columns_of_its_folders(tmp_path: Path) -> None:
    make(tmp_path / "seed=1" / "run.bp", [{"a": np.int32(1)}])
    make(tmp_path / "seed=2" / "run.bp", [{"a": np.int64(2), "x": np.arange(2.0)}])
    (tmp_path / "notes.txt").write_text("not a dataset")
    rows = [(row["a"], row["x"], row["seed"]) for row in read(tmp_path).to_pylist()]
    assert rows == [(1, None, 1), (2, [0.0, 1.0], 2)]
