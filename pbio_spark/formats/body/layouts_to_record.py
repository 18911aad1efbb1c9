"""From the structures of a body to the record type that they describe; refuses every contradiction.

Source: ffs-wire-format 5.7, 6 and the checks of 11 (Body).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Never

from ecode.suggest import did_you_mean
from ecode.types import NO_NOTES, Array, Basic, Field, Kind, Pointer, Record, Ref, Struct, Type, references
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.layouts import Layouts
from pbio_spark.formats.body.opt_info import opt_info_to_notes
from pbio_spark.formats.body.slots import innermost_first, slot_content, slot_size
from pbio_spark.formats.body.struct_layout import StructLayout
from pbio_spark.formats.body.type_string import MAX_ELEMENTS, shorten, type_string_to_type


def layouts_to_record(layouts: Layouts) -> Record:
    """The record type of a body; structures and fields keep their order.

    Raises PBIO_BAD_LAYOUT, PBIO_BAD_TYPE_STRING and PBIO_BAD_OPT_INFO, with the path of the field.
    """
    lengths: dict[str, int] = {}
    for layout in layouts.structs:
        if layout.name in lengths:
            _bad(f"two structures have the name {shorten(layout.name)}")
        lengths[layout.name] = layout.record_length
    record = Record(tuple(_struct(layout, lengths) for layout in layouts.structs))
    innermost_first(_field_types(record))  # fails if a structure contains itself
    for layout, struct in zip(layouts.structs, record.structs, strict=True):
        _check_places(layout, struct, lengths, layouts.pointer_size)
    return record


def _field_types(record: Record) -> dict[str, list[Type]]:
    return {struct.name: [field.type for field in struct.fields] for struct in record.structs}


def _struct(layout: StructLayout, lengths: Mapping[str, int]) -> Struct:
    types: dict[str, Type] = {}
    parsed: dict[tuple[str, int], Type] = {}
    for field in layout.fields:
        if field.name in types:
            _bad("two fields have this name", layout, field.name)
        key = field.type, field.size
        try:
            types[field.name] = parsed[key] = parsed.get(key) or type_string_to_type(*key, lengths.__contains__)
        except PbioError as error:
            raise error.at(format=shorten(layout.name), field=_path(field.name)) from None
    for name, type_ in types.items():
        _check_controls(layout, name, type_, types)
    try:
        notes = opt_info_to_notes(layout.opt_info, types)
    except PbioError as error:
        raise error.at(format=shorten(layout.name)) from None
    return Struct(layout.name, tuple(Field(name, type_, notes.get(name, NO_NOTES)) for name, type_ in types.items()))


def _check_controls(layout: StructLayout, name: str, type_: Type, types: Mapping[str, Type]) -> None:
    """Checks that every dimension that is a name is a single integer of the same structure."""
    while isinstance(type_, Array | Pointer):
        if isinstance(type_, Array):
            for dim in type_.dims:
                control = types.get(dim) if isinstance(dim, str) else None
                if isinstance(dim, str) and not (
                    isinstance(control, Basic) and control.kind in (Kind.INTEGER, Kind.UNSIGNED)
                ):
                    hint = did_you_mean(dim[:80], islice(types, 100)) if control is None else f"it is {control}"
                    _bad(
                        f"the dimension {shorten(dim)} is not an integer field of the same structure",
                        layout,
                        name,
                        hint,
                    )
            type_ = type_.element
        else:
            type_ = type_.target


def _check_places(layout: StructLayout, struct: Struct, lengths: Mapping[str, int], pointer_size: int) -> None:
    """Checks that every field is inside the structure, and that no two overlap."""
    taken: list[tuple[int, int, str]] = []
    for place, field in zip(layout.fields, struct.fields, strict=True):
        for name in references(field.type):
            if lengths[name] == 0:
                _bad(f"the field refers to structure {shorten(name)}, whose record length is 0", layout, field.name)
            if place.size < lengths[name]:
                _bad(
                    f"the field has size {place.size}, but its structure has {lengths[name]} bytes", layout, field.name
                )
        size = slot_size(field.type, lengths, pointer_size)
        if place.offset + size > layout.record_length or size > MAX_ELEMENTS:
            _bad(
                f"the field takes {size} bytes at offset {place.offset}, "
                f"beyond the {layout.record_length} bytes of its structure",
                layout,
                field.name,
            )
        taken.append((place.offset, size, field.name))
    taken.sort()
    for (offset, size, name), (following, _, other) in pairwise(taken):
        if offset + size > following:
            _bad(f"the field overlaps with {shorten(name)}", layout, other)


def variant_structs(record: Record) -> frozenset[str]:
    """The structures that hold a string, a pointer or a dynamic array, directly or in a structure in place."""
    variant: set[str] = set()
    for name in innermost_first(_field_types(record)):
        if any(_is_variant(field.type, variant) for field in record.struct(name).fields):
            variant.add(name)
    return frozenset(variant)


def _is_variant(type_: Type, variant: set[str]) -> bool:
    match slot_content(type_):
        case _, Basic(kind, _):
            return kind is Kind.STRING
        case _, Ref(name):
            return name in variant
        case _:
            return True


def recursive_structs(record: Record) -> frozenset[str]:
    """The recursive structures, and those that refer to one of them (ffs-wire-format 7.5).

    FFS does not notice that two structures refer to each other (12.2) and then cannot read its own record; here they
    count as recursive, so a cycle through them ends.
    """
    refers = {s.name: {name for f in s.fields for name in references(f.type)} for s in record.structs}
    # Strike out structures that refer only to struck ones; the structures that remain can form cycles.
    while True:
        endless = {name: targets for name, targets in refers.items() if targets & refers.keys()}
        if len(endless) == len(refers):
            return frozenset(endless)
        refers = endless


def _path(name: str) -> str:
    return f"$.{name if len(name) <= 80 else name[:80] + '...'}"


def _bad(reason: str, layout: StructLayout | None = None, field: str | None = None, hint: str | None = None) -> Never:
    raise PbioError(
        "PBIO_BAD_LAYOUT",
        reason,
        format=None if layout is None else shorten(layout.name),
        field=None if field is None else _path(field),
        hint=hint,
    )
