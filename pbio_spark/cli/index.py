"""`pbio index`: write the outline of each file beside it: its formats, and where it can be split."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

import typer

from pbio_spark.cli.console import Files, printable, progress_bar, report


def index(
    files: Files,
    checksums: Annotated[
        bool, typer.Option("--checksums", help="Add checksums, which reading in Spark and `pbio verify` compare.")
    ] = False,
) -> None:
    """Write an outline beside each file, so that Spark can split a large file without walking it first, and leave out
    blocks in which no record passes a filter.

    The outline of `a.ffs` is the hidden file `.a.ffs.outline`. It is valid until the file changes.

    \b
    Example:
      pbio index readings.ffs
    """
    from pbio_spark.paths import locate, opened
    from pbio_spark.source.files.listing import list_files
    from pbio_spark.source.files.outlines import file_to_outline
    from pbio_spark.source.options.options import Options
    from pbio_spark.wire.hints.sidecar import write_sidecar

    failed = False
    with progress_bar() as bar:
        for file in list_files(files, Options(recursive_file_lookup=True)):
            with opened(file.path) as source:
                name = printable(PurePath(file.path).name)
                wrapped = bar.wrap_file(source, total=file.size, description=name)
                outline, error = file_to_outline(file, wrapped, ranged=True)
            if error is not None:
                report(error)
                failed = True
                continue
            if checksums:
                with opened(file.path) as source:
                    outline = outline.with_sums(source)
            write_sidecar(*locate(file.path), outline)
            records, places = sum(outline.counts), len(outline.points)
            print(f"{printable(file.path)}: formats: {len(outline.formats)}, records: {records}, places: {places}")
    if failed:
        raise typer.Exit(1)
