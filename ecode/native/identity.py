"""Which machine code may run on this machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

_COMPILER = ("memory.py", "arithmetic.py", "compile.py", "wrapping.py", "internals.py")
"""The modules of this package that shape machine code."""


@cache
def identity() -> str:
    """A short text that is equal on two machines exactly when they may share machine code.

    It names the processor and its features as LLVM sees them, the versions of Python, numba and llvmlite, and the
    version of this package's part in it. Does not import numba.
    """
    import llvmlite.binding as llvm

    features = os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()
    processor = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    own = b"".join((Path(__file__).parent / name).read_bytes() for name in _COMPILER)
    return " ".join(
        (
            llvm.get_process_triple(),
            processor,
            hashlib.sha256(features.encode()).hexdigest()[:16],
            f"{platform.python_implementation()}-{sys.version_info.major}.{sys.version_info.minor}",
            f"numba-{version('numba')}",
            f"llvmlite-{version('llvmlite')}",
            f"native-{hashlib.sha256(own).hexdigest()[:16]}",
        )
    )
