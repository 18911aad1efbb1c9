"""The program's own storage: Python variables of the event function where possible, else raw memory.

A record whose address the program never takes is *scattered*: each number in it is a variable, a string is two, and a
dynamic array is the address and capacity of its elements; only static arrays are in memory. Everything else is in
memory as a whole, laid out by `MEMORY_LAYOUT`. `Stored` reads and writes both, and is a `Reader`, so that outputs can
be read like inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ecode.errors import TrapKind
from ecode.semantics.arithmetic import plain
from ecode.semantics.layout import MEMORY_LAYOUT, align
from ecode.typed import Structs, ValueType
from ecode.typed_to_numba.emitter import Emitter
from ecode.types import FLOAT32, FLOAT64, STRING, Array, Basic, Field, Kind, Pointer, Ref

# No sum or product of smaller sizes wraps around, and no copied input of an event is larger.
_MOST_BYTES = 1 << 40
_MOST_INPUT_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Scattered:
    """A value kept in variables: `names` for a number (1), string (2), pointer (3) or dynamic array (2: address and
    capacity), `fields` for a record (its structure is `of`)."""

    type: ValueType
    names: tuple[str, ...] = ()
    fields: tuple[tuple[str, Scattered | InMemory], ...] = ()
    of: str = ""


@dataclass(frozen=True, slots=True)
class InMemory:
    """A value at an address."""

    type: ValueType
    address: str


StoredSite: TypeAlias = Scattered | InMemory


@dataclass(frozen=True, slots=True)
class Home:
    """The final place of an array's elements, if it has room for them: in their column.

    Attributes:
        data: the address of the column's values.
        start: the index of the array's first element there.
        places: the number of elements that the column has room for.
    """

    data: str
    start: str
    places: str


class MemoryBlock:
    """The fixed block of memory of an event ("frame"), allocated as the text is generated."""

    def __init__(self, name: str) -> None:
        self.name, self.size = name, 0

    def take(self, size: int) -> str:
        """The address of `size` bytes, aligned."""
        at = self.size
        self.size = align(at + size, 8)
        return plus(self.name, at)


def plus(address: str, offset: int | str) -> str:
    """`address + offset`; just the address if the offset is 0."""
    return address if offset in (0, "0") else f"{address} + {offset}"


def load_name(type_: Basic) -> str:
    """The suffix of the intrinsics for a number in memory."""
    number = plain(type_)
    assert number is not None
    # The bits of an unsigned 64-bit integer travel as int64.
    return "int64" if number.kind is Kind.UNSIGNED and number.size == 8 else str(number)


def loaded(type_: Basic, address: str) -> str:
    """The number at an address."""
    return f"load_{load_name(type_)}({address})"


def extent_of(type_: Basic, number: str) -> str:
    """The value of a size field as an extent: for an unsigned field, a negative int64 is a large extent."""
    is_unsigned = type_.kind is Kind.UNSIGNED and type_.size == 8
    return f"({number} if {number} >= 0 else {2**63 - 1})" if is_unsigned else number


def zero_of(type_: ValueType) -> str:
    """The text of a number's zero."""
    number = plain(type_) if isinstance(type_, Basic) else None
    return "as_float32(0.0)" if number == FLOAT32 else "0.0" if number == FLOAT64 else cast(number, "0")


def cast(number: Basic | None, text: str) -> str:
    """The text cast to the type of a number variable: narrow signed integers have narrow variables."""
    if number is not None and number.kind is Kind.INTEGER and number.size < 8:
        return text if text.startswith(f"as_{number}(") else f"as_{number}({text})"
    return text


