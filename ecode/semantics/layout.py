"""Sizes and offsets of values in memory: C's layout, for `sizeof`, and that of generated code's own memory."""

from __future__ import annotations

from dataclasses import dataclass

from ecode.typed import Structs, ValueType
from ecode.types import Array, Basic, Kind, Pointer, Ref

# Larger than any type that a program may use; sums of absurd extents stay finite.
TOO_LARGE = 1 << 62


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths of everything that is not a number, in bytes.

    >>> from ecode.types import INT32, FLOAT64, Field, Struct
    >>> C_LAYOUT.size(Ref("p"), {"p": Struct("p", (Field("a", INT32), Field("b", FLOAT64)))})
    16
    """

    string: int
    pointer: int
    dynamic: int

    def size(self, type_: ValueType, structs: Structs) -> int:
        """Bytes of a value in place, without what it points to."""
        match type_:
            case Basic(Kind.STRING):
                return self.string
            case Basic():
                return type_.size
            case Pointer():
                return self.pointer
            case Array() if type_.is_dynamic:
                return self.dynamic
            case Array():
                count = 1
                for dim in type_.dims:
                    count *= int(dim)
                return min(count * self.size(type_.element, structs), TOO_LARGE)
            case Ref():
                return self.offsets(type_.name, structs)[-1]
            case _:
                return 8

    def alignment(self, type_: ValueType, structs: Structs) -> int:
        match type_:
            case Basic() if type_.kind is not Kind.STRING:
                return max(1, min(type_.size, 16))
            case Array() if not type_.is_dynamic:
                return self.alignment(type_.element, structs)
            case Ref():
                return max((self.alignment(f.type, structs) for f in structs[type_.name].fields), default=1)
            case _:
                return 8

    def offsets(self, struct: str, structs: Structs) -> tuple[int, ...]:
        """The offset of each field, then the size of the whole."""
        at, offsets = 0, []
        for field in structs[struct].fields:
            at = align(at, self.alignment(field.type, structs))
            offsets.append(at)
            at = min(at + self.size(field.type, structs), TOO_LARGE)
        return (*offsets, align(at, self.alignment(Ref(struct), structs)))

    def offset(self, struct: str, name: str, structs: Structs) -> int:
        names = [f.name for f in structs[struct].fields]
        return self.offsets(struct, structs)[names.index(name)]


def align(at: int, alignment: int) -> int:
    return (at + alignment - 1) // alignment * alignment


C_LAYOUT = Layout(string=8, pointer=8, dynamic=8)
# A string is an address and a length, a pointer an address and its bounds, a dynamic array an address and a capacity.
MEMORY_LAYOUT = Layout(string=16, pointer=24, dynamic=16)
