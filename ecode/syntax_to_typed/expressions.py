"""Expressions and places, from syntax to typed nodes."""

from __future__ import annotations

from ecode.environment import Function, Mode, Param
from ecode.semantics.arithmetic import limits, promote, usual
from ecode.semantics.layout import C_LAYOUT
from ecode.suggest import did_you_mean
from ecode.syntax import tree as syntax
from ecode.syntax_to_typed import operators
from ecode.syntax_to_typed.calls import call
from ecode.syntax_to_typed.context import Context
from ecode.syntax_to_typed.conversions import assignable, called, is_null, number_type, to_index, to_number
from ecode.syntax_to_typed.copying import copy_record
from ecode.syntax_to_typed.specifiers import type_named
from ecode.typed import (
    AddressOf,
    Assign,
    Character,
    CompoundAssign,
    Constant,
    Element,
    Expression,
    FieldOf,
    Local,
    Parameter,
    Place,
    PointerAdd,
    Present,
    Read,
    Sequence,
    Target,
    Unset,
    Variable,
    is_of_input,
    place_text,
    root,
)
from ecode.types import CHAR, FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, UINT64, Array, Basic, Pointer, Record, Ref

MOST_NAMES = 12
"""The most fields that a hint names."""


def expression(context: Context, node: syntax.Expression) -> Expression:
    """An expression; its type is None if it has no value."""
    match node:
        case syntax.Assign():
            return _assign(context, node)
        case syntax.Comma():
            *before, last = [expression(context, part) for part in node.parts]
            return Sequence(node.at, last.type, tuple(before), last)
        case syntax.Call():
            return _call(context, node)
        case syntax.Conditional():
            condition = value(context, node.condition)
            then, otherwise = expression(context, node.then), expression(context, node.otherwise)
            return operators.choice(context, condition, then, otherwise, node.at)
    resolved = resolve(context, node)
    return _load(context, resolved) if isinstance(resolved, Place) else resolved


def value(context: Context, node: syntax.Expression) -> Expression:
    """An expression that has a value."""
    result = expression(context, node)
    if result.type is None:
        raise context.wrong_type(node.at, "this has no value", "the function is void")
    return result


def place(context: Context, node: syntax.Expression) -> Place:
    """A place; anything else is a type mistake."""
    resolved = resolve(context, node)
    if not isinstance(resolved, Place):
        raise context.wrong_type(node.at, "this is a value, not a place", "name a variable, a field or an element")
    return resolved


def resolve(context: Context, node: syntax.Expression) -> Place | Expression:
    """A place if the expression is one, else a value."""
    match node:
        case syntax.NumberLiteral():
            return _number(node)
        case syntax.CharacterLiteral():
            return Constant(node.at, INT32, node.value)
        case syntax.StringLiteral():
            return Constant(node.at, STRING, node.value)
        case syntax.Name():
            return _name(context, node)
        case syntax.Member():
            return field(context, _record(context, node.record, node.at), node.name, node.at)
        case syntax.Index():
            return _index(context, node)
        case syntax.Unary(op="*"):
            pointer = operators.as_pointer(value(context, node.operand))
            return _target(context, pointer, node.at)
        case syntax.Unary(op="&"):
            return _address(context, node)
        case syntax.Unary():
            return operators.unary(context, node.op, value(context, node.operand), node.at)
        case syntax.Binary():
            left = value(context, node.left)
            return operators.binary(context, node.op, left, value(context, node.right), node.at)
        case syntax.Increment():
            return _step(context, node)
        case syntax.Cast():
            return _cast(context, node)
        case syntax.SizeOf():
            return Constant(node.at, INT32, _size(context, node.operand))
        case _:
            return value(context, node)


