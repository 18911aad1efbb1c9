"""Folders of big-endian and 32-bit machines: the conformance set, as programs there would have written it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbio_spark.bp5.data import flat
from tests.bp5.test_golden import GOLDEN
from tests.bp5.values import read
from tests.golden.bp5_bytes import on_another_machine

SETS = (
    *("scalars", "arrays", "blocks", "absent", "many", "local"),
    *("attributes", "flushed", "appended", "flattened", "names", "column_major"),
)
ELEMENTS = {"arrays": "cube", "blocks": "x", "column_major": "x", "attributes": "x"}


@pytest.mark.parametrize("machine", ["be64", "be32", "le32"])
@pytest.mark.parametrize("name", SETS)
def test_values_are_the_same_from_every_machine(
    name: str, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, theirs = GOLDEN / f"{name}.bp", tmp_path / "run.bp"
    on_another_machine(own, theirs, machine)
    assert repr(read(theirs).to_pylist()) == repr(read(own).to_pylist())
    assert read(theirs).schema.equals(read(own).schema, check_metadata=True)
    for rows in ("blocks", "attributes"):
        found, expected = (read(path, rows=rows).to_pylist() for path in (theirs, own))
        assert [repr({**row, "dataset": ""}) for row in found] == [repr({**row, "dataset": ""}) for row in expected]
    if name in ELEMENTS:
        monkeypatch.setattr(flat, "LEAST", 1)
        options = {"rows": "elements", "variables": ELEMENTS[name], "maxBatchBytes": "32"}
        assert repr(read(theirs, **options).to_pylist()) == repr(read(own, **options).to_pylist())
