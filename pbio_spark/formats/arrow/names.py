"""Names -> fields: the one lookup of everything that reads records (DESIGN decision 12).

the field of a column   `Names.find`: by exactly the name, else without regard to case if that is unique
the length of an array  `Names.counted`: where the record type counts the array by another field, or not at all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ecode.types import Array, Field, Pointer, Record, Ref, Struct, Type, flat, references
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats.arrow.schema import shown

Path: TypeAlias = tuple[str, ...]
"""The names of the columns that lead to a column, the key of aliases and defaults; elements add none."""


@dataclass(frozen=True, slots=True)
class Names:
    """How names find fields (DESIGN decision 12): for columns, for the programs of readers, and for their outputs.

    Attributes:
        aliases: path -> another name, used where the own name finds no field or several.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)

    def find(self, struct: Struct, name: str, path: Path) -> Field | None:
        """The field of a structure that a name means, at the path of that name: exactly, else without regard to case.

        Raises PBIO_AMBIGUOUS_NAME.
        """
        alias = self.aliases.get(".".join(path)) if self.aliases else None
        near = _called(struct, name)
        if alias is not None and len(near) != 1 and (other := _called(struct, alias)):
            name, near = alias, other
        if len(near) > 1:
            raise ambiguous_name(name, near, path_to_text(path))
        return near[0] if near else None

    def counted(self, struct: Struct, arrays: Iterable[tuple[str, int]], path: Path) -> tuple[Field, int] | None:
        """The array whose length a name means, if it is not the name of a field, and which dimension.

        Args:
            arrays: those that the wanted type counts by the name, see `struct_to_counts`; the first that the structure
                has decides.
        """
        for name, axis in arrays:
            array = self.find(struct, name, (*path[:-1], name))
            if array is not None and axis < len(dims_of(array.type)):
                return array, axis
        return None


class PathStep(NamedTuple):
    """One name of a path through structures in place: the structures of a record type and of a format that should
    have it, and the fields that it means there."""

    name: str
    inside: Struct
    field: Field | None
    found_inside: Struct
    found: Field | None

    @property
    def is_count(self) -> bool:
        """Whether the name is the length of an array in either."""
        is_its = self.found is not None and self.found.name in struct_to_counts(self.found_inside)
        return is_its or self.name in struct_to_counts(self.inside)


def walk_path(path: Path, record: Record, found: Record, names: Names) -> list[PathStep]:
    """The steps of a path in a record type and in that of a format; fewer than names if the path ends early.

    Raises PBIO_AMBIGUOUS_NAME.
    """
    one, other = record.struct(record.name), found.struct(found.name)
    steps: list[PathStep] = []
    for name in path:
        steps.append(PathStep(name, one, one.find(name), other, names.find(other, name, path[: len(steps) + 1])))
        fields = steps[-1].field, steps[-1].found
        refs = [field.type for field in fields if field is not None and isinstance(field.type, Ref)]
        if len(refs) < len(fields):
            break
        one, other = record.struct(refs[0].name), found.struct(refs[1].name)
    return steps


def struct_to_counts(struct: Struct) -> dict[str, tuple[tuple[str, int], ...]]:
    """The names of the counts in a structure -> the arrays that they count, and which dimension of each.

    >>> from ecode.types import FLOAT64, INT32
    >>> struct_to_counts(Struct("r", (Field("n", INT32), Field("v", Array(FLOAT64, ("n",))))))
    {'n': (('v', 0),)}
    """
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    for one in struct.fields:
        for axis, dim in enumerate(dims_of(one.type)):
            if isinstance(dim, str):
                found[dim] = (*found.get(dim, ()), (one.name, axis))
    return found


def record_to_counts(record: Record) -> dict[str, tuple[tuple[str, int], ...]]:
    """The counts of a wanted record type, by the path of the column that shows the count."""
    found: dict[str, tuple[tuple[str, int], ...]] = {}

    def walk(struct: str, path: str, inside: Path) -> None:
        for name, arrays in struct_to_counts(record.struct(struct)).items():
            found.setdefault(path + name, arrays)
        for one in record.struct(struct).fields:
            for name in references(one.type):
                if name not in inside:
                    walk(name, f"{path}{one.name}.", (*inside, name))

    walk(record.name, "", (record.name,))
    return found


def dims_of(type_: Type) -> tuple[int | str, ...]:
    """The dimensions of an array, in place or not."""
    whole = flat(type_)
    while isinstance(whole, Pointer):
        whole = whole.target
    return whole.dims if isinstance(whole, Array) else ()


def _called(struct: Struct, name: str) -> tuple[Field, ...]:
    return struct.like(name) or tuple(f for f in struct.fields if shown(f.name) == name)


def ambiguous_name(name: str, near: Sequence[Field], where: str) -> PbioError:
    are_alike = len({shown(f.name) for f in near}) == 1
    return PbioError(
        "PBIO_AMBIGUOUS_NAME",
        f"{name!r} could be any of {', '.join(repr(f.name) for f in near)}, which "
        + ("are shown alike" if are_alike else "differ only in case"),
        field=where,
        hint="write the name exactly, or say which with the option fieldAliases",
    )
