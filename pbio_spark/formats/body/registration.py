"""From structures as a program declares them to the order and sizes that a body must have (ffs-wire-format 5.5).

Format IDs are hashes of bodies, so two writers agree on an ID only if both follow these rules exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ecode.types import Basic, Kind, Type, references
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.slots import innermost_first, slot_alignment, slot_content
from pbio_spark.formats.body.struct_layout import FieldLayout, StructLayout
from pbio_spark.formats.body.type_string import shorten, type_string_to_type
from pbio_spark.formats.machine import Machine


def register(structs: Iterable[StructLayout], machine: Machine, keep_defaults: bool) -> tuple[StructLayout, ...]:
    """The structures that the first one reaches, in canonical order, with fields, sizes and alignments as stored.

    Args:
        structs: the top one first, the others in any order; their fields in any order; alignments are ignored.
        keep_defaults: whether a suffix `name(value)` stays in the name of a field.

    Raises PBIO_BAD_LAYOUT, PBIO_BAD_TYPE_STRING.
    """
    given = tuple(structs)
    declared = {s.name: s for s in given}
    if not given:
        raise PbioError(
            "PBIO_BAD_LAYOUT",
            "a format needs at least one structure",
            hint="give a structure of the fields of the record",
        )
    if len(declared) < len(given):
        raise PbioError(
            "PBIO_BAD_LAYOUT",
            "two structures have the same name",
            format=shorten(given[0].name),
            hint="give one of them another name",
        )
    types = {s.name: tuple(_type(s, f, declared) for f in s.fields) for s in given}
    alignments: dict[str, int] = {}
    for name in innermost_first(types):
        alignments[name] = max((slot_alignment(t, alignments, machine) for t in types[name]), default=1)
    stored = []
    for name in _reached(given[0].name, types):
        entries = zip(declared[name].fields, types[name], strict=True)
        fields = sorted((_stored(f, t, machine, keep_defaults) for f, t in entries), key=lambda f: f.offset)
        stored.append(replace(declared[name], fields=tuple(fields), alignment=alignments[name]))
    return tuple(stored)


def _type(struct: StructLayout, field: FieldLayout, declared: Mapping[str, StructLayout]) -> Type:
    try:
        return type_string_to_type(field.type, field.size, declared.__contains__)
    except PbioError as error:
        raise error.at(format=shorten(struct.name), field=f"$.{field.name}") from None


def _stored(field: FieldLayout, type_: Type, machine: Machine, keep_defaults: bool) -> FieldLayout:
    name = field.name if keep_defaults else field.name.partition("(")[0]
    _, content = slot_content(type_)
    is_string = isinstance(content, Basic) and content.kind is Kind.STRING
    return replace(field, name=name, size=machine.pointer_size if is_string else field.size)


def _reached(top: str, types: Mapping[str, tuple[Type, ...]]) -> list[str]:
    """The structures depth first, each after its children, children in byte order of their names; then reversed."""
    order: list[str] = []
    seen = {top}

    def children(name: str) -> list[str]:
        names = {ref for type_ in types[name] for ref in references(type_)}
        return sorted(names, key=lambda text: text.encode("utf-8", "surrogateescape"))

    stack = [(top, iter(children(top)))]
    while stack:
        name, waiting = stack[-1]
        child = next((c for c in waiting if c not in seen), None)
        if child is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(child)
            stack.append((child, iter(children(child))))
    return order[::-1]
