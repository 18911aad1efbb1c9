"""Comparisons that must hold for a filter to pass an event: readers skip what cannot pass.

Only comparisons that come first are found. A comparison after something that may trap or have an effect does not count,
since a reader that skipped the event would hide the trap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ecode.typed import (
    Arithmetic,
    Block,
    Compare,
    Constant,
    Convert,
    Expression,
    FieldOf,
    If,
    Logical,
    Negate,
    Not,
    Parameter,
    Present,
    Read,
    Return,
    Statement,
    TypedProgram,
    walk,
)
from ecode.types import Basic, Kind

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}
_WHOLE = (Kind.INTEGER, Kind.UNSIGNED)
Numbers: TypeAlias = "npt.NDArray[Any] | int | float"


@dataclass(frozen=True, slots=True)
class Bound:
    """`path op value` holds for every event that passes.

    Attributes:
        param, path: the parameter and the names of the field in it.
        op: `<`, `<=`, `>`, `>=` or `==`.
        value: the constant.
        type, common: of the field, and that in which the two are compared.
    """

    param: str
    path: tuple[str, ...]
    op: str
    value: int | float
    type: Basic
    common: Basic

    def may_hold(self, least: Numbers, most: Numbers) -> npt.NDArray[np.bool_]:
        """For each range of the field's values, whether any value in it can meet the bound. NaN excludes nothing."""
        low, high = self._common(least), self._common(most)
        known = (low == low) & (high == high)
        match self.op:
            case "<":
                holds = low < self.value
            case "<=":
                holds = low <= self.value
            case ">":
                holds = high > self.value
            case ">=":
                holds = high >= self.value
            case _:
                holds = (low <= self.value) & (high >= self.value)
        return np.asarray(holds | ~known)

    def _common(self, values: Numbers) -> npt.NDArray[Any]:
        kind = {Kind.INTEGER: "i", Kind.UNSIGNED: "u", Kind.FLOAT: "f"}[self.common.kind]
        with np.errstate(over="ignore"):  # a value too large for a float becomes infinite, as in the program
            return np.asarray(values).astype(f"{kind}{self.common.size}")


def program_to_bounds(program: TypedProgram) -> tuple[Bound, ...]:
    """The comparisons with constants that every passing event meets; none for a program with state.

    For an event that fails one of them the program returns 0, and neither traps nor has an effect.

    >>> import ecode
    >>> from ecode.types import FLOAT64, INT32, Field, record
    >>> reading = ecode.Param("input", record("reading", [Field("x", FLOAT64), Field("n", INT32)]))
    >>> for bound in program_to_bounds(ecode.compile("{ return input.x > 5 && 7 >= input.n; }", [reading]).typed):
    ...     print(".".join(bound.path), bound.op, bound.value)
    x > 5.0
    n <= 7
    """
    if program.statics:
        return ()
    return tuple(_of_statements(_flat(program.body)))


def _flat(statement: Statement) -> list[Statement]:
    if isinstance(statement, Block):
        return [one for inner in statement.statements for one in _flat(inner)]
    return [statement]


def _of_statements(statements: list[Statement]) -> Iterator[Bound]:
    """The bounds of statements that run one after another."""
    for i, statement in enumerate(statements):
        match statement:
            case Return(value=value) if value is not None:
                yield from _of(value, is_true=True)[0]
            case If(condition=condition, then=then, otherwise=otherwise):
                rest = [*([] if otherwise is None else _flat(otherwise)), *statements[i + 1 :]]
                if _returns_zero(_flat(then)):
                    bounds, is_safe = _of(condition, is_true=False)
                    yield from bounds
                    if is_safe:
                        yield from _of_statements(rest)
                elif _returns_zero(rest):
                    yield from _of(condition, is_true=True)[0]
        return


def _returns_zero(statements: list[Statement]) -> bool:
    match statements:
        case [Return(value=Constant(value=value)), *_]:
            return value == 0
    return False


def _of(node: Expression, *, is_true: bool) -> tuple[list[Bound], bool]:
    """What must hold for an expression to be true, or false, and whether it neither traps nor has an effect.

    Comparisons of floats cannot be negated: with NaN both would be false.
    """
    match node:
        case Convert(value=inner) if isinstance(inner, Compare | Logical | Not | Convert):
            return _of(inner, is_true=is_true)
        case Not(value=inner):
            return _of(inner, is_true=not is_true)
        case Logical(op=op, left=left, right=right) if op == ("&&" if is_true else "||"):
            bounds, is_safe = _of(left, is_true=is_true)
            if not is_safe:
                return bounds, False
            more, is_safe = _of(right, is_true=is_true)
            return bounds + more, is_safe
        case Compare(op=op, left=left, right=right) if is_true or _is_whole(left):
            bound = _bound(op if is_true else _OPPOSITE.get(op, ""), left, right)
            return [] if bound is None else [bound], _is_safe(node)
    return [], _is_safe(node)


def _is_whole(node: Expression) -> bool:
    type_ = getattr(node, "type", None)
    return isinstance(type_, Basic) and type_.kind in _WHOLE


def _bound(op: str, left: Expression, right: Expression) -> Bound | None:
    if isinstance(left, Constant):
        left, right, op = right, left, _TURNED.get(op, op)
    if op not in _TURNED or not isinstance(right, Constant) or not isinstance(right.value, int | float):
        return None
    common = left.type
    types = [common]
    while isinstance(left, Convert):
        left = left.value
        types.append(left.type)
    if not isinstance(left, Read) or not all(isinstance(type_, Basic) for type_ in types):
        return None
    path: list[str] = []
    place = left.place
    while isinstance(place, FieldOf):
        path.append(place.name)
        place = place.record
    if not isinstance(place, Parameter) or not path:
        return None
    basics = [type_ for type_ in reversed(types) if isinstance(type_, Basic)]
    if not all(_keeps_order(a, b) for a, b in pairwise(basics)) or len(set(basics)) > 2:
        return None
    if basics[-1].kind not in (*_WHOLE, Kind.FLOAT) or basics[-1].size > 8:
        return None
    return Bound(place.param.name, tuple(reversed(path)), op, right.value, basics[0], basics[-1])


def _keeps_order(given: Basic, to: Basic) -> bool:
    """Whether a conversion never puts a greater value before a smaller one."""
    if given == to:
        return given.kind in (*_WHOLE, Kind.FLOAT)
    if given.kind is Kind.FLOAT:
        return to.kind is Kind.FLOAT
    if given.kind not in _WHOLE:
        return False
    if to.kind is Kind.FLOAT:
        return True
    if to.kind not in _WHOLE:
        return False
    return to.size >= given.size if given.kind is to.kind else to.kind is Kind.INTEGER and to.size > given.size


def _is_safe(node: Expression) -> bool:
    """Whether an expression only looks at fields and compares: it cannot trap."""
    for part in walk(node):
        match part:
            case Constant() | Compare() | Logical() | Not() | Negate() | Present() | Parameter() | FieldOf() | Read():
                continue
            case Convert(type=type_, value=value):
                if not isinstance(value.type, Basic) or value.type.kind is not Kind.FLOAT or type_.kind is Kind.FLOAT:
                    continue
            case Arithmetic(op=op) if op in ("+", "-", "*"):
                continue
        return False
    return True
