"""The BP5 folders of the conformance set give the written values; damaged ones the sound values, and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.bp5.data import flat
from pbio_spark.bp5.dataset import open_dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.attributes import DatasetAttribute
from pbio_spark.errors import PbioError
from tests.bp5.values import read, spelled

GOLDEN = Path(__file__).parents[1] / "golden" / "bp5"
SETS = [pytest.param(path, id=path.stem) for path in sorted(GOLDEN.glob("*.json"))]
DAMAGED: list[dict[str, Any]] = json.loads((GOLDEN.parent / "bp5_damaged.json").read_text(encoding="utf-8"))
REFUSED = {"refused": "PBIO_UNSUPPORTED_OPERATOR.*step 0, writer 0.*the operator SZ made"}


def expected(values: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(values.read_text(encoding="utf-8"))
    return found


def rows_of(folder: Path, **options: object) -> list[dict[str, Any]]:
    """The rows, without what is null in them."""
    return [
        {name: spelled(value) for name, value in row.items() if value is not None and name != "step"}
        for row in read(folder, **options).to_pylist()
    ]


@pytest.mark.parametrize("values", SETS)
def test_steps_have_exactly_the_values(values: Path) -> None:
    folder = values.with_suffix(".bp")
    options = {}
    if values.stem in REFUSED:
        with pytest.raises(PbioError, match=REFUSED[values.stem]):
            rows_of(folder)
        options["mode"] = "PERMISSIVE"
    rows = rows_of(folder, **options)
    for row in rows:
        assert ("_corrupt_record" in row) is (values.stem in REFUSED)
        row.pop("_corrupt_record", None)
    assert repr(rows) == repr(in_order(expected(values)["rows"], rows))


def in_order(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their values in the order of others, so that what they spell can be compared: 0.0 is not -0.0."""
    assert [row.keys() for row in rows] == [row.keys() for row in like]
    return [{name: row[name] for name in other} for row, other in zip(rows, like, strict=True)]


def test_attributes_are_there_from_the_step_that_sets_them() -> None:
    said = expected(GOLDEN / "attributes.json")["attributes"]
    with DatasetFolder(str(GOLDEN / "attributes.bp")) as folder:
        dataset = open_dataset(folder)
        known: dict[str, DatasetAttribute] = {}
        wanted: dict[str, Any] = {}
        for step in dataset.steps:
            known = dataset.attributes(folder, [step], known)
            wanted |= said.get(str(step.number), {})
            assert {name: (shown(one.value), one.is_array) for name, one in known.items()} == {
                name: (value, name.startswith("list ") or name in ("texts", "single")) for name, value in wanted.items()
            }


def shown(value: Any) -> Any:
    if isinstance(value, list):
        return [shown(one) for one in value]
    return [spelled(value.real), spelled(value.imag)] if isinstance(value, complex) else spelled(value)


@pytest.mark.parametrize("values", [one for one in SETS if one.id not in ("refused", "flattened")])
@pytest.mark.parametrize("most", ["16m", "64"])
def test_elements_are_those_of_the_arrays(values: Path, most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "LEAST", 1)
    folder = values.with_suffix(".bp")
    arrays = {
        row["variable"]
        for row in read(folder, rows="variables").to_pylist()
        if row["kind"] in ("global array", "joined array")
    }
    rows = expected(values)["rows"]
    for name in arrays:
        found: list[list[Any]] = [[] for _ in rows]
        for row in read(folder, rows="elements", variables=name, maxBatchBytes=most).to_pylist():
            found[row["step"]].append(spelled(row[name]))
        assert repr(found) == repr([leaves(row.get(name, []), depth_of(folder, name)) for row in rows])


def depth_of(folder: Path, name: str) -> int:
    (row,) = [row for row in read(folder, rows="variables").to_pylist() if row["variable"] == name]
    return int(row["dimensions"])


def leaves(value: list[Any], depth: int) -> list[Any]:
    return value if depth <= 1 else [leaf for one in value for leaf in leaves(one, depth - 1)]


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case["name"])
def test_damage_is_said_and_what_is_sound_comes(case: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "wrong.bp"
    shutil.copytree(GOLDEN / case["set"], folder)
    file = folder / case["file"]
    data = bytearray(file.read_bytes())
    if "cut" in case:
        data = data[: case["cut"]]
    for at, new in case.get("bytes", {}).items():
        data[int(at) : int(at) + len(new) // 2] = bytes.fromhex(new)
    file.write_bytes(bytes(data))
    if case.get("missing"):
        file.unlink()
    sound = expected((GOLDEN / case["set"]).with_suffix(".json"))["rows"]
    if case["error"] is None:
        assert rows_of(folder) == [sound[step] for step in case["steps"]]
        return
    with pytest.raises(PbioError, match=case["error"]):
        rows_of(folder)
    if case["steps"] is None:
        return
    assert rows_of(folder, mode="DROPMALFORMED") == [sound[step] for step in case["steps"]]
    kept = rows_of(folder, mode="PERMISSIVE")
    for row, whole in zip(kept, sound, strict=False):
        bad = row.pop("_corrupt_record", None)
        assert row == whole or (bad is not None and row.items() <= whole.items())
