"""A batch as the arrays that a kernel reads, and the maximal size of its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pbio_spark.columns.encode.plan import (
    BatchColumn,
    Chars,
    Deref,
    EncodePlan,
    Items,
    Node,
    NullMarks,
    Preset,
    Structure,
    Text,
    is_text,
    offset_size,
)

_NO_SYMBOL = -(2**63)
"""The number of a string that is not a symbol: beyond the range of every enumeration."""

_MAX_PADDING = 1 << 28
"""The most bytes in a batch for strings in arrays whose size is given in the batch."""


@dataclass(frozen=True, slots=True)
class ColumnData:
    """The array of a column in one batch.

    Attributes:
        start, stop: the indices in use, since the array may be a slice.
        numbers: int64, the numbers of symbols at `start` and after; None where the array is read itself.
    """

    array: pa.Array
    start: int
    stop: int
    numbers: pa.Array | None

    @property
    def count(self) -> int:
        return self.stop - self.start

    def entries(self) -> list[int]:
        """The table entries for the column (`encode_generate.COLUMN`)."""
        array = self.array if self.numbers is None else self.numbers
        shift = array.offset - (0 if self.numbers is None else self.start)
        buffers = [0 if buffer is None else buffer.address for buffer in array.buffers()[:3]]
        validity = buffers[0] if array.null_count else 0
        type_ = array.type
        if pa.types.is_struct(type_):
            return [validity, shift, 0, 0]
        width = offset_size(type_) or type_.bit_width // 8  # none for booleans, which are bits like the validity
        return [validity, shift, buffers[1] + width * shift, buffers[2] if is_text(type_) else 0]

    def span(self) -> tuple[int, int]:
        """The first element (or byte) in use of a list (or text), and the one after the last."""
        if not self.count:
            return 0, 0
        size = offset_size(self.array.type)
        offsets = np.frombuffer(self.array.buffers()[1], f"i{size}")[self.array.offset :]
        return int(offsets[self.start]), int(offsets[self.stop])


def batch_to_parts(batch: pa.RecordBatch, plan: EncodePlan) -> list[ColumnData]:
    """The arrays of a plan's columns, in their order."""
    parts: list[ColumnData] = []
    for column in plan.columns:
        if column.parent is None:
            array, start, stop = batch.column(column.child), 0, batch.num_rows
        elif column.child is None:
            array, (start, stop) = parts[column.parent].array.values, parts[column.parent].span()
        else:
            parent = parts[column.parent]
            array, start, stop = parent.array.field(column.child), parent.start, parent.stop
        numbers = _symbols_to_numbers(array.slice(start, stop - start), column) if column.symbols else None
        parts.append(ColumnData(array, start, stop, numbers))
    return parts


def _symbols_to_numbers(array: pa.Array, column: BatchColumn) -> pa.Array:
    known = dict(column.symbols)
    encoded = array.dictionary_encode()
    numbers = [_number(name, known) for name in encoded.dictionary.to_pylist()]
    return pa.array(numbers, pa.int64()).take(encoded.indices)


def _number(name: str, known: dict[str, int]) -> int:
    """The number of a symbol; reading shows a number without one as its digits."""
    number = known.get(name, _NO_SYMBOL)
    if name not in known and name.isdecimal() and len(name) < 20 and str(int(name)) == name:
        number = int(name)
    return number if number < 2**63 else _NO_SYMBOL


def room_of(plan: EncodePlan, parts: Sequence[ColumnData], count: int) -> int:
    """The most bytes that `count` records take beyond their base records."""
    return _Room(plan, parts).nodes(plan.nodes, count)


class _Room:
    def __init__(self, plan: EncodePlan, parts: Sequence[ColumnData]) -> None:
        self.plan = plan
        self.parts = parts

    def nodes(self, nodes: tuple[Node, ...], count: int) -> int:
        return sum(self.node(node, count) for node in nodes)

    def node(self, node: Node, count: int) -> int:
        """The bytes for `count` values of a node; a target takes up to 7 more to be aligned."""
        match node:
            case Text(column=column):
                return self.size(column) + count
            case Preset(text=text):
                return (len(text) + 1) * count
            case Chars(column=column, place=place, control=control):
                return 0 if isinstance(place, int) else self.size(column) + 7 * count + self.padding(control, count)
            case Items(columns=columns, place=place, blank=blank, item=item):
                elements = self.size(columns[-1])
                room = self.node(item, elements)
                if not isinstance(place, int):
                    room += len(blank) * elements + 7 * count + self.padding(node.control, elements)
                return room
            case NullMarks(item=item, place=place):
                return 0 if isinstance(place, int) else self.parts[item].count + 7 * count
            case Deref(blank=blank, target=target):
                return (len(blank) + 7) * count + self.node(target, count)
            case Structure(nodes=nodes):
                return self.nodes(nodes, count)
        return 0

    def size(self, column: int) -> int:
        start, stop = self.parts[column].span()
        return stop - start

    def padding(self, control: int | None, count: int) -> int:
        """The bytes of `count` strings as long as a control column says."""
        if control is None or not count:
            return 0
        part = self.parts[control]
        greatest = pc.max(part.array.slice(part.start, part.count)).as_py() or 0
        if isinstance(greatest, bytes):  # an unsigned long, most significant byte first
            greatest = int.from_bytes(greatest, "big")
        null = 0 if self.plan.null_value is None else self.plan.null_value.of(self.plan.columns[control].names)
        return int(min(max(greatest, null if isinstance(null, int | float) else 0, 0) * count, _MAX_PADDING))
