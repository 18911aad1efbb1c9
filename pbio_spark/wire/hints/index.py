"""Index blocks (ffs-wire-format 3): the places of the format and data items after a block, up to the next block."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pbio_spark.errors import PbioError
from pbio_spark.wire.container import INDEX_BLOCK, Item, ItemKind, Scanner, legible_id
from pbio_spark.wire.hints.sidecar import Point

HEAD = struct.Struct(">IIII")
FORMAT_ENTRY, DATA_ENTRY, END = 0, 1, 0xFF
ENTRY_LIMIT = 248
"""An entry must end before this byte of its block, to leave room for the end word."""
BLOCK_WORD = (ItemKind.INDEX << 24 | INDEX_BLOCK).to_bytes(4)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One item that a block announces: its place in the file, its format's ID, and a record's attribute list.

    `attributes` holds the bytes of the list (empty for a record without attributes); None for a format item.
    """

    offset: int
    format_id: bytes
    attributes: bytes | None

    @property
    def is_data(self) -> bool:
        return self.attributes is not None


@dataclass(frozen=True, slots=True)
class IndexBlock:
    """An index block.

    Attributes:
        offset: of the block in the file.
        next: offset of the next block; of the last block, the file's length.
        first, last: ordinals of the first and last record announced; `last` is `first - 1` (modulo 2**32) for no
            records.
        cursor: the offset of the end word in the block.
    """

    offset: int
    next: int
    first: int
    last: int
    entries: tuple[IndexEntry, ...]
    cursor: int

    @property
    def ordinals(self) -> range:
        """The ordinals of the records announced."""
        return range(self.first, self.first if self.last == (self.first - 1) & 0xFFFFFFFF else self.last + 1)


def block_from_bytes(block: bytes, offset: int, file: str = "") -> IndexBlock:
    """Parses the block at `offset`.

    Raises:
        PbioError: PBIO_BAD_INDEX if an entry does not fit, the end word is missing, or the ordinals do not count
            the announced records.
    """

    def fail(reason: str) -> PbioError:
        return PbioError("PBIO_BAD_INDEX", reason, file=file, offset=offset)

    if len(block) < 20:
        raise fail(f"the index block has {len(block)} bytes")
    _, next_, first, last = HEAD.unpack_from(block)
    entries: list[IndexEntry] = []
    cursor = HEAD.size
    while True:
        if cursor + 4 > len(block):
            raise fail("the entries have no end word")
        word = int.from_bytes(block[cursor : cursor + 4])
        kind, length = word & 0xFF, word >> 8
        if kind == END:
            break
        payload = block[cursor + 12 : cursor + 12 + length]
        if len(payload) < length:
            raise fail(f"the entry of {length} bytes at byte {cursor} does not fit into the block")
        where = int.from_bytes(block[cursor + 4 : cursor + 12])
        if where <= offset:
            raise fail(f"the entry at byte {cursor} points to offset {where}, which is not after the block")
        if kind == FORMAT_ENTRY:
            entries.append(IndexEntry(where, payload, None))
            cursor += 12 + length
        elif kind == DATA_ENTRY:
            ends = 4 + int.from_bytes(payload[:4])
            if not 4 < ends <= length:
                raise fail(f"the format ID of the entry at byte {cursor} does not fit into it")
            entries.append(IndexEntry(where, payload[4:ends], payload[ends:]))
            cursor += 12 + (length + 3 & ~3)
        else:
            raise fail(f"unknown kind of entry {kind:#04x} at byte {cursor}")
        if legible_id(entries[-1].format_id) != entries[-1].format_id:
            raise fail(f"the entry at byte {cursor} has no valid format ID")
    found = IndexBlock(offset, next_, first, last, tuple(entries), cursor)
    if len(found.ordinals) != (records := sum(entry.is_data for entry in entries)):
        raise fail(f"ordinals {first} to {last} do not count the {records} records announced")
    return found


def read_block(scanner: Scanner, item: Item) -> IndexBlock:
    """The block that a scanner has found."""
    return block_from_bytes(scanner.window.read(item.offset, item.end - item.offset), item.offset, scanner.window.name)