def _number(node: syntax.NumberLiteral) -> Constant:
    if isinstance(node.value, float):
        type_ = FLOAT32 if node.suffix == "f" else FLOAT64
        constant = Constant(node.at, FLOAT64, node.value)
        converted = to_number(constant, type_)
        assert isinstance(converted, Constant)
        return converted
    is_unsigned, is_long = "u" in node.suffix, "l" in node.suffix
    candidates: list[Basic] = [UINT32, UINT64] if is_unsigned else [INT32, UINT32, INT64, UINT64]
    if node.decimal and not is_unsigned:
        candidates.remove(UINT32)
    for type_ in candidates:
        if node.value <= limits(type_)[1] and not (is_long and type_.size < 8):
            return Constant(node.at, type_, node.value)
    raise AssertionError("the parser refuses numbers beyond 64 bits")


def _name(context: Context, node: syntax.Name) -> Place | Expression:
    match context.find(node.name, node.at):
        case Variable() as variable:
            return Local(node.at, variable.type, variable)
        case Param() as param:
            return Parameter(node.at, context.param_types[param.name], param)
        case Constant() as constant:
            return Constant(node.at, constant.type, constant.value)
        case Function():
            raise context.wrong_type(node.at, f"{node.name!r} is a function", "call it: " + node.name + "(...)")
    raise AssertionError(node.name)


def _load(context: Context, place: Place) -> Expression:
    """The value of a place, as an operand."""
    type_ = place.type
    number = number_type(type_)
    if number is not None:
        return Read(place.at, number, place)
    if isinstance(type_, Array):
        if len(type_.dims) > 1:
            raise context.wrong_type(place.at, "an array of arrays is not a value", "index it, or point to an element")
        return AddressOf(place.at, Pointer(type_.element), place, is_decay=True)
    if isinstance(type_, Ref) or (isinstance(type_, Basic) and type_ != STRING):
        hint = "use one of its fields" if isinstance(type_, Ref) else ""
        raise context.wrong_type(place.at, f"{called(type_, context)} is not a value", hint)
    return Read(place.at, type_, place)


def _record(context: Context, node: syntax.Expression, at: int) -> Place:
    """The operand before `.` or `->`: a record, or a pointer to one."""
    resolved = resolve(context, node)
    if isinstance(resolved, Place) and isinstance(resolved.type, Ref):
        return resolved
    pointer = _load(context, resolved) if isinstance(resolved, Place) else resolved
    if isinstance(pointer.type, Pointer) and isinstance(pointer.type.target, Ref):
        return Target(pointer.at, pointer.type.target, pointer)
    raise context.wrong_type(at, f"{called(pointer.type, context)} has no fields")


def field(context: Context, record: Place, name: str, at: int) -> FieldOf:
    """A field of a record by its name."""
    assert isinstance(record.type, Ref)
    struct = context.structs[record.type.name]
    found = struct.find(name)
    if found is None:
        names = [f.name for f in struct.fields]
        more = ", ..." if len(names) > MOST_NAMES else ""
        hint = did_you_mean(name, names) or f"its fields are {', '.join(names[:MOST_NAMES])}{more}"
        raise context.wrong_name(at, f"{record.type.name!r} has no field {name!r}", hint)
    return FieldOf(at, found.type, record, struct.name, name)


def _target(context: Context, pointer: Expression, at: int) -> Target:
    if not isinstance(pointer.type, Pointer):
        raise context.wrong_type(at, f"{called(pointer.type, context)} is not a pointer")
    return Target(at, pointer.type.target, pointer)


def _index(context: Context, node: syntax.Index) -> Place | Expression:
    array = resolve(context, node.array)
    if isinstance(array, Place) and isinstance(array.type, Ref) and isinstance(node.index, syntax.StringLiteral):
        return field(context, array, node.index.value.decode("utf-8", "surrogateescape"), node.index.at)
    index = to_index(context, value(context, node.index))
    if isinstance(array, Place) and isinstance(array.type, Array):
        element, dims = array.type.element, array.type.dims
        return Element(node.at, Array(element, dims[1:]) if len(dims) > 1 else element, array, index)
    operand = _load(context, array) if isinstance(array, Place) else array
    if operand.type == STRING:
        return Character(node.at, INT32, operand, index)
    if isinstance(operand.type, Pointer):
        return Target(node.at, operand.type.target, PointerAdd(node.at, operand.type, operand, index))
    raise context.wrong_type(node.at, f"{called(operand.type, context)} cannot be indexed")


