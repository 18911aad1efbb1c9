"""Programs write nothing through a pointer that may point to read-only data: an input, a parameter block, a string.

The analysis ignores the order of statements: it assumes that a pointer variable, or a pointer field of a structure, may
at any time hold whatever the program assigns to it anywhere. That is sound, costs nothing when the program runs, and
refuses only programs that use one pointer for two purposes.
"""

from __future__ import annotations

from typing import TypeAlias

from ecode.environment import Mode
from ecode.errors import Category, Diagnostic, diagnostic
from ecode.typed import (
    AddressOf,
    Assign,
    Call,
    Choice,
    CompoundAssign,
    Constant,
    CopyRecord,
    Element,
    Expression,
    FieldOf,
    Local,
    Parameter,
    Place,
    PointerAdd,
    Read,
    Sequence,
    StringPointer,
    Target,
    TypedProgram,
    ValueType,
    root,
    walk,
)
from ecode.types import Array, Pointer

# What can hold a pointer: a variable (its index), a field of a structure, or the target of any other pointer (None).
Holder: TypeAlias = int | tuple[str, str] | None


def check_pointers(program: TypedProgram) -> list[Diagnostic]:
    """Writes through pointers that may be read-only."""
    holders = read_only_holders(program)
    found = []
    for node in walk(program.body):
        if isinstance(node, Assign | CompoundAssign | CopyRecord):
            base = root(node.place)
            if isinstance(base, Target) and is_read_only(base.pointer, holders):
                message = "the pointer may point to read-only data"
                hint = "use a separate pointer variable for writing"
                found.append(diagnostic(program.source, node.at, Category.TYPE, message, hint))
    return found


def read_only_holders(program: TypedProgram) -> set[Holder]:
    """The variables and fields that may hold a pointer to something read-only; None in the set means all."""
    flows: list[tuple[Holder, Expression]] = []
    holders: set[Holder] = set()
    for node in walk(program.body):
        if isinstance(node, Assign) and isinstance(node.type, Pointer):
            flows.append((_holder(node.place), node.value))
        if isinstance(node, CopyRecord):
            _copied(node, program, holders)
    grown = True
    while grown:
        grown = False
        for holder, value in flows:
            if holder not in holders and is_read_only(value, holders):
                holders.add(holder)
                grown = True
    return holders


def _copied(node: CopyRecord, program: TypedProgram, holders: set[Holder]) -> None:
    """Copying a record copies its pointers: their targets count as read-only from then on."""
    waiting, seen = [node.place.type], set()
    while waiting:
        type_ = waiting.pop()
        name = getattr(type_, "name", None)
        if name in program.structs and name not in seen:
            seen.add(name)
            for field in program.structs[str(name)].fields:
                held: ValueType = field.type
                while isinstance(held, Array):
                    held = held.element
                if isinstance(held, Pointer):
                    holders.add((str(name), field.name))
                waiting.append(held)


def _holder(place: Place) -> Holder | None:
    while isinstance(place, Element):
        place = place.array
    match place:
        case Local():
            return place.variable.index
        case FieldOf():
            return place.struct, place.name
    return None


def is_read_only(pointer: Expression, holders: set[Holder]) -> bool:
    """Whether a pointer may point to something read-only, given the holders that may."""
    match pointer:
        case Constant():
            return False
        case AddressOf():
            base = root(pointer.place)
            if isinstance(base, Target):
                return is_read_only(base.pointer, holders)
            return isinstance(base, Parameter) and base.param.mode is not Mode.OUT
        case PointerAdd():
            return is_read_only(pointer.pointer, holders)
        case Read():
            base = root(pointer.place)
            if isinstance(base, Parameter) and base.param.mode is not Mode.OUT:
                return True
            if isinstance(base, Target) and is_read_only(base.pointer, holders):
                return True
            holder = _holder(pointer.place)
            return holder in holders or None in holders
        case Choice():
            return is_read_only(pointer.then, holders) or is_read_only(pointer.otherwise, holders)
        case Sequence():
            return is_read_only(pointer.last, holders)
        case Assign():
            return is_read_only(pointer.value, holders)
        case CompoundAssign():
            holder = _holder(pointer.place)
            return holder in holders or None in holders
        case StringPointer() | Call():
            return True
    return True
