"""Hypothesis strategies for record types and records of them, of every shape that FFS has and reads back correctly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from ecode.types import CHAR, STRING, Array, Basic, Field, Kind, Pointer, Record, Ref, Struct, Type

NUMBERS = [Basic(kind, size) for kind in (Kind.INTEGER, Kind.UNSIGNED) for size in (1, 2, 4, 8)]
BASICS = [
    *NUMBERS,
    Basic(Kind.FLOAT, 4),
    Basic(Kind.FLOAT, 8),
    CHAR,
    Basic(Kind.BOOLEAN, 4),
    Basic(Kind.ENUMERATION, 4),
]
NESTING = 2
Nested = Literal["none", "flat", "any"]
NAMES = ["a", "b 2", "größe", "_d", "E", "f-6"]


@dataclass
class _Types:
    """A record type being drawn."""

    draw: st.DrawFn
    pointers: bool
    nested: Nested
    structs: dict[str, Struct] = field(default_factory=dict)

    def struct(self, name: str, depth: int) -> None:
        fields: list[Field] = []
        for label in NAMES[: self.draw(st.integers(1, 4))]:
            fields += self.field(name, label, depth)
        if self.draw(st.booleans()):
            fields.reverse()  # counts after the arrays that they count
        self.structs[name] = Struct(name, tuple(fields))

    def field(self, owner: str, label: str, depth: int) -> list[Field]:
        element = self.element(owner, label, depth)
        shapes = ["plain", "plain", "static"]
        if self.nested == "any" or depth == NESTING:
            shapes += ["dynamic", "mixed"] + self.pointers * ["pointer", "pointers", "to_array"]
        match self.draw(st.sampled_from(shapes)):
            case "static":
                return [
                    Field(label, Array(element, tuple(self.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))))
                ]
            case "dynamic":
                return [self.count(label), Field(label, Array(element, (f"{label}_n",)))]
            case "mixed":
                mixed: list[int | str] = [f"{label}_n", 2, f"{label}_n"]
                return [self.count(label), Field(label, Array(element, tuple(self.draw(st.permutations(mixed)))))]
            case "pointer":
                return [Field(label, Pointer(element))]
            case "pointers":
                return [self.count(label), Field(label, Array(Pointer(element), (f"{label}_n",)))]
            case "to_array":
                return [Field(label, Pointer(Array(element, (3,))))]
        return [Field(label, element)]

    def element(self, owner: str, label: str, depth: int) -> Type:
        if self.nested != "none" and depth and self.draw(st.integers(0, 3)) == 0:
            name = f"{owner} {label}"
            self.struct(name, depth - 1)
            return Ref(name)
        strings = self.nested == "any" or depth == NESTING
        return self.draw(st.sampled_from([*BASICS, STRING, STRING] if strings else BASICS))

    def count(self, label: str) -> Field:
        return Field(f"{label}_n", self.draw(st.sampled_from(NUMBERS)))


class _Values:
    """A record being drawn."""

    def __init__(self, draw: st.DrawFn, record: Record) -> None:
        self.draw = draw
        self.record = record

    def struct(self, name: str) -> dict[str, Any]:
        fields = self.record.struct(name).fields
        counts = {dim for f in fields if isinstance(f.type, Array) for dim in f.type.dims if isinstance(dim, str)}
        numbers = {dim: self.draw(st.integers(0, 3)) for dim in sorted(counts)}
        return {f.name: numbers[f.name] if f.name in numbers else self.value(f.type, numbers) for f in fields}

    def value(self, type_: Type, numbers: dict[str, int]) -> Any:
        match type_:
            case Ref(name):
                return self.struct(name)
            case Pointer(target):
                return None if self.draw(st.booleans()) else self.value(target, numbers)
            case Array(element, dims):
                extents = [numbers[dim] if isinstance(dim, str) else dim for dim in dims]
                absent = math.prod(extents) == 0 or (type_.is_dynamic and self.draw(st.integers(0, 9)) == 0)
                return None if absent else self.nested(element, extents, numbers)
            case Basic(kind, size):
                return self.draw(_basic(kind, size))

    def nested(self, element: Type, extents: list[int], numbers: dict[str, int]) -> Any:
        if not extents:
            return self.value(element, numbers)
        return [self.nested(element, extents[1:], numbers) for _ in range(extents[0])]


def _basic(kind: Kind, size: int) -> st.SearchStrategy[Any]:
    match kind:
        case Kind.STRING:
            return st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=9)
        case Kind.FLOAT:
            return st.floats(width=32 if size == 4 else 64)
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.INTEGER:
            return st.integers(-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1)
    return st.integers(0, (1 << 8 * size) - 1)


@st.composite
def records(
    draw: st.DrawFn, pointers: bool = True, nested: Nested = "any", name: str = "record"
) -> tuple[Record, list[dict[str, Any]]]:
    """A record type and some records of it, as `pbio_spark.wire.decode` gives them.

    Args:
        pointers: whether there are pointers other than strings and dynamic arrays.
        nested: whether there are structures in the record, and whether they hold strings, dynamic arrays and pointers.
    """
    types = _Types(draw, pointers, nested)
    types.struct(name, NESTING)
    made = Record(tuple(reversed(types.structs.values())))
    values = [_Values(draw, made).struct(made.name) for _ in range(draw(st.integers(1, 3)))]
    return made, values
