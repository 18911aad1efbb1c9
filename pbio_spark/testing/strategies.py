"""Hypothesis strategies: record types, their formats on machines, and values of formats.

    record_types()   ecode.types.Record, including recursive ones
    formats()        a Format: a record type laid out for some machine, of any body version and float format
    values(format)   a record's values in the form of `pbio_spark.wire.decode`: encoding and decoding preserve them

`Limits` leave out of formats and record types what a test's subject cannot handle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

from ecode.types import Array, Basic, Field, Kind, Pointer, Record, Ref, Struct, Type, references
from pbio_spark.formats import Format, StructLayout
from pbio_spark.formats.body.layouts import layouts_to_body
from pbio_spark.formats.body.type_string import SIZES
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.machine import MACHINES

NAMES = st.text(st.sampled_from("abcxyzABC_ 019é"), min_size=1, max_size=6).filter(
    lambda name: name == name.strip() and not name.isdecimal()
)
MACHINE_NAMES = st.sampled_from(sorted(MACHINES))


@dataclass(frozen=True, slots=True)
class Limits:
    """What generated types may hold. `depth` counts arrays, pointers and structures around a basic type."""

    recursive: bool = True
    pointers: bool = True
    long_double: bool = True
    depth: int = 3
    structs: int = 3
    fields: int = 5


def record_types(limits: Limits = Limits()) -> st.SearchStrategy[Record]:
    return _record_types(limits)


@st.composite
def _record_types(draw: st.DrawFn, limits: Limits) -> Record:
    names = draw(_names("s", 1, limits.structs))
    structs = [draw(_structs(limits, names, position)) for position in range(len(names))]
    return Record(tuple(structs)).subrecord(names[0])


@st.composite
def _structs(draw: st.DrawFn, limits: Limits, names: list[str], position: int) -> Struct:
    """A structure that holds later ones in any way, and earlier ones and itself only through pointers."""
    controls = draw(_names("n", 0, 2))
    integers = st.builds(Basic, st.sampled_from((Kind.INTEGER, Kind.UNSIGNED)), st.sampled_from((1, 2, 4, 8)))
    fields = [Field(name, draw(integers)) for name in controls]
    in_place = names[position + 1 :]
    behind = names if limits.recursive else in_place
    for name in draw(_names("f", 1, limits.fields)):
        fields.append(Field(name, _type(draw, limits, limits.depth, in_place, behind, controls)))
    for name in in_place[:1]:  # otherwise most structures would be unreachable
        fields.append(Field("next", draw(_links(limits, name, controls))))
    if limits.recursive and (limits.pointers or controls) and draw(st.booleans()):
        fields.append(Field("self", draw(_links(limits, names[position], controls).filter(_is_behind))))
    return Struct(names[position], tuple(draw(st.permutations(fields))))


def _links(limits: Limits, name: str, controls: list[str]) -> st.SearchStrategy[Type]:
    ref = Ref(name)
    links: list[Type] = [ref, Array(ref, (2,)), *(Array(ref, (control,)) for control in controls)]
    if limits.pointers:
        links += [Pointer(ref), Array(Pointer(ref), (2,)), *(Array(Pointer(ref), (control,)) for control in controls)]
    return st.sampled_from(links)


def _is_behind(type_: Type) -> bool:
    while isinstance(type_, Array) and not type_.is_dynamic:
        type_ = type_.element
    return not isinstance(type_, Ref)


def _names(prefix: str, least: int, most: int) -> st.SearchStrategy[list[str]]:
    """Distinct names; every count is equally likely, while hypothesis prefers short lists."""
    return st.sampled_from(range(least, most + 1)).flatmap(
        lambda count: st.lists(NAMES.map(prefix.__add__), min_size=count, max_size=count, unique=True)
    )


def _type(
    draw: st.DrawFn, limits: Limits, depth: int, in_place: list[str], behind: list[str], controls: list[str]
) -> Type:
    kinds = [Kind(kind) for kind in Kind] if not in_place else [*Kind, *(["struct"] * 3)]
    if depth:
        kinds += ["array", "dynamic"] if controls else ["array"]
        kinds += ["pointer"] * limits.pointers
    match draw(st.sampled_from(kinds)):
        case "struct":
            return Ref(draw(st.sampled_from(in_place)))
        case "array":
            extents = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
            return Array(_type(draw, limits, depth - 1, in_place, behind, controls), tuple(extents))
        case "dynamic":
            extent: st.SearchStrategy[int | str] = st.sampled_from((*controls, 1, 2))
            dims = draw(st.lists(extent, max_size=2))
            dims.insert(draw(st.integers(0, len(dims))), draw(st.sampled_from(controls)))
            return Array(_type(draw, limits, depth - 1, behind, behind, controls), tuple(dims))
        case "pointer":
            return Pointer(_type(draw, limits, depth - 1, behind, behind, controls))
        case Kind.FLOAT if not limits.long_double:
            return Basic(Kind.FLOAT, draw(st.sampled_from((4, 8))))
        case kind:
            return Basic(kind, draw(st.sampled_from(SIZES[kind])))


@st.composite
def formats(draw: st.DrawFn, limits: Limits = Limits()) -> Format:
    """Formats of existing and of imaginable machines: gaps between fields, odd float formats, short IDs."""
    machine = draw(MACHINE_NAMES)
    form = record_to_format(draw(record_types(limits)), machine, body_version=draw(st.integers(0, 2)))
    layouts = replace(
        form.layouts,
        float_format=draw(st.sampled_from((form.float_format, form.float_format, 0, 1, 2, 3))),
        column_major=draw(st.booleans()),
    )
    if all(form.name not in set(references(field.type)) for struct in form.record.structs for field in struct.fields):
        gaps = draw(st.lists(st.integers(0, 3), min_size=len(form.record.fields) + 1, max_size=20))
        layouts = replace(layouts, structs=(_spread(layouts.structs[0], gaps), *layouts.structs[1:]))
    id_ = draw(st.sampled_from((None, None, None, b"\1\2\3\4\0\0\0\0", b"\1\0\0\1\x7f\0\0\1\0\2")))
    return Format.from_body(layouts_to_body(layouts), id_)


def _spread(layout: StructLayout, gaps: list[int]) -> StructLayout:
    """The structure with padding before each field and at its end."""
    sums = list(accumulate(gaps))
    fields = tuple(replace(field, offset=field.offset + sums[i]) for i, field in enumerate(layout.fields))
    return replace(layout, fields=fields, record_length=layout.record_length + sums[len(fields)])


@st.composite
def values(draw: st.DrawFn, form: Format) -> dict[str, Any]:
    """A record's values. In recursive structures some targets repeat, also in cycles, but never the record itself."""
    return _Values(draw, form).struct(form.name, 3)


