"""Programs in a row, as one event: what one program makes is the next one's input, and never leaves the event's memory.

    first program -> `StageSink` of the second -> ... -> the sink of the last

Where a program ends well, the text of the next one follows; if any of them drops the event or traps, the event is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ecode.arithmetic import is_floating, plain
from ecode.bindings import Binding, Reader, Sink, Site, Written
from ecode.environment import Mode
from ecode.errors import NotCompilable
from ecode.limits import Limits
from ecode.outcome import Keep
from ecode.typed import Structs, TypedProgram, ValueType
from ecode.typed_to_numba import numbers
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.event import Event, Shared
from ecode.types import Array, Basic, Default, Field, Pointer, Ref

MOST_ENDS = 64
"""How often the text of a program may be repeated because those before it end in several places."""


class StageSink:
    """Feeds the output of one program to the next.

    Args:
        program: the next program; it has one input beside parameter blocks, and no static variables.
        number: of the program, for the sites of its traps.
        sinks: what follows: for each of its outputs, or for its input.
        shared: by all programs of the row.
        blocks: the bindings of parameter blocks.
    """

    def __init__(
        self,
        program: TypedProgram,
        number: int,
        sinks: Mapping[str, Sink],
        limits: Limits,
        shared: Shared,
        blocks: Mapping[str, Binding],
    ) -> None:
        if any(variable.is_static for variable in program.variables):
            raise NotCompilable("a program behind another one cannot have static variables")
        self.program, self.number, self.sinks, self.limits, self.shared = program, number, sinks, limits, shared
        self.blocks = blocks
        (self.input,) = (param.name for param in program.params if param.mode is Mode.IN)
        self._written = 0

    def write(self, emitter: Emitter, source: Reader, site: Site, written: Written) -> None:
        self._written += 1
        if self._written > MOST_ENDS:
            raise NotCompilable(f"the programs before this one end in more than {MOST_ENDS} places")
        before, emitter.program = emitter.program, self.number
        made = _Made(source, _MadeSite(site, written.type, written.type), written.structs)
        bindings = {self.input: made, **self.blocks}
        Event(self.program, bindings, self.sinks, self.limits, Keep.PASSED, None, self.shared, emitter).write()
        emitter.program = before


@dataclass(frozen=True, slots=True)
class _MadeSite:
    """A site of the program before.

    Attributes:
        site: None where that program has made no such thing: it reads as its default, else zero.
        type: there; it may be another than here, in names of structures and in the width of numbers.
        wanted: the type here.
    """

    site: Site | None
    type: ValueType
    wanted: ValueType
    default: Default = None


class _Made:
    """Reads what the program before has made, through that program's reader, by the names of fields."""

    def __init__(self, reader: Reader, root: _MadeSite, structs: Structs) -> None:
        self._reader, self._root, self._structs = reader, root, structs

    def root(self, emitter: Emitter) -> _MadeSite:
        return self._root

    def field(self, emitter: Emitter, site: _MadeSite, field: Field) -> _MadeSite:
        theirs = self._structs[site.type.name].find(field.name) if isinstance(site.type, Ref) else None
        # Arrays counted by other fields, or of other sizes, would be read beyond their end.
        is_array = isinstance(field.type, Array)
        if site.site is None or theirs is None or (is_array and _dims(theirs.type) != _dims(field.type)):
            return _MadeSite(None, field.type, field.type, field.notes.default)
        return _MadeSite(self._reader.field(emitter, site.site, theirs), theirs.type, field.type)

    def element(self, emitter: Emitter, site: _MadeSite, array: Array, index: str) -> _MadeSite:
        if site.site is None or not isinstance(site.type, Array):
            return _MadeSite(None, array.element, array.element)
        return _MadeSite(self._reader.element(emitter, site.site, site.type, index), site.type.element, array.element)

    def elements(self, emitter: Emitter, site: _MadeSite) -> str | None:
        if site.site is None or not (isinstance(site.type, Array) and isinstance(site.wanted, Array)):
            return None
        theirs, wanted = site.type.element, site.wanted.element
        is_same = isinstance(theirs, Basic) and isinstance(wanted, Basic) and plain(theirs) == plain(wanted)
        return self._reader.elements(emitter, site.site) if is_same else None

    def target(self, emitter: Emitter, site: _MadeSite) -> _MadeSite:
        assert isinstance(site.wanted, Pointer)
        if site.site is None or not isinstance(site.type, Pointer):
            return _MadeSite(None, site.wanted.target, site.wanted.target)
        return _MadeSite(self._reader.target(emitter, site.site), site.type.target, site.wanted.target)

    def present(self, emitter: Emitter, site: _MadeSite) -> str:
        if site.site is None:
            return "True" if site.default is not None else "False"
        return self._reader.present(emitter, site.site)

    def number(self, emitter: Emitter, site: _MadeSite, type_: Basic) -> str:
        wanted = plain(type_)
        assert wanted is not None
        theirs = plain(site.type) if isinstance(site.type, Basic) else None
        if site.site is None or theirs is None or not isinstance(site.type, Basic):
            default = site.default if isinstance(site.default, int | float) else 0
            return numbers.constant(default, wanted)
        number = self._reader.number(emitter, site.site, site.type)
        if theirs == wanted:
            return number
        if is_floating(wanted):
            return f"as_{wanted}({number})"
        if is_floating(theirs):
            return f"saturated_{wanted}({number})"
        return f"as_int64(as_{wanted}({number}))" if wanted.size < 8 else number

    def string(self, emitter: Emitter, site: _MadeSite) -> tuple[str, str]:
        return ("0", "0") if site.site is None else self._reader.string(emitter, site.site)


def _dims(type_: ValueType) -> tuple[int | str, ...]:
    return type_.dims if isinstance(type_, Array) else ()
