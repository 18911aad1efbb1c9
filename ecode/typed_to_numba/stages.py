"""Programs in a row, as one event: the output of one is the input of the next, and never leaves the event.

    first program -> `StageSink` of the second -> ... -> the sink of the last

Where a program succeeds, the text of the next one follows; if any program drops the event or traps, the event ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ecode.environment import Mode
from ecode.errors import NotCompilable, ParameterError
from ecode.limits import Limits
from ecode.passes.fills import takes_once
from ecode.semantics.arithmetic import plain
from ecode.typed import Structs, TypedProgram, ValueType
from ecode.typed_to_numba import numbers
from ecode.typed_to_numba.bindings import Reader, Sink, Site, WrittenFields
from ecode.typed_to_numba.code import Literals
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.event import Destinations, ProgramWriter, Shared
from ecode.typed_to_numba.fitting import fitted
from ecode.types import CHAR, STRING, Array, Basic, Default, Field, Kind, Pointer, Ref, Struct

MOST_ENDS = 64
"""How often the text of a program may be repeated, since the programs before it may end in several places."""

_ALIKE = "give the field one type in the output of a program and in the input of the next"

Find: TypeAlias = Callable[[Struct, str, tuple[str, ...]], Field | None]
"""Finds the field of a structure that a name, at its path, means."""


def exact(struct: Struct, name: str, path: tuple[str, ...]) -> Field | None:
    """The field of exactly that name."""
    return struct.find(name)


class StageSink:
    """Feeds the output of one program to the next.

    Args:
        program: the next program, with one input besides parameter blocks and state.
        number: the program's number, for the sites of its traps.
        sinks: the destination of each of its outputs, or of its input.
        shared: what all programs in the row share.
        find: finds the field of the earlier output that a name means.
        is_morph: the result of the program does not matter.

    Attributes:
        leaves: control does not return from what it writes.
    """

    leaves = True

    def __init__(
        self,
        program: TypedProgram,
        number: int,
        sinks: Mapping[str, Sink],
        limits: Limits,
        shared: Shared,
        find: Find = exact,
        *,
        is_morph: bool = False,
    ) -> None:
        self.program, self.number, self.sinks, self.limits, self.shared = program, number, sinks, limits, shared
        self.find, self.is_morph = find, is_morph
        (self.input,) = (param.name for param in program.params if param.mode is Mode.IN)
        self._written = 0

    def takes_once(self, type_: ValueType, structs: Structs, array: str) -> bool:
        """Whether the next program reads each element of an array in the earlier program's output, a record of this
        type, at most once, and no other program reads it."""
        input_type = self.program.param_types[self.input]
        if self.input in self.sinks or not isinstance(type_, Ref) or not isinstance(input_type, Ref):
            return False
        struct, names = structs[type_.name], []
        for field in self.program.structs[input_type.name].fields:
            found = self.find(struct, field.name, (field.name,))
            if found is not None and found.name == array:
                names.append(field.name)
        return takes_once(self.program, self.input, names)

    def write(self, emitter: Emitter, source: Reader, site: Site, written: WrittenFields) -> None:
        self._written += 1
        if self._written > MOST_ENDS:
            raise NotCompilable(f"the programs before this one end in more than {MOST_ENDS} places")
        before, emitter.program = emitter.program, self.number
        here = self.program.param_types[self.input]
        root, own = _MadeSite(site, written.type, here), self.program.structs
        made = _Made(source, root, written.structs, own, self.find, self.shared.literals)
        bindings = {self.input: made, **self.shared.blocks}
        event = ProgramWriter(self.program, bindings, Destinations(self.sinks), self.limits, self.shared, emitter)
        event.write(is_morph=self.is_morph)
        emitter.program = before


@dataclass(frozen=True, slots=True)
class _MadeSite:
    """A site of the earlier program.

    Attributes:
        site: None if that program has no such field: it reads as its default, else zero.
        type: its type there, which may differ from the type here in names of structures and in the width of numbers.
        wanted: its type here.
        path: the names of the fields that lead here.
        there: the condition that no null pointer led here, "" where none can.
        extent: the number of characters, if they are a string here.
    """

    site: Site | None
    type: ValueType
    wanted: ValueType
    path: tuple[str, ...] = ()
    there: str = ""
    extent: str = ""
    default: Default = None


class _Made:
    """Reads the output of the earlier program, through its reader, by the names of fields."""

    def __init__(
        self, reader: Reader, root: _MadeSite, structs: Structs, own: Structs, find: Find, literals: Literals
    ) -> None:
        self._reader, self._root, self._structs, self._own = reader, root, structs, own
        self._find, self._literals = find, literals
        self.size = getattr(reader, "size", None)

    def root(self, emitter: Emitter) -> _MadeSite:
        return self._root

    def field(self, emitter: Emitter, site: _MadeSite, field: Field) -> _MadeSite:
        path = (*site.path, field.name)
        if site.site is None or not isinstance(site.type, Ref):
            # An absent structure is null, and so is everything in it.
            return _MadeSite(None, field.type, field.type, path)
        struct = self._structs[site.type.name]
        theirs = self._find(struct, field.name, path)
        if theirs is None:
            dim = self._counts(site, field.name)
            if isinstance(dim, int):
                return _MadeSite(None, field.type, field.type, path, default=dim)
            theirs = struct.find(dim) if dim is not None else None
        if theirs is None:
            return _MadeSite(None, field.type, field.type, path, default=field.notes.default)
        found = self._reader.field(emitter, site.site, theirs)
        made = self._value(emitter, _MadeSite(found, theirs.type, field.type, path))
        if isinstance(field.type, Array):
            self._check_extents(site, made, field.type)
        elif field.type == STRING and isinstance(made.type, Array):
            (dim,) = made.type.dims
            size = struct.find(dim) if isinstance(dim, str) else None
            extent = str(dim)
            if size is not None and isinstance(size.type, Basic):
                extent = emitter.temp(
                    self._reader.number(emitter, self._reader.field(emitter, site.site, size), size.type)
                )
            made = replace(made, extent=extent)
        return made

    def element(self, emitter: Emitter, site: _MadeSite, array: Array, index: str) -> _MadeSite:
        if site.site is None or not isinstance(site.type, Array):
            return _MadeSite(None, array.element, array.element, site.path)
        found = self._reader.element(emitter, site.site, site.type, index)
        return self._value(emitter, _MadeSite(found, site.type.element, array.element, site.path))

    def elements(self, emitter: Emitter, site: _MadeSite) -> str | None:
        if site.site is None or not (isinstance(site.type, Array) and isinstance(site.wanted, Array)):
            return None
        theirs, wanted = site.type.element, site.wanted.element
        is_same = isinstance(theirs, Basic) and isinstance(wanted, Basic) and _as_read(theirs, wanted) == plain(wanted)
        return self._reader.elements(emitter, site.site) if is_same else None

    def target(self, emitter: Emitter, site: _MadeSite) -> _MadeSite:
        assert isinstance(site.wanted, Pointer)
        made = replace(site, wanted=site.wanted.target)
        if site.site is None:
            return replace(made, type=site.wanted.target)
        if isinstance(site.type, Pointer):
            found = self._reader.target(emitter, site.site)
            made = replace(made, site=found, type=site.type.target, there=self._reader.present(emitter, site.site))
        return self._value(emitter, made)

    def present(self, emitter: Emitter, site: _MadeSite) -> str:
        if site.site is None:
            return "False" if site.default is None else "True"
        return site.there or self._reader.present(emitter, site.site)

    def number(self, emitter: Emitter, site: _MadeSite, type_: Basic) -> str:
        wanted = plain(type_)
        assert wanted is not None
        if site.site is None or not isinstance(site.type, Basic):
            default = site.default if isinstance(site.default, int | float) else 0
            return numbers.constant(default, wanted)
        number, found = self._reader.number(emitter, site.site, site.type), _as_read(site.type, type_)
        assert found is not None
        if site.type.kind is Kind.BOOLEAN:
            number = f"(1 if {number} != 0 else 0)"
        elif found != plain(site.type):
            number = f"as_int64(as_{found}({number}))"
        return fitted(emitter, number, found, wanted, ".".join(("$", *site.path)))

    def string(self, emitter: Emitter, site: _MadeSite) -> tuple[str, str]:
        if site.site is None:
            if not isinstance(site.default, str):
                return "0", "0"
            text = site.default.encode()
            return self._literals.address(emitter, text), str(len(text))
        if not isinstance(site.type, Array):
            return self._reader.string(emitter, site.site)
        address = emitter.temp(self._reader.elements(emitter, site.site) or "0")
        return address, emitter.temp(f"find_zero({address}, {site.extent} if {address} != 0 else 0)")

    # Inside

    def _value(self, emitter: Emitter, made: _MadeSite) -> _MadeSite:
        """Converts a value to the type here: follows pointers to plain values, and refuses types that do not fit."""
        while isinstance(made.type, Pointer) and not isinstance(made.wanted, Pointer):
            there = self._reader.present(emitter, made.site)
            made = replace(made, site=self._reader.target(emitter, made.site), type=made.type.target, there=there)
        theirs, wanted = made.type, made.wanted
        while isinstance(theirs, Pointer):
            theirs = theirs.target
        while isinstance(wanted, Pointer):
            wanted = wanted.target
        is_text = wanted == STRING and isinstance(theirs, Array) and theirs.element == CHAR and len(theirs.dims) == 1
        if isinstance(theirs, Basic) and isinstance(wanted, Basic):
            is_readable = theirs == wanted or _as_read(theirs, wanted) is not None
        else:
            is_readable = type(theirs) is type(wanted) or (is_text and made.type == theirs)
        if not is_readable:
            raise ParameterError(f"{'.'.join(made.path)}: {made.type} cannot be read as {made.wanted}", _ALIKE)
        return made

    def _check_extents(self, site: _MadeSite, made: _MadeSite, wanted: Array) -> None:
        """Refuses arrays with other counts or sizes: reads would run past their end."""
        assert isinstance(site.type, Ref)
        assert isinstance(made.type, Array)
        own: list[int | str | None] = []
        for dim in wanted.dims:
            if isinstance(dim, str):
                size = self._find(self._structs[site.type.name], dim, (*site.path, dim))
                own.append(size.name if size is not None else self._counts(site, dim))
            else:
                own.append(dim)
        if tuple(own) != made.type.dims:
            raise ParameterError(
                f"{'.'.join(made.path)}: {made.type} cannot be read as {wanted}, of another extent", _ALIKE
            )

    def _counts(self, site: _MadeSite, name: str) -> int | str | None:
        """The extent there of the array whose extent here is `name`: the name of a field, or a number."""
        if not (isinstance(site.type, Ref) and isinstance(site.wanted, Ref)):
            return None
        for array in self._own[site.wanted.name].fields:
            if not (isinstance(array.type, Array) and name in array.type.dims):
                continue
            there = self._find(self._structs[site.type.name], array.name, (*site.path, array.name))
            if there is not None and isinstance(there.type, Array) and len(there.type.dims) == len(array.type.dims):
                return there.type.dims[array.type.dims.index(name)]
        return None


def _as_read(theirs: Basic, wanted: Basic) -> Basic | None:
    """The plain type in which a number of one type is read as another: characters and enumerations read as unsigned if
    the other type is of another kind. None if it cannot be read."""
    number = plain(theirs)
    if number is None or STRING in (theirs, wanted) or plain(wanted) is None:
        return None
    if theirs.kind in (Kind.CHAR, Kind.ENUMERATION) and wanted.kind is not theirs.kind:
        return Basic(Kind.UNSIGNED, theirs.size)
    return number
