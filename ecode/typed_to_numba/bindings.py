"""Bindings: text that reads the fields of a parameter.

Generated code reads an input record through a `Binding` and hands a finished output record to a `Sink`. Both return
Python source text that is inlined into the loop over events; neither knows anything of E-code. A *site* is whatever a
binding remembers about a place while text is generated; only the binding looks into it.

Values in generated text:

* integers are int64 in the range of their type, unsigned 64-bit ones the int64 of the same bits;
* a string is two expressions, its address (0: absent) and its length;
* a pointer is three: address (0: null), and the bounds that the address may be moved in.

Text may call what `ecode.native` gives to kernels. A binding checks the data with lines that it emits before the text
that relies on them: `emitter.trap(condition, TrapKind.BAD_RECORD, 0)` ends the event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from ecode.typed import Structs, ValueType
from ecode.types import Array, Basic, Field

if TYPE_CHECKING:
    from ecode.typed_to_numba.emitter import Emitter
    from ecode.typed_to_numba.stored import Home

Site: TypeAlias = Any


class Reader(Protocol):
    """Reads the values below a site. The expressions that it returns must have no side effects."""

    def field(self, emitter: Emitter, site: Site, field: Field) -> Site:
        """A field of the record at a site."""
        ...

    def element(self, emitter: Emitter, site: Site, array: Array, index: str) -> Site:
        """An element of the array at a site, by its row-major index, which is already checked against the extents."""
        ...

    def elements(self, emitter: Emitter, site: Site) -> str | None:
        """The address of an array's numbers, if they are contiguous and in the machine's own form; else None. It is 0
        for an absent array."""
        ...

    def target(self, emitter: Emitter, site: Site) -> Site:
        """The target of the pointer at a site; zeros if the pointer is null."""
        ...

    def present(self, emitter: Emitter, site: Site) -> str:
        """The condition that the field is present, or that the pointer is not null."""
        ...

    def number(self, emitter: Emitter, site: Site, type_: Basic) -> str:
        """The number at a site."""
        ...

    def string(self, emitter: Emitter, site: Site) -> tuple[str, str]:
        """Address and length of the string at a site."""
        ...


class Binding(Reader, Protocol):
    """Where one input parameter is read from. Each field outside arrays and pointers is requested once, and its number
    loaded once, when the event begins."""

    def root(self, emitter: Emitter) -> Site:
        """The parameter as a whole, for the current event."""
        ...


class Sink(Protocol):
    """Where finished output records go."""

    def write(self, emitter: Emitter, source: Reader, site: Site, written: WrittenFields) -> None:
        """Emits the lines that write the record at a site of `source`. They may ask for more memory
        (`emitter.out_of`); the event then runs again, so nothing may count as written before the event passes. A sink
        with `leaves` set to True writes everything up to the event's end."""
        ...


@runtime_checkable
class HomeSink(Sink, Protocol):
    """A sink that can say beforehand where arrays will be, so that they are built in place."""

    def home(self, field: str, array: Array) -> Callable[[Emitter], Home] | None:
        """A function that finds where the elements of an array of the record will be, if its event leaves a row. None
        if they are not there in the program's form."""
        ...


@dataclass(frozen=True, slots=True)
class WrittenFields:
    """What a sink writes: the type, and which of its fields the program ever writes (the others are null).

    `fields` are paths from the record, e.g. `("position", "x")`; a path includes all below it.
    """

    type: ValueType
    structs: Structs
    fields: frozenset[tuple[str, ...]]

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether a field, or some of it, is written."""
        return any(path[: len(written)] == written[: len(path)] for written in self.fields)
