"""The wheel, installed into an environment without the rest of this project, as by a user's `pip install`."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import pathlib, sys
import ecode, morph, pbio_spark as pbio
for module in (ecode, morph, pbio):
    assert pathlib.Path(module.__file__).is_relative_to(sys.prefix), module.__file__

with pbio.open_writer("loads.ffs", {"Load": {"host": "string", "load": "float64"}}, machine="sparc") as writer:
    writer.write([{"host": "ada", "load": 0.5}, {"host": "bob", "load": 2.0}])
spark = pbio.spark_session()
busy = spark.read.format("pbio").option("filter", "{ return input.load > 1; }").load("loads.ffs")
assert [tuple(row) for row in busy.collect()] == [("bob", 2.0)]
spark.stop()
"""


@pytest.mark.spark
def test_the_wheel_and_spark_are_enough(tmp_path: Path) -> None:
    def run(*command: str, **env: str) -> str:
        there = tmp_path / "empty"
        there.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "PYTHONPATH")}
        done = subprocess.run(command, cwd=there, env={**kept, **env}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "clean"))
    python = str(tmp_path / "clean/bin/python")
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", str(wheel))
    # Its dependencies, and Spark, are those of this environment, whose own link to the sources does not count there.
    run(python, "-c", PROGRAM, PYTHONPATH=sysconfig.get_paths()["purelib"])
    said = run(str(tmp_path / "clean/bin/pbio"), "count", "loads.ffs", PYTHONPATH=sysconfig.get_paths()["purelib"])
    assert said.split()[0] == "2"
