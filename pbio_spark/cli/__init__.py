"""The `pbio` command: look into PBIO/FFS files from a shell.

console    what all commands share: files and standard input, errors, wrong usage, progress
formats    `pbio formats`, `pbio schema`: the formats in a file
cat        `pbio cat`, `pbio count`: the records
verify     `pbio verify`: checks every byte
index      `pbio index`: outlines beside files, for splitting
convert    `pbio convert`: records as Parquet, CSV, JSON lines or Arrow, and JSON lines as records
tables     the files of columns that `convert` writes
from_json  JSON lines as records
matching   `pbio diff`, `pbio match`, `pbio lineage`: which format reaches which
hexdump    `pbio hexdump`: one place, byte by byte
bp5        `pbio bp5`: ADIOS2's BP5 folders
space      `pbio space`: channel spaces and the events in them; `derive`: derived channels
gateway    `pbio gateway`: events to and from other programs, over the network
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ecode.pipe import ends_with_its_reader, is_reader_gone
from morph import MorphError
from pbio_spark.cli import bp5, cat, console, convert, formats, gateway, hexdump, index, matching, space, verify
from pbio_spark.errors import PbioError

app = typer.Typer(
    name="pbio",
    help="Look into PBIO/FFS files. FILE may be a folder, or - for standard input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    formats.formats,
    formats.schema,
    cat.cat,
    cat.count,
    matching.diff,
    matching.match,
    matching.lineage,
    verify.verify,
    index.index,
    convert.convert,
    hexdump.hexdump,
):
    app.command()(verb)
app.add_typer(space.app, name="space")
app.add_typer(gateway.app, name="gateway")
app.add_typer(bp5.app, name="bp5")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"pbio-spark {version('pbio-spark')}")
        except PackageNotFoundError:
            print("pbio-spark, not installed")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")]


@app.callback()
def _all(version: Version = False) -> None:
    """Look into PBIO/FFS files. FILE may be a folder, or - for standard input."""


def main() -> None:
    """Run the command line in `sys.argv`.

    Exit code 0: done; 1: an error, reported on standard error; 2: wrong usage; 141: the reader of the output is gone.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    with ends_with_its_reader():
        try:
            with console.usage_in_one_line():
                code = app(prog_name="pbio", standalone_mode=False)
        except (PbioError, MorphError, OSError, SystemExit) as error:
            # click turns any broken pipe into an exit, a connection's too.
            cause = error.__context__ if isinstance(error, SystemExit) else error
            is_broken = isinstance(cause, BrokenPipeError)
            if (isinstance(error, SystemExit) and not is_broken) or (is_broken and is_reader_gone()):
                raise
            assert isinstance(cause, Exception)
            console.report(cause)
            sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
