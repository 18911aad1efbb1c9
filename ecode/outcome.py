"""What a call leaves behind: its result, and the state for the next one."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from ecode.typed import TypedProgram, Variable
from ecode.values import zero

# The values of a program's static variables by name, as plain values. A dict: copy, save and restore it at will.
Statics: TypeAlias = dict[str, Any]


class Keep(StrEnum):
    """Which events of a batch leave a row: those that the program passes, or all that do not trap."""

    PASSED = "passed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call that did not trap.

    Attributes:
        returned: the result; None for a void program.
        outputs: each output parameter's record, complete, as plain values.
        log: what logged functions were called with: (name, arguments), in order.
    """

    returned: Any
    outputs: dict[str, Any]
    log: tuple[tuple[str, tuple[Any, ...]], ...] = ()


def static_names(program: TypedProgram) -> dict[Variable, str]:
    """A name for each static variable: its own, numbered from the second of that name on (`n`, `n#2`)."""
    seen: Counter[str] = Counter()
    names = {}
    for variable in program.statics:
        seen[variable.name] += 1
        count = seen[variable.name]
        names[variable] = variable.name if count == 1 else f"{variable.name}#{count}"
    return names


def initial_statics(program: TypedProgram) -> Statics:
    """The state before the first call."""
    return {
        name: deepcopy(zero(v.type, program.structs) if v.initial is None else v.initial)
        for v, name in static_names(program).items()
    }
