"""Which fields of an output a program ever writes; the others are null in every row (DESIGN decision 8)."""

from __future__ import annotations

from ecode.typed import (
    AddressOf,
    Assign,
    CompoundAssign,
    CopyRecord,
    Element,
    FieldOf,
    Parameter,
    Place,
    TypedProgram,
    root,
    walk,
)


def written_fields(program: TypedProgram, param: str) -> frozenset[tuple[str, ...]]:
    """Paths of the fields of an output that the program assigns, copies into, or takes the address of.

    A path includes everything below it; array elements have the path of their array.
    """
    paths: set[tuple[str, ...]] = set()
    for node in walk(program.body):
        if isinstance(node, Assign | CompoundAssign | CopyRecord | AddressOf):
            base = root(node.place)
            if isinstance(base, Parameter) and base.param.name == param:
                path = field_path(node.place)
                paths.add(path)
                if isinstance(node, Assign | CompoundAssign):
                    paths |= {(*path[:-1], name) for name in node.resizes}
    return frozenset(paths)


def field_path(place: Place) -> tuple[str, ...]:
    """The names of the fields on the way from a parameter to a place; array elements have the path of their array."""
    names: list[str] = []
    while isinstance(place, FieldOf | Element):
        if isinstance(place, FieldOf):
            names.append(place.name)
            place = place.record
        else:
            place = place.array
    return tuple(reversed(names))
