"""The typed tree: names are resolved, every expression has its type, every conversion is a node.

An expression computes a value; a *place* is where a value lives (a variable, a parameter's field, an element, what a
pointer points to). No engine needs a typing rule: both operands of `Arithmetic` and `Compare` have one type, and what
is assigned has the type of its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, TypeVar, cast

from ecode.environment import Function, Mode, Param
from ecode.types import Array, Basic, Pointer, Ref, Struct, Type

# A structure's name in the typed tree; two parameters may each bring a structure of one name.
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
    """

    name: str
    index: int
    type: ValueType
    is_static: bool
    is_const: bool
    at: int
    initial: object = None


@dataclass(frozen=True, slots=True)
class Typed:
    at: int


# Places


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
    """What a pointer points to; null and strays are found out when it is used."""

    type: ValueType
    pointer: Expression


Place: TypeAlias = Local | Parameter | FieldOf | Element | Target


# Expressions


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
    """The comma operator, however many operands it joins."""

    type: ValueType | None
    before: tuple[Expression, ...]
    last: Expression


@dataclass(frozen=True, slots=True)
class Assign(Typed):
    """Stores, and yields what was stored. `resizes` names the arrays beside the field whose extent it is."""

    type: ValueType
    place: Place
    value: Expression
    resizes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update(Typed):
    """`place op= value`: computed in `common` (the type of the place itself for pointers), stored converted.

    `is_old` yields the value from before (`x++`).
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
    """In elements, an int64; pointers into different objects trap."""

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
    | Update
    | CopyRecord
    | Call
    | AddressOf
    | StringPointer
    | PointerAdd
    | PointerDifference
    | Character
    | Present
)


# Statements


@dataclass(frozen=True, slots=True)
class Evaluate(Typed):
    expression: Expression


@dataclass(frozen=True, slots=True)
class Declare(Typed):
    """The declaration of a local variable is reached: it becomes zero, then `values` are assigned."""

    variable: Variable
    values: tuple[Assign | CopyRecord, ...]


@dataclass(frozen=True, slots=True)
class Block(Typed):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Typed):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop whose number of rounds is known before it begins (ecode-language 15.3).

    `variable` moves from its value at entry by `step` while `variable op bound` holds. `may_leave` says that a round
    can end the loop before: the number of rounds is then the most that there can be, and they are charged one by one.
    `start` is what was assigned to the variable right before the loop, if that is known.
    """

    variable: Variable
    op: str
    bound: Expression
    step: int
    may_leave: bool
    start: Expression | None = None


@dataclass(frozen=True, slots=True)
class Loop(Typed):
    """`condition` is None where it is absent; `tests_first` is false for `do`.

    `counted` is filled by a pass; unless it may be left early, such a loop is charged to the budget before it begins.
    `work` is what a round costs by its text, without the rounds of loops in it; another pass fills it.
    """

    condition: Expression | None
    step: Expression | None
    body: Statement
    tests_first: bool
    counted: Counted | None = None
    work: int = 1

    @property
    def is_charged_before(self) -> bool:
        return self.counted is not None and not self.counted.may_leave


@dataclass(frozen=True, slots=True)
class Label(Typed):
    name: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Goto(Typed):
    label: str


@dataclass(frozen=True, slots=True)
class Break(Typed):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Typed):
    pass


@dataclass(frozen=True, slots=True)
class Return(Typed):
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Jump(Typed):
    """In a `Machine`: go on with another state, at once. One that leads back costs `work`, that of what it repeats."""

    state: int
    work: int = 0


@dataclass(frozen=True, slots=True)
class Machine(Typed):
    """Statements with jumps in them, as states; control falls from each state into the next, and out of the last."""

    states: tuple[tuple[Statement, ...], ...]


Statement: TypeAlias = (
    Evaluate | Declare | Block | If | Loop | Label | Goto | Break | Continue | Return | Jump | Machine
)


@dataclass(frozen=True, slots=True)
class TypedProgram:
    """A checked program.

    Attributes:
        param_types: the type of each parameter in this tree, by its name.
        structs: every structure that a type mentions, by its name in this tree.
        returns: the type of the result; None for a void program.
        variables: all locals and statics, `variables[v.index] is v`.
        functions: the host and library functions that it calls.
        work: what a call costs by the text, without the rounds of loops.
    """

    source: str
    params: tuple[Param, ...]
    param_types: Mapping[str, ValueType]
    structs: Structs
    returns: ValueType | None
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    body: Statement
    work: int = 0

    @property
    def statics(self) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.is_static)


def children(node: Typed) -> Iterator[Typed]:
    """The typed nodes directly below a node, in order of evaluation."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Typed):
            yield value
        elif isinstance(value, tuple):
            yield from _typed_in(value)


def _typed_in(values: tuple[object, ...]) -> Iterator[Typed]:
    for value in values:
        if isinstance(value, Typed):
            yield value
        elif isinstance(value, tuple):
            yield from _typed_in(value)


def walk(node: Typed) -> Iterator[Typed]:
    """A node and everything below it, outside in."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(children(node)))


_N = TypeVar("_N", bound=Typed)


def rewritten(node: _N, change: Callable[[Typed], Typed]) -> _N:
    """The tree after `change` was applied to every node, from the inside out. It must keep a node's kind of thing."""
    changes: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        new = _rewritten(value, change)
        if new is not value:
            changes[field.name] = new
    result = change(replace(node, **changes) if changes else node)
    return cast(_N, result)


def _rewritten(value: object, change: Callable[[Typed], Typed]) -> object:
    if isinstance(value, Typed):
        return rewritten(value, change)
    if isinstance(value, tuple):
        new = tuple(_rewritten(item, change) for item in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value


def is_of_input(place: Place) -> bool:
    """Whether a place lies in a parameter that is only read, pointers of the parameter's own included."""
    while not isinstance(place, Parameter):
        match place:
            case FieldOf():
                place = place.record
            case Element():
                place = place.array
            case Target(pointer=Read() as read):
                place = read.place
            case _:
                return False
    return place.param.mode is not Mode.OUT


def root(place: Place) -> Place:
    """The variable, parameter or pointer target that a place lies in."""
    while isinstance(place, FieldOf | Element):
        place = place.record if isinstance(place, FieldOf) else place.array
    return place


def is_record(type_: ValueType | None) -> bool:
    return isinstance(type_, Ref)


def is_array(type_: ValueType | None) -> bool:
    return isinstance(type_, Array)


def place_text(place: Place) -> str:
    """A place as the program writes it, without indices: `input.rows[].values`."""
    match place:
        case Local():
            return place.variable.name
        case Parameter():
            return place.param.name
        case FieldOf(record=Target() as target):
            return f"{value_text(target.pointer)}->{place.name}"
        case FieldOf():
            return f"{place_text(place.record)}.{place.name}"
        case Element():
            return f"{place_text(place.array)}[]"
        case Target():
            return f"*{value_text(place.pointer)}"


def value_text(value: Expression) -> str:
    """The place that a value was read from, or `...`."""
    return place_text(value.place) if isinstance(value, Read) else "..."
