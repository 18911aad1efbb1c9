"""`pbio cat`: items as text or JSON lines. `pbio count`: how many records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Annotated, TypeAlias

import typer

from pbio_spark.cli.console import (
    Files,
    each_file,
    expand,
    items,
    name_damage,
    name_record,
    printable,
    printable_lines,
    report,
)
from pbio_spark.errors import PbioError
from pbio_spark.wire import Item, ItemKind, Scanner, items_to_json, read_block, record_to_json
from pbio_spark.wire.jsonl import to_text
from pbio_spark.wire.resync import items_resumed

Bad: TypeAlias = Callable[[Item, PbioError], None]
"""Takes a record that cannot be decoded, and the error."""

DATA_LINE = '{"kind":"data",'


def cat(
    files: Files,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Comments, formats and index blocks too.")] = False,
    number: Annotated[
        int | None, typer.Option("-n", min=0, metavar="N", help="Show only the first N lines of each file.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Continue after bad records and damage; report them on standard error.")
    ] = False,
) -> None:
    """Print the records of files, in file order; times and dates as the stored numbers.

    \b
    Examples:
      pbio cat -n 3 readings.ffs
      pbio cat --json readings.ffs
      pbio cat --skip-bad readings.ffs
    """
    paths = list(expand(files))
    lines_of = _json_lines if json else _text_lines
    skipped = damages = 0

    def show(scanner: Scanner) -> None:
        if len(paths) > 1:
            name = scanner.window.name
            print(to_text({"kind": "file", "path": name}) if json else f"==> {printable(name)} <==")

        def bad(item: Item, error: PbioError) -> None:
            nonlocal skipped
            named = name_record(scanner, item, error)
            if not skip_bad:
                raise named
            report(named)
            skipped += 1

        def damage(error: PbioError) -> None:
            nonlocal damages
            report(name_damage(scanner, error))
            damages += 1

        found = items_resumed(scanner, damage) if skip_bad else scanner.items()
        for line in islice(lines_of(scanner, found, everything, bad), number):
            print(line)

    each_file(paths, show)
    if skipped:
        print(f"pbio: bad records skipped: {skipped}", file=sys.stderr)
    if damages:
        print(f"pbio: damaged places skipped: {damages}", file=sys.stderr)


def _json_lines(scanner: Scanner, found: Iterable[Item], everything: bool, bad: Bad) -> Iterator[str]:
    return (line for line in items_to_json(scanner, bad, found, empty=True) if everything or line.startswith(DATA_LINE))


def _text_lines(scanner: Scanner, found: Iterable[Item], everything: bool, bad: Bad) -> Iterator[str]:
    for item in found:
        match item.kind:
            case ItemKind.DATA:
                try:
                    format_ = scanner.format_of(item)
                    name, at = scanner.window.name, item.payload
                    value = record_to_json(format_, scanner.read(item), empty=True, file=name, offset=at)
                except PbioError as error:
                    bad(item, error)
                    continue
                yield f"{printable(format_.name)} {printable(value)}"
            case ItemKind.COMMENT if everything:
                yield f"# {printable(scanner.comment(item).decode(errors='backslashreplace'))}"
            case ItemKind.FORMAT if everything:
                yield printable_lines(str(scanner.formats[item.format_id]))
            case ItemKind.INDEX if everything:
                yield _block_line(scanner, item)


def _block_line(scanner: Scanner, item: Item) -> str:
    try:
        ordinals = read_block(scanner, item).ordinals
    except PbioError as error:
        return f"index block: damaged: {printable(error.reason)}"
    return f"index block: {len(ordinals)} records from number {ordinals.start}"


def count(files: Files) -> None:
    """Count records without decoding them, in each file and in all.

    \b
    Example:
      pbio count readings.ffs
    """
    paths = list(expand(files))
    total = 0

    def show(scanner: Scanner) -> None:
        nonlocal total
        for _ in items(scanner):
            pass
        total += scanner.ordinal
        print(f"{scanner.ordinal}  {printable(scanner.window.name)}" if len(paths) > 1 else scanner.ordinal)

    try:
        each_file(paths, show)
    finally:
        if len(paths) > 1:
            print(f"{total}  total")
