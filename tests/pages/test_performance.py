"""The settings in docs/spark/performance.md exist, and the session of the tests has them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from benchmarks.__main__ import homes
from tests.test_layers import ROOT

PAGE = (ROOT / "docs" / "spark" / "performance.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"

pytestmark = pytest.mark.spark


@pytest.fixture
def other_limit(spark: SparkSession) -> Iterator[str | None]:
    before = spark.conf.get(LIMIT)
    spark.conf.set(LIMIT, 1 << 20)
    yield before
    spark.conf.set(LIMIT, str(before))


def test_the_examples_run_and_are_what_conf_says(spark: SparkSession, other_limit: str | None) -> None:
    exec("".join(BLOCKS), {"spark": spark})
    assert spark.conf.get(LIMIT) == str(2**31 - 1) == other_limit
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "10000"


def test_commands_name_what_is_there() -> None:
    assert set(re.findall(r"ONLY=(\w+)", PAGE)) <= set(homes())
    stages = (ROOT / "benchmarks" / "spark" / "stages.py").read_text(encoding="utf-8")
    for what in ("write", "read", "write-channel", "stream-in", "stream-out"):
        assert f'if what == "{what}"' in stages
        assert what in PAGE
