"""The page about channels: its examples and commands run, in their order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import Ran
from tests.conftest import ROOT


@pytest.mark.spark
def test_every_example_and_every_command_of_the_page_runs(
    pbio: Callable[..., Ran], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "events" / "channels.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert {language for language, _ in blocks} == {"python", "bash"}
    names: dict[str, object] = {"spark": spark}
    for language, block in blocks:
        if language == "python":
            # Spark's processes work in another folder.
            exec(
                compile(block.replace("build/space", f"{tmp_path}/build/space"), "docs/events/channels.md", "exec"),
                names,
            )
            continue
        for command in block.splitlines():
            assert pbio(*shlex.split(command)[1:]).code == 0, command
