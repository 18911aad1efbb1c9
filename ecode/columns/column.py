"""`Column`: the buffers of a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ecode.errors import ParameterError
from ecode.interpreter.convert import nest
from ecode.semantics.arithmetic import plain
from ecode.semantics.values import zero
from ecode.typed import Structs, ValueType
from ecode.types import STRING, Array, Basic, Pointer, Ref

Buffer = npt.NDArray[Any]

# The child of an array column, and of a pointer column.
ITEMS, TARGET = "[]", "*"


@dataclass(slots=True)
class Column:
    """The values of one field in all events of a batch, laid out as in Arrow.

    Attributes:
        length: the number of values.
        data: numbers, in native order; the bytes of strings (uint8).
        offsets: int32, `length + 1` of them: where each string or dynamic array begins, then the end of the last.
        present: uint8, 0 where a value is absent; None if all are there. The only buffer of a pointer column.
        children: of a record its fields by name; of an array its elements (`ITEMS`), all in one column, row major, a
            static array's without offsets; of a pointer what it points to (`TARGET`), one value for each place.
    """

    length: int
    data: Buffer | None = None
    offsets: Buffer | None = None
    present: Buffer | None = None
    children: dict[str, Column] = field(default_factory=dict)

    def at(self, path: Sequence[str]) -> Column:
        """The column at a path of children."""
        column = self
        for name in path:
            column = column.children[name]
        return column


def dtype_of(type_: Basic) -> np.dtype[Any]:
    """The numpy type of a number."""
    return np.dtype(str(plain(type_)))


def static_count(array: Array) -> int:
    """The product of an array's static extents."""
    return math.prod(dim for dim in array.dims if isinstance(dim, int))


def columns_of(values: Sequence[Any], type_: ValueType, structs: Structs) -> Column:
    """Plain Python values (see `ecode.semantics.values`) as a column.

    Raises:
        ParameterError: a value does not fit the type.

    >>> from ecode.types import INT32
    >>> columns_of([1, 2, 3], INT32, {}).data
    array([1, 2, 3], dtype=int32)
    """
    try:
        return _column(values, type_, structs)
    except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
        hint = "give the numbers, strings, lists and mappings that Program.run takes"
        raise ParameterError(f"a value does not fit its column: {error}", hint) from None


def _column(values: Sequence[Any], type_: ValueType, structs: Structs) -> Column:
    count = len(values)
    present = None
    if any(value is None for value in values):
        present = np.array([value is not None for value in values], np.uint8)
    match type_:
        case Basic() if type_ == STRING:
            strings = [
                b"" if v is None else v.encode("utf-8", "surrogateescape") if isinstance(v, str) else bytes(v)
                for v in values
            ]
            data = np.frombuffer(b"".join(strings), np.uint8)
            return Column(count, data, _offsets([len(text) for text in strings]), present)
        case Basic():
            bits = [_bits(value, type_) for value in values]
            return Column(count, np.array(bits, dtype_of(type_)), None, present)
        case Ref():
            fields = structs[type_.name].fields
            given = [value or {} for value in values]
            children = {f.name: _column([v.get(f.name) for v in given], f.type, structs) for f in fields}
            return Column(count, None, None, present, children)
        case Array():
            filled = [zero(type_, structs) if v is None else v for v in values]
            flat = [_flat(value, len(type_.dims)) for value in filled]
            items = _column([item for part in flat for item in part], type_.element, structs)
            offsets = _offsets([len(part) for part in flat]) if type_.is_dynamic else None
            return Column(count, None, offsets, present, {ITEMS: items})
        case Pointer():
            inner = _column(values, type_.target, structs)
            return Column(count, None, None, present, {TARGET: inner})
    raise ParameterError(f"a value of type {type_} has no column")


def _bits(value: Any, type_: Basic) -> Any:
    if value is None:
        return 0
    return value - 256 if type_ == Basic(type_.kind, 1) and type_.kind.value == "char" and value > 127 else value


def _offsets(lengths: Sequence[int]) -> Buffer:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _flat(value: Any, rank: int) -> list[Any]:
    return list(value) if rank == 1 else [item for part in value for item in _flat(part, rank - 1)]


def values_of(column: Column, type_: ValueType, structs: Structs) -> list[Any]:
    """The values of a column as plain Python values. Fields without a column are zero."""

    def absent(i: int) -> bool:
        return column.present is not None and not column.present[i]

    match type_:
        case Basic() if type_ == STRING:
            assert column.data is not None
            assert column.offsets is not None
            text = column.data.tobytes()
            ends = column.offsets.tolist()
            return [None if absent(i) else text[ends[i] : ends[i + 1]] for i in range(column.length)]
        case Basic():
            assert column.data is not None
            return list(column.data[: column.length].tolist())
        case Ref():
            fields = structs[type_.name].fields
            known = {f.name: values_of(c, f.type, structs) for f in fields if (c := column.children.get(f.name))}
            return [_record(i, type_, known, structs) for i in range(column.length)]
        case Array():
            items = values_of(column.children[ITEMS], type_.element, structs)
            if column.offsets is not None:
                ends = column.offsets.tolist()
                return [items[ends[i] : ends[i + 1]] for i in range(column.length)]
            width = static_count(type_)
            dims = [int(dim) for dim in type_.dims]
            return [nest(items[i * width : (i + 1) * width], dims) for i in range(column.length)]
        case Pointer():
            targets = values_of(column.children[TARGET], type_.target, structs)
            return [None if absent(i) else targets[i] for i in range(column.length)]
    raise ParameterError(f"a value of type {type_} has no column")


def _record(i: int, type_: Ref, known: dict[str, list[Any]], structs: Structs) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for field_ in structs[type_.name].fields:
        value: Any = known[field_.name][i] if field_.name in known else zero(field_.type, structs)
        if isinstance(field_.type, Array) and field_.type.is_dynamic and len(field_.type.dims) > 1:
            dims = [d if isinstance(d, int) else known[d][i] if d in known else 0 for d in field_.type.dims]
            value = nest(value, dims)
        record[field_.name] = value
    return record