class Stored:
    """Reads and writes the program's own storage.

    Attributes:
        homes: for each array of an output, by the variable of its address: a function that finds its final place.
        filled: the arrays of an output, by the same key, that a loop fills after sizing them: they are not zeroed.
        deferred: those whose elements are not kept: a function that writes the value of an element.
    """

    def __init__(self, structs: Structs, frame: MemoryBlock, output_bytes: int) -> None:
        self.structs, self.frame, self.output_bytes = structs, frame, output_bytes
        self.homes: dict[str, Callable[[Emitter], Home]] = {}
        self.filled: set[str] = set()
        self.deferred: dict[str, Callable[[Emitter, str], str]] = {}

    # Making room

    def scattered(self, emitter: Emitter, type_: ValueType, name: str) -> StoredSite:
        """Storage for a value in variables, and in the frame where it must be."""
        match type_:
            case Ref():
                fields = tuple(
                    (field.name, self.scattered(emitter, field.type, f"{name}_{field.name}"))
                    for field in self.structs[type_.name].fields
                )
                return Scattered(type_, (), fields, type_.name)
            case Array() if not type_.is_dynamic:
                return self.in_frame(type_)
            case Array():
                return Scattered(type_, (emitter.name(f"{name}_address"), emitter.name(f"{name}_capacity")))
            case Pointer():
                return Scattered(type_, tuple(emitter.name(name + part) for part in ("", "_low", "_high")))
            case Basic(Kind.STRING):
                return Scattered(type_, (emitter.name(name), emitter.name(f"{name}_length")))
        return Scattered(type_, (emitter.name(name),))

    def in_frame(self, type_: ValueType) -> InMemory:
        return InMemory(type_, self.frame.take(MEMORY_LAYOUT.size(type_, self.structs)))

    def clear(self, emitter: Emitter, site: StoredSite) -> None:
        """Makes a value zero."""
        match site:
            case InMemory(type_, address) if isinstance(type_, Basic) and plain(type_) is not None:
                emitter.line(f"store_{load_name(type_)}({address}, {zero_of(type_)})")
            case InMemory(type_, address):
                emitter.line(f"zero({address}, {MEMORY_LAYOUT.size(type_, self.structs)})")
            case Scattered(fields=fields) if site.of:
                for _, inner in fields:
                    self.clear(emitter, inner)
            case Scattered(type_, names) if len(names) == 1:
                emitter.line(f"{names[0]} = {zero_of(type_)}")
            case Scattered(_, names):
                emitter.line(f"{' = '.join(names)} = 0")

    # Reading: the protocol of `bindings.Reader`

    def field(self, emitter: Emitter, site: StoredSite, field: Field) -> StoredSite:
        if isinstance(site, Scattered):
            return dict(site.fields)[field.name]
        assert isinstance(site.type, Ref)
        offset = MEMORY_LAYOUT.offset(site.type.name, field.name, self.structs)
        return InMemory(field.type, plus(site.address, offset))

    def element(self, emitter: Emitter, site: StoredSite, array: Array, index: str) -> StoredSite:
        if isinstance(site, Scattered) and site.names[0] in self.deferred:
            return Scattered(array.element, (self.deferred[site.names[0]](emitter, index),))
        size = MEMORY_LAYOUT.size(array.element, self.structs)
        return InMemory(array.element, plus(self.address(site), f"{size} * ({index})" if index != "0" else 0))

    def elements(self, emitter: Emitter, site: StoredSite) -> str | None:
        is_deferred = isinstance(site, Scattered) and site.names[0] in self.deferred
        return None if is_deferred else self.address(site)

    def address(self, site: StoredSite) -> str:
        """The address of an array's first element."""
        assert isinstance(site.type, Array)
        if isinstance(site, Scattered):
            return site.names[0]
        return f"load_int64({site.address})" if site.type.is_dynamic else site.address

    def capacity(self, site: StoredSite) -> str:
        return site.names[1] if isinstance(site, Scattered) else f"load_int64({plus(site.address, 8)})"

    def target(self, emitter: Emitter, site: StoredSite) -> InMemory:
        assert isinstance(site.type, Pointer)
        address, low, high = (emitter.temp(part) for part in self.pointer(site))
        size = MEMORY_LAYOUT.size(site.type.target, self.structs)
        # A program may leave a pointer just past the end of what it points into.
        outside = f"{address} != 0 and ({address} < {low} or {size} > {high} - {address})"
        emitter.trap(outside, TrapKind.INDEX_OUT_OF_RANGE, 0)
        return self.nothing(emitter, site.type.target, address)

    def nothing(self, emitter: Emitter, type_: ValueType, address: str) -> InMemory:
        """The value at an address, or zeros if the address is 0."""
        size = MEMORY_LAYOUT.size(type_, self.structs)
        zeros = self.frame.take(size)
        with emitter.block(f"if {address} == 0:"):
            emitter.line(f"zero({zeros}, {size})")
        return InMemory(type_, emitter.temp(f"{address} if {address} != 0 else {zeros}"))

    def present(self, emitter: Emitter, site: StoredSite) -> str:
        if isinstance(site.type, Pointer):
            return f"{self.pointer(site)[0]} != 0"
        return f"{self.string(emitter, site)[0]} != 0" if site.type == STRING else "True"

    def number(self, emitter: Emitter, site: StoredSite, type_: Basic) -> str:
        return site.names[0] if isinstance(site, Scattered) else loaded(type_, site.address)

    def string(self, emitter: Emitter, site: StoredSite) -> tuple[str, str]:
        if isinstance(site, Scattered):
            return site.names[0], site.names[1]
        return f"load_int64({site.address})", f"load_int64({plus(site.address, 8)})"

    def pointer(self, site: StoredSite) -> tuple[str, str, str]:
        if isinstance(site, Scattered):
            return site.names[0], site.names[1], site.names[2]
        low, high = (f"load_int64({plus(site.address, offset)})" for offset in (8, 16))
        return f"load_int64({site.address})", low, high

    # Writing

    def store(self, emitter: Emitter, site: StoredSite, parts: tuple[str, ...]) -> None:
        """Stores a number, string, pointer or handle."""
        if isinstance(site, Scattered):
            number = plain(site.type) if isinstance(site.type, Basic) else None
            values = (cast(number, parts[0]),) if len(parts) == 1 else parts
            emitter.line(f"{', '.join(site.names)} = {', '.join(values)}")
            return
        if isinstance(site.type, Basic) and site.type != STRING:
            emitter.line(f"store_{load_name(site.type)}({site.address}, {parts[0]})")
            return
        for offset, part in enumerate(parts):
            emitter.line(f"store_int64({plus(site.address, 8 * offset)}, {part})")

    def resize(
        self, emitter: Emitter, site: StoredSite, old: str, new: str, at: int, spend: Callable[[str], None]
    ) -> None:
        """Gives a dynamic array room for `new` elements; those beyond `old`, and beyond `new`, are zero.

        `spend` charges for a number of elements.
        """
        assert isinstance(site.type, Array)
        size = MEMORY_LAYOUT.size(site.type.element, self.structs)
        address, capacity = emitter.temp(self.address(site)), emitter.temp(self.capacity(site))
        name = site.names[0] if isinstance(site, Scattered) else ""
        with emitter.block(f"if {new} < {old}:"):
            spend(f"({old} - {new})")
            emitter.line(f"zero({address} + {size} * {new}, {size} * ({old} - {new}))")
        with emitter.block(f"if {new} > {capacity}:"):
            grown = emitter.temp(f"max_int64({new}, 2 * {capacity})")
            spend(grown)
            if name in self.deferred:
                self.reserve(emitter, grown, size, at, is_limited=True)
                return
            find = self.homes.get(name)
            home = None if find is None else find(emitter)
            is_first = f"{capacity} == 0"
            moved = self.allocate(emitter, grown, size, at, is_limited=True, home=home, is_first=is_first)
            with emitter.block(f"if {capacity} != 0:"):
                emitter.line(f"copy({moved}, {address}, {size} * {capacity})")
            if name not in self.filled:
                emitter.line(f"zero({moved} + {size} * {capacity}, {size} * ({grown} - {capacity}))")
            if isinstance(site, Scattered):
                emitter.line(f"{site.names[0]} = {moved}", f"{site.names[1]} = {grown}")
            else:
                emitter.line(f"store_int64({site.address}, {moved})")
                emitter.line(f"store_int64({plus(site.address, 8)}, {grown})")

    def allocate(
        self,
        emitter: Emitter,
        count: str,
        size: int,
        at: int,
        *,
        is_limited: bool,
        home: Home | None = None,
        is_first: str = "",
    ) -> str:
        """The address of new memory for `count` things of `size` bytes each, not zeroed, for this event.

        The count may be any number that is not negative: it is compared before it is multiplied. If `is_first`, they
        are placed at home if it has room, at the same charge.
        """
        count = emitter.temp(count)
        needed = self.reserve(emitter, count, size, at, is_limited=is_limited)
        if home is None:
            return self._on_heap(emitter, needed, emitter.temporary())
        address = emitter.temporary()
        with emitter.block(f"if {is_first} and {home.start} + {count} <= {home.places}:"):
            emitter.line(f"{address} = {home.data} + {size} * {home.start}")
        with emitter.block("else:"):
            self._on_heap(emitter, needed, address)
        return address

    def reserve(self, emitter: Emitter, count: str, size: int, at: int, *, is_limited: bool) -> str:
        """Checks and charges as `allocate` does; returns the number of bytes."""
        limit = self._limit(is_limited)
        if not (count.isdigit() and int(count) * size <= limit):
            emitter.trap(f"{count} > {limit // max(size, 1)}", TrapKind.SIZE_LIMIT, at)
        needed = emitter.temp(f"({size} * {count} + 7) & -8")
        if is_limited:
            self.charge(emitter, needed, at)
        return needed

    def _on_heap(self, emitter: Emitter, needed: str, address: str) -> str:
        """Sets a name to the address of `needed` bytes in the event's heap."""
        heap = emitter.entry("heap")
        emitter.out_of("heap", f"heap_used + {needed} > {emitter.entry('heap_size')}", f"heap_used + {needed}")
        emitter.line(f"{address} = {heap} + heap_used", f"heap_used += {needed}")
        return address

    def charge(self, emitter: Emitter, size: str, at: int) -> None:
        """Charges bytes to the allocation limit of the call."""
        emitter.trap(f"{size} > bytes_left", TrapKind.SIZE_LIMIT, at)
        emitter.line(f"bytes_left -= {size}")

    def _limit(self, is_limited: bool) -> int:
        return min(self.output_bytes, _MOST_BYTES) if is_limited else _MOST_INPUT_BYTES

    def total(self, emitter: Emitter, extents: list[str], at: int, *, is_limited: bool) -> str:
        """The number of elements of a dynamic array with these extents, which it checks."""
        return total(emitter, extents, self._limit(is_limited), at)


def total(emitter: Emitter, extents: list[str], limit: int, at: int) -> str:
    """The product of extents, none of which may be negative, and which may not exceed `limit`."""
    count = "1"
    for extent in extents:
        extent = emitter.temp(extent)
        if not extent.isdigit():
            emitter.trap(f"{extent} < 0", TrapKind.NEGATIVE_SIZE, at)
        if count == "1":
            emitter.trap(f"{extent} > {limit}", TrapKind.SIZE_LIMIT, at)
            count = extent
            continue
        condition = f"{extent} != 0 and {count} > quotient_int64({limit}, max_int64({extent}, 1))"
        emitter.trap(condition, TrapKind.SIZE_LIMIT, at)
        count = emitter.temp(f"{count} * {extent}")
    return count
