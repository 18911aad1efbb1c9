"""The page about eager handlers: its recipes run, each one in a space of its own."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "events" / "eager-handlers.md").read_text(encoding="utf-8")
ABOVE, _, BELOW = PAGE.partition("\n## Recipes\n")
RECIPES = dict(re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", BELOW, re.DOTALL | re.MULTILINE))


def examples(text: str) -> str:
    return "".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


SPARK = "From Spark"


@pytest.mark.parametrize("name", [name for name in RECIPES if name != SPARK])
def test_a_recipe_of_the_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "assert " in examples(RECIPES[name])
    exec(compile(examples(ABOVE) + examples(RECIPES[name]), "docs/events/eager-handlers.md", "exec"), {})


@pytest.mark.spark
def test_the_recipe_for_spark_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Spark's processes work in another folder.
    code = (examples(ABOVE) + examples(RECIPES[SPARK])).replace("build/eager", f"{tmp_path}/build/eager")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(code, "docs/events/eager-handlers.md", "exec"), names)
    while [info.name for info in names["space"].channels()] != ["stocks"]:  # the code goes with the query
        time.sleep(0.05)


def test_the_page_has_all_recipes() -> None:
    assert len(RECIPES) == 10
