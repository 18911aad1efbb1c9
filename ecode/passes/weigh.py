"""Computes the cost of each loop, each backward jump and the program by their text (`ecode.analysis.work`)."""

from __future__ import annotations

from dataclasses import replace

from ecode.analysis.work import Work, fixed_work
from ecode.typed import Block, If, Jump, Loop, StateMachine, Statement, TypedProgram, walk

FREE = 10_000
"""Below this cost, a program is not charged if it has no loops and its cost does not depend on the event."""


def weigh(program: TypedProgram) -> TypedProgram:
    """The program with `Loop.work`, `Jump.work` and `TypedProgram.work` filled."""
    weights = _Weights(program)
    body, work = weights.statement(program.body)
    work += fixed_work(program)
    if isinstance(program.body, StateMachine):
        work += sum(weights.work.value(variable.type) for variable in program.variables)
    is_free = work < FREE and not any(
        isinstance(node, Loop) or (isinstance(node, Jump) and node.work) or weights.work.is_charged_later(node)
        for node in walk(program.body)
    )
    return replace(program, body=body, work=0 if is_free else work)


class _Weights:
    def __init__(self, program: TypedProgram) -> None:
        self.work = Work(program.structs)

    def statement(self, node: Statement) -> tuple[Statement, int]:
        """A statement with its loops weighed, and its maximal cost without their rounds."""
        match node:
            case Block():
                statements, total = self._all(node.statements)
                return replace(node, statements=statements), total
            case If():
                then, work = self.statement(node.then)
                condition = self.work.tree(node.condition)
                if node.otherwise is None:
                    return replace(node, then=then), condition + work
                otherwise, other = self.statement(node.otherwise)
                return replace(node, then=then, otherwise=otherwise), condition + max(work, other)
            case Loop():
                return self._loop(node)
            case StateMachine():
                return self._machine(node)
        return node, self.work.tree(node)

    def _all(self, statements: tuple[Statement, ...]) -> tuple[tuple[Statement, ...], int]:
        weighed = [self.statement(statement) for statement in statements]
        return tuple(statement for statement, _ in weighed), sum(work for _, work in weighed)

    def _loop(self, node: Loop) -> tuple[Statement, int]:
        body, once = self.statement(node.body)
        test = 0 if node.condition is None else self.work.tree(node.condition)
        once += 1 + test + (0 if node.step is None else self.work.tree(node.step))
        # Rounds charged at their end do not include the last round.
        return replace(node, body=body, work=once), 1 + test + (0 if node.is_charged_before else once)

    def _machine(self, node: StateMachine) -> tuple[Statement, int]:
        weighed = [self._all(state) for state in node.states]
        before = [0]
        for _, work in weighed:
            before.append(before[-1] + work + 1)

        def charged(statement: Statement, here: int) -> Statement:
            match statement:
                case Jump(state=target) if statement.work:
                    return replace(statement, work=before[here + 1] - before[target])
                case If():
                    return replace(statement, then=charged(statement.then, here))
            return statement

        states = tuple(
            tuple(charged(statement, here) for statement in state) for here, (state, _) in enumerate(weighed)
        )
        return replace(node, states=states), before[-1]
