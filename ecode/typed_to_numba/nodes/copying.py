"""Deep copies into the program's storage: record assignment, and inputs that pointers point into."""

from __future__ import annotations

from ecode.errors import NotCompilable, TrapKind
from ecode.semantics.arithmetic import plain
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import ValueType
from ecode.typed_to_numba.bindings import Reader, Site
from ecode.typed_to_numba.code import Code
from ecode.typed_to_numba.stored import InMemory, Scattered, StoredSite, extent_of
from ecode.types import STRING, Array, Basic, Pointer, Ref

_DEEPEST = 20


def copy_value(
    code: Code, reader: Reader, source: Site, type_: ValueType, to: StoredSite, at: int, *, is_input: bool = False
) -> None:
    """Writes the lines that copy a value deeply.

    Args:
        is_input: the source is a parameter that moves into storage as the event begins: its memory is not charged, and
            its strings (with a NUL) and the targets of its pointers are copied too.
    """
    _Copy(code, reader, at, is_input).value(source, type_, to, 0)


class _Copy:
    def __init__(self, code: Code, reader: Reader, at: int, is_input: bool) -> None:
        self.code, self.reader, self.at, self.is_input = code, reader, at, is_input

    def value(self, source: Site, type_: ValueType, to: StoredSite, depth: int) -> None:
        code, emitter, stored = self.code, self.code.emitter, self.code.stored
        if depth > _DEEPEST:
            raise NotCompilable("the record type is recursive")
        match type_:
            case Ref():
                self._record(source, type_, to, depth)
            case Array():
                count = 1
                for dim in type_.dims:
                    count *= int(dim)
                self._elements(source, type_, to, str(count), depth)
            case Pointer():
                self._pointer(source, type_, to, depth)
            case Basic() if type_ == STRING:
                parts = self.reader.string(emitter, source)
                stored.store(emitter, to, self._text(parts) if self.is_input else parts)
            case Basic() if plain(type_) is None:
                pass
            case Basic():
                stored.store(emitter, to, (self.reader.number(emitter, source, type_),))
            case _:
                assert code.is_stored(self.reader)
                assert isinstance(source, Scattered)
                stored.store(emitter, to, source.names)

    def _text(self, parts: tuple[str, str]) -> tuple[str, str]:
        emitter = self.code.emitter
        address, length = emitter.temp(parts[0]), emitter.temp(parts[1])
        copied = self._allocate(f"{length} + 1", 1)
        emitter.line(f"copy({copied}, {address}, {length})", f"store_int8({copied} + {length}, 0)")
        return f"({copied} if {address} != 0 else 0)", length

    def _allocate(self, count: str, size: int) -> str:
        """The address of memory for `count` elements of a size, charged to outputs or to the copied input."""
        emitter, stored = self.code.emitter, self.code.stored
        if self.is_input and self.code.charges_input:
            needed = emitter.temp(f"{size} * ({count})")
            emitter.trap(f"{needed} > input_left", TrapKind.SIZE_LIMIT, self.at)
            emitter.line(f"input_left -= {needed}")
        return stored.allocate(emitter, count, size, self.at, is_limited=not self.is_input)

    def _record(self, source: Site, type_: Ref, to: StoredSite, depth: int) -> None:
        code, emitter, stored = self.code, self.code.emitter, self.code.stored
        struct = code.program.structs[type_.name]
        for field in struct.fields:
            inner, target = self.reader.field(emitter, source, field), stored.field(emitter, to, field)
            if not (isinstance(field.type, Array) and field.type.is_dynamic):
                self.value(inner, field.type, target, depth + 1)
                continue
            extents = []
            for dim in field.type.dims:
                size = None if isinstance(dim, int) else struct.find(dim)
                if size is None:
                    extents.append(str(dim))
                else:
                    assert isinstance(size.type, Basic)
                    site = self.reader.field(emitter, source, size)
                    extents.append(extent_of(size.type, self.reader.number(emitter, site, size.type)))
            count = stored.total(emitter, extents, self.at, is_limited=not self.is_input)
            if not self.is_input:
                code.spend(f"{code.work.value(field.type.element)} * {count}", self.at)
            self._room(field.type, target, count)
            self._elements(inner, field.type, target, count, depth)

    def _room(self, type_: Array, to: StoredSite, count: str) -> None:
        """New memory for the elements of a dynamic array."""
        emitter = self.code.emitter
        size = MEMORY_LAYOUT.size(type_.element, self.code.program.structs)
        address = self._allocate(count, size)
        emitter.line(f"zero({address}, {size} * {count})")
        if isinstance(to, Scattered):
            emitter.line(f"{to.names[0]} = {address}", f"{to.names[1]} = {count}")
        else:
            emitter.line(f"store_int64({to.address}, {address})", f"store_int64({to.address} + 8, {count})")

    def _elements(self, source: Site, type_: Array, to: StoredSite, count: str, depth: int) -> None:
        code, emitter, stored = self.code, self.code.emitter, self.code.stored
        low = emitter.temp(stored.address(to))
        is_flat = isinstance(type_.element, Basic) and (type_.element != STRING or code.is_stored(self.reader))
        block = self.reader.elements(emitter, source) if is_flat else None
        if block is not None:
            size = MEMORY_LAYOUT.size(type_.element, code.program.structs)
            emitter.line(f"copy_present({low}, {block}, {size} * {count})")
            return
        index = emitter.name("each")
        with emitter.block(f"for {index} in range({count}):"):
            inner = self.reader.element(emitter, source, type_, index)
            size = MEMORY_LAYOUT.size(type_.element, code.program.structs)
            self.value(
                inner, type_.element, InMemory(type_.element, emitter.temp(f"{low} + {size} * {index}")), depth + 1
            )

    def _pointer(self, source: Site, type_: Pointer, to: StoredSite, depth: int) -> None:
        code, emitter, stored = self.code, self.code.emitter, self.code.stored
        if code.is_stored(self.reader):
            stored.store(emitter, to, stored.pointer(source))
            return
        stored.clear(emitter, to)
        with emitter.block(f"if {self.reader.present(emitter, source)}:"):
            size = MEMORY_LAYOUT.size(type_.target, code.program.structs)
            address = self._allocate("1", size)
            emitter.line(f"zero({address}, {size})")
            stored.store(emitter, to, (address, address, f"{address} + {size}"))
            inner = self.reader.target(emitter, source)
            self.value(inner, type_.target, InMemory(type_.target, address), depth + 1)
