"""Sessions of programs whose environment is not active, and of programs that talk to a Spark Connect server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from pbio_spark import spark_session
from pbio_spark.errors import PbioError
from tests.test_layers import ROOT

NOT_ACTIVE = """
import sys
from pbio_spark import spark_session
spark = spark_session()
limit = "spark.sql.execution.arrow.maxBytesPerBatch"
assert spark.conf.get(limit) == str(2**31 - 1)
spark.conf.set(limit, "1048576")
assert spark_session().conf.get(limit) == "1048576"  # what was said stays
spark.range(3).write.format("pbio").mode("append").save(sys.argv[1])
assert spark.read.format("pbio").load(sys.argv[1]).count() == 3
"""

CONNECT = """
import os, sys
from pyspark.sql import SparkSession
from ecode.types import INT64, Field, record
from pbio_spark import spark_session
from pbio_spark.channels import ChannelSpace

os.chdir(sys.argv[1])
files, space = sys.argv[1] + "/files", sys.argv[1] + "/space"
limit = "spark.sql.execution.arrow.maxBytesPerBatch"
spark = spark_session(SparkSession.builder.remote("local[1]").config(limit, "1048576"))
assert spark.conf.get(limit) == "1048576"
spark.range(3).write.format("pbio").mode("append").save(files)
rows = spark.read.format("pbio").load(files)
assert sorted(row.id for row in rows.collect()) == [0, 1, 2]

ChannelSpace.create(space).create_channel("numbers", record("number", [Field("id", INT64)]))
stream = spark.readStream.format("pbio").schema("id BIGINT").load(files)
written = stream.writeStream.format("pbio").option("channel", "numbers").option("checkpointLocation", space + "-state")
written.trigger(availableNow=True).start(space).awaitTermination()
assert spark.read.format("pbio").option("channel", "numbers").load(space).count() == 3

# The server runs in this program, so in its folder too: a relative path leads there and not to the session's own files.
spark.range(3).write.format("pbio").mode("append").save("relative/files")
assert os.path.exists("relative/files/_SUCCESS")
assert spark.read.format("pbio").load("relative/files").count() == 3
"""


def run(script: str, folder: Path, **environment: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    command = [sys.executable, "-c", script, str(folder)]
    ran = subprocess.run(
        command, env={**inherited, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.spark
def test_an_environment_need_not_be_active(tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho this is another Python >&2; exit 1\n")
    other.chmod(0o755)
    run(NOT_ACTIVE, tmp_path / "out", PATH=os.pathsep.join((str(other.parent), os.environ["PATH"])))


@pytest.mark.spark
def test_spark_connect(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "spark" / "connect.md").read_text(encoding="utf-8"), re.DOTALL
    )
    run(CONNECT + block.replace("sc://host:15002", "local[1]").replace("/data/", f"{tmp_path}/"), tmp_path)


def test_a_spark_that_runs_another_python_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", object())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PbioError, match=r"PBIO_OTHER_PYTHON.*python3, not "):
        spark_session()
