"""Options on record types and E-code -> `Request` for MaxMatch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import Record
from morph import MorphError, Policy, Transform, compile_transform
from morph.transforms import record_to_meaning
from pbio_spark.columns import Request, records_to_targets
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.formats_to_graph import carries_transforms
from pbio_spark.formats.merge import merge
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.naming import (
    find_format,
    find_formats,
    is_known,
    known_formats,
    record_to_known,
    refuse_name,
)

log = logging.getLogger("pbio_spark.source")


def is_request(options: Options) -> bool:
    """Whether options request more than columns."""
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
    """The request of a reader to MaxMatch.

    Args:
        columns: of records, if the user named them; they are then a projection.
        formats: known ones. Programs without a `readerFormat` are written for their union; in streams a filter is
            written for `columns`, and a transform needs a `readerFormat`.
        channel: the type of the channel that the records come from: it is the wanted type if neither `readerFormat` nor
            columns give one, and programs are written for it. Unknown formats may appear.
        described: all formats that options may name, including those without records or excluded by `formatName`.

    Raises PBIO_NO_SCHEMA, PBIO_BAD_OPTION, and what `reader_types`, `own_transforms` and `merge` raise.
    """
    carries = channel is not None or any(map(carries_transforms, formats))
    for said in options.reader_format if is_stream else ():
        if isinstance(said, str):
            refuse_name(said, options)
    targets = reader_types(options, formats, described)
    if options.transform is not None:
        _check_types_of_transform(columns, targets, channel, is_stream=is_stream)
    if channel is not None and not targets and (columns is None or options.filter or options.transform):
        targets = ((channel.name, channel),)
    if not (is_request(options) or targets or (columns is not None and carries)):
        return None
    if not is_stream:
        _check_weights(options, [*(record for _, record in targets), *(form.record for form in formats)])
    wanted = None
    if columns is not None:
        # A program can fill a structure in place, but cannot make a pointer to one.
        wanted = arrow_to_record(_in_place(columns) if options.transform is not None else columns, "columns")
    typed = None
    if not targets and (options.filter or options.transform) and formats and not is_stream:
        typed = merge([form.record for form in formats])
    transforms, named = own_transforms(
        options, formats, described, [record for _, record in targets], is_stream=is_stream
    )
    return Request(
        targets,
        wanted,
        typed,
        Policy(
            options.diff_threshold,
            options.mismatch_threshold,
            tuple(options.field_weights.items()),
            same_name=channel is None,  # on a channel, names do not matter
        ),
        transforms,
        options.filter or None,
        options.transform or None,
        on_reject=options.on_reject,
        described=named,
    )


def _check_types_of_transform(
    columns: pa.Schema | None, targets: Sequence[object], channel: Record | None, *, is_stream: bool
) -> None:
    """Check that a transform has a known source and target type."""
    if columns is None:
        raise PbioError(
            "PBIO_NO_SCHEMA",
            "the option transform makes columns, but no schema names them",
            hint="name them with .schema(...)",
        )
    if is_stream and not targets and channel is None:
        raise PbioError(
            "PBIO_BAD_OPTION",
            "a stream's transform needs a fixed input type, since later versions are not known yet",
            hint="name the type of its `input` with readerFormat",
        )


def _check_weights(options: Options, types: Sequence[Record]) -> None:
    """Raise PBIO_BAD_OPTION for the weight of an unknown field."""
    names = list(dict.fromkeys(field.name for record in types for field in record.fields))
    for path in options.field_weights if types else ():
        if path not in names and path.partition(".")[0] not in names:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"option 'fieldWeights' names a field {path!r}, which no type has",
                hint=did_you_mean(path, names),
            )


def _in_place(schema: pa.Schema) -> pa.Schema:
    """The columns, with all structures not null."""

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
    """The record types that `readerFormat` names, each under its name, made unique. Raises PBIO_UNKNOWN_FORMAT."""
    return records_to_targets(
        said if isinstance(said, Record) else find_format(said, options, formats, described).record
        for said in options.reader_format
    )


def union_of_targets(options: Options, formats: Sequence[Format], described: Sequence[Format] = ()) -> Record | None:
    """The record type with the fields of all targets; None without targets."""
    types = [record for _, record in reader_types(options, formats, described)]
    return merge(types) if types else None


def own_transforms(
    options: Options,
    formats: Sequence[Format],
    described: Sequence[Format],
    targets: Sequence[Record],
    *,
    is_stream: bool,
) -> tuple[tuple[Transform, ...], tuple[Format, ...]]:
    """The transforms of the options, and formats of the record types that they name.

    Args:
        formats, described: see `options_to_request`.
        targets: wanted types, which need not be in any file.
        is_stream: records of a transform's source type may appear later; it is left out until then.

    Raises PBIO_UNKNOWN_FORMAT, PBIO_BAD_TYPE; PBIO_BAD_PROGRAM for a transform that does not compile, keeps state, or
    leads from a record type to itself; PBIO_BAD_OPTION for two between the same types, or one without a source.
    """
    known = known_formats(options, formats, described)
    wanted = [record_to_known(record, known) for record in targets]
    made: dict[tuple[Record, Record], Transform] = {}
    named: list[Format] = []
    for said, to, program in options.transforms:
        if not said:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"a transform of the option 'transforms', to {to!r}, lacks its `from`",
                hint='add the type or format that the program reads: {"from": ..., "to": ..., "code": ...}',
            )
        try:
            if is_stream:
                refuse_name(said, options)
                refuse_name(to, options, [record.name for record in targets])
            if is_stream and not is_known(said, options, formats, described):
                log.info("the transform from %r to %r waits for records of its type", said, to)
                continue
            news = find_formats(said, options, formats, described, alike=True)
            # The reader's own name takes precedence.
            own = [form for form in wanted if form.name == to]
            old = own[0] if len(own) == 1 else find_format(to, options, formats, described, wanted)
        except PbioError as error:
            raise PbioError(
                error.code, error.reason, field=f"transforms, from {said!r} to {to!r}", hint=error.hint or ""
            ) from None
        for new in news:
            transform = Transform(new.id.hex(), old.id.hex(), program, is_own=True)
            _check_transform(transform, new.record, old.record, f"from {said!r} to {to!r}")
            ends = record_to_meaning(new.record), record_to_meaning(old.record)
            if made.setdefault(ends, transform).ecode != program:
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"option 'transforms' has two programs from {said!r} to {to!r}",
                    hint="leave one of them out",
                )
        named += [*news, old]
    return tuple(made.values()), tuple(dict.fromkeys(named))


def _check_transform(transform: Transform, new: Record, old: Record, what: str) -> None:
    """Raise PBIO_BAD_PROGRAM for a user's transform that is useless."""
    if record_to_meaning(new) == record_to_meaning(old):
        raise PbioError(
            "PBIO_BAD_PROGRAM",
            f"the transform {what} leads from a record type to itself: no record ever needs it",
            hint="`from` is the type that records have, `to` the one that they become; name versions as "
            f"{new.name}@1, or types as JSON",
        )
    try:
        program = compile_transform(transform.ecode, new, old, is_own=True)
    except MorphError as error:
        raise PbioError(
            "PBIO_BAD_PROGRAM",
            f"the transform {what} {error.reason.removeprefix('the transform ')}",
            hint=error.hint,
        ) from error
    if program.statics:
        raise PbioError(
            "PBIO_BAD_PROGRAM",
            f"the transform {what} keeps state ({', '.join(program.statics)}), but the records of a read have no order",
            hint="keep state in Spark",
        )
