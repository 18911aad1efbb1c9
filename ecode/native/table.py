"""The table that a kernel is called with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of a numpy array's first byte."""
    return int(array.__array_interface__["data"][0])


class Table:
    """An int64 array of addresses and parameters, and whatever must stay alive as long as it does."""

    __slots__ = ("_alive", "array")

    def __init__(self, entries: Iterable[int | np.ndarray[Any, Any]]) -> None:
        """Entries are integers as they are, or numpy arrays, which stand for their addresses."""
        import numpy as np

        self._alive = list(entries)
        self.array = np.fromiter(
            (e if isinstance(e, int) else address_of(e) for e in self._alive), np.int64, len(self._alive)
        )

    @property
    def address(self) -> int:
        return address_of(self.array)

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])
