"""Finds nulls where a schema forbids them: below NOT NULL, in the key of a map, in the elements of an array.

Spark would read such a null as 0, or fail somewhere in the JVM. Its record is a bad record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]


def forbids_nulls(schema: pa.Schema) -> bool:
    """Whether a schema forbids a null anywhere.

    >>> forbids_nulls(pa.schema([("x", pa.list_(pa.int32()))]))
    False
    >>> forbids_nulls(pa.schema([("x", pa.list_(pa.field("element", pa.int32(), nullable=False)))]))
    True
    """
    return any(not field.nullable or _is_strict(field.type) for field in schema)


def unexpected_nulls(batch: pa.RecordBatch) -> dict[int, str]:
    """The rows of a batch with a null that its schema forbids, each with the path of the first one.

    >>> schema = pa.schema([pa.field("x", pa.struct([pa.field("a", pa.int32(), nullable=False)]))])
    >>> unexpected_nulls(pa.RecordBatch.from_pylist([{"x": {"a": 1}}, {"x": None}, {"x": {"a": None}}], schema))
    {2: '$.x.a'}
    """
    found: dict[int, str] = {}
    if all(map(_is_clean, batch.schema, batch.columns)):
        return found
    rows = np.arange(batch.num_rows, dtype=np.int64)
    for path, bad in _below(zip(batch.schema, batch.columns, strict=True), rows, "$"):
        for row in np.unique(bad).tolist():
            found.setdefault(row, path)
    return found


def _is_clean(field: pa.Field, array: pa.Array) -> bool:
    """Whether null counts already show that there are no forbidden nulls."""
    if array.null_count and not field.nullable:
        return False
    if not _is_strict(field.type):
        return True
    if pa.types.is_struct(field.type):
        return all(_is_clean(part, array.field(i)) for i, part in enumerate(field.type))
    if pa.types.is_map(field.type):
        return _is_clean(field.type.key_field, array.keys) and _is_clean(field.type.item_field, array.items)
    return _is_clean(field.type.value_field, array.values)


def _below(parts: Iterable[tuple[pa.Field, pa.Array]], rows: Rows, path: str) -> Iterator[tuple[str, Rows]]:
    """Paths, and the rows with a null there; `rows` has the row that each place of the arrays belongs to."""
    for field, array in parts:
        here = f"{path}.{field.name}"
        if array.null_count and not field.nullable:
            yield here, rows[_is_null(array)]
        if _is_strict(field.type):
            yield from _inside(array, rows, here)


def _inside(array: pa.Array, rows: Rows, path: str) -> Iterator[tuple[str, Rows]]:
    if array.null_count:
        there = ~_is_null(array)
        array, rows = array.filter(pa.array(there)), rows[there]
    if pa.types.is_struct(array.type):
        yield from _below(((f, array.field(i)) for i, f in enumerate(array.type)), rows, path)
        return
    if not len(array):
        return
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    rows = np.repeat(rows, np.diff(offsets))
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    if pa.types.is_map(array.type):
        entries = ((array.type.key_field, array.keys), (array.type.item_field, array.items))
        yield from _below(((f, part.slice(start, length)) for f, part in entries), rows, f"{path}[]")
        return
    element, values = array.type.value_field, array.values.slice(start, length)
    if values.null_count and not element.nullable:
        yield f"{path}[]", rows[_is_null(values)]
    if _is_strict(element.type):
        yield from _inside(values, rows, f"{path}[]")


def _is_strict(type_: pa.DataType) -> bool:
    """Whether a type has parts that may not be null."""
    if pa.types.is_struct(type_):
        return any(not field.nullable or _is_strict(field.type) for field in type_)
    if pa.types.is_map(type_):
        return True
    return pa.types.is_list(type_) and (not type_.value_field.nullable or _is_strict(type_.value_type))


def _is_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls
