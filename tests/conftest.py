"""The one Spark session of all tests, and no time limits: the machine may be busy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]

# The short form says the same of the same code, so that what passes here passes everywhere; the long one looks further.
settings.register_profile(
    "unhurried",
    deadline=None,
    derandomize=not os.environ.get("PBIO_LONG"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")

if not os.environ.get("PBIO_LONG"):
    # A killed process loses nothing that the system has taken, and no test cuts the power: the disk's time is saved.
    # That files and folders are synced, in order, is in tests/channels/faults.
    os.fsync = lambda _: None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    # The workers must run this Python and find the packages as they are here, and `pyspark_pbio` by its name.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master("local[2,2]")  # a failed task is tried once more
        .appName("pbio-spark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
