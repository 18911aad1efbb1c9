"""What machine code may call beyond the C library: the compiler's own runtime functions."""

from __future__ import annotations

import contextlib
from functools import cache


@cache
def add_runtime() -> None:
    """Registers with LLVM the functions that it calls for operations that the processor lacks.

    LLVM counts some loops in 128 bits, and divides by calling `__udivti3`. If a symbol is missing when machine code is
    loaded, the process ends.
    """
    import llvmlite.binding as llvm

    for library in ("libgcc_s.so.1", "libm.so.6"):
        # Where this library is missing (macOS), the system's own library has the functions.
        with contextlib.suppress(RuntimeError):
            llvm.load_library_permanently(library)
