"""`pbio bp5`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pbio_spark.cli.bp5 import app
from tests.bp5.made import make


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make(tmp_path / "run.bp", [{"t": step, "x": np.arange(3.0) + step} for step in range(2)])


def test_ls_schema_cat_and_verify(run: Path) -> None:
    def said(*words: str) -> list[str]:
        ran = CliRunner().invoke(app, [*words, str(run)])
        assert ran.exit_code == 0, ran.output
        return ran.stdout.splitlines()

    assert [line.split()[1:3] for line in said("ls")[1:]] == [["t", "int64"], ["x", "double"]]
    assert said("schema") == ["step BIGINT, t BIGINT, x ARRAY<DOUBLE>"]
    assert [json.loads(line) for line in said("cat", "-n", "1")] == [{"step": 0, "t": 0, "x": [0.0, 1.0, 2.0]}]
    assert len(said("cat", "--rows", "elements", "-v", "x")) == 6
    assert said("verify") == [f"{run}: sound (steps: 2)"]


def test_verify_tells_what_is_wrong(run: Path) -> None:
    (run / "data.0").unlink()
    ran = CliRunner().invoke(app, ["verify", str(run)])
    assert ran.exit_code == 1
    assert ran.output.count("data.0 is missing") == 2


def test_verify_does_not_advise_to_verify(run: Path) -> None:
    (run / "md.0").unlink()
    ran = CliRunner().invoke(app, ["verify", str(run)])
    assert ran.exit_code == 1
    assert "PBIO_BAD_BP5" in ran.output
    assert "hint" not in ran.output
