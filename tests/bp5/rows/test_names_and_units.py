"""Ambiguous names; units; paths that are not BP5 folders."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.errors import PbioError
from tests.bp5.made import Maker, make
from tests.bp5.test_golden import GOLDEN
from tests.bp5.values import read

STEPS = pa.schema([("s", pa.int64())])


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Variables that differ in characters that E-code's names do not have, and one called step."""
    steps = [{"a b": n, "a-b": 10 * n, "c d": n, "c_d": 10 * n, "step": 7 + n, "x": np.arange(2) + n} for n in range(2)]
    return make(tmp_path_factory.mktemp("named") / "run.bp", steps)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ('input["a b"] == 1 && input["a-b"] == 10', [1]),
        ("input.c_d == 10", [1]),  # what is called so goes before what is only written so
        ('input["c d"] == 1', [1]),
        ("input.step == 8", [1]),
        ("input.s == 1", [1]),
        ('input["step"] == 8 && input.s == 1', [1]),
    ],
)
def test_programs_reach_every_name(named: Path, where: str, found: list[int]) -> None:
    options = {"stepColumn": "s", "where": f"{{ return {where}; }}"}
    assert read(named, schema=STEPS, **options)["s"].to_pylist() == found
    rows = read(named, rows="elements", variables="x", **options).to_pylist()
    assert [(row["s"], row["x"]) for row in rows] == [(n, n + i) for n in found for i in range(2)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stepColumn": "s", "where": "{ return input.a_b == 1; }"}, "PBIO_BAD_PROGRAM.*may be 'a b' or 'a-b'"),
        ({"stepColumn": "t", "where": "{ return input.s == 1; }"}, "PBIO_BAD_PROGRAM.*no dataset has a variable 's'"),
        ({"where": "{ return input.step == 1; }"}, "the number of the step or the variable 'step'"),
        ({}, "PBIO_AMBIGUOUS_NAME.*the number of the step or the variable"),
    ],
)
def test_names_of_several_meanings_are_errors(named: Path, options: dict[str, str], said: str) -> None:
    name = "step" if "stepColumn" not in options and "where" not in options else "x"
    schema = pa.schema([(name, pa.int64() if name == "step" else pa.list_(pa.int64()))])
    with pytest.raises(PbioError, match=said):
        read(named, schema=schema, **options)


def units(path: Path, *runs: tuple[dict[str, Any], dict[int, Any]]) -> Path:
    """Writing runs of two steps: what they put, and the unitSI of it in steps."""
    for number, (values, given) in enumerate(runs):
        maker = Maker(path, append=number > 0)
        for step in range(2):
            found = {f"{name}/unitSI": given[step] for name in values} if step in given else None
            maker.step(values, found)
        maker.close()
    return path


@pytest.mark.parametrize("rows", ["steps", "elements"])
@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (math.nan, "unitSI is nan"),
        (math.inf, "unitSI is inf"),
        (0.0, "unitSI is 0.0"),
        ("2", "unitSI is '2', not a number"),
        (np.array([1.0, 2.0]), r"unitSI is \[1.0, 2.0\], not a number"),
    ],
)
def test_an_invalid_unit_is_an_error_where_it_is_applied(tmp_path: Path, rows: str, unit: Any, said: str) -> None:
    path = units(tmp_path / "run.bp", ({"x": np.arange(2.0), "y": np.arange(2)}, {0: unit}))
    options = {"rows": rows, **({"variables": "x"} if rows == "elements" else {})}
    with pytest.raises(PbioError, match=f"PBIO_BAD_BP5.*{said}"):
        read(path, applyUnitSI="true", **options)
    assert read(path, **options).num_rows
    assert read(path, schema=pa.schema([("step", pa.int64())]), applyUnitSI="true").num_rows == 2


@pytest.mark.parametrize("unit", [2, 2.0, np.array([2.0]), np.array(2, "i2")])
def test_numbers_of_every_kind_are_multiplied(tmp_path: Path, unit: Any) -> None:
    values = {"i": np.arange(2, dtype="i2"), "u": np.array([1, 2**63], "u8"), "c": np.array([1 - 2j]), "s": np.int32(3)}
    row = read(units(tmp_path / "run.bp", (values, {0: unit})), applyUnitSI="true").to_pylist()[1]
    assert row == {"step": 1, "i": [0.0, 2.0], "u": [2.0, 2.0**64], "c": [{"re": 2.0, "im": -4.0}], "s": 6.0}


