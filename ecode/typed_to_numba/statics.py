"""The state of programs in generated code: static variables, and parameters of mode `state`.

All programs in a row keep theirs in one block, `statics`. Numbers and strings are loaded into variables when an event
begins and stored when it succeeds; arrays, and records with many parts, are used in place, and the kernel restores the
whole block after an event that fails. The characters of strings lie in one of two blocks: where any program changes a
string, each event writes all strings to the other block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ecode.outcome import holds_strings, static_names, stores_strings
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import AddressOf, Structs, TypedProgram, ValueType, Variable, root, walk
from ecode.typed.places import Local
from ecode.typed_to_numba.code import Code
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.stored import InMemory, MemoryBlock, Scattered, Stored, StoredSite
from ecode.types import STRING, Array, Basic, Ref

# The first word of `statics` says which block holds the strings.
_SIDE = 8

_MOST_PARTS = 32
"""How many numbers and strings of one record live in variables; one that has more is used in place."""


@dataclass(frozen=True, slots=True)
class Static:
    """A static variable: its key in the host's state, its type and offset in the block `statics`, the type's
    structures."""

    key: str
    type: ValueType
    offset: int
    structs: Structs


class StaticsText:
    """Writes what the static variables of programs in a row need.

    Args:
        programs: the programs; those that go before the variables of each in the host's state, as `filter.n`.

    Attributes:
        layout: of the block.
    """

    def __init__(self, programs: Sequence[tuple[str, TypedProgram]]) -> None:
        self.block = MemoryBlock("statics")
        self.block.size = _SIDE
        self.layout: list[Static] = []
        self.in_place = False
        self.stores_strings = any(stores_strings(program) for _, program in programs)
        self._homes: dict[Variable, InMemory] = {}
        self._stored: dict[Variable, Stored] = {}
        self._pointed: set[str] = set()  # keys
        self._keys: dict[Variable, str] = {}
        self._active: list[Code] = []
        """The programs that are being written, each inside the one before it."""
        shared: dict[str, InMemory] = {}
        for name, program in programs:
            stored = Stored(program.structs, self.block, 0)
            pointed = {base.variable for base in _pointed(program)}
            for variable, key in static_names(program, name).items():
                home = shared.get(key) if variable.is_shared else None
                if home is None:
                    home = InMemory(variable.type, self.block.take(MEMORY_LAYOUT.size(variable.type, program.structs)))
                    offset = int(home.address.partition(" + ")[2])
                    self.layout.append(Static(key, variable.type, offset, program.structs))
                    if variable.is_shared:
                        shared[key] = home
                self._homes[variable] = replace(home, type=variable.type)
                self._stored[variable], self._keys[variable] = stored, key
                if variable in pointed:
                    self._pointed.add(key)

    @property
    def entries(self) -> list[str]:
        return [] if not self._homes else ["statics"] + (["saved"] if self.in_place else [])

    @contextmanager
    def of(self, code: Code) -> Iterator[None]:
        """Writes the start of a program's event; inside, `store` stores its variables too."""
        if code.program.statics:
            code.emitter.entry("statics")
        for variable in code.program.statics:
            self._load(code, variable)
        self._active.append(code)
        yield
        self._active.pop()

    def _load(self, code: Code, variable: Variable) -> None:
        structs = code.program.structs
        if variable.is_shared:
            for earlier in self._active:
                for other in earlier.program.statics:
                    if other.is_shared and self._keys[other] == self._keys[variable]:
                        code.variables[variable] = _retyped(earlier.variables[other], variable.type, structs)
                        return
        home, is_pointed = self._homes[variable], self._keys[variable] in self._pointed
        if is_pointed or _parts(variable.type, structs) > _MOST_PARTS:
            code.variables[variable] = home
            self.in_place = True
            return
        site = code.variables[variable] = self._site(code, home, variable.name)
        _copy(code.stored, code.emitter, site, home)

    def _site(self, code: Code, home: InMemory, name: str) -> StoredSite:
        """Where a value is while the event runs: in variables, but arrays in place."""
        match home.type:
            case Ref(struct):
                fields = []
                for field in code.program.structs[struct].fields:
                    inner = code.stored.field(code.emitter, home, field)
                    assert isinstance(inner, InMemory)
                    fields.append((field.name, self._site(code, inner, f"{name}_{field.name}")))
                return Scattered(home.type, (), tuple(fields), struct)
            case Array():
                self.in_place = True
                return home
        return code.stored.scattered(code.emitter, home.type, name)

    def store(self, code: Code) -> None:
        """Writes the end of an event that succeeds, in the program that is being written."""
        if self.stores_strings:
            self._store_strings(code)
        done = set()
        for active in self._active:
            for variable in active.program.statics:
                if self._keys[variable] in done or (variable.is_const and not self.stores_strings):
                    continue
                done.add(self._keys[variable])
                _copy(active.stored, code.emitter, self._homes[variable], active.variables[variable])

    def _store_strings(self, code: Code) -> None:
        """Copies all static strings to the block that they are not in."""
        emitter, stored = code.emitter, code.stored
        needed = emitter.temporary()
        emitter.entry("statics")
        emitter.line(f"{needed} = 0")

        def measure(site: StoredSite) -> None:
            emitter.line(f"{needed} += {stored.string(emitter, site)[1]} + 1")

        self._each_text(emitter, measure)
        code.spend(f"({needed} >> 3)", 0)
        stored.charge(emitter, emitter.temp(f"({needed} + 7) & -8"), 0)
        emitter.out_of("strings", f"{needed} > {emitter.entry('strings_size')}", needed)
        side = emitter.temp("load_int64(statics)")
        other, own, at = emitter.entry("strings_other"), emitter.entry("strings"), emitter.temporary()
        emitter.line(f"{at} = {other} if {side} == 0 else {own}", f"store_int64(statics, 1 - {side})")

        def move(site: StoredSite) -> None:
            address, length = (emitter.temp(part) for part in stored.string(emitter, site))
            emitter.line(f"copy({at}, {address}, {length})", f"store_int8({at} + {length}, 0)")
            stored.store(emitter, site, (f"({at} if {address} != 0 else 0)", length))
            emitter.line(f"{at} += {length} + 1")

        self._each_text(emitter, move)

    def _each_text(self, emitter: Emitter, act: Callable[[StoredSite], None]) -> None:
        """Writes something for each string, also of programs that this event does not reach."""
        sites: dict[str, tuple[Stored, StoredSite, ValueType]] = {}
        for variable, home in self._homes.items():
            sites.setdefault(self._keys[variable], (self._stored[variable], home, variable.type))
        for active in self._active:
            for variable in active.program.statics:
                sites[self._keys[variable]] = self._stored[variable], active.variables[variable], variable.type
        for stored, site, type_ in sites.values():
            _strings(stored, emitter, site, type_, act)

    def save(self) -> list[str]:
        """The kernel's lines before an event."""
        return [f"copy(saved, statics, {self.block.size})"] if self.in_place else []

    def restore(self) -> list[str]:
        """The kernel's lines after an event that failed."""
        return [f"copy(statics, saved, {self.block.size})"] if self.in_place else []


