"""Which columns the records of a format can never fill: they would be null without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ecode.types import Record, Struct, references
from morph.evolution.renames import similar_name
from pbio_spark.columns.decode.converter import Converter
from pbio_spark.columns.decode.plan import Absent, Deref, Items, Masked, Node, Structure

if TYPE_CHECKING:
    from pbio_spark.columns.programs.converter import AnyConverter

NAMES_SHOWN = 8
"""Names that a message lists."""


def converter_to_unfilled(converter: AnyConverter) -> frozenset[str]:
    """The paths of the columns that a converter always leaves null: no field, no default, no program fills them."""
    inner: Any = getattr(converter, "inner", converter)  # what a filter passes records to
    if isinstance(inner, Converter):
        plan = inner.plan
        return frozenset(
            path
            for column, node in zip(plan.schema, plan.nodes, strict=True)
            for path in _unfilled(node, column.name, column.type)
        )
    return frozenset(inner.output.unfilled)


def _unfilled(node: Node, path: str, type_: pa.DataType) -> Iterator[str]:
    match node:
        case Absent(value=None):
            yield path
        case Deref(target=below) | Items(item=below) | Masked(node=below):
            yield from _unfilled(below, path, type_)
        case Structure(type=struct, nodes=nodes):
            for number, below in enumerate(nodes):
                yield from _unfilled(below, f"{path}.{struct.field(number).name}", struct.field(number).type)


def schema_to_paths(columns: Iterable[pa.Field], path: str = "") -> Iterator[str]:
    """The paths of all columns, the parts of structures and of arrays of structures after these."""
    for column in columns:
        yield path + column.name
        type_ = column.type
        while pa.types.is_list(type_):
            type_ = type_.value_type
        if pa.types.is_struct(type_):
            yield from schema_to_paths(type_, f"{path}{column.name}.")


def is_below(path: str, paths: Collection[str]) -> bool:
    """Whether a path is one of some, or a part of one."""
    parts = path.split(".")
    return any(".".join(parts[:n]) in paths for n in range(1, len(parts) + 1))


def struct_at(record: Record, path: str) -> Struct | None:
    """The structure that the columns below a path come from."""
    struct = record.structs[0]
    for name in path.split(".") if path else ():
        near = struct.like(name)
        inner = next(references(near[0].type), None) if near else None
        if inner is None:
            return None
        struct = record.struct(inner)
    return struct


def suggestion(name: str, known: Sequence[str]) -> str:
    """What a name may have been meant to be, or what names there are."""
    near = similar_name(name, known)
    return f"did you mean {near!r}?" if near is not None else listed(known)


def listed(names: Iterable[str]) -> str:
    """
    >>> listed("ab"), listed("")
    ('there are: a, b', '')
    """
    names = list(names)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there are: {', '.join(names[:NAMES_SHOWN])}{more}" if names else ""
