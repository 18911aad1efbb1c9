"""The name of a record type in options -> a format of that type.

A record type is named by the ID of any of its formats, by its name if unique, by `name@version` as in `pbio lineage`,
or as JSON. Formats of one record type are equivalent here: naming one means all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ecode.errors import valid_text
from ecode.suggest import did_you_mean
from ecode.types import NO_NOTES, Record, Struct
from morph.evolution.lineages import Relative
from morph.in_place import in_place
from morph.transforms import record_to_meaning
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.formats_to_graph import versions
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.store import store_of

SHOWN = 8
"""The most versions that an error lists."""


def known_formats(options: Options, formats: Iterable[Format], described: Iterable[Format] = ()) -> list[Format]:
    """Formats in the order of `pbio lineage`: those of the files, then those of the store."""
    stored: Iterable[Format] = store_of(options) or ()
    return list(dict.fromkeys((*described, *formats, *stored)))


def find_format(
    said: str,
    options: Options,
    formats: Iterable[Format],
    described: Iterable[Format] = (),
    wanted: Iterable[Format] = (),
) -> Format:
    """A format of the named record type, among those given and those of the store.

    A record type as JSON that no format has gets a new format.

    Args:
        formats: those that are read; with those of the store, they decide what a name means.
        described: other formats, without records or whose records are not read.
        wanted: other formats, of types that only the reader has.

    Raises PBIO_UNKNOWN_FORMAT, PBIO_SEVERAL_FORMATS, and PBIO_BAD_TYPE for JSON that is not a record type.
    """
    return find_formats(said, options, formats, described, wanted)[0]


def find_formats(
    said: str,
    options: Options,
    formats: Iterable[Format],
    described: Iterable[Format] = (),
    wanted: Iterable[Format] = (),
    *,
    alike: bool = False,
) -> list[Format]:
    """The format of the named type; with `alike`, one of each record type that programs see as the same.

    Formats that write nulls differently have different record types, but look the same to a program.
    """
    known = [*known_formats(options, formats, described), *wanted]
    if said.lstrip().startswith("{"):
        record = json_to_record(said)
        seen = _seen(record)
        same = [form for form in known if _seen(form.record) == seen] if alike else []
        return list({record_to_meaning(form.record): form for form in reversed(same)}.values())[::-1] or [
            record_to_known(record, known)
        ]
    by_id = [form for form in known if said.lower() == form.id.hex()]
    if by_id:
        return by_id[:1]
    types = versions(tuple(known))
    found = [one for one in types if said in (one.name, valid_text(one.name))] or [
        one for one in types if said in (one.label, valid_text(one.label))
    ]
    if len(found) > 1:
        first = {form.id.hex() for form in (*known_formats(options, formats), *wanted)}
        found = [one for one in found if not first.isdisjoint((one.key, *one.others))] or found
    if len(found) == 1:
        return [next(form for form in known if form.id.hex() == found[0].key)]
    if found:
        first_of = [next(form for form in known if form.id.hex() == one.key) for one in found]
        if alike and len({_seen(form.record) for form in first_of}) == 1:
            return first_of
        raise PbioError(
            "PBIO_SEVERAL_FORMATS",
            f"{len(found)} record types are called {said!r}",
            hint=f"name one by its version or ID, or give it as JSON: {shown_versions(found)}",
        )
    near = did_you_mean(said, [text for one in types for text in (one.name, one.label)])
    raise PbioError(
        "PBIO_UNKNOWN_FORMAT",
        f"no file and no store describes a format {said!r}",
        hint=near or 'describe the record type as JSON, {"name": {"field": "type"}}, or name a formatStore',
    )


def is_known(said: str, options: Options, formats: Iterable[Format], described: Iterable[Format] = ()) -> bool:
    """Whether any format has the named record type. Raises PBIO_BAD_TYPE."""
    known = known_formats(options, formats, described)
    try:
        return find_formats(said, options, formats, described, alike=True)[0] in known
    except PbioError as error:
        if error.code != "PBIO_UNKNOWN_FORMAT":
            raise
        return False


def refuse_name(said: str, options: Options, names: Collection[str] = ()) -> None:
    """Raise PBIO_BAD_OPTION for a name in a stream whose meaning the next file may change.

    Args:
        names: names of types that cannot change.
    """
    is_lasting = said.lstrip().startswith("{") or re.fullmatch("(?:[0-9a-fA-F]{2})+", said) is not None
    if not (is_lasting or said in names or options.format_store is not None):
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"{said!r} may mean another record type when the next files of the stream come",
            hint="name the type by its ID or as JSON, or keep all formats in a formatStore",
        )


def record_to_known(record: Record, known: Sequence[Format]) -> Format:
    """The first format of a record type, else the first that differs only in notes, else a new one."""
    meaning, bare = record_to_meaning(record), _bare(record)
    for form in known:
        if record_to_meaning(form.record) == meaning:
            return form
    alike = {record_to_meaning(form.record): form for form in reversed(known) if _bare(form.record) == bare}
    return next(iter(alike.values())) if len(alike) == 1 else record_to_format(record, "x86-64")


def shown_versions(types: Sequence[Relative]) -> str:
    """Versions for people, each with the ID of one format."""
    more = f" and {len(types) - SHOWN} more" if len(types) > SHOWN else ""
    return ", ".join(f"{one.label} ({one.key})" for one in types[:SHOWN]) + more


def _seen(record: Record) -> Record:
    """A record type as programs see it, with units and logical types, without pointers to numbers and null masks."""

    def seen(struct: Struct) -> Struct:
        unseen = record.struct(struct.name).null_marks
        kept = (f for f in struct.fields if f.name not in unseen)
        return Struct(
            struct.name,
            tuple(replace(f, notes=replace(NO_NOTES, logical=f.notes.logical, units=f.notes.units)) for f in kept),
        )

    return record_to_meaning(Record(tuple(map(seen, in_place(record).structs))))


def _bare(record: Record) -> Record:
    """A record type without notes."""
    meant = record_to_meaning(record)
    return Record(tuple(Struct(s.name, tuple(replace(f, notes=NO_NOTES) for f in s.fields)) for s in meant.structs))
