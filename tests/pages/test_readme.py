"""Every command and every example of the README runs, in a folder that looks like a fresh clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import ROOT

BLOCKS = re.findall(
    r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the repository has, and room of its own for what the commands make."""
    folder = tmp_path_factory.mktemp("clone")
    for path in ROOT.iterdir():
        if path.name not in ("build", ".git", ".venv"):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def run(command: list[str], clone: Path) -> None:
    python = Path(sys.executable)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(python.parent), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": str(python),
        "SPARK_CONF_DIR": str(ROOT / "conf"),
        "MAKEFLAGS": f"READY= READY_FOR_DEMO= BIN={python.parent}",  # the environment that runs the tests is ready
    }
    ran = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


@pytest.mark.spark
def test_commands_and_then_examples_run(clone: Path) -> None:
    commands = "".join(text for language, text in BLOCKS if language == "sh")
    assert "make test" in commands
    run(["sh", "-ec", commands.replace("make test", "make help | grep 'make test'")], clone)  # this is `make test`
    run([sys.executable, "-c", "".join(text for language, text in BLOCKS if language == "python")], clone)


def test_every_block_is_run_or_is_a_picture() -> None:
    assert {language for language, _ in BLOCKS} <= {"sh", "python", "text"}
