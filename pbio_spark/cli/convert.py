"""`pbio convert`: records into a file of another kind, and JSON lines into records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbio_spark.cli.console import Files, TypeText, each_file, expand, opened, printable, progress_bar, said_type
from pbio_spark.cli.formats import Depth, FoundFormats, Name
from pbio_spark.cli.matching import one_format
from pbio_spark.cli.tables import FileKind, table_writer, target_of
from pbio_spark.errors import PbioError
from pbio_spark.paths import is_local, locate

if TYPE_CHECKING:
    import pyarrow as pa

    from pbio_spark.columns import ReadPlan
    from pbio_spark.formats import Format
    from pbio_spark.formats.body.opt_info import Nulls


class NullsWay(StrEnum):
    """How a type derived from JSON marks nulls."""

    POINTER = "pointer"
    MASK = "mask"


_MAY_BE_NULL = (
    "--nulls mask keeps all nulls, --nulls pointer so that readers in C see them too; --null-value says what they "
    "become instead"
)
_POINTERS = (
    "a type has nulls if it is a pointer, such as '*date', '*double' or '*(string[])' in --type; --null-value says "
    "what nulls become instead"
)

LikeFile = Annotated[
    str | None, typer.Option("--like", metavar="FILE", help="A file of that type: FILE, FILE#NAME or FILE#ID.")
]


def convert(
    files: Files,
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The file to write.")],
    to: Annotated[
        FileKind | None, typer.Option("--to", help="The kind of file; by default the suffix says it.")
    ] = None,
    name: Name = None,
    depth: Depth = -1,
    type_: TypeText = None,
    like: LikeFile = None,
    nulls: Annotated[
        NullsWay | None,
        typer.Option(
            "--nulls",
            help="How to store nulls of the JSON, so that reading gives nulls; in --type, '*int' has them.",
        ),
    ] = None,
    null_value: Annotated[
        str | None,
        typer.Option("--null-value", metavar="VALUE", help='The value of nulls: a number, or {"column": value}.'),
    ] = None,
) -> None:
    """Write the records of all files, of any version and machine, into one file of columns; whole or not at all.

    The suffix of PATH selects the kind: .parquet, .csv, .jsonl (or .json, .ndjson), .arrow. Files of JSON lines, by
    their names, become records: PATH then ends in .ffs or .pbio, and the type comes from --type, from --like, or from
    the lines.

    With --type, the type itself says what may be null: pointers, such as "*date", "*double" and "*(string[])", and
    strings. --nulls is for a type that comes from the lines.

    \b
    Examples:
      pbio convert readings.ffs -o readings.parquet
      pbio convert readings.ffs -o readings.jsonl
      pbio convert readings.jsonl -o again.ffs
      pbio convert small.jsonl -o small.ffs --type '{"small": {"n": "int", "at": "timestamp"}}'
    """
    target = _local_file(output)
    kind = target_of(output, to)
    folder = os.path.dirname(target)
    if folder and not os.path.isdir(folder):
        raise PbioError("PBIO_PATH_NOT_FOUND", "the output's folder does not exist", file=folder, hint="make it first")
    paths = list(expand(files))
    _check_direction(paths, kind, output)
    partial = f"{target}.partial"
    try:
        if kind is FileKind.PBIO:
            form, schema = _record_type(paths, target, type_, like, nulls)
            is_inferred = type_ is None and like is None
            rows, what = _to_records(paths, partial, form, schema, null_value, is_inferred=is_inferred), form.name
        else:
            if any(said is not None for said in (type_, like, nulls, null_value)):
                raise typer.BadParameter("--type, --like, --nulls and --null-value need JSON lines")
            rows, what = _to_columns(paths, partial, kind, name, depth)
        os.replace(partial, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
    print(f"{printable(output)}: {rows} rows of {printable(what)}")


def _local_file(output: str) -> str:
    """The path of a file on the local disk. Raises PBIO_BAD_PATH for a folder and for other file systems."""
    fs, target = locate(output)
    if not is_local(fs):
        raise PbioError(
            "PBIO_BAD_PATH",
            "the output must be on the local disk",
            file=output,
            hint="convert to a local file and copy it, or write with Spark",
        )
    if output.endswith("/") or os.path.isdir(target):
        hint = "name a file in it, such as " + os.path.join(output, "records.parquet")
        raise PbioError("PBIO_BAD_PATH", "the output is a folder, but must be a file", file=output, hint=hint)
    return target


def _check_direction(paths: Sequence[str], kind: FileKind, output: str) -> None:
    """Raise PBIO_BAD_OPTION unless JSON lines become records, or records become columns."""
    from pbio_spark.cli.from_json import is_lines

    are_lines = [is_lines(path) or (path == "-" and kind is FileKind.PBIO) for path in paths]
    if any(are_lines) != (kind is FileKind.PBIO) or not (all(are_lines) or not any(are_lines)):
        raise PbioError(
            "PBIO_BAD_OPTION",
            "JSON lines convert to records, and records convert to columns",
            file=output,
            hint="for records, name files in .jsonl and an output in .ffs; for columns, files of records and an output "
            "in .parquet, .csv, .jsonl or .arrow; of any other file, Spark or pyarrow make a table, which "
            "df.write.format('pbio') or pbio.open_writer takes",
        )


def rows_of_records(paths: list[str]) -> Iterator[dict[str, Any]]:
    """The records of files as rows; the files must hold records of one name."""
    from pbio_spark.columns import FilePart, read_batches
    from pbio_spark.formats.arrow.python_rows import sound_rows

    plan = _plan(paths, None, -1)
    hint = "in Python, Channel.submit(pbio_spark.read_arrow(path)) publishes it"
    for path in paths:
        ordinal = 0
        with opened(path) as file:
            for batch in read_batches(plan, FilePart(path), file):
                yield from sound_rows(batch, file=path, first=ordinal, hint=hint)
                ordinal += batch.num_rows


def _plan(paths: list[str], name: str | None, depth: int) -> ReadPlan:
    """The plan of reading the records of one name. Raises PBIO_SEVERAL_FORMATS."""
    from pbio_spark.columns import Selection, plan_read
    from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow

    found = FoundFormats()
    each_file(paths, found.add)
    unions = found.unions(name)
    if len(unions) != 1:
        present = ", ".join(printable(record.name) for record in unions)
        reason = f"the files hold formats of several names: {present}" if present else "the files hold no format"
        raise PbioError("PBIO_SEVERAL_FORMATS", reason, hint="choose one with --name")
    presentation = Presentation(recursive_depth=depth)
    selection = Selection(record_to_arrow(unions[0], presentation), presentation, names=(unions[0].name,))
    return plan_read(selection)


def _to_columns(paths: list[str], partial: str, kind: FileKind, name: str | None, depth: int) -> tuple[int, str]:
    """Write the records of one name as columns. Returns their number and name."""
    from pbio_spark.columns import FilePart, read_batches

    plan = _plan(paths, name, depth)
    rows = 0
    with progress_bar() as bar, table_writer(partial, kind, plan.schema) as writer:
        for path in paths:
            with opened(path) as file:
                size = file.seek(0, os.SEEK_END)
                watched = bar.wrap_file(file, total=size, description=printable(os.path.basename(path)))
                for batch in read_batches(plan, FilePart(path), watched):
                    writer.write_batch(batch)
                    rows += batch.num_rows
    return rows, plan.selection.names[0]


def _to_records(
    paths: Sequence[str], partial: str, form: Format, schema: pa.Schema, null_value: str | None, *, is_inferred: bool
) -> int:
    """Write JSON lines as records. Returns their number."""
    from pbio_spark.cli.from_json import write_pbio
    from pbio_spark.columns import null_replacement

    try:
        value = None if null_value is None else null_replacement(null_value)
    except ValueError:
        raise typer.BadParameter(f"--null-value is {null_replacement.__doc__}") from None
    try:
        return write_pbio(paths, partial, form, schema, value)
    except PbioError as error:
        if error.code == "PBIO_CANNOT_BE_NULL":
            error.hint = _MAY_BE_NULL if is_inferred else _POINTERS
        raise


def _record_type(
    paths: Sequence[str], target: str, type_: str | None, like: str | None, nulls: NullsWay | None
) -> tuple[Format, pa.Schema]:
    """The format for JSON lines, and its columns."""
    from pbio_spark.cli.from_json import infer
    from pbio_spark.formats.arrow.schema import record_to_arrow
    from pbio_spark.formats.arrow.written import columns_to_record, writable
    from pbio_spark.formats.layout import record_to_format

    if type_ is not None and like is not None:
        raise typer.BadParameter("use only one of --type and --like")
    if nulls is not None and (type_ is not None or like is not None):
        raise typer.BadParameter(
            "--nulls cannot be used with --type or --like, which say what may be null: in --type a pointer, such as "
            "'*date', '*double' or '*(string[])'"
        )
    if type_ is None and like is None:
        schema = infer(paths)
        stem = os.path.splitext(os.path.basename(target))[0]
        way: Nulls = "none" if nulls is None else "mask" if nulls is NullsWay.MASK else "pointer"
        try:
            return record_to_format(columns_to_record(schema, stem, way)), schema
        except PbioError as error:
            if error.code == "PBIO_BAD_NAME":
                error.hint = "rename the field in the JSON, without parentheses"
            raise error.at(file=", ".join(paths)) from None
    form = one_format(like) if like is not None else record_to_format(writable(said_type(type_ or "")))
    return form, record_to_arrow(form.record)
