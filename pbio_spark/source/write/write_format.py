"""The format that files are written in: made from the columns, or an existing one (option `writeFormat`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import shown
from pbio_spark.formats.arrow.written import columns_to_record, writable
from pbio_spark.formats.chosen import chosen_format, split_choice
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.paths import find_entry, locate
from pbio_spark.source.files.listing import ListedFile, list_files
from pbio_spark.source.files.outlines import outline_files, paths_to_formats
from pbio_spark.source.options.derived import machine_of, name_of, nulls_of
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.scopes import option_name
from pbio_spark.source.query.naming import find_format
from pbio_spark.source.query.schema import check_names, formats_with_records, infer_schema
from pbio_spark.source.query.store import store_of

if TYPE_CHECKING:
    import pyarrow as pa

_ID = re.compile(r"(?:[0-9a-fA-F]{2}){8,12}")

LOOKED_AT = 64
"""How many files of a folder are read for the name of its records: reading all would slow down every append."""


def formats_to_write(options: Options, schema: pa.Schema, target: str | None) -> tuple[Format, ...]:
    """The format for columns, and the targets of its transforms.

    Args:
        target: the target folder; None if the target is not a folder.

    Raises:
        PbioError: PBIO_UNSUPPORTED_TYPE, PBIO_BAD_LAYOUT for columns; PBIO_UNKNOWN_FORMAT and what `evolve` raises for
            transforms; PBIO_BAD_OPTION for options that an existing format decides;
            PBIO_PATH_NOT_FOUND, PBIO_UNKNOWN_FORMAT, PBIO_SEVERAL_FORMATS if it is not found.
    """
    if options.write_format is not None:
        return _given(options, options.write_format, target)
    form = record_to_format(columns_to_record(schema, name_of(options), nulls_of(options)), machine_of(options))
    priors: list[Format] = []
    for _, prior, program in options.transforms:
        priors.append(find_format(prior, options, ()))
        form = evolve(priors[-1], form, program)
    return (form, *priors)


def files_there(path: str, without: Collection[str] = ()) -> list[ListedFile]:
    """The files that a query of a folder reads; none if it is missing, or unreadable as a whole.

    Args:
        without: paths of files to ignore.

    """
    if not _is_there(path):
        return []
    try:
        return [file for file in list_files((path,), Options()) if file.path not in without]
    except PbioError as error:
        if error.code not in ("PBIO_CHANNEL_SPACE", "PBIO_BAD_PARTITIONS", "PBIO_NOT_FFS"):
            raise
        return []


def formats_of(files: Iterable[ListedFile], options: Options) -> list[Format]:
    """The formats of the records in files; of many files, only some are read."""
    found = sorted(files, key=lambda file: file.modified)
    chosen = found if len(found) <= LOOKED_AT else [*found[:: -(-len(found) // (LOOKED_AT - 1))], found[-1]]
    # Existing damage does not prevent writing new files beside it.
    bearing = Options(
        format_store=options.format_store, kafka=options.kafka, ignore_corrupt_files=True, ignore_missing_files=True
    )
    return list(formats_with_records(outline_files(chosen, bearing, all_formats=False)))


def name_there(path: str, there: Iterable[Format]) -> str | None:
    """The name of records added to a folder, if the user gives none: that of the existing records, if any.

    Raises PBIO_SEVERAL_FORMATS if it has several.
    """
    names = sorted({form.name for form in there})
    if len(names) > 1:
        raise several_there(path, names)
    return names[0] if names else None


def refuse_other_types(path: str, form: Format, there: Iterable[Format]) -> None:
    """Raise PBIO_CANNOT_MERGE or PBIO_NAME_COLLISION if records of a format would make a folder unreadable as a table.

    Formats of other names do not count, nor do formats that cannot be a table anyway.
    """
    versions = [known for known in there if known.name == form.name and known.record != form.record]
    if not versions or not _is_table(versions) or not _is_table([form]):
        return
    try:
        check_names(infer_schema([*versions, form], Options()))
    except PbioError as error:
        raise PbioError(
            error.code,
            f"the new records and those of the folder would not be one table: {error.reason}",
            file=path,
            format=form.name,
            field=error.field,
            hint="cast or rename the column as in the folder, choose another folder, or give the new records a name of "
            "their own with the option formatName",
        ) from None


def _is_table(formats: Sequence[Format]) -> bool:
    try:
        check_names(infer_schema(formats, Options()))
    except PbioError:
        return False
    return True


def several_there(path: str, names: Collection[str]) -> PbioError:
    return PbioError(
        "PBIO_SEVERAL_FORMATS",
        f"the folder would hold records of several types: {', '.join(map(shown, names))}",
        file=path,
        hint=f"name the new records with the option formatName={shown(next(iter(names)))}",
    )


def _given(options: Options, said: str | Record, target: str | None) -> tuple[Format, ...]:
    is_type = isinstance(said, Record)
    decided: dict[str, object] = {"format_name": options.format_name, "transforms": options.transforms}
    decided["nulls"] = options.nulls in ("pointer", "mask")
    if not is_type:
        decided |= {"byte_order": options.byte_order, "pointer_size": options.pointer_size}
        decided["machine"] = options.machine != "native"
    for name, value in decided.items():
        if value:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"option {option_name(name)!r} has no effect with writeFormat, which decides that",
                hint="leave one of them out",
            )
    if isinstance(said, Record):
        return (record_to_format(writable(said), machine_of(options)),)
    form, known = _find(options, said, target)
    priors = {transform.prior for transform in form.transforms}
    return (form, *(one for one in known if one.id in priors))


def _find(options: Options, said: str, target: str | None) -> tuple[Format, tuple[Format, ...]]:
    """The named format, and all known formats at its place."""
    if _ID.fullmatch(said):
        stored = tuple(store_of(options) or ())
        there = paths_to_formats((target,)) if target is not None and _is_there(target) else ()
        known = tuple(dict.fromkeys((*stored, *there)))
        return find_format(said, options, known), known
    path, which = split_choice(said, _is_there)
    if not _is_there(path):
        reason = f"option 'writeFormat' does not name a file: {said!r}"
        hint = 'give FILE, FILE#NAME, FILE#ID, the ID of a format in formatStore, or JSON {"name": {"field": "type"}}'
        raise PbioError("PBIO_PATH_NOT_FOUND", reason, hint=hint)
    known = paths_to_formats((path,))
    return chosen_format(known, which, path), known


def _is_there(path: str) -> bool:
    fs, root = locate(path)
    fs.invalidate_cache()
    return find_entry(fs, root) is not None
