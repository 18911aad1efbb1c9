"""Output columns as text: where a finished record goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ecode.columns.column import ITEMS, TARGET, static_count
from ecode.columns.layout import OutputBuffer
from ecode.errors import NotCompilable, TrapKind
from ecode.semantics.arithmetic import plain
from ecode.typed import ValueType
from ecode.typed_to_numba.bindings import Reader, Site, WrittenFields
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.event import MOST_COPIES
from ecode.typed_to_numba.stored import Home, extent_of, load_name, total
from ecode.types import STRING, Array, Basic, Pointer, Ref, Struct

_MOST_PLACES = 2**31 - 1


class ColumnSink:
    """Writes an output parameter into columns.

    If the source knows the size of its record, an event may fill `output_bytes` plus a multiple of that size: a null
    may stand for any number of zeros, and any number of pointers may share a target.

    Attributes:
        output_bytes: the limit.
        buffers: the buffer behind each table entry.
        capacities: the entries that hold the number of places in a growing column.
    """

    def __init__(self, param: str, output_bytes: int) -> None:
        self.param, self.output_bytes = param, output_bytes
        self.buffers: dict[str, OutputBuffer] = {}
        self.capacities: list[str] = []
        self._names: dict[tuple[tuple[str, ...], str], str] = {}

    def write(self, emitter: Emitter, source: Reader, site: Site, written: WrittenFields) -> None:
        size = getattr(source, "size", None)
        if size is not None:
            emitter.line(f"columns_left = {self.output_bytes} + {MOST_COPIES} * ({size(emitter)})")
        writing = _Writing(self, emitter, source, written, is_charged=size is not None)
        writing.value((), written.type, site, _Spot("row"))

    def home(self, field: str, array: Array) -> Callable[[Emitter], Home] | None:
        number = plain(array.element) if isinstance(array.element, Basic) else None
        if number is None or not array.is_dynamic:
            return None

        def find(emitter: Emitter) -> Home:
            capacity = self.capacity(emitter, (field,))
            offsets = self.buffer(emitter, (field,), "offsets", _Spot("row"), "int32", capacity)
            data = self.buffer(emitter, (field, ITEMS), "data", _Spot("", capacity), str(number))
            return Home(data, emitter.temp(f"load_int32({offsets} + 4 * row)"), capacity)

        return find

    def buffer(
        self, emitter: Emitter, path: tuple[str, ...], part: str, spot: _Spot, dtype: str, opens: str = ""
    ) -> str:
        """The table entry of a buffer."""
        name = self.name(emitter, path, part)
        self.buffers[name] = OutputBuffer(path, part, spot.level, spot.per, np.dtype(dtype), opens)
        return name

    def capacity(self, emitter: Emitter, path: tuple[str, ...]) -> str:
        """The table entry that holds the number of places in a growing column."""
        name = self.name(emitter, path, "capacity")
        if name not in self.capacities:
            self.capacities.append(name)
        return name

    def name(self, emitter: Emitter, path: tuple[str, ...], part: str) -> str:
        if (path, part) not in self._names:
            words = [self.param, *(p for p in path if p not in (ITEMS, TARGET)), part]
            self._names[path, part] = emitter.name("_".join(words))
        return emitter.entry(self._names[path, part])


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a value goes in its column: at `index`; `level` and `per` as in `OutputBuffer`."""

    index: str
    level: str = ""
    per: int = 1

    def item(self, count: int, i: str) -> _Spot:
        """Where element `i` of the static array at this spot goes."""
        return _Spot(f"{count} * ({self.index}) + {i}", self.level, self.per * count)


