"""The bytes of a record to E-code: expressions for places in it, each slot and count on the way checked first.

What is not there is a place as well, of zeros: a program need not ask before it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from ecode.errors import TrapKind
from ecode.typed_to_numba.emitter import Emitter
from ecode.types import (
    UINT8,
    Basic,
    Default,
    Record,
    Ref,
    Type,
)
from pbio_spark.columns.decode.plan import order_of
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.names import Names, Path
from pbio_spark.formats.body.slots import slot_size


@dataclass(frozen=True, slots=True)
class ArrayLevel:
    """One of the arrays that lie in each other, as the format has them.

    Attributes:
        element: the type of its elements.
        dims, extents: as the format has them, and as source text.
        is_dynamic: a slot points to it.
    """

    element: Type
    dims: tuple[int | str, ...]
    extents: tuple[str, ...]
    is_dynamic: bool


@dataclass(frozen=True, slots=True)
class WireSite:
    """A place in a record.

    Attributes:
        wanted: the type that the program sees there.
        found: the type that the format has there; None if it has nothing.
        address: of the value's image, which where there is none is a block of zeros; of an array, of its first element.
        struct, home: the structure whose fields are extents of arrays here, and the address of its image.
        path: the names of the fields that lead here.
        there: the condition that no null lies before the address, "" where none can.
        shown: the condition that the value is not null, where an array without elements is none; "" as for `there`.
        levels: of an array: itself, and those that its elements are.
        extents: of an array: those that the program sees, unless they are those of the only one of `levels`.
        default: of a field that is not there.
        marks: of an array: the address of the bytes that say which elements are null, and the condition that they are
            there, "" if they always are; None if no element can be.
        unless_zero: of a number: the condition that the address may be read; else it is zero. "" if it always may.
    """

    wanted: Type
    found: Type | None
    address: str
    struct: str
    home: str
    path: Path = ()
    there: str = ""
    shown: str = ""
    levels: tuple[ArrayLevel, ...] = ()
    extents: tuple[str, ...] = ()
    default: Default = None
    marks: tuple[str, str] | None = None
    unless_zero: str = ""


class WireRecord:
    """Emits the addresses of values in records of a format; see `WireBinding` for the arguments."""

    def __init__(self, form: Format, record: Record, names: Names | None = None) -> None:
        self.form, self.record, self.names = form, record, names or Names()
        self._texts: dict[str, bytes] = {}
        self._zeros, self._zeros_size = "", 0
        self._order = order_of(form)
        self._lengths = {layout.name: layout.record_length for layout in form.structs}
        self._structs = {struct.name: struct for struct in form.record.structs}
        self._wanted = {struct.name: struct for struct in record.flattened().structs}
        self._offsets = {s.name: {f.name: f.offset for f in s.fields} for s in form.structs}
        self._minimum = -(-form.structs[0].record_length // 8) * 8

    @property
    def texts(self) -> dict[str, bytes]:
        """The bytes that the table needs too, by entry: default strings, and zeros."""
        return self._texts | ({self._zeros: bytes(self._zeros_size)} if self._zeros else {})

    def root(self, emitter: Emitter) -> WireSite:
        starts, ends = emitter.entry("starts"), emitter.entry("ends")
        start = emitter.temp(f"load_int64({starts} + 8 * event)")
        self._start = start
        self._length = emitter.temp(f"load_int64({ends} + 8 * event) - {start}")
        return WireSite(Ref(self.record.name), Ref(self.form.name), start, self.form.name, start)

    def size(self, emitter: Emitter) -> str:
        """The bytes of the record."""
        return self._length

    def _place(self, emitter: Emitter, level: ArrayLevel, address: str, index: str, there: str) -> str:
        """The address of an element by its place in memory; of zeros, where it is not there."""
        size = self._size(level.element)
        place = f"{address} + {size} * ({index})"
        return emitter.temp(f"{place} if {there} else {self._nothing(emitter, size)}" if there else place)

    def _transposed(self, emitter: Emitter, extents: tuple[str, ...], index: str) -> str:
        """The place in memory of an element of a column-major array, from its row-major index."""
        place = ""
        indices = unravelled(emitter, index, extents)
        for one, extent in zip(reversed(indices), reversed(extents), strict=True):
            place = f"({place}) * {extent} + {one}" if place else one
        return emitter.temp(place)

    # Nulls that other fields say

    def _unless_null(self, emitter: Emitter, site: WireSite, number: int) -> WireSite:
        """The site of a field; of zeros, where a bit of its structure says that it is null."""
        assert site.found is not None
        mask = self._structs[site.struct].null_bits
        assert mask is not None
        at = self._offsets[site.struct][mask.name] + number // 8
        there = emitter.temp(f"as_int64(load_uint8({site.home} + {at})) & {1 << number % 8}") + " == 0"
        address = emitter.temp(f"{site.address} if {there} else {self._nothing(emitter, self._size(site.found))}")
        return replace(site, address=address, there=there, shown=there)

    def _marks(self, emitter: Emitter, site: WireSite, name: str) -> tuple[str, str]:
        """Where the bytes are that say which elements of an array are null."""
        address, (level,) = f"{site.home} + {self._offsets[site.struct][name]}", site.levels
        if not level.is_dynamic:
            return emitter.temp(address), ""
        return self._behind(emitter, address, replace(level, element=UINT8))

    # Slots and counts

    def _follow(self, emitter: Emitter, address: str, target: Type) -> tuple[str, str]:
        """The address of what the pointer at an address leads to, zeros where it is null, and whether it is not."""
        slot, size = self._slot(emitter, address), self._size(target)
        self._check(emitter, f"{slot} != 0 and ({self._is_outside(slot, size)})")
        there = f"{slot} != 0"
        return emitter.temp(f"{self._start} + {slot} if {there} else {self._nothing(emitter, size)}"), there

    def _behind(self, emitter: Emitter, address: str, level: ArrayLevel) -> tuple[str, str]:
        """The same of a dynamic array, all of whose elements must lie in the record."""
        slot, size = self._slot(emitter, address), self._size(level.element)
        # Neither factor is greater than a record can be long, so their product does not wrap.
        most = f"{self._length} + 1"
        extents = [f"min_int64({e}, {most})" if e.isdigit() and int(e) >= 2**31 else e for e in level.extents]
        count = emitter.temp(extents[0])
        for extent in extents[1:]:
            count = emitter.temp(f"min_int64({count} * {extent}, {most})")
        room = f"({self._length} - {slot}) // {max(size, 1)}"
        self._check(emitter, f"{slot} != 0 and ({self._is_outside(slot)} or {count} > {room})")
        there = f"{slot} != 0"
        return emitter.temp(f"{self._start} + {slot} if {there} else {self._nothing(emitter, size)}"), there

    def _extent(self, emitter: Emitter, site: WireSite, dim: int | str) -> str:
        if isinstance(dim, int):
            return str(dim)
        control = self._structs[site.struct].find(dim)
        assert control is not None
        assert isinstance(control.type, Basic)
        size = control.type.size
        suffix = self._order if size > 1 else ""
        place = f"{site.home} + {self._offsets[site.struct][dim]}"
        extent = emitter.temp(f"as_int64(load_uint{8 * size}{suffix}({place}))")
        # A count that no record can hold; how far beyond does not matter.
        return emitter.temp(f"{extent} if 0 <= {extent} <= {self._length} else {self._length} + 1")

    def _nothing(self, emitter: Emitter, size: int) -> str:
        """The address of so many zeros: the image of nulls, empty arrays and zeros, whatever the type."""
        self._zeros = self._zeros or emitter.name("nothing")
        self._zeros_size = max(self._zeros_size, size, 8)
        return emitter.entry(self._zeros)

    def _slot(self, emitter: Emitter, address: str) -> str:
        return emitter.temp(f"as_int64(load_uint{8 * self.form.pointer_size}{self._order}({address}))")

    def _is_outside(self, slot: str, size: int = 1) -> str:
        """The condition that bytes at a slot's target lie outside the record, whatever 64 bits the slot holds:
        `length - slot` is computed only where the slot lies between 0 and the length."""
        beyond = f" or {size} > {self._length} - {slot}" if size > 1 else ""
        return f"{slot} < {self._minimum} or {slot} >= {self._length}{beyond}"

    def _check(self, emitter: Emitter, condition: str) -> None:
        emitter.trap(condition, TrapKind.BAD_RECORD, 0)

    def _size(self, type_: Type) -> int:
        return slot_size(type_, self._lengths, self.form.pointer_size)

    def _refuse(self, site: WireSite) -> NoReturn:
        raise PbioError(
            "PBIO_INCOMPATIBLE_TYPE",
            f"the format's {site.found} cannot be read as {site.wanted}",
            format=self.form.name,
            field=path_to_text(site.path),
            hint="name the type that the program is to see with readerFormat, or leave the field out of it",
        )


def unravelled(emitter: Emitter, index: str, extents: tuple[str, ...]) -> list[str]:
    """The indices in each dimension, from the index in all of them together."""
    rest = emitter.temp(index)
    indices = []
    for extent in reversed(extents[1:]):
        indices.append(emitter.temp(f"{rest} % {extent}"))
        rest = emitter.temp(f"{rest} // {extent}")
    return [rest, *reversed(indices)]


def unmarked(site: WireSite, place: str) -> str:
    """The condition that the element at a place in memory is not null; "" if none can be."""
    if site.marks is None:
        return ""
    address, there = site.marks
    unmarked = f"load_uint8({address} + ({place})) == 0"
    return f"(not ({there}) or {unmarked})" if there else unmarked
