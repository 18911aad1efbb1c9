"""Checks and rewrites of the typed tree, one pass per file. The checks run in the order of `CHECKS`.

check_returns.py   a program with a value ends in a return
check_jumps.py     labels, and jumps over initial values
check_pointers.py  programs write nothing through a pointer to read-only data
fold_constants.py  operations on constants become their results
lower_nulls.py     nulls become bits of a hidden field
lower_gotos.py     jumps become a state machine
count_loops.py     loops whose number of rounds is known before they begin
fills.py           loops that set every element of an output's array
weigh.py           the cost of loops, backward jumps and the program
"""

from collections.abc import Callable

from ecode.errors import Diagnostic
from ecode.passes.check_jumps import check_jumps
from ecode.passes.check_pointers import check_pointers
from ecode.passes.check_returns import check_returns
from ecode.passes.count_loops import count_loops
from ecode.passes.fold_constants import fold_constants
from ecode.passes.lower_gotos import lower_gotos
from ecode.passes.lower_nulls import lower_nulls
from ecode.passes.weigh import weigh
from ecode.typed import TypedProgram

CHECKS: tuple[Callable[[TypedProgram], list[Diagnostic]], ...] = (check_returns, check_jumps, check_pointers)
REWRITES: tuple[Callable[[TypedProgram], TypedProgram], ...] = (
    lower_nulls,
    fold_constants,
    lower_gotos,
    count_loops,
    weigh,
)

__all__ = [
    "CHECKS",
    "REWRITES",
    "check_jumps",
    "check_pointers",
    "check_returns",
    "count_loops",
    "fold_constants",
    "lower_gotos",
    "lower_nulls",
    "weigh",
]
