"""The page about gateways: its examples and commands run, in their order, and its table is complete."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from pbio_spark.gateways.config import Tls
from pbio_spark.gateways.evpath import Stone, ThinSettings
from pbio_spark.gateways.grid import GridSettings
from pbio_spark.gateways.limits import GatewayLimits
from tests.cli.conftest import Ran
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "events" / "gateways.md").read_text(encoding="utf-8")


def test_every_example_and_every_command_of_the_page_runs(
    pbio: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert {language for language, _ in blocks} <= {"python", "bash", "xml"}
    names: dict[str, object] = {}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, "docs/events/gateways.md", "exec"), names)
        elif language == "bash":
            for command in block.splitlines():
                assert pbio(*shlex.split(command)[1:]).code == 0, command


def rows_of(section: str) -> dict[str, str]:
    """Of the table's part about a section: what each key is without it."""
    part = PAGE.partition(f"| **`[{section}]`**")[2].partition("\n| **")[0]
    rows = re.findall(r"^\| (`[^|]*) \|([^|]*)\|", part, re.MULTILINE)
    found = {}
    for keys, values in rows:
        names, defaults = keys.split(", "), values.strip().split(", ")
        for name, default in zip(
            names, defaults if len(defaults) == len(names) else defaults * len(names), strict=True
        ):
            found[name.strip("`")] = default
    return found


@pytest.mark.parametrize(
    ("section", "cls"), [("limits", GatewayLimits), ("tls", Tls), ("evpath", ThinSettings), ("grid", GridSettings)]
)
def test_the_table_of_the_configuration_has_every_key_and_its_default(section: str, cls: type) -> None:
    rows = rows_of(section)
    own = [field for field in fields(cls) if field.name not in ("stones", "names")]
    assert set(rows) == {field.name for field in own}
    for field in own:
        default = "" if field.default in (MISSING, "") else str(field.default).lower()
        assert rows[field.name] == default, field.name


def test_the_table_has_what_a_stone_may_say() -> None:
    assert set(rows_of("evpath.stones")) == {field.name for field in fields(Stone)}
