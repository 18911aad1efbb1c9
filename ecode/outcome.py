"""The outcome of a call: its result, and the state for the next call."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from ecode.semantics.values import zero
from ecode.typed import (
    Assign,
    CopyRecord,
    Local,
    Parameter,
    Place,
    Structs,
    TypedProgram,
    ValueType,
    Variable,
    root,
    walk,
)
from ecode.types import STRING, Array, Ref

# The values of a program's static variables by name, as plain values. It is a plain dict: copy, save and restore it at
# will.
Statics: TypeAlias = dict[str, Any]


class Keep(StrEnum):
    """Which events of a batch yield a row: those that the program passes, or all that do not trap."""

    PASSED = "passed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call that did not trap.

    Attributes:
        returned: the result; None for a void program.
        outputs: each output parameter's record, complete, as plain values.
        log: the calls of logged functions: (name, arguments), in order.
        work: the units charged to the budget.
    """

    returned: Any
    outputs: dict[str, Any]
    log: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    work: int = 0


def static_names(program: TypedProgram, program_name: str = "") -> dict[Variable, str]:
    """A unique name for each static variable: its own, with a number from the second of that name on (`n`, `n#2`).

    Where programs share a state, the name of the program comes first (`filter.n`). A parameter of mode `state` has no
    prefix, since it is one variable for all of them.
    """
    seen: Counter[str] = Counter()
    names = {}
    for variable in program.statics:
        seen[variable.name] += 1
        count = seen[variable.name]
        own = variable.name if count == 1 else f"{variable.name}#{count}"
        names[variable] = f"{program_name}.{own}" if program_name and not variable.is_shared else own
    return names


def initial_statics(program: TypedProgram, program_name: str = "") -> Statics:
    """The state before the first call."""
    return {
        name: deepcopy(zero(v.type, program.structs) if v.initial is None else v.initial)
        for v, name in static_names(program, program_name).items()
    }


def stores_strings(program: TypedProgram) -> bool:
    """Whether a call may change a static string: it then stores all static strings again."""
    return any(holds_strings(variable.type, program.structs) for variable in program.statics) and any(
        isinstance(node, CopyRecord)
        or (isinstance(node, Assign) and node.type == STRING and _may_be_static(node.place))
        for node in walk(program.body)
    )


def _may_be_static(place: Place) -> bool:
    base = root(place)
    return base.variable.is_static if isinstance(base, Local) else not isinstance(base, Parameter)


def holds_strings(type_: ValueType, structs: Structs) -> bool:
    """Whether a value has strings in place."""
    match type_:
        case Array() if not type_.is_dynamic:
            return holds_strings(type_.element, structs)
        case Ref():
            return any(holds_strings(field.type, structs) for field in structs[type_.name].fields)
    return type_ == STRING


def text_bytes(value: Any, type_: ValueType, structs: Structs) -> int:
    """The bytes that the strings of a static variable take, each with its NUL, absent strings included."""
    match type_:
        case Array():
            if not holds_strings(type_, structs):
                return 0
            inner = type_.element if len(type_.dims) < 2 else Array(type_.element, type_.dims[1:])
            return sum(text_bytes(item, inner, structs) for item in value)
        case Ref():
            fields = structs[type_.name].fields
            return sum(text_bytes(value[field.name], field.type, structs) for field in fields)
    return len(value or b"") + 1 if type_ == STRING else 0
