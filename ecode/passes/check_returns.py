"""A program that returns a value ends in a return (ecode-language 7.6)."""

from __future__ import annotations

from ecode.errors import Category, Diagnostic, diagnostic
from ecode.typed import (
    Block,
    Call,
    Evaluate,
    Goto,
    If,
    Label,
    Loop,
    Return,
    StateMachine,
    Statement,
    TypedProgram,
)

_ENDING_CALLS = ("exit", "abort")


def check_returns(program: TypedProgram) -> list[Diagnostic]:
    """At most one mistake, at the last statement. An empty program passes, and returns 0."""
    body = program.body
    if program.returns is None or (isinstance(body, Block) and not body.statements):
        return []
    last = _last(body)
    if _ends(last):
        return []
    message = "the program must end in a return"
    is_loop = isinstance(last, Loop | StateMachine)
    hint = "control may leave the loop; add 'return 0;' after it" if is_loop else ""
    return [diagnostic(program.source, last.at, Category.TYPE, message, hint)]


def _last(statement: Statement) -> Statement:
    while isinstance(statement, Block) and statement.statements:
        statement = statement.statements[-1]
    return statement


def _ends(statement: Statement) -> bool:
    statement = _last(statement)
    match statement:
        case Return() | Goto():
            return True
        case If():
            return _ends(statement.then) and (statement.otherwise is None or _ends(statement.otherwise))
        case Label():
            return _ends(statement.statement)
        case Evaluate(expression=Call(function=function)):
            return function.name in _ENDING_CALLS
    return False
