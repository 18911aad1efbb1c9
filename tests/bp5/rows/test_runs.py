"""Writing runs, in one folder or in several, in which a variable has different types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.errors import PbioError
from tests.bp5.made import Maker, make
from tests.bp5.values import read

STEP = pa.schema([("step", pa.int64())])


def runs(path: Path, *values: Any) -> Path:
    """Runs of two steps, appended to each other, that put a value as a scalar and twice as an array."""
    for number, value in enumerate(values):
        maker = Maker(path, append=number > 0)
        for _ in range(2):
            maker.step({"v": value, "x": np.array([value, value])})
        maker.close()
    return path


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ((np.int32(1), np.int64(2**40), np.int16(3)), pa.int64()),
        ((np.int32(1), 2.5, np.float32(0.5)), pa.float64()),
        ((np.int64(1), np.uint64(2**63 + 5), np.int64(-7)), pa.decimal128(20, 0)),
    ],
)
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_appended_runs_of_other_types_are_one_table(
    tmp_path: Path, values: tuple[Any, ...], type_: pa.DataType, mode: str
) -> None:
    path = runs(tmp_path / "run.bp", *values)
    each = [value.item() if isinstance(value, np.generic) else value for value in values for _ in range(2)]
    table = read(path, mode=mode)
    assert table.schema.field("v").type == type_
    assert table["v"].to_pylist() == each
    assert table["x"].to_pylist() == [[value, value] for value in each]
    elements = read(path, rows="elements", variables="x", mode=mode)
    assert elements["x"].to_pylist() == [value for value in each for _ in range(2)]
    assert read(path, rows="blocks", mode=mode)["value"].to_pylist() == [[value, value] for value in each]


def test_programs_see_the_type_that_holds_all(tmp_path: Path) -> None:
    path = runs(tmp_path / "run.bp", np.int32(1), 2.5, np.float32(0.5))
    assert read(path, schema=STEP, where="{ return input.v >= 1; }")["step"].to_pylist() == [0, 1, 2, 3]
    options = {"rows": "elements", "variables": "x", "where": "{ return input.x < 2 && input.index == 1; }"}
    assert read(path, **options)["step"].to_pylist() == [0, 1, 4, 5]


@pytest.mark.parametrize("rows", ["steps", "elements"])
@pytest.mark.parametrize("values", [(np.int64(1), np.uint64(2**63 + 5)), (2.5, np.int64(2**53 + 1))])
def test_values_that_a_program_cannot_see_are_errors(tmp_path: Path, values: tuple[Any, ...], rows: str) -> None:
    for number, value in enumerate(values):
        make(tmp_path / f"{number}.bp", [{"v": value, "x": np.array([value])}])
    options = {"rows": rows, **({"variables": "x"} if rows == "elements" else {})}
    name = "x" if rows == "elements" else "v"
    with pytest.raises(PbioError, match="PBIO_VALUE_BEYOND_TYPE"):
        read(tmp_path, schema=STEP, where=f"{{ return input.{name} > 1; }}", **options)


def test_a_string_in_one_run_and_a_number_in_another_is_an_error(tmp_path: Path) -> None:
    make(tmp_path / "1.bp", [{"v": 1}])
    make(tmp_path / "2.bp", [{"v": "one"}])
    for where in ("input.v == 1", "input.v > 0 || input.step == 0"):
        with pytest.raises(PbioError, match=r"PBIO_BAD_PROGRAM.*'v' is a string in some datasets"):
            read(tmp_path, schema=STEP, where=f"{{ return {where}; }}")
    assert read(tmp_path, schema=STEP, where="{ return input.step == 0; }").num_rows == 2
    with pytest.raises(PbioError, match="PBIO_CANNOT_MERGE"):
        read(tmp_path)


def test_what_is_not_asked_for_does_not_matter(tmp_path: Path) -> None:
    make(tmp_path / "1.bp", [{"v": 1, "x": np.arange(2)}])
    make(tmp_path / "2.bp", [{"v": "one", "x": np.arange(2)}])
    assert read(tmp_path, variables="x").num_rows == 2
    assert read(tmp_path, rows="elements", variables="x").num_rows == 4
    assert read(tmp_path, rows="blocks").num_rows == 2
    with pytest.raises(PbioError, match=r"PBIO_CANNOT_MERGE.*int64 in some steps and string in others"):
        read(tmp_path)


def test_the_name_of_a_run_is_not_a_column_and_columns_of_folders_are_not_mistaken(tmp_path: Path) -> None:
    for temperature in (1, 2):
        make(tmp_path / "named" / f"T={temperature}.bp", [{"a": temperature}])
        make(tmp_path / "folders" / f"index={temperature}" / "run.bp", [{"a": 1, "x": np.arange(2)}])
    assert read(tmp_path / "named").to_pylist() == [{"step": 0, "a": 1}, {"step": 0, "a": 2}]
    assert read(tmp_path / "folders", variables="a")["index"].to_pylist() == [1, 2]
    index = pa.schema([("index", pa.int64())])
    with pytest.raises(PbioError, match=r"PBIO_AMBIGUOUS_NAME.*'index' may come from the folders"):
        read(tmp_path / "folders", rows="elements", variables="x", schema=index)
    make(tmp_path / "both" / "a=5" / "run.bp", [{"a": 1}])
    with pytest.raises(PbioError, match=r"PBIO_AMBIGUOUS_NAME.*\n.*\n.*recursiveFileLookup"):
        read(tmp_path / "both", schema=pa.schema([("a", pa.int64())]))
    assert read(tmp_path / "both", recursiveFileLookup="true")["a"].to_pylist() == [1]
