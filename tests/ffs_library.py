"""The real FFS library (libadios2_ffs, in the PyPI wheel `adios2`) with a small interface, for tests and benchmarks.

    Library       the shared library and the prototypes of what is called here
    Context       formats of one reader or writer: register, load, encode, decode
    write_file    records and comments -> an FFS file, plain or indexed
    read_file     an FFS file -> its items, in a process of its own

Nothing is checked that the library does not check itself, and it checks little: bytes that it did not write may
end the process (ffs-wire-format 11), which is why files are read in another one. Its generated conversion
code has defects (ffs-wire-format 12, items 5 and 6) and is off unless asked for.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.ffs.native import Arena, NativeField, NativeStruct, natural, read_record, struct

CODE_GENERATION = "FFS_CONVERSION_GENERATION"
END, DATA, FORMAT, COMMENT, INDEX = 2, 4, 8, 16, 32


class _Field(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("type", c_char_p), ("size", c_int), ("offset", c_int))


class _OptInfo(ctypes.Structure):
    _fields_ = (("type", c_int), ("length", c_int), ("block", c_void_p))


class _Struct(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("fields", POINTER(_Field)),
        ("size", c_int),
        ("opt_info", POINTER(_OptInfo)),
    )


PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "create_local_FMcontext": (c_void_p, ()),
    "set_array_order_FMContext": (None, (c_void_p, c_int)),
    "set_ignore_default_values_FMcontext": (None, (c_void_p,)),
    "FMregister_data_format": (c_void_p, (c_void_p, c_void_p)),
    "load_external_format_FMcontext": (c_void_p, (c_void_p, c_char_p, c_int, c_char_p)),
    "get_server_ID_FMformat": (c_void_p, (c_void_p, POINTER(c_int))),
    "get_server_rep_FMformat": (c_void_p, (c_void_p, POINTER(c_int))),
    "format_list_of_FMFormat": (POINTER(_Struct), (c_void_p,)),
    "create_FFSContext_FM": (c_void_p, (c_void_p,)),
    "FMFormat_of_original": (c_void_p, (c_void_p,)),
    "FFSTypeHandle_from_encode": (c_void_p, (c_void_p, c_void_p)),
    "FFSset_fixed_target": (c_void_p, (c_void_p, c_void_p)),
    "FFS_target_from_encode": (c_void_p, (c_void_p, c_void_p)),
    "establish_conversion": (None, (c_void_p, c_void_p, c_void_p)),
    "create_FFSBuffer": (c_void_p, ()),
    "free_FFSBuffer": (None, (c_void_p,)),
    "FFSencode": (c_void_p, (c_void_p, c_void_p, c_void_p, POINTER(c_size_t))),
    "FFS_est_decode_length": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "FFSdecode": (c_int, (c_void_p, c_void_p, c_void_p)),
    "FFSdecode_to_buffer": (c_int, (c_void_p, c_void_p, c_void_p)),
    "FFSdecode_in_place": (c_int, (c_void_p, c_void_p, POINTER(c_void_p))),
    "open_FFSfile": (c_void_p, (c_char_p, c_char_p)),
    "close_FFSfile": (None, (c_void_p,)),
    "free_FFSfile": (None, (c_void_p,)),
    "FFSContext_of_file": (c_void_p, (c_void_p,)),
    "FMContext_of_file": (c_void_p, (c_void_p,)),
    "write_FFSfile": (c_int, (c_void_p, c_void_p, c_void_p)),
    "write_FFSfile_attrs": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "write_comment_FFSfile": (c_int, (c_void_p, c_char_p)),
    "FFSnext_record_type": (c_int, (c_void_p,)),
    "FFSread_format": (c_void_p, (c_void_p,)),
    "FFSread_comment": (c_char_p, (c_void_p,)),
    "FFSset_visible": (c_int, (c_void_p, c_int)),
    "FFSread_index": (c_void_p, (c_void_p,)),
    "FFSnext_type_handle": (c_void_p, (c_void_p,)),
    "FFSread": (c_int, (c_void_p, c_void_p)),
    "FFSread_attr": (c_int, (c_void_p, c_void_p, POINTER(c_void_p))),
    "FFSseek": (c_int, (c_void_p, c_int)),
    "create_attr_list": (c_void_p, ()),
    "attr_count": (c_int, (c_void_p,)),
    "get_attr": (c_int, (c_void_p, c_int, POINTER(c_int), POINTER(c_int), c_void_p)),
    "attr_atom_from_string": (c_int, (c_char_p,)),
    "set_int_attr": (c_int, (c_void_p, c_int, c_int)),
    "set_double_attr": (c_int, (c_void_p, c_int, c_double)),
    "set_string_attr": (c_int, (c_void_p, c_int, c_void_p)),
}


class Library:
    """The shared library. `calls.NAME(...)` calls its function NAME with the prototype above.

    Whether conversions are generated machine code or interpreted is decided once per loaded library, by the
    environment at its first conversion. A library with code generation is therefore a copy of the file, loaded
    under another name: both forms can be compared in one process.
    """

    def __init__(self, code_generation: bool = False) -> None:
        self.calls = _load_copy() if code_generation else ctypes.CDLL(str(_library_path()))
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(self.calls, name)
            function.restype, function.argtypes = result, arguments
        with patch.dict(os.environ, {CODE_GENERATION: str(int(code_generation))}):
            context = Context(self)
            narrow, wide = (natural([struct("first", ("n", "integer", size))]) for size in (4, 8))
            context.decode(context.encode(context.register(narrow), {"n": 1}), target=wide)


@cache
def library(code_generation: bool = False) -> Library:
    """The library of this process, with or without generated conversion code."""
    return Library(code_generation)


def _library_path() -> Path:
    wheel = importlib.util.find_spec("adios2")
    if wheel is None or wheel.origin is None:
        raise ImportError("the test dependency `adios2`, which ships the FFS library, is not installed")
    return Path(wheel.origin).parent / "libadios2_ffs.so"


def _load_copy() -> ctypes.CDLL:
    library()  # brings in the libraries that this one needs and that a copy elsewhere would not find
    with tempfile.TemporaryDirectory() as folder:
        return ctypes.CDLL(shutil.copy(_library_path(), folder))


@dataclass(frozen=True, slots=True)
class Registered:
    """A format that the library knows: its handle, identity, body and structures."""

    handle: int
    id: bytes
    body: bytes
    structs: tuple[NativeStruct, ...]


class Context:
    """Formats and conversions: what one reader or writer knows."""

    def __init__(self, of: Library | None = None, column_major: bool = False, keep_defaults: bool = False) -> None:
        self.calls = (of or library()).calls
        self.column_major = column_major
        self.formats = self.calls.create_local_FMcontext()
        self.calls.set_array_order_FMContext(self.formats, column_major)
        if keep_defaults:
            self.calls.set_ignore_default_values_FMcontext(self.formats)
        self.context = self.calls.create_FFSContext_FM(self.formats)
        self.targets: dict[int, tuple[NativeStruct, ...]] = {}

    def register(self, structs: Sequence[NativeStruct]) -> Registered:
        """Make a format of structures with given sizes and offsets, the record's own structure first."""
        return _register(self.calls, self.formats, structs)

    def load(self, format_id: bytes, body: bytes) -> None:
        """Make a format known by its body, as if it had come from a format server."""
        if not self.calls.load_external_format_FMcontext(self.formats, format_id, len(format_id), body):
            raise ValueError(f"the library does not take the body of format {format_id.hex()}")

    def encode(self, of: Registered, value: Any) -> bytes:
        """The encoded record, header included."""
        arena, buffer, size = Arena(of.structs, self.column_major), self.calls.create_FFSBuffer(), c_size_t()
        try:
            start = self.calls.FFSencode(buffer, of.handle, arena.record(value), byref(size))
            return ctypes.string_at(start, size.value)
        finally:
            self.calls.free_FFSBuffer(buffer)

    def prepare(self, encoded: bytes, target: Sequence[NativeStruct] | None = None) -> tuple[NativeStruct, ...]:
        """Set up the conversion of records like this one; returns the native structures that it will fill.

        Without a target these are the fields of the record's own format, laid out for this machine. The first call for
        a format decides.
        """
        handle = self.calls.FFSTypeHandle_from_encode(self.context, encoded)
        if not handle:
            raise ValueError("the library does not know the format of the record")
        if handle not in self.targets:
            _, self.targets[handle] = convert(self.calls, self.context, handle, target)
        return self.targets[handle]

    def decode(self, encoded: bytes, how: str = "copy", target: Sequence[NativeStruct] | None = None) -> Any:
        """The value of an encoded record.

        Args:
            how: `copy` is FFSdecode, `buffer` FFSdecode_to_buffer, `place` FFSdecode_in_place.
            target: as for `prepare`.
        """
        structs = self.prepare(encoded, target)
        source = _aligned(encoded)
        match how:
            case "copy":
                record = _aligned(bytes(structs[0].size))
                done = self.calls.FFSdecode(self.context, source, record)
                address = ctypes.addressof(record)
            case "buffer":
                room = self.calls.FFS_est_decode_length(self.context, source, len(encoded))
                record = _aligned(bytes(room))
                done = self.calls.FFSdecode_to_buffer(self.context, source, record)
                address = ctypes.addressof(record)
            case "place":
                result = c_void_p()
                done = self.calls.FFSdecode_in_place(self.context, source, byref(result))
                address = result.value or 0
            case _:
                raise ValueError(how)
        if not done:
            raise ValueError("the library could not decode the record")
        return read_record(structs, address)


