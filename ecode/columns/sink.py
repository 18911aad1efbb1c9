"""Output columns as text: where a finished record goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ecode.columns.column import ITEMS, TARGET, static_count
from ecode.errors import NotCompilable, TrapKind
from ecode.semantics.arithmetic import plain
from ecode.typed import ValueType
from ecode.typed_to_numba.bindings import Reader, Site, Written
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.event import MOST_COPIES
from ecode.typed_to_numba.stored import extent_of, load_name, total
from ecode.types import STRING, Array, Basic, Pointer, Ref, Struct

_MOST_PLACES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer that the host makes for an output.

    Attributes:
        path: the column it belongs to; `part` is the attribute of `Column`.
        level: the capacity entry that says how many places there are; "" for one place a row.
        per_place: values in each place; offsets have one more in all.
        dtype: the numpy type.
        opens: of offsets, the capacity entry of what they are offsets into.
    """

    path: tuple[str, ...]
    part: str
    level: str
    per_place: int
    dtype: str
    opens: str = ""


class ColumnSink:
    """Writes an output parameter into columns.

    Where the source knows the size of its record, an event may fill so many bytes and a multiple of that size: nulls
    may stand for any number of zeros, and pointers may share a target without end.

    Attributes:
        output_bytes: the limit.
        buffers: what each table entry stands for.
        capacities: the entries that hold how many places there are in a growing column.
    """

    def __init__(self, param: str, output_bytes: int) -> None:
        self.param, self.output_bytes = param, output_bytes
        self.buffers: dict[str, Buffer] = {}
        self.capacities: list[str] = []
        self._names: dict[tuple[tuple[str, ...], str], str] = {}

    def write(self, emitter: Emitter, source: Reader, site: Site, written: Written) -> None:
        size = getattr(source, "size", None)
        if size is not None:
            emitter.line(f"columns_left = {self.output_bytes} + {MOST_COPIES} * ({size(emitter)})")
        writing = _Writing(self, emitter, source, written, is_charged=size is not None)
        writing.value((), written.type, site, "row", "", 1)

    def name(self, emitter: Emitter, path: tuple[str, ...], part: str) -> str:
        if (path, part) not in self._names:
            words = [self.param, *(p for p in path if p not in (ITEMS, TARGET)), part]
            self._names[path, part] = emitter.name("_".join(words))
        return emitter.entry(self._names[path, part])


