"""A process that reads one FFS file with the real library and prints its items as JSON lines.

    python -m tests.ffs.read_process PATH CODE_GENERATION [NUMBER ...]

It is a process because the library trusts its input. The last line is `{"kind": "end"}`: without it the file was not
read to its end. Numbers are data items to read again, through the index of the file.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from ctypes import byref, c_int, c_void_p
from itertools import chain
from typing import Any

from tests.ffs.native import NativeStruct, read_record
from tests.ffs_library import COMMENT, DATA, END, FORMAT, INDEX, convert, described, identity, library

ATTRIBUTE_TYPES = {1: "int4", 3: "string", 8: "float8"}
EVERYTHING = COMMENT | DATA | FORMAT | INDEX


class File:
    """An open file and the native structures to which its formats are converted."""

    def __init__(self, path: str, code_generation: bool) -> None:
        self.calls = library(code_generation).calls
        self.file = self.calls.open_FFSfile(path.encode(), b"r")
        if not self.file:
            raise OSError(f"the library could not open {path}")
        self.structs: dict[int, tuple[NativeStruct, ...]] = {}

    def items(self) -> Iterator[dict[str, Any]]:
        """Every item in file order."""
        self.calls.FFSset_visible(self.file, EVERYTHING)
        while (kind := self.calls.FFSnext_record_type(self.file)) != END:
            match kind:
                case _ if kind == COMMENT:
                    yield {"kind": "comment", "text": self.calls.FFSread_comment(self.file).decode()}
                case _ if kind == FORMAT:
                    yield self.format()
                case _ if kind == INDEX:
                    self.calls.FFSread_index(self.file)
                    yield {"kind": "index"}
                case _ if kind == DATA:
                    yield {"kind": "data", **self.data()}
                case _:
                    raise OSError(f"an item of kind {kind}")

    def sought(self, numbers: list[int]) -> Iterator[dict[str, Any]]:
        """Data items by number."""
        self.calls.FFSset_visible(self.file, DATA)
        for number in numbers:
            if self.calls.FFSseek(self.file, number) or self.calls.FFSnext_record_type(self.file) != DATA:
                raise OSError(f"no data item {number} through the index")
            yield {"kind": "sought", "number": number, **self.data()}

    def format(self) -> dict[str, Any]:
        handle = self.calls.FFSread_format(self.file)
        original = self.calls.FMFormat_of_original(handle)
        format_id, body = identity(self.calls, original)
        target, structs = convert(self.calls, self.calls.FFSContext_of_file(self.file), handle)
        self.structs[target] = structs
        name = described(self.calls, original)[0].name
        return {"kind": "format", "name": name, "id": format_id.hex(), "body": body.hex()}

    def data(self) -> dict[str, Any]:
        handle = self.calls.FFSnext_type_handle(self.file)
        structs = self.structs[handle]
        record = (ctypes.c_uint64 * (structs[0].size // 8 + 1))()
        attributes = c_void_p()
        if not self.calls.FFSread_attr(self.file, record, byref(attributes)):
            raise OSError("the library could not read the record")
        item = {"format": structs[0].name, "value": read_record(structs, ctypes.addressof(record))}
        return {**item, "attrs": self.attributes(attributes)} if attributes else item

    def attributes(self, listed: c_void_p) -> list[dict[str, Any]]:
        found = []
        for index in range(self.calls.attr_count(listed)):
            atom, type_, value = c_int(), c_int(), ctypes.c_uint64()
            self.calls.get_attr(listed, index, byref(atom), byref(type_), ctypes.cast(byref(value), ctypes.c_void_p))
            name = ATTRIBUTE_TYPES[type_.value]
            match name:
                case "int4":
                    plain: Any = ctypes.c_int32(value.value).value
                case "string":
                    plain = ctypes.string_at(value.value).decode()
                case "float8":
                    plain = ctypes.c_double.from_buffer(value).value
            found.append({"atom": atom.value, "type": name, "value": plain})
        return found


def main(path: str, code_generation: str, *numbers: str) -> None:
    sys.setrecursionlimit(200_000)  # a list of many nodes is read by as many calls
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what the library prints is not an item
        file = File(path, code_generation == "1")
        for item in chain(file.items(), file.sought([int(number) for number in numbers]), [{"kind": "end"}]):
            print(json.dumps(item), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
