"""Programs see numbers in place of pointers to numbers; null reads as zero."""

from __future__ import annotations

from dataclasses import replace

from ecode.types import Array, Basic, Pointer, Record, Struct, Type


def in_place(record: Record) -> Record:
    """The record type with numbers in place of pointers to them; null reads as zero.

    >>> from ecode.types import INT32, Field, record
    >>> print(in_place(record("r", [Field("n", Pointer(INT32)), Field("v", Array(Pointer(INT32), (2,)))])))
    r {
      n: int32
      v: int32[2]
    }
    """
    return Record(
        tuple(Struct(s.name, tuple(replace(f, type=_in_place(f.type)) for f in s.fields)) for s in record.structs)
    )


def _in_place(type_: Type) -> Type:
    match type_:
        case Array(element, dims):
            return Array(_in_place(element), dims)
        case Pointer(target):
            inner = _in_place(target)
            return inner if isinstance(inner, Basic) else Pointer(inner)
    return type_
