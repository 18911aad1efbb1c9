"""Values in the memory of this machine, laid out as by a C compiler, for the FFS library to read and fill.

    parse_type    a field's type string -> the type it names; written apart from the parser under test
    natural       structures of any machine -> the same fields laid out for this one
    read_record   an address -> a value
    Arena         a value -> an address

Values follow the conventions of the corpus (numbers, lists, dictionaries; `None` for null; `"NaN"` and `"Infinity"`;
`{"$nodes": [...]}` for recursive structures), so they can be compared with its expected values as they are.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ecode.types import Array, Basic, Kind, Pointer, Ref, Type

POINTER_SIZE = 8
BASES = {
    "integer": Kind.INTEGER,
    "unsigned": Kind.UNSIGNED,
    "unsigned integer": Kind.UNSIGNED,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "char": Kind.CHAR,
    "boolean": Kind.BOOLEAN,
    "enumeration": Kind.ENUMERATION,
    "string": Kind.STRING,
}
SIGNED = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}
UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
FLOATS = {4: ctypes.c_float, 8: ctypes.c_double}


@dataclass(frozen=True, slots=True)
class NativeField:
    """A field as the library takes it: `size` is that of one element, `offset` its place in the structure."""

    name: str
    type: str
    size: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class NativeStruct:
    """A structure as the library takes it; `opt_info` holds (type, block) pairs."""

    name: str
    fields: tuple[NativeField, ...]
    size: int = 0
    opt_info: tuple[tuple[int, bytes], ...] = ()


def struct(name: str, *fields: tuple[str, str, int]) -> NativeStruct:
    """A structure from (name, type, size) triples, to be laid out by `natural`."""
    return NativeStruct(name, tuple(NativeField(*f) for f in fields))


def parse_type(text: str, size: int) -> Type:
    """The type that a type string names (ffs-wire-format 6.2), `size` being that of its element."""
    text = text.lstrip()
    if text.startswith("*"):
        return Pointer(parse_type(text[1:], size))
    if text.startswith("("):
        core, _, dims = text[1:].rpartition(")")
        element = parse_type(core, size)
    else:
        core, bracket, dims = text.partition("[")
        dims = bracket + dims
        kind = BASES.get(core.replace("\t", " ").strip().lower())
        element = Ref(core) if kind is None else Basic(kind, 0 if kind is Kind.STRING else size)
    extents = tuple(int(dim) if dim.strip().isdigit() else dim for dim in re.findall(r"\[([^]]*)]", dims))
    return Array(element, extents) if extents else element


def natural(structs: Sequence[NativeStruct]) -> tuple[NativeStruct, ...]:
    """The same structures with the sizes and offsets that a C compiler gives their fields on a 64-bit machine."""
    by_name = {s.name: s for s in structs}

    def extent(type_: Type) -> tuple[int, int]:
        match type_:
            case Ref(name):
                *_, (size, alignment) = places(by_name[name])
                return size, alignment
            case Array(element, dims) if not type_.is_dynamic:
                size, alignment = extent(element)
                return size * _count(dims), alignment
            case Basic(kind, size) if kind is not Kind.STRING:
                return size, size
        return POINTER_SIZE, POINTER_SIZE

    def places(of: NativeStruct) -> Iterator[tuple[int, int]]:
        """The offset and alignment of each field, then the size and alignment of the whole."""
        end, widest = 0, 1
        for f in of.fields:
            size, alignment = extent(parse_type(f.type, f.size))
            offset = _align(end, alignment)
            yield offset, alignment
            end, widest = offset + size, max(widest, alignment)
        yield _align(end, widest), widest

    def element_size(f: NativeField) -> int:
        match _innermost(parse_type(f.type, f.size)):
            case Ref(name):
                return extent(Ref(name))[0]
            case Basic(Kind.STRING, _):
                return POINTER_SIZE
        return f.size

    laid_out = []
    for s in structs:
        *offsets, (size, _) = places(s)
        fields = [replace(f, size=element_size(f), offset=at) for f, (at, _) in zip(s.fields, offsets, strict=True)]
        laid_out.append(replace(s, fields=tuple(fields), size=size))
    return tuple(laid_out)


def _count(dims: Sequence[int | str]) -> int:
    """The number of elements of a static array."""
    return math.prod(int(dim) for dim in dims)


def _align(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _innermost(type_: Type) -> Basic | Ref:
    while isinstance(type_, Array | Pointer):
        type_ = type_.element if isinstance(type_, Array) else type_.target
    return type_


def _recursive(structs: dict[str, NativeStruct]) -> set[str]:
    """The structures that refer to themselves or to one that does (ffs-wire-format 7.5)."""
    refers = {
        s.name: {t.name for f in s.fields if isinstance(t := _innermost(parse_type(f.type, f.size)), Ref)}
        for s in structs.values()
    }
    found = {name for name, others in refers.items() if name in others}
    while more := {name for name, others in refers.items() if others & found} - found:
        found |= more
    return found


def _number(type_: Basic) -> Any:
    match type_.kind:
        case Kind.FLOAT:
            return FLOATS[type_.size]
        case Kind.INTEGER:
            return SIGNED[type_.size]
    return UNSIGNED[type_.size]


class _Memory:
    """What reading and writing share: the sizes of types and the extents of arrays."""

    def __init__(self, structs: Sequence[NativeStruct]) -> None:
        self.top = structs[0].name
        self.structs = {s.name: s for s in structs}
        self.recursive = _recursive(self.structs)

    def size(self, type_: Type) -> int:
        match type_:
            case Ref(name):
                return self.structs[name].size
            case Basic(kind, size) if kind is not Kind.STRING:
                return size
            case Array(element, dims) if not type_.is_dynamic:
                return self.size(element) * _count(dims)
        return POINTER_SIZE

    def fields(self, name: str) -> Iterator[tuple[NativeField, Type]]:
        return ((f, parse_type(f.type, f.size)) for f in self.structs[name].fields)


class _Reader(_Memory):
    """Reads one record. A field's value may need the fields beside it (`at`, the address of its structure)."""

    def __init__(self, structs: Sequence[NativeStruct]) -> None:
        super().__init__(structs)
        self.nodes: list[Any] = []
        self.numbers: dict[int, int] = {}

    def record(self, address: int) -> Any:
        if self.top not in self.recursive:
            return self.struct(self.top, address)
        self.node(self.top, address)
        return {"$nodes": self.nodes}

    def node(self, name: str, address: int) -> dict[str, int]:
        if address not in self.numbers:
            self.numbers[address] = number = len(self.nodes)
            self.nodes.append(None)
            self.nodes[number] = self.struct(name, address)
        return {"$node": self.numbers[address]}

    def struct(self, name: str, at: int) -> dict[str, Any]:
        return {f.name: self.value(type_, at + f.offset, name, at) for f, type_ in self.fields(name)}

    def value(self, type_: Type, address: int, owner: str, at: int) -> Any:
        match type_:
            case Ref(name):
                return self.struct(name, address)
            case Basic(Kind.STRING, _):
                target = _pointer(address)
                return None if target is None else _text(ctypes.string_at(target))
            case Basic(kind, _):
                number = _number(type_).from_address(address).value
                return bool(number) if kind is Kind.BOOLEAN else _printable(number) if kind is Kind.FLOAT else number
            case Array(element, dims):
                start = _pointer(address) if type_.is_dynamic else address
                if start is None:
                    return None
                step = self.size(element)
                extents = [dim if isinstance(dim, int) else self.extent(dim, owner, at) for dim in dims]
                addresses = iter(range(start, start + step * math.prod(extents), step or 1))
                return _nested(extents, lambda: self.value(element, next(addresses), owner, at))
            case Pointer(target_type):
                target = _pointer(address)
                if target is None:
                    return None
                if isinstance(target_type, Ref) and owner in self.recursive:
                    return self.node(target_type.name, target)
                return self.value(target_type, target, owner, at)
        raise TypeError(type_)

    def extent(self, name: str, owner: str, at: int) -> int:
        control = next(f for f in self.structs[owner].fields if f.name == name)
        return int(UNSIGNED[control.size].from_address(at + control.offset).value)


