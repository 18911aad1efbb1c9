"""Plain Python values: what programs take and return.

Numbers are int and float; strings are bytes (str is taken as UTF-8) or None; records are dicts, arrays nested lists; a
pointer is the value that it points to, or None.
"""

from __future__ import annotations

from ecode.typed import Structs, ValueType
from ecode.types import Array, Basic, Kind, Ref


def zero(type_: ValueType, structs: Structs) -> object:
    """The initial value of a type: 0, absent strings and pointers, empty dynamic arrays."""
    match type_:
        case Basic(Kind.STRING):
            return None
        case Basic(Kind.FLOAT):
            return 0.0
        case Basic():
            return 0
        case Array() if type_.is_dynamic:
            return []
        case Array():
            inner = Array(type_.element, type_.dims[1:]) if len(type_.dims) > 1 else type_.element
            return [zero(inner, structs) for _ in range(int(type_.dims[0]))]
        case Ref():
            return {field.name: zero(field.type, structs) for field in structs[type_.name].fields}
    return None
