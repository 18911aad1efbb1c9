"""`pbio formats`: the formats in files, and their records. `pbio schema`: the record type that a reader gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import typer

from ecode.errors import valid_text
from ecode.suggest import did_you_mean
from ecode.types import Notes, Record, Struct
from pbio_spark.cli.console import Files, each_file, expand, items, printable, printable_lines, table
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.merge import merge
from pbio_spark.wire import ItemKind, Scanner
from pbio_spark.wire.jsonl import Json, to_text

Name: TypeAlias = Annotated[str | None, typer.Option("--name", help="Only the formats of this name.")]
Depth: TypeAlias = Annotated[int, typer.Option("--depth", help="How deep a recursive structure may go.")]


@dataclass(slots=True)
class FoundFormats:
    """The formats in files, by ID in order of appearance, with the records and bytes of each."""

    formats: dict[bytes, Format] = field(default_factory=dict)
    records: Counter[bytes] = field(default_factory=Counter)
    sizes: Counter[bytes] = field(default_factory=Counter)

    def add(self, scanner: Scanner) -> None:
        """Walk one file."""
        for item in items(scanner):
            if item.kind is ItemKind.FORMAT:
                self.formats.setdefault(item.format_id, scanner.formats[item.format_id])
            elif item.kind is ItemKind.DATA:
                self.records[item.format_id] += 1
                self.sizes[item.format_id] += item.length

    def unions(self, name: str | None) -> list[Record]:
        """The union of the versions of each format name, or of one name; of the versions with records, if any has some.

        Raises PBIO_UNKNOWN_FORMAT for an unknown name, PBIO_CANNOT_MERGE.
        """
        versions: dict[str, list[Record]] = {}
        for format_ in [f for f in self.formats.values() if self.records[f.id]] or self.formats.values():
            versions.setdefault(format_.name, []).append(format_.record)
        name = next((known for known in versions if name in (known, valid_text(known))), name)
        if name is not None and name not in versions:
            hint = did_you_mean(name, versions) or f"known: {', '.join(versions)}"
            raise PbioError("PBIO_UNKNOWN_FORMAT", f"unknown format {name!r}", hint=hint)
        return [merge(versions[wanted]) for wanted in versions if name in (None, wanted)]


def formats(
    files: Files,
    layout: Annotated[bool, typer.Option("--layout", help="Show each format's fields with sizes and offsets.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object for each format and line.")] = False,
) -> None:
    """List the formats of all files, with their records and bytes.

    \b
    Examples:
      pbio formats readings.ffs
      pbio formats --json readings.ffs
    """
    if json and layout:
        raise typer.BadParameter("use only one of --layout and --json")
    found = FoundFormats()
    paths = list(expand(files))
    try:
        each_file(paths, found.add)
    finally:
        print(_to_lines(found) if json else _to_table(found))
    if layout:
        for format_ in found.formats.values():
            print()
            print(printable_lines(str(format_)))


def _to_table(found: FoundFormats) -> str:
    rows = []
    for id_ in {**found.formats, **found.records}:
        format_ = found.formats.get(id_)
        what = (
            ("?", id_.hex() or "none", "?", "?")
            if format_ is None
            else (printable(format_.name), id_.hex(), format_.machine, str(len(format_.structs[0].fields)))
        )
        rows.append((*what, str(found.records[id_]), str(found.sizes[id_])))
    return table(("name", "ID", "machine", "fields", "records", "bytes"), rows, right="fields records bytes")


def _to_lines(found: FoundFormats) -> str:
    return "\n".join(to_text(_format_to_json(found, id_)) for id_ in {**found.formats, **found.records})


def _format_to_json(found: FoundFormats, id_: bytes) -> Json:
    """A format with its counts; only the ID if no file describes it."""
    form = found.formats.get(id_)
    facts: dict[str, Json] = {"name": None, "id": id_.hex(), "machine": None, "fields": None}
    if form is not None:
        fields = {f.name: str(f.type) + logical(f.notes) for f in form.record.fields}
        facts = {"name": form.name, "id": id_.hex(), "machine": form.machine, "fields": fields}
    return {**facts, "records": found.records[id_], "bytes": found.sizes[id_]}


def logical(notes: Notes) -> str:
    """The meaning of a type that is not just a number.

    >>> logical(Notes(logical="timestamp")), logical(Notes())
    (' (timestamp)', '')
    """
    return "" if notes.logical is None else f" ({notes.logical})"


def schema(
    files: Files,
    spark: Annotated[bool, typer.Option("--spark", help="As Spark's DDL, for .schema(...).")] = False,
    arrow: Annotated[bool, typer.Option("--arrow", help="As an Arrow schema.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As Spark's JSON, for StructType.fromJson.")] = False,
    name: Name = None,
    depth: Depth = -1,
) -> None:
    """Show the record type that a reader of all files gets: the union of the versions of each format name.

    \b
    Examples:
      pbio schema readings.ffs
      pbio schema --spark readings.ffs
    """
    if spark + arrow + json > 1:
        raise typer.BadParameter("use only one of --spark, --arrow and --json")
    found = FoundFormats()
    each_file(files, found.add)
    for record in found.unions(name):
        print(_to_text(record, depth, spark, arrow, json))


def struct_to_text(struct: Struct) -> str:
    """A structure with one line for each field and its notes."""
    width = max((len(f"{f.name}: {f.type}") for f in struct.fields), default=0)
    lines = [f"  {f'{f.name}: {f.type}':{width}}  {', '.join(_said(f.notes))}".rstrip() for f in struct.fields]
    return "\n".join([f"{struct.name} {{", *lines, "}"])


def _said(notes: Notes) -> Iterator[str]:
    """Notes in words.

    >>> list(_said(Notes(logical="timestamp", units="kPa", default=0.5, symbols=(("red", 0),))))
    ['timestamp', 'unit kPa', 'default 0.5', 'red = 0']
    """
    if notes.logical is not None:
        yield notes.logical
    if notes.units is not None:
        yield f"unit {notes.units}"
    if notes.accuracy is not None:
        yield f"accuracy {notes.accuracy}"
    if notes.default is not None:
        yield f"default {notes.default!r}"
    if notes.weight is not None:
        yield f"weight {notes.weight:g}"
    yield from (f"{name} = {value}" for name, value in notes.symbols)
    if notes.hidden:
        yield "hidden"


def _to_text(record: Record, depth: int, spark: bool, arrow: bool, json: bool) -> str:
    if not (spark or arrow or json):
        return printable_lines("\n".join(struct_to_text(struct) for struct in record.structs))
    from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl, arrow_to_spark_json
    from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow

    columns = record_to_arrow(record, Presentation(recursive_depth=depth))
    if arrow:
        return printable_lines(columns.to_string(show_field_metadata=False))
    return printable(arrow_to_ddl(columns)) if spark else arrow_to_spark_json(columns)
