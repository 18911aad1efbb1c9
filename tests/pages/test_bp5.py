"""The dataset that docs/bp5.md makes, and the statements of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bp5.values import read
from tests.test_layers import ROOT


def test_the_ten_lines_make_the_dataset_that_the_page_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "bp5.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    exec(first, {})
    steps = read("build/run.bp")
    assert steps.schema.field("x").metadata == {b"unitSI": b"0.001", b"units": b'"mm"'}
    assert "{'unitSI': 0.001, 'units': 'mm'}" in others[0]
    assert steps.num_rows == 3
    where = re.search(r'"where", "(.*?)"', others[1])
    assert where is not None
    found = read("build/run.bp", rows="elements", variables="x,id", applyUnitSI="true", where=where[1]).to_pylist()
    assert [(row["step"], row["index"]) for row in found] == [(1, 3), (2, 2), (2, 3)]
    assert read("build/run.bp", rows="blocks", variables="x").num_rows == 3
