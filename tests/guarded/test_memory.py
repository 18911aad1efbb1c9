"""Guarded memory traps on both sides, and a kernel that keeps to its memory does not notice it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ecode.native import Table, compile_kernel
from tests.guarded.memory import Guards, ends, guarded_kernels

KERNEL = """
def kernel(count, table):
    numbers = load_int64(table)
    total = 0
    for i in range(count):
        total += load_uint8(numbers + i)
        store_uint8(numbers + i, 7)
    store_int64(table + 8, total)
    return 0
"""
STRAY = f"""
import numpy as np
from ecode.native import Table, compile_kernel
from tests.guarded.memory import Guards, guarded_kernels
kernel = compile_kernel({KERNEL!r})
with guarded_kernels(Guards()):
    for _ in range(2):
        kernel(%d, Table([np.zeros(5, np.uint8), 0]))
"""
TOUCH = """
import ctypes
from tests.guarded.memory import Guards
from ecode.native.table import address_of
memory = Guards().memory(100, at_end=%r)
ctypes.string_at(address_of(memory) + %d, 1)
"""


def died(script: str) -> bool:
    root = str(Path(__file__).parents[2])
    status = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, check=False).returncode
    assert status in (0, -signal.SIGSEGV, -signal.SIGBUS)
    return status != 0


@pytest.mark.parametrize(("at_end", "offset"), [(True, 99), (False, 0)])
def test_touching_the_guard_ends_the_process(at_end: bool, offset: int) -> None:
    assert not died(TOUCH % (at_end, offset))
    assert died(TOUCH % (at_end, offset + (1 if at_end else -1)))


def test_a_kernel_that_strays_by_one_byte_ends_the_process() -> None:
    assert not died(STRAY % 5)
    assert died(STRAY % 6)


def test_what_a_kernel_writes_is_seen() -> None:
    numbers, guards = np.arange(5, dtype=np.uint8), Guards()
    table = Table([numbers, 0])
    with guarded_kernels(guards):
        assert compile_kernel(KERNEL)(4, table) == 0
    guards.take_back()
    assert table[1] == 6
    assert numbers.tolist() == [7, 7, 7, 7, 4]
    assert table[0] == numbers.__array_interface__["data"][0]


def test_ends_are_those_of_the_width() -> None:
    assert {0, 1, 2**64 - 1, 2**63 - 5, 2**63, 100, 101, 99} <= set(ends(100, 16, 64))
    assert max(ends(100, 16, 32)) == 2**32 - 1
