"""`pbio bp5`: look into ADIOS2's BP5 folders, without ADIOS2."""

from __future__ import annotations

import json as json_
from collections.abc import Iterable, Iterator
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pbio_spark.cli.console import assignments, printable, progress_bar, report, table

if TYPE_CHECKING:
    import pyarrow as pa

    from pbio_spark.source.bp5.scan import DatasetScan

app = typer.Typer(help="Look into BP5 folders, as ADIOS2 writes them.", no_args_is_help=True, rich_markup_mode=None)

Folders: TypeAlias = Annotated[list[str], typer.Argument(metavar="FOLDER...", help="BP5 folders, or folders of them.")]
Variables: TypeAlias = Annotated[
    str | None, typer.Option("--variables", "-v", metavar="NAMES", help="Only these, with commas between.")
]


def _scan(folders: list[str], **options: str) -> DatasetScan:
    from pbio_spark.source.bp5.options import parse_bp5_options
    from pbio_spark.source.bp5.scan import scan_datasets
    from pbio_spark.source.options.scopes import Scope

    return scan_datasets(folders, parse_bp5_options({"recursiveFileLookup": "true", **options}, Scope.READ))


def _batches(scan: DatasetScan, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    from pbio_spark.bp5.rows.read import read_part
    from pbio_spark.source.bp5.plan import plan_parts, scan_to_schema, scan_to_wanted

    scan = scan if schema is not None else scan.surveyed()
    wanted = scan_to_wanted(scan, scan_to_schema(scan, checked=False) if schema is None else schema)
    with progress_bar() as bar:
        for parts in bar.track(plan_parts(scan, wanted), description="reading"):
            for part in parts:
                yield from read_part(part, wanted)


@app.command()
def ls(folders: Folders, attributes: Annotated[bool, typer.Option("--attributes", "-a")] = False) -> None:
    """List the variables of BP5 folders, and with -a the attributes.

    \b
    Example:
      pbio bp5 ls -a run.bp
    """
    from pbio_spark.formats.arrow.python_rows import sound_rows

    for name in ("variables", "attributes") if attributes else ("variables",):
        batches = list(_batches(_scan(folders, rows=name)))
        headers = tuple(batches[0].schema.names) if batches else ()
        rows = [
            tuple(printable(_shown(value)) for value in row.values()) for batch in batches for row in sound_rows(batch)
        ]
        if headers:
            print(table(headers, rows, right="dimensions steps first_step last_step blocks step"))


def _shown(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@app.command()
def schema(folders: Folders) -> None:
    """Print the columns that `spark.read.format("bp5")` gives, as .schema(...) takes them.

    \b
    Example:
      pbio bp5 schema run.bp
    """
    from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
    from pbio_spark.source.bp5.plan import scan_to_schema

    print(printable(arrow_to_ddl(scan_to_schema(_scan(folders).surveyed()))))


@app.command()
def cat(
    folders: Folders,
    rows: Annotated[str, typer.Option("--rows", help="steps, elements or blocks.")] = "steps",
    variables: Variables = None,
    number: Annotated[int | None, typer.Option("-n", min=0, help="Stop after N rows.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="An option of the data source; may be repeated."),
    ] = None,
) -> None:
    """Print rows as JSON lines.

    \b
    Examples:
      pbio bp5 cat -n 3 run.bp
      pbio bp5 cat --rows elements -v x,y run.bp
      pbio bp5 cat -o "where={ return input.time > 2.5; }" -o mode=PERMISSIVE run.bp
    """
    options = {"rows": rows} if variables is None else {"rows": rows, "variables": variables}
    options |= assignments(option or [], "mode=PERMISSIVE")
    for row in _first(_batches(_scan(folders, **options)), number):
        print(printable(json_.dumps(_plain(row), ensure_ascii=False)))


def _first(batches: Iterable[pa.RecordBatch], number: int | None) -> Iterator[dict[str, Any]]:
    from pbio_spark.formats.arrow.python_rows import sound_rows

    left = number
    for batch in batches:
        for row in sound_rows(batch):
            if left == 0:
                return
            yield row
            left = None if left is None else left - 1


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return int(value) if isinstance(value, Decimal) else value


@app.command()
def verify(folders: Folders) -> None:
    """Read everything, step by step, and report all that is wrong.

    Exit code 1: something is wrong; each line names the step, the writer and the variable, as far as they are known.

    \b
    Example:
      pbio bp5 verify run.bp
    """
    from pbio_spark.bp5.trouble import VERIFY
    from pbio_spark.source.bp5.check import problems

    failed = False
    with progress_bar() as bar:
        for one in _scan(folders, mode="PERMISSIVE").found:
            wrong = 0
            for problem in problems(one, lambda steps: bar.track(steps, description="checking")):
                problem.hint = None if problem.hint == VERIFY else problem.hint
                report(problem)
                wrong += 1
            failed |= wrong > 0
            if not wrong:
                print(f"{printable(one.file.path)}: sound (steps: {len(one.dataset.steps)})")
    if failed:
        raise typer.Exit(1)
