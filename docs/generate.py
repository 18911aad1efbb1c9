"""Writes the pages of docs/ that say what the code says: options.md, types.md, errors.md.

    python docs/generate.py

A test compares the pages with what this would write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pyarrow as pa

from ecode.errors import CODES as ECODE_CODES
from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT64,
    INT32,
    STRING,
    UINT64,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
)
from morph.errors import CODES as MORPH_CODES
from pbio_spark.errors import CODES as PBIO_CODES
from pbio_spark.formats.arrow_schema import DEFAULT, TABLE, Presentation, record_to_arrow
from pbio_spark.formats.arrow_to_ddl import arrow_to_ddl
from pbio_spark.formats.arrow_to_record import arrow_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.type_string import type_to_type_string
from pbio_spark.source.options import Options, Scope, option_name

DOCS = Path(__file__).parent


def options() -> str:
    """Every option, by where it is understood."""
    lines = [
        "# Options",
        "",
        "Names and words may be in any case. An unknown option, or a value that an option cannot have, is an error.",
    ]
    for scope in Scope:
        lines += ["", f"## {scope}", "", "| option | default | value | meaning |", "| --- | --- | --- | --- |"]
        for entry in fields(Options):
            if scope in entry.metadata["scopes"]:
                cells = (f"`{option_name(entry.name)}`", _default(entry.default), entry.metadata["parse"].__doc__)
                lines.append(f"| {' | '.join(cells)} | {entry.metadata['doc']} |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if value in (None, (), MISSING):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def errors() -> str:
    """Every code with its meaning."""
    lines = [
        "# Errors",
        "",
        "Every error's text begins with a code in brackets, which never changes its meaning, and goes on with the",
        "reason, the place (file, offset, format, field) and a hint. Spark passes the text on; look the code up here.",
    ]
    for heading, codes in (
        ("Records, files and Spark", PBIO_CODES),
        ("Matching", MORPH_CODES),
        ("E-code", ECODE_CODES),
    ):
        lines += ["", f"## {heading}", "", "| code | meaning |", "| --- | --- |"]
        lines += [f"| `{code}` | {meaning} |" for code, meaning in sorted(codes.items())]
    return "\n".join(lines) + "\n"


POINT = Struct("point", (Field("a", INT32), Field("b", FLOAT64)))
NODE = Struct("node", (Field("label", STRING), Field("next", Pointer(Ref("node")))))
COLOUR = Notes(symbols=(("red", 0), ("green", 1)))
SHAPES: tuple[tuple[Type, Notes, Presentation, str], ...] = (
    (ENUMERATION, COLOUR, DEFAULT, "with symbols in the format's notes"),
    (UINT64, Notes(), Presentation(unsigned_long_as="long"), "`unsignedLongAs=long`"),
    (UINT64, Notes(), Presentation(unsigned_long_as="binary"), "`unsignedLongAs=binary`"),
    (STRING, Notes(), Presentation(encoding="binary"), "`encoding=binary`"),
    (Array(CHAR, (8,)), Notes(), DEFAULT, "text up to the first NUL"),
    (Array(CHAR, (8,)), Notes(), Presentation(char_arrays_as="binary"), "`charArraysAs=binary`"),
    (Array(CHAR, (8,)), Notes(), Presentation(char_arrays_as="array"), "`charArraysAs=array`"),
    (Array(FLOAT64, ("n",)), Notes(), DEFAULT, "n is a field of the same structure"),
    (Array(INT32, ("n", 3)), Notes(), DEFAULT, ""),
    (Array(STRING, ("n",)), Notes(), DEFAULT, ""),
    (Ref("point"), Notes(), DEFAULT, "a structure in place"),
    (Pointer(Ref("point")), Notes(), DEFAULT, "NULL is null"),
    (Array(Ref("point"), ("n",)), Notes(), DEFAULT, ""),
    (Pointer(Ref("node")), Notes(), Presentation(recursive_depth=2), "recursive, `recursiveFieldMaxDepth=2`"),
)
"""What the table of basic types does not show."""

WRITTEN: tuple[pa.DataType, ...] = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
    pa.decimal128(38, 6),
    pa.list_(pa.float64()),
    pa.list_(pa.list_(pa.float64())),
    pa.struct([("a", pa.int32()), ("b", pa.float64())]),
    pa.map_(pa.string(), pa.int32()),
)


def types() -> str:
    """How fields become columns and columns fields."""
    lines = [
        "# Types",
        "",
        "## Reading: PBIO to Spark",
        "",
        "| type | bytes | Spark | |",
        "| --- | --- | --- | --- |",
    ]
    for row in TABLE:
        note = "" if row.logical is None else f"noted as `{row.logical}`"
        lines.append(_read_line(row.type, Notes(logical=row.logical), DEFAULT, note))
    lines += [_read_line(*shape) for shape in SHAPES]
    lines += [
        "",
        "Columns are nullable. Elements of arrays may be null only where the bytes can say so: strings and pointers.",
        "A `float` of 16 bytes is refused, since machines disagree on what it is.",
        "",
        "## Writing: Spark to PBIO",
        "",
        "| Spark | fields of the format, for a column `x` on x86-64 | |",
        "| --- | --- | --- |",
        *map(_write_line, WRITTEN),
        "",
        "Notes travel in the format's opt-info, where FFS's own tools leave them alone; hidden fields are not shown to",
        "readers. Other Spark types (intervals, variant) are refused by name before anything is written.",
    ]
    return "\n".join(lines) + "\n"


def _read_line(type_: Type, notes: Notes, choice: Presentation, note: str) -> str:
    top = Struct("t", (Field("n", INT32), Field("x", type_, notes)))
    column = record_to_arrow(Record((top, POINT, NODE)), choice).field("x")
    size = type_.size if isinstance(type_, Basic) and type_.kind is not Kind.STRING else ""
    ddl = arrow_to_ddl(pa.schema([column])).removeprefix("x ")
    return f"| `{type_to_type_string(type_)}` | {size} | `{ddl}` | {note} |"


def _write_line(arrow: pa.DataType) -> str:
    schema = pa.schema([pa.field("x", arrow)])
    made = record_to_format(arrow_to_record(schema, "t"), "x86-64")
    notes = {(struct.name, f.name): f.notes for struct in made.record.structs for f in struct.fields}
    said = []
    shown = []
    for struct in made.structs:
        fields = [f"`{f.name}: {f.type}` {f.size}" for f in struct.fields]
        shown.append(", ".join(fields) if struct is made.structs[0] else f"{struct.name} {{{', '.join(fields)}}}")
        for f in struct.fields:
            note = notes[struct.name, f.name]
            said += [f"{f.name} is hidden"] if note.hidden else []
            said += [f"{f.name} noted as `{note.logical}`"] if note.logical else []
    ddl = arrow_to_ddl(schema).removeprefix("x ")
    return f"| `{ddl}` | {'; '.join(shown)} | {', '.join(said)} |"


PAGES: dict[str, Callable[[], str]] = {"options.md": options, "types.md": types, "errors.md": errors}
"""What this script writes, by the name of the page."""


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