def test_the_unit_is_that_of_the_steps_that_are_read(tmp_path: Path) -> None:
    x = {"x": np.arange(2.0)}
    path = units(tmp_path / "run.bp", (x, {0: 2.0}), (x, {0: 3.0}), (x, {1: 5.0}))

    def values(**options: object) -> list[list[float]]:
        found: list[list[float]] = read(path, applyUnitSI="true", **options)["x"].to_pylist()
        return found

    assert values(toStep=2) == [[0.0, 2.0]] * 2
    assert values(fromStep=1, toStep=2) == [[0.0, 2.0]]
    assert values(fromStep=2, toStep=5) == [[0.0, 3.0]] * 3
    assert values(fromStep=5) == [[0.0, 5.0]]
    with pytest.raises(PbioError, match=r"unitSI changes from 2.0 to 3.0 in step 2"):
        values()
    late = units(tmp_path / "late.bp", (x, {1: 2.0}))
    with pytest.raises(PbioError, match="unitSI is set in step 1, but values come from step 0 on"):
        read(late, applyUnitSI="true")


def test_programs_see_what_columns_show(tmp_path: Path) -> None:
    path = units(tmp_path / "run.bp", ({"t": 3.0, "x": np.arange(3)}, {0: 10.0}))
    where = "{ return input.t == 30.0; }"
    assert read(path, applyUnitSI="true", where=where).num_rows == 2
    options = {"rows": "elements", "variables": "x", "applyUnitSI": "true"}
    assert read(path, where="{ return input.t == 30.0 && input.x == 20.0; }", **options).num_rows == 2


def test_units_do_not_apply_to_blocks() -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION.*applyUnitSI"):
        read(GOLDEN / "blocks.bp", rows="blocks", applyUnitSI="true")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("md.idx", "PBIO_NOT_BP5.*a file of a BP5 folder.*\n.*\n.*name the folder"),
        ("data.0", "PBIO_NOT_BP5.*a file of a BP5 folder"),
        ("old.bp", "PBIO_NOT_BP5.*a file, but BP5 is a folder.*\n.*\n.*BP3"),
        ("none.bp", "PBIO_PATH_NOT_FOUND"),
        ("empty", "PBIO_NOT_BP5.*no BP5 folder found here"),
    ],
)
def test_a_folder_that_is_not_bp5_is_named(tmp_path: Path, file: str, said: str) -> None:
    for name in ("md.idx", "data.0", "old.bp"):
        (tmp_path / name).write_bytes(b"BP")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PbioError, match=said):
        read(tmp_path / file)


@pytest.mark.parametrize("end", ["/", "//", "/."])
def test_a_path_may_end_in_slashes(end: str) -> None:
    assert read(f"{GOLDEN / 'absent.bp'}{end}").equals(read(GOLDEN / "absent.bp"))


def test_attributes_belong_to_the_variable_with_the_longest_name(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.bp")
    maker.step({"x": np.arange(2), "x/y": 1}, {"x/units": "m", "x/y/units": "s", "x/y/unitSI": 3.0})
    maker.close()
    table = read(tmp_path / "run.bp", applyUnitSI="true")
    assert table.schema.field("x").metadata == {b"units": b'"m"'}
    assert table.schema.field("x/y").metadata == {b"units": b'"s"', b"unitSI": b"3.0"}
    assert table.to_pylist() == [{"step": 0, "x": [0, 1], "x/y": 3.0}]


def test_the_hint_for_columns_that_are_one_to_spark_says_what_helps(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [{"Step": 1, "Temp": 1.0, "temp": 2.0}])
    with pytest.raises(PbioError, match=r"'step' and 'Step'[^$]*[$].Step\n  hint: rename one with stepColumn"):
        read(run)
    with pytest.raises(
        PbioError, match=r"'Temp' and 'temp'[^$]*[$].temp\n  hint: read one at a time, with the option var"
    ):
        read(run, stepColumn="n")
    assert read(run, stepColumn="n", variables="Step,temp").to_pylist() == [{"n": 0, "Step": 1, "temp": 2.0}]
