"""The format that files are written in: made of the columns, or one that is there already (option `writeFormat`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.written import columns_to_record, writable
from pbio_spark.formats.chosen import chosen_format, split_choice
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FolderStore
from pbio_spark.paths import find_entry, locate
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import outline_files, outlines_to_formats
from pbio_spark.source.options.options import Options, machine_of, name_of, nulls_of, option_name
from pbio_spark.source.query.naming import find_format

if TYPE_CHECKING:
    import pyarrow as pa

_ID = re.compile(r"(?:[0-9a-fA-F]{2}){8,12}")


def formats_to_write(options: Options, schema: pa.Schema, target: str | None) -> tuple[Format, ...]:
    """The format for columns, and those to which it leads.

    Args:
        target: the folder that is written to; None if it is none.

    Raises:
        PbioError: PBIO_UNSUPPORTED_TYPE, PBIO_BAD_LAYOUT for columns; PBIO_UNKNOWN_FORMAT and what `evolve` raises for
            transforms; PBIO_BAD_OPTION for what a format that is there already does not leave open;
            PBIO_PATH_NOT_FOUND, PBIO_UNKNOWN_FORMAT, PBIO_SEVERAL_FORMATS if there is none.
    """
    if options.write_format is not None:
        return _given(options, options.write_format, target)
    form = record_to_format(columns_to_record(schema, name_of(options), nulls_of(options)), machine_of(options))
    priors: list[Format] = []
    for _, prior, program in options.transforms:
        priors.append(find_format(prior, options, ()))
        form = evolve(priors[-1], form, program)
    return (form, *priors)


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
                f"option {option_name(name)!r} means nothing beside writeFormat, which decides that",
                hint="leave one of them out",
            )
    if isinstance(said, Record):
        return (record_to_format(writable(said), machine_of(options)),)
    form, known = _find(options, said, target)
    priors = {transform.prior for transform in form.transforms}
    return (form, *(one for one in known if one.id in priors))


def _find(options: Options, said: str, target: str | None) -> tuple[Format, tuple[Format, ...]]:
    """The format that is meant, and all that are known where it was found."""
    if _ID.fullmatch(said):
        stored = tuple(FolderStore(options.format_store)) if options.format_store is not None else ()
        there = _described(target) if target is not None and _is_there(target) else ()
        known = tuple(dict.fromkeys((*stored, *there)))
        return find_format(said, options, known), known
    path, which = split_choice(said, _is_there)
    if not _is_there(path):
        reason = f"option 'writeFormat' names no file, {said!r}"
        hint = 'it is FILE, FILE#NAME, FILE#ID, the ID of a format in formatStore, or JSON {"name": {"field": "type"}}'
        raise PbioError("PBIO_PATH_NOT_FOUND", reason, hint=hint)
    known = _described(path)
    return chosen_format(known, which, path), known


def _described(path: str) -> tuple[Format, ...]:
    """The formats that the files at a path describe, in the order in which they were met."""
    return outlines_to_formats(outline_files(list_files((path,), Options()), Options(), all_formats=True))


def _is_there(path: str) -> bool:
    fs, root = locate(path)
    fs.invalidate_cache()
    return find_entry(fs, root) is not None
