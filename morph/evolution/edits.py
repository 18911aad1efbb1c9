"""`edit_script`: how one record type becomes another, field by field, for people to read.

Paths identify fields. The order of fields means nothing to PBIO, so a new order is not an edit. A field has moved if
its old place is gone and the new type has the same name and type in another place. The script does not guess which
fields were renamed.

    >>> from ecode.types import FLOAT32, FLOAT64, INT32, Field, record
    >>> old = record("reading", [Field("id", INT32), Field("t", FLOAT32), Field("x", INT32)])
    >>> new = record("reading", [Field("id", INT32), Field("t", FLOAT64), Field("y", INT32)])
    >>> print(edit_script(old, new))
      id: int32
    ~ t: float32 -> float64
    + y: int32
    - x: int32
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias

from ecode.types import Field, Notes, Record, Struct, Type, references
from morph.errors import check_pairs


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A field that stays as it is, with all fields in it."""

    path: str
    type: Type

    def __str__(self) -> str:
        return f"  {self.path}: {self.type}"


@dataclass(frozen=True, slots=True)
class Insert:
    """A field that only the new type has."""

    path: str
    type: Type

    def __str__(self) -> str:
        return f"+ {self.path}: {self.type}"


@dataclass(frozen=True, slots=True)
class Remove:
    """A field that only the old type has."""

    path: str
    type: Type

    def __str__(self) -> str:
        return f"- {self.path}: {self.type}"


@dataclass(frozen=True, slots=True)
class Move:
    """A field that is in another structure in the new type."""

    path: str
    to: str
    type: Type

    def __str__(self) -> str:
        return f"> {self.path} -> {self.to}: {self.type}"


@dataclass(frozen=True, slots=True)
class Update:
    """A field whose type or notes changed; `notes` names the changed notes."""

    path: str
    old: Type
    new: Type
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        change = f"{self.old} -> {self.new}" if self.old != self.new else str(self.old)
        return f"~ {self.path}: {change}" + (f" ({', '.join(self.notes)})" if self.notes else "")


Edit: TypeAlias = Unchanged | Insert | Remove | Move | Update


@dataclass(frozen=True, slots=True)
class EditScript:
    """All edits, in the order of the new type's fields; removed fields come at the end of their structure."""

    edits: tuple[Edit, ...]

    @property
    def changes(self) -> tuple[Edit, ...]:
        """The edits that change something."""
        return tuple(edit for edit in self.edits if not isinstance(edit, Unchanged))

    def __str__(self) -> str:
        return "\n".join(map(str, self.edits))


def edit_script(old: Record, new: Record) -> EditScript:
    """The edits from one record type to another.

    Each pair of matching structures is compared once; a structure without a partner is one edit.
    Raises MORPH_TOO_COMPLEX.
    """
    edits = list(_compared(old, new))
    gone: Counter[tuple[str, Type]] = Counter(_what(e) for e in edits if isinstance(e, Remove))
    come: Counter[tuple[str, Type]] = Counter(_what(e) for e in edits if isinstance(e, Insert))
    moved = {what for what in gone.keys() & come.keys() if gone[what] == 1 == come[what]}
    origins = {_what(e): e.path for e in edits if isinstance(e, Remove) and _what(e) in moved}
    return EditScript(
        tuple(
            Move(origins[_what(e)], e.path, e.type) if isinstance(e, Insert) and _what(e) in moved else e
            for e in edits
            if not (isinstance(e, Remove) and _what(e) in moved)
        )
    )


def _what(edit: Insert | Remove) -> tuple[str, Type]:
    return edit.path.rpartition(".")[2], edit.type


def _compared(old: Record, new: Record) -> Iterator[Edit]:
    mine = {struct.name: struct for struct in old.structs}
    theirs = {struct.name: struct for struct in new.structs}
    met = {(old.name, new.name)}
    # A stack, so that inner fields follow the field that holds them.
    stack: list[Edit | tuple[Struct, Struct, str]] = [(old.structs[0], new.structs[0], "")]
    while stack:
        item = stack.pop()
        if not isinstance(item, tuple):
            yield item
            continue
        one, other, path = item
        have = {f.name: f for f in one.fields}
        steps: list[Edit | tuple[Struct, Struct, str]] = []
        for f in other.fields:
            here = path + f.name
            before = have.pop(f.name, None)
            if before is None:
                steps.append(Insert(here, f.type))
                continue
            steps.append(_met(here, before, f))
            for pair in zip(references(before.type), references(f.type), strict=False):
                if pair not in met:
                    met.add(pair)
                    check_pairs(len(met))
                    steps.append((mine[pair[0]], theirs[pair[1]], f"{here}."))
        steps += (Remove(path + f.name, f.type) for f in have.values())
        stack += reversed(steps)


def _met(path: str, old: Field, new: Field) -> Edit:
    if old.type == new.type and old.notes == new.notes:
        return Unchanged(path, new.type)
    changed = tuple(f.name for f in fields(Notes) if getattr(old.notes, f.name) != getattr(new.notes, f.name))
    return Update(path, old.type, new.type, changed)
