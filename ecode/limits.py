"""What a program may cost, before and while it runs; the host sets the limits.

The defaults suit a user's own programs. A program that runs at the source of events, at the expense of every publisher,
gets less: `check_source` in `ecode.analysis.source` compares its known cost with `SOURCE_WORK` before it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE_WORK = 1_000_000
"""Units of work that programs may take for an event at its source: about a millisecond."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on a program and on each call.

    Attributes:
        source: characters of program text.
        nesting: levels of statements inside statements, or of operands inside expressions.
        mistakes: diagnostics after which checking stops.
        local_bytes: memory of all local and static variables together, and of one record parameter without its
            dynamic arrays.
        budget: work of one call, in the units of `ecode.analysis.work`: about one operation, or eight bytes copied.
        kernel_lines, kernel_blocks: lines of generated text, and blocks in it (branches, loops, checks), that are
            compiled; the interpreter runs larger programs.
        output_bytes: memory that one call may allocate for dynamic arrays, attribute lists, the log, static strings.
    """

    source: int = 256 * 1024
    nesting: int = 100
    mistakes: int = 20
    local_bytes: int = 1 << 20
    budget: int = 100_000_000
    output_bytes: int = 64 << 20
    kernel_lines: int = 10_000
    kernel_blocks: int = 1_500
