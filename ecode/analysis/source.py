"""Cost limits at the source of events: lower than for a user's own programs, since every publisher pays."""

from __future__ import annotations

from collections.abc import Mapping

from ecode.errors import CostError
from ecode.limits import SOURCE_WORK
from ecode.program import Program


def check_source(programs: Mapping[str, Program], most: int = SOURCE_WORK, *, raise_by: str = "") -> None:
    """Checks that programs stay within a limit of work per event.

    Work that the program text bounds counts by that bound. Work that depends on the event (loops over its arrays,
    `while`) may run under a budget: compile the programs with `Limits(budget=most)`, and they trap when they exceed it.

    Args:
        programs: by the name that the error gives each.
        most: units of work that all of them together may take.
        raise_by: how to raise the limit, for the hint.

    Raises:
        CostError: the event would cost more.
    """
    costs = {name: program.analysis.fixed_cost for name, program in programs.items()}
    if sum(costs.values()) > most:
        figures = " and ".join(f"the {name} takes up to {work:,}" for name, work in costs.items() if work)
        hint = f"do less for each event{f', or raise the limit with {raise_by}' if raise_by else ''}"
        raise CostError(f"{figures} units of work for each event, and {most:,} are allowed", hint)
