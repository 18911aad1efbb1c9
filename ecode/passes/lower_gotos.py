"""Gotos become a state machine: the statements that a jump leads into or out of are cut into states.

Only the statements around labels and gotos are cut; everything else stays structured inside a state. An engine runs the
states in order, and continues at a `Jump` with the state that it names.
"""

from __future__ import annotations

from dataclasses import replace

from ecode.typed import (
    Block,
    Break,
    Continue,
    Evaluate,
    Goto,
    If,
    Jump,
    Label,
    Loop,
    Not,
    StateMachine,
    Statement,
    TypedProgram,
    walk,
)
from ecode.types import INT32


def lower_gotos(program: TypedProgram) -> TypedProgram:
    """The program without labels and gotos."""
    if not any(isinstance(node, Goto | Label) for node in walk(program.body)):
        return program
    lowering = _Lowering()
    lowering.add(program.body)
    return replace(program, body=lowering.machine(program.body.at))


class _Lowering:
    def __init__(self) -> None:
        self.states: list[list[Statement]] = [[]]
        self.labels: dict[str, int] = {}
        self.loops: list[tuple[str, str]] = []  # labels of the end and of the next round of each enclosing loop
        self.fresh = 0

    def machine(self, at: int) -> StateMachine:
        """All states, with jumps to labels turned into jumps to states; a jump back charges the budget."""
        states = []
        for number, state in enumerate(self.states):
            states.append(tuple(self._resolve(statement, number) for statement in state))
        return StateMachine(at, tuple(states))

    def _resolve(self, statement: Statement, here: int) -> Statement:
        match statement:
            case Goto():
                target = self.labels[statement.label]
                return Jump(statement.at, target, int(target <= here))
            case If():
                return replace(statement, then=self._resolve(statement.then, here))
        return statement

    def label(self, name: str) -> None:
        """The next state begins here."""
        self.states.append([])
        self.labels[name] = len(self.states) - 1

    def name(self) -> str:
        self.fresh += 1
        return f" {self.fresh}"

    def emit(self, statement: Statement) -> None:
        self.states[-1].append(statement)

    def add(self, statement: Statement) -> None:
        if not _must_be_cut(statement, bool(self.loops)):
            self.emit(statement)
            return
        match statement:
            case Block():
                for part in statement.statements:
                    self.add(part)
            case Label():
                self.label(statement.name)
                self.add(statement.statement)
            case Goto():
                self.emit(statement)
            case Break():
                self.emit(Goto(statement.at, self.loops[-1][0]))
            case Continue():
                self.emit(Goto(statement.at, self.loops[-1][1]))
            case If():
                self._if(statement)
            case Loop():
                self._loop(statement)

    def _if(self, statement: If) -> None:
        otherwise, end = self.name(), self.name()
        refused = Not(statement.condition.at, INT32, statement.condition)
        self.emit(If(statement.at, refused, Goto(statement.at, otherwise), None))
        self.add(statement.then)
        if statement.otherwise is None:
            self.label(otherwise)
            return
        self.emit(Goto(statement.at, end))
        self.label(otherwise)
        self.add(statement.otherwise)
        self.label(end)

    def _loop(self, statement: Loop) -> None:
        start, test, step, end = self.name(), self.name(), self.name(), self.name()
        at = statement.at
        if statement.tests_first:
            self.emit(Goto(at, test))
        self.label(start)
        self.loops.append((end, step))
        self.add(statement.body)
        self.loops.pop()
        self.label(step)
        if statement.step is not None:
            self.emit(Evaluate(at, statement.step))
        self.label(test)
        again = Goto(at, start)
        self.emit(again if statement.condition is None else If(at, statement.condition, again, None))
        self.label(end)


def _must_be_cut(statement: Statement, is_in_cut_loop: bool) -> bool:
    """Whether a statement holds a label or a goto, or leaves a loop that is cut."""
    if any(isinstance(node, Goto | Label) for node in walk(statement)):
        return True
    return is_in_cut_loop and _leaves(statement)


def _leaves(statement: Statement) -> bool:
    match statement:
        case Break() | Continue():
            return True
        case Block():
            return any(_leaves(s) for s in statement.statements)
        case If():
            return _leaves(statement.then) or (statement.otherwise is not None and _leaves(statement.otherwise))
    return False
