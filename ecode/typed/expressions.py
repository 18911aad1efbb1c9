"""Expressions: each computes a typed value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ecode.environment import Function
from ecode.typed.places import FieldOf, Place, Typed, ValueType
from ecode.types import Basic, Pointer


@dataclass(frozen=True, slots=True)
class Constant(Typed):
    """A number, a string (bytes), or None: the null pointer, the absent string."""

    type: ValueType
    value: int | float | bytes | None


@dataclass(frozen=True, slots=True)
class Read(Typed):
    """The value at a place. Its type is a plain number, a string, a pointer or a handle."""

    type: ValueType
    place: Place


@dataclass(frozen=True, slots=True)
class Convert(Typed):
    """From one plain number type to another."""

    type: Basic
    value: Expression


@dataclass(frozen=True, slots=True)
class Negate(Typed):
    type: Basic
    value: Expression


@dataclass(frozen=True, slots=True)
class Invert(Typed):
    type: Basic
    value: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic(Typed):
    type: Basic
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare(Typed):
    """0 or 1. Operands are numbers of one type, strings (`==` and `!=` only) or pointers."""

    type: Basic
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not(Typed):
    """`!value` of a number, string, pointer or handle."""

    type: Basic
    value: Expression


@dataclass(frozen=True, slots=True)
class Logical(Typed):
    """`&&` and `||`."""

    type: Basic
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Choice(Typed):
    """`condition ? then : otherwise`; a `type` of None is void."""

    type: ValueType | None
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Sequence(Typed):
    """The comma operator, with any number of operands."""

    type: ValueType | None
    before: tuple[Expression, ...]
    last: Expression


@dataclass(frozen=True, slots=True)
class Assign(Typed):
    """Stores, and yields what was stored. `resizes` names the arrays whose extent the field is."""

    type: ValueType
    place: Place
    value: Expression
    resizes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompoundAssign(Typed):
    """`place op= value`: computed in `common` (the type of the place itself for pointers), stored converted.

    With `is_old` it yields the old value (`x++`).
    """

    type: ValueType
    place: Place
    op: str
    common: ValueType
    value: Expression
    is_old: bool
    resizes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyRecord(Typed):
    """Record assignment: all fields, deeply. It is a statement: its type is None."""

    type: None
    place: Place
    source: Place


@dataclass(frozen=True, slots=True)
class Call(Typed):
    type: ValueType | None
    function: Function
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AddressOf(Typed):
    """`&place`; `is_decay` is an array used as a pointer to its first element, which may not exist."""

    type: Pointer
    place: Place
    is_decay: bool = False


@dataclass(frozen=True, slots=True)
class StringPointer(Typed):
    """A string used as `char *`: it may be read up to its terminating NUL, never written."""

    type: Pointer
    value: Expression


@dataclass(frozen=True, slots=True)
class PointerAdd(Typed):
    """`pointer + offset` in elements; the offset is an int64."""

    type: Pointer
    pointer: Expression
    offset: Expression


@dataclass(frozen=True, slots=True)
class PointerDifference(Typed):
    """The difference in elements, an int64; pointers into different objects trap."""

    type: Basic
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Character(Typed):
    """`string[index]`, checked; the index of the terminating NUL gives 0."""

    type: Basic
    string: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Present(Typed):
    """`present(place)`: 0 if the field is absent from the event."""

    type: Basic
    place: Place


@dataclass(frozen=True, slots=True)
class Unset(Typed):
    """`unset(place)`: the field becomes null. A pass lowers it, so engines never see it."""

    type: None
    place: FieldOf


Expression: TypeAlias = (
    Constant
    | Read
    | Convert
    | Negate
    | Invert
    | Arithmetic
    | Compare
    | Not
    | Logical
    | Choice
    | Sequence
    | Assign
    | CompoundAssign
    | CopyRecord
    | Call
    | AddressOf
    | StringPointer
    | PointerAdd
    | PointerDifference
    | Character
    | Present
    | Unset
)
