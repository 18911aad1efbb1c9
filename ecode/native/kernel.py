"""`Kernel`: generated text and its machine code as one value."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from ecode.native.identity import identity
from ecode.native.runtime import add_runtime

if TYPE_CHECKING:
    from llvmlite.binding import ExecutionEngine

    from ecode.native.table import Table

EntryPoint = Callable[[int, int], int]

_addresses: dict[str, int] = {}
"""The addresses of loaded kernels."""

_loaded: dict[str, EntryPoint] = {}
_loading = Lock()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel. Equal text on an equal machine is an equal kernel.

    Attributes:
        name: the function's name in `source`.
        source: the generated Python text.
        symbol: the name of the entry in `code`; unique for text and identity.
        code: an object file (bytes), as LLVM made it.
        identity: the kind of machine that `code` is for.

    A kernel pickles with its machine code. On a machine of another identity it is recompiled from its text.
    """

    name: str
    source: str = field(repr=False)
    symbol: str
    code: bytes = field(repr=False, compare=False)
    identity: str

    def __call__(self, count: int, table: Table) -> int:
        """Run the kernel.

        Args:
            count: the number of elements; the kernel's text defines what an element is.
            table: everything else it needs.

        Returns:
            The kernel's status; 0 is success.
        """
        entry = _loaded.get(self.symbol) or self.load()
        return entry(count, table.address)

    def load(self) -> EntryPoint:
        """The entry as a function of a count and the address of a table; the first call loads the machine code."""
        with _loading:  # LLVM's linker is not thread-safe
            entry = _loaded.get(self.symbol)
            if entry is None:
                _addresses[self.symbol], entry = _entry(self._here())
                _loaded[self.symbol] = entry
        return entry

    @property
    def address(self) -> int:
        """The address of its machine code, for kernels that call others; fixed for the life of the process."""
        self.load()
        return _addresses[self.symbol]

    def _here(self) -> Kernel:
        """This kernel, compiled for this machine."""
        if self.identity == identity():
            return self
        from ecode.native.compile import compile_kernel

        return compile_kernel(self.source, self.name)

    def __str__(self) -> str:
        return self.source


@cache
def _engine() -> ExecutionEngine:
    """LLVM's in-process linker, one per process: its code lives as long as the process."""
    import llvmlite.binding as llvm

    add_runtime()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _entry(kernel: Kernel) -> tuple[int, EntryPoint]:
    import llvmlite.binding as llvm

    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(kernel.code))
    engine.finalize_object()
    # The calling convention of numba's own functions: status f(result*, exception**, arguments...).
    int64 = ctypes.c_int64
    address = engine.get_function_address(kernel.symbol)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(int64), ctypes.POINTER(ctypes.c_void_p), int64, int64)(
        address
    )

    def entry(count: int, table: int) -> int:
        result, exception = int64(), ctypes.c_void_p()
        if function(ctypes.byref(result), ctypes.byref(exception), count, table):
            raise SystemError(f"kernel {kernel.name} raised an exception; kernels must return a status")
        return result.value

    return address, entry
