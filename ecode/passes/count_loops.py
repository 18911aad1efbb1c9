"""Finds the loops whose number of rounds is known before they begin (ecode-language 15.3)."""

from __future__ import annotations

from dataclasses import replace

from ecode.typed import (
    AddressOf,
    Arithmetic,
    Assign,
    Block,
    Break,
    Compare,
    CompoundAssign,
    Constant,
    Convert,
    CopyRecord,
    Counted,
    Declare,
    Evaluate,
    Expression,
    FieldOf,
    Goto,
    If,
    Jump,
    Label,
    Local,
    Loop,
    Negate,
    Parameter,
    Place,
    Read,
    Return,
    StateMachine,
    Statement,
    Target,
    Typed,
    TypedProgram,
    Variable,
    root,
    walk,
)
from ecode.types import INT32, INT64, Pointer

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def count_loops(program: TypedProgram) -> TypedProgram:
    """The program with `Loop.counted` filled."""
    pointed = {
        base.variable
        for node in walk(program.body)
        if isinstance(node, AddressOf) and isinstance(base := root(node.place), Local)
    }
    return replace(program, body=_counted(program.body, pointed))


def _counted(statement: Statement, pointed: set[Variable]) -> Statement:
    match statement:
        case Block():
            parts = [_counted(part, pointed) for part in statement.statements]
            for i, part in enumerate(parts):
                if i and isinstance(part, Loop) and part.counted is not None:
                    start = _assigned(parts[i - 1], part.counted.variable)
                    parts[i] = replace(part, counted=replace(part.counted, start=start))
            return replace(statement, statements=tuple(parts))
        case If():
            otherwise = None if statement.otherwise is None else _counted(statement.otherwise, pointed)
            return replace(statement, then=_counted(statement.then, pointed), otherwise=otherwise)
        case Label():
            return replace(statement, statement=_counted(statement.statement, pointed))
        case StateMachine():
            states = tuple(tuple(_counted(s, pointed) for s in state) for state in statement.states)
            return replace(statement, states=states)
        case Loop():
            loop = replace(statement, body=_counted(statement.body, pointed))
            return replace(loop, counted=_count(loop, pointed))
    return statement


def _assigned(before: Statement, variable: Variable) -> Expression | None:
    """The value that a statement leaves in a variable."""
    match before:
        case Evaluate(expression=Assign(place=Local(variable=written), value=value)) if written is variable:
            return value
        case Declare(values=(Assign(place=Local(variable=written), value=value),)) if written is variable:
            return value
    return None


def _count(loop: Loop, pointed: set[Variable]) -> Counted | None:
    if not loop.tests_first or not isinstance(loop.condition, Compare):
        return None
    condition = loop.condition
    sides = [(condition.op, condition.left, condition.right)]
    if condition.op in _MIRRORED:
        sides.append((_MIRRORED[condition.op], condition.right, condition.left))
    for op, left, bound in sides:
        variable = _plain_variable(left)
        if variable is None or variable in pointed:
            continue
        step = _step(loop, variable)
        if step is None or not _goes_towards(op, step):
            continue
        rest = _without_step(loop)
        if writes(rest, variable) or not _is_fixed(bound, rest, pointed):
            continue
        return Counted(variable, op, bound, step, _leaves(loop.body))
    return None


def _plain_variable(node: Expression) -> Variable | None:
    """The variable on one side of the condition, widened or not."""
    if isinstance(node, Convert) and node.type == INT64:
        node = node.value
    if isinstance(node, Read) and isinstance(node.place, Local) and node.type in (INT32, INT64):
        return None if node.place.variable.is_static else node.place.variable
    return None


def _goes_towards(op: str, step: int) -> bool:
    """Whether the step leads towards the bound."""
    return step == {"<": 1, "<=": 1, ">": -1, ">=": -1}.get(op)


