"""Places: their readers, their sites, and the checks on the way there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ecode.errors import TrapKind
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import AddressOf, Element, FieldOf, Local, Parameter, Place, Read, Target, is_of_input, place_text
from ecode.typed_to_numba.bindings import Reader, Site
from ecode.typed_to_numba.code import Code, Parts, in_order, static_path
from ecode.typed_to_numba.stored import InMemory
from ecode.types import Array, Basic


def located(code: Code, place: Place) -> tuple[Reader, Site]:
    """Writes the lines that lead to a place, and returns its reader and site."""
    match place:
        case Local():
            return code.stored, code.variables[place.variable]
        case Parameter():
            return code.roots[place.param.name]
        case FieldOf():
            path = static_path(place)
            if path in code.sites:
                return code.roots[path[0]][0], code.sites[path]
            reader, site = located(code, place.record)
            return reader, reader.field(code.emitter, site, code.field(place.struct, place.name))
        case Element():
            array, index, _ = element(code, place)
            return array.reader, array.reader.element(code.emitter, array.site, array.type, index)
        case Target():
            return _target(code, place)


def _target(code: Code, place: Target) -> tuple[Reader, Site]:
    from ecode.typed_to_numba.nodes.expressions import value

    emitter = code.emitter
    is_of_event = isinstance(place.pointer, Read) and is_of_input(place.pointer.place)
    if isinstance(place.pointer, Read):
        reader, site = located(code, place.pointer.place)
        if not code.is_stored(reader):
            return reader, reader.target(emitter, site)
    address, _, high = value(code, place.pointer)
    address = emitter.named(address)
    if is_of_event:
        # A pointer without a target in the event reads as zeros.
        return code.stored, code.stored.nothing(emitter, place.type, address)
    emitter.trap(f"{address} >= {high}", TrapKind.INDEX_OUT_OF_RANGE, place.at)
    return code.stored, InMemory(place.type, address)


@dataclass(frozen=True, slots=True)
class ArrayAt:
    """A located array: its elements, and the record whose size fields hold its dynamic extents."""

    type: Array
    reader: Reader
    site: Site
    place: Place
    record: Site

    def extents(self, code: Code) -> list[str]:
        """The current extents."""
        return [str(dim) if isinstance(dim, int) else self._size(code, dim) for dim in self.type.dims]

    def _size(self, code: Code, name: str) -> str:
        assert isinstance(self.place, FieldOf), "only fields have dynamic extents"
        outer = static_path(self.place.record)
        if outer is not None and (*outer, name) in code.preloaded:
            return code.preloaded[*outer, name]
        field = code.field(self.place.struct, name)
        assert isinstance(field.type, Basic)
        site = self.reader.field(code.emitter, self.record, field)
        return code.emitter.named(self.reader.number(code.emitter, site, field.type))


def array_at(code: Code, place: Place) -> ArrayAt:
    """Locates an array and the record that contains it, once."""
    assert isinstance(place.type, Array)
    if not isinstance(place, FieldOf):
        reader, site = located(code, place)
        return ArrayAt(place.type, reader, site, place, None)
    reader, record = located(code, place.record)
    path = static_path(place)
    known = path is not None and path in code.sites
    site = (
        code.sites[path] if known and path else reader.field(code.emitter, record, code.field(place.struct, place.name))
    )
    return ArrayAt(place.type, reader, site, place, record)


def element(code: Code, place: Element) -> tuple[ArrayAt, str, str]:
    """The array that contains an element, the element's checked row-major index, and the number of elements."""
    from ecode.typed_to_numba.nodes.expressions import value

    emitter = code.emitter
    indices: list[Element] = []
    base: Place = place
    while isinstance(base, Element):
        indices.insert(0, base)
        base = base.array
    array = array_at(code, base)
    parts = in_order(code, *(partial(value, code, one.index) for one in indices))
    dims = array.extents(code)
    flat, name = "", place_text(base)
    for (text,), one, dim in zip(parts, indices, dims, strict=False):
        index = emitter.named(text)
        code.check_index(one.index, index, dim, one.at, name)
        flat = f"({flat}) * {dim} + {index}" if flat else index
    for dim in dims[len(indices) :]:
        flat = f"({flat}) * {dim}"
    return array, flat, " * ".join(dims)


def number(code: Code, place: Place) -> str:
    """The text of a number at a place."""
    path = static_path(place)
    if path in code.preloaded:
        return code.preloaded[path]
    reader, site = located(code, place)
    assert isinstance(place.type, Basic)
    return reader.number(code.emitter, site, place.type)


def address(code: Code, node: AddressOf) -> Parts:
    """A pointer: the address, and its bounds."""
    place, emitter = node.place, code.emitter
    if isinstance(place, Element) or isinstance(place.type, Array):
        if isinstance(place, Element):
            array, index, count = element(code, place)
        else:
            array = array_at(code, place)
            index, count = "0", " * ".join(array.extents(code))
        assert code.is_stored(array.reader), "what pointers point to is stored"
        size = MEMORY_LAYOUT.size(array.type.element, code.program.structs)
        assert isinstance(array.site, InMemory), "what pointers point to is not scattered"
        low = emitter.temp(code.stored.address(array.site))
        if array.type.is_dynamic:
            # A pointer to an empty array is not null.
            low = emitter.temp(f"{low} if {low} != 0 else {array.site.address}")
        return f"{low} + {size} * ({index})", low, f"{low} + {size} * ({count})"
    _, site = located(code, place)
    assert isinstance(site, InMemory)
    low = emitter.temp(site.address)
    return low, low, f"{low} + {MEMORY_LAYOUT.size(place.type, code.program.structs)}"
