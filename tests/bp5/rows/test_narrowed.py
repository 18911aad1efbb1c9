"""Blocks whose least and greatest values exclude a program are not read, and no row is lost."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbio_spark.bp5.data import flat
from pbio_spark.bp5.rows import where
from pbio_spark.bp5.rows.elements import boxes
from pbio_spark.errors import PbioError
from tests.bp5.made import Maker, make
from tests.bp5.values import read

VALUES = {
    "f8": st.sampled_from((0.0, -1.0, 2.5, 7.0, 1e9, math.nan, math.inf)),
    "f4": st.sampled_from((0.0, -1.0, 2.5, 7.0, 1e9, math.nan)),
    "i4": st.sampled_from((0, -1, 2, 7, 2**31 - 1)),
    "u8": st.sampled_from((0, 1, 2, 7, 2**64 - 1)),
    "i8": st.sampled_from((0, -1, 2, 7, 2**53 + 1)),
}
CONDITIONS = st.tuples(
    st.sampled_from(("x", "y", "index", "t", "step")),
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
    st.sampled_from(("0", "1", "2", "2.5", "7", "-1", "1e9", "4")),
).map(lambda parts: f"input.{parts[0]} {parts[1]} {parts[2]}")


@st.composite
def arrays(draw: st.DrawFn, kind: str, shape: tuple[int, ...]) -> Any:
    """Blocks anywhere in an array: some lie over others, some places have none."""
    blocks = []
    for _ in range(draw(st.integers(1, 4))):
        low = tuple(draw(st.integers(0, n - 1)) for n in shape)
        high = tuple(draw(st.integers(a + 1, n)) for a, n in zip(low, shape, strict=True))
        count = tuple(b - a for a, b in zip(low, high, strict=True))
        size = math.prod(count)
        values = draw(st.lists(VALUES[kind], min_size=size, max_size=size))
        blocks.append((low, np.array(values, kind).reshape(count)))
    return shape, blocks


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, float]]:
    kinds = {name: draw(st.sampled_from(sorted(VALUES))) for name in "xy"}
    made = []
    dimensions = draw(st.integers(1, 2))
    for step in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.integers(1, 6)) for _ in range(dimensions))
        made.append({"t": float(step), **{name: draw(arrays(kind, shape)) for name, kind in kinds.items()}})
    units = draw(st.sampled_from(({}, {"x/unitSI": -2.0}, {"x/unitSI": 0.5, "y/unitSI": 1e-3})))
    return made, units


@settings(max_examples=2000 if os.environ.get("PBIO_LONG") else 60)
@given(steps(), st.lists(CONDITIONS, min_size=1, max_size=3), st.sampled_from(("16m", "24")), st.booleans())
def test_the_same_rows_come_with_and_without(
    made: tuple[list[dict[str, Any]], dict[str, float]], conditions: list[str], most: str, scaled: bool
) -> None:
    values, units = made
    text = "{ return " + " && ".join(conditions) + "; }"
    text = text.replace("input.index ", "input.index0 ") if len(values[0]["x"][0]) > 1 else text
    has_nan = any(np.isnan(block).any() for step in values for name in "xy" for _, block in step[name][1])
    options = {
        "trustStatistics": "integers" if has_nan else "all",
        "rows": "elements",
        "variables": "x,y",
        "where": text,
        "maxBatchBytes": most,
        "applyUnitSI": str(scaled).lower(),
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        maker = Maker(Path(folder) / "run.bp")
        for number, step in enumerate(values):
            maker.step(step, units if not number else None)
        maker.close()
        patch.setattr(boxes, "SMALL", 0)
        patch.setattr(flat, "LEAST", 1)
        narrowed = read(Path(folder) / "run.bp", **options)
        patch.setattr(where, "program_to_bounds", lambda _: ())
        patch.setattr(flat, "LEAST", 1 << 60)
        patch.setattr(boxes, "SMALL", 1 << 60)
        everything = read(Path(folder) / "run.bp", **options)
    assert repr(narrowed.to_pylist()) == repr(everything.to_pylist())


def test_what_a_program_excludes_is_not_read(tmp_path: Path) -> None:
    size = 50_000
    parts = [((part * size,), np.arange(size) + float(part * size)) for part in range(4)]
    path = make(tmp_path / "run.bp", [{"x": ((4 * size,), parts)}])
    data = path / "data.0"
    os.truncate(data, data.stat().st_size // 2)
    options = {"rows": "elements", "variables": "x", "trustStatistics": "all"}
    found = read(path, where="{ return input.x >= 10 && 20 > input.x; }", **options)
    assert found["x"].to_pylist() == [float(x) for x in range(10, 20)]
    assert read(path, where="{ return input.index < 3 && input.x > 1e9; }", **options).num_rows == 0
    with pytest.raises(PbioError, match="PBIO_TRUNCATED"):
        read(path, where="{ return input.x + 0 >= 199999; }", **options)
    with pytest.raises(PbioError, match="PBIO_TRUNCATED"):
        read(path, where="{ return input.x < 10; }", **{**options, "trustStatistics": "integers"})


def test_the_library_notes_wrong_statistics_for_nan(tmp_path: Path) -> None:
    """Which is why they are not trusted by default."""
    path = make(tmp_path / "run.bp", [{"x": np.array([2.5, math.nan, 0.0, 0.0])}])
    assert read(path, rows="blocks", variables="x")["max"].to_pylist() == [0.0]
    options = {"rows": "elements", "variables": "x", "where": "{ return input.x > 1; }"}
    assert read(path, **options)["x"].to_pylist() == [2.5]
    assert read(path, trustStatistics="all", **options).num_rows == 0
