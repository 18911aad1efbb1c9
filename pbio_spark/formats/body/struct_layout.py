"""A structure in a format body: names, type strings, sizes and offsets, verbatim."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """A field entry of a body (ffs-wire-format 5.7).

    Attributes:
        name: bytes on the wire; bytes that are not UTF-8 are escaped with `surrogateescape`.
        type: the type string, verbatim.
        size: bytes of one element as stored; the sizes of strings and structures have better sources.
        offset: bytes from the start of the structure.
    """

    name: str
    type: str
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class OptInfo:
    """One opt-info block of a structure: its type, four characters read as a big number, and its bytes."""

    type: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StructLayout:
    """A sub-body: one structure as in the sender's memory, fields in ascending order of offset.

    `record_length` and `alignment` are in bytes.
    """

    name: str
    fields: tuple[FieldLayout, ...]
    record_length: int
    alignment: int = 1
    opt_info: tuple[OptInfo, ...] = ()
