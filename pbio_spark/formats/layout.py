"""From a record type to a format: the layout that a C compiler for a named machine would give it.

>>> from ecode.types import FLOAT64, INT32, Field, record
>>> reading = record("reading", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))])
>>> print(record_to_format(reading, "be32"))
reading (be32, ID 0200001c72e68ea666e3c931)
reading: 8 bytes
  +0  n  integer   4
  +4  v  float[n]  8
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ecode.types import STRING, Array, Field, Pointer, Record, Ref, Struct, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.opt_info import notes_to_opt_info
from pbio_spark.formats.body.slots import innermost_first, slot_alignment, slot_size
from pbio_spark.formats.body.struct_layout import FieldLayout, OptInfo, StructLayout
from pbio_spark.formats.body.type_string import shorten, type_string_to_type, type_to_type_string
from pbio_spark.formats.format import Format
from pbio_spark.formats.machine import Machine, machine_named


def record_to_format(
    record: Record, machine: str | Machine = "native", *, body_version: int = 2, opt_info: Iterable[OptInfo] = ()
) -> Format:
    """The format of a record type on a machine: fields in their order, each at its natural place.

    Structures that the record does not reach are omitted.

    Args:
        machine: a name in `machine.MACHINES`, or a machine.
        body_version: 2 is what FFS writes today; 0 and 1 serve old readers.
        opt_info: further blocks of the top structure, such as transforms; the notes on fields are added anyway.

    Raises PBIO_UNKNOWN_MACHINE; PBIO_BAD_LAYOUT and PBIO_BAD_TYPE_STRING, with the path of the field, for a type that
    no format can express.
    """
    if not isinstance(record, Record):
        raise PbioError(
            "PBIO_BAD_TYPE",
            f"{str(record)[:80]!r} is not a record type",
            hint="make one with pbio_spark.record(name, fields), or pbio_spark.parse_record(json)",
        )
    target = machine_named(machine)
    structs = {struct.name: struct for struct in record.structs}
    strings = {(s.name, f.name): _type_string(s, f, structs) for s in record.structs for f in s.fields}
    lengths: dict[str, int] = {}
    alignments: dict[str, int] = {}
    offsets: dict[tuple[str, str], int] = {}
    for name in innermost_first({s.name: [f.type for f in s.fields] for s in record.structs}):
        end, widest = 0, 1
        for field in structs[name].fields:
            alignment = slot_alignment(field.type, alignments, target)
            offsets[name, field.name] = _round_up(end, alignment)
            end = offsets[name, field.name] + slot_size(field.type, lengths, target.pointer_size)
            widest = max(widest, alignment)
        lengths[name], alignments[name] = _round_up(end, widest), widest
    layouts = [
        StructLayout(
            struct.name,
            tuple(
                FieldLayout(
                    f.name,
                    strings[struct.name, f.name],
                    _element_size(f.type, lengths, target.pointer_size),
                    offsets[struct.name, f.name],
                )
                for f in struct.fields
            ),
            lengths[struct.name],
            # FFS reports only the first block of a version-0 structure, so the blocks that FFS understands come first.
            opt_info=(*(opt_info if struct is record.structs[0] else ()), *notes_to_opt_info(struct.fields)),
        )
        for struct in record.structs
    ]
    return Format.from_structs(layouts, machine, body_version=body_version, keep_defaults=True)


def _type_string(struct: Struct, field: Field, structs: Mapping[str, Struct]) -> str:
    """The field's type string; it must mean exactly the field's type."""
    path = f"$.{field.name}"
    text = type_to_type_string(field.type)
    try:
        size = _element_size(field.type, dict.fromkeys(structs, 1), pointer_size=8)
        same = type_string_to_type(text, size, structs.__contains__)
    except PbioError as error:
        raise error.at(format=shorten(struct.name), field=path) from None
    if same != field.type:
        raise PbioError(
            "PBIO_BAD_LAYOUT",
            f"the type {shorten(str(field.type))} cannot be written as a type string",
            format=shorten(struct.name),
            field=path,
            hint="names of structures and of counts must not contain brackets or parentheses, nor be basic types",
        )
    return text


def _element_size(type_: Type, lengths: Mapping[str, int], pointer_size: int) -> int:
    """The size in a field's entry: that of the innermost element, or of the pointer for a string.

    FFS steps by this size through an array of strings that a pointer leads to.
    """
    while isinstance(type_, Array | Pointer):
        type_ = type_.element if isinstance(type_, Array) else type_.target
    if isinstance(type_, Ref):
        return lengths.get(type_.name, 0)
    return pointer_size if type_ == STRING else type_.size


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
