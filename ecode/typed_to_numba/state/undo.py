"""Whether an event can fail after it wrote to memory that outlives it, so that this memory must be saved first."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ecode.typed_to_numba.emitter import DROPPED, PASSED


def fails_after_writing(body: str, block: str) -> bool:
    """Whether control can return a status other than dropped or passed after a line that writes to a block of memory.

    Args:
        body: the lines of an event function.
        block: the name of the block. Any use of it other than a load counts as writing.

    >>> check, write = "    if load_int8(m) > x: return 2", "    store_int8(m, x)"
    >>> fails_after_writing(f"{check}\\n{write}\\n    return 1", "m")
    False
    >>> fails_after_writing(f"{write}\\n{check}\\n    return 1", "m")
    True
    """
    if block not in body:
        return False
    try:
        (function,) = ast.parse(f"def event():\n{body}").body
    except (SyntaxError, RecursionError, MemoryError):
        return True  # it is too large to be compiled
    assert isinstance(function, ast.FunctionDef)
    scan = _Scan(block)
    scan.statements(function.body, is_written=False)
    return scan.fails


class _Scan:
    def __init__(self, block: str) -> None:
        self.block, self.fails = block, False

    def statements(self, statements: Sequence[ast.stmt], *, is_written: bool) -> bool | None:
        """Whether the block may be written after the statements, given whether it was before; None if control does not
        get there."""
        for one in statements:
            match one:
                case ast.Return(value=value):
                    self.fails |= is_written and _is_failure(value)
                    return None
                case ast.If():
                    is_written |= self._writes(one.test)
                    ways = [self.statements(part, is_written=is_written) for part in (one.body, one.orelse)]
                    if ways == [None, None]:
                        return None
                    is_written = any(ways)
                case ast.While() | ast.For():
                    head = one.test if isinstance(one, ast.While) else one.iter
                    is_written |= self._writes(head) or any(map(self._writes, one.body))
                    self.statements(one.body, is_written=is_written)
                case _:
                    is_written |= self._writes(one)
        return is_written

    def _writes(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("load_"):
            return False
        if isinstance(node, ast.Name) and node.id == self.block:
            return True
        return any(map(self._writes, ast.iter_child_nodes(node)))


def _is_failure(value: ast.expr | None) -> bool:
    return not isinstance(value, ast.IfExp) and not (
        isinstance(value, ast.Constant) and value.value in (DROPPED, PASSED)
    )
