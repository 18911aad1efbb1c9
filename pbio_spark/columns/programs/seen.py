"""What programs of readers see: the record type whose values are those of the table (DESIGN decision 33).

Characters and enumerations are the numbers that their columns show, without a sign; a field that a record lacks has the
default that fills its column, and no other; an alias is one more name of its field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ecode.types import Array, Basic, Default, Field, Kind, Pointer, Record, Ref, Struct, Type, references


def record_to_seen(record: Record, aliases: Mapping[str, str], defaults: Mapping[str, Default]) -> Record:
    """The type that a program sees in place of the type of the records that a table is made of.

    Args:
        aliases: path of a column -> the name of the field that fills it.
        defaults: path of a column -> what fills it where a record has no such field.

    >>> from ecode.types import CHAR, INT32, record
    >>> print(record_to_seen(record("r", [Field("c", CHAR), Field("n", INT32)]), {"count": "n"}, {"n": 7}))
    r {
      c: uint8
      n: int32
      count: int32
    }
    """
    return _Seen(record).made(aliases, defaults)


class _Seen:
    def __init__(self, record: Record) -> None:
        self.top = record.name
        self.structs = {
            s.name: {f.name: replace(f, type=_number(f.type), notes=replace(f.notes, default=None)) for f in s.fields}
            for s in record.structs
        }

    def made(self, aliases: Mapping[str, str], defaults: Mapping[str, Default]) -> Record:
        for path, name in aliases.items():
            self._add(path.split("."), name)
        for path, default in defaults.items():
            self._fill(path.split("."), default)
        return Record(tuple(Struct(name, tuple(fields.values())) for name, fields in self.structs.items()))

    def _add(self, path: list[str], name: str) -> None:
        struct = self._own(path[:-1])
        if struct is None or path[-1] in self.structs[struct]:
            return
        near = self._like(struct, name)
        if len(near) == 1:
            self.structs[struct][path[-1]] = replace(near[0], name=path[-1])

    def _fill(self, path: list[str], default: Default) -> None:
        struct = self._own(path[:-1])
        if struct is None or default is None:
            return
        for found in self._like(struct, path[-1]):
            value = dict(found.notes.symbols).get(default, default) if isinstance(default, str) else default
            self.structs[struct][found.name] = replace(found, notes=replace(found.notes, default=value))

    def _like(self, struct: str, name: str) -> tuple[Field, ...]:
        return Struct(struct, tuple(self.structs[struct].values())).like(name)

    def _own(self, path: list[str]) -> str | None:
        """The structure at a path, which no other path leads to; None if there is none."""
        struct = self.top
        for name in path:
            near = self._like(struct, name)
            if len(near) != 1 or (inner := next(references(near[0].type), None)) is None:
                return None
            if self._uses()[inner] > 1:
                copy = inner + "'"
                while copy in self.structs:
                    copy += "'"
                self.structs[copy] = dict(self.structs[inner])
                self.structs[struct][near[0].name] = replace(near[0], type=_renamed(near[0].type, copy))
                inner = copy
            struct = inner
        return struct

    def _uses(self) -> Counter[str]:
        fields = (field for fields in self.structs.values() for field in fields.values())
        return Counter([self.top, *(name for field in fields for name in references(field.type))])


def _number(type_: Type, *, is_element: bool = False) -> Type:
    """Characters alone and enumerations as numbers; characters in an array are a text."""
    match type_:
        case Basic(Kind.CHAR) if not is_element:
            return Basic(Kind.UNSIGNED, 1)
        case Basic(Kind.ENUMERATION, size):
            return Basic(Kind.UNSIGNED, size)
        case Array(element, dims):
            return Array(_number(element, is_element=True), dims)
        case Pointer(target):
            return Pointer(_number(target, is_element=is_element))
    return type_


def _renamed(type_: Type, name: str) -> Type:
    match type_:
        case Array(element, dims):
            return Array(_renamed(element, name), dims)
        case Pointer(target):
            return Pointer(_renamed(target, name))
    return Ref(name)