def _step(loop: Loop, variable: Variable) -> int | None:
    """The change of the variable in each round: the step of a `for` or the last statement of a `while`."""
    node: Typed | None = loop.step
    if node is None:
        last = loop.body
        while isinstance(last, Block) and last.statements:
            last = last.statements[-1]
        node = last.expression if isinstance(last, Evaluate) else None
        if _continues(loop.body):
            return None
    return None if node is None else _stride(node, variable)


def _stride(node: Typed, variable: Variable) -> int | None:
    match node:
        case CompoundAssign(place=Local(variable=moved), op="+" | "-" as op, value=Constant(value=int(by))) if (
            moved is variable
        ):
            return by if op == "+" else -by
        case Assign(place=Local(variable=moved), value=Arithmetic(op="+" | "-" as op, left=left, right=right)):
            if moved is not variable:
                return None
            if _plain_variable(left) is variable and isinstance(right, Constant) and isinstance(right.value, int):
                return right.value if op == "+" else -right.value
            if op == "+" and _plain_variable(right) is variable and isinstance(left, Constant):
                return left.value if isinstance(left.value, int) else None
    return None


def _without_step(loop: Loop) -> list[Typed]:
    """Everything in the loop's body but the step itself."""
    if loop.step is not None:
        return [loop.body]
    rest: list[Typed] = []
    last: Statement = loop.body
    while isinstance(last, Block) and last.statements:
        rest += last.statements[:-1]
        last = last.statements[-1]
    return rest


def _leaves(body: Statement) -> bool:
    """Whether a round may end the loop early, so that its rounds are charged one by one."""
    match body:
        case Break() | Return() | Goto() | Jump() | Label():
            return True
        case Block():
            return any(_leaves(s) for s in body.statements)
        case If():
            return _leaves(body.then) or (body.otherwise is not None and _leaves(body.otherwise))
        case Loop():
            # A break inside belongs to the inner loop.
            return any(isinstance(node, Return | Goto | Jump | Label) for node in walk(body.body))
    return False


def _continues(body: Statement) -> bool:
    return any(type(node).__name__ == "Continue" for node in walk(body))


def writes(nodes: list[Typed], variable: Variable) -> bool:
    for node in nodes:
        for inner in walk(node):
            if isinstance(inner, Declare) and inner.variable is variable:
                return True
            if isinstance(inner, Assign | CompoundAssign | CopyRecord):
                base = root(inner.place)
                if isinstance(base, Local) and base.variable is variable:
                    return True
    return False


def _is_fixed(bound: Expression, rest: list[Typed], pointed: set[Variable]) -> bool:
    """Whether an expression has the same value in every round."""
    match bound:
        case Constant():
            return True
        case Convert() | Negate():
            return _is_fixed(bound.value, rest, pointed)
        case Arithmetic(op="+" | "-" | "*" | "&" | "|" | "^" | "<<" | ">>"):
            return _is_fixed(bound.left, rest, pointed) and _is_fixed(bound.right, rest, pointed)
        case Arithmetic(op="/" | "%", right=Constant(value=int(divisor))) if divisor not in (0, -1):
            return _is_fixed(bound.left, rest, pointed)
        case Read() if not isinstance(bound.type, Pointer):
            return _is_fixed_place(bound.place, rest, pointed)
    return False


def _is_fixed_place(place: Place, rest: list[Typed], pointed: set[Variable]) -> bool:
    match place:
        case Local():
            return place.variable not in pointed and not writes(rest, place.variable)
        case Parameter():
            return not _writes_parameter(place, rest)
        case FieldOf():
            base = root(place)
            path_is_plain = isinstance(place.record, FieldOf | Parameter | Local) and not isinstance(base, Target)
            return path_is_plain and _is_fixed_place(place.record, rest, pointed)
    return False


def _writes_parameter(parameter: Parameter, rest: list[Typed]) -> bool:
    """Outputs may change through assignments, and through pointers; inputs never do."""
    for node in rest:
        for inner in walk(node):
            if isinstance(inner, Assign | CompoundAssign | CopyRecord):
                base = root(inner.place)
                if isinstance(base, Parameter) and base.param is parameter.param:
                    return True
                if isinstance(base, Target) and parameter.param.mode.value == "out":
                    return True
    return False
