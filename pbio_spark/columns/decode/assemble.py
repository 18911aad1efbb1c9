"""The output of kernels -> Arrow arrays of exactly the wanted types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.columns.decode.fill import has_validity
from pbio_spark.columns.decode.plan import (
    Absent,
    Chars,
    Deref,
    Filled,
    Items,
    Masked,
    Node,
    Plan,
    Scalar,
    Structure,
    Text,
    is_contiguous,
)

if TYPE_CHECKING:
    from pbio_spark.columns.decode.runner import Outputs

Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = npt.NDArray[np.int32]


def assemble(
    plan: Plan, type_: pa.StructType, count: int, outputs: Outputs, status: npt.NDArray[np.int32]
) -> pa.RecordBatch:
    """The record batch of a plan's outputs. Marks records whose text is not UTF-8 in `status`.

    Args:
        type_: of the plan's schema: its columns with their nullability.
    """
    assembler = _Assembler(outputs, status)
    arrays = [assembler.build(node, count, None, None) for node in plan.nodes]
    # Not from_arrays(names=...): the batch must carry the schema's nullability, and have rows without columns.
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(type_, count, [None], children=arrays))


class _Assembler:
    def __init__(self, outputs: Outputs, status: npt.NDArray[np.int32]) -> None:
        self.outputs = outputs
        self.status = status

    def build(self, node: Node, count: int, present: Mask | None, rows: Rows | None) -> pa.Array:
        """The array of a node.

        Args:
            count: the number of places of its level.
            present: which places are not empty; None: all.
            rows: the record that each place belongs to; None at the root.
        """
        outputs = self.outputs
        match node:
            case Scalar():
                return self._numbers(node, count, outputs.blocks[node.number, "values"], present, rows)
            case Text() | Chars():
                return self._text(node, count, self._valid(node, count, present), rows)
            case Items():
                return self._lists(node, count, self._valid(node, count, present), rows)
            case Structure(type=type_, nodes=nodes):
                children = [self.build(child, count, present, rows) for child in nodes]
                return pa.Array.from_buffers(type_, count, [bitmap(present)], children=children)
            case Masked(flags=flags, bit=bit, node=inner):
                is_set = outputs.array((flags.number, "values"), np.uint8, count) >> bit & 1
                return self.build(inner, count, _both(is_set == 0, present), rows)
            case Deref():
                there = _both(outputs.array((node.number, "addresses"), np.int64, count) != 0, present)
                return self.build(node.target, count, there, outputs.rows[node.number])
            case Absent(type=type_, value=None):
                return pa.nulls(count, type_)
            case Absent(type=type_, value=value):
                return pa.repeat(pa.scalar(value, type_), count)

    def _valid(self, node: Text | Chars | Items, count: int, present: Mask | None) -> Mask | None:
        if not has_validity(node):
            return present
        return _both(self.outputs.array((node.number, "valid"), np.bool_, count), present)

    def _text(self, node: Text | Chars, count: int, valid: Mask | None, rows: Rows | None) -> pa.Array:
        blocks, used = self.outputs.blocks, self.outputs.used[node.number]
        data = blocks[node.number, "data"].slice(0, used)
        array = pa.Array.from_buffers(node.type, count, [bitmap(valid), blocks[node.number, "offsets"], data])
        # Bytes below 128 are UTF-8 wherever strings are cut.
        if used and not node.is_latin and np.minimum.reduce(np.frombuffer(data, np.int8)) < 0:
            self._check_text(node, array, rows)
        return array

    def _lists(self, node: Items, count: int, valid: Mask | None, rows: Rows | None) -> pa.Array:
        outputs, number = self.outputs, node.number
        used, offsets = outputs.used[number], outputs.blocks[number, "offsets"]
        marked = None if node.marks is None else self._marked(node.marks, used, offsets, count)
        if is_contiguous(node):
            assert isinstance(node.item, Scalar)
            owners = None
            if node.item.symbols or node.item.conversion.is_checked:
                lengths = np.diff(np.frombuffer(offsets, np.int32)).astype(np.int64)
                owners = np.repeat(np.arange(count, dtype=np.int32) if rows is None else rows, lengths)
            items = self._numbers(node.item, used, outputs.blocks[number, "data"], marked, owners)
        else:
            items = self.build(node.item, used, marked, outputs.rows[number])
        if len(node.extents) > 1:
            extents = [outputs.array((number, f"extents{d}"), np.int32, count) for d in range(len(node.extents))]
            return nested_lists(node.type, extents, valid, items)
        return pa.Array.from_buffers(node.type, count, [bitmap(valid), offsets], children=[items])

    def _marked(self, marks: Items, used: int, offsets: pa.Buffer, count: int) -> Mask | None:
        """Which elements of all arrays are not null; without marks, all."""
        outputs, number = self.outputs, marks.number
        if not outputs.used[number]:
            return None
        lengths, marked = (
            np.diff(np.frombuffer(buffer, np.int32, count + 1)).astype(np.int64)
            for buffer in (offsets, outputs.blocks[number, "offsets"])
        )
        is_marked = marked == lengths
        said = outputs.array((number, "data"), np.uint8, outputs.used[number])[np.repeat(is_marked, marked)]
        there = np.ones(used, np.bool_)
        there[np.repeat(is_marked, lengths)] = said == 0
        return there

    def _numbers(
        self,
        node: Scalar,
        count: int,
        values: pa.Buffer,
        present: Mask | None,
        rows: Rows | None,
    ) -> pa.Array:
        validity = bitmap(present)
        if node.is_as_stored:
            return pa.Array.from_buffers(node.type, count, [validity, values])
        if node.symbols:
            return self._symbols(node, np.frombuffer(values, np.int64, count), present, rows)
        if pa.types.is_boolean(node.type):
            bits = np.packbits(np.frombuffer(values, np.bool_, count), bitorder="little")
            return pa.Array.from_buffers(node.type, count, [validity, pa.py_buffer(bits)])
        if node.store == "binary":
            offsets = np.arange(0, 8 * count + 1, 8, dtype=np.int32)
            return pa.Array.from_buffers(node.type, count, [validity, pa.py_buffer(offsets), values])
        array, bad = node.conversion.stored_to_array(values, count, validity)
        if bad is not None:
            self._mark(node, np.flatnonzero(bad if present is None else bad & present), rows)
        return array

    def _symbols(
        self, node: Scalar, values: npt.NDArray[np.int64], present: Mask | None, rows: Rows | None
    ) -> pa.Array:
        """The names of numbers. A number without a name makes a bad record."""
        names = {value: symbol for symbol, value in reversed(node.symbols)}
        distinct, indices = np.unique(values, return_inverse=True)
        unknown = np.isin(indices, [i for i, value in enumerate(distinct) if int(value) not in names])
        if present is not None:
            unknown &= present
        self._mark(node, np.flatnonzero(unknown).tolist(), rows)
        known = pa.array([names.get(int(value), "") for value in distinct], node.type)
        mask = None if present is None else ~present
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32(), mask=mask), known).cast(node.type)

    def _check_text(self, node: Text | Chars, array: pa.Array, rows: Rows | None) -> None:
        if not pa.types.is_string(node.type):
            return
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            values = array.cast(pa.binary()).to_pylist()
            self._mark(node, [i for i, value in enumerate(values) if value and not _is_utf8(value)], rows)

    def _mark(self, node: Filled, places: Sequence[int] | npt.NDArray[np.int64], rows: Rows | None) -> None:
        """Mark the records that own these places as bad."""
        self.status[places if rows is None else rows[places]] = node.number + 1


def _both(mask: Mask, other: Mask | None) -> Mask:
    return mask if other is None else mask & other


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def nested_lists(
    type_: pa.DataType, extents: Sequence[npt.NDArray[np.integer[Any]]], valid: Mask | None, items: pa.Array
) -> pa.Array:
    """Nested lists: `extents[d]` has the length of dimension d of each array, 0 for an absent one. After a 0 there are
    no lists, so the extents there may be any numbers."""
    levels = [extents[0]]
    counts = np.ones(len(extents[0]), np.int64)
    for outer, lengths in pairwise(extents):
        counts *= outer
        # A dimension has as many lists as the outer dimensions have elements.
        levels.append(np.repeat(lengths, counts))
    types = [type_]
    for _ in extents[1:]:
        types.append(types[-1].value_type)
    for list_type, lengths in zip(reversed(types), reversed(levels), strict=True):
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        validity = bitmap(valid) if list_type is type_ else None
        items = pa.Array.from_buffers(list_type, len(lengths), [validity, pa.py_buffer(offsets)], children=[items])
    return items


def bitmap(mask: npt.NDArray[Any] | None) -> pa.Buffer | None:
    """Arrow's validity bits; None if everything is valid."""
    if mask is None or np.count_nonzero(mask) == len(mask):
        return None
    return pa.py_buffer(np.packbits(mask, bitorder="little"))
