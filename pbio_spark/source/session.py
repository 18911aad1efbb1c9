"""A Spark session whose processes run this Python, whether or not its environment is active."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pbio_spark.errors import PbioError

VARIABLE = "PYSPARK_PYTHON"

LIMIT, NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
"""Unless this is set, Spark recomputes the size of its batch for every row: up to half the time of a write."""


def spark_session(builder: SparkSession.Builder | None = None) -> SparkSession:
    """The session of `builder`, by default of `SparkSession.builder`, with Python processes that find this package.

    Spark starts its Python processes with `$PYSPARK_PYTHON`, else the first `python3` on the PATH, which has the
    package only while its environment is active. This sets the variable to the running Python, unless it is set.

    Unless the session has `spark.sql.execution.arrow.maxBytesPerBatch`, it is set to its greatest value, which makes
    writes 1.3 to 2.5 times as fast (docs/spark/performance.md).

    Raises PBIO_BAD_OPTION if given anything but a builder; PBIO_OTHER_PYTHON if Spark's JVM is already running and
    starts another Python.
    """
    if builder is not None and not hasattr(builder, "getOrCreate"):
        reason = f"expected a builder of sessions, not {type(builder).__name__}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="spark_session(SparkSession.builder.appName('name'))")
    if VARIABLE not in os.environ:
        if SparkContext._gateway is not None:
            _check(shutil.which("python3"))
        os.environ[VARIABLE] = sys.executable
    session = (builder or SparkSession.builder).getOrCreate()
    if LIMIT not in session.conf.getAll:
        session.conf.set(LIMIT, NO_LIMIT)
    return session


def _check(python: str | None) -> None:
    """The JVM keeps the environment that it was started in."""
    if python is None or Path(python).parent != Path(sys.executable).parent:
        raise PbioError(
            "PBIO_OTHER_PYTHON",
            f"Spark is already running and starts its Python processes as {python or 'python3'}, not {sys.executable}",
            hint=f"call spark_session() before anything else starts Spark, or set {VARIABLE} before the program starts",
        )
