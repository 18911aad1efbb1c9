"""Record types: the names and kinds of fields, nesting and dimensions, independent of bytes and machine.

A `Record` is a flat bundle of structures: the first one is the record itself, and names (`Ref`) refer to the others.
The flat form allows recursive record types, makes equality and hash linear in the length of the text, and keeps a walk
over a hostile description from exploding.

    >>> reading = record("reading", [
    ...     Field("n", INT32),
    ...     Field("v", Array(FLOAT64, ("n",))),
    ...     Field("unit", STRING),
    ... ])
    >>> print(reading)
    reading {
      n: int32
      v: float64[n]
      unit: string
    }

The size of a basic type is the width of its *values* (an `int32` wraps at 32 bits). The position of the bytes, their
order and the width of a pointer belong to a layout (`pbio_spark.formats`), never to a record type.

This module is not about E-code. It lives in `ecode` because every package uses record types and `ecode` is the lowest
(docs/decisions/0013).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """The classes of basic fields (ffs-wire-format 6.1)."""

    INTEGER = "integer"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    CHAR = "char"
    BOOLEAN = "boolean"
    ENUMERATION = "enumeration"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Basic:
    """A basic type: its kind and the width of its values in bytes (0 for strings, which have no width)."""

    kind: Kind
    size: int

    def __str__(self) -> str:
        match self.kind:
            case Kind.INTEGER:
                return f"int{8 * self.size}"
            case Kind.UNSIGNED:
                return f"uint{8 * self.size}"
            case Kind.FLOAT:
                return f"float{8 * self.size}"
            case Kind.CHAR | Kind.STRING:
                return self.kind.value
            case Kind.BOOLEAN | Kind.ENUMERATION:
                return f"{self.kind.value}{8 * self.size}"


@dataclass(frozen=True, slots=True)
class Array:
    """An array, outermost dimension first.

    A number is a static extent; a name is the integer field *of the same structure* that holds the extent. One name
    makes the whole array dynamic (ffs-wire-format 6.2), and only a dynamic array can be absent.
    """

    element: Type
    dims: tuple[int | str, ...]

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(dim, str) for dim in self.dims)

    def __str__(self) -> str:
        inner = f"({self.element})" if isinstance(self.element, Array | Pointer) else str(self.element)
        return inner + "".join(f"[{dim}]" for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Pointer:
    """One value of the target type, or null."""

    target: Type

    def __str__(self) -> str:
        return f"*{self.target}"


@dataclass(frozen=True, slots=True)
class Ref:
    """A structure of the same record type, in place, by its name."""

    name: str

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = Basic | Array | Pointer | Ref

INT8, INT16, INT32, INT64 = (Basic(Kind.INTEGER, size) for size in (1, 2, 4, 8))
UINT8, UINT16, UINT32, UINT64 = (Basic(Kind.UNSIGNED, size) for size in (1, 2, 4, 8))
FLOAT32, FLOAT64 = (Basic(Kind.FLOAT, size) for size in (4, 8))
CHAR = Basic(Kind.CHAR, 1)
BOOLEAN = Basic(Kind.BOOLEAN, 1)
ENUMERATION = Basic(Kind.ENUMERATION, 4)
STRING = Basic(Kind.STRING, 0)

Default: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Notes:
    """What a sender declares about a field beyond its type (DESIGN decision 9).

    Attributes:
        logical: what the bytes mean, e.g. `timestamp`, `date`, `decimal(10,2)`, `binary`, `map`; None: just the type.
        symbols: the names of an enumeration's values.
        units, accuracy: free text, e.g. `kPa` and `0.1`.
        default: the value of the field in records that lack it (decision 8).
        weight: the importance of the field to MaxMatch; None is 1.
        hidden: the field only serves another one (such as the count of an array) and is hidden from readers.
        null_bit: the bit of the structure's hidden bit field that says that this field is null, counted from the lowest
            bit of the first byte.
        null_items: the hidden field, with the extents of this array, in which a non-zero byte says that an element is
            null.
    """

    logical: str | None = None
    symbols: tuple[tuple[str, int], ...] = ()
    units: str | None = None
    accuracy: str | None = None
    default: Default = None
    weight: float | None = None
    hidden: bool = False
    null_bit: int | None = None
    null_items: str | None = None


NO_NOTES = Notes()

NULL_BITS = "nulls"
"""The logical type of the field whose bits say which other fields of its structure are null (`Notes.null_bit`)."""


@dataclass(frozen=True, slots=True)
class Field:
    """A named field of a structure. Any text may be a name; `input["integer field"]` reaches it from E-code."""

    name: str
    type: Type
    notes: Notes = field(default=NO_NOTES)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure: its name and its fields in order."""

    name: str
    fields: tuple[Field, ...]

    def find(self, name: str) -> Field | None:
        """The field of exactly that name, or None."""
        return next((f for f in self.fields if f.name == name), None)

    def like(self, name: str) -> tuple[Field, ...]:
        """The fields that a name may mean: the one with exactly that name, or else those that differ only in case.

        Names are compared in lower case, as in Spark: `strasse` is not `straße`. Hidden fields match only exactly.
        """
        exact = self.find(name)
        if exact is not None:
            return (exact,)
        lower = name.lower()
        return tuple(f for f in self.fields if f.name.lower() == lower and not f.notes.hidden)

    @property
    def null_bits(self) -> Field | None:
        """The hidden field of bits that say which other fields are null, if any."""
        return next((f for f in self.fields if f.notes.logical == NULL_BITS), None)

    @property
    def null_marks(self) -> frozenset[str]:
        """The names of the hidden fields that only mark the nulls of other fields: bits, and arrays of marks."""
        bits = {f.name for f in self.fields if f.notes.logical == NULL_BITS}
        return frozenset(bits | {f.notes.null_items for f in self.fields if f.notes.null_items is not None})

    @property
    def controls(self) -> frozenset[str]:
        """The names of the fields that hold array extents."""
        return frozenset(dim for field in self.fields for dim in _controls(field.type))

    def __str__(self) -> str:
        return f"{self.name} {{\n" + "".join(f"  {f}\n" for f in self.fields) + "}"


