"""Variables, records, arrays and pointers while the interpreter runs.

A record is a list of its fields, an array a flat list of its elements, row major. A pointer is a list, an index and the
bounds that the index must keep, so `&a[2]` can be moved inside `a` and nowhere else. Generated code keeps the same
things in raw memory. In both, growing an array moves it, so that older pointers see the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ecode.errors import TrapKind
from ecode.semantics.layout import MEMORY_LAYOUT, align
from ecode.typed import Structs, ValueType
from ecode.types import Array, Basic, Kind, Ref

NO_LIMIT = 1 << 62
"""More elements than any array has."""


class Trapped(Exception):  # noqa: N818  (private: the interpreter gives it a place and makes it a Trap)
    """The event ends. `at` is the offset in the source; -1 lets the caller fill it in. `detail` has the values."""

    def __init__(self, kind: TrapKind, at: int = -1, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.at, self.detail = kind, at, detail


class StringValue(bytes):
    """A string. It is a class because equal strings must be different objects: pointers go into them."""

    __slots__ = ()


class RecordValue(list[Any]):
    """The fields of a record; `absent` are the positions of fields that the event did not have."""

    __slots__ = ("absent",)

    def __init__(self, fields: list[Any], absent: frozenset[int] = frozenset()) -> None:
        super().__init__(fields)
        self.absent = absent


class PointerValue(NamedTuple):
    """`cells[position]`, to be used only while `low <= position < high`."""

    cells: Any
    position: int
    low: int
    high: int

    def check(self, at: int) -> PointerValue:
        if not self.low <= self.position < self.high:
            raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
        return self

    def is_in(self, other: PointerValue) -> bool:
        """Whether both point into the same object."""
        return self.cells is other.cells and self.low == other.low


@dataclass(slots=True)
class Frame:
    """The state of one call. `slots` holds all variables, then all parameters."""

    slots: list[Any]
    budget: int
    bytes_left: int
    log: list[tuple[str, tuple[Any, ...]]]
    result: Any = None


def spend(frame: Frame, units: int, at: int) -> None:
    """Charges units of work."""
    if units > frame.budget:
        raise Trapped(TrapKind.BUDGET_EXCEEDED, at)
    frame.budget -= units


def take(frame: Frame, size: int, at: int) -> None:
    """Charges memory, in bytes."""
    size = align(size, 8)
    if size > frame.bytes_left:
        raise Trapped(TrapKind.SIZE_LIMIT, at)
    frame.bytes_left -= size


def fresh(type_: ValueType, structs: Structs) -> Any:
    """A new zero of a type."""
    match type_:
        case Basic(Kind.STRING):
            return None
        case Basic(Kind.FLOAT):
            return 0.0
        case Basic():
            return 0
        case Array() if type_.is_dynamic:
            return []
        case Array():
            return [fresh(type_.element, structs) for _ in range(static_count(type_))]
        case Ref():
            return RecordValue([fresh(field.type, structs) for field in structs[type_.name].fields])
    return None


def static_count(type_: Array) -> int:
    count = 1
    for dim in type_.dims:
        count *= int(dim)
    return count


def clear(items: list[Any], index: int, type_: ValueType, structs: Structs) -> None:
    """Zeroes a value in place: records and arrays stay the same objects."""
    match type_:
        case Array() if not type_.is_dynamic:
            for i in range(len(items[index])):
                clear(items[index], i, type_.element, structs)
        case Ref():
            for i, field in enumerate(structs[type_.name].fields):
                clear(items[index], i, field.type, structs)
        case _:
            items[index] = fresh(type_, structs)


def bodily(value: Any, type_: ValueType, structs: Structs) -> Any:
    """A shallow copy of a value: what it points to is shared."""
    match type_:
        case Array() if not type_.is_dynamic:
            return [bodily(item, type_.element, structs) for item in value]
        case Ref():
            fields = structs[type_.name].fields
            return RecordValue([bodily(v, f.type, structs) for v, f in zip(value, fields, strict=True)], value.absent)
    return value


def total(extents: list[int], frame_limit: int, at: int) -> int:
    """The number of elements of a dynamic array."""
    count = 1
    for extent in extents:
        if extent < 0:
            raise Trapped(TrapKind.NEGATIVE_SIZE, at)
        if extent and count > frame_limit // extent:
            raise Trapped(TrapKind.SIZE_LIMIT, at)
        count *= extent
    return count


class ElementType(NamedTuple):
    """The elements of an array: their type, and the work that one costs."""

    type: ValueType
    units: int
    structs: Structs


def resized(frame: Frame, items: list[Any], old: int, new: int, of: ElementType, at: int) -> list[Any]:
    """The elements of a dynamic array whose extents change: `items` itself while its capacity suffices."""
    if new < old:
        spend(frame, of.units * (old - new), at)
    for i in range(new, min(old, len(items))):
        clear(items, i, of.type, of.structs)
    if new <= len(items):
        return items
    capacity = max(new, 2 * len(items))
    spend(frame, of.units * capacity, at)
    take(frame, capacity * MEMORY_LAYOUT.size(of.type, of.structs), at)
    kept = [bodily(item, of.type, of.structs) for item in items]
    return kept + [fresh(of.type, of.structs) for _ in range(capacity - len(items))]


Closure = Callable[[Frame], Any]
