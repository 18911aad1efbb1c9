"""Options about record types and E-code -> `Request`, which reading hands to MaxMatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import Record
from morph import Policy, Transform
from pbio_spark.columns.ways import Request, records_to_targets
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow_to_record import arrow_to_record
from pbio_spark.formats.merge import merge
from pbio_spark.formats.store import FolderStore
from pbio_spark.source.options import Options


def is_request(options: Options) -> bool:
    """Whether options ask for more than columns."""
    return bool(options.reader_format or options.transforms or options.filter or options.transform)


def options_to_request(
    options: Options,
    columns: pa.Schema | None,
    formats: Sequence[Format],
    *,
    is_stream: bool = False,
    channel: Record | None = None,
    described: Sequence[Format] = (),
) -> Request | None:
    """What a reader asks of MaxMatch.

    Args:
        columns: of records, if the user named them; they are a projection then.
        formats: known to come. Programs without a `readerFormat` are written for their union; in streams a filter is
            written for `columns`, and a transform needs a `readerFormat`.
        channel: the type of the channel that the records come from: what is wanted if neither `readerFormat` nor
            columns say it, and what programs are written for. Formats may come that are not known.
        described: all formats that options may name, those without records or left out by `formatName` too.

    Raises PBIO_UNKNOWN_FORMAT for a name or an ID that nobody knows, PBIO_NO_SCHEMA, PBIO_BAD_OPTION, and what `merge`
    raises.
    """
    if options.transform is not None and columns is None:
        raise PbioError(
            "PBIO_NO_SCHEMA",
            "the option transform makes columns, and nothing says which",
            hint="name them with .schema(...)",
        )
    carries = channel is not None or any(form.transforms for form in formats)
    targets = reader_types(options, formats, described)
    if channel is not None and not targets and (columns is None or options.filter or options.transform):
        targets = ((channel.name, channel),)
    if not (is_request(options) or targets or (columns is not None and carries)):
        return None
    if not is_stream:
        _check_weights(options, [*(record for _, record in targets), *(form.record for form in formats)])
    if options.transform is not None and is_stream and not targets:
        raise PbioError(
            "PBIO_BAD_OPTION",
            "a stream's transform has no record type to be written for: what versions there will be is not known",
            hint="name the type of its `input` with readerFormat",
        )
    wanted = None
    if columns is not None:
        # A program can fill a structure in place, but not lead a pointer to one.
        wanted = arrow_to_record(_in_place(columns) if options.transform is not None else columns, "columns")
    typed = None
    if not targets and (options.filter or options.transform) and formats and not is_stream:
        typed = merge([form.record for form in formats])
    return Request(
        targets,
        wanted,
        typed,
        Policy(
            options.diff_threshold,
            options.mismatch_threshold,
            tuple(options.field_weights.items()),
            same_name=channel is None,  # on a channel, the channel has the name
        ),
        tuple(_transform(*one, options, formats, described) for one in options.transforms),
        options.filter or None,
        options.transform or None,
        on_reject=options.on_reject,
    )


def _check_weights(options: Options, types: Sequence[Record]) -> None:
    """Raise PBIO_BAD_OPTION for the weight of a field that no type has."""
    names = list(dict.fromkeys(field.name for record in types for field in record.fields))
    for path in options.field_weights if types else ():
        if path not in names and path.partition(".")[0] not in names:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"option 'fieldWeights' names a field {path!r}, which no type has",
                hint=did_you_mean(path, names),
            )


def _in_place(schema: pa.Schema) -> pa.Schema:
    """The columns, with no structure that may be null."""

    def field(of: pa.Field) -> pa.Field:
        return pa.field(of.name, type_(of.type), of.nullable and not pa.types.is_struct(of.type))

    def type_(of: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(of):
            return pa.struct([field(part) for part in of])
        if pa.types.is_map(of):
            return pa.map_(field(of.key_field), field(of.item_field))
        return pa.list_(field(of.value_field)) if pa.types.is_list(of) else of

    return pa.schema([field(column) for column in schema])


def reader_types(
    options: Options, formats: Sequence[Format], described: Sequence[Format] = ()
) -> tuple[tuple[str, Record], ...]:
    """The record types that `readerFormat` names, each under its own name, made unique. Raises PBIO_UNKNOWN_FORMAT."""
    return records_to_targets(
        said if isinstance(said, Record) else find_format(said, options, formats, described).record
        for said in options.reader_format
    )


def union_of_targets(options: Options, formats: Sequence[Format], described: Sequence[Format] = ()) -> Record | None:
    """The record type that has the fields of all targets; None without targets."""
    types = [record for _, record in reader_types(options, formats, described)]
    return merge(types) if types else None


def _transform(
    source: str,
    target: str,
    program: str,
    options: Options,
    formats: Sequence[Format],
    described: Sequence[Format],
) -> Transform:
    new, old = (find_format(said, options, formats, described).id.hex() for said in (source, target))
    return Transform(new, old, program)


def find_format(said: str, options: Options, formats: Iterable[Format], described: Iterable[Format] = ()) -> Format:
    """The format of an ID in hexadecimal, or of a name that only one has. Raises PBIO_UNKNOWN_FORMAT.

    Args:
        formats: those that are read; with those of the store they come first.
        described: others, whose records are not read or do not exist.
    """
    stored: Iterable[Format] = () if options.format_store is None else FolderStore(options.format_store)
    known: list[Format] = list(dict.fromkeys((*formats, *stored)))
    others = list(dict.fromkeys(described))
    found = next(filter(None, (_called(said, forms) for forms in (known, others))), [])
    if len(found) == 1:
        return found[0]
    if found:
        raise PbioError(
            "PBIO_UNKNOWN_FORMAT",
            f"there are {len(found)} formats called {said!r}",
            hint="name one by its ID: " + ", ".join(form.id.hex() for form in found),
        )
    near = did_you_mean(said, (form.name for form in (*known, *others)))
    raise PbioError(
        "PBIO_UNKNOWN_FORMAT",
        f"no file and no store describes a format {said!r}",
        hint=near or 'describe the record type as JSON, {"name": {"field": "type"}}, or name a formatStore',
    )


def _called(said: str, formats: Sequence[Format]) -> list[Format]:
    """The formats of an ID, else those of a name."""
    return [form for form in formats if said.lower() == form.id.hex()] or [
        form for form in formats if form.is_called((said,))
    ]
