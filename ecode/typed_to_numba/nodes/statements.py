"""Statements as text."""

from __future__ import annotations

from ecode.errors import NotCompilable, TrapKind
from ecode.semantics.arithmetic import limits
from ecode.typed import (
    Block,
    Break,
    Constant,
    Continue,
    Counted,
    Declare,
    Evaluate,
    Expression,
    If,
    Jump,
    Loop,
    Return,
    StateMachine,
    Statement,
)
from ecode.typed_to_numba.code import Code, LoopText, Range
from ecode.typed_to_numba.nodes.expressions import condition, evaluate, single, value
from ecode.typed_to_numba.stored import Scattered
from ecode.types import Basic

# CPython compiles twenty nested loops; the loop over events is one of them.
_MOST_LOOPS = 18
_MOST_WORK = 1 << 30


def write(code: Code, node: Statement) -> None:
    """Writes the lines of a statement."""
    emitter = code.emitter
    if not isinstance(node, Block | StateMachine):
        code.show_line(node.at)
    match node:
        case Evaluate():
            evaluate(code, node.expression)
        case Declare():
            _declare(code, node)
        case Block():
            for statement in node.statements:
                write(code, statement)
                if isinstance(statement, Return | Break | Continue | Jump):
                    break
        case If():
            _if(code, node)
        case Loop():
            _loop(code, node)
        case Break():
            emitter.line("break")
        case Continue():
            code.loops[-1].end_round()
            emitter.line("continue")
        case Return():
            code.finish(None if node.value is None else value(code, node.value))
        case Jump():
            if node.work:
                code.spend(str(node.work), node.at)
            emitter.line(f"state = {node.state}", "continue")
        case StateMachine():
            _machine(code, node)


def _declare(code: Code, node: Declare) -> None:
    site = code.variables[node.variable]
    # A number that is assigned at once needs no zero first.
    if not (isinstance(site, Scattered) and len(site.names) in (1, 2) and len(node.values) == 1 and not site.of):
        code.stored.clear(code.emitter, site)
    for assignment in node.values:
        evaluate(code, assignment)


def _if(code: Code, node: If) -> None:
    emitter = code.emitter
    word, rest = "if", node
    while True:
        test = condition(code, rest.condition)
        with emitter.block(f"{word} {test}:"):
            write(code, rest.then)
        otherwise = rest.otherwise
        if otherwise is None:
            return
        if not isinstance(otherwise, If) or _needs_lines(code, otherwise.condition):
            with emitter.block("else:"):
                write(code, otherwise)
            return
        word, rest = "elif", otherwise


def _needs_lines(code: Code, test: Expression) -> bool:
    """Whether a condition needs lines of its own, and so cannot be in an `elif`."""
    with code.emitter.captured() as lines:
        condition(code, test)
    return bool(lines)


def _loop(code: Code, node: Loop) -> None:
    emitter = code.emitter
    if len(code.loops) >= _MOST_LOOPS:
        raise NotCompilable(
            f"loops are nested more than {_MOST_LOOPS} levels deep",
            hint="the interpreter runs it; to have it compiled, nest less",
        )
    known = _range(code, node)
    if node.counted is not None and node.is_charged_before:
        _charge(code, node.counted, node.work, node.at)
    fill = code.fills.get(id(node))
    if fill is not None and fill.is_deferred:
        fill.instead(code, _bound(code, fill.fill.counted))
        return
    with emitter.captured() as test_lines:
        test = "True" if node.condition is None else condition(code, node.condition)
    is_simple = node.tests_first and not test_lines

    def end_round() -> None:
        if node.step is not None:
            _step(code, node, node.step)
        if not node.is_charged_before:
            code.spend(str(node.work), node.at)
        if not node.tests_first:
            leave_unless_true()

    def leave_unless_true() -> None:
        emitter.replay(test_lines)
        if test != "True":
            emitter.line(f"if not {test}:", "    break")

    with emitter.block(f"while {test}:" if is_simple else "while True:"):
        if node.tests_first and not is_simple:
            leave_unless_true()
        code.loops.append(LoopText(end_round))
        if known is not None:
            code.ranges[known.variable] = known
        write(code, node.body)
        if known is not None:
            del code.ranges[known.variable]
        code.loops.pop()
        end_round()
    if fill is not None:
        fill.rest(code, _bound(code, fill.fill.counted))


