"""The names of columns: aliases, and columns of a format that a schema lacks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import pyarrow as pa

from ecode.errors import valid_text
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow

log = logging.getLogger("pbio_spark.columns")


def renamed(schema: pa.Schema, aliases: Mapping[str, str]) -> pa.Schema:
    """Columns under the names that aliases give them."""
    new = {(*path.split(".")[:-1], field): path.split(".")[-1] for path, field in aliases.items()}

    def rename(fields: list[pa.Field], path: tuple[str, ...]) -> Iterator[pa.Field]:
        for field in fields:
            name = new.get((*path, field.name), field.name)
            # An existing column of that name takes the values of the other one.
            if not any(other.name.lower() == name.lower() for other in fields if other is not field):
                yield pa.field(name, inside(field.type, (*path, name)), field.nullable)
            elif name == field.name:
                yield field

    def inside(arrow: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        if pa.types.is_list(arrow):
            element = arrow.value_field
            return pa.list_(element.with_type(inside(element.type, path)))
        if pa.types.is_struct(arrow):
            return pa.struct(list(rename(list(arrow), path)))
        return arrow

    return pa.schema(list(rename(list(schema), ()))) if new else schema


def warn_of_new_columns(
    query: str, file: str, form: Format, schema: pa.Schema, presentation: Presentation, aliases: Mapping[str, str]
) -> None:
    """Warn about columns of a format that a query's schema lacks, once per query and process."""
    try:
        columns = renamed(record_to_arrow(form.record, presentation), aliases)
        found = list(_beyond(columns, schema, ""))
    except PbioError:  # such a field cannot be a column, and is left out anyway
        found = [field.name for field in form.record.fields if valid_text(field.name) not in schema.names]
    told = _told(query)
    new = [path for path in found if path not in told]
    if new:
        told.update(new)
        log.warning(
            "%s has fields that the query's columns lack, because planning stopped before them: %s (format %s); they "
            "are left out. Raise scanLimit, or name the columns with .schema(...)",
            *map(valid_text, (file, ", ".join(new), form.name)),
        )


@lru_cache(maxsize=64)
def _told(query: str) -> set[str]:
    """The columns that a query has been warned about."""
    return set()


def _beyond(found: Iterable[pa.Field], known: Iterable[pa.Field], path: str) -> Iterator[str]:
    """The paths of columns that are not known."""
    types = {field.name: field.type for field in known}
    for field in found:
        if field.name not in types:
            yield path + field.name
            continue
        inner, other = field.type, types[field.name]
        while pa.types.is_list(inner) and pa.types.is_list(other):
            inner, other = inner.value_type, other.value_type
        if pa.types.is_struct(inner) and pa.types.is_struct(other):
            yield from _beyond(inner, other, f"{path}{field.name}.")