def _address(context: Context, node: syntax.Unary) -> Expression:
    where = place(context, node.operand)
    match where:
        case Parameter(param=param) if not isinstance(param.type, Record):
            raise context.wrong_type(node.at, f"{param.name!r} is passed by value and has no address")
        case Local(variable=variable) if variable.is_const:
            raise context.wrong_type(node.at, f"{variable.name!r} is const and has no address")
        case Target():
            return where.pointer
    if isinstance(where.type, Array):
        raise context.wrong_type(
            node.at, "cannot take the address of a whole array", "take the address of an element: &a[0]"
        )
    if not isinstance(where.type, Basic | Pointer | Ref) or (isinstance(where.type, Basic) and _unusable(where.type)):
        raise context.wrong_type(node.at, f"{called(where.type, context)} has no address")
    if isinstance(where, FieldOf) and _resized(context, where) and not _is_read_only(where):
        raise context.wrong_type(node.at, f"{where.name!r} is the size of an array and has no address")
    return AddressOf(node.at, Pointer(where.type), where)


def _unusable(type_: Basic) -> bool:
    return number_type(type_) is None and type_ != STRING


def _is_read_only(where: Place) -> bool:
    base = root(where)
    return isinstance(base, Parameter) and base.param.mode is not Mode.OUT


def _resized(context: Context, where: Place) -> tuple[str, ...]:
    """The arrays whose extent is stored at a place."""
    if not isinstance(where, FieldOf):
        return ()
    fields = context.structs[where.struct].fields
    return tuple(f.name for f in fields if isinstance(f.type, Array) and where.name in f.type.dims)


def _writable(context: Context, node: syntax.Expression) -> Place:
    """The target of an assignment."""
    where = place(context, node)
    base = root(where)
    if isinstance(base, Parameter) and base.param.mode is not Mode.OUT and isinstance(base.param.type, Record):
        message = f"{base.param.name!r} can only be read"
        raise context.wrong_type(node.at, message, "copy it to a local variable or to an output; to compare, write ==")
    if isinstance(base, Local) and base.variable.is_const:
        raise context.wrong_type(node.at, f"{base.variable.name!r} is const")
    if isinstance(where.type, Array):
        raise context.wrong_type(node.at, "a whole array cannot be assigned", "assign its elements in a loop")
    if isinstance(where.type, Basic) and _unusable(where.type):
        raise context.wrong_type(node.at, f"{called(where.type, context)} cannot be assigned")
    return where


def _assign(context: Context, node: syntax.Assign) -> Expression:
    target = _writable(context, node.target)
    if isinstance(target.type, Ref):
        if node.op:
            raise context.wrong_type(node.at, f"'{node.op}=' does not take a record")
        return copy_record(context, target, place(context, node.value), node.at)
    given = value(context, node.value)
    if node.op:
        return update(context, target, node.op, given, node.at, is_old=False)
    return assign(context, target, given, node.at)


def assign(context: Context, target: Place, given: Expression, at: int) -> Assign:
    """`target = given`, converted."""
    converted = assignable(context, given, target.type, at, spelled(target))
    return Assign(at, converted.type or INT32, target, converted, _resized(context, target))


def spelled(where: Place) -> str:
    """A place as the program writes it, without its indices."""
    match where:
        case Local():
            return where.variable.name
        case Parameter():
            return where.param.name
        case FieldOf():
            return f"{spelled(where.record)}.{where.name}"
        case Element():
            return f"{spelled(where.array)}[]"
        case Target():
            return "the pointed-to value"


