"""The page about eager handlers: its recipes run, each one in a space of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "eager-handlers.md").read_text(encoding="utf-8")
ABOVE, _, BELOW = PAGE.partition("\n## Recipes\n")
RECIPES = dict(re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", BELOW, re.DOTALL | re.MULTILINE))


def examples(text: str) -> str:
    return "".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_of_the_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "assert " in examples(RECIPES[name])
    exec(compile(examples(ABOVE) + examples(RECIPES[name]), "docs/eager-handlers.md", "exec"), {})


def test_the_page_has_all_recipes() -> None:
    assert len(RECIPES) == 9
