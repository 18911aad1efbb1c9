"""The space of a field in its structure: the size and alignment of its slot (ffs-wire-format 5.5, 5.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from ecode.types import Array, Basic, Kind, Ref, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.type_string import shorten
from pbio_spark.formats.machine import Machine


def slot_content(type_: Type) -> tuple[int, Type]:
    """The number of values in the slot, and their type: static arrays are in place, targets of pointers do not.

    >>> slot_content(Array(Array(Ref("p"), ("n",)), (2, 5)))
    (10, Array(element=Ref(name='p'), dims=('n',)))
    """
    count = 1
    while isinstance(type_, Array) and not type_.is_dynamic:
        count *= prod(dim for dim in type_.dims if isinstance(dim, int))
        type_ = type_.element
    return count, type_


def slot_size(type_: Type, record_lengths: Mapping[str, int], pointer_size: int) -> int:
    """The bytes of the slot, given the record lengths of structures in bytes."""
    match slot_content(type_):
        case count, Ref(name):
            return count * record_lengths[name]
        case count, Basic(kind, size) if kind is not Kind.STRING:
            return count * size
        case count, _:
            return count * pointer_size


def slot_alignment(type_: Type, alignments: Mapping[str, int], machine: Machine) -> int:
    """The alignment of the slot in bytes, given those of structures."""
    match slot_content(type_):
        case _, Ref(name):
            return alignments[name]
        case _, Basic(kind, size) if kind is not Kind.STRING:
            return min(size, 16 if kind is Kind.FLOAT else 8, machine.max_alignment)
        case _:
            return machine.pointer_size


def innermost_first(types: Mapping[str, Iterable[Type]]) -> list[str]:
    """The structures in an order in which each comes after those that it holds in place.

    Raises PBIO_BAD_LAYOUT if a structure contains itself, directly or through others.
    """
    left = {name: {_held(type_) for type_ in fields} for name, fields in types.items()}
    order: list[str] = []
    while left:
        finite = [name for name, held in left.items() if not held & left.keys()]
        if not finite:
            raise PbioError(
                "PBIO_BAD_LAYOUT",
                f"structure {shorten(next(iter(left)))} contains itself without end",
                hint="refer to it by a pointer",
            )
        order += finite
        left = {name: held for name, held in left.items() if name not in finite}
    return order


def _held(type_: Type) -> str | None:
    _, content = slot_content(type_)
    return content.name if isinstance(content, Ref) else None
