"""`pbio convert`: records into a file of another kind."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import StrEnum
from typing import Annotated

import typer

from pbio_spark.cli.console import Files, each_file, expand, opened, printable, progress_bar
from pbio_spark.cli.formats import Contents, Depth, Name
from pbio_spark.errors import PbioError
from pbio_spark.paths import is_local, locate


class Target(StrEnum):
    """What records can be converted to."""

    PARQUET = "parquet"


def convert(
    files: Files,
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The file to write.")],
    to: Annotated[Target, typer.Option("--to", help="What to write.")] = Target.PARQUET,
    name: Name = None,
    depth: Depth = -1,
) -> None:
    """Write the records of all files, of any version and machine, into one file of columns; whole or not at all."""
    import pyarrow.parquet as pq

    from pbio_spark.columns.read import Part, Wanted, read_batches
    from pbio_spark.formats.arrow_schema import Presentation, record_to_arrow

    fs, target = locate(output)
    if not is_local(fs):
        raise PbioError("PBIO_BAD_PATH", "the file is written on the local disk", file=output)
    found = Contents()
    paths = list(expand(files))
    each_file(paths, found.add)
    unions = found.unions(name)
    if len(unions) != 1:
        present = ", ".join(printable(record.name) for record in unions)
        reason = f"the files hold formats of several names: {present}" if present else "the files hold no format"
        raise PbioError("PBIO_SEVERAL_FORMATS", reason, hint="choose one with --name")
    presentation = Presentation(recursive_depth=depth)
    wanted = Wanted(record_to_arrow(unions[0], presentation), presentation, names=(unions[0].name,))
    rows = 0
    partial = f"{target}.partial"
    try:
        with progress_bar() as bar, pq.ParquetWriter(partial, wanted.schema) as writer:
            for path in paths:
                with opened(path) as file:
                    size = file.seek(0, os.SEEK_END)
                    watched = bar.wrap_file(file, total=size, description=printable(os.path.basename(path)))
                    for batch in read_batches(wanted, Part(path), watched):
                        writer.write_batch(batch)
                        rows += batch.num_rows
        os.replace(partial, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
    print(f"{printable(output)}: {rows} rows of {printable(unions[0].name)}")
