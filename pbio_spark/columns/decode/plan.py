"""The plan for turning records of one format into columns of one Arrow schema, independent of code.

A plan is a tree of **nodes**, one for each column and nested column, attached to **levels**. A level is a list of
places in the batch that hold an image of the same thing: the root level has the base records; the elements of an array
of structures form a separate level, as do the targets of a pointer field. Structures in place add no level: their
fields are fields of the level at a greater offset.

A kernel then fills all nodes of a level in one run over its places (`generate`), and determines the places of the
levels below. Everything that a kernel fills has a number, unique in its plan.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from ecode.types import Basic, Kind
from pbio_spark.columns.numbers import Conversion
from pbio_spark.formats.format import Format


@dataclass(frozen=True, slots=True)
class Load:
    """A number in an image: `type` is its name in `ecode.native.memory`, `order` the byte order to convert from."""

    offset: int
    type: str
    order: str = ""

    @property
    def size(self) -> int:
        return int(self.type.lstrip("uintfloa")) // 8


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number of the image, and its stored form.

    With `symbols` the number becomes the name of its value.
    """

    number: int
    type: pa.DataType
    load: Load
    conversion: Conversion
    symbols: tuple[tuple[str, int], ...] = ()

    @property
    def store(self) -> str:
        """The form that a kernel stores; see `Conversion`."""
        return "int64" if self.conversion.store == "symbol" else self.conversion.store

    @property
    def is_as_stored(self) -> bool:
        """Whether the stored numbers are the column's memory, and all of them fit."""
        return not self.conversion.is_checked and self.conversion.store not in ("bool", "binary", "symbol")


@dataclass(frozen=True, slots=True)
class Text:
    """A string: the slot holds the offset of NUL-terminated bytes."""

    number: int
    type: pa.DataType
    slot: Load
    is_latin: bool = False


@dataclass(frozen=True, slots=True)
class Chars:
    """Characters as one string or binary value, `cut` at the first NUL: in place, or where a slot points.

    `apart` are the extents whose product is the distance between characters, if they are not contiguous: rows
    of a column-major array.
    """

    number: int
    type: pa.DataType
    place: int | Load
    extents: tuple[int | Load, ...]
    cut: bool
    is_latin: bool = False
    apart: tuple[int | Load, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """An array in place (`place` is an offset) or where a slot points, as nested lists.

    `stride` is the size of an element in memory, or the field that holds it. Numbers are copied in the same run;
    anything else makes a level. With `homes` that level also gets the places of this one's structures: their fields are
    extents of arrays further down. `parts` are the structures and arrays that lie in an element. `marks` is the array
    of bytes beside this one that says which elements are null.
    """

    number: int
    type: pa.DataType
    place: int | Load
    extents: tuple[int | Load, ...]
    stride: int | Load
    column_major: bool
    item: Node
    homes: bool = False
    parts: int = 0
    marks: Items | None = None


@dataclass(frozen=True, slots=True)
class Deref:
    """The target of a slot, or null. `size` is the size of the target's image; `homes` and `parts` as for
    `Items`."""

    number: int
    type: pa.DataType
    slot: Load
    size: int
    target: Node
    homes: bool = False
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure in place."""

    type: pa.StructType
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Masked:
    """A value that is null if a bit of the byte `flags` is set, whatever its bytes are."""

    flags: Scalar
    bit: int
    node: Node


@dataclass(frozen=True, slots=True)
class Absent:
    """A column that the format lacks: null, or its default."""

    type: pa.DataType
    value: bool | int | float | str | Decimal | None = field(default=None, compare=False)
    exactly: str = field(init=False, repr=False)
    """The value, as it is compared: -0.0 is not 0.0, and NaN is NaN."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "exactly", repr(self.value))


Filled: TypeAlias = Scalar | Text | Chars | Items | Deref
Node: TypeAlias = Filled | Structure | Masked | Absent


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for one schema and the formats that have its fields at the same places.

    Attributes:
        size: of the base record, in bytes.
        nodes: one for each column, in the schema's order.
        parts: as for `Items`.
    """

    size: int
    schema: pa.Schema
    nodes: tuple[Node, ...]
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """A list of places, and the nodes to fill there.

    Attributes:
        parent: the number of the node that makes the places; None at the root.
        is_nullable: some places may be empty (address 0).
        has_homes: the structures whose fields are extents here are elsewhere.
        nodes: the nodes that a kernel fills here.
    """

    parent: int | None
    is_nullable: bool
    has_homes: bool
    nodes: tuple[Filled, ...]


def order_of(format_: Format) -> str:
    """The suffix of memory's loads that reads this format's integers on this machine."""
    return "" if format_.byte_order == sys.byteorder else "_swapped"


def slot_at(format_: Format, offset: int) -> Load:
    """The slot of a pointer at an offset."""
    return Load(offset, f"uint{8 * format_.pointer_size}", order_of(format_))


def number_at(format_: Format, basic: Basic, offset: int) -> Load:
    """A number at an offset (ffs-wire-format 5.6)."""
    order = order_of(format_) if basic.size > 1 else ""
    if basic.kind is not Kind.FLOAT:
        return Load(offset, f"{'' if basic.kind is Kind.INTEGER else 'u'}int{8 * basic.size}", order)
    match format_.float_format:
        case 1 | 2 as code:
            order = "" if code == (2 if sys.byteorder == "little" else 1) else "_swapped"
        case 3 if basic.size == 8:
            order = "_mixed"
    return Load(offset, f"float{8 * basic.size}", order)


def is_contiguous(node: Items) -> bool:
    """Whether the elements are plain numbers, copied without a level of their own."""
    return isinstance(node.item, Scalar)


def levels_of(plan: Plan) -> tuple[Level, ...]:
    """The levels of a plan, parents first; the root is the first."""
    levels: list[Level] = []

    def add(nodes: tuple[Node, ...], parent: int | None, is_nullable: bool, has_homes: bool) -> None:
        filled = tuple({node.number: node for node in _filled(nodes)}.values())  # fields share bytes of flags
        levels.append(Level(parent, is_nullable, has_homes, filled))
        for node in filled:
            if isinstance(node, Items) and not is_contiguous(node):
                add((node.item,), node.number, False, node.homes)
            elif isinstance(node, Deref):
                add((node.target,), node.number, True, node.homes)

    add(plan.nodes, None, False, False)
    return tuple(levels)


def _filled(nodes: tuple[Node, ...]) -> Iterator[Filled]:
    for node in nodes:
        if isinstance(node, Structure):
            yield from _filled(node.nodes)
        elif isinstance(node, Masked):
            yield node.flags
            yield from _filled((node.node,))
        elif not isinstance(node, Absent):
            yield node
            if isinstance(node, Items) and node.marks is not None:
                yield node.marks
