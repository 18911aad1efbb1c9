"""E-code that reads records where they lie: the binding of a parameter to record bytes of one format.

Only the fields that a program reads are looked at. Each slot and count on the way is checked against the record first;
what is wrong ends the event as a bad record. A field that the format does not have reads as its default, else zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecode.arithmetic import plain
from ecode.errors import TrapKind
from ecode.typed_to_numba.emitter import Emitter
from ecode.types import STRING, Array, Basic, Field, Kind, Pointer, Record, Ref, Struct, Type
from pbio_spark.columns.plan import number_at, order_of
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.slots import slot_size


@dataclass(frozen=True, slots=True)
class WireSite:
    """A place in a record.

    Attributes:
        wanted: the type that the program sees there.
        found: the type that the format has there; None if it has nothing.
        address: of the value's image; of a dynamic array, of its first element.
        struct, home: the structure whose fields are extents of arrays here, and the address of its image.
        extents: of an array, as texts.
        default: of a field that is not there.
    """

    wanted: Type
    found: Type | None
    address: str
    struct: str
    home: str
    extents: tuple[str, ...] = ()
    default: object = None


class WireBinding:
    """Reads a parameter from records of a format.

    The table needs the entries `starts` and `ends`: for each event the addresses of the record's first byte after its
    header, and of the byte after its last.

    Args:
        form: of the records.
        record: the type that the program was written for; fields are found by name.

    Attributes:
        texts: the bytes of default strings, which the table needs too, by entry.
    """

    def __init__(self, form: Format, record: Record) -> None:
        self.form = form
        self.record = record
        self.texts: dict[str, bytes] = {}
        self._order = order_of(form)
        self._lengths = {layout.name: layout.record_length for layout in form.structs}
        self._structs = {struct.name: struct for struct in form.record.structs}
        self._wanted = {struct.name: struct for struct in record.structs}
        self._offsets = {s.name: {f.name: f.offset for f in s.fields} for s in form.structs}
        self._minimum = -(-form.structs[0].record_length // 8) * 8

    def root(self, emitter: Emitter) -> WireSite:
        starts, ends = emitter.entry("starts"), emitter.entry("ends")
        start = emitter.temp(f"load_int64({starts} + 8 * event)")
        self._start = start
        self._length = emitter.temp(f"load_int64({ends} + 8 * event) - {start}")
        return WireSite(Ref(self.record.name), Ref(self.form.name), start, self.form.name, start)

    def field(self, emitter: Emitter, site: WireSite, field: Field) -> WireSite:
        # The program may know structures by other names, where two parameters have one of the same name.
        own = self._wanted[site.wanted.name].find(field.name) if isinstance(site.wanted, Ref) else None
        field = own or field
        found = self._find(site, field.name) or self._count_of(site, field.name)
        if found is None:
            return WireSite(field.type, None, "0", "", "0", default=field.notes.default)
        assert isinstance(site.found, Ref)
        name = site.found.name
        address = f"{site.address} + {self._offsets[name][found.name]}"
        made = self._at(emitter, field.type, found.type, address, name, site.address)
        if isinstance(field.type, Array) and isinstance(made.found, Array):
            self._agree(emitter, site, field, made)
        return made

    def element(self, emitter: Emitter, site: WireSite, array: Array, index: str) -> WireSite:
        wanted = site.wanted.element if isinstance(site.wanted, Array) else array.element
        if not isinstance(site.found, Array):
            return WireSite(wanted, None, "0", "", "0")
        if self.form.column_major and len(site.extents) > 1:
            index = self._transposed(emitter, site.extents, index)
        address = f"{site.address} + {self._size(site.found.element)} * ({index})"
        return self._at(emitter, wanted, site.found.element, address, site.struct, site.home)

    def elements(self, emitter: Emitter, site: WireSite) -> str | None:
        if not (isinstance(site.found, Array) and isinstance(site.wanted, Array)):
            return None
        element = site.found.element
        is_plain = isinstance(element, Basic) and element == site.wanted.element and element != STRING
        if not is_plain or (self.form.column_major and len(site.extents) > 1):
            return None
        assert isinstance(element, Basic)
        if number_at(self.form, element, 0).order != "":
            return None
        return site.address

    def target(self, emitter: Emitter, site: WireSite) -> WireSite:
        assert isinstance(site.wanted, Pointer)
        if not isinstance(site.found, Pointer):
            return WireSite(site.wanted.target, site.found, site.address, site.struct, site.home)
        slot = self._slot(emitter, site.address)
        size = self._size(site.found.target)
        self._check(emitter, self._is_outside(slot, size))
        return self._at(
            emitter, site.wanted.target, site.found.target, f"{self._start} + {slot}", site.struct, site.home
        )

    def present(self, emitter: Emitter, site: WireSite) -> str:
        match site.found:
            case None:
                return "True" if site.default is not None else "False"
            case Pointer():
                return f"{self._slot(emitter, site.address)} != 0"
            case Basic(Kind.STRING):
                return f"{self._slot(emitter, site.address)} != 0"
        return "True"

    def number(self, emitter: Emitter, site: WireSite, type_: Basic) -> str:
        if not isinstance(site.found, Basic):
            return self._default(site, type_)
        # As in E-code, characters and enumerations have a sign here.
        found, wanted = plain(site.found), plain(type_)
        assert found is not None
        assert wanted is not None
        load = f"load_{found}{number_at(self.form, site.found, 0).order}({site.address})"
        if wanted.kind is Kind.FLOAT:
            return f"as_{wanted}({load})"
        number = f"as_int64({load})"
        return number if found == wanted else self._fitting(emitter, emitter.temp(number), found, wanted)

    def string(self, emitter: Emitter, site: WireSite) -> tuple[str, str]:
        if site.found is None:
            if not isinstance(site.default, str):
                return "0", "0"
            text = site.default.encode()
            entry = next((name for name, known in self.texts.items() if known == text), None)
            if entry is None:
                entry = emitter.name("default_text")
                self.texts[entry] = text
            return emitter.entry(entry), str(len(text))
        slot = self._slot(emitter, site.address)
        self._check(emitter, f"{slot} != 0 and ({self._is_outside(slot)})")
        room = emitter.temp(f"{self._length} - {slot} if {slot} != 0 else 0")
        size = emitter.temp(f"find_zero({self._start} + {slot}, {room})")
        self._check(emitter, f"{slot} != 0 and {size} == {room}")
        return emitter.temp(f"{self._start} + {slot} if {slot} != 0 else 0"), size

    # Inside

    def _agree(self, emitter: Emitter, site: WireSite, field: Field, made: WireSite) -> None:
        """Make sure that the extents that the program will see are those of the record."""
        assert isinstance(field.type, Array)
        assert isinstance(made.found, Array)
        if len(field.type.dims) != len(made.found.dims):
            raise PbioError(
                "PBIO_INCOMPATIBLE_TYPE",
                f"the format's {made.found} is no {field.type}",
                format=self.form.name,
                field=f"$.{field.name}",
            )
        for wanted, found, extent in zip(field.type.dims, made.found.dims, made.extents, strict=True):
            control = self._find(site, wanted) or self._count_of(site, wanted) if isinstance(wanted, str) else None
            if wanted == found or (control is not None and control.name == found):
                continue
            assert isinstance(site.wanted, Ref)
            said = str(wanted)
            if isinstance(wanted, str):
                size = self._wanted[site.wanted.name].find(wanted)
                assert size is not None
                assert isinstance(size.type, Basic)
                said = self.number(emitter, self.field(emitter, site, size), size.type)
            self._check(emitter, f"{extent} != {said}")

    def _count_of(self, site: WireSite, name: str) -> Field | None:
        """The field that the format counts an array by which the wanted type counts by `name`."""
        if not (isinstance(site.found, Ref) and isinstance(site.wanted, Ref)):
            return None
        for array in self._wanted[site.wanted.name].fields:
            there = self._find(site, array.name)
            if not (isinstance(array.type, Array) and there is not None and isinstance(there.type, Array)):
                continue
            if name in array.type.dims and len(array.type.dims) == len(there.type.dims):
                dim = there.type.dims[array.type.dims.index(name)]
                return self._structs[site.found.name].find(dim) if isinstance(dim, str) else None
        return None

    def _at(self, emitter: Emitter, wanted: Type, found: Type, address: str, struct: str, home: str) -> WireSite:
        """The site of a value whose image lies at an address; arrays are found and checked."""
        while isinstance(found, Pointer) and not isinstance(wanted, Pointer):
            # The program takes a value where the format has a pointer to one: null reads as nothing there.
            slot = self._slot(emitter, address)
            size = self._size(found.target)
            self._check(emitter, self._is_outside(slot, size))
            found, address = found.target, f"{self._start} + {slot}"
        if not isinstance(found, Array):
            return WireSite(wanted, found, emitter.temp(address), struct, home)
        extents = tuple(
            str(dim) if isinstance(dim, int) else self._extent(emitter, struct, home, dim) for dim in found.dims
        )
        if not found.is_dynamic:
            return WireSite(wanted, found, emitter.temp(address), struct, home, extents)
        slot = self._slot(emitter, address)
        count = extents[0]
        for extent in extents[1:]:
            # Neither is greater than a record is long, plus one.
            count = emitter.temp(f"min({count} * {extent}, {self._length} + 1)")
        room = f"({self._length} - {slot}) // {max(self._size(found.element), 1)}"
        wrong = f"{self._is_outside(slot)} or {count} > {room}"
        # An array that is absent although its count says otherwise has nothing to be read.
        self._check(emitter, f"{count} != 0 if {slot} == 0 else {wrong}")
        return WireSite(wanted, found, emitter.temp(f"{self._start} + {slot}"), struct, home, extents)

    def _extent(self, emitter: Emitter, struct: str, home: str, name: str) -> str:
        control = self._structs[struct].find(name)
        assert control is not None
        assert isinstance(control.type, Basic)
        size = control.type.size
        suffix = self._order if size > 1 else ""
        extent = emitter.temp(f"as_int64(load_uint{8 * size}{suffix}({home} + {self._offsets[struct][name]}))")
        # A count that no record can hold; how far beyond does not matter.
        return emitter.temp(f"{extent} if 0 <= {extent} <= {self._length} else {self._length} + 1")

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

    def _find(self, site: WireSite, name: str) -> Field | None:
        """The field of a structure by name: exactly, else without regard to case if that is unique."""
        if not isinstance(site.found, Ref):
            return None
        struct: Struct = self._structs[site.found.name]
        exact = struct.find(name)
        if exact is not None:
            return exact
        near = [f for f in struct.fields if f.name.casefold() == name.casefold()]
        return near[0] if len(near) == 1 else None

    def _default(self, site: WireSite, type_: Basic) -> str:
        default = site.default if isinstance(site.default, int | float) else 0
        return f"as_{type_}({float(default)!r})" if type_.kind is Kind.FLOAT else str(int(default))

    def _fitting(self, emitter: Emitter, number: str, found: Basic, wanted: Basic) -> str:
        """A whole number as another type; one that the type does not have makes a bad record."""
        low, high = _range(wanted)
        found_low, found_high = _range(found)
        # Unsigned 64-bit numbers travel as the int64 of the same bits.
        if found_high > 2**63 - 1:
            if high < found_high:
                self._check(emitter, f"{number} < 0 or {number} > {high}")
        elif found_low < low or found_high > high:
            self._check(emitter, f"{number} < {low} or {number} > {min(high, 2**63 - 1)}")
        return number

    def _transposed(self, emitter: Emitter, extents: tuple[str, ...], index: str) -> str:
        """The place in memory of an element of a column-major array, from its row-major index."""
        rest = emitter.temp(index)
        place, step = "0", "1"
        strides = []
        for extent in extents:
            strides.append(step)
            step = emitter.temp(f"{step} * {extent}")
        for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
            place = emitter.temp(f"{place} + {rest} % {extent} * {stride}")
            rest = emitter.temp(f"{rest} // {extent}")
        return place


def _range(basic: Basic) -> tuple[int, int]:
    """The least and the greatest value of a whole type."""
    bits = 8 * basic.size
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if basic.kind is Kind.INTEGER else (0, 2**bits - 1)
