"""The table that a kernel is called with, and how its text reads it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np


def loads(names: Iterable[str]) -> str:
    """The first lines of a kernel's text, which give names to the entries of its table.

    >>> print(loads(["data", "size"]))
        data = load_int64(table)
        size = load_int64(table + 8)
    """
    return "\n".join(f"    {name} = load_int64(table{f' + {8 * i}' if i else ''})" for i, name in enumerate(names))


class Memory(Protocol):
    """A block of memory that knows its address, such as an Arrow buffer. Sizes are in bytes."""

    @property
    def address(self) -> int: ...

    @property
    def size(self) -> int: ...


TableEntry: TypeAlias = "int | np.ndarray[Any, Any] | Memory"


_NO_BYTES = ctypes.c_char * 0


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of a numpy array's first byte."""
    if array.flags.writeable:
        try:
            memory: Any = array
            return ctypes.addressof(_NO_BYTES.from_buffer(memory))
        except (TypeError, ValueError):  # it has gaps, or, as times, a type that buffers do not know
            pass
    # This takes three times as long: numpy describes the array in words.
    return int(array.__array_interface__["data"][0])


class Table:
    """An int64 array of addresses and parameters; it keeps the memory alive that they point to.

    Attributes:
        entries: the integers or blocks of memory that it was made from.
        array: int64, what the kernel sees and may change.
        address: of the array.
    """

    __slots__ = ("address", "array", "entries")

    def __init__(self, entries: Iterable[TableEntry]) -> None:
        """Entries are integers, or blocks of memory, whose addresses are taken."""
        import numpy as np

        self.entries = list(entries)
        numbers = [
            e if isinstance(e, int) else address_of(e) if isinstance(e, np.ndarray) else e.address for e in self.entries
        ]
        self.array = np.array(numbers, np.int64)
        self.address = address_of(self.array)

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])