def _aligned(data: bytes) -> Any:
    buffer = (ctypes.c_uint64 * (len(data) // 8 + 2))()
    ctypes.memmove(buffer, data, len(data))
    return buffer


def _register(calls: Any, formats: int, structs: Sequence[NativeStruct]) -> Registered:
    structs = tuple(structs)
    handle = calls.FMregister_data_format(formats, description(structs))
    if not handle:
        raise ValueError(f"the library does not take the format {structs[0].name!r}")
    return Registered(handle, *identity(calls, handle), structs)


def identity(calls: Any, handle: int) -> tuple[bytes, bytes]:
    """The ID and the body of a format."""
    length = c_int()
    format_id = ctypes.string_at(calls.get_server_ID_FMformat(handle, byref(length)), length.value)
    return format_id, ctypes.string_at(calls.get_server_rep_FMformat(handle, byref(length)), length.value)


def description(structs: Sequence[NativeStruct]) -> Any:
    """The library's description of structures: arrays of C structures, each ended by an empty one."""
    table = (_Struct * (len(structs) + 1))()
    for row, s in zip(table, structs, strict=False):
        fields = [_Field(f.name.encode(), f.type.encode(), f.size, f.offset) for f in s.fields]
        row.name, row.size = s.name.encode(), s.size
        row.fields = (_Field * (len(fields) + 1))(*fields)
        if s.opt_info:
            blocks = [ctypes.create_string_buffer(block, len(block)) for _, block in s.opt_info]
            infos = [
                _OptInfo(type_, len(block), ctypes.addressof(held))
                for (type_, block), held in zip(s.opt_info, blocks, strict=True)
            ]
            row.opt_info = (_OptInfo * (len(infos) + 1))(*infos)
            _held.append(blocks)
    _held.append(table)
    return table


_held: list[Any] = []  # the library may keep pointers into the descriptions that it is given


def described(calls: Any, handle: int) -> tuple[NativeStruct, ...]:
    """The structures of a format as the library understood its body."""
    table, structs = calls.format_list_of_FMFormat(handle), []
    for row in _rows(table):
        fields = (NativeField(f.name.decode(), f.type.decode(), f.size, f.offset) for f in _rows(row.fields))
        structs.append(NativeStruct(row.name.decode(), tuple(fields), row.size))
    return tuple(structs)


def _rows(table: Any) -> Iterator[Any]:
    """The rows of a C table that a row without a name ends."""
    return takewhile(lambda row: row.name is not None, (table[index] for index in count()))


def convert(
    calls: Any, context: int, handle: int, target: Sequence[NativeStruct] | None = None
) -> tuple[int, tuple[NativeStruct, ...]]:
    """Have records of a format converted to the target, or to their own fields laid out for this machine.

    Returns the handle of the target, by which the library names the format of converted records, and its structures.
    The conversion is asked for explicitly: the automatic rule takes formats that differ in widths only for one.
    """
    structs = tuple(target or natural(described(calls, calls.FMFormat_of_original(handle))))
    wanted = description(structs)
    made = calls.FFSset_fixed_target(context, wanted)
    calls.establish_conversion(context, handle, wanted)
    return made, structs


@dataclass(frozen=True, slots=True)
class Item:
    """A record to be written: its format's structures, its value and, in an indexed file, its attributes."""

    structs: tuple[NativeStruct, ...]
    value: Any
    attributes: dict[str, int | float | str] = field(default_factory=dict)


def write_file(path: Path, items: Iterable[Item | str], indexed: bool = False) -> None:
    """Write records, and comments (plain strings), to an FFS file."""
    calls = library().calls
    file = calls.open_FFSfile(str(path).encode(), b"wi" if indexed else b"w")
    if not file:
        raise OSError(f"the library could not create {path}")
    registered: dict[tuple[NativeStruct, ...], Registered] = {}
    for item in items:
        if isinstance(item, str):
            done = calls.write_comment_FFSfile(file, item.encode())
        else:
            if item.structs not in registered:
                registered[item.structs] = _register(calls, calls.FMContext_of_file(file), item.structs)
            arena, handle = Arena(item.structs), registered[item.structs].handle
            record = arena.record(item.value)
            if item.attributes:
                done = calls.write_FFSfile_attrs(file, handle, record, _attribute_list(calls, item.attributes))
            else:
                done = calls.write_FFSfile(file, handle, record)
        if not done:
            raise OSError(f"the library could not write {item!r}")
    calls.close_FFSfile(file)
    calls.free_FFSfile(file)


def _attribute_list(calls: Any, attributes: dict[str, int | float | str]) -> int:
    made = calls.create_attr_list()
    for name, value in attributes.items():
        atom = calls.attr_atom_from_string(name.encode())
        match value:
            case str():
                # The list owns its strings and frees them: they must come from malloc.
                calls.set_string_attr(made, atom, _libc().strdup(value.encode()))
            case float():
                calls.set_double_attr(made, atom, value)
            case int():
                calls.set_int_attr(made, atom, value)
    return int(made)


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.strdup.restype, libc.strdup.argtypes = c_void_p, (c_char_p,)
    return libc


class LibraryCrash(Exception):  # noqa: N818 - it is not a PbioError
    """The process in which the library read a file ended badly: the exit status, its last words, the items before."""


def read_file(path: Path, seek: Sequence[int] = (), code_generation: bool = False) -> list[dict[str, Any]]:
    """The items of an FFS file as the library reads them, in a process of its own.

    Args:
        seek: numbers of data items to read once more through the index, in this order, after the whole file was read.

    Returns:
        What tests/ffs/read_process.py prints: dictionaries like the lines of the corpus, `kind` being `comment`,
        `format`, `index`, `data` or, for the items sought, `sought`.
    """
    command = [sys.executable, "-m", "tests.ffs.read_process", str(path), str(int(code_generation)), *map(str, seek)]
    root = Path(__file__).parent.parent
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    items = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or not items or items.pop()["kind"] != "end":
        raise LibraryCrash(f"status {run.returncode} after {len(items)} items of {path}: {run.stderr[-2000:]}")
    return items
