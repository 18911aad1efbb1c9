"""`python -m benchmarks [NAME...]`: run benchmarks and print their tables, in Markdown, each line as it is measured.

A name is that of a module, whichever room it lies in: `decode`, `spark_write`. `--help` lists them all.
"""

from __future__ import annotations

import os
import pkgutil
import platform
import sys
from multiprocessing import get_context
from pathlib import Path

import benchmarks
from benchmarks.table import run, source_of, title
from ecode.suggest import did_you_mean


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    known = homes()
    if {"-h", "--help"} & set(sys.argv):
        print(f"usage: python -m benchmarks [NAME...]\n\n{listing(known)}")
        return
    for name in sys.argv[1:]:
        if name not in known:
            sys.exit(f"there is no benchmark '{name}'; {did_you_mean(name, known) or f'known are {sorted(known)}'}")
    print(machine(), flush=True)
    failed = []
    for name in sys.argv[1:] or sorted(known):
        # Each has a process, and so a JVM, of its own: Spark's jars and its memory are not those of the one before.
        process = get_context("spawn").Process(target=run, args=(name, known[name]))
        process.start()
        process.join()
        if process.exitcode:
            failed.append(name)
    if failed:
        sys.exit(f"these failed: {', '.join(failed)}")


def listing(known: dict[str, str]) -> str:
    """The names of all benchmarks, and their titles."""
    return "\n".join(f"{name:14} {title(known[name])}" for name in sorted(known))


def homes() -> dict[str, str]:
    """The benchmarks of all rooms, by their names in their rooms: the modules that make rows of a table."""
    found = [each.name for each in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.") if not each.ispkg]
    rooms = (name for name in found if name.count(".") == 2)
    return {name.rpartition(".")[2]: name for name in rooms if "\ndef rows()" in source_of(name)}


def machine() -> str:
    """What this run's seconds depend on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


if __name__ == "__main__":
    main()
