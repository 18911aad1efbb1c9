"""Input columns as text: where a field of an event is in its column's buffers."""

from __future__ import annotations

from dataclasses import dataclass

from ecode.columns.column import ITEMS, TARGET, static_count
from ecode.typed import ValueType
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.stored import loaded, plus, zero_of
from ecode.types import STRING, Array, Basic, Field, Pointer

# Which buffer of which column the host passes in: parameter, path of children, attribute of `Column`.
Source = tuple[str, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class ColumnSite:
    """A value: the path of its column, and its index there. `base` is where a dynamic array's elements begin. `there`
    is the condition that no null pointer led here, "" where none can."""

    path: tuple[str, ...]
    index: str
    type: ValueType | None = None
    base: str = ""
    there: str = ""


class ColumnBinding:
    """Reads a parameter from columns.

    Args:
        param: its name.
        type_: its type in the typed tree.
        is_block: it is a parameter block: one value for all events.

    Attributes:
        sources: the buffer behind each table entry.
    """

    def __init__(self, param: str, type_: ValueType, *, is_block: bool = False) -> None:
        self.param, self.type, self.is_block = param, type_, is_block
        self.sources: dict[str, Source] = {}
        self._names: dict[Source, str] = {}

    def _entry(self, emitter: Emitter, path: tuple[str, ...], part: str) -> str:
        source = (self.param, path, part)
        if source not in self._names:
            words = [self.param, *(p for p in path if p not in (ITEMS, TARGET)), part]
            self._names[source] = emitter.name("_".join(words))
            self.sources[self._names[source]] = source
        return emitter.entry(self._names[source])

    def root(self, emitter: Emitter) -> ColumnSite:
        return ColumnSite((), "0" if self.is_block else "event", self.type)

    def field(self, emitter: Emitter, site: ColumnSite, field: Field) -> ColumnSite:
        path = (*site.path, field.name)
        if isinstance(field.type, Array) and field.type.is_dynamic:
            offsets = self._entry(emitter, path, "offsets")
            base = emitter.temp(f"load_int32({_at(offsets, 4, site.index)})")
            return ColumnSite(path, site.index, field.type, base, site.there)
        return ColumnSite(path, site.index, field.type, "", site.there)

    def element(self, emitter: Emitter, site: ColumnSite, array: Array, index: str) -> ColumnSite:
        base = site.base or f"{static_count(array)} * ({site.index})"
        index = base if index == "0" else f"{base} + {index}"
        return ColumnSite((*site.path, ITEMS), index, array.element, "", site.there)

    def elements(self, emitter: Emitter, site: ColumnSite) -> str | None:
        if not isinstance(site.type, Array) or not isinstance(site.type.element, Basic) or site.type.element == STRING:
            return None
        base = site.base or f"{static_count(site.type)} * ({site.index})"
        block = _at(self._entry(emitter, (*site.path, ITEMS), "data"), site.type.element.size, base)
        return f"({block} if {site.there} else 0)" if site.there else block

    def target(self, emitter: Emitter, site: ColumnSite) -> ColumnSite:
        # Where a pointer is null, the bytes of its column are arbitrary; they read as zero.
        target = site.type.target if isinstance(site.type, Pointer) else None
        return ColumnSite((*site.path, TARGET), site.index, target, "", self.present(emitter, site))

    def present(self, emitter: Emitter, site: ColumnSite) -> str:
        here = f"load_uint8({_at(self._entry(emitter, site.path, 'present'), 1, site.index)}) != 0"
        return f"{site.there} and {here}" if site.there else here

    def number(self, emitter: Emitter, site: ColumnSite, type_: Basic) -> str:
        text = loaded(type_, _at(self._entry(emitter, site.path, "data"), type_.size, site.index))
        return f"({text} if {site.there} else {zero_of(type_)})" if site.there else text

    def string(self, emitter: Emitter, site: ColumnSite) -> tuple[str, str]:
        offsets = emitter.temp(_at(self._entry(emitter, site.path, "offsets"), 4, site.index))
        start = emitter.temp(f"load_int32({offsets})")
        data = self._entry(emitter, site.path, "data")
        return f"({data} + {start} if {self.present(emitter, site)} else 0)", f"(load_int32({offsets} + 4) - {start})"


def _at(buffer: str, size: int, index: str) -> str:
    """The address of an element of a buffer."""
    if size == 1:
        return plus(buffer, index)
    return (
        buffer
        if index == "0"
        else f"{buffer} + {size} * {index}"
        if index.isidentifier()
        else f"{buffer} + {size} * ({index})"
    )
