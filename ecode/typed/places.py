"""Variables, and the places where values live: a variable, a parameter's field, an element, a pointer's target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ecode.environment import Param
from ecode.types import Struct, Type

if TYPE_CHECKING:
    from ecode.typed.expressions import Expression

# A structure's name in the typed tree, since two parameters may have structures of the same name.
Structs: TypeAlias = Mapping[str, Struct]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A handle that only host functions look into, e.g. an attribute list."""

    name: str

    def __str__(self) -> str:
        return self.name


ValueType: TypeAlias = Type | Opaque
ATTR_LIST = Opaque("attr_list")


@dataclass(frozen=True, eq=False, slots=True)
class Variable:
    """A local or static variable. Names may repeat; `index` tells them apart.

    Attributes:
        initial: the value a static variable starts with, in plain Python form (None elsewhere).
        is_shared: it is a parameter of mode `state`, a static variable that all programs in a row share.
    """

    name: str
    index: int
    type: ValueType
    is_static: bool
    is_const: bool
    at: int
    initial: object = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Typed:
    at: int


@dataclass(frozen=True, slots=True)
class Local(Typed):
    type: ValueType
    variable: Variable


@dataclass(frozen=True, slots=True)
class Parameter(Typed):
    """A parameter as a whole: the record, or the scalar passed by value."""

    type: ValueType
    param: Param


@dataclass(frozen=True, slots=True)
class FieldOf(Typed):
    type: ValueType
    record: Place
    struct: str
    name: str


@dataclass(frozen=True, slots=True)
class Element(Typed):
    """`array[index]`. An array of rank n is indexed by n of these, outermost dimension innermost in the tree."""

    type: ValueType
    array: Place
    index: Expression


@dataclass(frozen=True, slots=True)
class Target(Typed):
    """The target of a pointer; a null or stray pointer traps when used."""

    type: ValueType
    pointer: Expression


Place: TypeAlias = Local | Parameter | FieldOf | Element | Target
