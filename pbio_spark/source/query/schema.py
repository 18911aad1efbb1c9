"""Found formats -> the wanted ones, and the columns of their union."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import pyarrow as pa

from ecode.suggest import did_you_mean
from pbio_spark.columns import renamed
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.formats.merge import merge
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.request import union_of_targets
from pbio_spark.wire.hints.sidecar import Outline

log = logging.getLogger("pbio_spark.source")


def formats_with_records(outlines: Iterable[Outline]) -> dict[Format, int]:
    """The formats of files in order of appearance, with their numbers of records; empty ones only if all are empty."""
    counts: dict[Format, int] = {}
    for outline in outlines:
        for form, count in zip(outline.formats, outline.counts, strict=True):
            counts[form] = counts.get(form, 0) + count
    return {form: count for form, count in counts.items() if count} or counts


def wanted_formats(outlines: Sequence[Outline], options: Options) -> list[Format]:
    """The formats to read, in order of appearance; formats without records only if nothing has any.

    Raises PBIO_SEVERAL_FORMATS, and PBIO_NO_SCHEMA if `formatName` or `formatId` names a format that certainly does not
    exist.
    """
    found = formats_with_records(outlines)
    names, ids = options.format_name, options.format_id
    wanted = [f for f in found if is_wanted(f, options)]
    if not wanted and found and (names or ids) and all(outline.is_whole for outline in outlines):
        missing = ", ".join((*names, *(format_id.hex() for format_id in ids)))
        present = sorted({f.name for f in found})
        raise PbioError(
            "PBIO_NO_SCHEMA",
            f"no file has a format {missing}",
            hint=(did_you_mean(names[0], present) if names else "") or f"known: {', '.join(present)}",
        )
    if not (names or ids or options.reader_format) and len({f.name for f in wanted}) > 1:
        at_least = "" if all(outline.is_whole for outline in outlines) else "at least "
        totals: dict[str, int] = {}
        for format in wanted:  # noqa: A001
            totals[format.name] = totals.get(format.name, 0) + found[format]
        raise several_formats([f"{name} ({at_least}{count} records)" for name, count in totals.items()])
    return wanted


def is_wanted(format: Format, options: Options) -> bool:  # noqa: A002 - the project's word for the thing
    """Whether `formatName` and `formatId` select a format."""
    return (not options.format_name or format.is_called(options.format_name)) and (
        not options.format_id or format.id in options.format_id
    )


def several_formats(found: Iterable[str]) -> PbioError:
    return PbioError(
        "PBIO_SEVERAL_FORMATS",
        f"the files hold formats of several names: {', '.join(found)}",
        hint="say which to read with the option formatName; several names, separated by commas, are read as one union",
    )


def announce(format: Format, options: Options) -> None:  # noqa: A002
    """Log that a format appears in a stream, unless `onNewFormat` is to ignore it, or to fail later."""
    if options.on_new_format == "log":
        log.warning("a new format appeared in the stream: %s", format)


def new_format(format: Format) -> PbioError:  # noqa: A002
    return PbioError(
        "PBIO_NEW_FORMAT",
        "a format appeared that is new to the stream",
        format=f"{format.name} ({format.id.hex()})",
        hint="check whether the stream's columns are still right; a restarted stream continues",
    )


def infer_schema(formats: Sequence[Format], options: Options, described: Sequence[Format] = ()) -> pa.Schema:
    """The columns of `readerFormat`, else the union of all formats, or with `mergeSchema=false` the columns of the last
    one.

    Args:
        described: more formats that `readerFormat` may name.

    Raises PBIO_NO_SCHEMA without formats, PBIO_CANNOT_MERGE, and what `record_to_arrow` raises.
    """
    if not formats and not options.reader_format:
        raise PbioError(
            "PBIO_NO_SCHEMA",
            "there is no file, or no file has a format",
            hint="check the path; or name the columns with .schema(...)",
        )
    union = union_of_targets(options, formats, described)
    if union is None:
        union = merge([f.record for f in formats]) if options.merge_schema else formats[-1].record
    return renamed(record_to_arrow(union, presentation_of(options)), options.field_aliases)


def presentation_of(options: Options) -> Presentation:
    return Presentation(
        options.char_arrays_as, options.unsigned_long_as, options.encoding, options.recursive_field_max_depth
    )


def check_names(schema: pa.Schema) -> None:
    """Raise PBIO_NAME_COLLISION if Spark cannot distinguish two columns, including nested ones."""
    _check(schema, "$")


def _check(fields: Iterable[pa.Field], path: str) -> None:
    first: dict[str, str] = {}
    for field in fields:
        twin = first.get(field.name.lower())
        first[field.name.lower()] = field.name
        if twin is not None:
            raise PbioError(
                "PBIO_NAME_COLLISION",
                f"Spark does not distinguish the columns {twin!r} and {field.name!r}",
                field=f"{path}.{field.name}",
                hint=f'rename one with the option fieldAliases, {{"other name": "{field.name}"}}; or set '
                "spark.sql.caseSensitive=true and name the columns with .schema(...)",
            )
        _check(_children(field.type), f"{path}.{field.name}")


def _children(arrow: pa.DataType) -> Iterable[pa.Field]:
    """The fields of the structure that a type is or contains."""
    while pa.types.is_list(arrow):
        arrow = arrow.value_type
    return list(arrow) if pa.types.is_struct(arrow) else ()
