"""The syntax tree: the program as written, with no names resolved. Every node knows its offset in the source (`at`).

`depth` is the height of the tree below a node. The parser builds bottom-up, without recursion, and refuses a node that
is too high, so every later pass may recurse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Node:
    at: int
    depth: int


# Expressions


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class NumberLiteral(Node):
    """A literal; `suffix` has its letters in lower case, `decimal` is false for 0x, 0b and octal forms."""

    value: int | float
    suffix: str
    decimal: bool


@dataclass(frozen=True, slots=True)
class CharacterLiteral(Node):
    value: int


@dataclass(frozen=True, slots=True)
class StringLiteral(Node):
    value: bytes


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is one of & * + - ~ !"""

    op: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Increment(Node):
    """`++` and `--`; `op` is + or -, `prefix` says that the new value is the result."""

    op: str
    operand: Expression
    prefix: bool


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """`op` is empty for `=` and the operator for a compound assignment."""

    op: str
    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Comma(Node):
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    type: TypeName
    operand: Expression


@dataclass(frozen=True, slots=True)
class SizeOf(Node):
    operand: Expression | TypeName


@dataclass(frozen=True, slots=True)
class Index(Node):
    array: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Member(Node):
    record: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    function: Expression
    arguments: tuple[Expression, ...]


Expression: TypeAlias = (
    Name
    | NumberLiteral
    | CharacterLiteral
    | StringLiteral
    | Unary
    | Increment
    | Binary
    | Assign
    | Conditional
    | Comma
    | Cast
    | SizeOf
    | Index
    | Member
    | Call
)


# Declarations


@dataclass(frozen=True, slots=True)
class Word(Node):
    """A keyword or type name among specifiers."""

    text: str


@dataclass(frozen=True, slots=True)
class StructSpecifier(Node):
    """`fields` is None for a mere reference `struct tag`."""

    tag: str | None
    fields: tuple[FieldDeclaration, ...] | None


@dataclass(frozen=True, slots=True)
class EnumSpecifier(Node):
    tag: str | None
    values: tuple[Enumerator, ...] | None


@dataclass(frozen=True, slots=True)
class Enumerator(Node):
    name: str
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Specifiers(Node):
    parts: tuple[Word | StructSpecifier | EnumSpecifier, ...]


@dataclass(frozen=True, slots=True)
class Declarator(Node):
    """`pointers` stars before the name, then array extents (None for `[]`); `prototype` for `f(...)`."""

    name: str
    pointers: int
    extents: tuple[Expression | None, ...]
    prototype: bool


@dataclass(frozen=True, slots=True)
class FieldDeclaration(Node):
    specifiers: Specifiers
    declarators: tuple[Declarator, ...]


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    specifiers: Specifiers
    pointers: int


@dataclass(frozen=True, slots=True)
class InitItem(Node):
    """One value of a list, with the `[k]` and `.f` that precede it."""

    designators: tuple[Expression | str, ...]
    value: Initialiser


@dataclass(frozen=True, slots=True)
class InitList(Node):
    items: tuple[InitItem, ...]


Initialiser: TypeAlias = Expression | InitList


@dataclass(frozen=True, slots=True)
class InitDeclarator(Node):
    declarator: Declarator
    value: Initialiser | None


@dataclass(frozen=True, slots=True)
class Declaration(Node):
    specifiers: Specifiers
    declarators: tuple[InitDeclarator, ...]


# Statements


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`end` is the offset of the closing brace."""

    items: tuple[Declaration | Statement, ...]
    end: int


@dataclass(frozen=True, slots=True)
class ExpressionStatement(Node):
    expression: Expression | None


@dataclass(frozen=True, slots=True)
class If(Node):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """All three loops; `tests_first` is false for `do`."""

    start: Expression | None
    condition: Expression | None
    step: Expression | None
    body: Statement
    tests_first: bool


@dataclass(frozen=True, slots=True)
class Label(Node):
    name: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Goto(Node):
    label: str


@dataclass(frozen=True, slots=True)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True)
class Return(Node):
    value: Expression | None


Statement: TypeAlias = Block | ExpressionStatement | If | Loop | Label | Goto | Break | Continue | Return


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed program: its text, the names of its `#include` lines, its block."""

    source: str
    includes: tuple[str, ...]
    body: Block
