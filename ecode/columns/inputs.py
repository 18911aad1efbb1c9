"""Input columns to the buffers that a kernel reads, checked against each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ecode.columns.binding import Source
from ecode.columns.column import ITEMS, Buffer, Column, dtype_of, static_count
from ecode.errors import ParameterError
from ecode.semantics.arithmetic import plain
from ecode.typed import Structs, ValueType
from ecode.types import STRING, Array, Basic, Pointer, Ref

# An empty buffer needs an address too: strings of length 0 must not look absent.
_NOTHING = np.zeros(8, np.uint8)

_LONGEST = 1 << 31
_BLOCK = 1 << 16

_LEAVE_OUT = "leave the column of the size out: it is then the length of the array"


def input_buffers(
    sources: Mapping[str, Source],
    inputs: Mapping[str, Column],
    types: Mapping[str, ValueType],
    structs: Structs,
    count: int,
    blocks: Collection[str],
) -> dict[str, Buffer]:
    """The buffer of each table entry.

    Raises:
        ParameterError: a column is missing or too short, its offsets are out of range, or a size field contradicts the
            length of its array.
    """
    found: dict[str, Buffer] = {}
    checked: set[tuple[str, tuple[str, ...]]] = set()
    for entry, (param, path, part) in sources.items():
        if param not in inputs:
            raise ParameterError(
                f"the parameter {param!r} has no column", hint="give a column for each input parameter"
            )
        walk = _Walk(param, inputs[param], types[param], structs, 1 if param in blocks else count)
        for i in range(len(path) + 1):
            walk.check(checked)
            if i < len(path):
                walk.step(path[i])
        found[entry] = walk.buffer(part)
    return found


class _Walk:
    """The path from a parameter's column to one of its children."""

    def __init__(self, param: str, column: Column, type_: ValueType, structs: Structs, length: int) -> None:
        self.param, self.column, self.type, self.structs, self.length = param, column, type_, structs, length
        self.path: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return ".".join((self.param, *self.path))

    def step(self, name: str) -> None:
        """Goes to a child."""
        match self.type:
            case Ref():
                field = self.structs[self.type.name].find(name)
                assert field is not None
                if name not in self.column.children:
                    self.column = self._counted(name, field.type)
                else:
                    self.column = self.column.children[name]
                self.type = field.type
            case Array():
                if self.column.offsets is not None:
                    self.length = int(self.column.offsets[self.length])
                else:
                    self.length *= static_count(self.type)
                self.column, self.type = self._child(name), self.type.element
            case Pointer():
                self.column, self.type = self._child(name), self.type.target
        self.path = (*self.path, name)

    def _child(self, name: str) -> Column:
        if name not in self.column.children:
            raise _bad(f"{self.where}: the elements are missing")
        return self.column.children[name]

    def _counted(self, name: str, type_: ValueType) -> Column:
        """The column of a missing size field: the lengths of its array."""
        assert isinstance(self.type, Ref)
        for field in self.structs[self.type.name].fields:
            array = self.column.children.get(field.name)
            if isinstance(field.type, Array) and field.type.dims == (name,) and array is not None:
                assert array.offsets is not None
                assert isinstance(type_, Basic)
                return Column(array.length, np.diff(array.offsets).astype(dtype_of(type_)))
        raise ParameterError(
            f"{self.where}: the column {name!r} is missing", hint="give a column for each field that the program reads"
        )

    def check(self, checked: set[tuple[str, tuple[str, ...]]]) -> None:
        """Checks that the column is long enough and that its offsets stay inside it."""
        if (self.param, self.path) in checked:
            return
        checked.add((self.param, self.path))
        column = self.column
        if column.length < self.length:
            raise _bad(f"{self.where}: {column.length} values, not {self.length}")
        if column.present is not None and len(column.present) < self.length:
            raise _bad(f"{self.where}: 'present' is too short")
        is_dynamic = isinstance(self.type, Array) and self.type.is_dynamic
        if is_dynamic or self.type == STRING:
            self._check_offsets()
        elif isinstance(self.type, Basic) and plain(self.type) is not None:
            data = column.data
            if data is None or len(data) < self.length or data.dtype != dtype_of(self.type):
                raise _bad(f"{self.where}: expected {self.length} numbers of type {dtype_of(self.type)}")
        if isinstance(self.type, Ref):
            self._check_sizes(self.type)

    def _check_offsets(self) -> None:
        column = self.column
        offsets = column.offsets
        if offsets is None or len(offsets) <= self.length or offsets.dtype != np.int32:
            raise _bad(f"{self.where}: expected {self.length + 1} offsets of type int32")
        used = offsets[: self.length + 1]
        room = len(column.data) if column.data is not None else column.children[ITEMS].length if column.children else 0
        if used[0] < 0 or (used[1:] < used[:-1]).any() or used[-1] > room:
            raise _bad(f"{self.where}: the offsets do not rise from 0 to at most {room}")

    def _check_sizes(self, type_: Ref) -> None:
        """The size fields of dynamic arrays against the arrays' own lengths."""
        for field in self.structs[type_.name].fields:
            array = self.column.children.get(field.name)
            if not (isinstance(field.type, Array) and field.type.is_dynamic and array is not None):
                continue
            if array.offsets is None or len(array.offsets) <= self.length:
                raise _bad(f"{self.where}.{field.name}: the offsets are too short")
            if self._has_plain_sizes(field.type, array.offsets[: self.length + 1]):
                continue
            lengths = np.diff(array.offsets[: self.length + 1].astype(np.int64))
            product: Any = np.ones(self.length, np.int64)
            for dim in field.type.dims:
                size = self.column.children.get(dim) if isinstance(dim, str) else None
                if isinstance(dim, str) and size is None:
                    break
                extent = dim if size is None or size.data is None else size.data[: self.length].astype(np.int64)
                if (np.asarray(extent) < 0).any():
                    raise ParameterError(f"{self.where}.{dim}: a size is negative", _LEAVE_OUT)
                # Clipped so that no product wraps around: no array is that long.
                product = np.minimum(product * np.minimum(extent, _LONGEST), _LONGEST)
            else:
                if (product != lengths).any():
                    where = f"{self.where}.{field.name}"
                    raise ParameterError(f"{where}: a size field and the array's length differ", _LEAVE_OUT)

    def _has_plain_sizes(self, type_: Array, offsets: Buffer) -> bool:
        """Whether an array's only size field, an int32, equals the array's lengths: the check in one pass."""
        size = self.column.children.get(str(type_.dims[0])) if len(type_.dims) == 1 else None
        if size is None or size.data is None or not size.data.dtype == offsets.dtype == np.int32:
            return False
        if len(size.data) < self.length:
            return False
        for first in range(0, self.length, _BLOCK):
            counts = size.data[first : min(first + _BLOCK, self.length)]
            around = offsets[first : first + len(counts) + 1]
            if (around[1:] - around[:-1] != counts).any() or counts.min() < 0:
                return False
        return True

    def buffer(self, part: str) -> Buffer:
        column = self.column
        if part == "present":
            given = np.ones(self.length, np.uint8) if column.present is None else column.present
            return _solid(given, np.dtype(np.uint8))
        if part == "offsets":
            assert column.offsets is not None
            return _solid(column.offsets, np.dtype(np.int32))
        assert column.data is not None
        return _solid(column.data, column.data.dtype)


def _bad(reason: str) -> ParameterError:
    return ParameterError(reason, "make the column with `columns_of`, which fits it to its type")


def _solid(buffer: Buffer, dtype: np.dtype[Any]) -> Buffer:
    """The buffer as one contiguous block, which an address alone describes."""
    return np.ascontiguousarray(buffer, dtype) if len(buffer) else _NOTHING
