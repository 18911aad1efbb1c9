"""What the kernels wrote -> Arrow arrays of exactly the wanted types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.columns.generate import has_validity
from pbio_spark.columns.plan import Absent, Chars, Deref, Group, Items, Node, Plan, Scalar, Text, is_contiguous

if TYPE_CHECKING:
    from pbio_spark.columns.converter import Output

Mask = npt.NDArray[np.bool_]


def assemble(plan: Plan, count: int, outputs: Mapping[int, Output], status: npt.NDArray[np.int32]) -> pa.RecordBatch:
    """The record batch of a plan's outputs. Records whose text is not UTF-8 are marked in `status`."""
    assembler = _Assembler(outputs, status)
    arrays = [assembler.build(node, count, None, None) for node in plan.nodes]
    # Not from_arrays(names=...): the batch must carry the schema's nullability, and have rows without columns.
    return pa.RecordBatch.from_struct_array(
        pa.Array.from_buffers(pa.struct(list(plan.schema)), count, [None], children=arrays)
    )


class _Assembler:
    def __init__(self, outputs: Mapping[int, Output], status: npt.NDArray[np.int32]) -> None:
        self.outputs = outputs
        self.status = status

    def build(self, node: Node, count: int, present: Mask | None, rows: npt.NDArray[np.int32] | None) -> pa.Array:
        """The array of a node.

        Args:
            count: the number of places of its level.
            present: which places are not empty; None if all.
            rows: the record that each place belongs to; None at the root.
        """
        match node:
            case Absent(type=type_, value=None):
                return pa.nulls(count, type_)
            case Absent(type=type_, value=value):
                return pa.repeat(pa.scalar(value, type_), count)
            case Group(type=type_, nodes=nodes):
                children = [self.build(child, count, present, rows) for child in nodes]
                return pa.Array.from_buffers(type_, count, [_bitmap(present)], children=children)
            case Scalar():
                return _numbers(node, count, self.outputs[node.number].buffers["values"], present)
            case Deref():
                output = self.outputs[node.number]
                return self.build(node.target, count, output.arrays["addresses"] != 0, output.arrays["rows"])
        output = self.outputs[node.number]
        valid = output.arrays["valid"].view(np.bool_) if has_validity(node) else present
        offsets = output.buffers["offsets"]
        if isinstance(node, Items):
            return self._lists(node, count, valid, offsets, output)
        data = output.buffers["data"].slice(0, output.used)
        array = pa.Array.from_buffers(node.type, count, [_bitmap(valid), offsets, data])
        if pa.types.is_string(node.type) and not node.is_latin:
            self._check_text(node, array, rows)
        return array

    def _lists(self, node: Items, count: int, valid: Mask | None, offsets: pa.Buffer, output: Output) -> pa.Array:
        if is_contiguous(node):
            assert isinstance(node.item, Scalar)
            items = _numbers(node.item, output.used, output.buffers["data"], None)
        else:
            items = self.build(node.item, output.used, None, output.arrays["rows"][: output.used])
        if len(node.extents) > 1:
            return _nested(node.type, [output.arrays[f"extents{d}"] for d in range(len(node.extents))], valid, items)
        return pa.Array.from_buffers(node.type, count, [_bitmap(valid), offsets], children=[items])

    def _check_text(self, node: Text | Chars, array: pa.Array, rows: npt.NDArray[np.int32] | None) -> None:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            for place, value in enumerate(array.cast(pa.binary())):
                try:
                    (value.as_py() or b"").decode()
                except UnicodeDecodeError:
                    self.status[place if rows is None else rows[place]] = node.number + 1


def _numbers(node: Scalar, count: int, values: pa.Buffer, present: Mask | None) -> pa.Array:
    validity = _bitmap(present)
    if node.symbols:
        return _symbols(node, np.frombuffer(values, np.int64, count), present)
    if node.store == "bool":
        bits = np.packbits(np.frombuffer(values, np.bool_, count), bitorder="little")
        return pa.Array.from_buffers(node.type, count, [validity, pa.py_buffer(bits)])
    return pa.Array.from_buffers(node.type, count, [validity, values])


def _symbols(node: Scalar, values: npt.NDArray[np.int64], present: Mask | None) -> pa.Array:
    """Names of numbers; a number without a name is its digits."""
    known = {value: symbol for symbol, value in reversed(node.symbols)}
    distinct, indices = np.unique(values, return_inverse=True)
    names = pa.array([known.get(int(value), str(value)) for value in distinct], node.type)
    mask = None if present is None else ~present
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32(), mask=mask), names).cast(node.type)


def _nested(type_: pa.DataType, extents: list[npt.NDArray[np.int32]], valid: Mask | None, items: pa.Array) -> pa.Array:
    """Lists in lists: `extents[d]` has the length of dimension d of each array, 0 in all for an empty one."""
    levels = []
    counts = np.ones(len(extents[0]), np.int64)
    for lengths in extents:
        # A dimension has as many lists as the dimensions outside it have elements.
        levels.append(np.repeat(lengths, counts))
        counts *= lengths
    types = [type_]
    for _ in extents[1:]:
        types.append(types[-1].value_type)
    for list_type, lengths in zip(reversed(types), reversed(levels), strict=True):
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        validity = _bitmap(valid) if list_type is type_ else None
        items = pa.Array.from_buffers(list_type, len(lengths), [validity, pa.py_buffer(offsets)], children=[items])
    return items


def _bitmap(mask: npt.NDArray[Any] | None) -> pa.Buffer | None:
    """Arrow's validity bits; None where everything is valid."""
    if mask is None or mask.all():
        return None
    return pa.py_buffer(np.packbits(mask, bitorder="little"))
