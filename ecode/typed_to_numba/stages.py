"""Programs in a row, as one event: what one program makes is the next one's input, and never leaves the event's memory.

    first program -> `StageSink` of the second -> ... -> the sink of the last

Where a program ends well, the text of the next one follows; if any of them drops the event or traps, the event is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ecode.bindings import Reader, Sink, Site, Written
from ecode.environment import Mode
from ecode.errors import NotCompilable
from ecode.limits import Limits
from ecode.typed import Structs, TypedProgram, ValueType
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.event import Event, Keep, Shared
from ecode.types import Array, Basic, Field, Pointer, Ref

MOST_ENDS = 64
"""How often the text of a program may be repeated because those before it end in several places."""


class StageSink:
    """Feeds the output of one program to the next.

    Args:
        program: the next program; it has one input and no static variables.
        number: of the program, for the sites of its traps.
        sinks: what follows: for each of its outputs, or for its input.
        shared: by all programs of the row.
    """

    def __init__(
        self, program: TypedProgram, number: int, sinks: Mapping[str, Sink], limits: Limits, shared: Shared
    ) -> None:
        if any(variable.is_static for variable in program.variables):
            raise NotCompilable("a program behind another one cannot have static variables")
        self.program, self.number, self.sinks, self.limits, self.shared = program, number, sinks, limits, shared
        (self.input,) = (param.name for param in program.params if param.mode is not Mode.OUT)
        self._written = 0

    def write(self, emitter: Emitter, source: Reader, site: Site, written: Written) -> None:
        self._written += 1
        if self._written > MOST_ENDS:
            raise NotCompilable(f"the programs before this one end in more than {MOST_ENDS} places")
        before, emitter.program = emitter.program, self.number
        bindings = {self.input: _Made(source, _MadeSite(site, written.type), written.structs)}
        Event(self.program, bindings, self.sinks, self.limits, Keep.PASSED, None, self.shared, emitter).write()
        emitter.program = before


@dataclass(frozen=True, slots=True)
class _MadeSite:
    """A site of the program before, and its type there: the same as here but for the names of structures."""

    site: Site
    type: ValueType


class _Made:
    """Reads what the program before has made, through that program's reader."""

    def __init__(self, reader: Reader, root: _MadeSite, structs: Structs) -> None:
        self._reader, self._root, self._structs = reader, root, structs

    def root(self, emitter: Emitter) -> _MadeSite:
        return self._root

    def field(self, emitter: Emitter, site: _MadeSite, field: Field) -> _MadeSite:
        assert isinstance(site.type, Ref)
        theirs = self._structs[site.type.name].find(field.name)
        assert theirs is not None
        return _MadeSite(self._reader.field(emitter, site.site, theirs), theirs.type)

    def element(self, emitter: Emitter, site: _MadeSite, array: Array, index: str) -> _MadeSite:
        assert isinstance(site.type, Array)
        return _MadeSite(self._reader.element(emitter, site.site, site.type, index), site.type.element)

    def elements(self, emitter: Emitter, site: _MadeSite) -> str | None:
        return self._reader.elements(emitter, site.site)

    def target(self, emitter: Emitter, site: _MadeSite) -> _MadeSite:
        assert isinstance(site.type, Pointer)
        return _MadeSite(self._reader.target(emitter, site.site), site.type.target)

    def present(self, emitter: Emitter, site: _MadeSite) -> str:
        return self._reader.present(emitter, site.site)

    def number(self, emitter: Emitter, site: _MadeSite, type_: Basic) -> str:
        return self._reader.number(emitter, site.site, type_)

    def string(self, emitter: Emitter, site: _MadeSite) -> tuple[str, str]:
        return self._reader.string(emitter, site.site)
