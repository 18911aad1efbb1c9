"""`python -m benchmarks [NAME...]`: run benchmarks and print their tables, in Markdown.

A name is that of a module, whichever room it lies in: `decode`, `spark_write`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from pathlib import Path

import benchmarks
from benchmarks import Row
from ecode.suggest import did_you_mean

PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    known = homes()
    for name in sys.argv[1:]:
        if name not in known:
            sys.exit(f"there is no benchmark '{name}'; {did_you_mean(name, known) or f'known are {sorted(known)}'}")
    print(machine())
    for name in sys.argv[1:] or sorted(known):
        module = importlib.import_module(known[name])
        if hasattr(module, "rows"):
            title = (module.__doc__ or name).partition("\n")[0]
            print(f"\n### {title}\n")
            print(to_markdown(list(module.rows())), flush=True)


def homes() -> dict[str, str]:
    """The modules of all rooms, by their names in their rooms."""
    found = pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    return {each.name.rpartition(".")[2]: each.name for each in found if not each.ispkg and each.name.count(".") == 2}


def machine() -> str:
    """What this run's seconds depend on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def to_markdown(rows: list[Row]) -> str:
    """
    >>> print(to_markdown([Row("100 B", "C FFS", 0.5, 1.5, 1_000_000, goal=2.0)]))
    |       | pbio-spark    | other           |       | ratio | goal |
    | ----- | ------------- | --------------- | ----- | ----- | ---- |
    | 100 B | 2 M records/s | 667 k records/s | C FFS | 3.00x | 2x   |
    """
    cells = [("", "pbio-spark", "other", "", "ratio", "goal")]
    for row in rows:
        ratio = "" if row.theirs is None else f"{row.theirs / row.ours:.2f}x"
        goal = "" if row.goal is None else f"{row.goal:.2g}x"
        theirs = "" if row.theirs is None else measure(row, row.theirs)
        cells.append((row.what, measure(row, row.ours), theirs, row.against, ratio, goal))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


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


if __name__ == "__main__":
    main()