def _bound(code: Code, counted: Counted) -> str:
    return code.emitter.named(single(code, counted.bound))


def _step(code: Code, node: Loop, step: Expression) -> None:
    """The step of a loop. A counted loop that cannot leave its type needs no narrowing, which lets LLVM see how the
    loop moves addresses."""
    if node.counted is None or _may_wrap(node, node.counted):
        evaluate(code, step)
        return
    site = code.variables[node.counted.variable]
    assert isinstance(site, Scattered)
    (name,) = site.names
    code.emitter.line(f"{name} = {name} {'+' if node.counted.step > 0 else '-'} 1")


def _may_wrap(node: Loop, counted: Counted) -> bool:
    """Whether the variable of a counted loop may pass the end of its type. A loop that is charged before it begins is
    checked then; a loop that may leave early runs as far as its condition allows."""
    if node.is_charged_before:
        return False
    assert isinstance(counted.variable.type, Basic)
    low, high = limits(counted.variable.type)
    bound = counted.bound.value if isinstance(counted.bound, Constant) else None
    if isinstance(bound, int):
        return bound >= high + (counted.op == "<") or bound <= low - (counted.op == ">")
    return counted.op in ("<=", ">=") or counted.bound.type != counted.variable.type


def _range(code: Code, node: Loop) -> Range | None:
    """The range of a counted loop's variable in its body, by the loop's condition."""
    counted = node.counted
    if counted is None or counted.op != "<" or counted.variable in code.ranges:
        return None
    with code.emitter.captured() as lines:
        bound = single(code, counted.bound)
    if lines or not (bound.isidentifier() or bound.isdigit()):
        return None
    start = counted.start
    is_positive = isinstance(start, Constant) and isinstance(start.value, int) and start.value >= 0
    return Range(counted.variable, bound, is_positive and not _may_wrap(node, counted))


def _charge(code: Code, counted: Counted, work: int, at: int) -> None:
    """Charges all rounds of a counted loop; a loop that would run past the range of its variable exceeds any budget."""
    emitter = code.emitter
    site = code.variables[counted.variable]
    assert isinstance(site, Scattered)
    assert isinstance(counted.variable.type, Basic)
    start, bound = site.names[0], _bound(code, counted)
    is_up = counted.step > 0
    with emitter.block(f"if {start} {counted.op} {bound}:"):
        low, high = limits(counted.variable.type)
        last = f"{bound} {'+' if is_up else '-'} 1" if counted.op in ("<=", ">=") else bound
        rounds = emitter.temp(f"{last} - {start}" if is_up else f"{start} - ({last})")
        # The difference of two int64 may wrap around to a negative number, which counts as larger than any budget.
        endless = [f"{rounds} < 0"]
        if counted.op in ("<=", ">="):
            endless.append(f"{bound} == {high if is_up else f'({low + 1} - 1)'}")
        if counted.variable.type.size < 8:
            endless.append(f"{bound} > {high}" if is_up else f"{bound} < {low}")
        if work > 1 and counted.variable.type.size < 8 and work < _MOST_WORK:
            endless.append(f"{rounds} * {work} > budget")  # at most 2^32 rounds are left: the product does not wrap
        else:
            endless.append(f"{rounds} > quotient_int64(budget, {work})" if work > 1 else f"{rounds} > budget")
        emitter.trap(" or ".join(endless), TrapKind.BUDGET_EXCEEDED, at)
        emitter.line(f"budget -= {rounds} * {work}" if work > 1 else f"budget -= {rounds}")


def _machine(code: Code, node: StateMachine) -> None:
    emitter = code.emitter
    emitter.line("state = 0")
    with emitter.block("while True:"):
        for number, state in enumerate(node.states):
            with emitter.block(f"if state <= {number}:"):
                for statement in state:
                    write(code, statement)
        emitter.line("break")
