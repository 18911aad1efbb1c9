"""What a program may cost, before and while it runs. A host sets its limits; the defaults suit a user's own programs.

A program that runs at the source of events, at the expense of every publisher, gets less: `check_source` compares
`SOURCE_WORK` with what is known about the program before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecode.errors import CostError

if TYPE_CHECKING:
    from ecode.program import Program

SOURCE_WORK = 1_000_000
"""Units of work that programs may take for an event at its source: about a millisecond."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a program and on one call of it.

    Attributes:
        source: characters of program text.
        nesting: levels of statements inside statements, or of operands inside expressions.
        mistakes: diagnostics after which checking stops.
        local_bytes: memory of all local and static variables together, and of one record parameter without its
            dynamic arrays.
        budget: work of one call, in the units of `ecode.analysis.work`: about one operation, or eight bytes copied.
        kernel_lines, kernel_blocks: lines of generated text, and blocks in it (branches, loops, checks), that are
            compiled; the interpreter runs larger programs.
        output_bytes: memory that one call may allocate: dynamic arrays, attribute lists, the log, static strings.
    """

    source: int = 256 * 1024
    nesting: int = 100
    mistakes: int = 20
    local_bytes: int = 1 << 20
    budget: int = 100_000_000
    output_bytes: int = 64 << 20
    kernel_lines: int = 10_000
    kernel_blocks: int = 1_500


def check_source(programs: Mapping[str, Program], most: int = SOURCE_WORK, *, raise_by: str = "") -> None:
    """Checks that programs take at most so much work for an event.

    Work that the program text bounds counts by that bound. Work that the event decides (loops over its arrays, `while`)
    may run under a budget: compile the programs with `Limits(budget=most)`, and they trap when they exceed it.

    Args:
        programs: by what each is called in the error.
        most: units of work of all of them together.
        raise_by: how to raise the limit, for the hint.

    Raises:
        CostError: the event would cost more.
    """
    costs = {name: program.analysis.fixed_cost for name, program in programs.items()}
    if sum(costs.values()) > most:
        figures = " and ".join(f"the {name} takes up to {work:,}" for name, work in costs.items() if work)
        hint = f"do less for each event{f', or raise the limit with {raise_by}' if raise_by else ''}"
        raise CostError(f"{figures} units of work for each event, and {most:,} are allowed", hint)
