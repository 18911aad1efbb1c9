"""The memory that a kernel works in besides its inputs and outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ecode.columns.column import Buffer
from ecode.native.table import address_of
from ecode.typed_to_numba import EventKernel

_ZEROED = ("progress", "wanted", "log_used_at", "frame")
"""Parts that are zero when a run begins; what is in the others does not matter."""


class MemoryPart(NamedTuple):
    """Some bytes of a block, as an entry of a kernel's table. The address is a multiple of eight."""

    address: int
    size: int
    block: Buffer
    at: int

    @property
    def data(self) -> Buffer:
        """The bytes."""
        return self.block[self.at : self.at + self.size]


class WorkingMemory:
    """Parts of one block: to allocate each, and to ask for its address, takes longer than to run a small batch.

    Attributes:
        parts: by the name of their table entry.
    """

    __slots__ = ("parts",)

    def __init__(self, event: EventKernel, count: int, heap: int, log: int) -> None:
        """The parts that a kernel needs for so many events; `heap` and `log` are the bytes of those, which may grow."""
        sizes = {
            "progress": 24,
            "wanted": 8,
            "log_used_at": 8,
            "frame": event.frame_bytes,
            "traps": 16 * count,
            "trap_values": 16 * count,
            "heap": heap,
            "log": log,
        }
        places, end, zeroed = [], 0, 0
        for name, size in sizes.items():
            if name in event.entries:
                places.append((name, end, size))
                end += (size + 7) & -8
                if name in _ZEROED:
                    zeroed = end
        block: npt.NDArray[np.uint8] = np.empty(end, np.uint8)
        block[:zeroed] = 0
        base = address_of(block)
        self.parts = {name: MemoryPart(base + at, size, block, at) for name, at, size in places}

    def int64s(self, name: str) -> npt.NDArray[np.int64]:
        """The numbers in a part."""
        return self.parts[name].data.view(np.int64)

    def grow(self, name: str, size: int) -> None:
        """Give a part so many bytes, of which the first are those that it had."""
        grown, old = np.empty(size, np.uint8), self.parts[name].data
        grown[: len(old)] = old
        self.parts[name] = MemoryPart(address_of(grown), size, grown, 0)

    def sizes(self) -> dict[str, int]:
        """The table entries that hold the sizes of what may grow."""
        return {f"{name}_size": self.parts[name].size for name in ("heap", "log") if name in self.parts}
