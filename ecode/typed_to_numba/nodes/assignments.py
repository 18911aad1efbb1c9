"""Assignments as text: what is stored, and the arrays that a new extent resizes."""

from __future__ import annotations

from functools import partial

from ecode.typed import Assign, CompoundAssign, FieldOf, Place
from ecode.typed_to_numba import numbers
from ecode.typed_to_numba.code import Code, Parts, in_order
from ecode.typed_to_numba.nodes.operators import arithmetic, moved
from ecode.typed_to_numba.nodes.places import located
from ecode.typed_to_numba.stored import StoredSite, extent_of
from ecode.types import INT64, Array, Basic, Pointer


def assign(code: Code, node: Assign, *, is_wanted: bool = True) -> Parts:
    """Stores a value, which is already converted."""
    from ecode.typed_to_numba.nodes.expressions import value

    def where() -> Parts:
        sites.append(_writable(code, node.place, node.resizes))
        return ()

    sites: list[_Target] = []
    parts, _ = in_order(code, partial(value, code, node.value), where)
    written = sites[0]
    if is_wanted or len(written.arrays):
        parts = tuple(code.emitter.temp(part) for part in parts)
    written.store(code, parts, node.at)
    return parts


def update(code: Code, node: CompoundAssign, *, is_wanted: bool = True) -> Parts:
    """`place op= value` and `++`."""
    from ecode.typed_to_numba.nodes.expressions import value

    def where() -> Parts:
        sites.append(_writable(code, node.place, node.resizes))
        return ()

    emitter = code.emitter
    sites: list[_Target] = []
    (by,), _ = in_order(code, partial(value, code, node.value), where)
    written = sites[0]
    if isinstance(node.common, Pointer):
        pointer: Parts = code.stored.pointer(written.site)
        if node.is_old:
            pointer = tuple(emitter.temp(part) for part in pointer)
        offset = numbers.negated(by, INT64) if node.op == "-" else by
        after = moved(code, pointer, offset, node.common, node.at)
        if is_wanted and not node.is_old:
            after = tuple(emitter.temp(part) for part in after)
        written.store(code, after, node.at)
        return pointer if node.is_old else after
    assert isinstance(node.type, Basic)
    assert isinstance(node.common, Basic)
    assert isinstance(node.place.type, Basic)
    old = code.stored.number(emitter, written.site, node.place.type)
    if (is_wanted and node.is_old) or len(written.arrays):
        old = emitter.temp(old)
    widened = numbers.converted(old, node.type, node.common)
    result = arithmetic(code, node.op, widened, by, node.common, node.at)
    new = numbers.converted(result, node.common, node.type)
    if (is_wanted and not node.is_old) or len(written.arrays):
        new = emitter.temp(new)
    written.store(code, (new,), node.at)
    return (old if node.is_old else new,)


class _Target:
    """A place that will be written, and the arrays whose extent it is."""

    def __init__(self, site: StoredSite, arrays: list[tuple[StoredSite, list[str], str]]) -> None:
        self.site, self.arrays = site, arrays

    def store(self, code: Code, parts: Parts, at: int) -> None:
        emitter, stored = code.emitter, code.stored
        olds = [(site, dims, emitter.temp(" * ".join(dims))) for site, dims, _ in self.arrays]
        stored.store(emitter, self.site, parts)
        for (site, _, old), (_, dims, _) in zip(olds, self.arrays, strict=True):
            total = stored.total(emitter, dims, at, is_limited=True)
            assert isinstance(site.type, Array)
            spend = partial(_spend_elements, code, code.work.value(site.type.element), at)
            stored.resize(emitter, site, old, total, at, spend)


def _spend_elements(code: Code, units: int, at: int, count: str) -> None:
    code.spend(f"{units} * {count}", at)


def _writable(code: Code, place: Place, resizes: tuple[str, ...]) -> _Target:
    if not resizes:
        _, site = located(code, place)
        return _Target(site, [])
    assert isinstance(place, FieldOf)
    reader, record = located(code, place.record)
    fields = {name: code.field(place.struct, name) for name in (place.name, *resizes)}
    site = reader.field(code.emitter, record, fields[place.name])
    arrays = []
    for name in resizes:
        type_ = fields[name].type
        assert isinstance(type_, Array)
        dims = []
        for dim in type_.dims:
            if isinstance(dim, int):
                dims.append(str(dim))
            else:
                size = code.field(place.struct, dim)
                assert isinstance(size.type, Basic)
                number_there = reader.number(code.emitter, reader.field(code.emitter, record, size), size.type)
                dims.append(extent_of(size.type, number_there))
        arrays.append((reader.field(code.emitter, record, fields[name]), dims, name))
    return _Target(site, arrays)
