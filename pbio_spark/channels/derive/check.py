"""Checks that the programs of a derivation suit its channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import ecode
from ecode.limits import Limits
from ecode.outcome import static_names
from ecode.syntax.lexer import Lexer, Unreadable
from ecode.types import INT64, Record
from pbio_spark.channels.commits.derivation import Derivation, block_to_record
from pbio_spark.channels.derive.source import SERVICES, declared
from pbio_spark.channels.derive.step import PARAMETERS_TYPE, STATE_TYPE
from pbio_spark.columns import PARAMETERS, STATE
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

EMITTED = "emitted"
"""The name under which `period` sees how many events it has made in this run."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A derivation whose programs compile against the types of its channels.

    Attributes:
        derivation: with `is_ordered` set.
        programs: keyed by `filter`, `transform`, `dequeue` and `period`.
        kept: names and types of all state that the programs keep.
    """

    derivation: Derivation
    programs: Mapping[str, ecode.Program]
    kept: tuple[tuple[str, str], ...]


def check_derivation(parent: Format, own: Format, derivation: Derivation) -> Checked:
    """Compile all programs of a derivation against the types of its channels.

    Raises PBIO_BAD_PROGRAM with all mistakes of a program, or with its cost; PBIO_BAD_OPTION for a service.
    """
    functions = tuple(map(declared, derivation.services))
    shared = shared_params(derivation)
    limits = Limits(budget=derivation.max_cost)
    programs: dict[str, ecode.Program] = {}
    given = {
        "filter": [ecode.Param("input", parent.record), *shared],
        "transform": [ecode.Param("input", parent.record), *shared, ecode.Param("output", own.record, ecode.Mode.OUT)],
        "dequeue": [ecode.Param("input", own.record), *shared],
        "period": [*period_params(own.record), *shared],
    }
    if derivation.dequeue is not None and alters(derivation.dequeue):
        given["dequeue"].append(ecode.Param("output", own.record, ecode.Mode.OUT))
    for what, params in given.items():
        source = getattr(derivation, what)
        if source is not None:
            programs[what] = _compiled(what, source, params, functions, limits, derivation)
    _check_cost(programs, derivation)
    kept = {
        f"{what}.{name}": str(variable.type)
        for what, program in programs.items()
        for variable, name in static_names(program.typed).items()
        if name != STATE
    }
    is_ordered = bool(kept or derivation.state or derivation.dequeue or derivation.period)
    return Checked(
        replace(derivation, is_ordered=is_ordered),
        programs,
        (*sorted(kept.items()), (STATE, derivation.state.shape)),
    )


def shared_params(derivation: Derivation) -> list[ecode.Param]:
    """The parameters that all programs of a derivation see: `param` and `state`, if any."""
    params = []
    if derivation.parameters:
        block = block_to_record(derivation.parameters, PARAMETERS_TYPE)
        params.append(ecode.Param(PARAMETERS, block, ecode.Mode.PARAM))
    if derivation.state:
        kept = block_to_record(derivation.state, STATE_TYPE, is_fixed=True)
        params.append(ecode.Param(STATE, kept, ecode.Mode.STATE))
    return params


def period_params(record: Record) -> list[ecode.Param]:
    """The parameters that only `period` sees."""
    return [ecode.Param(EMITTED, INT64), ecode.Param("output", record, ecode.Mode.OUT)]


def alters(source: str) -> bool:
    """Whether `dequeue` fills `output`, rather than only choosing which events are kept."""
    try:
        return any(token.text == "output" for token in Lexer(source, set(), Limits().nesting))
    except Unreadable:
        return False  # compiling reports what is wrong


def with_copy(source: str) -> str:
    """`dequeue` with `output` initialised as a copy of `input`, with line numbers unchanged."""
    at = next(iter(Lexer(source, set(), Limits().nesting))).at + 1
    return f"{source[:at]} output = input; {source[at:]}"


@lru_cache(4096)
def normal_form(source: str | None) -> str | None:
    """A program without its comments and its layout: equal normal forms mean equal behaviour.

    >>> normal_form("{return input.x>0; /* positive */ }")
    '{ return input . x > 0 ; }'
    """
    if source is None:
        return None
    lexer = Lexer(source, set(), Limits().nesting)
    try:
        words = [token.text for token in lexer]
    except Unreadable:
        return source  # compiling reports what is wrong
    return " ".join([*(f"#include <{name}>" for name in lexer.includes), *words])


def _compiled(
    what: str,
    source: str,
    params: Sequence[ecode.Param],
    functions: tuple[ecode.Function, ...],
    limits: Limits,
    derivation: Derivation,
) -> ecode.Program:
    copied = what == "dequeue" and any(param.name == "output" for param in params)
    try:
        return ecode.compile(with_copy(source) if copied else source, params, functions=functions, limits=limits)
    except ecode.EcodeError as error:
        reason = f"the {what} does not compile: {error.summary}"
        raise PbioError("PBIO_BAD_PROGRAM", reason, hint=_hint(error, derivation)) from error


def _hint(error: ecode.EcodeError, derivation: Derivation) -> str | None:
    """How to provide a name that a program lacks."""
    said = {diagnostic.message for diagnostic in getattr(error, "diagnostics", ())}
    lacking = [
        (PARAMETERS, bool(derivation.parameters), "give parameters={...}"),
        (STATE, bool(derivation.state), "give state={...}, with the values that it begins with"),
    ]
    lacking += [(name, name in derivation.services, f'give services=["{name}"]') for name in SERVICES]
    for name, is_given, hint in lacking:
        if not is_given and any(f"unknown name '{name}'" in message for message in said):
            return hint
    return error.hint or None


def _check_cost(programs: Mapping[str, ecode.Program], derivation: Derivation) -> None:
    """Raise PBIO_BAD_PROGRAM if the programs cost too much per event, or `period` per event that it makes."""
    of_events = {what: program for what, program in programs.items() if what != "period"}
    of_period = {what: program for what, program in programs.items() if what == "period"}
    for some in (of_events, of_period):
        try:
            ecode.check_source(some, derivation.max_cost, raise_by="max_cost=")
        except ecode.CostError as error:
            raise PbioError("PBIO_BAD_PROGRAM", error.message, hint=error.hint) from error
