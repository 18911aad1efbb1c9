"""The table of a benchmark, in Markdown, each line as it is measured."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import Row

PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))

WIDTHS = (56, 20, 20, 32, 7, 4)
"""Of the columns: a line is printed before the next one is known. A longer cell widens its own line only."""


def run(name: str, module: str) -> None:
    """Run a benchmark and print its table."""
    began = time.monotonic()
    print(f"\n### {title(module)}\n")
    print("\n".join(HEAD), flush=True)
    for row in importlib.import_module(module).rows():
        print(to_markdown(row), flush=True)
    print(f"\n{name} took {time.monotonic() - began:.0f} s", flush=True)


def source_of(module: str) -> str:
    """The text of a module, without running it."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def title(module: str) -> str:
    """The first line of a module's docstring, without running the module."""
    text = ast.get_docstring(ast.parse(source_of(module))) or module
    return text.partition("\n")[0]


def to_markdown(row: Row) -> str:
    """One line of a table.

    >>> " ".join(to_markdown(Row("100 B", "C FFS", 0.5, 1.5, 1_000_000, goal=2.0)).split())
    '| 100 B | 2 M records/s | 667 k records/s | C FFS | 3.00x | 2x |'
    """
    ratio = "" if row.theirs is None else f"{row.theirs / row.ours:.2f}x"
    goal = "" if row.goal is None else f"{row.goal:.2g}x"
    theirs = "" if row.theirs is None else measure(row, row.theirs)
    return to_line((row.what, measure(row, row.ours), theirs, row.against, ratio, goal))


def to_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))} |"


HEAD = (to_line(("", "pbio-spark", "other", "", "ratio", "goal")), to_line(["-" * width for width in WIDTHS]))


def measure(row: Row, measured: float) -> str:
    """A rate where the amount of work is known, else the time; or memory."""
    if row.unit == "memory":
        return f"{measured / 1e6:.0f} MB"
    if row.unit == "bytes":
        return f"{measured:.1f} B"
    if row.amount is None:
        return f"{measured:.3g} s" if measured >= 1 else f"{measured * 1e3:.3g} ms"
    rate = row.amount / measured
    factor, prefix = next(((factor, prefix) for factor, prefix in PREFIXES if rate >= factor), (1, ""))
    unit = f"{prefix}{row.unit}" if row.unit == "B" else f"{prefix} {row.unit}".strip()
    return f"{rate / factor:.3g} {unit}/s"
