"""Calls of host and library functions: arguments against prototypes."""

from __future__ import annotations

from ecode.environment import Function
from ecode.semantics import printf
from ecode.semantics.arithmetic import promote
from ecode.syntax_to_typed.context import Context
from ecode.syntax_to_typed.conversions import assignable, called, number_type, to_number
from ecode.typed import ATTR_LIST, Call, Constant, Expression, ValueType
from ecode.types import CHAR, FLOAT32, FLOAT64, STRING, Basic, Pointer


def call(context: Context, function: Function, arguments: list[Expression], at: int) -> Call:
    """A call with its arguments converted to the parameters' types."""
    wanted, given = len(function.parameters), len(arguments)
    if given < wanted or (given > wanted and not function.is_variadic):
        takes = f"at least {wanted}" if function.is_variadic else str(wanted)
        plural = "argument" if takes == "1" else "arguments"
        raise context.wrong_type(at, f"{function.name!r} takes {takes} {plural}, not {given}")
    converted = [
        assignable(context, argument, value_type(parameter), argument.at, f"argument {position} of {function.name!r}")
        for position, (argument, parameter) in enumerate(zip(arguments, function.parameters, strict=False), 1)
    ]
    converted += [_promoted(context, argument) for argument in arguments[wanted:]]
    if function.is_variadic and function.parameters == (STRING,):
        _check_format(context, converted)
    context.functions[function.name] = function
    returns = None if function.returns is None else _loaded(value_type(function.returns))
    return Call(at, returns, function, tuple(converted))


def value_type(declared: Basic | str) -> ValueType:
    if isinstance(declared, Basic):
        return declared
    return ATTR_LIST if declared == "attr_list" else Pointer(CHAR)


def _loaded(type_: ValueType) -> ValueType:
    return number_type(type_) or type_


def _promoted(context: Context, argument: Expression) -> Expression:
    number = number_type(argument.type)
    if number is not None:
        return to_number(argument, FLOAT64 if number == FLOAT32 else promote(number))
    if argument.type != STRING:
        raise context.wrong_type(argument.at, f"cannot pass {called(argument.type, context)} here")
    return argument


def _check_format(context: Context, arguments: list[Expression]) -> None:
    """Checks the arguments of `printf` against its format, which must be a literal."""
    form, *rest = arguments
    if not isinstance(form, Constant) or not isinstance(form.value, bytes):
        raise context.wrong_type(form.at, "the format must be a string literal")
    try:
        directives = printf.directives(form.value)
    except ValueError as bad:
        raise context.wrong_type(form.at, str(bad)) from None
    if len(directives) != len(rest):
        raise context.wrong_type(form.at, f"the format takes {len(directives)} values, but {len(rest)} are given")
    for directive, argument in zip(directives, rest, strict=True):
        number = number_type(argument.type)
        if directive.takes != ("string" if number is None else "float" if number == FLOAT64 else "integer"):
            message = f"{directive.text!r} takes a {directive.takes}, not {called(argument.type, context)}"
            raise context.wrong_type(argument.at, message)