def _controls(type_: Type) -> Iterator[str]:
    while isinstance(type_, Array | Pointer):
        if isinstance(type_, Array):
            yield from (dim for dim in type_.dims if isinstance(dim, str))
        type_ = type_.element if isinstance(type_, Array) else type_.target


@dataclass(frozen=True, slots=True)
class Record:
    """A record type: `structs[0]` is the record; the others are the structures that it uses, with unique names."""

    structs: tuple[Struct, ...]

    @property
    def name(self) -> str:
        return self.structs[0].name

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.structs[0].fields

    def struct(self, name: str) -> Struct:
        """The structure of that name; KeyError if the record type lacks it."""
        for struct in self.structs:
            if struct.name == name:
                return struct
        raise KeyError(name)

    def subrecord(self, name: str) -> Record:
        """The record type whose top structure is `name`, with only the structures that it refers to."""
        reached: dict[str, Struct] = {}
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            if wanted not in reached:
                reached[wanted] = self.struct(wanted)
                waiting += [ref for f in reached[wanted].fields for ref in references(f.type)]
        return Record(tuple(reached.values()))

    def flattened(self) -> Record:
        """The record type as programs see it (`flat`)."""
        return Record(
            tuple(Struct(s.name, tuple(replace(f, type=flat(f.type)) for f in s.fields)) for s in self.structs)
        )

    def __str__(self) -> str:
        return "\n".join(map(str, self.structs))


def flat(type_: Type) -> Type:
    """The type with one array in place of nested arrays, and without pointers to arrays that can be absent themselves.

    Rows behind pointers are indexed like rows in place.

    >>> print(flat(Array(Array(INT32, ("n",)), (2,))), flat(Pointer(Array(INT32, ("n",)))))
    int32[2][n] int32[n]
    """
    match type_:
        case Pointer():
            target = flat(type_.target)
            return target if isinstance(target, Array) and target.is_dynamic else Pointer(target)
        case Array():
            element = flat(type_.element)
            if isinstance(element, Array):
                return Array(element.element, (*type_.dims, *element.dims))
            return Array(element, type_.dims)
    return type_


def references(type_: Type) -> Iterator[str]:
    """The names of the structures that a type mentions."""
    while isinstance(type_, Array | Pointer):
        type_ = type_.element if isinstance(type_, Array) else type_.target
    if isinstance(type_, Ref):
        yield type_.name


def record(name: str, fields: Iterable[Field], structs: Sequence[Struct] = ()) -> Record:
    """A record type from its own fields and the structures they refer to. Raises TypeError for a value that is not a
    field."""
    own = tuple(fields)
    for one in own:
        if not isinstance(one, Field) or not isinstance(one.type, Type):
            raise TypeError(f'not a field of a record type: {one!r} (example: Field("n", INT32))')
    return Record((Struct(name, own), *structs))
