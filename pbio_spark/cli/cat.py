"""`pbio cat`: items as text or JSON lines. `pbio count`: how many records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from pbio_spark.cli.console import Files, each_file, expand, items, printable, printable_lines
from pbio_spark.errors import PbioError
from pbio_spark.wire import Item, Kind, Scanner, items_to_json, read_block, record_to_json
from pbio_spark.wire.jsonl import to_text

DATA_LINE = '{"kind":"data",'


def cat(
    files: Files,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Comments, formats and index blocks too.")] = False,
    number: Annotated[int | None, typer.Option("-n", min=0, help="Stop after so many lines of each file.")] = None,
) -> None:
    """Print the records of files, in file order."""
    paths = list(expand(files))
    lines_of = _json_lines if json else _text_lines

    def show(scanner: Scanner) -> None:
        if len(paths) > 1:
            name = scanner.window.name
            print(to_text({"kind": "file", "path": name}) if json else f"==> {printable(name)} <==")
        for line in islice(lines_of(scanner, everything), number):
            print(line)

    each_file(paths, show)


def _json_lines(scanner: Scanner, everything: bool) -> Iterator[str]:
    return (line for line in items_to_json(scanner) if everything or line.startswith(DATA_LINE))


def _text_lines(scanner: Scanner, everything: bool) -> Iterator[str]:
    for item in scanner.items():
        match item.kind:
            case Kind.DATA:
                format_ = scanner.format_of(item)
                value = record_to_json(format_, scanner.read(item), file=scanner.window.name, offset=item.payload)
                yield f"{printable(format_.name)} {printable(value)}"
            case Kind.COMMENT if everything:
                yield f"# {printable(scanner.comment(item).decode(errors='backslashreplace'))}"
            case Kind.FORMAT if everything:
                yield printable_lines(str(scanner.formats[item.format_id]))
            case Kind.INDEX if everything:
                yield _block_line(scanner, item)


def _block_line(scanner: Scanner, item: Item) -> str:
    try:
        ordinals = read_block(scanner, item).ordinals
    except PbioError as error:
        return f"index block: damaged: {printable(error.reason)}"
    return f"index block: {len(ordinals)} records from number {ordinals.start}"


def count(files: Files) -> None:
    """Count records, without decoding them; with several files, of each."""
    paths = list(expand(files))

    def show(scanner: Scanner) -> None:
        for _ in items(scanner):
            pass
        print(f"{scanner.ordinal}  {printable(scanner.window.name)}" if len(paths) > 1 else scanner.ordinal)

    each_file(paths, show)