def read_record(structs: Sequence[NativeStruct], address: int) -> Any:
    """The value of the record of type `structs[0]` at an address."""
    return _Reader(structs).record(address)


class Arena(_Memory):
    """Native memory that holds records; it must outlive every use of their addresses."""

    def __init__(self, structs: Sequence[NativeStruct], column_major: bool = False) -> None:
        super().__init__(structs)
        self.elements = _by_columns if column_major else _by_rows
        self.held: list[Any] = []
        self.nodes: list[Any] = []
        self.addresses: dict[int, int] = {}

    def record(self, value: Any) -> int:
        """The address of a new record of type `structs[0]` with that value."""
        self.nodes, self.addresses = value.get("$nodes", []), {}
        return self.node(self.top, 0) if self.nodes else self.place(Ref(self.top), value)

    def node(self, name: str, number: int) -> int:
        if number not in self.addresses:
            self.addresses[number] = address = self.allocate(self.structs[name].size)
            self.store(Ref(name), address, self.nodes[number])
        return self.addresses[number]

    def allocate(self, size: int) -> int:
        self.held.append(buffer := (ctypes.c_uint64 * (size // 8 + 1))())
        return ctypes.addressof(buffer)

    def place(self, type_: Type, value: Any) -> int:
        address = self.allocate(self.size(type_))
        self.store(type_, address, value)
        return address

    def store(self, type_: Type, address: int, value: Any) -> None:
        match type_:
            case Ref(name):
                for f, field_type in self.fields(name):
                    self.store(field_type, address + f.offset, value[f.name])
            case Basic(Kind.STRING, _):
                if value is not None:
                    self.held.append(text := ctypes.create_string_buffer(value.encode()))
                    ctypes.c_void_p.from_address(address).value = ctypes.addressof(text)
            case Basic(kind, _):
                _number(type_).from_address(address).value = float(value) if kind is Kind.FLOAT else value
            case Array(element, dims) if type_.is_dynamic:
                if value is not None:
                    elements = self.elements(value, len(dims))
                    start = self.allocate(self.size(element) * len(elements))
                    self.store(Array(element, (len(elements),)), start, elements)
                    ctypes.c_void_p.from_address(address).value = start
            case Array(element, dims):
                step = self.size(element)
                for index, item in enumerate(self.elements(value, len(dims))):
                    self.store(element, address + index * step, item)
            case Pointer(target):
                if value is not None:
                    if isinstance(target, Ref) and "$node" in value:
                        to = self.node(target.name, value["$node"])
                    else:
                        to = self.place(target, value)
                    ctypes.c_void_p.from_address(address).value = to


def _pointer(address: int) -> int | None:
    return ctypes.c_void_p.from_address(address).value


def _text(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"$bytes": raw.hex()}


def _printable(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _nested(extents: Sequence[int], element: Callable[[], Any]) -> Any:
    if not extents:
        return element()
    return [_nested(extents[1:], element) for _ in range(extents[0])]


def _by_rows(value: Any, rank: int) -> list[Any]:
    """The elements of a nested list, last index fastest."""
    return [value] if rank == 0 else [leaf for part in value for leaf in _by_rows(part, rank - 1)]


def _by_columns(value: Any, rank: int) -> list[Any]:
    """The elements of a nested list, first index fastest."""
    if rank <= 1:
        return _by_rows(value, rank)
    parts = [_by_columns(part, rank - 1) for part in value]
    return [leaf for same_place in zip(*parts, strict=True) for leaf in same_place]
