"""Every set of the BP5 corpus gives exactly the values in its JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.bp5.dataset import open_dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.attributes import DatasetAttribute
from pbio_spark.errors import PbioError
from tests.bp5.values import read, spelled
from tests.corpus import CORPUS, bp5_folder, bp5_sets

DAMAGED = CORPUS / "bp5" / "damaged"


def expected_rows(said: dict[str, Any]) -> list[dict[str, Any]]:
    if "variables" in said:  # op_zfp.json calls fields what the folder itself calls meshes
        named = {name.lstrip("/").replace("/fields/", "/meshes/"): one for name, one in said["variables"].items()}
        return [{name: one["value"] for name, one in named.items()}]
    return [{name: value_of(one) for name, one in step["vars"].items()} for step in said["steps"]]


def value_of(one: dict[str, Any]) -> Any:
    return one["value"] if "value" in one else [block["value"] for block in one["blocks"]]


def rows_of(folder: Path, **options: object) -> list[dict[str, Any]]:
    """The rows, without what is null in them."""
    return [
        {name.lstrip("/"): spelled(value) for name, value in row.items() if value is not None and name != "step"}
        for row in read(folder, **options).to_pylist()
    ]


@pytest.mark.parametrize("values", bp5_sets())
def test_steps_have_exactly_the_values(values: Path) -> None:
    assert rows_of(bp5_folder(values)) == expected_rows(json.loads(values.read_text()))


@pytest.mark.parametrize("values", bp5_sets())
def test_attributes_at_each_step_have_exactly_the_values(values: Path) -> None:
    said = json.loads(values.read_text())
    with DatasetFolder(str(bp5_folder(values))) as folder:
        dataset = open_dataset(folder)
        known: dict[str, DatasetAttribute] = {}
        if "steps" not in said or dataset.index.header.flatten:
            assert dataset.attributes(folder, dataset.steps) is not None
            return
        for step, expected in zip(dataset.steps, said["steps"], strict=True):
            known = dataset.attributes(folder, [step], known)
            shown = {name: (plain(one.value), not one.is_array) for name, one in known.items()}
            assert shown == {name: (one["value"], one["single"]) for name, one in expected["attributes"].items()}


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(one) for one in value]
    return [spelled(value.real), spelled(value.imag)] if isinstance(value, complex) else spelled(value)


def damaged() -> list[Any]:
    if not DAMAGED.exists():
        return [pytest.param("", {}, marks=pytest.mark.skip("the corpus is not on this machine"))]
    cases = json.loads((DAMAGED / "expected.json").read_text())["cases"]
    return [pytest.param(name, case["wanted"], id=name) for name, case in cases.items()]


SAYS = {
    "idx_length_overflow": "PBIO_BAD_BP5.*impossible length 2147483647, beyond the end of md.idx",
    "md_cut": "PBIO_BAD_BP5.*step 5: the metadata is beyond the end of md.0",
    "mmd_cut": "PBIO_UNKNOWN_FORMAT.*step 5.*a format record is truncated",
    "format_id_damaged": "PBIO_UNKNOWN_FORMAT.*step 0, writer 0: mmd.0 has no format",
    "data_cut": "PBIO_TRUNCATED.*step 5, writer 0: short read in data.0",
    "data_missing": "PBIO_PATH_NOT_FOUND.*step 0, writer 0: data.0 is missing",
    "version_9": "PBIO_NOT_BP5.*unsupported BP version 9",
}


@pytest.mark.parametrize(("name", "wanted"), damaged())
def test_damaged_sets_give_what_is_sound_and_say_what_is_not(name: str, wanted: dict[str, Any]) -> None:
    folder = DAMAGED / f"{name}.bp"
    sound = expected_rows(json.loads((CORPUS / "bp5" / "evolve.json").read_text()))
    if wanted["error"] is None:
        assert rows_of(folder) == sound[: wanted["readable_steps"]]
        return
    with pytest.raises(PbioError, match=SAYS[name]):
        rows_of(folder)
    if name == "version_9":
        return
    dropped = rows_of(folder, mode="DROPMALFORMED")
    if wanted["readable_steps"] is not None:
        assert dropped == sound[: wanted["readable_steps"]]
    else:
        assert all(row in sound for row in dropped)
        assert len(dropped) < len(sound)
    kept = rows_of(folder, mode="PERMISSIVE")
    for row, whole in zip(kept, sound, strict=False):
        bad = row.pop("_corrupt_record", None)
        assert row == whole or (bad is not None and row.items() <= whole.items())
    if name == "data_missing":
        assert [row.get("a") for row in kept] == [row.get("a") for row in sound]
