"""Format x wanted columns -> `Plan`: the node for each rule of the mapping.

`formats.arrow.mapping` decides which field fills which column, and by which rule. Here each rule becomes a node, with
the place of the field in the image. A number that cannot become its column is an error with the path of the column. The
wanted type also decides how far a recursive structure is unrolled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from math import prod

import pyarrow as pa

from ecode.types import NO_NOTES, Array, Basic, Field, Pointer, Ref, Struct, Type
from pbio_spark.columns.decode.plan import (
    Absent,
    Chars,
    Deref,
    Items,
    Load,
    Masked,
    Node,
    Plan,
    Scalar,
    Structure,
    Text,
    number_at,
    order_of,
    slot_at,
)
from pbio_spark.columns.defaults import default_of
from pbio_spark.columns.numbers import INT128, Conversion, field_to_conversion
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.mapping import ColumnSpec, FieldRule, Mapped, map_columns, refuse_type
from pbio_spark.formats.arrow.schema import BINARY, Presentation
from pbio_spark.formats.body.slots import slot_size
from pbio_spark.formats.format import Format

_BYTE = Conversion("uint8", pa.uint8())

MOST_PARTS = 1 << 24
"""The limit of structures and arrays in a value."""


def format_to_plan(format: Format, spec: ColumnSpec) -> Plan:  # noqa: A002 - the project's word for the thing
    """The plan that turns records of a format into batches of the columns wanted.

    Raises:
        PbioError: PBIO_INCOMPATIBLE_TYPE or PBIO_AMBIGUOUS_NAME, with the path of the column.
    """
    planner = _Planner(format, spec.presentation)
    try:
        nodes = planner.columns(format.record.structs[0], map_columns(format.record, spec), 0)
        return Plan(format.base_length, spec.schema, nodes, planner.parts(Ref(format.name)))
    except PbioError as error:
        raise error.at(format=f"{format.name} ({format.id.hex()})") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a value: its offset in the image of its level, and the structure whose fields may control it.

    `home` is the offset of that structure in the image of the level that holds it, which may be an outer one.
    """

    offset: int
    struct: Struct
    home: int

    def below(self) -> _Place:
        return _Place(0, self.struct, self.home)


