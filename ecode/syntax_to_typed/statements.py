"""Statements and declarations; `syntax_to_typed`, the entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ecode.environment import Function, Mode, Param, Vocabulary
from ecode.errors import Diagnostic, ParameterError
from ecode.limits import Limits
from ecode.semantics.arithmetic import limits as limits_of
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.semantics.values import zero
from ecode.syntax import tree as syntax
from ecode.syntax_to_typed import constants, operators
from ecode.syntax_to_typed.context import Context, Mistake, Poisoned
from ecode.syntax_to_typed.conversions import assignable, number_type
from ecode.syntax_to_typed.expressions import expression, value
from ecode.syntax_to_typed.initialisers import initialised, open_extent
from ecode.syntax_to_typed.record_types import add_record
from ecode.syntax_to_typed.specifiers import Specified, check_size, declared, specified
from ecode.typed import (
    ATTR_LIST,
    Assign,
    Block,
    Break,
    Constant,
    Continue,
    CopyRecord,
    Declare,
    Element,
    Evaluate,
    Expression,
    FieldOf,
    Goto,
    If,
    Label,
    Local,
    Loop,
    Place,
    Return,
    Statement,
    TypedProgram,
    ValueType,
    Variable,
)
from ecode.types import INT32, INT64, STRING, UINT64, Array, Basic, Record, Ref


def syntax_to_typed(
    tree: syntax.Tree,
    params: Sequence[Param],
    returns: Basic | None,
    vocabulary: Vocabulary,
    limits: Limits,
) -> tuple[TypedProgram, list[Diagnostic]]:
    """Types a program.

    Args:
        tree: the result of `text_to_syntax`.
        params: the parameters in call order.
        returns: the type of the result, None for void.
        vocabulary: the other names that the program may use.
        limits: bounds on what a program may declare.

    Returns:
        The typed program and its mistakes; after a mistake the program is incomplete and fit only for more checks.

    Raises:
        ParameterError: the parameters of the host are invalid.
        CompileError: there are as many mistakes as `limits` allows.
    """
    context = Context(tree.source, returns, limits)
    context.hints.update(vocabulary.hints)
    outermost = context.scopes[0].names
    outermost["NULL"] = Constant(0, INT32, 0)
    outermost.update({name: _host_constant(name, number) for name, number in vocabulary.constants.items()})
    outermost.update({function.name: function for function in vocabulary.functions})
    context.scopes[0].types["attr_list"] = ATTR_LIST
    _add_types(context, params, vocabulary.records)
    with context.scope():
        statements = _items(context, tree.body)
    program = TypedProgram(
        tree.source,
        tuple(param for param in params if param.mode is not Mode.STATE),
        context.param_types,
        context.structs,
        number_type(returns) or returns,
        tuple(context.variables),
        tuple(context.functions.values()),
        Block(tree.body.at, statements),
    )
    return program, context.mistakes


def _host_constant(name: str, number: int) -> Constant:
    for type_ in (INT32, INT64, UINT64):
        low, high = limits_of(type_)
        if low <= number <= high:
            return Constant(0, type_, number)
    raise ParameterError(
        f"the constant {name!r} does not fit 64 bits", hint="a constant is an integer of 64 bits, a float or a string"
    )


def _add_types(context: Context, params: Sequence[Param], records: Iterable[Record]) -> None:
    for param in params:
        if param.name in context.param_types:
            raise ParameterError(f"two parameters have the name {param.name!r}", hint="give one of them another name")
        if isinstance(param.type, Record):
            context.param_types[param.name] = add_record(context, param.name, param.type)
        elif param.mode in (Mode.OUT, Mode.STATE):
            what = "an output" if param.mode is Mode.OUT else "the state"
            raise ParameterError(f"{param.name!r} is a scalar and cannot be {what}", "make it a field of a record")
        else:
            context.param_types[param.name] = param.type
        context.scopes[0].names[param.name] = _state(context, param) if param.mode is Mode.STATE else param
    for record in records:
        add_record(context, record.name, record)
    for name in context.structs:
        context.scopes[0].types.setdefault(name, Ref(name))


def _state(context: Context, param: Param) -> Variable:
    """A parameter of mode `state`: a static variable that the host declares."""
    type_ = context.param_types[param.name]
    found = _never_static(context, type_, param.name)
    if found is not None:
        hint = "it holds numbers, strings, and fixed arrays and records of these"
        raise ParameterError(f"{found[0]}: state cannot hold {found[1]}", hint)
    context.local_bytes += MEMORY_LAYOUT.size(type_, context.structs)
    variable = Variable(param.name, len(context.variables), type_, True, False, 0, is_shared=True)
    context.variables.append(variable)
    return variable


def _items(context: Context, block: syntax.Block) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for item in block.items:
        # One mistake ends one statement, not the others.
        with suppress(Mistake):
            if isinstance(item, syntax.Declaration):
                found += _declaration(context, item)
            else:
                found.append(_statement(context, item))
    return tuple(found)


def _statement(context: Context, node: syntax.Statement) -> Statement:
    match node:
        case syntax.Block():
            with context.scope():
                return Block(node.at, _items(context, node))
        case syntax.ExpressionStatement(expression=None):
            return Block(node.at, ())
        case syntax.ExpressionStatement(expression=given) if given is not None:
            return Evaluate(node.at, expression(context, given))
        case syntax.If():
            return _if(context, node)
        case syntax.Loop():
            return _loop(context, node)
        case syntax.Label():
            return Label(node.at, node.name, _statement(context, node.statement))
        case syntax.Goto():
            return Goto(node.at, node.label)
        case syntax.Break() | syntax.Continue():
            word = "break" if isinstance(node, syntax.Break) else "continue"
            if context.loops == 0:
                raise context.wrong_type(node.at, f"{word!r} is outside a loop")
            return Break(node.at) if word == "break" else Continue(node.at)
        case syntax.Return():
            try:
                return _return(context, node)
            except Mistake:
                return Return(node.at, None)
    raise AssertionError(node)


def _guarded(context: Context, node: syntax.Statement) -> Statement:
    """A statement; an empty one after a mistake, so that the statements around it are still checked."""
    try:
        with context.scope():
            return _statement(context, node)
    except Mistake:
        return Block(node.at, ())


def _condition(context: Context, node: syntax.Expression) -> Expression:
    try:
        return operators.truth(context, value(context, node))
    except Mistake:
        return Constant(node.at, INT32, 0)


def _if(context: Context, node: syntax.If) -> If:
    condition = _condition(context, node.condition)
    then = _guarded(context, node.then)
    otherwise = None if node.otherwise is None else _guarded(context, node.otherwise)
    return If(node.at, condition, then, otherwise)


def _loop(context: Context, node: syntax.Loop) -> Statement:
    start: tuple[Statement, ...] = ()
    if node.start is not None:
        with suppress(Mistake):
            start = (Evaluate(node.start.at, expression(context, node.start)),)
    condition = None if node.condition is None else _condition(context, node.condition)
    step = None
    if node.step is not None:
        with suppress(Mistake):
            step = expression(context, node.step)
    context.loops += 1
    try:
        body = _guarded(context, node.body)
    finally:
        context.loops -= 1
    loop = Loop(node.at, condition, step, body, node.tests_first)
    return Block(node.at, (*start, loop)) if start else loop


def _return(context: Context, node: syntax.Return) -> Return:
    if node.value is None:
        if context.returns is not None:
            raise context.wrong_type(node.at, "the return needs a value")
        return Return(node.at, None)
    given = value(context, node.value)
    if context.returns is None:
        raise context.wrong_type(node.at, "a void program returns no value", "write 'return;'")
    return Return(node.at, assignable(context, given, context.returns, node.value.at, "the result"))


# Declarations


def _declaration(context: Context, node: syntax.Declaration) -> Iterator[Statement]:
    try:
        spec = specified(context, node.specifiers)
    except Mistake:
        for one in node.declarators:
            context.scopes[-1].names.setdefault(one.declarator.name, Poisoned())
        raise
    for one in node.declarators:
        try:
            yield from _declared(context, spec, one)
        except Mistake:
            context.scopes[-1].names.setdefault(one.declarator.name, Poisoned())


def _declared(context: Context, spec: Specified, node: syntax.InitDeclarator) -> Iterator[Statement]:
    declarator = node.declarator
    name, at = declarator.name, declarator.at
    if spec.is_extern or declarator.prototype:
        known = context.find(name, at)
        if declarator.prototype and not isinstance(known, Function):
            raise context.wrong_type(at, f"{name!r} is not a function")
        return
    type_, is_open = declared(context, spec.type, declarator)
    if spec.is_typedef:
        if node.value is not None:
            raise context.wrong_type(at, "a typedef has no value")
        context.scopes[-1].types[name] = type_
        return
    if is_open:
        assert isinstance(type_, Array)
        if node.value is None:
            raise context.wrong_type(at, "the extent is missing")
        type_ = Array(type_.element, (open_extent(context, node.value), *type_.dims[1:]))
    context.local_bytes += check_size(context, type_, at)
    if context.local_bytes > context.limits.local_bytes:
        raise context.wrong_type(at, f"the variables take more than {context.limits.local_bytes:,} bytes")
    if isinstance(type_, Basic) and type_ != STRING and number_type(type_) is None:
        raise context.wrong_type(at, f"a variable cannot have type {type_}")
    if spec.is_static:
        _check_static(context, type_, at)
    variable = Variable(name, len(context.variables), type_, spec.is_static, spec.is_const, at)
    context.variables.append(variable)
    if node.value is None:
        context.declare(name, variable, at)
        if not spec.is_static:
            yield Declare(at, variable, ())
        return
    # In its own initial value a name still has its outer meaning.
    values: tuple[Assign | CopyRecord, ...] = ()
    try:
        values = initialised(context, Local(at, type_, variable), node.value)
        if spec.is_static:
            variable = replace(variable, initial=_static_value(context, type_, values))
            context.variables[variable.index] = variable
    finally:
        context.declare(name, variable, at)
    if not spec.is_static:
        yield Declare(at, variable, values)


def _check_static(context: Context, type_: ValueType, at: int) -> None:
    if _never_static(context, type_, "") is not None:
        raise context.wrong_type(at, "a static variable holds only numbers, strings, and arrays and records of these")


def _never_static(context: Context, type_: ValueType, path: str) -> tuple[str, ValueType] | None:
    """The part of a type that no static variable can hold, and its path."""
    match type_:
        case Array() if not type_.is_dynamic:
            return _never_static(context, type_.element, f"{path}[]")
        case Ref():
            fields = context.structs[type_.name].fields
            found = (_never_static(context, field.type, f"{path}.{field.name}") for field in fields)
            return next((each for each in found if each is not None), None)
        case Basic() if type_ == STRING or number_type(type_) is not None:
            return None
    return path, type_


def _static_value(context: Context, type_: ValueType, values: tuple[Assign | CopyRecord, ...]) -> object:
    """The plain value of a static variable after its initial assignments."""
    holder: dict[str, Any] = {"": zero(type_, context.structs)}
    for one in values:
        if isinstance(one, CopyRecord):
            raise context.wrong_type(one.at, "the initial value of a static must be constant")
        container, key = _slot(holder, one.place)
        container[key] = constants.constant(context, one.value, "the initial value of a static")
    return holder[""]


def _slot(holder: dict[str, Any], place: Place) -> tuple[Any, Any]:
    """The container and key of a place with a constant path inside a plain value."""
    match place:
        case FieldOf():
            container, key = _slot(holder, place.record)
            return container[key], place.name
        case Element(index=Constant(value=int(position))):
            container, key = _slot(holder, place.array)
            return container[key], position
    return holder, ""
