"""What machine code may call beyond the C library: the compiler's own runtime functions."""

from __future__ import annotations

import contextlib
from functools import cache


@cache
def add_runtime() -> None:
    """Lets LLVM find the functions that it calls for operations that the processor lacks.

    It counts some loops in 128 bits, and divides by calling `__udivti3`; a symbol that is missing when machine code is
    loaded would end the process.
    """
    import llvmlite.binding as llvm

    for library in ("libgcc_s.so.1", "libm.so.6"):
        # Where these do not exist (macOS) the functions are part of the system's own library.
        with contextlib.suppress(RuntimeError):
            llvm.load_library_permanently(library)
