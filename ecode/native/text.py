"""A small writer of indented program text."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """Lines of a program at growing and shrinking indent.

    >>> lines = Lines()
    >>> with lines.block("for i in range(count):"):
    ...     lines.line("total += i")
    >>> print(lines)
    for i in range(count):
        total += i
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, *lines: str) -> None:
        """Add lines at the current indent."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add `head` and indent what is added inside the `with`."""
        self.line(head)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def __str__(self) -> str:
        return "\n".join(self._lines)


def show_in_tracebacks(source: str, filename: str) -> None:
    """Let tracebacks, debuggers and `inspect` see generated text under `filename`."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