class _Planner:
    def __init__(self, format_: Format, choice: Presentation) -> None:
        self.format = format_
        self.choice = choice
        self.order = order_of(format_)
        self.structs = {struct.name: struct for struct in format_.record.structs}
        self._parts: dict[str, int] = {}
        self.offsets = {s.name: {f.name: f.offset for f in s.fields} for s in format_.structs}
        self.lengths = {s.name: s.record_length for s in format_.structs}
        self.numbers = count()

    def columns(self, struct: Struct, mapped: tuple[Mapped, ...], offset: int) -> tuple[Node, ...]:
        """The nodes of columns whose fields are those of a structure at an offset of the level's image."""
        flags: dict[int, Scalar] = {}
        return tuple(self._column(struct, one, offset, flags) for one in mapped)

    def _column(self, struct: Struct, mapped: Mapped, offset: int, flags: dict[int, Scalar]) -> Node:
        """The node of a column.

        Args:
            flags: the bytes of null bits that other fields of the structure use, by offset.
        """
        match mapped.rule:
            case FieldRule.ABSENT:
                return Absent(mapped.arrow, default_of(mapped))
            case FieldRule.COUNT:
                return self._count(struct, mapped, offset)
        assert mapped.field is not None
        return self._field(struct, mapped.field, mapped, offset, flags)

    def _field(self, struct: Struct, field: Field, mapped: Mapped, offset: int, flags: dict[int, Scalar]) -> Node:
        """The node of a column with a field, and with its null bit."""
        offsets = self.offsets[struct.name]
        node = self.value(mapped, _Place(offset + offsets[field.name], struct, offset))
        marks = struct.find(field.notes.null_items or "")
        if marks is not None and isinstance(node, Items) and isinstance(marks.type, Array):
            there = _Place(offset + offsets[marks.name], struct, offset)
            node = replace(node, marks=self._marks(marks.type, there))
        if field.notes.null_bit is None:
            return node
        mask = struct.null_bits
        assert mask is not None
        byte, bit = divmod(field.notes.null_bit, 8)
        at = offset + offsets[mask.name] + byte
        if at not in flags:
            flags[at] = Scalar(next(self.numbers), pa.uint8(), Load(at, "uint8"), _BYTE)
        return Masked(flags[at], bit, node)

    def _marks(self, array: Array, place: _Place) -> Items:
        where: int | Load = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
        item = Scalar(next(self.numbers), pa.uint8(), Load(0, "uint8"), _BYTE)
        extents = self._extents(array, place)
        return Items(next(self.numbers), pa.list_(pa.uint8()), where, extents, 1, self.format.column_major, item)

    def _count(self, struct: Struct, mapped: Mapped, offset: int) -> Node:
        """The node of a length that has another name in the format, or is part of the array's type."""
        dim = mapped.dimension
        if isinstance(dim, int):
            return Absent(mapped.arrow, default_of(mapped))
        control = struct.find(dim)
        assert control is not None
        place = _Place(offset + self.offsets[struct.name][dim], struct, offset)
        return self._number(replace(mapped, rule=FieldRule.NUMBER, type=control.type, notes=NO_NOTES), place)

    def value(self, mapped: Mapped, place: _Place) -> Node:
        """The node of a value at a place."""
        match mapped.rule, mapped.type:
            case FieldRule.STRING, _:
                slot = slot_at(self.format, place.offset)
                return Text(next(self.numbers), mapped.arrow, slot, self._is_latin(mapped.arrow))
            case ((FieldRule.NUMBER | FieldRule.SYMBOL), _):
                return self._number(mapped, place)
            case FieldRule.ITEM, Ref(name):
                (item,) = self.columns(self.structs[name], mapped.parts, place.offset)
                return item
            case FieldRule.STRUCT, Ref(name):
                return Structure(mapped.arrow, self.columns(self.structs[name], mapped.parts, place.offset))
            case FieldRule.POINTER, Pointer(target):
                number, below = next(self.numbers), self.value(mapped.parts[0], place.below())
                homes = _uses_home(target, below)
                slot, size = slot_at(self.format, place.offset), self._size(target)
                return Deref(number, mapped.arrow, slot, size, below, homes, self.parts(target))
            case ((FieldRule.CHARS | FieldRule.DECIMAL), Array() as array):
                where = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
                return self._chars(mapped, where, self._extents(array, place))
            case ((FieldRule.LIST | FieldRule.ROWS | FieldRule.MAP), Array() as array):
                return self._array(mapped, array, place)
        raise AssertionError(mapped.rule)

    def parts(self, type_: Type) -> int:
        """The number of structures and arrays in a value in place: each costs memory, however small it is."""
        match type_:
            case Ref(name):
                if name not in self._parts:
                    self._parts[name] = 1 + sum(self.parts(field.type) for field in self.structs[name].fields)
                return min(self._parts[name], MOST_PARTS)
            case Array(element, dims) if not type_.is_dynamic:
                return min(1 + prod(dim for dim in dims if isinstance(dim, int)) * self.parts(element), MOST_PARTS)
        return 0

    def _number(self, mapped: Mapped, place: _Place) -> Scalar:
        assert isinstance(mapped.type, Basic)
        conversion = self._conversion(mapped.type, mapped)
        symbols = mapped.notes.symbols if conversion.store == "symbol" else ()
        load = number_at(self.format, mapped.type, place.offset)
        return Scalar(next(self.numbers), mapped.arrow, load, conversion, symbols)

    def _conversion(self, basic: Basic, mapped: Mapped) -> Conversion:
        conversion = field_to_conversion(basic, mapped.notes, mapped.arrow, self.choice.unsigned_long_as)
        if isinstance(conversion, str):
            refuse_type(mapped.where, conversion)
        return conversion

    def _array(self, mapped: Mapped, array: Array, place: _Place) -> Node:
        where: int | Load = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
        extents = self._extents(array, place)
        number, (part, *_) = next(self.numbers), mapped.parts
        stride: int | Load = max(self._size(array.element), 1)
        if mapped.rule is FieldRule.ROWS:
            *outer, stride = extents
            extents = tuple(outer)
            item = self._chars(part, 0, (stride,), extents if self.format.column_major else ())
        elif mapped.rule is FieldRule.MAP:
            assert isinstance(array.element, Ref)
            wanted = pa.struct((mapped.arrow.key_field, mapped.arrow.item_field))
            item = Structure(wanted, self.columns(self.structs[array.element.name], mapped.parts, 0))
        else:
            item = self.value(part, place.below())
        homes, parts = _uses_home(array.element, item), self.parts(array.element)
        return Items(number, mapped.arrow, where, extents, stride, self.format.column_major, item, homes, parts)

    def _chars(
        self,
        mapped: Mapped,
        where: int | Load,
        extents: tuple[int | Load, ...],
        apart: tuple[int | Load, ...] = (),
    ) -> Node:
        """The node of a run of characters: `extents` has one entry; for `apart` see `Chars`."""
        want = mapped.arrow
        if mapped.rule is FieldRule.DECIMAL:
            if apart:
                refuse_type(mapped.where, "characters that are not contiguous cannot be a decimal")
            assert isinstance(where, int)
            return Scalar(next(self.numbers), want, Load(where, "int128"), self._conversion(INT128, mapped))
        cut = mapped.notes.logical != BINARY and pa.types.is_string(want)
        return Chars(next(self.numbers), want, where, extents, cut, self._is_latin(want), apart)

    def _extents(self, array: Array, place: _Place) -> tuple[int | Load, ...]:
        return tuple(dim if isinstance(dim, int) else self._control(dim, place) for dim in array.dims)

    def _control(self, name: str, place: _Place) -> Load:
        control = next(f for f in place.struct.fields if f.name == name)
        assert isinstance(control.type, Basic)
        # Counts are unsigned whatever their type (ffs-wire-format 7.4).
        order = self.order if control.type.size > 1 else ""
        return Load(place.home + self.offsets[place.struct.name][name], f"uint{8 * control.type.size}", order)

    def _size(self, type_: Type) -> int:
        return slot_size(type_, self.lengths, self.format.pointer_size)

    def _is_latin(self, want: pa.DataType) -> bool:
        return self.choice.encoding == "ISO-8859-1" and pa.types.is_string(want)


def _uses_home(type_: Type, node: Node) -> bool:
    """Whether a node of a lower level needs the structure's fields for the extents of its arrays.

    The node is that of a part of type `type_`; one that is a structure has fields of its own.
    """
    if isinstance(type_, Ref):
        return False
    match node:
        case Chars():
            return any(isinstance(extent, Load) for extent in (*node.extents, *node.apart))
        case Items():
            return node.homes or any(isinstance(extent, Load) for extent in (*node.extents, node.stride))
        case Deref():
            return node.homes
    return False
