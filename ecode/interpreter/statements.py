"""Statements as Python closures: each runs one statement and says how control leaves it."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ecode.interpreter.expressions import Expressions
from ecode.interpreter.memory import Closure, Frame, clear, spend
from ecode.semantics.arithmetic import limits
from ecode.typed import (
    Block,
    Break,
    Continue,
    Counted,
    Declare,
    Evaluate,
    If,
    Jump,
    Loop,
    Return,
    StateMachine,
    Statement,
)
from ecode.types import Basic


class Exit(IntEnum):
    """How control leaves a statement; `NEXT` is the ordinary way. Numbers from `JUMP` on name the next state."""

    NEXT = 0
    BREAK = 1
    CONTINUE = 2
    RETURN = 3
    JUMP = 4


Runner = Callable[[Frame], int]


def runner(code: Expressions, node: Statement) -> Runner:
    """The closure of a statement."""
    match node:
        case Evaluate():
            return _evaluate(code.value(node.expression))
        case Declare():
            return _declare(code, node)
        case Block():
            return _block([runner(code, statement) for statement in node.statements])
        case If():
            return _if(code, node)
        case Loop():
            return _loop(code, node)
        case Break():
            return lambda frame: Exit.BREAK
        case Continue():
            return lambda frame: Exit.CONTINUE
        case Return():
            return _return(None if node.value is None else code.value(node.value))
        case Jump():
            return _jump(node)
        case StateMachine():
            return _machine(code, node)
    raise AssertionError(node)


def _evaluate(value: Closure) -> Runner:
    def run(frame: Frame) -> int:
        value(frame)
        return Exit.NEXT

    return run


def _declare(code: Expressions, node: Declare) -> Runner:
    index, type_, structs = node.variable.index, node.variable.type, code.structs
    values = [code.value(value) for value in node.values]

    def run(frame: Frame) -> int:
        clear(frame.slots, index, type_, structs)
        for value in values:
            value(frame)
        return Exit.NEXT

    return run


def _block(parts: list[Runner]) -> Runner:
    def run(frame: Frame) -> int:
        for part in parts:
            left = part(frame)
            if left:
                return left
        return Exit.NEXT

    return run


def _if(code: Expressions, node: If) -> Runner:
    condition, then = code.truth(node.condition), runner(code, node.then)
    otherwise = None if node.otherwise is None else runner(code, node.otherwise)

    def run(frame: Frame) -> int:
        if condition(frame):
            return then(frame)
        return Exit.NEXT if otherwise is None else otherwise(frame)

    return run


def _loop(code: Expressions, node: Loop) -> Runner:
    condition: Closure = (lambda frame: True) if node.condition is None else code.truth(node.condition)
    step: Closure = (lambda frame: None) if node.step is None else code.value(node.step)
    body, at, tests_first = runner(code, node.body), node.at, node.tests_first
    work = node.work
    charge = _charge(code, node.counted, work, at) if node.counted and node.is_charged_before else None

    def run(frame: Frame) -> int:
        if charge is not None:
            charge(frame)
        if not tests_first or condition(frame):
            while True:
                left = body(frame)
                if left == Exit.BREAK:
                    break
                if left >= Exit.RETURN:
                    return left
                step(frame)
                if charge is None:
                    spend(frame, work, at)
                if not condition(frame):
                    break
        return Exit.NEXT

    return run


def _charge(code: Expressions, counted: Counted, work: int, at: int) -> Callable[[Frame], None]:
    """Charges all rounds of a counted loop; a loop that would run past the range of its variable exceeds any budget."""
    bound, index, step = code.value(counted.bound), counted.variable.index, counted.step
    assert isinstance(counted.variable.type, Basic)
    low, high = limits(counted.variable.type)
    includes = int(counted.op in ("<=", ">="))

    def charge(frame: Frame) -> None:
        start, end = frame.slots[index], bound(frame) + includes * step
        rounds = (end - start) * step
        if rounds > 0:
            spend(frame, rounds * work if low <= end <= high else frame.budget + 1, at)

    return charge


def _return(value: Closure | None) -> Runner:
    def run(frame: Frame) -> int:
        if value is not None:
            frame.result = value(frame)
        return Exit.RETURN

    return run


def _jump(node: Jump) -> Runner:
    state, work, at = Exit.JUMP + node.state, node.work, node.at

    def run(frame: Frame) -> int:
        if work:
            spend(frame, work, at)
        return state

    return run


def _machine(code: Expressions, node: StateMachine) -> Runner:
    states = [_block([runner(code, statement) for statement in state]) for state in node.states]

    def run(frame: Frame) -> int:
        number = 0
        while number < len(states):
            left = states[number](frame)
            if left == Exit.RETURN:
                return Exit.RETURN
            number = left - Exit.JUMP if left >= Exit.JUMP else number + 1
        return Exit.NEXT

    return run
