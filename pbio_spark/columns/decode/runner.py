"""`Runner`: a kernel, and all about its calls that is the same for every batch; `Outputs`: what kernels make of one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.native import Kernel, Table
from ecode.native.table import TableEntry
from pbio_spark.columns.decode.fill import stored_size
from pbio_spark.columns.decode.generate import HEADER, KernelText
from pbio_spark.columns.decode.plan import Chars, Deref, Filled, Items, Scalar, Text, is_contiguous

Key: TypeAlias = tuple[int, str]
"""The number of a node, and the name of an entry: `values`, `offsets`, `data`, `valid`, `addresses`, `extents0` ..."""

Int64s: TypeAlias = npt.NDArray[np.int64]

_MAX_TEXT = 2**31 - 1

BATCH_ROOM, BATCH_LIMIT, BATCH_MOST = 128 << 20, 8, 1 << 40
"""The most bytes, or the most times their own size, that the columns of several records may take; a single record's
expansion is bounded separately. Larger batches are decoded in parts."""


class RoomError(Exception):
    """A kernel ran out of room. Its runner has taken note, so a second run of the batch has enough."""


class Outputs:
    """What the kernels of a plan make of one batch.

    Attributes:
        blocks: Arrow memory. That of elements has room for more of them than `used`.
        used: the number of elements (or bytes of text) of each node that has any.
        rows: int32, by the number of a node that makes places: the record that each place belongs to.
        made: the approximate bytes of all that.
    """

    def __init__(self, starts: Int64s, ends: Int64s) -> None:
        self.blocks: dict[Key, pa.Buffer] = {}
        self.used: dict[int, int] = {}
        self.rows: dict[int, npt.NDArray[np.int32]] = {}
        self.made = 0
        self.records = len(starts)
        self._starts, self._ends = starts, ends

    def total(self) -> int:
        """The bytes of all records."""
        return int((self._ends - self._starts).sum())

    def array(self, key: Key, kind: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """The first numbers of a block."""
        return np.frombuffer(self.blocks[key], kind, count)

    def take(self, made: int) -> None:
        """Account for so many bytes.

        Raises:
            OverflowError: the batch exceeds its size.
        """
        self.made += made
        if self.made > BATCH_ROOM and self.made > (BATCH_LIMIT * self.total() if self.records > 1 else BATCH_MOST):
            raise OverflowError("these records exceed the size of a batch")


class _Growing:
    """A node with elements, whose number only its kernel finds."""

    def __init__(self, node: Text | Chars | Items) -> None:
        self.number = node.number
        self.stride = node.stride if isinstance(node, Items) and isinstance(node.stride, int) else 1
        extents = getattr(node, "extents", ())
        is_fixed = bool(extents) and isinstance(node.place, int) and all(isinstance(one, int) for one in extents)  # type: ignore[union-attr]
        self.fixed = prod(extents) if is_fixed else None
        self.factor = 2 if isinstance(node, Text | Chars) and node.is_latin else 1
        self.cost = 1 if isinstance(node, Text | Chars) else 20
        if isinstance(node, Items) and isinstance(node.item, Scalar):
            self.cost = stored_size(node.item)
        self.per_record: float | None = None
        """The elements that records of the last batch had."""
        self.least = 0
        """The elements of this batch, if it ran out of room before."""

    def room(self, count: int, outputs: Outputs) -> int:
        """The room in elements: by the last batch, else the maximum without sharing."""
        if self.per_record is not None:
            room = int(self.per_record * outputs.records * 1.25) + 1024
        else:
            room = outputs.total() // self.stride + 1 if self.fixed is None else count * self.fixed
        return max(min(self.factor * room, _MAX_TEXT), self.least)


class Runner:
    """Runs a kernel, and remembers the size of its outputs."""

    def __init__(self, text: KernelText, kernel: Kernel) -> None:
        nodes = {node.number: node for node in text.nodes}
        self._kernel = kernel
        self._growing = [_Growing(node) for node in text.nodes if isinstance(node, Text | Chars | Items)]
        self._cost = sum(map(_cost_of_place, text.nodes))
        self._constants = [entry if isinstance(entry, int) else 0 for entry in text.entries]
        self._by_place: list[tuple[int, Key, int, int]] = []
        """Where the table names a block, its key, its bytes for each place, and how many more."""
        self._by_element: list[tuple[int, Key, int]] = []
        self._capacities: list[tuple[int, int]] = []
        self._used: list[tuple[int, int]] = []
        self._lists: list[int] = []
        for at, entry in enumerate(text.entries, len(HEADER)):
            match entry:
                case int():
                    pass
                case (number, "capacity"):
                    self._capacities.append((at, number))
                case (number, "used"):
                    self._used.append((at, number))
                case (_, "lists"):
                    self._lists.append(at)
                case (number, name):
                    size, is_of_element = _size_of(nodes[number], name)
                    if is_of_element:
                        self._by_element.append((at, entry, size))
                    else:
                        self._by_place.append((at, entry, size, size if name == "offsets" else 0))

    def run(self, header: Sequence[TableEntry], count: int, outputs: Outputs) -> None:
        """Run over the places of a level.

        Args:
            header: the table's first entries.

        Raises:
            RoomError: run the batch again: the counts in `header` are those of a kernel that came too far.
            OverflowError: the batch exceeds its size.
        """
        entries: list[TableEntry] = [*header, *self._constants]
        blocks, allocate = outputs.blocks, pa.allocate_buffer
        for at, key, size, more in self._by_place:
            entries[at] = blocks[key] = allocate(size * count + more)
        if not self._growing:
            self._kernel(count, Table(entries))
            outputs.take(self._cost * count)
            return
        rooms = {node.number: node.room(count, outputs) for node in self._growing}
        for at, number in self._capacities:
            entries[at] = rooms[number]
        for at, key, size in self._by_element:
            entries[at] = blocks[key] = allocate(size * rooms[key[0]])
        table = Table(entries)
        self._kernel(count, table)
        numbers = table.array.tolist()
        for at, number in self._used:
            outputs.used[number] = numbers[at]
        made, is_short = self._cost * count, False
        for at in self._lists:
            made += 20 * numbers[at]
        for node in self._growing:
            used = outputs.used[node.number]
            made += node.cost * used
            is_short = is_short or used > rooms[node.number]
        outputs.take(made)
        for node in self._growing:
            used = outputs.used[node.number]
            if used > _MAX_TEXT:
                raise OverflowError("these records exceed the size of a batch")
            node.per_record = used / outputs.records if outputs.records else 0.0
            node.least = used if is_short else 0
        if is_short:
            raise RoomError


def _cost_of_place(node: Filled) -> int:
    """The approximate bytes of a node's outputs for each place, apart from its elements."""
    if isinstance(node, Scalar):
        return stored_size(node)
    return 16 if isinstance(node, Deref) else 5


def _size_of(node: Filled, name: str) -> tuple[int, bool]:
    """The bytes in a block for each place of the node's level, or for each of the node's elements."""
    has_elements = isinstance(node, Items) and not is_contiguous(node)
    match name:
        case "values":
            assert isinstance(node, Scalar)
            return stored_size(node), False
        case "data":
            return (stored_size(node.item) if isinstance(node, Items) and isinstance(node.item, Scalar) else 1), True
        case "addresses" | "homes":
            return 8, has_elements
        case "rows":
            return 4, True
        case "valid":
            return 1, False
    return 4, False  # offsets, extents