class _Writing:
    """One visit of a record."""

    def __init__(
        self, sink: ColumnSink, emitter: Emitter, reader: Reader, written: WrittenFields, *, is_charged: bool
    ) -> None:
        self.sink, self.emitter, self.reader, self.written = sink, emitter, reader, written
        self.is_charged = is_charged

    def charge(self, count: str, size: int) -> None:
        """Charges the event for `count` items in a column, fewer than 2^31, of `size` bytes each."""
        if self.is_charged:
            needed = self.emitter.temp(f"{size} * {count}")
            self.emitter.trap(f"{needed} > columns_left", TrapKind.SIZE_LIMIT, 0)
            self.emitter.line(f"columns_left -= {needed}")

    def buffer(self, path: tuple[str, ...], part: str, spot: _Spot, dtype: str, opens: str = "") -> str:
        return self.sink.buffer(self.emitter, path, part, spot, dtype, opens)

    def capacity(self, path: tuple[str, ...]) -> str:
        return self.sink.capacity(self.emitter, path)

    def is_written(self, path: tuple[str, ...]) -> bool:
        return self.written.has(tuple(name for name in path if name not in (ITEMS, TARGET)))

    def width(self, path: tuple[str, ...], type_: ValueType) -> int:
        """The bytes of fixed length that a value takes in columns."""
        match type_:
            case Basic():
                return 5 if type_ == STRING else type_.size
            case Ref():
                inner = (((*path, f.name), f.type) for f in self.written.structs[type_.name].fields)
                return sum(self.width(path, type_) for path, type_ in inner if self.is_written(path))
            case Pointer():
                return 1 + self.width((*path, TARGET), type_.target)
            case Array():
                return 4 if type_.is_dynamic else static_count(type_) * self.width((*path, ITEMS), type_.element)
        return 0

    def value(self, path: tuple[str, ...], type_: ValueType, site: Site, spot: _Spot) -> None:
        emitter = self.emitter
        match type_:
            case Basic() if type_ == STRING:
                self.text(path, self.reader.string(emitter, site), spot)
            case Basic():
                number = plain(type_)
                if number is not None:
                    data = self.buffer(path, "data", spot, str(number))
                    value = self.reader.number(emitter, site, type_)
                    emitter.line(f"store_{load_name(type_)}({data} + {number.size} * ({spot.index}), {value})")
            case Ref():
                self.record(path, self.written.structs[type_.name], site, spot)
            case Array():
                count = static_count(type_)
                start = emitter.temp(f"{count} * ({spot.index})")
                self.items(path, type_, site, str(count), _Spot(start, spot.level, spot.per * count))
            case Pointer():
                self.pointer(path, type_, site, spot)

    def record(self, path: tuple[str, ...], struct: Struct, site: Site, spot: _Spot) -> None:
        for field in struct.fields:
            inner = (*path, field.name)
            if not self.is_written(inner):
                continue
            found = self.reader.field(self.emitter, site, field)
            if isinstance(field.type, Array) and field.type.is_dynamic:
                self.dynamic(inner, field.type, struct, site, found, spot)
            else:
                self.value(inner, field.type, found, spot)

    def dynamic(
        self,
        path: tuple[str, ...],
        type_: Array,
        struct: Struct,
        record: Site,
        site: Site,
        spot: _Spot,
    ) -> None:
        emitter = self.emitter
        extents = []
        for dim in type_.dims:
            size = None if isinstance(dim, int) else struct.find(dim)
            if size is None:
                extents.append(str(dim))
            else:
                assert isinstance(size.type, Basic)
                number = self.reader.number(emitter, self.reader.field(emitter, record, size), size.type)
                extents.append(extent_of(size.type, number))
        # The size fields of a null array may hold any numbers.
        count = total(emitter, extents, _MOST_PLACES, 0)
        self.charge(count, self.width((*path, ITEMS), type_.element))
        start, capacity = self.begin(path, count, spot)
        self.items(path, type_, site, count, _Spot(start, capacity))

    def begin(self, path: tuple[str, ...], count: str, spot: _Spot) -> tuple[str, str]:
        """Makes room for `count` elements or bytes; returns where they start, and the name of their capacity."""
        emitter = self.emitter
        capacity = self.capacity(path)
        offsets = self.buffer(path, "offsets", spot, "int32", capacity)
        at = emitter.temp(f"{offsets} + 4 * ({spot.index})")
        start = emitter.temp(f"load_int32({at})")
        emitter.out_of(capacity, f"{start} + {count} > {capacity}", f"{start} + {count}")
        emitter.line(f"store_int32({at} + 4, {start} + {count})")
        return start, capacity

    def items(self, path: tuple[str, ...], type_: Array, site: Site, count: str, start: _Spot) -> None:
        emitter, element = self.emitter, type_.element
        inner = (*path, ITEMS)
        number = plain(element) if isinstance(element, Basic) else None
        block = self.reader.elements(emitter, site) if number is not None else None
        if number is not None and block is not None:
            data = self.buffer(inner, "data", start, str(number))
            place = emitter.temp(f"{data} + {number.size} * {start.index}")
            with emitter.block(f"if {block} != {place}:"):  # else they are already in place
                emitter.line(f"copy_present({place}, {block}, {number.size} * {count})")
            return
        self.each(
            count,
            lambda i: self.value(
                inner,
                element,
                self.reader.element(emitter, site, type_, i),
                replace(start, index=f"{start.index} + {i}"),
            ),
        )

    def each(self, count: str, body: Callable[[str], None]) -> None:
        index = self.emitter.name("each")
        with self.emitter.block(f"for {index} in range({count}):"):
            body(index)

    def text(self, path: tuple[str, ...], parts: tuple[str, str], spot: _Spot) -> None:
        emitter = self.emitter
        address, length = (emitter.temp(part) for part in parts)
        self.charge(length, 1)
        present = self.buffer(path, "present", spot, "uint8")
        start, capacity = self.begin(path, length, spot)
        data = self.buffer(path, "data", _Spot(start, capacity), "uint8")
        emitter.line(f"copy({data} + {start}, {address}, {length})")
        emitter.line(f"store_uint8({present} + {spot.index}, 1 if {address} != 0 else 0)")

    def pointer(self, path: tuple[str, ...], type_: Pointer, site: Site, spot: _Spot) -> None:
        emitter = self.emitter
        if isinstance(type_.target, Array) and type_.target.is_dynamic:
            # Its extents are fields beside the pointer, which this column cannot see.
            raise NotCompilable(f"{'.'.join(path)}: a pointer to an array of varying length has no column")
        present = self.buffer(path, "present", spot, "uint8")
        is_there = emitter.temp(f"1 if {self.reader.present(emitter, site)} else 0")
        emitter.line(f"store_uint8({present} + {spot.index}, {is_there})")
        with emitter.block(f"if {is_there} != 0:"):
            self.value((*path, TARGET), type_.target, self.reader.target(emitter, site), spot)
        with emitter.block("else:"):
            self.nothing((*path, TARGET), type_.target, spot)

    def nothing(self, path: tuple[str, ...], type_: ValueType, spot: _Spot) -> None:
        """Keeps the offsets below an absent value in step."""
        match type_:
            case Basic() if type_ == STRING:
                self.begin(path, "0", spot)
            case Ref():
                for field in self.written.structs[type_.name].fields:
                    if self.is_written((*path, field.name)):
                        self.nothing((*path, field.name), field.type, spot)
            case Array() if type_.is_dynamic:
                self.begin(path, "0", spot)
            case Array() if not isinstance(type_.element, Basic) or type_.element == STRING:
                count = static_count(type_)
                self.each(
                    str(count),
                    lambda i: self.nothing((*path, ITEMS), type_.element, spot.item(count, i)),
                )
            case Pointer():
                present = self.buffer(path, "present", spot, "uint8")
                self.emitter.line(f"store_uint8({present} + {spot.index}, 0)")
                self.nothing((*path, TARGET), type_.target, spot)
