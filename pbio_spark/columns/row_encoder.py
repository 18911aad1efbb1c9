"""Rows of numbers and strings -> records, without Arrow, whose columns cost more than all else if rows are few.

Writes what the kernel of `encode` writes for the same plan, and leaves it whatever that might refuse or convert.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pbio_spark.columns.decode.plan import Load
from pbio_spark.columns.encode.encoder import Encoded
from pbio_spark.columns.encode.plan import EncodePlan, Flag, Number, Text
from pbio_spark.columns.encode.planner import format_to_encode_plan
from pbio_spark.formats import Format
from pbio_spark.wire.header import header_to_bytes, length_word
from pbio_spark.wire.images import align

_ITEM_HEAD = 8
_pack_head = struct.Struct(">Q").pack
_DATA_ITEM = 3 << 56
"""The kind of a data item, before the six bytes of its length (ffs-wire-format 2.2)."""
_CODES = {"float32": "f", "float64": "d", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
_CODES |= {f"u{name}": code.upper() for name, code in _CODES.items() if name.startswith("int")}
"""The codes of the module `struct`, by the names of memory types."""
_LENGTHS = {0: "", 4: "I", 8: "Q"}
"""The code of a record's length, by its size."""
_MOST_FLOAT = float(np.finfo(np.float32).max)


class RowEncoder:
    """Rows -> data items of a file, for a format of numbers and strings."""

    def __init__(self, plan: EncodePlan, nodes: Sequence[Number | Text]) -> None:
        """
        Args:
            nodes: those of the plan, in the order of their places.
        """
        self._plan = plan
        self._names = [plan.schema.names[plan.columns[node.column].child or 0] for node in nodes]
        self._types = tuple(_python_type(plan, node) for node in nodes)
        self._floats = [i for i, node in enumerate(nodes) if isinstance(node, Number) and node.place.type == "float32"]
        of_node = {id(node): i for i, node in enumerate(nodes)}
        self._strings = [of_node[id(node)] for node in plan.nodes if isinstance(node, Text)]
        """The indexes of strings, in the order in which they are written."""
        form = plan.format
        self._base = align(len(plan.blank)) if form.is_variant else len(plan.blank)
        self._header = form.header_size
        at, size = length_word(form)
        self._longest = 1 << 8 * min(form.pointer_size, size or 8)
        self._head = header_to_bytes(form, 0)[:at]
        order = "<" if form.byte_order == "little" else ">"
        rest = f"{_LENGTHS[size]}{self._header - at - size}x"
        self._pack = struct.Struct(order + rest + _codes(nodes, self._base)).pack
        self._is_variant = form.is_variant

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return format_to_row_encoder, (self._plan.format, self._plan.schema)

    def encode(self, rows: Sequence[Any]) -> Encoded | None:
        """The records of some rows; None if one of them is not a `dict` of all columns, a value has another type than
        `int`, `float`, `bool` or `str` as its field has, or is none that the field can hold."""
        names, types, strings, base = self._names, self._types, self._strings, self._base
        head, pack, longest, is_variant = self._head, self._pack, self._longest, self._is_variant
        kind = _DATA_ITEM + self._header
        pieces: list[bytes] = []
        ends, end = [0], 0
        try:
            for row in rows:
                if type(row) is not dict or len(row) != len(names):
                    return None
                values = list(map(row.__getitem__, names))
                if tuple(map(type, values)) != types:
                    return None
                size, texts = base, b""
                for i in strings:
                    texts += values[i].encode() + b"\0"
                    values[i] = size
                    size = base + len(texts)
                if is_variant:
                    if texts.count(0) != len(strings) or size >= longest:
                        return None
                    pieces += _pack_head(kind + size), head, pack(size, *values), texts
                else:
                    pieces += _pack_head(kind + size), head, pack(*values)
                end += _ITEM_HEAD + self._header + size
                ends.append(end)
                for i in self._floats:
                    if _MOST_FLOAT < abs(values[i]) < math.inf:
                        return None
        except (KeyError, struct.error, OverflowError, UnicodeEncodeError):
            return None
        return Encoded(pa.py_buffer(b"".join(pieces)), np.array(ends, np.int64))


def format_to_row_encoder(format: Format, schema: pa.Schema) -> RowEncoder | None:  # noqa: A002
    """The encoder of rows that have all columns of a schema; None if these are more than numbers and strings, or do not
    fill all of the format.

    Raises what `format_to_encode_plan` raises.
    """
    plan = format_to_encode_plan(format, schema)
    nodes = sorted((node for node in plan.nodes if isinstance(node, Number | Text)), key=_offset)
    others = [node for node in plan.nodes if not isinstance(node, Number | Text | Flag)]
    if others or len(nodes) != len(schema) or not all(_is_plain(plan, node) for node in nodes):
        return None
    rest = bytearray(plan.blank)
    for node in nodes:
        place = _place(node)
        rest[place.offset : place.offset + place.size] = bytes(place.size)
    return None if not nodes or any(rest) else RowEncoder(plan, nodes)


def _place(node: Number | Text) -> Load:
    return node.place if isinstance(node, Number) else node.slot


def _offset(node: Number | Text) -> int:
    return _place(node).offset


def _is_plain(plan: EncodePlan, node: Number | Text) -> bool:
    """Whether a value of Python is packed as its column would be."""
    if isinstance(node, Text):
        return bool(pa.types.is_string(plan.columns[node.column].type))
    if node.place.type not in _CODES or plan.columns[node.column].symbols:
        return False
    type_ = plan.columns[node.column].type
    if pa.types.is_boolean(type_):
        return node.load == "bool"
    if pa.types.is_floating(type_):
        return node.load == node.place.type
    if not pa.types.is_integer(type_) or not node.place.type.lstrip("u").startswith("int"):
        return False
    column, field = np.iinfo(node.load), np.iinfo(node.place.type)
    return bool(column.min <= field.min and field.max <= column.max)


def _python_type(plan: EncodePlan, node: Number | Text) -> type:
    if isinstance(node, Text):
        return str
    type_ = plan.columns[node.column].type
    return bool if pa.types.is_boolean(type_) else float if pa.types.is_floating(type_) else int


def _codes(nodes: Sequence[Number | Text], length: int) -> str:
    """An image as codes of the module `struct`."""
    made, at = "", 0
    for node in nodes:
        place = _place(node)
        made += f"{place.offset - at}x{_CODES[place.type]}"
        at = place.offset + place.size
    return f"{made}{length - at}x"
