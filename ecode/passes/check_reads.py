"""Warnings: local variables that a program may read before it writes them. They are then zero, which may surprise."""

from __future__ import annotations

from ecode.errors import Category, Diagnostic, diagnostic
from ecode.typed import (
    AddressOf,
    Assign,
    Block,
    Choice,
    CompoundAssign,
    Declare,
    If,
    Local,
    Logical,
    Loop,
    Read,
    Return,
    StateMachine,
    Statement,
    Typed,
    TypedProgram,
    Variable,
    children,
    root,
    walk,
)
from ecode.types import Basic, Pointer


def check_reads(program: TypedProgram) -> list[Diagnostic]:
    """One warning for each variable. Programs with jumps get none."""
    if isinstance(program.body, StateMachine):
        return []
    check = _Reads(program)
    check.statement(program.body, set())
    return check.found


class _Reads:
    """Follows control; `written` holds the variables that are certainly written."""

    def __init__(self, program: TypedProgram) -> None:
        self.program = program
        self.found: list[Diagnostic] = []
        self.told: set[Variable] = {
            base.variable
            for node in walk(program.body)
            if isinstance(node, AddressOf) and isinstance(base := root(node.place), Local)
        }

    def statement(self, node: Statement, written: set[Variable]) -> None:
        match node:
            case Declare():
                for value in node.values:
                    self.expression(value, written)
                if node.values or not isinstance(node.variable.type, Basic | Pointer):
                    written.add(node.variable)
                else:
                    written.discard(node.variable)
            case Block():
                for part in node.statements:
                    self.statement(part, written)
            case If():
                self.expression(node.condition, written)
                then, otherwise = set(written), set(written)
                self.statement(node.then, then)
                if node.otherwise is not None:
                    self.statement(node.otherwise, otherwise)
                # A branch that returns says nothing about what follows.
                leaving = [_returns(node.then), node.otherwise is not None and _returns(node.otherwise)]
                both = otherwise if leaving[0] else then if leaving[1] else then & otherwise
                written |= both
            case Loop():
                self.loop(node, written)
            case _:
                for child in children(node):
                    self.expression(child, written)

    def loop(self, node: Loop, written: set[Variable]) -> None:
        inside = set(written) if node.tests_first else written
        if node.tests_first and node.condition is not None:
            self.expression(node.condition, written)
        self.statement(node.body, inside)
        if node.step is not None:
            self.expression(node.step, inside)
        if not node.tests_first and node.condition is not None:
            self.expression(node.condition, inside)

    def expression(self, node: Typed, written: set[Variable]) -> None:
        match node:
            case Assign(place=Local(variable=variable)):
                self.expression(node.value, written)
                written.add(variable)
                return
            case Read(place=Local(variable=variable)) | CompoundAssign(place=Local(variable=variable)):
                if not variable.is_static and variable not in written and variable not in self.told:
                    self.told.add(variable)
                    message = f"{variable.name!r} may be read before it is written; it is 0 then"
                    at = node.at if isinstance(node, CompoundAssign) else node.place.at
                    self.found.append(diagnostic(self.program.source, at, Category.TYPE, message))
            case Logical() | Choice():
                first, *rest = children(node)
                self.expression(first, written)
                for part in rest:
                    self.expression(part, set(written))
                return
        for child in children(node):
            self.expression(child, written)


def _returns(node: Statement) -> bool:
    while isinstance(node, Block) and node.statements:
        node = node.statements[-1]
    return isinstance(node, Return)