def read_index(scanner: Scanner, limit: int | None = None) -> tuple[IndexBlock, ...] | None:
    """All blocks of an indexed file, found without walking its records; None if it has no index, or more than `limit`.

    The scanner must be at the start of the file. The blocks are not compared with the items.

    Raises:
        PbioError: PBIO_BAD_INDEX if the chain of blocks is broken or does not reach the end of the file, a block is
            damaged, or counts records twice or omits some; a sequential scan may still read the file.
    """
    window = scanner.window
    first = next((item for item in scanner.items() if item.kind is not ItemKind.COMMENT), None)
    if first is None or first.kind is not ItemKind.INDEX:
        return None
    size = window.size()
    blocks = [read_block(scanner, first)]
    while (offset := blocks[-1].next) != size:
        if len(blocks) == limit:
            return None
        head = window.read(offset, 4)
        if offset <= blocks[-1].offset or len(head) < 4 or head[0] != ItemKind.INDEX:
            raise PbioError(
                "PBIO_BAD_INDEX",
                f"offset {offset} should hold the next block, but the file ends at {size}",
                file=window.name,
                offset=blocks[-1].offset,
            )
        length = int.from_bytes(head[1:])
        blocks.append(block_from_bytes(window.read(offset, length), offset, window.name))
    ordinal = 0
    for block in blocks:
        if block.first != ordinal:
            raise PbioError(
                "PBIO_BAD_INDEX",
                f"the block's first record is {block.first}, not {ordinal}",
                file=window.name,
                offset=block.offset,
            )
        ordinal = block.ordinals.stop
    return tuple(blocks)


def last_block(scanner: Scanner, end: int) -> range:
    """The bytes of the last index block that starts before `end`, as the chain of blocks says; none without one.

    The scanner must be at the start of the file.
    """
    first = next((item for item in scanner.items(end) if item.kind is not ItemKind.COMMENT), None)
    if first is None or first.kind is not ItemKind.INDEX:
        return range(0)
    at, found = first.offset, range(0)
    while at < end and len(head := scanner.window.read(at, HEAD.size)) == HEAD.size and head.startswith(BLOCK_WORD):
        found = range(at, at + INDEX_BLOCK)
        at = max(found.stop, HEAD.unpack(head)[1])
    return found


class IndexCheck:
    """Compares the blocks of a file with the items that a scanner finds after them.

    An index is a hint: readers trust the items, and a wrong index is at most reported.
    """

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.block: IndexBlock | None = None
        self.announced: deque[IndexEntry] = deque()
        self.is_counted = True
        """Whether the scanner's ordinals are right. After damage that hides the number of records, those of the next
        block are believed."""

    def check(self, item: Item) -> Iterator[PbioError]:
        """What contradicts the index in the next item of the file."""
        if item.kind is ItemKind.INDEX:
            yield from self.end(item.offset)
            self.block = None
            try:
                self.block = read_block(self.scanner, item)
            except PbioError as error:
                yield error
                return
            self.announced = deque(self.block.entries)
            if not self.is_counted:
                self.scanner.ordinal, self.is_counted = self.block.first, True
            if self.block.first != self.scanner.ordinal & 0xFFFFFFFF:
                yield self.wrong(f"the block's first record is {self.block.first}, not {self.scanner.ordinal}")
        elif item.kind is not ItemKind.COMMENT and self.block is not None:
            entry = self.announced.popleft() if self.announced else None
            found = item.offset, item.format_id, item.kind is ItemKind.DATA
            if entry is None or (entry.offset, entry.format_id, entry.is_data) != found:
                yield self.wrong(f"the block does not announce the item at offset {item.offset}")
                self.block = None

    def end(self, offset: int) -> Iterator[PbioError]:
        """What is wrong if the next block, or the end of the file, is at `offset`."""
        if self.block is not None and self.announced:
            yield self.wrong(f"the item announced at offset {self.announced[0].offset} is not there")
        if self.block is not None and self.block.next != offset:
            yield self.wrong(f"the block says that the next one is at offset {self.block.next}, but it is at {offset}")

    def anchors(self) -> Iterator[Point]:
        """The announced items that are still to come, and the next block."""
        if self.block is None:
            return
        ordinal = self.block.ordinals.stop - sum(entry.is_data for entry in self.announced)
        for entry in self.announced:
            yield Point(entry.offset, ordinal)
            ordinal += entry.is_data
        yield Point(self.block.next, ordinal)

    def resume(self, offset: int) -> None:
        """Resume after damage: the items that the block announces before an offset are no longer expected."""
        while self.announced and self.announced[0].offset < offset:
            self.announced.popleft()
        if self.block is not None and offset not in (place.offset for place in self.anchors()):
            self.block = None

    def wrong(self, reason: str) -> PbioError:
        offset = None if self.block is None else self.block.offset
        return PbioError("PBIO_BAD_INDEX", reason, file=self.scanner.window.name, offset=offset)


