"""The one compiler of all kernels: numba, except that its arithmetic wraps.

numba tells LLVM that signed sums, products and loop counters never overflow (`nsw`), and LLVM then drops every check
that only an overflow could fail: with numbers from outside that is the lower half of a bounds check. Here, no
instruction promises anything: what numba emits loses these flags before LLVM sees it, so `a + b` is the sum modulo 2^64
and a comparison after it is made. LLVM may still prove that something cannot overflow.

numba's own functions, and those of whoever uses numba in this process, are compiled as ever: kernels have a target of
their own, with a context, a code generator and libraries of their own, and link nothing that is not from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

OPTIONS = {
    "nopython": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "nogil": True,
    "_nrt": False,
}

# Names stand in quotes, and so are no words of an instruction.
_INSTRUCTION = re.compile(r"(?<![\w.%@\"])(add|sub|mul|shl|getelementptr)(?: (?:nsw|nuw|inbounds)\b)+")
_PROMISE = re.compile(r"(?<![\w.%@\"])(?:nsw|nuw|nusw|inbounds|exact|disjoint|nneg|samesign)(?![\w.\"])|llvm\.assume")


def wraps(function: Any) -> Any:
    """A function for kernels, compiled when its first caller is: as `numba.njit` makes it, with wrapping arithmetic."""
    return _dispatcher()(function, targetoptions=OPTIONS)


def compiled(function: Any, returns: Any, *parameters: Any) -> tuple[str, bytes]:
    """Compile the entry of a kernel.

    Returns:
        Its symbol, and the object file that holds it.
    """
    dispatcher = wraps(function)
    dispatcher.compile(returns(*parameters))
    (result,) = dispatcher.overloads.values()
    return result.fndesc.llvm_func_name, result.library._get_compiled_object()


def without_promises(text: str) -> str:
    """The text of an LLVM module whose instructions wrap.

    >>> without_promises('%".3" = add nsw i64 %".1", %"nsw"')
    '%".3" = add i64 %".1", %"nsw"'

    Raises:
        AssertionError: it promises something in another way, which no version of numba did when this was written.
    """
    text = _INSTRUCTION.sub(r"\1", text)
    left = _PROMISE.search(text)
    if left is not None:
        raise AssertionError(f"numba promises {left[0]!r} to LLVM in a way that is not known here")
    return text


@cache
def _dispatcher() -> Callable[..., Any]:
    """numba's dispatcher for a target of ours. All names of numba that are not public are in this function."""
    import llvmlite.binding as llvm
    from numba.core import cgutils
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.cpu import CPUContext
    from numba.core.dispatcher import Dispatcher
    from numba.core.registry import CPUTarget, cpu_target
    from numba.core.runtime import rtsys

    class Library(JITCodeLibrary):  # type: ignore[misc]
        def add_ir_module(self, ir_module: Any) -> None:
            """As numba's own does it; every text that LLVM gets for a kernel passes here, and is checked here."""
            self._raise_if_finalized()
            module = llvm.parse_assembly(without_promises(cgutils.normalize_ir_text(str(ir_module))))
            module.name = ir_module.name
            module.verify()
            self.add_llvm_module(module)

        def add_linking_library(self, library: Any) -> None:
            assert isinstance(library, Library), f"{library.name} is not compiled with wrapping arithmetic"
            super().add_linking_library(library)

    class Codegen(JITCPUCodegen):  # type: ignore[misc]
        _library_class = Library

    class Context(CPUContext):  # type: ignore[misc]
        def init(self) -> None:
            super().init()
            self._internal_codegen = Codegen("ecode.native")

        def post_lowering(self, mod: Any, library: Any) -> None:
            """Nothing: kernels allocate nothing, so numba's runtime stays out of them."""

    class Target(CPUTarget):  # type: ignore[misc]
        @cached_property
        def target_context(self) -> Any:
            return Context(self.typing_context, self._target_name)

    class Kernels(Dispatcher):
        targetdescr = Target("cpu")

    # numba's runtime is compiled with the first context that is refreshed: that must not be the one of kernels.
    rtsys.initialize(cpu_target.target_context)
    return Kernels
