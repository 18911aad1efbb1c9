"""Text -> `Kernel`, through the cache."""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ecode.native import cache
from ecode.native.identity import identity
from ecode.native.kernel import Kernel
from ecode.native.runtime import add_runtime
from ecode.native.text import show_in_tracebacks

_DEEPEST = 20_000
_compiled: dict[str, Kernel] = {}
_shared: dict[str, Any] = {}
"""Helpers of several kernels, by their names."""


def compile_kernel(source: str, name: str = "kernel") -> Kernel:
    """Compile generated text, or find its kernel in this process or in the cache on disk.

    Args:
        source: a module's text that defines `name(count, table)` and, before it, any helper functions. A helper is
            decorated with `@inline`, or with `@within` if it is called in one place, or with `@early` if it takes only
            int64: these are compiled first, so that they may call each other as deep as a type is nested. One that is
            decorated with `@shared` takes only int64, too, and is compiled once for all kernels: its name must be
            unique to its text. The text may call what `ecode.native.memory` and `arithmetic` export, and nothing else:
            it has no builtins beyond those that numba needs.
        name: the name of the entry.
    """
    key = _key(source, name)
    kernel = _compiled.get(key) or cache.load(key, name, source)
    if kernel is None:
        kernel = _compile(source, name, key)
        cache.save(key, kernel)
    _compiled[key] = kernel
    return kernel


def adopt(kernel: Kernel) -> None:
    """Let `compile_kernel` find a kernel that another process compiled for the same kind of machine."""
    if kernel.identity == identity():
        _compiled.setdefault(_key(kernel.source, kernel.name), kernel)


def is_compiled(source: str, name: str = "kernel") -> bool:
    """Whether `compile_kernel` finds this text without compiling it."""
    key = _key(source, name)
    return key in _compiled or cache.load(key, name, source) is not None


def _key(source: str, name: str) -> str:
    return hashlib.sha256("\0".join((name, identity(), source)).encode()).hexdigest()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Suspends garbage collection, which would find nothing: what compiling makes lives until its end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """numba recurses over a function's blocks, a few frames for each; Python's frames take no C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _compile(source: str, name: str, key: str) -> Kernel:
    from numba import int64

    from ecode.native import arithmetic, memory
    from ecode.native.internals import compiler_warning
    from ecode.native.wrapping import compiled, wraps

    filename = f"<kernel {name} {key[:12]}>"
    show_in_tracebacks(source, filename)
    add_runtime()
    exports = memory.EXPORTS | arithmetic.EXPORTS

    def inline(function: Any) -> Any:
        """A helper. Its symbol derives from its name, so LLVM never confuses it with a helper of another kernel."""
        function.__name__ = function.__qualname__ = f"{function.__name__}_{key[:24]}"
        return wraps(function)

    def within(function: Any) -> Any:
        """A helper that is inlined into its caller, however long it is."""
        function.__name__ = function.__qualname__ = f"{function.__name__}_{key[:24]}"
        return wraps(function, forceinline=True)

    def early(function: Any) -> Any:
        """A helper of int64, compiled before its callers: numba's recursion is limited by Python's stack."""
        count = function.__code__.co_argcount
        helper = inline(function)
        helper.compile((int64,) * count)
        return helper

    def shared(function: Any) -> Any:
        """A helper of int64 that becomes part of its callers, and that all kernels share: its name tells it from any
        other."""
        helper = _shared.get(function.__name__)
        if helper is None:
            helper = wraps(function, forceinline=True)
            helper.compile((int64,) * function.__code__.co_argcount)
            helper.disable_compile()  # else it is compiled for each number that it is given
            _shared[function.__name__] = helper
        return helper

    decorators = {"inline": inline, "early": early, "within": within, "shared": shared}
    namespace = {"__name__": "ecode.native.generated", **decorators, **exports}
    with warnings.catch_warnings(), _deep_recursion(), _uncollected():
        warnings.simplefilter("ignore", compiler_warning())
        exec(compile(_unfolded(source), filename, "exec"), namespace)  # noqa: S102  (text of our own generators, never a user's)
        function = namespace[name]
        # The symbol derives from the name, and two kernels in one process must never share one.
        function.__name__ = function.__qualname__ = f"{name}_{key[:24]}"
        symbol, code = compiled(function, int64, int64, int64)
    return Kernel(name, source, symbol, code, identity())


def _unfolded(source: str) -> ast.Module:
    """The syntax tree of a text without constant folding: Python's integers are unbounded, and numba takes those from
    2^63 on as unsigned and makes floats of them, or refuses them."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and _is_literal(node.left) and _is_literal(node.right):
            call = ast.Call(ast.Name("as_int64", ast.Load()), [node.left], [])
            node.left = ast.fix_missing_locations(ast.copy_location(call, node.left))
        elif isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 1 << 63:
            raise ValueError(f"line {node.lineno}: {node.value} is not an int64")
    return tree


def _is_literal(node: ast.expr) -> bool:
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int
