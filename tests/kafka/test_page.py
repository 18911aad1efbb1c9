"""The page about Kafka runs, from its first line to its last, against a fresh set of topics."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import ROOT
from tests.kafka.test_store import make

PAGE = (ROOT / "docs" / "events" / "kafka.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.spark


def test_the_page_runs(
    kafka_spark: SparkSession,
    broker: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.replace("localhost:9092", broker)
    made = re.search(r"for topic in (.*?); do", page)
    assert made is not None
    for topic in (*made[1].split(), "high"):
        make(broker, topic)
    code = "".join(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    exec(compile(code, "docs/events/kafka.md", "exec"), {"spark": kafka_spark})
    said = capsys.readouterr().out
    for line in re.findall(r"^print\(.*?  # (.*)$", code, re.MULTILINE):
        assert line in said
    error = " ".join(re.sub(r"^#", "", line).strip() for line in re.findall(r"^#.*$", code, re.MULTILINE))
    assert error in " ".join(said.split())

    verbs = [line for line in page.splitlines() if line.startswith("pbio space ")]
    assert len(verbs) == 2
    for line, out in zip(verbs, ("high: events relayed: 1", "loads: events archived: 4"), strict=True):
        main = [sys.executable, "-c", "from pbio_spark.cli import main; main()", *shlex.split(line)[1:]]
        environment = {"PYTHONPATH": str(ROOT)}
        ran = subprocess.run(main, capture_output=True, text=True, env={**__import__("os").environ, **environment})
        assert ran.stdout.strip() == out, ran.stderr
