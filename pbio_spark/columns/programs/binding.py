"""E-code that reads records where they lie: the binding of a parameter to record bytes of one format.

Only the fields that a program reads are looked at. Each slot and count on the way is checked against the record first;
what is wrong ends the event as a bad record.

What is not there reads as nothing: a field that the format does not have as its default, else zero; what a null leads
to as zeros, which are read from a block of them, so that no program has to ask first; an element beyond those that the
record has, where the program's type has more, as zero too. A count reads as the length of its array, whatever the
format counts it by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from ecode.errors import TrapKind
from ecode.semantics.arithmetic import plain
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.fitting import fitted
from ecode.typed_to_numba.numbers import constant
from ecode.types import (
    CHAR,
    STRING,
    UINT8,
    Array,
    Basic,
    Default,
    Field,
    Kind,
    Pointer,
    Record,
    Ref,
    Type,
)
from pbio_spark.columns.decode.plan import number_at, order_of
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.names import Names, Path, dims_of, struct_to_counts
from pbio_spark.formats.body.opt_info import NULL_BITS
from pbio_spark.formats.body.slots import slot_size


@dataclass(frozen=True, slots=True)
class Level:
    """One of the arrays that lie in each other, as the format has them.

    Attributes:
        element: the type of its elements.
        dims, extents: as the format has them, and as texts.
        is_dynamic: it lies behind a slot.
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
    """

    wanted: Type
    found: Type | None
    address: str
    struct: str
    home: str
    path: Path = ()
    there: str = ""
    shown: str = ""
    levels: tuple[Level, ...] = ()
    extents: tuple[str, ...] = ()
    default: Default = None
    marks: tuple[str, str] | None = None


class WireBinding:
    """Reads a parameter from records of a format.

    The table needs the entries `starts` and `ends`: for each event the addresses of the record's first byte after its
    header, and of the byte after its last.

    Args:
        form: of the records.
        record: the type that the program was written for.
        names: which field a name means.
    """

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

    def _check_symbols(self, wanted: Field, found: Field, path: Path) -> None:
        """An enumeration is its names in columns and its numbers in programs: these must mean the same."""
        numbers = dict(wanted.notes.symbols)
        names = {number: name for name, number in wanted.notes.symbols}
        for name, number in found.notes.symbols:
            if numbers.get(name, number) != number or names.get(number, name) != name:
                raise PbioError(
                    "PBIO_INCOMPATIBLE_TYPE",
                    f"the program's numbers of the enumeration are not the format's, where {name!r} is {number}",
                    format=self.form.name,
                    field=path_to_text(path),
                    hint="compare the column's names in Spark, or read this version by itself with formatId",
                )

    def field(self, emitter: Emitter, site: WireSite, field: Field) -> WireSite:
        # The program may know structures by other names, where two parameters have one of the same name.
        own = self._wanted[site.wanted.name].find(field.name) if isinstance(site.wanted, Ref) else None
        field = own or field
        path = (*site.path, field.name)
        if isinstance(site.found, Ref):
            name = site.found.name
            found = self.names.find(self._structs[name], field.name, path)
            if found is not None:
                self._check_symbols(field, found, path)
                address = f"{site.address} + {self._offsets[name][found.name]}"
                made = WireSite(field.type, found.type, address, name, site.address, path)
                if found.notes.null_bit is not None:
                    made = self._unless_null(emitter, made, found.notes.null_bit)
                if not isinstance(field.type, Array):
                    return self._value(emitter, made)
                made = self._array(emitter, made)
                if found.notes.null_items is not None and len(made.levels) == 1:
                    made = replace(made, marks=self._marks(emitter, made, found.notes.null_items))
                return replace(made, extents=self._extents_seen(emitter, site, made))
            dim = self._counts(site, field.name)
            if isinstance(dim, str):
                control = self._structs[name].find(dim)
                assert control is not None
                address = f"{site.address} + {self._offsets[name][dim]}"
                return self._value(emitter, WireSite(field.type, control.type, address, name, site.address, path))
            if dim is not None:
                return WireSite(field.type, None, "0", "", "0", path, default=dim)
        # A structure that is not there is null, and so is all of it.
        default = None if site.found is None else field.notes.default
        return WireSite(field.type, None, "0", "", "0", path, default=default)

    def element(self, emitter: Emitter, site: WireSite, array: Array, index: str) -> WireSite:
        wanted = site.wanted.element if isinstance(site.wanted, Array) else array.element
        if not site.levels:
            return WireSite(wanted, None, "0", "", "0", site.path)
        if site.extents or len(site.levels) > 1:
            address = self._element_within(emitter, site, index)
        else:
            (level,) = site.levels
            if self.form.column_major and len(level.extents) > 1:
                index = self._transposed(emitter, level.extents, index)
            there = " and ".join(filter(None, (site.there, _unmarked(site, index))))
            address = self._place(emitter, level, site.address, index, there)
        made = WireSite(wanted, site.levels[-1].element, address, site.struct, site.home, site.path)
        return self._value(emitter, made)

    def elements(self, emitter: Emitter, site: WireSite) -> str | None:
        if len(site.levels) != 1 or site.extents or site.marks or not isinstance(site.wanted, Array):
            return None
        (level,) = site.levels
        element, wanted = level.element, site.wanted.element
        is_turned = self.form.column_major and len(level.extents) > 1
        if not (isinstance(element, Basic) and isinstance(wanted, Basic)) or is_turned:
            return None
        is_same = element == wanted and plain(element) is not None and element.kind is not Kind.BOOLEAN
        if not is_same or number_at(self.form, element, 0).order != "":
            return None
        return f"({site.address} if {site.there} else 0)" if site.there else site.address

    def target(self, emitter: Emitter, site: WireSite) -> WireSite:
        assert isinstance(site.wanted, Pointer)
        site = replace(site, wanted=site.wanted.target)
        if not isinstance(site.found, Pointer):
            return site if site.found is None else self._value(emitter, site)
        address, there = self._follow(emitter, site.address, site.found.target)
        site = replace(site, found=site.found.target, address=address, there=there, shown=there)
        return self._array(emitter, site) if isinstance(site.wanted, Array) else self._value(emitter, site)

    def present(self, emitter: Emitter, site: WireSite) -> str:
        match site.found:
            case None:
                return "False" if site.default is None else "True"
            case Pointer() | Basic(Kind.STRING):
                return f"{self._slot(emitter, site.address)} != 0"
        return site.shown or "True"

    def number(self, emitter: Emitter, site: WireSite, type_: Basic) -> str:
        found, wanted = site.found, plain(type_)
        assert wanted is not None
        if not isinstance(found, Basic):
            return _default(site.default, wanted)
        load = number_at(self.form, found, 0)
        kind = found.kind
        if kind is Kind.BOOLEAN:
            text = f"(1 if load_{load.type}{load.order}({site.address}) != 0 else 0)"
            return text if wanted.kind is not Kind.FLOAT else f"as_{wanted}{text}"
        # A character or an enumeration has a sign where the program sees it as one, and none as a number.
        has_sign = kind is Kind.INTEGER or (kind in (Kind.CHAR, Kind.ENUMERATION) and type_.kind is kind)
        number = found if kind is Kind.FLOAT else Basic(Kind.INTEGER if has_sign else Kind.UNSIGNED, found.size)
        text = f"load_{number}{load.order}({site.address})"
        if kind is not Kind.FLOAT:
            text = f"as_int64({text})"
        return fitted(emitter, text, number, wanted, path_to_text(site.path))

    def string(self, emitter: Emitter, site: WireSite) -> tuple[str, str]:
        if site.found is None:
            if not isinstance(site.default, str):
                return "0", "0"
            text = site.default.encode()
            entry = next((name for name, known in self._texts.items() if known == text), None)
            if entry is None:
                entry = emitter.name("default_text")
                self._texts[entry] = text
            return emitter.entry(entry), str(len(text))
        if site.levels:
            (extent,) = site.levels[0].extents
            room = f"{extent} if {site.there} else 0" if site.there else extent
            size = emitter.temp(f"find_zero({site.address}, {room})")
            there = self.present(emitter, site)
            return (site.address if there == "True" else f"({site.address} if {there} else 0)"), size
        slot = self._slot(emitter, site.address)
        self._check(emitter, f"{slot} != 0 and ({self._is_outside(slot)})")
        room = emitter.temp(f"{self._length} - {slot} if {slot} != 0 else 0")
        size = emitter.temp(f"find_zero({self._start} + {slot}, {room})")
        self._check(emitter, f"{slot} != 0 and {size} == {room}")
        return emitter.temp(f"{self._start} + {slot} if {slot} != 0 else 0"), size

    # What is at an address

    def _value(self, emitter: Emitter, site: WireSite) -> WireSite:
        """The site of a value that is no array to the program; pointers that it does not see are followed."""
        while isinstance(site.found, Pointer) and not isinstance(site.wanted, Pointer):
            address, there = self._follow(emitter, site.address, site.found.target)
            site = replace(site, found=site.found.target, address=address, there=there, shown=there)
        found, wanted = _ultimate(site.found), _ultimate(site.wanted)
        if wanted == STRING and found == site.found and _is_text(found):
            assert isinstance(found, Array)
            chars = self._array(emitter, replace(site, wanted=Array(CHAR, found.dims)))
            return replace(chars, wanted=STRING)
        if not (isinstance(wanted, Array) or _is_readable(found, wanted)):
            self._refuse(site)
        return replace(site, address=emitter.temp(site.address))

    def _array(self, emitter: Emitter, site: WireSite) -> WireSite:
        """The site of an array: where its elements are, and how many the record has."""
        found, address, there = site.found, site.address, site.there
        while isinstance(found, Pointer):
            address, there = self._follow(emitter, address, found.target)
            found = found.target
        shown, levels = there, self._levels(emitter, replace(site, found=found))
        if levels[0].is_dynamic:
            address, there = self._behind(emitter, address, levels[0])
            # An empty array has no bytes to point to.
            is_there = " or ".join((there, *(f"{extent} == 0" for extent in levels[0].extents)))
            shown = f"{shown} and ({is_there})" if shown else f"({is_there})"
        return replace(site, found=found, address=emitter.temp(address), there=there, shown=shown, levels=levels)

    def _levels(self, emitter: Emitter, site: WireSite) -> tuple[Level, ...]:
        """The arrays of the format that the one array of the program stands for."""
        assert isinstance(site.wanted, Array)
        levels: list[Level] = []
        type_, left = site.found, len(site.wanted.dims)
        while left > 0:
            while isinstance(type_, Pointer):
                type_ = type_.target
            if not isinstance(type_, Array) or len(type_.dims) > left:
                self._refuse(site)
            extents = tuple(self._extent(emitter, site, dim) for dim in type_.dims)
            levels.append(Level(type_.element, type_.dims, extents, type_.is_dynamic))
            left -= len(type_.dims)
            type_ = type_.element
        return tuple(levels)

    def _extents_seen(self, emitter: Emitter, record: WireSite, site: WireSite) -> tuple[str, ...]:
        """The extents that the program sees, if they may differ from the record's."""
        assert isinstance(record.found, Ref)
        assert isinstance(record.wanted, Ref)
        assert isinstance(site.wanted, Array)
        struct, wanted = self._structs[record.found.name], self._wanted[record.wanted.name]
        # In arrays of arrays, a count that no record can hold stands as the program sees it, for it counts by it.
        seen, is_same = [], True
        found = [pair for level in site.levels for pair in zip(level.dims, level.extents, strict=True)]
        for dim, (there, extent) in zip(site.wanted.dims, found, strict=True):
            own: int | str | None = dim
            if isinstance(dim, str):
                control = self.names.find(struct, dim, (*record.path, dim))
                own = control.name if control is not None else self._counts(record, dim)
            is_same = is_same and own == there
            if own == there and len(site.levels) == 1:
                seen.append(extent)
            elif isinstance(dim, int):
                seen.append(str(dim))
            else:
                size = wanted.find(dim)
                assert size is not None
                assert isinstance(size.type, Basic)
                seen.append(emitter.temp(self.number(emitter, self.field(emitter, record, size), size.type)))
        return () if is_same and len(site.levels) == 1 else tuple(seen)

    def _counts(self, site: WireSite, name: str) -> int | str | None:
        """By what the format counts the array that the wanted type counts by `name`: a field's name, or so many."""
        assert isinstance(site.found, Ref)
        assert isinstance(site.wanted, Ref)
        arrays = struct_to_counts(self._wanted[site.wanted.name]).get(name, ())
        counted = self.names.counted(self._structs[site.found.name], arrays, (*site.path, name))
        return None if counted is None else dims_of(counted[0].type)[counted[1]]

    # Elements

    def _element_within(self, emitter: Emitter, site: WireSite, index: str) -> str:
        """The address of an element, or of zeros where the record has fewer; `index` is one of the program's array."""
        seen = site.extents or tuple(extent for level in site.levels for extent in level.extents)
        indices = _unravelled(emitter, index, seen)
        address, there = site.address, site.there
        for number, level in enumerate(site.levels):
            if number:
                type_ = site.levels[number - 1].element
                while isinstance(type_, Pointer):
                    address, _ = self._follow(emitter, address, type_.target)
                    type_, there = type_.target, ""
                if level.is_dynamic:
                    address, there = self._behind(emitter, address, level)
                address = emitter.temp(address)
            here, indices = indices[: len(level.extents)], indices[len(level.extents) :]
            # So many elements may there be to the program that the index of all of them has wrapped around.
            inside = [f"0 <= {i} < {extent}" for i, extent in zip(here, level.extents, strict=True)]
            there = " and ".join([there, *inside] if there else inside)
            order = reversed(range(len(here))) if self.form.column_major else range(len(here))
            place = ""
            for d in order:
                place = f"({place}) * {level.extents[d]} + {here[d]}" if place else here[d]
            there = " and ".join(filter(None, (there, _unmarked(site, place))))
            address, there = self._place(emitter, level, address, place, there), ""
        return address

    def _place(self, emitter: Emitter, level: Level, address: str, index: str, there: str) -> str:
        """The address of an element by its place in memory; of zeros, where it is not there."""
        size = self._size(level.element)
        place = f"{address} + {size} * ({index})"
        return emitter.temp(f"{place} if {there} else {self._nothing(emitter, size)}" if there else place)

    def _transposed(self, emitter: Emitter, extents: tuple[str, ...], index: str) -> str:
        """The place in memory of an element of a column-major array, from its row-major index."""
        place = ""
        indices = _unravelled(emitter, index, extents)
        for one, extent in zip(reversed(indices), reversed(extents), strict=True):
            place = f"({place}) * {extent} + {one}" if place else one
        return emitter.temp(place)

    # Nulls that other fields say

    def _unless_null(self, emitter: Emitter, site: WireSite, number: int) -> WireSite:
        """The site of a field; of zeros, where a bit of its structure says that it is null."""
        assert site.found is not None
        mask = next(f for f in self._structs[site.struct].fields if f.notes.logical == NULL_BITS)
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

    def _behind(self, emitter: Emitter, address: str, level: Level) -> tuple[str, str]:
        """The same of a dynamic array, all of whose elements must lie in the record."""
        slot, size = self._slot(emitter, address), self._size(level.element)
        # Neither factor is greater than a record can be long, so that their product is no other number.
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
        """The condition that so many bytes behind a slot do not lie in the record, whatever 64 bits the slot holds:
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


def _unravelled(emitter: Emitter, index: str, extents: tuple[str, ...]) -> list[str]:
    """The indices in each dimension, from the index in all of them together."""
    rest = emitter.temp(index)
    indices = []
    for extent in reversed(extents[1:]):
        indices.append(emitter.temp(f"{rest} % {extent}"))
        rest = emitter.temp(f"{rest} // {extent}")
    return [rest, *reversed(indices)]


def _unmarked(site: WireSite, place: str) -> str:
    """The condition that the element at a place in memory is no null; "" if none is."""
    if site.marks is None:
        return ""
    address, there = site.marks
    unmarked = f"load_uint8({address} + ({place})) == 0"
    return f"(not ({there}) or {unmarked})" if there else unmarked


def _ultimate(type_: Type | None) -> Type | None:
    """What pointers lead to."""
    while isinstance(type_, Pointer):
        type_ = type_.target
    return type_


def _is_text(type_: Type | None) -> bool:
    return isinstance(type_, Array) and type_.element == CHAR and len(type_.dims) == 1


def _is_readable(found: Type | None, wanted: Type | None) -> bool:
    """Whether a program can read what the format has as what it wants: structures as structures, numbers as numbers
    that say as much."""
    if not isinstance(found, Basic) or not isinstance(wanted, Basic):
        return type(found) is type(wanted) or (wanted == STRING and _is_text(found))
    if found.kind is wanted.kind:
        return plain(found) is not None or plain(wanted) is None
    if Kind.STRING in (found.kind, wanted.kind) or found.kind is Kind.FLOAT:
        return False
    return wanted.kind in (Kind.INTEGER, Kind.UNSIGNED, Kind.FLOAT)


def _default(default: Default, wanted: Basic) -> str:
    return constant(default if isinstance(default, int | float) else 0, wanted)
