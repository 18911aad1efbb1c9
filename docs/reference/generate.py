"""Writes the pages of docs/reference that say what the code says: options.md, types.md, errors.md, api.md.

    python docs/reference/generate.py

A test compares the pages with what this would write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pyarrow as pa

from docs.reference.generate_api import api
from ecode.errors import CODES as ECODE_CODES
from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
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
from morph.comparison.convertible import INT128
from morph.errors import CODES as MORPH_CODES
from pbio_spark.columns.numbers import field_to_conversion
from pbio_spark.errors import CODES as PBIO_CODES
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.schema import DEFAULT, TABLE, Presentation, record_to_arrow
from pbio_spark.formats.body.type_string import type_to_type_string
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.spark_names import BINARY, SPARK_NAMES
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.scopes import READS, Scope, option_name

REFERENCE = Path(__file__).parent


def options() -> str:
    """Every option, by where it is understood."""
    lines = [
        "# Options",
        "",
        "Names and words may be in any case. An unknown option, or a value that an option cannot have, is an error.",
    ]
    for table, scope in [*((Options, scope) for scope in Scope), *((Bp5Options, scope) for scope in READS)]:
        heading = f"{scope} of BP5 folders, format `bp5`" if table is Bp5Options else scope
        lines += ["", f"## {heading}", "", "| option | default | value | meaning |", "| --- | --- | --- | --- |"]
        for entry in fields(table):
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
        "Every error's text begins with a code in brackets, whose meaning never changes. The reason, the place (file,",
        "offset, format, field) and a hint follow. Through Spark the code is in the first line, or for an error in a",
        "task in the second, after `An exception was thrown from the Python worker:`. Usage errors of commands have no",
        "code.",
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


BECOMES: tuple[pa.DataType, ...] = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.decimal128(20, 0), pa.decimal128(10, 2), pa.bool_(), pa.string(), pa.timestamp("us", tz="UTC")),
)
SOURCES: tuple[tuple[str, Basic, Notes], ...] = (
    *((f"`integer` {size}", Basic(Kind.INTEGER, size), Notes()) for size in (1, 2, 4, 8)),
    *((f"`unsigned integer` {size}", Basic(Kind.UNSIGNED, size), Notes()) for size in (1, 2, 4, 8)),
    ("`float` 4", FLOAT32, Notes()),
    ("`float` 8", FLOAT64, Notes()),
    ("`char`", CHAR, Notes()),
    ("`boolean`", Basic(Kind.BOOLEAN, 1), Notes()),
    ("`enumeration` 4", ENUMERATION, Notes()),
    ("`enumeration` 4 with symbols", ENUMERATION, COLOUR),
    ("`decimal(10,2)`", INT64, Notes(logical="decimal(10,2)")),
    ("`decimal(38,6)`", INT128, Notes(logical="decimal(38,6)")),
    ("`timestamp`", INT64, Notes(logical="timestamp")),
)
"""The rule of conversions, as a table."""

LOSSLESS = """\
## Reading as another type: only without loss

With `.schema()`, `readerFormat`, `from_pbio`, and when `load()` joins several versions, a column may have another
type than its field. One rule decides this everywhere, including [matching](../programs/matching.md). Reading keeps a
value exactly, or makes a bad record, which `mode` handles. Writing into a field of another type, as with
`writeFormat`, raises an error for a value that the field cannot hold. The table is for reading. *all*: every value of
the field is a value of the column. *each*: every value is checked. `-`: planning refuses the query."""

EDGES = """\
These values are at the limits. 9007199254740993 (2^53 + 1) is not a `DOUBLE`, but 9007199254740992 is. 0.1 in a
`float` of 8 bytes is not a `FLOAT`, but 0.5, NaN, both infinities and -0.0 are. As decimals, 1.50 is not a `BIGINT`
and 0.10 is not a `DOUBLE`, but 2.00 and 0.25 are. 2^63 in 8 unsigned bytes is not a `BIGINT`, and 200 in a `char` is
not a `TINYINT`.

The values of an enumeration are its names. Versions with other numbers, or versions that FFS's own tools wrote
without names, make one `STRING` column. A version without names takes those of the others, unless these contradict
each other. A number without a name makes a bad record. As `BIGINT` the column shows the numbers; this is refused if a
number means different names in two versions.

As `STRING`, the text in an array of chars ends at the first NUL. As `BINARY`, on request, it has all bytes.

