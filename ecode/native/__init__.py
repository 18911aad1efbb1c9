"""Kernels: generated Python text, compiled once to machine code that can be cached, shipped and printed.

A kernel is one function of generated text, `kernel(count, table)`: `table` is the address of an array of int64 that
holds everything else it needs, addresses and parameters alike. It touches memory only through the intrinsics of
`memory`, makes no Python object, allocates nothing, and returns a status. So its machine code refers to nothing but the
C library, and a process that did not compile it loads it in milliseconds without numba.

This package knows nothing about E-code: the decoders, encoders and index walkers of `pbio_spark` are kernels too
(docs/decisions/0013).

    text.py      a small writer of indented text, which tracebacks can show
    memory.py    what a kernel may call: loads, stores, copies and searches on raw addresses (imports numba)
    identity.py  which machine code may run here: processor, Python, numba, llvmlite
    kernel.py    `Kernel`: text and machine code as one value; call it, pickle it, print it
    compile.py   text -> `Kernel`, through the cache
    wrapping.py  numba with arithmetic that wraps, so that no check is dropped: the compiler of all kernels
    internals.py the private names of numba, each in one function
    cache.py     the private folder of kernels compiled earlier
    arithmetic.py  C's division and conversions, and <math.h>
    runtime.py   what machine code calls beyond the C library
    table.py     the table that a kernel is called with
"""

from ecode.native.compile import adopt, compile_kernel
from ecode.native.kernel import Kernel
from ecode.native.table import Table, loads
from ecode.native.text import Lines

__all__ = ["Kernel", "Table", "Lines", "loads", "compile_kernel", "adopt"]