class _Writing:
    """One visit of a record. `index` is where a value goes in its column, `level` and `per` as in `Buffer`."""

    def __init__(
        self, sink: ColumnSink, emitter: Emitter, reader: Reader, written: Written, *, is_charged: bool
    ) -> None:
        self.sink, self.emitter, self.reader, self.written = sink, emitter, reader, written
        self.is_charged = is_charged

    def charge(self, count: str, size: int) -> None:
        """Charges the event for so many things in a column, fewer than 2^31, of `size` bytes each."""
        if self.is_charged:
            needed = self.emitter.temp(f"{size} * {count}")
            self.emitter.trap(f"{needed} > columns_left", TrapKind.SIZE_LIMIT, 0)
            self.emitter.line(f"columns_left -= {needed}")

    def buffer(self, path: tuple[str, ...], part: str, level: str, per: int, dtype: str, opens: str = "") -> str:
        name = self.sink.name(self.emitter, path, part)
        self.sink.buffers[name] = Buffer(path, part, level, per, dtype, opens)
        return name

    def capacity(self, path: tuple[str, ...]) -> str:
        name = self.sink.name(self.emitter, path, "capacity")
        if name not in self.sink.capacities:
            self.sink.capacities.append(name)
        return name

    def is_written(self, path: tuple[str, ...]) -> bool:
        names = tuple(name for name in path if name not in (ITEMS, TARGET))
        return any(names[: len(w)] == w[: len(names)] for w in self.written.fields)

    def width(self, path: tuple[str, ...], type_: ValueType) -> int:
        """The bytes that a value takes in columns, without what varies in length."""
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

    def value(self, path: tuple[str, ...], type_: ValueType, site: Site, index: str, level: str, per: int) -> None:
        emitter = self.emitter
        match type_:
            case Basic() if type_ == STRING:
                self.text(path, self.reader.string(emitter, site), index, level, per)
            case Basic():
                number = plain(type_)
                if number is not None:
                    data = self.buffer(path, "data", level, per, str(number))
                    value = self.reader.number(emitter, site, type_)
                    emitter.line(f"store_{load_name(type_)}({data} + {number.size} * ({index}), {value})")
            case Ref():
                self.record(path, self.written.structs[type_.name], site, index, level, per)
            case Array():
                count = static_count(type_)
                start = emitter.temp(f"{count} * ({index})")
                self.items(path, type_, site, start, str(count), level, per * count)
            case Pointer():
                self.pointer(path, type_, site, index, level, per)

    def record(self, path: tuple[str, ...], struct: Struct, site: Site, index: str, level: str, per: int) -> None:
        for field in struct.fields:
            inner = (*path, field.name)
            if not self.is_written(inner):
                continue
            found = self.reader.field(self.emitter, site, field)
            if isinstance(field.type, Array) and field.type.is_dynamic:
                self.dynamic(inner, field.type, struct, site, found, index, level, per)
            else:
                self.value(inner, field.type, found, index, level, per)

    def dynamic(
        self,
        path: tuple[str, ...],
        type_: Array,
        struct: Struct,
        record: Site,
        site: Site,
        index: str,
        level: str,
        per: int,
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
        # The counts of a null array in a record may be any numbers.
        count = total(emitter, extents, _MOST_PLACES, 0)
        self.charge(count, self.width((*path, ITEMS), type_.element))
        start, capacity = self.begin(path, index, count, level, per)
        self.items(path, type_, site, start, count, capacity, 1)

    def begin(self, path: tuple[str, ...], index: str, count: str, level: str, per: int) -> tuple[str, str]:
        """Makes room for so many elements or bytes; where they start, and the name of their capacity."""
        emitter = self.emitter
        capacity = self.capacity(path)
        offsets = self.buffer(path, "offsets", level, per, "int32", capacity)
        at = emitter.temp(f"{offsets} + 4 * ({index})")
        start = emitter.temp(f"load_int32({at})")
        emitter.out_of(capacity, f"{start} + {count} > {capacity}", f"{start} + {count}")
        emitter.line(f"store_int32({at} + 4, {start} + {count})")
        return start, capacity

    def items(
        self, path: tuple[str, ...], type_: Array, site: Site, start: str, count: str, level: str, per: int
    ) -> None:
        emitter, element = self.emitter, type_.element
        inner = (*path, ITEMS)
        number = plain(element) if isinstance(element, Basic) else None
        block = self.reader.elements(emitter, site) if number is not None else None
        if number is not None and block is not None:
            data = self.buffer(inner, "data", level, per, str(number))
            emitter.line(f"copy_present({data} + {number.size} * {start}, {block}, {number.size} * {count})")
            return
        self.each(
            count,
            lambda i: self.value(
                inner, element, self.reader.element(emitter, site, type_, i), f"{start} + {i}", level, per
            ),
        )

    def each(self, count: str, body: Callable[[str], None]) -> None:
        index = self.emitter.name("each")
        with self.emitter.block(f"for {index} in range({count}):"):
            body(index)

    def text(self, path: tuple[str, ...], parts: tuple[str, str], index: str, level: str, per: int) -> None:
        emitter = self.emitter
        address, length = (emitter.temp(part) for part in parts)
        self.charge(length, 1)
        present = self.buffer(path, "present", level, per, "uint8")
        start, capacity = self.begin(path, index, length, level, per)
        data = self.buffer(path, "data", capacity, 1, "uint8")
        emitter.line(f"copy({data} + {start}, {address}, {length})")
        emitter.line(f"store_uint8({present} + {index}, 1 if {address} != 0 else 0)")

    def pointer(self, path: tuple[str, ...], type_: Pointer, site: Site, index: str, level: str, per: int) -> None:
        emitter = self.emitter
        if isinstance(type_.target, Array) and type_.target.is_dynamic:
            # Its extents are fields beside the pointer, which are out of sight here.
            raise NotCompilable(f"{'.'.join(path)}: a pointer to an array of varying length has no column")
        present = self.buffer(path, "present", level, per, "uint8")
        is_there = emitter.temp(f"1 if {self.reader.present(emitter, site)} else 0")
        emitter.line(f"store_uint8({present} + {index}, {is_there})")
        with emitter.block(f"if {is_there} != 0:"):
            self.value((*path, TARGET), type_.target, self.reader.target(emitter, site), index, level, per)
        with emitter.block("else:"):
            self.nothing((*path, TARGET), type_.target, index, level, per)

    def nothing(self, path: tuple[str, ...], type_: ValueType, index: str, level: str, per: int) -> None:
        """Keeps the offsets below an absent value in step."""
        match type_:
            case Basic() if type_ == STRING:
                self.begin(path, index, "0", level, per)
            case Ref():
                for field in self.written.structs[type_.name].fields:
                    if self.is_written((*path, field.name)):
                        self.nothing((*path, field.name), field.type, index, level, per)
            case Array() if type_.is_dynamic:
                self.begin(path, index, "0", level, per)
            case Array() if not isinstance(type_.element, Basic) or type_.element == STRING:
                count = static_count(type_)
                self.each(
                    str(count),
                    lambda i: self.nothing(
                        (*path, ITEMS), type_.element, f"{count} * ({index}) + {i}", level, per * count
                    ),
                )
            case Pointer():
                present = self.buffer(path, "present", level, per, "uint8")
                self.emitter.line(f"store_uint8({present} + {index}, 0)")
                self.nothing((*path, TARGET), type_.target, index, level, per)