def check_room(format_id: bytes, attributes: bytes) -> None:
    """PBIO_BAD_ATTRIBUTES if a record's attribute list is too long for an index block."""
    room = ENTRY_LIMIT - HEAD.size - 12 - 4 - len(format_id) - 1
    if len(attributes) > room:
        raise PbioError(
            "PBIO_BAD_ATTRIBUTES", f"the attribute list has {len(attributes)} bytes; an index block has room for {room}"
        )


MAX_FILE = 0xFFFFFFFF
"""The most bytes of an indexed file, since a block stores the place of the next one in 32 bits."""


class IndexWriter:
    """Interleaves index blocks with the items of a file, byte for byte as the reference library does (3.2).

    One buffer serves all blocks and is never cleared, so later blocks end with leftovers of earlier ones. Between two
    calls the file is at its end.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = bytearray(INDEX_BLOCK)
        self._block = -1
        self._cursor = 0
        self._first = 0
        self._records = 0

    @classmethod
    def resume(cls, file: BinaryIO, block: IndexBlock, scanner: Scanner) -> IndexWriter:
        """Continues in the last block of a file that a scanner has read to its end.

        Raises:
            PbioError: PBIO_BAD_INDEX if the block does not cover the end of the file.
        """
        image = scanner.window.read(block.offset, INDEX_BLOCK)
        whole = block.next == scanner.offset and block.ordinals.stop == scanner.ordinal
        if not whole or image[:4] != BLOCK_WORD:
            raise PbioError(
                "PBIO_BAD_INDEX",
                "the last index block does not cover the end of the file",
                file=scanner.window.name,
                offset=block.offset,
                hint="write to another file; `pbio verify` says what else is wrong with this one",
            )
        writer = cls(file)
        writer._buffer[:] = image
        writer._block, writer._cursor = block.offset, block.cursor
        writer._first, writer._records = block.first, block.ordinals.stop
        return writer

    def check_end(self, length: int) -> None:
        """Raises PBIO_BAD_INDEX if the file cannot hold `length` more bytes and the blocks that they may need."""
        if self._file.tell() + length + 2 * INDEX_BLOCK > MAX_FILE:
            raise PbioError(
                "PBIO_BAD_INDEX",
                f"{length} more bytes would make the indexed file longer than {MAX_FILE} bytes",
                hint="start another file, or write without an index",
            )

    def format_at_end(self, format_id: bytes) -> None:
        """Announces the format item that the writer writes next."""
        self._enter(FORMAT_ENTRY, format_id)

    def data_at_end(self, format_id: bytes, attributes: bytes) -> None:
        """Announces the record that the writer writes next."""
        self._enter(DATA_ENTRY, len(format_id).to_bytes(4) + format_id + attributes)
        self._records += 1

    def _enter(self, kind: int, payload: bytes) -> None:
        length = 12 + len(payload)
        if self._block < 0 or self._cursor + length >= ENTRY_LIMIT:
            self.flush()
            self._block, self._cursor, self._first = self._file.tell(), HEAD.size, self._records
            self._file.write(bytes(INDEX_BLOCK))
        entry = (len(payload) << 8 | kind).to_bytes(4) + self._file.tell().to_bytes(8) + payload
        self._buffer[self._cursor : self._cursor + length] = entry
        self._cursor += length if kind == FORMAT_ENTRY else length + 3 & ~3

    def flush(self) -> None:
        """Writes the current block over the space reserved for it, and returns to the end of the file."""
        if self._block < 0:
            return
        end = self._file.tell()
        last = (self._records - 1) & 0xFFFFFFFF
        self._buffer[self._cursor : self._cursor + 4] = END.to_bytes(4)
        HEAD.pack_into(self._buffer, 0, int.from_bytes(BLOCK_WORD), end, self._first, last)
        self._file.seek(self._block)
        self._file.write(self._buffer)
        self._file.seek(end)
