"""Permissions of files that hold even for root, since containers and build servers run tests as root."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

OVERRIDE = 1 << 1 | 1 << 2
"""The capabilities of Linux to read and write whatever a file's mode says: DAC_OVERRIDE and DAC_READ_SEARCH."""
VERSION = 0x20080522
"""That of the structures, which hold 64 bits in two halves."""


class _Head(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Half(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Have the modes of files hold for this thread, and for threads and processes that it starts meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux lets a superuser drop its rights temporarily")
    libc, head, halves = ctypes.CDLL(None, use_errno=True), _Head(VERSION, 0), (_Half * 2)()
    assert libc.capget(ctypes.byref(head), halves) == 0
    before = halves[0].effective
    halves[0].effective &= ~OVERRIDE
    assert libc.capset(ctypes.byref(head), halves) == 0
    try:
        yield
    finally:
        halves[0].effective = before
        assert libc.capset(ctypes.byref(head), halves) == 0
