"""`pbio bp5`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pbio_spark.cli.bp5 import app
from pbio_spark.errors import PbioError
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


def test_cat_takes_options_of_the_source_and_names_that_differ_in_case_only(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [{"Temp": t, "temp": math.nan, "Step": -math.inf, "a,b": 2} for t in range(3)])

    def said(*words: str) -> list[dict[str, object]]:
        ran = CliRunner().invoke(app, ["cat", *words, str(run)], catch_exceptions=False)
        assert ran.exit_code == 0
        return [json.loads(line, parse_constant=pytest.fail) for line in ran.stdout.splitlines()]

    where = 'where={ return input.Temp > 1 && input["a,b"] == 2; }'
    assert said("-o", where) == [{"step": 2, "Temp": 2, "temp": "NaN", "Step": "-Infinity", "a,b": 2}]
    assert said("-v", '["a,b"]', "-o", "toStep=1", "-o", "stepColumn=n") == [{"n": 0, "a,b": 2}]
    with pytest.raises(PbioError, match="unknown option 'fromstop'"):
        said("-o", "fromstop=1")
    with pytest.raises(PbioError, match="PBIO_NAME_COLLISION"):
        CliRunner().invoke(app, ["schema", str(run)], catch_exceptions=False)
    with pytest.raises(PbioError, match="'Temp' is a global value, which has no blocks"):
        said("--rows", "blocks", "-v", "Temp")
