"""The implicit conversions (ecode-language 5)."""

from __future__ import annotations

from ecode.semantics.arithmetic import convert, plain
from ecode.syntax_to_typed.context import Context
from ecode.typed import Constant, Convert, Expression, StringPointer, ValueType
from ecode.types import CHAR, INT64, STRING, Basic, Kind, Pointer, Ref


def number_type(type_: ValueType | None) -> Basic | None:
    """The plain type of a number; None for anything else."""
    return plain(type_) if isinstance(type_, Basic) else None


def is_integer(type_: ValueType | None) -> bool:
    number = number_type(type_)
    return number is not None and number.kind is not Kind.FLOAT


def is_null(node: Expression) -> bool:
    """`NULL`, or a literal zero, which means the same beside a pointer."""
    return isinstance(node, Constant) and (node.value is None or (node.value == 0 and is_integer(node.type)))


def called(type_: ValueType | None, context: Context) -> str:
    """The name of a type, for messages."""
    match type_:
        case None:
            return "void"
        case Ref():
            return f"record {type_.name}"
        case Pointer():
            return f"pointer to {called(type_.target, context)}"
        case Basic(Kind.STRING):
            return "string"
        case Basic() if plain(type_) is None:
            return f"{type_} (which has no E-code type)"
        case Basic(Kind.FLOAT):
            return "float" if type_.size == 4 else "double"
        case Basic(Kind.INTEGER | Kind.UNSIGNED):
            word = {1: "char", 2: "short", 4: "int", 8: "long"}[type_.size]
            return word if type_.kind is Kind.INTEGER else f"unsigned {word}"
    return str(type_)


def to_number(node: Expression, type_: Basic) -> Expression:
    """A number as a plain number type; constants are converted at once."""
    if node.type == type_:
        return node
    if isinstance(node, Constant) and isinstance(node.value, int | float):
        return Constant(node.at, type_, convert(node.value, type_))
    return Convert(node.at, type_, node)


def to_index(context: Context, node: Expression) -> Expression:
    if not is_integer(node.type):
        raise context.wrong_type(node.at, f"an index must be an integer, not {called(node.type, context)}")
    return to_number(node, INT64)


def assignable(context: Context, node: Expression, type_: ValueType, at: int, what: str) -> Expression:
    """The value converted as by assignment to a place of the type; `what` names the place in the mistake."""
    number = number_type(type_)
    if number is not None and number_type(node.type) is not None:
        return to_number(node, number)
    if isinstance(type_, Pointer):
        if is_null(node):
            return Constant(node.at, type_, None)
        if node.type == type_ or (isinstance(node.type, Pointer) and _same_target(node.type, type_)):
            return node
        if node.type == STRING and number_type(type_.target) in (plain(CHAR),):
            return StringPointer(node.at, type_, node)
    elif node.type == type_:
        return node
    elif type_ == STRING and isinstance(node, Constant) and node.value is None:
        return Constant(node.at, STRING, None)
    hint = ""
    if type_ == STRING and number is None and number_type(node.type) is not None:
        hint = "a number does not convert to a string"
    elif node.type == STRING and number is not None:
        hint = "a string does not convert to a number"
    message = f"{what} is {called(type_, context)}, but the value is {called(node.type, context)}"
    raise context.wrong_type(at, message, hint)


def _same_target(left: Pointer, right: Pointer) -> bool:
    """Pointers to the same plain number type are the same type (`char`, `signed char`, a field of either)."""
    return number_type(left.target) is not None and number_type(left.target) == number_type(right.target)
