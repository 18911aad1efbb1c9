"""The values of a format in memory: the sizes of types, the bytes of numbers, the extents of arrays.

Decoding and encoding both use `Images` of a format; ffs-wire-format 5.6, 5.7 and 6.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

from ecode.types import Array, Basic, Kind, Pointer, Struct, Type
from pbio_spark.formats import Format, StructLayout
from pbio_spark.formats.body.slots import slot_size

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"
"""A decoded value: structures are dicts in field order, arrays are lists (one level per dimension), NULL is None."""

Path: TypeAlias = "tuple[Path, str | int] | None"
"""The path to a value, innermost step last: names of fields and indices. Paths share their beginning, so a step is
cheap."""

INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}


def kind_of(value: object) -> str:
    """The type of a value, for an error: `an int`, or None itself."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


@dataclass(frozen=True, slots=True)
class FieldImage:
    """One field of a structure: its name, type, and offset from the structure's start."""

    name: str
    type: Type
    offset: int


@dataclass(frozen=True, slots=True)
class StructImage:
    """A structure in memory: `length` bytes, fields in ascending order of offset.

    `shares` says that pointers in its fields may share targets (7.5): the structure is recursive. `null_bits` has the
    offset and the value of the bit that marks a field as null, `null_items` the field that marks the null elements of
    an array; the marking fields are `unseen`. `counts` has, for each control field, an array that it counts, and in
    which of its dimensions.
    """

    name: str
    length: int
    fields: tuple[FieldImage, ...]
    by_name: dict[str, FieldImage]
    shares: bool
    null_bits: dict[str, tuple[int, int]]
    null_items: dict[str, str]
    unseen: frozenset[str]
    counts: dict[str, tuple[str, int]]

    def field(self, name: str) -> FieldImage:
        return self.by_name[name]


def align(offset: int) -> int:
    """The next multiple of 8."""
    return (offset + 7) & ~7


def steps_of(path: Path) -> list[str | int]:
    """
    >>> steps_of((((None, "a"), 3), "unit price"))
    ['a', 3, 'unit price']
    """
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return steps[::-1]


