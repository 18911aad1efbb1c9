"""Statements, and the program that consists of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ecode.environment import Function, Param
from ecode.typed.expressions import Assign, CopyRecord, Expression
from ecode.typed.places import Structs, Typed, ValueType, Variable


@dataclass(frozen=True, slots=True)
class Evaluate(Typed):
    expression: Expression


@dataclass(frozen=True, slots=True)
class Declare(Typed):
    """The declaration of a local variable is reached: it becomes zero, then `values` are assigned."""

    variable: Variable
    values: tuple[Assign | CopyRecord, ...]


@dataclass(frozen=True, slots=True)
class Block(Typed):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Typed):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop whose number of rounds is known before it begins (ecode-language 15.3).

    `variable` moves from its value at entry by `step` while `variable op bound` holds. With `may_leave`, a round can
    end the loop early: the number of rounds is then an upper bound, and they are charged one by one. `start` is the
    value of the variable right before the loop, if known.
    """

    variable: Variable
    op: str
    bound: Expression
    step: int
    may_leave: bool
    start: Expression | None = None


@dataclass(frozen=True, slots=True)
class Loop(Typed):
    """`condition` is None where it is absent; `tests_first` is false for `do`.

    A pass fills `counted`. Such a loop is charged to the budget before it begins, unless it may be left early. Another
    pass fills `work`, the cost of a round by its text, without the rounds of loops in it.
    """

    condition: Expression | None
    step: Expression | None
    body: Statement
    tests_first: bool
    counted: Counted | None = None
    work: int = 1

    @property
    def is_charged_before(self) -> bool:
        return self.counted is not None and not self.counted.may_leave


@dataclass(frozen=True, slots=True)
class Label(Typed):
    name: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Goto(Typed):
    label: str


@dataclass(frozen=True, slots=True)
class Break(Typed):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Typed):
    pass


@dataclass(frozen=True, slots=True)
class Return(Typed):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Jump(Typed):
    """In a `StateMachine`: continue at once with another state. A backward jump costs `work`: that of the statements it
    repeats."""

    state: int
    work: int = 0


@dataclass(frozen=True, slots=True)
class StateMachine(Typed):
    """Statements with jumps in them, as states; control falls from each state into the next, and out of the last."""

    states: tuple[tuple[Statement, ...], ...]


Statement: TypeAlias = (
    Evaluate | Declare | Block | If | Loop | Label | Goto | Break | Continue | Return | Jump | StateMachine
)


@dataclass(frozen=True, slots=True)
class TypedProgram:
    """A checked program.

    Attributes:
        param_types: the type of each parameter in this tree, by its name.
        structs: every structure that a type mentions, by its name in this tree.
        returns: the type of the result; None for a void program.
        variables: all locals and statics, `variables[v.index] is v`.
        functions: the host and library functions that it calls.
        work: what a call costs by the text, without the rounds of loops.
    """

    source: str
    params: tuple[Param, ...]
    param_types: Mapping[str, ValueType]
    structs: Structs
    returns: ValueType | None
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    body: Statement
    work: int = 0

    @property
    def statics(self) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.is_static)
