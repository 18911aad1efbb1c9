"""Nulls become bits of their structure's hidden field; strings and pointers have their own null."""

from __future__ import annotations

from dataclasses import replace

from ecode.typed import (
    Arithmetic,
    Assign,
    CompoundAssign,
    Constant,
    Convert,
    CopyRecord,
    Element,
    Expression,
    FieldOf,
    Local,
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
    ValueType,
    Variable,
    rewritten,
    walk,
)
from ecode.types import INT32, INT64, STRING, UINT8, Array, Basic, Kind, Pointer, Ref


def lower_nulls(program: TypedProgram) -> TypedProgram:
    """The program with `unset` as assignments, and with `present` testing the bits as well.

    An unset value is zero underneath. Assigning to it sets it again, and everything that contains it. Assigning a whole
    structure also copies its bits.
    """
    fields = {(node.place.struct, node.place.name) for node in walk(program.body) if isinstance(node, Unset)}
    for node in walk(program.body):
        if isinstance(node, CopyRecord) and isinstance(node.place.type, Ref):
            fields |= _fields_below(node.place.type, program.structs)
    lowering = _Lowering(program.structs, fields, list(program.variables))
    body = rewritten(program.body, lowering.change)
    return replace(program, body=body, variables=tuple(lowering.variables))


def _fields_below(type_: Ref, structs: Structs) -> set[tuple[str, str]]:
    """All fields of a structure, and of the structures in it."""
    found: set[tuple[str, str]] = set()
    waiting: list[ValueType] = [type_]
    while waiting:
        match waiting.pop():
            case Ref(name):
                new = {(name, field.name) for field in structs[name].fields} - found
                found |= new
                waiting += [field.type for field in structs[name].fields if (name, field.name) in new]
            case Array(element):
                waiting.append(element)
    return found


class _Lowering:
    def __init__(self, structs: Structs, unset: set[tuple[str, str]], variables: list[Variable]) -> None:
        self.structs, self.unset, self.variables = structs, unset, variables

    def change(self, node: Typed) -> Typed:
        match node:
            case Unset(at=at, place=place):
                return Sequence(at, None, self._nothing(place), Constant(at, INT32, 0))
            case Present(at=at, place=FieldOf() as place) if (bits := self._byte(place)) is not None:
                byte, bit = bits
                masked = Arithmetic(at, INT32, "&", Convert(at, INT32, Read(at, UINT8, byte)), Constant(at, INT32, bit))
                return Logical(at, INT32, "&&", node, Not(at, INT32, masked))
            case Assign(place=place) | CompoundAssign(place=place) if self._marks(place):
                assert isinstance(node, Assign | CompoundAssign)
                indexes, place = self._settled(place)
                return Sequence(node.at, node.type, (*indexes, *self._marks(place)), replace(node, place=place))
            case CopyRecord(place=place) if self._marks(place):
                indexes, place = self._settled(place)
                return Sequence(node.at, None, (*indexes, *self._marks(place)), replace(node, place=place))
        return node

    def _marks(self, place: Place) -> list[Expression]:
        """The bits that say whether a place, and all that contains it, is null."""
        marks: list[Expression] = []
        at: Place | None = place
        while at is not None:
            match at:
                case FieldOf(record=outer):
                    if (at.struct, at.name) in self.unset and self._byte(at) is not None:
                        marks.append(self._marked(at, is_null=False))
                    at = outer
                case Element(array=FieldOf() as array) if (array.struct, array.name) in self.unset:
                    mark = self._mark_of_item(array, at)
                    marks += [] if mark is None else [mark]
                    at = array
                case Element(array=outer):
                    at = outer
                case _:
                    at = None
        return marks

    def _mark_of_item(self, array: FieldOf, item: Element) -> Expression | None:
        """The mark that says whether an element is null, if its array has marks."""
        struct = self.structs[array.struct]
        field = struct.find(array.name)
        marks = None if field is None or field.notes.null_items is None else struct.find(field.notes.null_items)
        if marks is None or not isinstance(marks.type, Array) or len(marks.type.dims) != 1:
            return None
        at = item.at
        beside = FieldOf(at, marks.type, array.record, array.struct, marks.name)
        return Assign(at, UINT8, Element(at, UINT8, beside, item.index), Constant(at, UINT8, 0))

    def _settled(self, place: Place) -> tuple[list[Expression], Place]:
        """The place with its indexes in variables, so that it can be repeated, and what sets these variables."""
        match place:
            case FieldOf(record=outer):
                indexes, outer = self._settled(outer)
                return indexes, replace(place, record=outer)
            case Element(at=at, array=outer, index=index):
                indexes, outer = self._settled(outer)
                if not isinstance(index, Constant):
                    variable = Variable("index", len(self.variables), INT64, False, False, at)
                    self.variables.append(variable)
                    local = Local(at, INT64, variable)
                    indexes.append(Assign(at, INT64, local, Convert(at, INT64, index)))
                    index = Read(at, INT64, local)
                return indexes, replace(place, array=outer, index=index)
        return [], place

    def _nothing(self, place: FieldOf) -> tuple[Expression, ...]:
        if place.type == STRING or isinstance(place.type, Pointer):
            return (Assign(place.at, place.type, place, Constant(place.at, place.type, None)),)
        cleared: tuple[Expression, ...] = ()
        if isinstance(place.type, Basic):
            nothing = Constant(place.at, place.type, 0.0 if place.type.kind is Kind.FLOAT else 0)
            cleared = (Assign(place.at, place.type, place, nothing),)
        return (*cleared, self._marked(place, is_null=True))

    def _marked(self, place: FieldOf, *, is_null: bool) -> CompoundAssign:
        bits = self._byte(place)
        assert bits is not None
        byte, bit = bits
        value = Constant(place.at, INT32, bit if is_null else 0xFF & ~bit)
        return CompoundAssign(place.at, UINT8, byte, "|" if is_null else "&", INT32, value, is_old=False)

    def _byte(self, place: FieldOf) -> tuple[Place, int] | None:
        """The byte that holds the bit of a field, and the bit's value in it; None if the field has none."""
        struct = self.structs[place.struct]
        field, bits = struct.find(place.name), struct.null_bits
        if field is None or bits is None or field.notes.null_bit is None:
            return None
        byte, bit = divmod(field.notes.null_bit, 8)
        array = FieldOf(place.at, bits.type, place.record, place.struct, bits.name)
        return Element(place.at, UINT8, array, Constant(place.at, INT64, byte)), 1 << bit
