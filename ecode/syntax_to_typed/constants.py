"""Constant expressions: the values of extents, enumerators and initial values of statics."""

from __future__ import annotations

from ecode.semantics.arithmetic import Number, compare, compute, convert, wrap
from ecode.syntax import tree as syntax
from ecode.syntax_to_typed.context import Context
from ecode.typed import Arithmetic, Choice, Compare, Constant, Convert, Expression, Invert, Logical, Negate, Not


class NotConstant(Exception):  # noqa: N818  (private: it becomes a diagnostic)
    """Not constant, because of the part at `at`."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


def integer(context: Context, node: syntax.Expression, what: str) -> int:
    """The value of a constant integer expression."""
    from ecode.syntax_to_typed.expressions import value

    result = constant(context, value(context, node), what)
    if not isinstance(result, int):
        raise context.wrong_type(node.at, f"{what} must be an integer")
    return result


def constant(context: Context, expression: Expression, what: str) -> Number | bytes | None:
    """The value of a typed constant expression; reports a type mistake if the expression is not constant."""
    try:
        return fold(expression)
    except NotConstant as found:
        raise context.wrong_type(found.at, f"{what} must be constant", str(found)) from None


def fold(node: Expression) -> Number | bytes | None:
    """The value of an expression that depends on nothing.

    Raises:
        NotConstant: it depends on something, or divides by zero.
    """
    match node:
        case Constant():
            return node.value
        case Convert():
            return convert(_number(node.value), node.type)
        case Negate():
            value = _number(node.value)
            return wrap(-value, node.type) if isinstance(value, int) else -value
        case Invert():
            return wrap(~int(_number(node.value)), node.type)
        case Arithmetic():
            try:
                return compute(node.op, _number(node.left), _number(node.right), node.type)
            except ZeroDivisionError:
                raise NotConstant(node.at, "the constant divides by zero") from None
        case Compare():
            left, right = fold(node.left), fold(node.right)
            if isinstance(left, int | float) and isinstance(right, int | float):
                return compare(node.op, left, right)
            return int((left == right) == (node.op == "=="))
        case Not():
            return int(not _truth(node.value))
        case Logical():
            left_truth = _truth(node.left)
            if left_truth == (node.op == "||"):
                return int(left_truth)
            return int(_truth(node.right))
        case Choice():
            return fold(node.then if _truth(node.condition) else node.otherwise)
    raise NotConstant(node.at, "its value is known only when the program runs")


def _number(node: Expression) -> Number:
    value = fold(node)
    if not isinstance(value, int | float):
        raise NotConstant(node.at, "this is not a number")
    return value


def _truth(node: Expression) -> bool:
    value = fold(node)
    return value is not None and (isinstance(value, bytes) or value != 0)
