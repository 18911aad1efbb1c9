"""The compiler of all kernels: numba with arithmetic that wraps.

numba tells LLVM that signed sums, products and loop counters never overflow (`nsw`). LLVM then drops every check that
only an overflow could fail: for untrusted numbers, that is the lower half of a bounds check. This module removes these
flags before LLVM sees them, so `a + b` is the sum modulo 2^64, and LLVM keeps every comparison after it unless it can
prove that no overflow happens.

numba compiles its own functions, and those of other users of numba in this process, as before: kernels have a target
with its own context, code generator and libraries, and link nothing from elsewhere (`internals`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from ecode.native.internals import kernel_dispatcher, object_file, symbol

OPTIONS = {
    "nopython": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "nogil": True,
    "_nrt": False,
}


# Names are quoted, so no name is mistaken for a word of an instruction.
_INSTRUCTION = re.compile(r"(?<![\w.%@\"])(add|sub|mul|shl|getelementptr)(?: (?:nsw|nuw|inbounds)\b)+")
_PROMISE = re.compile(r"(?<![\w.%@\"])(?:nsw|nuw|nusw|inbounds|exact|disjoint|nneg|samesign)(?![\w.\"])|llvm\.assume")


def wraps(function: Any, **options: Any) -> Any:
    """A function for kernels: like `numba.njit`, with wrapping arithmetic; compiled with its first caller."""
    return _dispatcher()(function, targetoptions=OPTIONS | options)


def compiled(function: Any, returns: Any, *parameters: Any) -> tuple[str, bytes]:
    """Compile the entry of a kernel.

    Returns:
        Its symbol, and the object file that holds it.
    """
    dispatcher = wraps(function)
    dispatcher.compile(returns(*parameters))
    (result,) = dispatcher.overloads.values()
    return symbol(result), object_file(result)


def without_promises(text: str) -> str:
    """The text of an LLVM module whose instructions wrap.

    >>> without_promises('%".3" = add nsw i64 %".1", %"nsw"')
    '%".3" = add i64 %".1", %"nsw"'

    Raises:
        AssertionError: numba makes the promise in an unknown way, which no supported version does.
    """
    text = _INSTRUCTION.sub(r"\1", text)
    left = _PROMISE.search(text)
    if left is not None:
        raise AssertionError(f"numba promises {left[0]!r} to LLVM in a way that this version does not know")
    return text


@cache
def _dispatcher() -> Callable[..., Any]:
    return kernel_dispatcher(lambda text: without_promises(text))
