"""The plan for turning rows of one Arrow schema into records of one format, independent of code.

A plan is a tree of **nodes**, one for each field that a column fills, in the order in which bytes are written
(ffs-wire-format 7.4): first everything in the structure itself, then the targets of its slots, depth first. A node
writes at an offset of the **image** of its structure, or of the element or target that it belongs to, and reads the
value at an index of its **column**.

Before its nodes run, an image is a copy of its **blank**: zeros, defaults of fields without a column, and the image of
nulls. So a null is left alone if the format can represent it, and refused otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from pbio_spark.columns.decode.plan import Load
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.formats.format import Format

Extent: TypeAlias = int | Load
"""A number, or the control field that holds it, of the structure that the node belongs to."""


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """A column, or a part of one. The arrays of a batch are visited in this order.

    Attributes:
        path: for people, e.g. `$.samples[].v`.
        names: the path in options, such as `samples.v`.
        parent: the column that holds this one; None for one of the batch's own.
        child: which field of the parent it is; the elements of a list are None.
        symbols: the column holds names of these numbers, which replace them beforehand.
        nullable: whether the schema lets it hold nulls.
    """

    path: str
    names: str
    type: pa.DataType
    parent: int | None
    child: int | None
    symbols: tuple[tuple[str, int], ...] = ()
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Number:
    """A number in place.

    Attributes:
        load: how the column holds it: a memory type, `bool` (a bit), `decimal` (16 bytes), `binary` (8 bytes, the most
            significant first), or `bytes`, 16 that are kept as they are.
        place: where and how the image holds it.
        low, high: the bounds to check; None if the column's type stays within them.
    """

    column: int
    load: str
    place: Load
    low: int | None
    high: int | None
    can_be_null: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A string that a slot points to; a null has none."""

    column: int
    slot: Load


@dataclass(frozen=True, slots=True)
class Preset:
    """A string without a column: the default of its field."""

    slot: Load
    text: bytes


@dataclass(frozen=True, slots=True)
class Chars:
    """Text or binary of `extent` characters, in place (`place` is an offset) or where a slot points.

    NULs pad a text to a static extent, or to the extent in the column `control`. Characters that are the row of a
    column-major array are `apart`, with those of the other rows between them.
    """

    column: int
    place: int | Load
    extent: Extent
    is_text: bool
    control: int | None
    apart: bool
    can_be_null: bool


@dataclass(frozen=True, slots=True)
class Items:
    """Nested lists as an array in place or where a slot points; `columns` has one list column for each dimension.

    `blank` is an element's; its size is the distance between elements, unless these are strings whose common size is
    in a control field, `stride`, which the column `control` fills.
    """

    columns: tuple[int, ...]
    place: int | Load
    extents: tuple[Extent, ...]
    blank: bytes
    stride: Load | None
    control: int | None
    column_major: bool
    item: Node
    can_be_null: bool


@dataclass(frozen=True, slots=True)
class Deref:
    """The target of a slot; a null has none."""

    column: int
    slot: Load
    blank: bytes
    target: Node


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure in place; without a column of its own it is never null."""

    column: int | None
    offset: int
    nodes: tuple[Node, ...]
    can_be_null: bool


@dataclass(frozen=True, slots=True)
class Flag:
    """The bit of a byte in place that says that a column is null."""

    column: int
    offset: int
    bit: int


@dataclass(frozen=True, slots=True)
class NullMarks:
    """An array of bytes beside that of some lists, which says which of their elements are null; null if none is.

    `item` is the column of the elements, the rest as for `Items`.
    """

    columns: tuple[int, ...]
    item: int
    place: int | Load
    extents: tuple[Extent, ...]
    column_major: bool


@dataclass(frozen=True, slots=True)
class Count:
    """A control field that no column fills: the greatest extent that the nodes' arrays have where they name it."""

    place: Load
    high: int
    nodes: tuple[Node, ...]


Node: TypeAlias = Number | Text | Preset | Chars | Items | Deref | Structure | Flag | NullMarks | Count


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """The plan for one schema and one format.

    Attributes:
        columns: the columns that nodes name by number; parents before their parts.
        blank: of the base record.
        null_value: the replacement of nulls that the format cannot represent.
        without_null: number and type of nullable columns whose fields cannot hold `null_value`.
    """

    format: Format
    schema: pa.Schema
    columns: tuple[BatchColumn, ...]
    nodes: tuple[Node, ...]
    blank: bytes
    null_value: NullValue | None
    without_null: tuple[tuple[int, str], ...] = ()


def is_flat(node: Node) -> bool:
    """Whether a node writes nothing beyond the image."""
    match node:
        case Number() | Flag() | Count():
            return True
        case Chars(place=place) | NullMarks(place=place):
            return isinstance(place, int)
        case Items(place=place, item=item):
            return isinstance(place, int) and is_flat(item)
        case Structure(nodes=nodes):
            return all(map(is_flat, nodes))
    return False


def in_order(nodes: list[Node]) -> tuple[Node, ...]:
    """Flat nodes first, among them the control fields that the others read; otherwise in the given order."""
    return tuple(sorted(nodes, key=lambda node: not is_flat(node)))


def names_control(node: Node, control: Load) -> bool:
    """Whether an array of the node, in the same structure, has the control field for an extent."""
    match node:
        case Chars(extent=extent):
            return extent == control
        case Items(extents=extents, item=item):
            return control in extents or names_control(item, control)
        case Deref(target=target):
            return names_control(target, control)
    return False


_TEXTS = {pa.string().id: 4, pa.binary().id: 4, pa.large_string().id: 8, pa.large_binary().id: 8}
_LISTS = {pa.list_(pa.int8()).id: 4, pa.large_list(pa.int8()).id: 8, pa.map_(pa.int8(), pa.int8()).id: 4}
_OFFSETS = _TEXTS | _LISTS
"""The bytes of an offset, by the ID of a type: each batch asks several times for each column."""


def is_text(arrow: pa.DataType) -> bool:
    """Whether a column holds strings or binary values."""
    return arrow.id in _TEXTS


def is_list(arrow: pa.DataType) -> bool:
    """Whether a column holds lists; a map is a list of its entries."""
    return arrow.id in _LISTS


def offset_size(arrow: pa.DataType) -> int:
    """The bytes of one of the column's offsets, 0 if it has none."""
    return _OFFSETS.get(arrow.id, 0)
