"""Labels and gotos: each label is unique, each goto has a label, none jumps forward over an initial value."""

from __future__ import annotations

from ecode.errors import Category, Diagnostic, diagnostic
from ecode.suggest import did_you_mean
from ecode.typed import Block, Declare, Goto, If, Label, Loop, Statement, TypedProgram, walk


def check_jumps(program: TypedProgram) -> list[Diagnostic]:
    """All mistakes about labels."""
    gotos = [node for node in walk(program.body) if isinstance(node, Goto)]
    labels: dict[str, list[Label]] = {}
    for node in walk(program.body):
        if isinstance(node, Label):
            labels.setdefault(node.name, []).append(node)
    wanted = {goto.label for goto in gotos}
    found = [
        diagnostic(program.source, label.at, Category.NAME, f"the label {name!r} is defined twice")
        for name, places in labels.items()
        for label in places[1:]
        if name in wanted
    ]
    in_scope: dict[str, frozenset[Declare]] = {}
    _scopes(program.body, set(), in_scope)
    for goto in gotos:
        if goto.label not in labels:
            message, hint = f"unknown label {goto.label!r}", did_you_mean(goto.label, labels)
            found.append(diagnostic(program.source, goto.at, Category.NAME, message, hint))
            continue
        for declare in sorted(in_scope[goto.label], key=lambda d: d.at):
            if declare.values and goto.at < declare.at:
                message = f"the goto jumps over the initial value of {declare.variable.name!r}"
                hint = "declare it before the goto, or assign it after the label"
                found.append(diagnostic(program.source, goto.at, Category.TYPE, message, hint))
    return found


def _scopes(statement: Statement, declared: set[Declare], in_scope: dict[str, frozenset[Declare]]) -> None:
    """For each label the declarations that are in scope there."""
    match statement:
        case Block():
            inner = set(declared)
            for part in statement.statements:
                if isinstance(part, Declare):
                    inner.add(part)
                else:
                    _scopes(part, inner, in_scope)
        case Label():
            in_scope.setdefault(statement.name, frozenset(declared))
            _scopes(statement.statement, declared, in_scope)
        case If():
            _scopes(statement.then, declared, in_scope)
            if statement.otherwise is not None:
                _scopes(statement.otherwise, declared, in_scope)
        case Loop():
            _scopes(statement.body, declared, in_scope)