class Images:
    """The structures of one format in its machine's layout. Get them from `images_of`."""

    def __init__(self, format: Format) -> None:  # noqa: A002 - the project's word for the thing
        self.pointer_size = format.pointer_size
        self.byte_order = format.byte_order
        self._order = ">" if format.byte_order == "big" else "<"
        self._float_format = format.float_format
        self._column_major = format.column_major
        self._structs = {
            layout.name: _struct_image(layout, struct, format.is_recursive(layout.name))
            for layout, struct in zip(format.structs, format.record.structs, strict=True)
        }
        self._lengths = {layout.name: layout.record_length for layout in format.structs}
        self.top = self._structs[format.name]

    def struct(self, name: str) -> StructImage:
        return self._structs[name]

    def size(self, type_: Type) -> int:
        """The bytes that a value of this type takes in place, without the target of a pointer."""
        return slot_size(type_, self._lengths, self.pointer_size)

    def pointer(self, data: bytes | bytearray, at: int) -> int:
        return int.from_bytes(data[at : at + self.pointer_size], self.byte_order)

    def extents(self, dims: tuple[int | str, ...], owner: StructImage, data: bytes | bytearray, base: int) -> list[int]:
        """The extents of an array in a structure of type `owner` whose image starts at `base`.

        A control field counts as unsigned whatever its type (7.4), so that a negative one is too large for any record.
        """
        found: list[int] = []
        for dim in dims:
            if isinstance(dim, str):
                control = owner.field(dim)
                at = base + control.offset
                dim = int.from_bytes(data[at : at + self.size(control.type)], self.byte_order)
            found.append(dim)
        return found

    def memory_order(self, extents: list[int]) -> list[int] | None:
        """The elements of an array in their order in memory, each as its number with the last index fastest.

        None if that is the order in memory.
        """
        if not self._column_major or len(extents) < 2 or not prod(extents):
            return None  # an empty array may claim any other extent without a byte in the record
        strides = [prod(extents[k + 1 :]) for k in range(len(extents))]
        order = [0]
        for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
            order = [outer + i * stride for outer in order for i in range(extent)]
        return order

    def read_numbers(self, basic: Basic, data: bytes, at: int, count: int) -> list[Value]:
        """`count` values of a basic type other than string, from `at` on.

        A `float` of 16 bytes is a long double of an unknown machine: its bytes are the value.
        """
        size = basic.size
        if basic.kind is Kind.FLOAT:
            if size == 16:
                return [data[at + 16 * i : at + 16 * i + 16] for i in range(count)]
            if size == 8 and self._float_format == 3:
                data = _swap_words(data[at : at + 8 * count])
                at = 0
            return list(struct.unpack_from(f"{self._float_order(size)}{count}{'f' if size == 4 else 'd'}", data, at))
        values = struct.unpack_from(f"{self._order}{count}{_code(basic)}", data, at)
        return [value != 0 for value in values] if basic.kind is Kind.BOOLEAN else list(values)

    def number_to_bytes(self, basic: Basic, value: Value) -> bytes:
        """The bytes of a value; ValueError if the type does not have it."""
        try:
            match basic.kind, value:
                case Kind.FLOAT, bytes() if basic.size == 16 == len(value):
                    return value
                case Kind.FLOAT, int() | float() if basic.size < 16:
                    code = f"{self._float_order(basic.size)}{'f' if basic.size == 4 else 'd'}"
                    image = struct.pack(code, value)
                    if isinstance(value, int) and struct.unpack(code, image)[0] != value:
                        raise OverflowError(value)
                    return _swap_words(image) if basic.size == 8 and self._float_format == 3 else image
                case Kind.BOOLEAN, bool():
                    return int(value).to_bytes(basic.size, self.byte_order)
                case Kind.INTEGER | Kind.UNSIGNED | Kind.CHAR | Kind.ENUMERATION, int():
                    return struct.pack(self._order + _code(basic), value)
        except (struct.error, OverflowError):
            raise ValueError(f"{value!r} is out of the range of {basic}") from None
        if value is None:
            raise ValueError(f"None cannot be stored as {basic}; a field has nulls if it is a pointer, *{basic}")
        raise ValueError(f"{kind_of(value)} cannot be stored as {basic}")

    def _float_order(self, size: int) -> str:
        match self._float_format:
            case 1:
                return ">"
            case 2:
                return "<"
            case 3 if size == 8:
                return "<"
        return self._order


def _struct_image(layout: StructLayout, struct: Struct, shares: bool) -> StructImage:
    fields = tuple(
        FieldImage(place.name, field.type, place.offset)
        for place, field in zip(layout.fields, struct.fields, strict=True)
    )
    by_name = {f.name: f for f in fields}
    mask = 0 if struct.null_bits is None else by_name[struct.null_bits.name].offset
    bits = {f.name: f.notes.null_bit for f in struct.fields if f.notes.null_bit is not None}
    return StructImage(
        layout.name,
        layout.record_length,
        fields,
        by_name,
        shares,
        {name: (mask + bit // 8, 1 << bit % 8) for name, bit in bits.items()},
        {f.name: f.notes.null_items for f in struct.fields if f.notes.null_items is not None},
        struct.null_marks,
        _counts(struct),
    )


def _counts(struct: Struct) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for field in struct.fields:
        type_, depth = field.type, 0
        while isinstance(type_, Array | Pointer) and field.name not in struct.null_marks:
            if isinstance(type_, Pointer):
                type_ = type_.target
                continue
            for dim in type_.dims:
                if isinstance(dim, str):
                    found.setdefault(dim, (field.name, depth))
                depth += 1
            type_ = type_.element
    return found


def _code(basic: Basic) -> str:
    code = INTEGERS[basic.size]
    return code if basic.kind is Kind.INTEGER else code.upper()


def _swap_words(data: bytes) -> bytes:
    """Exchanges the two 32-bit words of each 8 bytes."""
    words = memoryview(data).cast("I")
    out = bytearray(data)
    swapped = memoryview(out).cast("I")
    swapped[0::2], swapped[1::2] = words[1::2], words[0::2]
    return bytes(out)


@lru_cache(maxsize=128)
def images_of(format: Format) -> Images:  # noqa: A002
    """The images of a format, computed once."""
    return Images(format)
