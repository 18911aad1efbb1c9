"""The `pbio` command: look into PBIO/FFS files from a shell.

console    what all verbs share: files and standard input, errors, progress
formats    `pbio formats`, `pbio schema`: what is in a file
cat        `pbio cat`, `pbio count`: the records
verify     `pbio verify`: is every byte sound
index      `pbio index`: outlines beside files, for splitting
convert    `pbio convert`: records as Parquet
matching   `pbio diff`, `pbio match`, `pbio lineage`: which format reaches which
hexdump    `pbio hexdump`: one place, byte by byte
space      `pbio space`: channel spaces and the events in them
"""

from __future__ import annotations

import sys

import typer

from morph import MorphError
from pbio_spark.cli import cat, console, convert, formats, hexdump, index, matching, space, verify
from pbio_spark.errors import PbioError

app = typer.Typer(
    name="pbio",
    help="Look into PBIO/FFS files. FILE may be a folder, or - for standard input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
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


def main() -> None:
    """Run the command line in `sys.argv`. Exit code 0: done; 1: an error, told on standard error; 2: misused."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except (PbioError, MorphError, OSError) as error:
        console.report(error)
        sys.exit(1)
