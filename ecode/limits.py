"""What a program may cost, before and while it runs. A host sets its own; the defaults suit a shared source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a program and on one call of it.

    Attributes:
        source: characters of program text.
        nesting: levels of statements inside statements, or of operands inside expressions.
        mistakes: diagnostics after which checking stops.
        local_bytes: memory of all local and static variables together, and of one record parameter without its
            dynamic arrays.
        budget: backward jumps (loop iterations) of one call.
        output_bytes: dynamic arrays that one call may allocate.
    """

    source: int = 256 * 1024
    nesting: int = 100
    mistakes: int = 20
    local_bytes: int = 1 << 20
    budget: int = 10_000_000
    output_bytes: int = 64 << 20
