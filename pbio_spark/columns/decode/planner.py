"""Format x wanted Arrow schema -> `Plan`: the partner walk of what arrives and what is wanted.

Wanted columns find their field by name (DESIGN decision 12): exactly, else without regard to case if that is unique.
What a format does not have is null or its default; what it has in a type that cannot become the wanted one is an error
with the path of the field. The wanted type also decides how far a recursive structure is unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from math import prod
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from ecode.types import (
    CHAR,
    NO_NOTES,
    Array,
    Basic,
    Default,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
    flat,
    references,
)
from pbio_spark.columns.decode.plan import (
    Absent,
    Chars,
    Deref,
    Group,
    Items,
    Load,
    Masked,
    Node,
    Plan,
    Scalar,
    Text,
    number_at,
    order_of,
    slot_at,
)
from pbio_spark.columns.lossless import exactly, text_to_number
from pbio_spark.columns.numbers import INT128, Conversion, field_to_conversion
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import BINARY, DEFAULT, ITEM, Presentation, decimal_type, shown
from pbio_spark.formats.body.opt_info import NULL_BITS
from pbio_spark.formats.body.slots import slot_size
from pbio_spark.formats.format import Format

NOTHING: Mapping[str, Any] = MappingProxyType({})

_BYTE = Conversion("uint8", pa.uint8())

MOST_PARTS = 1 << 24
"""More structures and arrays than this in a value are too many, whatever their exact number."""


def format_to_plan(
    format: Format,  # noqa: A002 - the project's word for the thing
    schema: pa.Schema,
    presentation: Presentation = DEFAULT,
    *,
    aliases: Mapping[str, str] = NOTHING,
    defaults: Mapping[str, Default] = NOTHING,
    symbols: Mapping[str, tuple[tuple[str, int], ...]] = NOTHING,
    counts: Mapping[str, tuple[str, int]] = NOTHING,
) -> Plan:
    """The plan that turns records of a format into batches of a schema.

    Args:
        schema: the columns wanted, in order; types must be as Spark's `to_arrow_schema` makes them.
        presentation: what PBIO leaves open: encoding, unsigned longs, texts in char arrays.
        aliases: wanted path (`a.b`) -> another name of the field that holds it.
        defaults: wanted path -> the value where a format has no such field.
        symbols: wanted path -> the names of an enumeration's values, for a format that has none (see `symbols`).
        counts: of the wanted type: see `record_to_counts`.

    Raises:
        PbioError: PBIO_INCOMPATIBLE_TYPE or PBIO_AMBIGUOUS_NAME, with the wanted path.
    """
    planner = _Planner(format, presentation, aliases, defaults, symbols, counts)
    try:
        nodes = planner.fields(format.name, list(schema), 0, ())
        return Plan(format, schema, nodes, planner.parts(Ref(format.name)))
    except PbioError as error:
        raise error.at(format=f"{format.name} ({format.id.hex()})") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value lies: its offset in the image of its level, and the structure whose fields may control it.

    `home` is the offset of that structure in the image of the level that holds it, which may be an outer one.
    """

    offset: int
    struct: Struct
    home: int

    def below(self) -> _Place:
        return _Place(0, self.struct, self.home)


