"""Elements, blocks and catalogues; programs; units; projections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.errors import PbioError
from tests.bp5.made import Maker, make
from tests.bp5.values import read


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps: scalars t and name, arrays x (two blocks) and y, a table of k columns."""
    path = tmp_path_factory.mktemp("bp5") / "run.bp"
    maker = Maker(path)
    for step in range(3):
        x = ((6,), [((3,), np.arange(3.0) + 10 + step), ((0,), np.arange(3.0) + step)])
        table = np.arange(18, dtype="u8").reshape(6, 3) + 100 * step
        values: dict[str, Any] = {
            "t": 0.5 * step,
            "name": f"s{step}",
            "x": x,
            "y": np.arange(6, dtype="i4"),
            "k": table,
        }
        named = {"x/unitSI": 2.0, "x/units": "m", "col 0": "a", "col 1": "b", "col 2": "c"}
        maker.step(values, named if step == 0 else None)
    maker.close()
    return path


X = [[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], [1.0, 2.0, 3.0, 11.0, 12.0, 13.0], [2.0, 3.0, 4.0, 12.0, 13.0, 14.0]]


@pytest.mark.parametrize("most", ["16m", "24", "1"])
def test_elements_are_rows_with_their_index_however_they_are_cut(run: Path, most: str) -> None:
    rows = read(run, rows="elements", variables="x,y", maxBatchBytes=most).to_pylist()
    assert rows == [{"step": s, "index": i, "x": X[s][i], "y": i} for s in range(3) for i in range(6)]


