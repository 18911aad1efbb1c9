"""Closures that find the list and the index that hold a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ecode.errors import TrapKind, index_detail
from ecode.interpreter.memory import NO_LIMIT, Closure, Frame, PointerValue, StringValue, Trapped, fresh, total
from ecode.typed import (
    AddressOf,
    Element,
    FieldOf,
    Local,
    Parameter,
    Place,
    Read,
    Target,
    is_of_input,
    place_text,
)
from ecode.types import Array

if TYPE_CHECKING:
    from ecode.interpreter.expressions import Expressions


def position(code: Expressions, struct: str, name: str) -> int:
    """The index of a field."""
    return code.positions[struct][name]


def location(code: Expressions, place: Place) -> Closure:
    """A closure that returns the list and the index that hold the value of a place."""
    match place:
        case Local(variable=variable):
            index = variable.index
            return lambda frame: (frame.slots, index)
        case Parameter(param=param):
            index = code.param_slots[param.name]
            return lambda frame: (frame.slots, index)
        case FieldOf():
            record, index = value_at(code, place.record), position(code, place.struct, place.name)
            return lambda frame: (record(frame), index)
        case Element():
            element = _element(code, place)
            return lambda frame: element(frame)[:2]
        case Target():
            pointer = checked(code, place)
            return lambda frame: pointer(frame)[:2]


def value_at(code: Expressions, place: Place) -> Closure:
    """A closure that returns the value at a place: a number, a list, a pointer ..."""
    match place:
        case Local(variable=variable):
            index = variable.index
            return lambda frame: frame.slots[index]
        case Parameter(param=param):
            index = code.param_slots[param.name]
            return lambda frame: frame.slots[index]
        case FieldOf():
            record, index = value_at(code, place.record), position(code, place.struct, place.name)
            return lambda frame: record(frame)[index]
    if isinstance(place, Target):
        pointer = checked(code, place)

        def pointed(frame: Frame) -> Any:
            items, index, _low, _high = pointer(frame)
            return character(items, index) if isinstance(items, StringValue) else items[index]

        return pointed
    element = _element(code, place)

    def at_index(frame: Frame) -> Any:
        items, index, _count = element(frame)
        return items[index]

    return at_index


def character(text: StringValue, index: int) -> int:
    """A character of a string, signed; its terminating NUL counts."""
    byte = text[index] if index < len(text) else 0
    return byte - 256 if byte > 127 else byte


def checked(code: Expressions, place: Target) -> Closure:
    """A closure that returns a pointer that is safe to follow."""
    pointer, at = code.value(place.pointer), place.at
    is_of_event = isinstance(place.pointer, Read) and is_of_input(place.pointer.place)

    def usable(frame: Frame) -> PointerValue:
        value: PointerValue | None = pointer(frame)
        if value is None and is_of_event:
            # A null pointer in the event reads as zeros.
            return PointerValue([fresh(place.type, code.structs)], 0, 0, 1)
        if value is None:
            raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
        return value.check(at)

    return usable


def shape(code: Expressions, place: Place) -> tuple[Closure, Callable[[Any], tuple[list[int], list[Any]]]]:
    """Two closures: one finds the array (or its record), the other returns its current extents and its elements. Index
    expressions may change the extents in between."""
    assert isinstance(place.type, Array)
    if not place.type.is_dynamic:
        items, fixed = value_at(code, place), [int(dim) for dim in place.type.dims]
        return items, lambda found: (fixed, found)
    assert isinstance(place, FieldOf), "only fields have dynamic extents"
    record, index = value_at(code, place.record), position(code, place.struct, place.name)
    dims = [dim if isinstance(dim, int) else (position(code, place.struct, dim),) for dim in place.type.dims]

    def dynamic(fields: Any) -> tuple[list[int], list[Any]]:
        return [dim if isinstance(dim, int) else fields[dim[0]] for dim in dims], fields[index]

    return record, dynamic


def _element(code: Expressions, place: Element) -> Closure:
    """A closure that returns the elements of the array, the index of the element, and the number of elements."""
    indices: list[tuple[Closure, int]] = []
    array: Place = place
    while isinstance(array, Element):
        indices.append((code.value(array.index), array.at))
        array = array.array
    indices.reverse()
    find, measure = shape(code, array)
    name = place_text(array)

    def element(frame: Frame) -> tuple[list[Any], int, int]:
        found = find(frame)
        values = [(index(frame), at) for index, at in indices]
        dims, items = measure(found)
        flat = 0
        for (value, at), dim in zip(values, dims, strict=False):
            if not 0 <= value < dim:
                raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at, index_detail(name, value, dim))
            flat = flat * dim + value
        for dim in dims[len(values) :]:
            flat *= dim
        return items, flat, total(dims, NO_LIMIT, place.at)

    return element


def address(code: Expressions, node: AddressOf) -> Closure:
    """A closure that makes a pointer."""
    place = node.place
    if node.is_decay and not isinstance(place, Element):
        find, measure = shape(code, place)

        def decayed(frame: Frame) -> PointerValue:
            dims, items = measure(find(frame))
            return PointerValue(items, 0, 0, total(dims, NO_LIMIT, node.at))

        return decayed
    if isinstance(place, Element):
        element = _element(code, place)

        def of_element(frame: Frame) -> PointerValue:
            items, index, count = element(frame)
            return PointerValue(items, index, 0, count)

        return of_element
    where = location(code, place)

    def of_scalar(frame: Frame) -> PointerValue:
        items, index = where(frame)
        return PointerValue(items, index, index, index + 1)

    return of_scalar


def moved(pointer: PointerValue | None, offset: int, at: int) -> PointerValue:
    """A pointer moved by an offset: inside its object, or just past its end."""
    if pointer is None or not pointer.low <= pointer.position + offset <= pointer.high:
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
    return pointer._replace(position=pointer.position + offset)
