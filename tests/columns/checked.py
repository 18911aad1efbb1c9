"""Kernels run as the Python that they are written in, and every access is checked against their memory.

Nothing is compiled, so that thousands of formats can be tried; and what would be a silent stray access in machine code
is a failure here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ecode.native import Table
from ecode.native.table import address_of

CODES = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}
CODES |= {f"u{name}": code.upper() for name, code in CODES.items() if name.startswith("int")}


class StrayAccessError(AssertionError):
    pass


@dataclass(frozen=True)
class CheckedKernel:
    """Replaces a `Kernel`. `readable` are (address, size) of memory that only the addresses in the table lead to."""

    source: str
    readable: Sequence[tuple[int, int]]

    def __call__(self, count: int, table: Table) -> int:
        given = [(table.address, table.array.nbytes)]
        for entry in table.entries:
            if hasattr(entry, "__array_interface__"):
                given.append((address_of(entry), entry.nbytes))
            elif not isinstance(entry, int):
                given.append((entry.address, entry.size))
        namespace = _memory(given, [*given, *self.readable])
        exec(self.source, namespace)
        return int(namespace["kernel"](count, table.address))


def _memory(writable: list[tuple[int, int]], readable: list[tuple[int, int]]) -> dict[str, Any]:
    def check(address: int, size: int, regions: list[tuple[int, int]]) -> None:
        if size and not any(start <= address and address + size <= start + length for start, length in regions):
            raise StrayAccessError(f"{size} bytes at {address}")

    def read(address: int, size: int) -> bytes:
        check(address, size, readable)
        return ctypes.string_at(address, size)

    def write(address: int, data: bytes) -> None:
        check(address, len(data), writable)
        ctypes.memmove(address, data, len(data))

    def copy(to: int, from_: int, n: int) -> None:
        write(to, read(from_, n))

    def zero(to: int, n: int) -> None:
        write(to, bytes(n))

    def find_zero(address: int, n: int) -> int:
        found = read(address, n).find(0)
        return n if found < 0 else found

    memory: dict[str, Any] = {
        "copy": copy,
        "zero": zero,
        "find_zero": find_zero,
        "inline": lambda function: function,
        "early": lambda function: function,
        "within": lambda function: function,
        "shared": lambda function: function,
    }
    for width in (8, 16, 32, 64):
        memory[f"saturated_int{width}"] = _saturation(-(1 << width - 1), (1 << width - 1) - 1)
        if width < 64:
            memory[f"saturated_uint{width}"] = _saturation(0, (1 << width) - 1)
    for width in ("int32", "int64"):
        memory[f"quotient_{width}"] = lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    for name, code in CODES.items():
        size = struct.calcsize(code)
        for suffix, turn in (("", _same), ("_swapped", _reversed), ("_mixed", _halves)):
            memory[f"load_{name}{suffix}"] = _loader(read, code, size, turn)
            memory[f"store_{name}{suffix}"] = _storer(write, code, turn)
        memory[f"as_{name}"] = _converter(code, size)
    narrow = memory["as_int32"]
    memory["add_int32"] = lambda a, b: narrow(a + b)
    memory["subtract_int32"] = lambda a, b: narrow(a - b)
    memory["multiply_int32"] = lambda a, b: narrow(a * b)
    return memory


def _loader(read: Callable[[int, int], bytes], code: str, size: int, turn: Callable[[bytes], bytes]) -> Any:
    return lambda address: struct.unpack(code, turn(read(address, size)))[0]


def _storer(write: Callable[[int, bytes], None], code: str, turn: Callable[[bytes], bytes]) -> Any:
    return lambda address, value: write(address, turn(struct.pack(code, value)))


def _saturation(low: int, high: int) -> Any:
    return lambda value: 0 if value != value else low if value <= low else high if value >= high else int(value)


def _converter(code: str, size: int) -> Any:
    if code in "fd":
        type_ = ctypes.c_float if code == "f" else ctypes.c_double
        return lambda value: type_(value).value
    mask = (1 << 8 * size) - 1
    sign = 0 if code.isupper() else 1 << (8 * size - 1)
    return lambda value: ((int(value) & mask) ^ sign) - sign


def _same(data: bytes) -> bytes:
    return data


def _reversed(data: bytes) -> bytes:
    return data[::-1]


def _halves(data: bytes) -> bytes:
    return data[4:] + data[:4]
