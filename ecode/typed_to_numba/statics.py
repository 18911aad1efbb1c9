"""Static variables in generated code.

They live in one block, `statics`. Numbers and strings are loaded into variables when an event begins and stored when it
succeeds; arrays and records are used in place, and the kernel restores the whole block after a trap. The characters of
static strings lie in one of two blocks: an event that changes a string writes all strings to the other block.
"""

from __future__ import annotations

from collections.abc import Callable

from ecode.outcome import holds_strings, static_names, stores_strings
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import ValueType, Variable
from ecode.typed_to_numba.code import Code
from ecode.typed_to_numba.stored import InMemory, MemoryBlock, Scattered
from ecode.types import STRING, Array, Basic, Ref

# The first word of `statics` says which block holds the strings.
_SIDE = 8


class StaticsText:
    """Writes what the static variables of a program need."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.block = MemoryBlock("statics")
        self.block.size = _SIDE
        self.homes: dict[Variable, InMemory] = {}
        self.in_place = False
        self.stores_strings = stores_strings(code.program)

    def place(self, variable: Variable, is_pointed: bool) -> None:
        code = self.code
        size = MEMORY_LAYOUT.size(variable.type, code.program.structs)
        home = self.homes[variable] = InMemory(variable.type, self.block.take(size))
        if isinstance(variable.type, Basic) and not is_pointed:
            code.variables[variable] = code.stored.scattered(code.emitter, variable.type, variable.name)
        else:
            code.variables[variable] = home
            self.in_place = True

    def layout(self) -> tuple[tuple[str, ValueType, int], ...]:
        """Name, type and offset of each variable in the block."""
        names = static_names(self.code.program)
        offsets = {v: int(home.address.partition(" + ")[2]) for v, home in self.homes.items()}
        return tuple((names[variable], variable.type, offset) for variable, offset in offsets.items())

    @property
    def entries(self) -> list[str]:
        return [] if not self.homes else ["statics"] + (["saved"] if self.in_place else [])

    def load(self) -> None:
        """Writes the start of an event."""
        code = self.code
        if self.homes:
            code.emitter.entry("statics")
        for variable, home in self.homes.items():
            site = code.variables[variable]
            if isinstance(site, Scattered):
                stored, emitter = code.stored, code.emitter
                if variable.type == STRING:
                    stored.store(emitter, site, stored.string(emitter, home))
                else:
                    assert isinstance(variable.type, Basic)
                    stored.store(emitter, site, (stored.number(emitter, home, variable.type),))

    def store(self) -> None:
        """Writes the end of an event that does not trap."""
        code = self.code
        if self.stores_strings:
            self._store_strings()
        for variable, home in self.homes.items():
            site = code.variables[variable]
            if isinstance(site, Scattered) and not variable.is_const:
                if variable.type == STRING:
                    code.stored.store(code.emitter, home, code.stored.string(code.emitter, site))
                else:
                    assert isinstance(variable.type, Basic)
                    code.stored.store(code.emitter, home, (code.stored.number(code.emitter, site, variable.type),))

    def _store_strings(self) -> None:
        """Copies all static strings to the block that they are not in."""
        code, emitter, stored = self.code, self.code.emitter, self.code.stored
        needed = emitter.temporary()
        emitter.line(f"{needed} = 0")

        def measure(site: Scattered | InMemory) -> None:
            emitter.line(f"{needed} += {stored.string(emitter, site)[1]} + 1")

        self._each_text(measure)
        code.spend(f"({needed} >> 3)", 0)
        stored.charge(emitter, emitter.temp(f"({needed} + 7) & -8"), 0)
        emitter.out_of("strings", f"{needed} > {emitter.entry('strings_size')}", needed)
        side = emitter.temp("load_int64(statics)")
        other, own, at = emitter.entry("strings_other"), emitter.entry("strings"), emitter.temporary()
        emitter.line(f"{at} = {other} if {side} == 0 else {own}", f"store_int64(statics, 1 - {side})")

        def move(site: Scattered | InMemory) -> None:
            address, length = (emitter.temp(part) for part in stored.string(emitter, site))
            emitter.line(f"copy({at}, {address}, {length})", f"store_int8({at} + {length}, 0)")
            stored.store(emitter, site, (f"({at} if {address} != 0 else 0)", length))
            emitter.line(f"{at} += {length} + 1")

        self._each_text(move)

    def _each_text(self, act: Callable[[Scattered | InMemory], None]) -> None:
        """Writes something for each static string."""
        for variable in self.homes:
            self._strings(self.code.variables[variable], variable.type, act)

    def _strings(
        self, site: Scattered | InMemory, type_: ValueType, act: Callable[[Scattered | InMemory], None]
    ) -> None:
        """Writes something for every string in a value."""
        structs, emitter, stored = self.code.program.structs, self.code.emitter, self.code.stored
        if not holds_strings(type_, structs):
            return
        match type_:
            case Array():
                count = 1
                for dim in type_.dims:
                    count *= int(dim)
                index = emitter.name("each")
                with emitter.block(f"for {index} in range({count}):"):
                    element = stored.element(emitter, site, type_, index)
                    self._strings(InMemory(element.type, emitter.temp(element.address)), type_.element, act)
            case Ref():
                for field in structs[type_.name].fields:
                    self._strings(stored.field(emitter, site, field), field.type, act)
            case _:
                act(site)

    def save(self) -> list[str]:
        """The kernel's lines before an event."""
        return [f"copy(saved, statics, {self.block.size})"] if self.in_place else []

    def restore(self) -> list[str]:
        """The kernel's lines after an event that failed."""
        return [f"copy(statics, saved, {self.block.size})"] if self.in_place else []
