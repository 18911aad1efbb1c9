"""Memory that traps: the memory of a kernel borders on pages without any access.

A stray access then ends the process, so what uses this runs in a process of its own (`run_guarded`), and a signal is a
failing test.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from ecode.columns.working import MemoryPart
from ecode.native import Kernel, Table
from ecode.native.table import address_of

Bytes = npt.NDArray[np.uint8]

PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_PROT_NONE = 0


class Guards:
    """Hands out guarded memory; all of it is taken back at once."""

    def __init__(self) -> None:
        self._free: dict[int, list[Bytes]] = defaultdict(list)
        self._used: list[tuple[int, Bytes]] = []

    def memory(self, size: int, *, at_end: bool) -> Bytes:
        """So many bytes, either their last one before a guard page or their first one after one."""
        pages = max(-(-size // PAGE), 1)
        region = self._free[pages].pop() if self._free[pages] else _region(pages)
        self._used.append((pages, region))
        return region[len(region) - size :] if at_end else region[:size]

    def copied(self, data: bytes | Bytes, *, at_end: bool) -> Bytes:
        """A guarded copy."""
        source = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        memory = self.memory(len(source), at_end=at_end)
        memory[:] = source
        return memory

    def take_back(self) -> None:
        """The memory that was handed out is no longer in use."""
        for pages, region in self._used:
            self._free[pages].append(region)
        self._used.clear()


def _region(pages: int) -> Bytes:
    """Pages between two that cannot be touched."""
    whole = np.frombuffer(mmap.mmap(-1, (pages + 2) * PAGE), np.uint8)
    start = address_of(whole)
    for guard in (start, start + (pages + 1) * PAGE):
        if _LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return whole[PAGE : (pages + 1) * PAGE]


@contextmanager
def guarded_kernels(guards: Guards) -> Iterator[None]:
    """Every kernel that is called gets its table, and all memory that the table names, in guarded copies, by turns at
    the end and at the beginning of their pages; what it has written is copied back.

    Addresses that a kernel stores stay valid until `Guards.take_back`.
    """
    turn = 0

    def call(kernel: Kernel, count: int, table: Table) -> int:
        nonlocal turn
        turn += 1
        at_end = turn % 3 != 0
        words = table.array.copy()
        pieces: list[tuple[int, Bytes, Bytes]] = []
        for i, entry in enumerate(table.entries):
            if not isinstance(entry, int):
                original = _bytes_of(entry)
                pieces.append((i, original, guards.copied(original, at_end=at_end)))
                words[i] = address_of(pieces[-1][2])
        own = guards.copied(words.view(np.uint8), at_end=at_end)
        status = kernel.load()(count, address_of(own))
        written = own.copy().view(np.int64)
        for i, original, copy in pieces:
            written[i] = table.array[i]
            if original.flags.writeable:
                original[:] = copy
        table.array[:] = written
        return status

    with patch.object(Kernel, "__call__", call):
        yield


def _bytes_of(entry: Any) -> Bytes:
    if isinstance(entry, np.ndarray):
        flat = entry.reshape(-1)
        if not np.shares_memory(flat, entry) and entry.size:
            raise ValueError("a kernel was given an array that is not contiguous")
        return flat.view(np.uint8)
    if isinstance(entry, MemoryPart):
        return entry.data
    return np.frombuffer(entry, np.uint8)


def ends(length: int, minimum: int, bits: int) -> list[int]:
    """Slots and counts at which checks have their ends, as unsigned numbers of so many bits."""
    near = {0, 1, -1, minimum - 1, minimum, minimum + 8, length - 8, length - 1, length, length + 1}
    near |= {edge + by for edge in (2**31, 2**32, 2**61, 2**62, 2**63) for by in (-8, -5, -1, 0, 1, 8)}
    near |= {-length, -minimum, -8, 2**63 - length, 2**64 - length, 2**60, 2**29}
    return sorted({n % 2**bits for n in near})


def with_ends(record: bytes, first: int, minimum: int, order: str, random: Random) -> bytes:
    """A record in which a few words after the header hold such numbers."""
    changed = bytearray(record)
    length = len(record) - first
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        size = random.choice((1, 2, 4, 4, 8, 8, 8))
        if length < size:
            continue
        at = first + random.randrange(0, length - size + 1, min(size, 4))
        number = random.choice(ends(length, minimum, 8 * size))
        changed[at : at + size] = number.to_bytes(size, "big" if order == "big" else "little")
    return bytes(changed)


def run_guarded(module: str, *arguments: object) -> str:
    """Runs a module in a process of its own, which must end well; its output."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, f"status {done.returncode}: {done.stdout.decode()[-2000:]} {done.stderr.decode()}"
    return done.stdout.decode()