@pytest.mark.parametrize("most", ["16m", "8"])
def test_elements_of_two_dimensions_have_two_indexes(run: Path, most: str) -> None:
    rows = read(run, rows="elements", variables="k", maxBatchBytes=most, indexColumns="i,j", toStep=1).to_pylist()
    assert [(row["i"], row["j"], int(row["k"])) for row in rows] == [(n // 3, n % 3, n) for n in range(18)]


def test_the_second_dimension_of_a_table_becomes_columns(run: Path) -> None:
    for names in ({"columns": "a,b,c"}, {"columnAttributes": "col"}):
        rows = read(run, rows="elements", variables="k", unsignedLongAs="long", **names).to_pylist()
        assert rows[7] == {"step": 1, "index": 1, "a": 103, "b": 104, "c": 105}


def test_where_selects_steps_by_their_scalars(run: Path) -> None:
    assert read(run, where="{ return input.t > 0.3 && input.step < 2; }")["name"].to_pylist() == ["s1"]


def test_where_selects_elements_by_variables_scalars_and_index(run: Path) -> None:
    where = "{ return input.x > 4.0 && input.t > 0.6 && input.index < 5; }"
    rows = read(run, rows="elements", variables="x,y", where=where).to_pylist()
    assert [(row["step"], row["index"], row["x"]) for row in rows] == [(2, 3, 12.0), (2, 4, 13.0)]
    assert read(run, rows="elements", variables="k", columns="a,b,c", where="{ return input.c == 105; }").num_rows == 1


def test_blocks_are_rows_with_their_place_and_statistics(run: Path) -> None:
    first = read(run, rows="blocks", variables="x").to_pylist()[0]
    assert first == {
        "step": 0,
        "variable": "x",
        "writer": 0,
        "block": 0,
        "start": [3],
        "count": [3],
        "min": 10.0,
        "max": 12.0,
        "value": [10.0, 11.0, 12.0],
    }
    assert read(run, rows="blocks")["variable"].to_pylist().count("k") == 3


def test_variables_and_attributes_are_rows(run: Path) -> None:
    kinds = {row["variable"]: (row["type"], row["dimensions"], row["steps"]) for row in catalogue(run, "variables")}
    assert kinds == {
        "t": ("double", 0, 3),
        "name": ("string", 0, 3),
        "x": ("double", 1, 3),
        "y": ("int32", 1, 3),
        "k": ("uint64", 2, 3),
    }
    found = {(row["variable"], row["name"]): row["value"] for row in catalogue(run, "attributes")}
    assert found["x", "units"] == ["m"]
    assert found[None, "col 1"] == ["b"]


def catalogue(run: Path, rows: str) -> list[dict[str, Any]]:
    return read(run, rows=rows).to_pylist()


def test_attributes_of_a_variable_are_its_column_s_metadata_and_unit_si_multiplies(run: Path) -> None:
    assert read(run).schema.field("x").metadata == {b"unitSI": b"2.0", b"units": b'"m"'}
    assert read(run, applyUnitSI="true")["x"].to_pylist()[0] == [2 * x for x in X[0]]
    assert read(run, rows="elements", variables="x", applyUnitSI="true")["x"].to_pylist()[1] == 2.0


def test_a_schema_is_a_projection_that_leaves_data_alone(run: Path, tmp_path: Path) -> None:
    for name in ("md.idx", "mmd.0", "md.0"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    scalars = pa.schema([("t", pa.float64()), ("STEP", pa.int64()), ("step", pa.int32())])
    assert read(tmp_path, schema=pa.schema([scalars.field("t"), scalars.field("step")])).to_pylist()[2] == {
        "t": 1.0,
        "step": 2,
    }
    with pytest.raises(PbioError, match=r"data\.0 is missing"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (pa.field("nothing", pa.int32()), "PBIO_UNFILLED"),
        (pa.field("x", pa.list_(pa.float32())), "PBIO_VALUE_BEYOND_TYPE"),
        (pa.field("x", pa.float64()), "PBIO_INCOMPATIBLE_TYPE"),
        (pa.field("name", pa.int32()), "PBIO_INCOMPATIBLE_TYPE"),
    ],
)
def test_columns_that_cannot_be_are_errors(tmp_path: Path, column: pa.Field, code: str) -> None:
    maker = Maker(tmp_path / "run.bp")
    maker.step({"x": np.array([0.1]), "name": "a"})
    maker.close()
    with pytest.raises(PbioError, match=code):
        read(tmp_path / "run.bp", schema=pa.schema([column]))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"rows": "elements"}, "PBIO_BAD_OPTION.*needs the option variables"),
        ({"rows": "elements", "variables": "x,k"}, "PBIO_INCOMPATIBLE_TYPE"),
        ({"rows": "elements", "variables": "t"}, "PBIO_INCOMPATIBLE_TYPE.*has no elements"),
        ({"rows": "elements", "variables": "z"}, "PBIO_UNFILLED"),
        ({"where": "{ return input.nothing; }"}, "PBIO_BAD_PROGRAM"),
        ({"where": "{ return 1 / (input.step - input.step); }"}, "PBIO_TRAP"),
        ({"columns": "a"}, "PBIO_BAD_OPTION.*does not apply to rows=steps(.|\n)*hint: rows=elements has such columns"),
        ({"rows": "attributes", "variables": "x"}, "PBIO_BAD_OPTION.*'variables' does not apply to rows=attributes"),
        ({"where": "{ }"}, "PBIO_BAD_PROGRAM.*the where is empty, which keeps nothing"),
        ({"where": "@file"}, "PBIO_BAD_PROGRAM(.|\n)*hint: @FILE is for command lines"),
        ({"fromStep": "2", "toStep": "1"}, "PBIO_BAD_OPTION"),
        ({"stepColumn": "x"}, "PBIO_NAME_COLLISION"),
        ({"variable": "x"}, "PBIO_UNKNOWN_OPTION.*\n.*did you mean 'variables'"),
    ],
)
def test_requests_that_make_no_sense_are_errors(run: Path, options: dict[str, str], code: str) -> None:
    with pytest.raises(PbioError, match=code):
        read(run, **options)


@pytest.mark.parametrize("rows", ["steps", "elements"])
def test_a_range_of_steps_without_the_variable_has_its_column_all_the_same(tmp_path: Path, rows: str) -> None:
    run = make(tmp_path / "run.bp", [{"k": np.ones((2, 2)), "t": 1}, {"t": 2}, {"t": 3}])
    whole, none = (read(run, rows=rows, variables="K", fromStep=begin) for begin in (0, 1))
    assert none.schema == whole.schema
    assert none.num_rows == (2 if rows == "steps" else 0)
    assert read(run, rows=rows, variables="K", fromStep=9).schema == whole.schema
    assert read(run, schema=whole.schema, rows=rows, variables="k", toStep=0).num_rows == 0


@pytest.mark.parametrize("most", ["16", "64", "16m"])
def test_a_block_beside_two_smaller_ones_does_not_hide_the_second(tmp_path: Path, most: str) -> None:
    """What an operator made comes in whole blocks: those of one part of an array reach into the next."""
    whole = np.arange(40.0).reshape(10, 4)
    blocks = [((0, 0), whole[:, :2]), ((0, 2), whole[:5, 2:]), ((5, 2), whole[5:, 2:])]
    run = make(tmp_path / "run.bp", [{"x": ((10, 4), blocks)}], operator="null")
    assert read(run, rows="elements", variables="x", maxBatchBytes=most)["x"].to_pylist() == whole.reshape(-1).tolist()
