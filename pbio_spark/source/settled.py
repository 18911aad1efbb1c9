"""Keeps Spark's Python processes as fast with this package as without it."""

from __future__ import annotations

import gc
import os
import sys

_modules = 0


def in_worker() -> bool:
    """Whether this is a Python process of Spark, which ends after an error."""
    return os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER"


def settle() -> None:
    """In a process of Spark, exempt everything imported so far from garbage collection.

    Spark collects garbage after every call into such a process, six times per micro-batch. With all that these packages
    import, that takes four times as long as without, and longer than the rest of a small task.
    """
    global _modules
    if in_worker() and len(sys.modules) > _modules:
        gc.freeze()
        _modules = len(sys.modules)