def _pointed(program: TypedProgram) -> Iterator[Local]:
    """The variables whose address a program takes."""
    for node in walk(program.body):
        if isinstance(node, AddressOf) and isinstance(base := root(node.place), Local):
            yield base


def _parts(type_: ValueType, structs: Structs) -> int:
    """The numbers and strings of a value outside its arrays."""
    return sum(_parts(f.type, structs) for f in structs[type_.name].fields) if isinstance(type_, Ref) else 1


def _retyped(site: StoredSite, type_: ValueType, structs: Structs) -> StoredSite:
    """A site of one program as another knows it, whose structures may have other names."""
    if isinstance(site, Scattered) and isinstance(type_, Ref):
        types = {field.name: field.type for field in structs[type_.name].fields}
        fields = tuple((name, _retyped(inner, types[name], structs)) for name, inner in site.fields)
        return replace(site, type=type_, fields=fields, of=type_.name)
    return replace(site, type=type_)


def _copy(stored: Stored, emitter: Emitter, to: StoredSite, source: StoredSite) -> None:
    """Copies the numbers and strings of a value between variables and memory; what is used in place stays there."""
    if isinstance(to, InMemory) and isinstance(source, InMemory):
        return
    if isinstance(to.type, Ref):
        for field in stored.structs[to.type.name].fields:
            _copy(stored, emitter, stored.field(emitter, to, field), stored.field(emitter, source, field))
    elif to.type == STRING:
        stored.store(emitter, to, stored.string(emitter, source))
    else:
        assert isinstance(to.type, Basic)
        stored.store(emitter, to, (stored.number(emitter, source, to.type),))


def _strings(
    stored: Stored, emitter: Emitter, site: StoredSite, type_: ValueType, act: Callable[[StoredSite], None]
) -> None:
    """Writes something for every string in a value."""
    if not holds_strings(type_, stored.structs):
        return
    match type_:
        case Array():
            count = 1
            for dim in type_.dims:
                count *= int(dim)
            index = emitter.name("each")
            with emitter.block(f"for {index} in range({count}):"):
                element = stored.element(emitter, site, type_, index)
                inner = InMemory(element.type, emitter.temp(element.address))
                _strings(stored, emitter, inner, type_.element, act)
        case Ref():
            for field in stored.structs[type_.name].fields:
                _strings(stored, emitter, stored.field(emitter, site, field), field.type, act)
        case _:
            act(site)
