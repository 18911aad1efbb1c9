"""`pbio verify`: decode every record, compare the index with what it points to, and tell of all that is wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated

import typer

from pbio_spark.cli.console import Files, each_file, items, printable, report
from pbio_spark.errors import PbioError
from pbio_spark.wire import Block, Entry, Item, Kind, Scanner, decode, read_block


def verify(
    files: Files,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of files that are sound.")] = False,
) -> None:
    """Check files to the last byte: items, formats and their IDs, records, the index."""

    def check(scanner: Scanner) -> bool:
        sound = True
        for problem in problems(scanner):
            report(problem)
            sound = False
        if sound and not quiet:
            print(
                f"{printable(scanner.window.name)}: sound (formats: {len(scanner.formats)}, records: {scanner.ordinal})"
            )
        return sound

    each_file(files, check)


def problems(scanner: Scanner) -> Iterator[PbioError]:
    """All that is wrong with a file, in its order. Damage between items ends the search: nothing tells what follows."""
    index = IndexCheck(scanner)
    try:
        for item in items(scanner):
            try:
                check_item(scanner, item)
            except PbioError as error:
                yield error.at(file=scanner.window.name, offset=item.offset)
            yield from index.check(item)
        yield from index.end(scanner.offset)
    except PbioError as error:
        yield error.at(file=scanner.window.name)


def check_item(scanner: Scanner, item: Item) -> None:
    """Raise what is wrong with one item. Strings may be in any encoding, so that is no error here."""
    match item.kind:
        case Kind.DATA:
            format_, record = scanner.format_of(item), scanner.read(item)
            decode(format_, record, strict=False, file=scanner.window.name, offset=item.payload)
        case Kind.COMMENT:
            scanner.comment(item)
        case Kind.FORMAT:
            scanner.formats[item.format_id].verify_id()


class IndexCheck:
    """Compares what the last index block announced with the items that follow it."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.block: Block | None = None
        self.announced: deque[Entry] = deque()

    def check(self, item: Item) -> Iterator[PbioError]:
        """What the next item of the file contradicts."""
        if item.kind is Kind.INDEX:
            yield from self.end(item.offset)
            self.block = read_block(self.scanner, item)
            self.announced = deque(self.block.entries)
            if self.block.first != self.scanner.ordinal:
                yield self.wrong(f"the block's first record is {self.block.first}, not {self.scanner.ordinal}")
        elif item.kind is not Kind.COMMENT and self.block is not None:
            entry = self.announced.popleft() if self.announced else None
            found = item.offset, item.format_id, item.kind is Kind.DATA
            if entry is None or (entry.offset, entry.format_id, entry.is_data) != found:
                yield self.wrong(f"the block does not announce the item at offset {item.offset}")
                self.block = None

    def end(self, offset: int) -> Iterator[PbioError]:
        """What is wrong when the next block, or the end of the file, stands at `offset`."""
        if self.block is not None and self.announced:
            yield self.wrong(f"the item announced at offset {self.announced[0].offset} is not there")
        if self.block is not None and self.block.next != offset:
            yield self.wrong(f"the next block is said to be at offset {self.block.next}, not {offset}")

    def wrong(self, reason: str) -> PbioError:
        offset = None if self.block is None else self.block.offset
        return PbioError("PBIO_BAD_INDEX", reason, file=self.scanner.window.name, offset=offset)
