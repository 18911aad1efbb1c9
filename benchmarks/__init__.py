"""Benchmarks: always two things side by side in one run, reported as a ratio. `make bench` runs all modules of the
rooms here that define `rows()`; the first line of a module's docstring is the title of its table.

A ratio taken in one run survives another machine and a noisy neighbour; seconds do not. Nothing here is a test.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS[os.environ.get("BENCH_CLOCK", "wall")]
"""What is measured. On a busy machine the processor time of this process is steadier; what other processes
take, Spark's for one, is not in it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: the same work done by us and by another.

    Attributes:
        what: the work, e.g. `100 B, swapped`.
        against: who else does it, e.g. `C FFS`.
        ours, theirs: seconds for the whole work, or bytes where the unit is `memory` or `bytes`; `theirs` is None where
            there is nothing to compare with.
        amount, unit: how much work it is, e.g. 100_000 `records`; the table shows rates where there is an amount.
        goal: how many times as fast as the other we want to be.
    """

    what: str
    against: str
    ours: float
    theirs: float | None
    amount: float | None = None
    unit: str = "records"
    goal: float | None = None


def side_by_side(ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 5) -> tuple[float, float]:
    """The best time in seconds of each of two things, run in turns so that both meet the same disturbances. Each comes
    first in every other turn: the second may find in the processor's cache what the first has read."""
    best = [float("inf"), float("inf")]
    for repeat in range(repeats):
        turn = ((0, ours), (1, theirs))
        for number, run in turn if repeat % 2 == 0 else turn[::-1]:
            gc.collect()
            start = clock()
            run()
            best[number] = min(best[number], clock() - start)
    return best[0], best[1]


def in_turns(runs: dict[str, Callable[[], object]], repeats: int, *, is_written: bool = False) -> dict[str, float]:
    """The best time in seconds of each of some slow things, run in turns; the first turn warms up. Says on standard
    error what has been run.

    Args:
        is_written: they write files. One that syncs its own would else wait for those of the one before.
    """
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(repeats + 1):
        for name, run in list(runs.items())[:: 1 if turn % 2 else -1]:
            if is_written:
                os.sync()
            start = clock()
            run()
            taken = clock() - start
            print(f"  turn {turn} of {repeats}, {name}: {taken:.2f} s", file=sys.stderr, flush=True)
            if turn:
                best[name] = min(best[name], taken)
    return best
