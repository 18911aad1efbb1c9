"""The `ecode` command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ecode.cli import app
from ecode.errors import CompileError

PARAMS = {
    "params": [
        {
            "name": "input",
            "kind": "in",
            "fields": [{"name": "n", "type": "int32"}, {"name": "v", "type": "float64", "dims": ["n"]}],
        },
        {"name": "output", "kind": "out", "fields": [{"name": "t", "type": "string"}]},
    ]
}
PROGRAM = """{
  int i, k; double sum = 0;
  for (i = 0; i < input.n; i++) sum += input.v[i];
  output.t = "yes";
  return sum > 3 + k / input.n;
}"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "p.ec").write_text(PROGRAM)
    (tmp_path / "p.json").write_text(json.dumps(PARAMS))
    calls = [{"input": {"n": 2, "v": [1.5, 2]}}, {"input": {"n": 0}}]
    (tmp_path / "v.json").write_text(json.dumps(calls))
    return [str(tmp_path / "p.ec"), "--params", str(tmp_path / "p.json")]


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_check(files: list[str]) -> None:
    assert output("check", *files).splitlines() == [
        "5:20: warning: 'k' may be read before it is written; it is 0 then",
        "no mistakes",
    ]
    with pytest.raises(CompileError, match="unknown name 'input'"):
        output("check", files[0])


@pytest.mark.parametrize(
    ("stage", "part"),
    [
        ("ast", "Binary op='>'"),
        ("typed", "Compare type=int32 op='>'"),
        ("python", "def kernel(count, table):"),
        ("analysis", "bounded:   yes"),
    ],
)
def test_show(files: list[str], stage: str, part: str) -> None:
    assert part in output("show", *files, "--stage", stage)


def test_run(files: list[str]) -> None:
    lines = output("run", *files, "--input", files[0].replace("p.ec", "v.json")).splitlines()
    assert json.loads(lines[0]) == {"returned": 1, "outputs": {"output": {"t": "yes"}}, "log": []}
    assert json.loads(lines[1])["trap"].startswith("[ECODE_DIVISION_BY_ZERO]")


def test_a_reader_that_goes_away_is_told_nothing(files: list[str]) -> None:
    script = f"{sys.executable} -c 'from ecode.cli import main; main()' check {' '.join(files)} | true"
    ran = subprocess.run(["bash", "-c", f"{script}; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("141\n", "")