`NOT NULL` in a schema, nested or not, is a promise: a record that breaks it is a bad record. So is one with a null in
the key of a map, or among elements that cannot be null. PERMISSIVE cannot show a bad record as nulls if a top-level
column is `NOT NULL`, so the query fails in that case."""


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
        "Columns are nullable. Elements of arrays may be null only if the bytes can show it: strings, pointers, and",
        "elements whose nulls the format marks ([nulls](#nulls)).",
        "A `float` of 16 bytes is refused, since its meaning depends on the machine.",
        "",
        *LOSSLESS.splitlines(),
        "",
        f"| from, to | {' | '.join(map(_ddl, BECOMES))} |",
        f"| --- |{' --- |' * len(BECOMES)}",
        *(_becomes_line(*source) for source in SOURCES),
        "",
        *EDGES.splitlines(),
        "",
        "## Writing: Spark to PBIO",
        "",
        "| Spark | fields of the format, for a column `x` on x86-64 | |",
        "| --- | --- | --- |",
        *map(_write_line, WRITTEN),
        "",
        "The format's opt-info holds the notes, and FFS's own tools ignore them. Readers do not see hidden fields.",
        "Other Spark types (intervals, variant) are refused before anything is written, and the error names them.",
        "",
        *NULLS.splitlines(),
        "",
        *_names(),
    ]
    return "\n".join(lines) + "\n"


NULLS = """\
## Nulls

Strings and structures can always be null. The option `nulls` determines how other columns that may be null, and their
elements, are written. Reading restores their nulls exactly.

| `nulls` | `x DOUBLE` | `x ARRAY<INT>` with null elements | |
| --- | --- | --- | --- |
| `pointer` | `x: *float` 8 | `x: *(*integer)[x_count]` 4 | readers in C see the null |
| `mask` | `x: float` 8, a bit of `nulls: unsigned integer[1]` 1 | `x: integer[x_count]` 4, `x_nulls: unsigned \
integer[x_count]` 1, a bit of `nulls` | smaller and faster; other readers see zeros and an additional field |
| `value` | `x: float` 8 | `x: integer[x_count]` 4 | `nullValue` instead; reading does not restore the null |
| `refuse` | `x: float` 8 | `x: integer[x_count]` 4 | a null is an error with its column and row |

Plain files and `to_pbio` refuse nulls by default. A channel that was created from a schema has masks, so a DataFrame
with nulls can be published unchanged. A channel from a record type or a file represents nulls as that type does. In
E-code a null reads as zero, and `present(input.x)` tells the difference. [Nulls](../decisions/0011-nulls.md) gives
the reasons.

## Writing in an existing format

`writeFormat` uses the format of a file instead of creating one: `writeFormat=old/part-0.ffs#reading`. Fixed arrays,
`char[n]`, counts and the ID stay the same, so a program that reads that file can read the new ones. Counts without a
column are the lengths of their arrays; counts with a column are compared with them. Three things are errors: a column
without a field, a field without a column, and a value that its field cannot hold."""


NAMES = """\
## Names of types

In the JSON of a record type, as in `readerFormat` and `pbio space create`, write a type as `pbio schema` prints it
(`int32`, `uint8`, `float64[n]`, `*point`) or as Spark and SQL call it, in any case. A structure of the record type
with the same name takes precedence. `decimal` without parameters is `decimal(10,0)`, `varchar(n)` and `char(n)` are
strings of any length, and `binary` adds a hidden field for its length. Numbers, dates and arrays have nulls if the
type is a pointer: `*date`, `*double`, `*(string[])`. `pbio.record_to_json` writes such JSON, with Spark's names for
fields with a logical type that Spark knows: `timestamp`, `decimal(10,2)`."""


def _names() -> list[str]:
    """Spark's names by the field that they make."""
    found: dict[str, list[str]] = {}
    for name, (type_, logical) in SPARK_NAMES.items():
        found.setdefault(f"`{type_}` |" + (f" noted as `{logical}`" if logical else ""), []).append(f"`{name}`")
    found["`int64`, from 19 digits `char[16]` | noted as `decimal(p,s)`"] = ["`decimal(p,s)`", "`dec`", "`numeric`"]
    found["`char[x_count]` | noted as `binary`; `x_count: int32` is hidden"] = [f"`{BINARY}`"]
    return [
        *NAMES.splitlines(),
        "",
        "| name | field `x` | |",
        "| --- | --- | --- |",
        *(f"| {', '.join(names)} | {made} |" for made, names in found.items()),
    ]


def _ddl(arrow: pa.DataType) -> str:
    return f"`{arrow_to_ddl(pa.schema([pa.field('x', arrow)])).removeprefix('x ')}`"


def _becomes_line(name: str, type_: Basic, notes: Notes) -> str:
    cells = []
    for want in BECOMES:
        found = field_to_conversion(type_, notes, want, "decimal")
        cells.append("-" if isinstance(found, str) else "each" if found.is_checked else "all")
    return f"| {name} | {' | '.join(cells)} |"


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


PAGES: dict[str, Callable[[], str]] = {"options.md": options, "types.md": types, "errors.md": errors, "api.md": api}
"""What this script writes, by the name of the page."""


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
