"""Operators on typed operands (ecode-language 6.3)."""

from __future__ import annotations

from ecode.semantics.arithmetic import is_floating, promote, usual
from ecode.syntax_to_typed.context import Context
from ecode.syntax_to_typed.conversions import called, is_integer, is_null, number_type, to_index, to_number
from ecode.typed import (
    ATTR_LIST,
    Arithmetic,
    Choice,
    Compare,
    Constant,
    Expression,
    FieldOf,
    Invert,
    Logical,
    Negate,
    Not,
    PointerAdd,
    PointerDifference,
    Read,
    StringPointer,
    ValueType,
)
from ecode.types import CHAR, INT32, INT64, STRING, Pointer

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_INTEGER_ONLY = ("%", "&", "|", "^", "<<", ">>")


def truth(context: Context, node: Expression) -> Expression:
    """An operand of a condition: a number, a string, a pointer or a handle."""
    if number_type(node.type) is None and node.type not in (STRING, ATTR_LIST) and not isinstance(node.type, Pointer):
        raise context.wrong_type(node.at, f"a condition cannot be {called(node.type, context)}")
    return node


def unary(context: Context, op: str, operand: Expression, at: int) -> Expression:
    """`+ - ~ !`."""
    if op == "!":
        return Not(at, INT32, truth(context, operand))
    type_ = number_type(operand.type)
    if type_ is None or (op == "~" and is_floating(type_)):
        raise context.wrong_type(at, f"{op!r} does not take {called(operand.type, context)}")
    type_ = promote(type_)
    operand = to_number(operand, type_)
    if op == "+":
        return operand
    return Negate(at, type_, operand) if op == "-" else Invert(at, type_, operand)


_TIMES = {
    "date": "a date is a number here: the days since 1970-01-01",
    "timestamp": "a timestamp is a number here: the microseconds since 1970-01-01, UTC",
    "timestamp_ntz": "a timestamp is a number here: the microseconds since 1970-01-01",
}
"""What a field of a logical type holds, where its author may expect a string."""


def binary(context: Context, op: str, left: Expression, right: Expression, at: int) -> Expression:
    """All binary operators except assignment and comma."""
    if op in ("&&", "||"):
        return Logical(at, INT32, op, truth(context, left), truth(context, right))
    if isinstance(left.type, Pointer) or isinstance(right.type, Pointer):
        return _with_pointer(context, op, left, right, at)
    if STRING in (left.type, right.type):
        return _with_string(context, op, left, right, at)
    left_type, right_type = number_type(left.type), number_type(right.type)
    if left_type is None or right_type is None:
        wrong = left if left_type is None else right
        raise context.wrong_type(at, f"{op!r} does not take {called(wrong.type, context)}")
    if op in _INTEGER_ONLY and (is_floating(left_type) or is_floating(right_type)):
        raise context.wrong_type(at, f"{op!r} takes integers only", "cast the operand: (int)x" if op != "%" else "")
    if op in ("<<", ">>"):
        type_ = promote(left_type)
        return Arithmetic(at, type_, op, to_number(left, type_), to_number(right, INT64))
    common = usual(left_type, right_type)
    left, right = to_number(left, common), to_number(right, common)
    if op in _COMPARISONS:
        return Compare(at, INT32, op, left, right)
    return Arithmetic(at, common, op, left, right)


def _with_string(context: Context, op: str, left: Expression, right: Expression, at: int) -> Expression:
    if op in ("==", "!="):
        if left.type == right.type:
            return Compare(at, INT32, op, left, right)
        other = right if left.type == STRING else left
        if is_null(other):
            absent = Constant(other.at, STRING, None)
            pair = (left, absent) if other is right else (absent, right)
            return Compare(at, INT32, op, *pair)
    hint = "strings can be compared with == and !=" if op in _COMPARISONS else ""
    if number_type(left.type) or number_type(right.type):
        hint = _time_of(context, left) or _time_of(context, right) or "a string does not convert to a number"
    raise context.wrong_type(at, f"{op!r} does not take strings", hint)


def _time_of(context: Context, node: Expression) -> str:
    """A hint for a field that holds a date or a time; empty for anything else."""
    place = node.place if isinstance(node, Read) else None
    field = context.structs[place.struct].find(place.name) if isinstance(place, FieldOf) else None
    return "" if field is None else _TIMES.get(field.notes.logical or "", "")


def as_pointer(node: Expression) -> Expression:
    """A string as `char *`, if the other operand is a pointer."""
    return StringPointer(node.at, Pointer(CHAR), node) if node.type == STRING else node


def _with_pointer(context: Context, op: str, left: Expression, right: Expression, at: int) -> Expression:
    left, right = as_pointer(left), as_pointer(right)
    if isinstance(left.type, Pointer) and isinstance(right.type, Pointer):
        if number_type(left.type.target) != number_type(right.type.target) or (
            number_type(left.type.target) is None and left.type != right.type
        ):
            raise context.wrong_type(at, "the pointers point to different types")
        if op in _COMPARISONS:
            return Compare(at, INT32, op, left, right)
        if op == "-":
            return PointerDifference(at, INT64, left, right)
    elif op in ("==", "!=") and (is_null(left) or is_null(right)):
        pointer, other = (left, right) if isinstance(left.type, Pointer) else (right, left)
        return Compare(at, INT32, op, pointer, Constant(other.at, pointer.type or STRING, None))
    elif op in ("+", "-") and isinstance(left.type, Pointer) and is_integer(right.type):
        return step_pointer(context, left, op, right, at)
    elif op == "+" and isinstance(right.type, Pointer) and is_integer(left.type):
        return step_pointer(context, right, op, left, at)
    raise context.wrong_type(at, f"{op!r} does not take a pointer here")


def step_pointer(context: Context, pointer: Expression, op: str, offset: Expression, at: int) -> Expression:
    assert isinstance(pointer.type, Pointer)
    distance = to_index(context, offset)
    return PointerAdd(at, pointer.type, pointer, Negate(at, INT64, distance) if op == "-" else distance)


def choice(context: Context, condition: Expression, then: Expression, otherwise: Expression, at: int) -> Expression:
    """`?:`, with the usual conversions of both arms."""
    condition = truth(context, condition)
    then_type, otherwise_type = number_type(then.type), number_type(otherwise.type)
    if then_type is not None and otherwise_type is not None:
        common = usual(then_type, otherwise_type)
        return Choice(at, common, condition, to_number(then, common), to_number(otherwise, common))
    if _may_be_null(then.type) and is_null(otherwise):
        otherwise = Constant(otherwise.at, then.type or STRING, None)
    elif _may_be_null(otherwise.type) and is_null(then):
        then = Constant(then.at, otherwise.type or STRING, None)
    if then.type != otherwise.type:
        arms = f"{called(then.type, context)} and {called(otherwise.type, context)}"
        raise context.wrong_type(at, f"the two results are {arms}")
    return Choice(at, then.type, condition, then, otherwise)


def _may_be_null(type_: ValueType | None) -> bool:
    return isinstance(type_, Pointer) or type_ == STRING
