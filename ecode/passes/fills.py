"""Finds loops that fill an array of an output in order, where the program does nothing else with the array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ecode.environment import Mode
from ecode.passes.count_loops import writes
from ecode.typed import (
    AddressOf,
    Arithmetic,
    Assign,
    Block,
    Choice,
    Compare,
    CompoundAssign,
    Constant,
    Convert,
    Counted,
    Element,
    Evaluate,
    Expression,
    FieldOf,
    Goto,
    Invert,
    Jump,
    Label,
    Local,
    Logical,
    Loop,
    Negate,
    Not,
    Parameter,
    Place,
    Read,
    Return,
    StateMachine,
    Statement,
    Typed,
    TypedProgram,
    root,
    walk,
)
from ecode.types import STRING, Array, Basic, Kind, Record

_PURE = (
    *(Constant, Read, Convert, Negate, Invert, Arithmetic, Compare, Not, Logical, Choice),
    *(Element, FieldOf, Parameter, Local),
)


@dataclass(frozen=True, slots=True)
class Fill:
    """`output.size = ...; ... for (i = 0; i < bound; i++) output.array[i] = value;`, both once per event.

    Nothing else in the program mentions the array, so nothing sees its elements in between; an event that leaves a row
    has run both.

    Attributes:
        array, size: names of fields of the output.
        loop, counted: the loop, and what is known of its rounds.
        value: of element `i`.
        is_whole: the loop sets all elements. Otherwise those from `bound` on stay zero.
        can_wait: the value of an element is the same whenever it is computed after the loop.
    """

    array: str
    size: str
    loop: Loop
    counted: Counted
    value: Expression
    is_whole: bool
    can_wait: bool


def find_fills(program: TypedProgram, param: str) -> Iterator[Fill]:
    """The fills of the arrays of an output."""
    if not isinstance(program.body, Block) or not _is_read_by_fields(program, param):
        return
    statements = list(_flat(program.body))
    resizing = [n for n in walk(program.body) if isinstance(n, Assign | CompoundAssign) and n.resizes]
    sized: dict[str, Assign] = {}
    for number, statement in enumerate(statements):
        if any(isinstance(node, Return | Goto | Label | Jump | StateMachine) for node in walk(statement)):
            return
        match statement:
            case Evaluate(expression=Assign(place=FieldOf(record=Parameter() as of), resizes=(_, *_)) as assign):
                if of.param.name == param:
                    sized |= dict.fromkeys(assign.resizes, assign)
            case Loop(counted=Counted() as counted):
                found = _filled(statement, counted, param)
                if found is None or found[0].name not in sized:
                    continue
                place, value = found
                resized = [n for n in resizing if place.name in n.resizes and _is_of(root(n.place), param)]
                is_once = len(_mentions(program.body, param, place.name)) == 1 and len(resized) == 1
                size = sized[place.name]
                assert isinstance(size.place, FieldOf)
                if is_once and isinstance(place.type, Array) and place.type.dims == (size.place.name,):
                    is_whole = _is_whole(counted.bound, size, param)
                    can_wait = is_whole and _can_wait(program, value, counted, statements[number + 1 :])
                    yield Fill(place.name, size.place.name, statement, counted, value, is_whole, can_wait)


def takes_once(program: TypedProgram, param: str, names: Sequence[str]) -> bool:
    """Whether a program reads the elements of an input's array (named by `names`) in only one place, a fill of its
    output, and so reads no element more than once."""
    if not _is_read_by_fields(program, param):
        return False
    nodes = [node for name in names for node in _mentions(program.body, param, name)]
    outputs = (p.name for p in program.params if p.mode is Mode.OUT)
    for fill in (fill for output in outputs for fill in find_fills(program, output)):
        for node in walk(fill.value):
            if isinstance(node, Read) and isinstance(node.place, Element) and node.place.array in nodes:
                return len(nodes) == 1 and _variable(node.place.index) is fill.counted.variable
    return False


def _flat(block: Block) -> Iterator[Statement]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield from _flat(statement)
        else:
            yield statement


def _is_of(place: Place, param: str) -> bool:
    return isinstance(place, Parameter) and place.param.name == param


def _is_read_by_fields(program: TypedProgram, param: str) -> bool:
    """Whether a parameter is only used field by field."""
    nodes = list(walk(program.body))
    whole = sum(isinstance(n, Parameter) and n.param.name == param for n in nodes)
    return whole == sum(isinstance(n, FieldOf) and _is_of(n.record, param) for n in nodes)


def _mentions(body: Typed, param: str, field: str) -> list[FieldOf]:
    return [n for n in walk(body) if isinstance(n, FieldOf) and n.name == field and _is_of(n.record, param)]


def _filled(loop: Loop, counted: Counted, param: str) -> tuple[FieldOf, Expression] | None:
    """The array that a loop fills, and the value of an element."""
    body: Statement = loop.body
    while isinstance(body, Block) and len(body.statements) == 1:
        (body,) = body.statements
    is_plain = loop.is_charged_before and counted.op == "<" and counted.step == 1
    if not is_plain or not isinstance(counted.start, Constant) or counted.start.value != 0:
        return None
    match body:
        case Evaluate(expression=Assign(place=Element(array=FieldOf() as array, index=index), value=value)):
            if _is_of(array.record, param) and _variable(index) is counted.variable:
                return array, value
    return None


def _variable(index: Expression) -> object:
    index = _unwidened(index)
    return index.place.variable if isinstance(index, Read) and isinstance(index.place, Local) else None


def _unwidened(node: Expression) -> Expression:
    """An integer without the widening conversion around it."""
    while isinstance(node, Convert) and isinstance(node.value.type, Basic):
        is_whole = node.value.type.kind in (Kind.INTEGER, Kind.UNSIGNED) and node.type.kind is Kind.INTEGER
        if not is_whole or node.value.type.size >= node.type.size:
            break
        node = node.value
    return node


def _is_whole(bound: Expression, size: Assign, param: str) -> bool:
    """Whether the bound of a loop equals its array's size."""
    bound, given = _unwidened(bound), _unwidened(size.value)
    if not isinstance(bound, Read):
        return isinstance(bound, Constant) and isinstance(given, Constant) and bound.value == given.value
    if _path(bound.place) == _path(size.place):
        return True
    path = _path(bound.place)
    is_fixed = path is not None and _is_fixed(root(bound.place))
    return is_fixed and isinstance(given, Read) and _path(given.place) == path


def _is_fixed(place: Place) -> bool:
    """Whether a place is a record that does not change during an event."""
    return (
        isinstance(place, Parameter)
        and isinstance(place.param.type, Record)
        and place.param.mode in (Mode.IN, Mode.PARAM)
    )


def _path(place: Place) -> tuple[str, ...] | None:
    """The names on the way to a field outside arrays and pointers."""
    names: list[str] = []
    while isinstance(place, FieldOf):
        names.append(place.name)
        place = place.record
    return (place.param.name, *reversed(names)) if isinstance(place, Parameter) else None


def _can_wait(program: TypedProgram, value: Expression, counted: Counted, later: Sequence[Typed]) -> bool:
    pointed = [root(node.place) for node in walk(program.body) if isinstance(node, AddressOf)]
    for node in walk(value):
        if not isinstance(node, _PURE) or (isinstance(node, Parameter) and not _is_fixed(node)):
            return False
        if isinstance(node, Local) and node.variable is not counted.variable:
            is_pointed = any(isinstance(place, Local) and place.variable is node.variable for place in pointed)
            is_number = isinstance(node.type, Basic) and node.type != STRING
            if node.variable.is_static or is_pointed or not is_number or writes([*later], node.variable):
                return False
    return True