class _Planner:
    def __init__(
        self,
        format_: Format,
        choice: Presentation,
        aliases: Mapping[str, str],
        defaults: Mapping[str, Default],
        symbols: Mapping[str, tuple[tuple[str, int], ...]],
        counts: Mapping[str, tuple[str, int]],
    ) -> None:
        self.counts = counts
        self.format = format_
        self.choice = choice
        self.aliases = aliases
        self.defaults = defaults
        self.symbols = symbols
        self.order = order_of(format_)
        self.structs = {struct.name: struct for struct in format_.record.structs}
        self._parts: dict[str, int] = {}
        self.offsets = {s.name: {f.name: f.offset for f in s.fields} for s in format_.structs}
        self.lengths = {s.name: s.record_length for s in format_.structs}
        self.numbers = count()

    def fields(self, struct_name: str, wanted: list[pa.Field], offset: int, path: tuple[str, ...]) -> tuple[Node, ...]:
        """The nodes of the wanted fields of a structure at an offset of the level's image."""
        struct = self.structs[struct_name]
        nodes: list[Node] = []
        flags: dict[int, Scalar] = {}
        for want in wanted:
            here = (*path, want.name)
            field = find_field(struct, want.name, self.aliases, here)
            if field is None:
                nodes.append(self._count(struct_name, want, offset, here) or absent(want, self.defaults, here))
            else:
                nodes.append(self.field(struct, field, want.type, offset, here, flags))
        return tuple(nodes)

    def field(
        self,
        struct: Struct,
        field: Field,
        want: pa.DataType,
        offset: int,
        path: tuple[str, ...],
        flags: dict[int, Scalar],
    ) -> Node:
        """The node of a field of a structure at an offset of the level's image.

        Args:
            flags: the bytes of bits for nulls that other fields of the structure have looked at, by their offset.
        """
        offsets = self.offsets[struct.name]
        place = _Place(offset + offsets[field.name], struct, offset)
        node = self.value(field.type, field.notes, want, place, path)
        marks = struct.find(field.notes.null_items or "")
        if marks is not None and isinstance(node, Items) and isinstance(marks.type, Array):
            there = _Place(offset + offsets[marks.name], struct, offset)
            node = replace(node, marks=self._marks(marks.type, there))
        if field.notes.null_bit is None:
            return node
        mask = next(f for f in struct.fields if f.notes.logical == NULL_BITS)
        byte, bit = divmod(field.notes.null_bit, 8)
        at = offset + offsets[mask.name] + byte
        if at not in flags:
            flags[at] = Scalar(next(self.numbers), pa.uint8(), Load(at, "uint8"), _BYTE)
        return Masked(flags[at], bit, node)

    def _marks(self, array: Array, place: _Place) -> Items:
        where: int | Load = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
        extents = tuple(dim if isinstance(dim, int) else self._control(dim, place) for dim in array.dims)
        item = Scalar(next(self.numbers), pa.uint8(), Load(0, "uint8"), _BYTE)
        return Items(next(self.numbers), pa.list_(pa.uint8()), where, extents, 1, self.format.column_major, item)

    def _count(self, struct_name: str, want: pa.Field, offset: int, path: tuple[str, ...]) -> Node | None:
        """The node of a length that the format has under another name, or in the type of the array."""
        name, axis = self.counts.get(".".join(path), ("", 0))
        struct = self.structs[struct_name]
        array = find_field(struct, name, self.aliases, (*path[:-1], name)) if name else None
        dims = () if array is None else dims_of(array.type)
        if axis >= len(dims):
            return None
        dim = dims[axis]
        if isinstance(dim, int):
            return Absent(want.type, exact_default(dim, want.type))
        control = next(f for f in struct.fields if f.name == dim)
        place = _Place(offset + self.offsets[struct_name][dim], struct, offset)
        return self.value(control.type, NO_NOTES, want.type, place, path)

    def value(self, type_: Type, notes: Notes, want: pa.DataType, place: _Place, path: tuple[str, ...]) -> Node:
        """The node of a field's value, or of a part of it, as the wanted type."""
        match type_:
            case Basic(Kind.STRING):
                return self._text(want, place, path)
            case Basic():
                return self._scalar(type_, notes, want, place, path)
            case Ref(name):
                if notes.logical == ITEM and (item := self._item(name)) is not None:
                    return self.field(self.structs[name], item, want, place.offset, path, {})
                if not pa.types.is_struct(want):
                    _refuse(path, f"a structure cannot become {want}")
                nodes = self.fields(name, [want.field(i) for i in range(want.num_fields)], place.offset, path)
                return Group(want, nodes)
            case Pointer(target):
                number = next(self.numbers)
                below = self.value(target, notes, want, place.below(), path)
                return Deref(
                    number,
                    want,
                    slot_at(self.format, place.offset),
                    self._size(target),
                    below,
                    _uses_home(target, below),
                    self.parts(target),
                )
            case Array():
                return self._array(type_, notes, want, place, path)

    def parts(self, type_: Type) -> int:
        """How many structures and arrays lie in a value where it stands: each costs memory, however small it is."""
        match type_:
            case Ref(name):
                if name not in self._parts:
                    self._parts[name] = 1 + sum(self.parts(field.type) for field in self.structs[name].fields)
                return min(self._parts[name], MOST_PARTS)
            case Array(element, dims) if not type_.is_dynamic:
                return min(1 + prod(dim for dim in dims if isinstance(dim, int)) * self.parts(element), MOST_PARTS)
        return 0

    def _text(self, want: pa.DataType, place: _Place, path: tuple[str, ...]) -> Node:
        if not (pa.types.is_string(want) or pa.types.is_binary(want)):
            _refuse(path, f"a string cannot become {want}")
        return Text(next(self.numbers), want, slot_at(self.format, place.offset), self._is_latin(want))

    def _scalar(self, basic: Basic, notes: Notes, want: pa.DataType, place: _Place, path: tuple[str, ...]) -> Scalar:
        if basic.kind is Kind.ENUMERATION and not notes.symbols and pa.types.is_string(want):
            notes = replace(notes, symbols=self.symbols.get(".".join(path), ()))
            if not notes.symbols:
                _refuse(path, f"no version, or no two alike, name the values of {basic}", "ask for numbers: BIGINT")
        conversion = self._conversion(basic, notes, want, path)
        symbols = notes.symbols if conversion.store == "symbol" else ()
        return Scalar(next(self.numbers), want, number_at(self.format, basic, place.offset), conversion, symbols)

    def _conversion(self, basic: Basic, notes: Notes, want: pa.DataType, path: tuple[str, ...]) -> Conversion:
        conversion = field_to_conversion(basic, notes, want, self.choice.unsigned_long_as)
        if isinstance(conversion, str):
            _refuse(path, conversion)
        return conversion

    def _array(self, array: Array, notes: Notes, want: pa.DataType, place: _Place, path: tuple[str, ...]) -> Node:
        where: int | Load = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
        extents = tuple(dim if isinstance(dim, int) else self._control(dim, place) for dim in array.dims)
        if array.element == CHAR and not pa.types.is_list(want):
            return self._chars(notes, array, extents, where, want, path)
        element, inner = array.element, want
        stride: int | Load = max(self._size(element), 1)
        if element == CHAR and _depth(want) == len(extents) - 1:
            # Rows of characters are texts: the last dimension belongs to the element.
            extents, stride = extents[:-1], extents[-1]
        number = next(self.numbers)
        if pa.types.is_map(want) and isinstance(element, Ref) and len(extents) == 1:
            item: Node = self._entry(element.name, want, path)
        else:
            for _ in extents:
                if not pa.types.is_list(inner):
                    _refuse(path, f"an array of {len(extents)} dimensions cannot become {want}")
                inner = inner.value_type
            if len(extents) < len(array.dims):
                last = array.dims[-1]
                inside = (last if isinstance(last, int) else self._control(last, place),)
                apart = extents if self.format.column_major else ()
                item = self._chars(notes, Array(CHAR, (last,)), inside, 0, inner, path, apart)
            else:
                item = self.value(element, notes, inner, place.below(), path)
        homes, parts = _uses_home(element, item), self.parts(element)
        return Items(number, want, where, extents, stride, self.format.column_major, item, homes, parts)

    def _entry(self, name: str, want: pa.MapType, path: tuple[str, ...]) -> Group:
        """The entry of a map: a structure whose visible fields are key and value."""
        visible = [f for f in self.structs[name].fields if not f.notes.hidden]
        if len(visible) != 2:
            _refuse(path, f"a structure of {len(visible)} fields cannot be an entry of {want}")
        wanted = (want.key_field, want.item_field)
        flags: dict[int, Scalar] = {}
        nodes = tuple(
            self.field(self.structs[name], f, w.type, 0, path, flags) for f, w in zip(visible, wanted, strict=True)
        )
        return Group(pa.struct(wanted), nodes)

    def _item(self, name: str) -> Field | None:
        """The field that a structure stands for if it is the element of a ragged array."""
        visible = [f for f in self.structs[name].fields if not f.notes.hidden]
        return visible[0] if len(visible) == 1 else None

    def _chars(
        self,
        notes: Notes,
        array: Array,
        extents: tuple[int | Load, ...],
        where: int | Load,
        want: pa.DataType,
        path: tuple[str, ...],
        apart: tuple[int | Load, ...] = (),
    ) -> Node:
        decimal = decimal_type(notes.logical)
        if decimal is not None and array.dims == (16,) and isinstance(where, int) and not apart:
            conversion = self._conversion(INT128, notes, want, path)
            return Scalar(next(self.numbers), want, Load(where, "int128"), conversion)
        if len(extents) != 1 or not (pa.types.is_string(want) or pa.types.is_binary(want)):
            _refuse(path, f"characters in {len(extents)} dimensions cannot become {want}")
        cut = notes.logical != BINARY and pa.types.is_string(want)
        return Chars(next(self.numbers), want, where, extents, cut, self._is_latin(want), apart)

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
    """Whether a node of a level below the structure needs the structure's fields, for the extents of its arrays.

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


def _depth(type_: pa.DataType) -> int:
    return 1 + _depth(type_.value_type) if pa.types.is_list(type_) else 0


def find_field(struct: Struct, wanted: str, aliases: Mapping[str, str], path: tuple[str, ...]) -> Field | None:
    """The field of a structure for a wanted name: exactly, else without regard to case (DESIGN decision 12). An alias
    is one more name, which counts where the own one finds nothing or too much. Whoever looks for a field looks here:
    columns, the programs of readers, and what programs made.

    Raises PBIO_AMBIGUOUS_NAME.
    """
    name, alias = wanted, aliases.get(".".join(path))
    near = _called(struct, name)
    if alias is not None and len(near) != 1 and (other := _called(struct, alias)):
        name, near = alias, other
    if len(near) > 1:
        raise PbioError(
            "PBIO_AMBIGUOUS_NAME",
            f"{name!r} could be any of {', '.join(repr(f.name) for f in near)}, which differ only in case",
            field=path_to_text(path),
            hint="write the name exactly, or say which with the option fieldAliases",
        )
    return near[0] if near else None


def _called(struct: Struct, name: str) -> tuple[Field, ...]:
    return struct.like(name) or tuple(f for f in struct.fields if shown(f.name) == name)


def record_to_counts(record: Record) -> dict[str, tuple[str, int]]:
    """The fields of a wanted type that say how long an array is: path -> the array beside it, and which dimension.

    >>> from ecode.types import FLOAT64, INT32, record
    >>> record_to_counts(record("r", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))]))
    {'n': ('v', 0)}
    """
    found: dict[str, tuple[str, int]] = {}

    def walk(struct: str, path: str, inside: tuple[str, ...]) -> None:
        for f in record.struct(struct).fields:
            for axis, dim in enumerate(dims_of(f.type)):
                if isinstance(dim, str):
                    found.setdefault(path + dim, (f.name, axis))
            for name in references(f.type):
                if name not in inside:
                    walk(name, f"{path}{f.name}.", (*inside, name))

    walk(record.name, "", (record.name,))
    return found


def dims_of(type_: Type) -> tuple[int | str, ...]:
    """The dimensions of an array, wherever it lies."""
    whole = flat(type_)
    return whole.dims if isinstance(whole, Array) else ()


def absent(want: pa.Field, defaults: Mapping[str, Default], path: tuple[str, ...]) -> Absent:
    """The node of a column that a format does not have. Raises PBIO_INCOMPATIBLE_TYPE if its default does not fit."""
    default = defaults.get(".".join(path))
    try:
        return Absent(want.type, exact_default(default, want.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError):
        _refuse(
            path, f"the default {default!r} is not a value of type {want.type}", "give one that the column's type has"
        )


def exact_default(default: Default, want: pa.DataType) -> Default | Decimal:
    """A default as `pa.scalar` takes it for a type; ValueError, or what that raises, if the type does not have it.

    The digits of a fraction may be more than a floating type has: 0.1 has no other.
    """
    is_decimal, is_floating = pa.types.is_decimal(want), pa.types.is_floating(want)
    if isinstance(default, int | float) and not isinstance(default, bool):
        if pa.types.is_integer(want) or is_decimal or (is_floating and isinstance(default, int)):
            number = exactly(*text_to_number(repr(default)), want)
            if number is None:
                raise ValueError(default)
            if not is_decimal:
                return number
            return Decimal((int(number < 0), tuple(map(int, str(abs(int(number))))), -want.scale))
        if pa.types.is_float32(want) and _MAX_FLOAT <= abs(default) < math.inf:
            raise ValueError(default)
    pa.scalar(default, want)
    return default


_MAX_FLOAT = 3.4028235677973366e38
"""Halfway between the greatest float and what would follow it."""


def path_to_text(path: tuple[str, ...]) -> str:
    return "$" + "".join(f".{name}" for name in path)


def _refuse(
    path: tuple[str, ...], reason: str, hint: str = "ask for a wider type, or leave the column out"
) -> NoReturn:
    raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, field=path_to_text(path), hint=hint)
