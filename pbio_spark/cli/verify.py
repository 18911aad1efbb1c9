"""`pbio verify`: decode every record, compare the index with its items, and report everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated

import typer

from pbio_spark.cli.console import Files, each_file, items, name_damage, name_record, printable, report
from pbio_spark.errors import PbioError
from pbio_spark.paths import find_entry, locate, opened
from pbio_spark.wire import IndexCheck, Item, Kind, Scanner, decode
from pbio_spark.wire.hints.sidecar import ChecksumBlock, read_sidecar


def verify(
    files: Files,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing about sound files.")] = False,
) -> None:
    """Check files to the last byte: items, formats and their IDs, records, the index; and checksums, if any.

    Exit code 1: something is wrong; each line names the record and the place.

    \b
    Examples:
      pbio verify readings.ffs
      pbio verify --quiet old.ffs readings.ffs
    """

    def check(scanner: Scanner) -> bool:
        sound = True
        name = scanner.window.name
        blocks = checksums(name)
        for problem in chain(problems(scanner), checksum_problems(name, blocks)):
            report(problem)
            sound = False
        if sound and not quiet:
            counts = f"formats: {len(scanner.formats)}, records: {scanner.ordinal}"
            print(f"{printable(name)}: sound ({counts}, checksums: {len(blocks) or 'none to compare'})")
        return sound

    each_file(files, check)


def problems(scanner: Scanner) -> Iterator[PbioError]:
    """Everything wrong with a file, in order. Damage between items ends the search: nothing says what follows."""
    index = IndexCheck(scanner)
    try:
        for item in items(scanner):
            try:
                check_item(scanner, item)
            except PbioError as error:
                yield name_record(scanner, item, error)
            yield from index.check(item)
        yield from index.end(scanner.offset)
    except PbioError as error:
        yield name_damage(scanner, error.at(file=scanner.window.name))


def checksums(path: str) -> Sequence[ChecksumBlock]:
    """The blocks with checksums of the file's outline, if it has any."""
    fs, plain = locate(path)
    entry = find_entry(fs, plain)
    outline = None if entry is None else read_sidecar(fs, plain, entry.size, entry.modified)
    return () if outline is None else outline.blocks


def checksum_problems(path: str, blocks: Sequence[ChecksumBlock]) -> Iterator[PbioError]:
    """The blocks that do not match their checksums."""
    if not blocks:
        return
    with opened(path) as source:
        for block in blocks:
            try:
                block.check(source, path)
            except PbioError as error:
                yield error


def check_item(scanner: Scanner, item: Item) -> None:
    """Raise what is wrong with one item. Strings may be in any encoding."""
    match item.kind:
        case Kind.DATA:
            format_, record = scanner.format_of(item), scanner.read(item)
            decode(format_, record, strict=False, file=scanner.window.name, offset=item.payload)
        case Kind.COMMENT:
            scanner.comment(item)
        case Kind.FORMAT:
            scanner.formats[item.format_id].verify_id()
