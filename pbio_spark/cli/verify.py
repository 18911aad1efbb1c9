"""`pbio verify`: decode every record, compare the index with its items, and report everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, BinaryIO, cast

import typer

from pbio_spark.cli.console import Files, each_file, items, name_damage, name_record, printable, report
from pbio_spark.errors import PbioError
from pbio_spark.paths import find_entry, locate
from pbio_spark.wire import IndexCheck, Item, ItemKind, Scanner, decode
from pbio_spark.wire.hints.sidecar import ChecksumBlock, Outline, Point, read_sidecar
from pbio_spark.wire.resync import damage_to_text, resume


def verify(
    files: Files,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing about sound files.")] = False,
) -> None:
    """Check files to the last byte: items, formats and their IDs, records, the index; and what the outline says: the
    checksums, and the least and greatest values of blocks, if any.

    After damage between records, checking continues at the next item that an index or outline names or, without one, at
    the next place where sound items follow each other; the last line says how much is damaged.

    Exit code 1: something is wrong; each line names the record and the place.

    \b
    Examples:
      pbio verify readings.ffs
      pbio verify --quiet old.ffs readings.ffs
    """

    def check(scanner: Scanner) -> bool:
        sound = True
        name = scanner.window.name
        outline = outline_of(name)
        blocks = () if outline is None else outline.blocks
        anchors = () if outline is None else outline.points
        source = cast(BinaryIO, scanner.window.source)  # `each_file` has opened it
        lies = () if outline is None else range_problems(name, source, outline)
        for problem in chain(Walk(scanner, anchors).problems(), checksum_problems(name, source, blocks), lies):
            report(problem)
            sound = False
        if sound and not quiet:
            counts = f"formats: {len(scanner.formats)}, records: {scanner.ordinal}"
            print(f"{printable(name)}: sound ({counts}, checksums: {len(blocks) or 'none to compare'})")
        return sound

    each_file(files, check)


class Walk:
    """A walk over all items of a file, also after damage."""

    def __init__(self, scanner: Scanner, points: Sequence[Point]) -> None:
        """
        Args:
            points: item boundaries that the file's outline names.
        """
        self._scanner = scanner
        self._index = IndexCheck(scanner)
        self._points = points
        self._ordinals = {point.offset: point.ordinal for point in points}
        self._damages: list[tuple[int, int | None]] = []

    def problems(self) -> Iterator[PbioError]:
        """Everything wrong with the file, in order."""
        while True:
            try:
                yield from self._items()
                break
            except PbioError as error:
                error.at(file=self._scanner.window.name)
                if self._index.is_counted:
                    name_damage(self._scanner, error)
                is_resumed = self._scanner.offset > 0 and self._resume(error)
                yield error
                if not is_resumed:
                    break
        if len(self._damages) > 1:
            yield PbioError("PBIO_BAD_ITEM", damage_to_text(self._damages), file=self._scanner.window.name)

    def _items(self) -> Iterator[PbioError]:
        scanner = self._scanner
        for item in items(scanner):
            known = self._ordinals.get(item.offset)
            if known is not None and not self._index.is_counted:
                scanner.ordinal, self._index.is_counted = known + (item.kind is ItemKind.DATA), True
            try:
                check_item(scanner, item)
            except PbioError as error:
                yield name_record(scanner, item, error, is_counted=self._index.is_counted)
            yield from self._index.check(item)
        yield from self._index.end(scanner.offset)

    def _resume(self, error: PbioError) -> bool:
        """Resume after damage at the scanner's place, and tell the error where; False if nothing sound follows."""
        scanner, index = self._scanner, self._index
        damage, end = scanner.offset, scanner.window.size()
        source, formats = scanner.window.source, scanner.formats
        anchors = sorted((*index.anchors(), *self._points), key=lambda point: point.offset)
        place = resume(source, formats, damage, end, anchors, search=not index.announced)
        place = place or resume(source, formats, damage, end, (), search=True)
        offset, ordinal = place or (end, None)
        records = None if ordinal is None or not self._index.is_counted else max(ordinal - scanner.ordinal, 0)
        self._damages.append((offset - damage, records))
        said = [
            damage_to_text(self._damages[-1:]),
            f"sound items follow at offset {offset}" if place else "",
            error.hint,
        ]
        error.hint = "; ".join(filter(None, said))
        scanner.offset, self._index.is_counted = offset, ordinal is not None
        scanner.ordinal = scanner.ordinal if ordinal is None else ordinal
        index.resume(offset)
        return place is not None


def outline_of(path: str) -> Outline | None:
    """The file's outline, if it has one."""
    fs, plain = locate(path)
    entry = find_entry(fs, plain)
    return None if entry is None else read_sidecar(fs, plain, entry.size, entry.modified)


def checksum_problems(path: str, source: BinaryIO, blocks: Sequence[ChecksumBlock]) -> Iterator[PbioError]:
    """The blocks that do not match their checksums."""
    for block in blocks:
        try:
            block.check(source, path)
        except PbioError as error:
            yield error


def range_problems(path: str, source: BinaryIO, outline: Outline) -> Iterator[PbioError]:
    """Errors in the outline's ranges of values; none for a file with bad records, which are problems of their own."""
    from pbio_spark.source.files.listing import ListedFile
    from pbio_spark.source.files.outlines import file_to_outline

    if not outline.ranges:
        return
    file = ListedFile(path, outline.size, outline.modified)
    found, error = file_to_outline(file, source, ranged=True, points_of=outline.points)
    if error is not None or not found.ranges:
        return
    hint = "remove the outline, or write it again with `pbio index`"
    if (found.formats, found.counts) != (outline.formats, outline.counts):
        yield PbioError(
            "PBIO_BAD_INDEX", "the outline has other formats, or other counts of records", file=path, hint=hint
        )
        return
    starts = (0, *(point.offset for point in outline.points))
    for form, said, true in zip(outline.formats, outline.ranges, found.ranges, strict=True):
        for what, block in said.unlike(true):
            reason = f"the outline is wrong about {what} of the block from offset {starts[block]} on"
            yield PbioError("PBIO_BAD_INDEX", reason, file=path, format=form.name, offset=starts[block], hint=hint)


def check_item(scanner: Scanner, item: Item) -> None:
    """Raise what is wrong with one item. Strings may be in any encoding."""
    match item.kind:
        case ItemKind.DATA:
            format_, record = scanner.format_of(item), scanner.read(item)
            decode(format_, record, strict=False, file=scanner.window.name, offset=item.payload)
        case ItemKind.COMMENT:
            scanner.comment(item)
        case ItemKind.FORMAT:
            scanner.formats[item.format_id].verify_id()
