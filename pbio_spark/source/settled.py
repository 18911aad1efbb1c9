"""Spark's Python processes with this package in them, no slower than without it."""

from __future__ import annotations

import gc
import os
import sys

_modules = 0


def in_worker() -> bool:
    """Whether this is a Python process of Spark, which an error ends."""
    return os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER"


def settle() -> None:
    """In a process of Spark, exempt from garbage collection what has been imported so far.

    Spark collects garbage after everything that such a process does for it, of which a micro-batch has six: with all
    that these packages import that takes four times as long as without, and more than the rest of a small task.
    """
    global _modules
    if in_worker() and len(sys.modules) > _modules:
        gc.freeze()
        _modules = len(sys.modules)
