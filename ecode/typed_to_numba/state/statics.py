"""The state of programs in generated code: static variables, and parameters of mode `state`.

All programs in a row keep theirs in one block, `statics`. Numbers and strings are loaded into variables when an event
begins and stored when it succeeds. Arrays, and records with many parts, are used in place; if an event can fail after
it wrote to the block, the kernel restores the whole block after such an event. The characters of strings are in one of
two
blocks: an event that may have changed a string writes all strings to the other block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from ecode.outcome import holds_strings, static_names, stores_strings
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import AddressOf, Structs, TypedProgram, ValueType, Variable, root, walk
from ecode.typed.places import Local
from ecode.typed_to_numba.code import Code
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.stored import InMemory, MemoryBlock, Scattered, Stored, StoredSite
from ecode.types import STRING, Array, Basic, Ref

# The first word of `statics` selects the block that holds the strings.
_SIDE = 8

_MOST_PARTS = 32
"""The most numbers and strings of a record that are kept in variables; a larger record is used in place."""


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
        programs: the programs, with the prefix of the variables of each in the host's state, as in `filter.n`.

    Attributes:
        layout: the layout of the block.
        is_saved: whether the kernel saves the block before each event.
    """

    def __init__(self, programs: Sequence[tuple[str, TypedProgram]]) -> None:
        self.block = MemoryBlock("statics")
        self.block.size = _SIDE
        self.layout: list[Static] = []
        self.is_saved = False
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
        return [] if not self._homes else ["statics"] + (["saved"] if self.is_saved else [])

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
            return
        site = code.variables[variable] = self._site(code, home, variable.name)
        _copy(code.stored, code.emitter, site, home)

    def _site(self, code: Code, home: InMemory, name: str) -> StoredSite:
        """The site of a value while the event runs: in variables, but arrays in place."""
        match home.type:
            case Ref(struct):
                fields = []
                for field in code.program.structs[struct].fields:
                    inner = code.stored.field(code.emitter, home, field)
                    assert isinstance(inner, InMemory)
                    fields.append((field.name, self._site(code, inner, f"{name}_{field.name}")))
                return Scattered(home.type, (), tuple(fields), struct)
            case Array():
                return home
        return code.stored.scattered(code.emitter, home.type, name)

    def store(self, code: Code) -> None:
        """Writes the end of a successful event, in the current program."""
        if self.stores_strings:
            self._store_strings(code)
        done = set()
        for active in self._active:
            for variable in active.program.statics:
                if self._keys[variable] not in done:
                    done.add(self._keys[variable])
                    # Strings have not moved, or have just been stored.
                    home, site = self._homes[variable], active.variables[variable]
                    _copy(active.stored, code.emitter, home, site, has_strings=False)

    def _store_strings(self, code: Code) -> None:
        """Charges for all static strings and, if one has changed, copies them all to the block that they are not in."""
        emitter, stored = code.emitter, code.stored
        needed = emitter.temporary()
        emitter.entry("statics")
        emitter.line(f"{needed} = 0")

        def measure(site: StoredSite, home: StoredSite) -> None:
            emitter.line(f"{needed} += {stored.string(emitter, site)[1]} + 1")

        self._each_text(emitter, measure)
        code.spend(f"({needed} >> 3)", 0)
        stored.charge(emitter, emitter.temp(f"({needed} + 7) & -8"), 0)
        with self._if_changed(emitter):
            emitter.out_of("strings", f"{needed} > {emitter.entry('strings_size')}", needed)
            side = emitter.temp("load_int64(statics)")
            other, own, at = emitter.entry("strings_other"), emitter.entry("strings"), emitter.temporary()
            emitter.line(f"{at} = {other} if {side} == 0 else {own}", f"store_int64(statics, 1 - {side})")

            def move(site: StoredSite, home: StoredSite) -> None:
                address, length = (emitter.temp(part) for part in stored.string(emitter, site))
                emitter.line(f"copy({at}, {address}, {length})", f"store_int8({at} + {length}, 0)")
                stored.store(emitter, home, (f"({at} if {address} != 0 else 0)", length))
                emitter.line(f"{at} += {length} + 1")

            self._each_text(emitter, move)

    def _if_changed(self, emitter: Emitter) -> AbstractContextManager[None]:
        """The condition that a program has changed a string; no condition if strings are used in place."""
        conditions: list[str] = []
        for active in self._active:
            for variable in active.program.statics:
                conditions += _changed(active.stored, emitter, active.variables[variable], self._homes[variable])
        return nullcontext() if "" in conditions else emitter.block(f"if {' or '.join(conditions) or 'False'}:")

    def _each_text(self, emitter: Emitter, act: Callable[[StoredSite, StoredSite], None]) -> None:
        """Writes something for each string and its home, including those of programs that this event does not reach."""
        found: dict[str, tuple[Stored, StoredSite, InMemory]] = {}
        for variable, home in self._homes.items():
            found.setdefault(self._keys[variable], (self._stored[variable], home, home))
        for active in self._active:
            for variable in active.program.statics:
                site, home = active.variables[variable], self._homes[variable]
                found[self._keys[variable]] = self._stored[variable], site, home
        for stored, site, home in found.values():
            _strings(stored, emitter, site, home, act)

    def save(self) -> list[str]:
        """The kernel's lines before an event."""
        return [f"copy(saved, statics, {self.block.size})"] if self.is_saved else []

    def restore(self) -> list[str]:
        """The kernel's lines after an event that failed."""
        return [f"copy(statics, saved, {self.block.size})"] if self.is_saved else []