def update(context: Context, target: Place, op: str, given: Expression, at: int, *, is_old: bool) -> CompoundAssign:
    """`target op= given`, with the target evaluated once."""
    resizes = _resized(context, target)
    if isinstance(target.type, Pointer) and op in ("+", "-"):
        distance = to_index(context, given)
        return CompoundAssign(at, target.type, target, op, target.type, distance, is_old, resizes)
    type_, given_type = number_type(target.type), number_type(given.type)
    if type_ is None or given_type is None:
        wrong = target.type if type_ is None else given.type
        raise context.wrong_type(at, f"{op!r} does not take {called(wrong, context)}")
    # The operands must suit the plain operator.
    operators.binary(context, op, Read(at, type_, target), given, at)
    if op in ("<<", ">>"):
        return CompoundAssign(at, type_, target, op, promote(type_), to_number(given, INT64), is_old, resizes)
    common = usual(type_, given_type)
    return CompoundAssign(at, type_, target, op, common, to_number(given, common), is_old, resizes)


def _step(context: Context, node: syntax.Increment) -> Expression:
    target = _writable(context, node.operand)
    one = Constant(node.at, INT32, 1)
    return update(context, target, node.op, one, node.at, is_old=not node.prefix)


def _cast(context: Context, node: syntax.Cast) -> Expression:
    type_ = type_named(context, node.type)
    operand = value(context, node.operand)
    if type_ is None:
        raise context.wrong_type(node.at, "cannot cast to void")
    number = number_type(type_)
    if number is not None and number_type(operand.type) is not None:
        return to_number(operand, number)
    if isinstance(type_, Pointer):
        if is_null(operand):
            return Constant(node.at, type_, None)
        return assignable(context, operand, type_, node.at, "the cast")
    if type_ == STRING and operand.type == STRING:
        return operand
    raise context.wrong_type(node.at, f"cannot cast {called(operand.type, context)} to {called(type_, context)}")


def _size(context: Context, node: syntax.Expression | syntax.TypeName) -> int:
    if isinstance(node, syntax.TypeName):
        type_ = type_named(context, node)
    elif isinstance(node, syntax.CharacterLiteral):
        type_ = CHAR
    else:
        resolved = resolve(context, node)
        type_ = resolved.type
        if isinstance(resolved, Constant) and isinstance(resolved.value, bytes):
            return len(resolved.value) + 1
    if type_ is None:
        raise context.wrong_type(node.at, "void has no size")
    return C_LAYOUT.size(type_, context.structs)


def _unset(context: Context, node: syntax.Call) -> Unset:
    if len(node.arguments) != 1:
        raise context.wrong_type(node.at, "'unset' takes one field")
    where = place(context, node.arguments[0])
    base = root(where)
    if not isinstance(where, FieldOf) or not isinstance(base, Parameter) or base.param.mode is not Mode.OUT:
        raise context.wrong_type(node.at, "'unset' takes a field of the output")
    field = context.structs[where.struct].find(where.name)
    assert field is not None
    if field.notes.null_bit is None and field.type != STRING and not isinstance(field.type, Pointer):
        hint = "write the format of the output with nulls=mask or nulls=pointer"
        raise context.wrong_type(node.at, f"{place_text(where)} cannot be null", hint)
    return Unset(node.at, None, where)


def _call(context: Context, node: syntax.Call) -> Expression:
    if not isinstance(node.function, syntax.Name):
        raise context.wrong_type(node.at, "only a named function can be called")
    name = node.function.name
    if name == "present" and not any(name in scope.names for scope in context.scopes):
        if len(node.arguments) != 1:
            raise context.wrong_type(node.at, "'present' takes one field")
        where = place(context, node.arguments[0])
        if not isinstance(where, FieldOf) or not (isinstance(root(where), Parameter) or is_of_input(where)):
            raise context.wrong_type(node.at, "'present' asks about a field of a parameter")
        return Present(node.at, INT32, where)
    if name == "unset" and not any(name in scope.names for scope in context.scopes):
        return _unset(context, node)
    meaning = context.find(name, node.at)
    if not isinstance(meaning, Function):
        raise context.wrong_type(node.at, f"{name!r} is not a function")
    return call(context, meaning, [value(context, argument) for argument in node.arguments], node.at)