class _Values:
    def __init__(self, draw: st.DrawFn, form: Format) -> None:
        self.draw = draw
        self.form = form
        self.targets: dict[tuple[Type, tuple[int, ...]], list[Any]] = {}

    def struct(self, name: str, depth: int, into: dict[str, Any] | None = None) -> dict[str, Any]:
        found = {} if into is None else into
        fields = self.form.record.struct(name).fields
        counts = {dim for field in fields for dim in _dims(field.type) if isinstance(dim, str)}
        found.update(dict.fromkeys(field.name for field in fields))
        for field in sorted(fields, key=lambda field: field.name not in counts):
            found[field.name] = (
                self.draw(st.integers(0, 2))
                if field.name in counts
                else self.value(field.type, found, depth, self.form.is_recursive(name))
            )
        return found

    def value(self, type_: Type, owner: dict[str, Any], depth: int, shares: bool) -> Any:
        match type_:
            case Pointer(target):
                return self.target(target, (), owner, depth, shares) if depth and self.draw(st.booleans()) else None
            case Ref(name):
                return self.struct(name, depth)
            case Array(_, dims):
                extents = tuple(owner[dim] if isinstance(dim, str) else dim for dim in dims)
                if not type_.is_dynamic:
                    return self.array(type_, extents, owner, depth, shares, [])
                if not depth or 0 in extents or self.draw(st.integers(0, 4)) == 0:
                    return None
                return self.target(type_, extents, owner, depth, shares)
            case _:
                return self.draw(basic_values(type_))

    def target(self, type_: Type, extents: tuple[int, ...], owner: dict[str, Any], depth: int, shares: bool) -> Any:
        """The target of a pointer; with sharing, perhaps the target of an earlier pointer."""
        before: list[Any] = self.targets.setdefault((type_, extents), []) if shares else []
        is_shared: bool = bool(before) and self.draw(st.booleans())
        if is_shared:
            return self.draw(st.sampled_from(before))
        match type_:
            case Ref(name):
                before.append({})
                return self.struct(name, depth - 1, before[-1])
            case Array() if extents or not type_.is_dynamic:
                before.append([])
                static = tuple(dim for dim in type_.dims if isinstance(dim, int))
                return self.array(type_, extents or static, owner, depth - 1, shares, before[-1])
            case Pointer() | Array():
                return self.value(type_, owner, depth, shares)
            case _:
                return self.draw(basic_values(type_).filter(lambda value: value is not None))

    def array(
        self, type_: Array, extents: tuple[int, ...], owner: dict[str, Any], depth: int, shares: bool, into: list[Any]
    ) -> list[Any]:
        for _ in range(extents[0]):
            if extents[1:]:
                into.append(self.array(type_, extents[1:], owner, depth, shares, []))
            else:
                into.append(self.value(type_.element, owner, depth, shares))
        return into


def _dims(type_: Type) -> Iterator[int | str]:
    while isinstance(type_, Array | Pointer):
        if isinstance(type_, Array):
            yield from type_.dims
        type_ = type_.element if isinstance(type_, Array) else type_.target


def basic_values(type_: Basic) -> st.SearchStrategy[Any]:
    """The values of a basic type; a string may be None."""
    bits = 8 * type_.size
    match type_.kind:
        case Kind.INTEGER:
            return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        case Kind.UNSIGNED | Kind.CHAR | Kind.ENUMERATION:
            return st.integers(0, (1 << bits) - 1)
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.FLOAT if type_.size == 16:
            return st.binary(min_size=16, max_size=16)
        case Kind.FLOAT:
            return st.floats(width=32 if bits == 32 else 64)
        case Kind.STRING:
            return st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


def same_values(one: Any, other: Any) -> bool:
    """Whether two values are equal: NaN is NaN, 0.0 is not -0.0, the order of fields counts, and both share the same
    parts."""
    partners: dict[int, int] = {}
    waiting = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, dict | list):
            if id(a) in partners:
                if partners[id(a)] != id(b):
                    return False
                continue
            partners[id(a)] = id(b)
            if len(a) != len(b) or (isinstance(a, dict) and list(a) != list(b)):
                return False
            waiting += zip(a.values(), b.values(), strict=True) if isinstance(a, dict) else zip(a, b, strict=True)
        elif repr(a) != repr(b):  # NaN is not equal to itself, and 0.0 equals -0.0
            return False
    return True
