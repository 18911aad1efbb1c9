"""Walking and rewriting a typed tree, and questions about its places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from ecode.environment import Mode
from ecode.typed.expressions import Expression, Read
from ecode.typed.places import Element, FieldOf, Local, Parameter, Place, Target, Typed, ValueType
from ecode.types import Array, Ref


def children(node: Typed) -> Iterator[Typed]:
    """The direct children of a node, in order of evaluation."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Typed):
            yield value
        elif isinstance(value, tuple):
            yield from _typed_in(value)


def _typed_in(values: tuple[object, ...]) -> Iterator[Typed]:
    for value in values:
        if isinstance(value, Typed):
            yield value
        elif isinstance(value, tuple):
            yield from _typed_in(value)


def walk(node: Typed) -> Iterator[Typed]:
    """A node and everything below it, outside in."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(children(node)))


_N = TypeVar("_N", bound=Typed)


def rewritten(node: _N, change: Callable[[Typed], Typed]) -> _N:
    """The tree with `change` applied to every node, from the inside out. `change` must keep the kind of a node (place,
    expression, statement)."""
    changes: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        new = _rewritten(value, change)
        if new is not value:
            changes[field.name] = new
    result = change(replace(node, **changes) if changes else node)
    return cast(_N, result)


def _rewritten(value: object, change: Callable[[Typed], Typed]) -> object:
    if isinstance(value, Typed):
        return rewritten(value, change)
    if isinstance(value, tuple):
        new = tuple(_rewritten(item, change) for item in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value


def is_of_input(place: Place) -> bool:
    """Whether a place is in a read-only parameter, directly or through the parameter's own pointers."""
    while not isinstance(place, Parameter):
        match place:
            case FieldOf():
                place = place.record
            case Element():
                place = place.array
            case Target(pointer=Read() as read):
                place = read.place
            case _:
                return False
    return place.param.mode is not Mode.OUT


def root(place: Place) -> Place:
    """The variable, parameter or pointer target that contains a place."""
    while isinstance(place, FieldOf | Element):
        place = place.record if isinstance(place, FieldOf) else place.array
    return place


def is_record(type_: ValueType | None) -> bool:
    return isinstance(type_, Ref)


def is_array(type_: ValueType | None) -> bool:
    return isinstance(type_, Array)


def place_text(place: Place) -> str:
    """A place as the program writes it, without indices: `input.rows[].values`."""
    match place:
        case Local():
            return place.variable.name
        case Parameter():
            return place.param.name
        case FieldOf(record=Target() as target):
            return f"{value_text(target.pointer)}->{place.name}"
        case FieldOf():
            return f"{place_text(place.record)}.{place.name}"
        case Element():
            return f"{place_text(place.array)}[]"
        case Target():
            return f"*{value_text(place.pointer)}"


def value_text(value: Expression) -> str:
    """The place that a value was read from, or `...`."""
    return place_text(value.place) if isinstance(value, Read) else "..."
