"""Nulls become bits of their structure's hidden field; strings and pointers are null by themselves."""

from __future__ import annotations

from dataclasses import replace

from ecode.typed import (
    Arithmetic,
    Assign,
    Constant,
    Convert,
    Element,
    Expression,
    FieldOf,
    Logical,
    Not,
    Place,
    Present,
    Read,
    Sequence,
    Structs,
    Typed,
    TypedProgram,
    Unset,
    Update,
    rewritten,
    walk,
)
from ecode.types import INT32, INT64, STRING, UINT8, Basic, Kind, Pointer


def lower_nulls(program: TypedProgram) -> TypedProgram:
    """The program with `unset` as assignments, and `present` that looks at the bits, too.

    What is unset is zero underneath. A value that is assigned later is there again.
    """
    fields = {(node.place.struct, node.place.name) for node in walk(program.body) if isinstance(node, Unset)}
    lowering = _Lowering(program.structs, fields)
    return replace(program, body=rewritten(program.body, lowering.change))


class _Lowering:
    def __init__(self, structs: Structs, unset: set[tuple[str, str]]) -> None:
        self.structs, self.unset = structs, unset

    def change(self, node: Typed) -> Typed:
        match node:
            case Unset(at=at, place=place):
                return Sequence(at, None, self._nothing(place), Constant(at, INT32, 0))
            case Present(at=at, place=FieldOf() as place) if (bits := self._byte(place)) is not None:
                byte, bit = bits
                masked = Arithmetic(at, INT32, "&", Convert(at, INT32, Read(at, UINT8, byte)), Constant(at, INT32, bit))
                return Logical(at, INT32, "&&", node, Not(at, INT32, masked))
            case Assign(place=FieldOf() as place) | Update(place=FieldOf() as place):
                if (place.struct, place.name) in self.unset and self._byte(place) is not None:
                    assert isinstance(node, Assign | Update)
                    return Sequence(node.at, node.type, (self._marked(place, is_null=False),), node)
        return node

    def _nothing(self, place: FieldOf) -> tuple[Expression, ...]:
        if place.type == STRING or isinstance(place.type, Pointer):
            return (Assign(place.at, place.type, place, Constant(place.at, place.type, None)),)
        cleared: tuple[Expression, ...] = ()
        if isinstance(place.type, Basic):
            nothing = Constant(place.at, place.type, 0.0 if place.type.kind is Kind.FLOAT else 0)
            cleared = (Assign(place.at, place.type, place, nothing),)
        return (*cleared, self._marked(place, is_null=True))

    def _marked(self, place: FieldOf, *, is_null: bool) -> Update:
        bits = self._byte(place)
        assert bits is not None
        byte, bit = bits
        value = Constant(place.at, INT32, bit if is_null else 0xFF & ~bit)
        return Update(place.at, UINT8, byte, "|" if is_null else "&", INT32, value, is_old=False)

    def _byte(self, place: FieldOf) -> tuple[Place, int] | None:
        """Where the bit of a field is: the byte, and its value in there; None if the field has none."""
        struct = self.structs[place.struct]
        field, bits = struct.find(place.name), struct.null_bits
        if field is None or bits is None or field.notes.null_bit is None:
            return None
        byte, bit = divmod(field.notes.null_bit, 8)
        array = FieldOf(place.at, bits.type, place.record, place.struct, bits.name)
        return Element(place.at, UINT8, array, Constant(place.at, INT64, byte)), 1 << bit
