"""What a host passes to a program: parameters, functions, constants. A program can reach nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ecode.errors import ParameterError
from ecode.types import (
    CHAR,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Basic,
    Record,
)

_WORDS: dict[str, Basic] = {
    "char": CHAR,
    "signed char": INT8,
    "unsigned char": UINT8,
    "short": INT16,
    "unsigned short": UINT16,
    "int": INT32,
    "unsigned": UINT32,
    "unsigned int": UINT32,
    "long": INT64,
    "unsigned long": UINT64,
    "float": FLOAT32,
    "double": FLOAT64,
    "string": STRING,
}
_PROTOTYPE = re.compile(r"\s*([A-Za-z_ ]+?)\s*\b([A-Za-z_]\w*)\s*\(([^()]*)\)\s*;?\s*")


class Mode(StrEnum):
    """What a program may do with a parameter."""

    IN = "in"  # read
    PARAM = "param"  # read; the host may change it between calls
    OUT = "out"  # read and written; zero before every call
    STATE = "state"  # read and written; kept from call to call, as static variables are


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: a record by reference, or a number or string by value (mode `in`).

    A parameter of mode `state` is a record of numbers, strings, fixed arrays and records of these. The host passes it
    with the static variables: `Program.statics` has it by its name.
    """

    name: str
    type: Record | Basic
    mode: Mode = Mode.IN


@dataclass(frozen=True, slots=True)
class Charge:
    """What a call costs beyond `Function.cost`, by its arguments.

    Attributes:
        call: units of work and bytes of memory, of Python values.
        native: the units for generated code, a format as `Function.native` is; attribute lists write their own.
        is_shortest: the call compares strings, and at most as many characters as a literal among them has.
    """

    call: Callable[..., tuple[int, int]]
    native: str = ""
    is_shortest: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A host function ("service") or a library function, granted to a program by name.

    Attributes:
        name, returns, parameters: its prototype. Types are basic, or the word `attr_list`, or `char*` (a pointer into a
            string) for results and parameters; `returns` of None is void.
        call: the function on Python values: int, float, bytes or None (strings).
        native: the expression for generated code, a format with one place per argument (two for a string: address
            and length; an absent one has length 0); None if only the interpreter can call it.
        is_variadic: more arguments of any scalar type may follow.
        is_pure: the result depends only on the arguments, and the call has no effect.
        is_logged: name and arguments are appended to the log of the call.
        needs_strings: an absent string as an argument ends the event (`index_out_of_range`).
        is_sampled: it takes no arguments and returns a number that is fixed for a batch: compiled programs get it with
            the batch (`ecode.columns.BatchProgram.sampled`), and only the interpreter calls it.
        cost: in units of work (`ecode.analysis.work`), independent of the arguments.
        charge: what a call costs beyond that.
    """

    name: str
    returns: Basic | str | None
    parameters: tuple[Basic | str, ...]
    call: Callable[..., Any] = field(repr=False, compare=False)
    native: str | None = None
    is_variadic: bool = False
    is_pure: bool = False
    is_logged: bool = False
    needs_strings: bool = False
    is_sampled: bool = False
    cost: int = 10
    charge: Charge | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a program may use besides its parameters and those it declares.

    Attributes:
        functions: host and library functions.
        constants: integer constants by name.
        records: further record types, by whose names the program may declare variables.
        hints: for missing names, what would provide them.
    """

    functions: tuple[Function, ...] = ()
    constants: Mapping[str, int] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)


def service(
    prototype: str,
    call: Callable[..., Any],
    native: str | None = None,
    *,
    is_pure: bool = False,
    is_logged: bool = False,
    is_sampled: bool = False,
    cost: int = 10,
) -> Function:
    """A host function from its C prototype.

    Args:
        prototype: e.g. `double scale(double x, double k)`; `...` as the last parameter takes any scalars.
        call: what it does, on Python values.
        native: what it does in generated code, e.g. `{} * {}`.
        is_pure, is_logged, is_sampled, cost: see `Function`.

    Raises:
        ParameterError: the prototype cannot be parsed, or the function cannot be sampled.

    >>> service("double scale(double x, double k)", lambda x, k: x * k, "{} * {}").parameters == (FLOAT64, FLOAT64)
    True
    """
    match = _PROTOTYPE.fullmatch(prototype)
    if match is None:
        raise ParameterError(f"{prototype!r} is not a prototype", "write it as in C: double scale(double x, double k)")
    returns = None if match[1].split() == ["void"] else _word(match[1], prototype)
    given = [part.strip() for part in match[3].split(",") if part.strip() not in ("", "void")]
    is_variadic = bool(given) and given[-1] == "..."
    parameters = tuple(_word(part, prototype) for part in (given[:-1] if is_variadic else given))
    if is_sampled and (given or not isinstance(returns, Basic) or returns == STRING):
        raise ParameterError(f"{prototype!r} cannot be sampled", "only a function without arguments, of a number, can")
    return Function(
        match[2], returns, parameters, call, native, is_variadic, is_pure, is_logged, is_sampled=is_sampled, cost=cost
    )


def _word(text: str, prototype: str) -> Basic | str:
    words = " ".join(text.split())
    for candidate in (words, words.rsplit(" ", 1)[0]):
        if candidate in _WORDS:
            return _WORDS[candidate]
        if candidate in ("attr_list", "char*"):
            return candidate
    raise ParameterError(f"{text!r} in {prototype!r} is not a type", "basic types, string and attr_list can be passed")
