"""E-code that reads records where they lie: the binding of a parameter to record bytes of one format.

Only the fields that a program reads are looked at. Each slot and count on the way is checked against the record first;
what is wrong ends the event as a bad record.

What is not there reads as nothing: a field that the format does not have as its default, else zero; what a null leads
to as zeros, which are read from a block of them, so that no program has to ask first; an element beyond those that the
record has, where the program's type has more, as zero too. A count reads as the length of its array, whatever the
format counts it by.
"""

from __future__ import annotations

from dataclasses import replace

from ecode.semantics.arithmetic import plain
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.fitting import fitted
from ecode.typed_to_numba.numbers import constant
from ecode.types import (
    CHAR,
    INT64,
    STRING,
    Array,
    Basic,
    Default,
    Field,
    Kind,
    Pointer,
    Ref,
    Type,
)
from pbio_spark.columns.decode.plan import number_at
from pbio_spark.columns.programs.wire_record import ArrayLevel, WireRecord, WireSite, unmarked, unravelled
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats.arrow.names import Path, dims_of, struct_to_counts


class WireBinding(WireRecord):
    """Reads a parameter from records of a format: which place in a record each step of a program leads to.

    The table needs the entries `starts` and `ends`: for each event the addresses of the record's first byte after its
    header, and of the byte after its last.

    Args:
        form: of the records.
        record: the type that the program was written for.
        names: which field a name means.
    """

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
            is_number = isinstance(level.element, Basic) and plain(level.element) is not None
            if is_number and site.there and site.marks is None:
                return self._number_at(emitter, site, level, wanted, index)
            there = " and ".join(filter(None, (site.there, unmarked(site, index))))
            address = self._place(emitter, level, site.address, index, there)
        made = WireSite(wanted, site.levels[-1].element, address, site.struct, site.home, site.path)
        return self._value(emitter, made)

    def _number_at(self, emitter: Emitter, site: WireSite, level: ArrayLevel, wanted: Type, index: str) -> WireSite:
        """A number in an array that may not be there. The number is chosen, not the address: the address then moves
        with the index, and LLVM vectorises the loop."""
        made = self._value(emitter, WireSite(wanted, level.element, "0", site.struct, site.home, site.path))
        place = f"{site.address} + {self._size(level.element)} * ({index})"
        return replace(made, address=place, unless_zero=site.there)

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
            is_true = f"load_{load.type}{load.order}({site.address}) != 0"
            is_there = f"{site.unless_zero} and " if site.unless_zero else ""
            text = f"(1 if {is_there}{is_true} else 0)"
            return text if wanted.kind is not Kind.FLOAT else f"as_{wanted}{text}"
        # A character or an enumeration has a sign where the program sees it as one, and none as a number.
        has_sign = kind is Kind.INTEGER or (kind in (Kind.CHAR, Kind.ENUMERATION) and type_.kind is kind)
        number = found if kind is Kind.FLOAT else Basic(Kind.INTEGER if has_sign else Kind.UNSIGNED, found.size)
        text = f"load_{number}{load.order}({site.address})"
        if kind is not Kind.FLOAT:
            text = f"as_int64({text})"
        if site.unless_zero:
            text = f"({text} if {site.unless_zero} else {constant(0, number if kind is Kind.FLOAT else INT64)})"
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
        """The site of a value that the program does not see as an array; pointers that it does not see are followed."""
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

    def _levels(self, emitter: Emitter, site: WireSite) -> tuple[ArrayLevel, ...]:
        """The arrays of the format that the one array of the program stands for."""
        assert isinstance(site.wanted, Array)
        levels: list[ArrayLevel] = []
        type_, left = site.found, len(site.wanted.dims)
        while left > 0:
            while isinstance(type_, Pointer):
                type_ = type_.target
            if not isinstance(type_, Array) or len(type_.dims) > left:
                self._refuse(site)
            extents = tuple(self._extent(emitter, site, dim) for dim in type_.dims)
            levels.append(ArrayLevel(type_.element, type_.dims, extents, type_.is_dynamic))
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
        indices = unravelled(emitter, index, seen)
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
            there = " and ".join(filter(None, (there, unmarked(site, place))))
            address, there = self._place(emitter, level, address, place, there), ""
        return address


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