def _pointed(program: TypedProgram) -> Iterator[Local]:
    """The variables whose address a program takes."""
    for node in walk(program.body):
        if isinstance(node, AddressOf) and isinstance(base := root(node.place), Local):
            yield base


def _parts(type_: ValueType, structs: Structs) -> int:
    """The number of a value's numbers and strings outside arrays."""
    return sum(_parts(f.type, structs) for f in structs[type_.name].fields) if isinstance(type_, Ref) else 1


def _retyped(site: StoredSite, type_: ValueType, structs: Structs) -> StoredSite:
    """A site of one program for another, whose structures may have other names."""
    if isinstance(site, Scattered) and isinstance(type_, Ref):
        types = {field.name: field.type for field in structs[type_.name].fields}
        fields = tuple((name, _retyped(inner, types[name], structs)) for name, inner in site.fields)
        return replace(site, type=type_, fields=fields, of=type_.name)
    return replace(site, type=type_)


def _copy(stored: Stored, emitter: Emitter, to: StoredSite, source: StoredSite, *, has_strings: bool = True) -> None:
    """Copies the numbers and strings of a value between variables and memory; values used in place stay there."""
    if isinstance(to, InMemory) and isinstance(source, InMemory):
        return
    if isinstance(to.type, Ref):
        for field in stored.structs[to.type.name].fields:
            one, other = stored.field(emitter, to, field), stored.field(emitter, source, field)
            _copy(stored, emitter, one, other, has_strings=has_strings)
    elif to.type != STRING:
        assert isinstance(to.type, Basic)
        stored.store(emitter, to, (stored.number(emitter, source, to.type),))
    elif has_strings:
        stored.store(emitter, to, stored.string(emitter, source))


def _changed(stored: Stored, emitter: Emitter, site: StoredSite, home: StoredSite) -> list[str]:
    """Conditions, one of which holds if a string of a value differs from the one at its home; "" if unknown."""
    if not holds_strings(home.type, stored.structs):
        return []
    if isinstance(site, InMemory):
        return [""]
    if isinstance(home.type, Ref):
        fields = stored.structs[home.type.name].fields
        inner = [[stored.field(emitter, place, field) for place in (site, home)] for field in fields]
        return [condition for one, other in inner for condition in _changed(stored, emitter, one, other)]
    pairs = zip(stored.string(emitter, site), stored.string(emitter, home), strict=True)
    return [f"{now} != {before}" for now, before in pairs]


def _strings(
    stored: Stored,
    emitter: Emitter,
    site: StoredSite,
    home: StoredSite,
    act: Callable[[StoredSite, StoredSite], None],
) -> None:
    """Writes something for every string in a value."""
    type_ = home.type
    if not holds_strings(type_, stored.structs):
        return
    match type_:
        case Array():
            # Arrays are always in place.
            count = 1
            for dim in type_.dims:
                count *= int(dim)
            index = emitter.name("each")
            with emitter.block(f"for {index} in range({count}):"):
                element = stored.element(emitter, home, type_, index)
                assert isinstance(element, InMemory)
                each = InMemory(element.type, emitter.temp(element.address))
                _strings(stored, emitter, each, each, act)
        case Ref():
            for field in stored.structs[type_.name].fields:
                inner = stored.field(emitter, home, field)
                _strings(stored, emitter, stored.field(emitter, site, field), inner, act)
        case _:
            act(site, home)
