"""Static variables and the log: plain values to the memory of generated code and back."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ecode.interpreter.convert import completed
from ecode.semantics import printf
from ecode.semantics.arithmetic import plain
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import Structs, ValueType
from ecode.typed_to_numba.nodes.calls import LOG_ABSENT, LOG_FLOAT, LOG_TEXT, LOG_UNSIGNED
from ecode.types import STRING, Array, Basic, Ref

_FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip


def checked(value: Any, type_: ValueType, structs: Structs, path: str) -> Any:
    """A plain value that `pack` can write, with all its fields; static arrays of numbers are numpy arrays.

    Raises:
        ParameterError: the value does not fit the type.
    """
    match type_:
        case Ref() if isinstance(value, Mapping):
            types = {field.name: field.type for field in structs[type_.name].fields}
            given = {name for name in types if value.get(name) is not None}
            known = {name: checked(value[name], types[name], structs, f"{path}.{name}") for name in given}
            rest = {name: each for name, each in value.items() if name not in given}
            # The interpreter fills in missing fields and reports unknown ones.
            return completed(rest, type_, structs, path) | known if given != value.keys() | types.keys() else known
        case Array(Basic() as element) if plain(element) is not None:
            numbers = _numbers(value, type_, element)
            if numbers is not None:
                return numbers
    return completed(value, type_, structs, path)


def _numbers(value: Any, type_: Array, element: Basic) -> npt.NDArray[Any] | None:
    """The array, if all its numbers fit; None if they must be checked one by one."""
    try:
        given = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    dtype = np.dtype(str(plain(element)))
    if given.shape != type_.dims or given.dtype.kind not in ("iuf" if dtype.kind == "f" else "iu"):
        return None
    if dtype.kind != "f" and given.size:
        limits = np.iinfo(dtype)
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            return None
    with np.errstate(over="ignore"):
        return given.astype(dtype)


def pack(
    value: Any, type_: ValueType, structs: Structs, block: memoryview, at: int, keep: Callable[[bytes], int]
) -> None:
    """Writes a plain value into memory. `keep` stores the text of a string and returns its address."""
    match type_:
        case Basic() if type_ == STRING:
            text = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
            struct.pack_into("qq", block, at, 0 if text is None else keep(text), len(text or b""))
        case Basic():
            struct.pack_into(_FORMATS[str(plain(type_))], block, at, value)
        case Array() if isinstance(value, np.ndarray):
            block[at : at + value.nbytes] = value.tobytes()
        case Array():
            size = MEMORY_LAYOUT.size(type_.element, structs)
            for i, item in enumerate(_flat(value, len(type_.dims))):
                pack(item, type_.element, structs, block, at + i * size, keep)
        case Ref():
            offsets = MEMORY_LAYOUT.offsets(type_.name, structs)
            for field, offset in zip(structs[type_.name].fields, offsets, strict=False):
                pack(value[field.name], field.type, structs, block, at + offset, keep)


def text_bytes(value: Any) -> int:
    """The bytes that the strings in a plain value take, each with a NUL."""
    if isinstance(value, str | bytes):
        return len(value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value) + 1
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(text_bytes, parts))


def _flat(value: Any, rank: int) -> list[Any]:
    return list(value) if rank == 1 else [item for part in value for item in _flat(part, rank - 1)]


def unpack(type_: ValueType, structs: Structs, block: memoryview, at: int, fetch: Callable[[int, int], bytes]) -> Any:
    """Reads a plain value from memory. `fetch` returns the text at an address."""
    match type_:
        case Basic() if type_ == STRING:
            address, length = struct.unpack_from("qq", block, at)
            return fetch(address, length) if address else None
        case Basic():
            return struct.unpack_from(_FORMATS[str(plain(type_))], block, at)[0]
        case Array(Basic() as element) if plain(element) is not None:
            dims = [int(dim) for dim in type_.dims]
            found: Any = np.frombuffer(block, np.dtype(str(plain(element))), math.prod(dims), at)
            return found.reshape(dims).tolist()
        case Array():
            inner = Array(type_.element, type_.dims[1:]) if len(type_.dims) > 1 else type_.element
            size = MEMORY_LAYOUT.size(inner, structs)
            return [unpack(inner, structs, block, at + i * size, fetch) for i in range(int(type_.dims[0]))]
        case Ref():
            offsets = MEMORY_LAYOUT.offsets(type_.name, structs)
            fields = zip(structs[type_.name].fields, offsets, strict=False)
            return {field.name: unpack(field.type, structs, block, at + offset, fetch) for field, offset in fields}
    raise AssertionError(type_)


def read_log(log: bytes, functions: tuple[str, ...]) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """The calls in a log: event, function, arguments; those of `printf` are its text."""
    at = 0
    while at < len(log):
        event, function, count = struct.unpack_from("qqq", log, at)
        at += 24
        arguments: list[Any] = []
        for _ in range(count):
            (kind,) = struct.unpack_from("q", log, at)
            code = "d" if kind == LOG_FLOAT else "Q" if kind == LOG_UNSIGNED else "q"
            (value,) = struct.unpack_from(code, log, at + 8)
            at += 16
            if kind in (LOG_TEXT, LOG_ABSENT):
                arguments.append(log[at : at + value] if kind == LOG_TEXT else None)
                at += (value + 7) & -8
            else:
                arguments.append(value)
        name = functions[function]
        if name == "printf":
            arguments = [printf.formatted(arguments[0], arguments[1:])]
        yield event, name, tuple(arguments)
