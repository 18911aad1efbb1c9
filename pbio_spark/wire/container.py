"""The items of a file (ffs-wire-format 2): comments, formats, records and index blocks, one after the other.

This table has all rules of the walk; the compiled walk of big files follows the same four lines.

| kind | head, bytes                 | payload, bytes                                           |
| ---- | --------------------------- | -------------------------------------------------------- |
| 1    | word                        | low 24 bits of the word; at least 1                      |
| 2    | word, u32be L, format ID    | L; the low 24 bits of the word, 8, 10 or 12, are the ID's|
| 3    | word, u32be low             | low 16 bits of the word << 32 or low; bits 16..23 are 0  |
| 4    | word                        | low 24 bits of the word - 4; at least 16                 |

The word is u32be, the kind its top byte. Any other kind is damage that cannot be repaired: nothing in the container
says where the next item starts. An item that ends early is not damage but a `TruncatedError`: files grow. But an item
that claims bytes beyond the end, and in which sound items follow, has a damaged length.
"""

from __future__ import annotations

import os
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO, NoReturn

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.body.lookup3 import id_length
from pbio_spark.wire.header import length_word
from pbio_spark.wire.window import CHUNK, Source, Window

MAGIC = b"\x43\x56\xff\xa9"
INDEX_BLOCK = 256
MOST_SEARCHED = 1 << 24
"""How many bytes of a truncated item at the file's end are searched for sound items."""

GO_ON = (
    "everything before this offset is sound; to continue after the damage, set resync=true and mode=DROPMALFORMED or "
    "PERMISSIVE in a batch, or use `pbio cat --skip-bad`"
)
_TAIL = "everything before this offset is sound; truncatedTail=ignore reads only that"
LONGEST_HEAD = 20
"""Bytes of the longest head of an item, including the ID at the start of a record."""


class ItemKind(IntEnum):
    """The kinds of items, as in the top byte of an item's first word."""

    COMMENT = 1
    FORMAT = 2
    DATA = 3
    INDEX = 4


class TruncatedError(PbioError):
    """The file ends inside an item, or in an index block that its writer has reserved but not yet written.

    Everything before `offset`, an item boundary, is sound, and reading can continue there once the file has grown.
    """


@dataclass(frozen=True, slots=True)
class Item:
    """The place of one item in a file.

    Attributes:
        offset: of its first word in the file.
        payload, length: the place and number of bytes of its content: a comment's text with its NUL, a format body, a
            record with its header, the rest of an index block.
        format_id: of a format item; of a record if it is legible, else empty.
        ordinal: of a record among all records of the file, from 0; -1 for other items.
    """

    kind: ItemKind
    offset: int
    payload: int
    length: int
    format_id: bytes = b""
    ordinal: int = -1

    @property
    def end(self) -> int:
        return self.payload + self.length


class Scanner:
    """Finds the items of a file, and reads only the payloads of formats.

    A scanner may start at any item boundary that is known: `offset`, with the `ordinal` of the next record and the
    `formats` known so far; `chunk` is the number of bytes that it fetches at once; `search` says whether it looks for
    sound items inside a truncated item at the file's end. It is always at a boundary (`offset`): call `items` again
    when the file has grown, or to continue after a loop that ended early.

    >>> scanner = Scanner(MAGIC + bytes.fromhex("01000003") + b"hi\\0")
    >>> [(item.kind.name, item.offset, item.length) for item in scanner.items()]
    [('COMMENT', 4, 3)]
    """

    def __init__(
        self,
        source: Source,
        name: str = "",
        *,
        offset: int = 0,
        ordinal: int = 0,
        formats: Mapping[bytes, Format] | None = None,
        chunk: int = CHUNK,
        search: bool = True,
    ) -> None:
        self._search = search
        self.window = Window(source, name, chunk)
        self.offset = offset
        self.ordinal = ordinal
        self.formats: dict[bytes, Format] = dict(formats or {})

    def items(self, stop: int | None = None) -> Iterator[Item]:
        """The items that start at `offset` or later, and before `stop` if given, in the current file.

        Raises:
            TruncatedError: the last item is not complete; `offset` stays before it.
            PbioError: PBIO_NOT_FFS, PBIO_BAD_ITEM, PBIO_FORMAT_CONFLICT, or the errors of a format body.
        """
        size = self.window.size()
        if self.offset == 0 and size > 0:
            self._read_magic(size)
        while self.offset < (size if stop is None else min(stop, size)):
            item = self._item(self.offset, size)
            if item.kind is ItemKind.FORMAT:
                self._learn(item)
            elif item.kind is ItemKind.DATA:
                self.ordinal += 1
            self.offset = item.end
            yield item

    def read(self, item: Item) -> bytes:
        """The payload of an item."""
        return self.window.read(item.payload, item.length)

    def comment(self, item: Item) -> bytes:
        """The text of a comment, without its NUL."""
        text, nul, _ = self.read(item).partition(b"\0")
        if not nul:
            self._fail(item.offset, f"the comment of {item.length} bytes has no NUL")
        return text

    def format_of(self, item: Item) -> Format:
        """The format of a record; PBIO_UNKNOWN_FORMAT if no format item before the record has its ID."""
        found = self.formats.get(item.format_id)
        if found is None:
            raise PbioError(
                "PBIO_UNKNOWN_FORMAT",
                f"the file describes no format with the ID {item.format_id.hex()} before the record"
                if item.format_id
                else "the record does not start with a format ID",
                file=self.window.name,
                offset=item.offset,
                hint="the file was cut at its start, or its parts were joined in another order"
                if item.format_id
                else None,
            )
        return found

    def _read_magic(self, size: int) -> None:
        head = self.window.read(0, len(MAGIC))
        if not MAGIC.startswith(head):
            reason, hint = _what_it_is(self.window.read(0, LONGEST_HEAD), self.window.name)
            raise PbioError("PBIO_NOT_FFS", reason, file=self.window.name, offset=0, hint=hint)
        if len(head) < len(MAGIC):
            self._end_early(0, len(MAGIC), size)
        self.offset = len(MAGIC)

    def _item(self, offset: int, size: int) -> Item:
        head = self.window.read(offset, LONGEST_HEAD)
        if len(head) < 4:
            self._end_early(offset, 4, size - offset)
        word = int.from_bytes(head[:4])
        match word >> 24:
            case ItemKind.COMMENT:
                if (length := word & 0xFFFFFF) < 1:
                    self._fail(offset, "a comment is empty, without even a NUL")
                item = Item(ItemKind.COMMENT, offset, offset + 4, length)
            case ItemKind.FORMAT:
                if (length_of_id := word & 0xFFFFFF) not in (8, 10, 12):
                    self._fail(offset, f"the format ID has {length_of_id} bytes")
                if len(head) < 8 + length_of_id:
                    self._end_early(offset, 8 + length_of_id, size - offset)
                format_id = head[8 : 8 + length_of_id]
                if len(legible_id(format_id)) != length_of_id:
                    self._fail(offset, f"the format ID {format_id.hex()} is not one of {length_of_id} bytes")
                item = Item(ItemKind.FORMAT, offset, offset + 8 + length_of_id, int.from_bytes(head[4:8]), format_id)
            case ItemKind.DATA:
                if word & 0xFF0000:
                    self._fail(offset, f"reserved bits are set in the record's first word {word:#010x}")
                if len(head) < 8:
                    self._end_early(offset, 8, size - offset)
                length = (word & 0xFFFF) << 32 | int.from_bytes(head[4:8])
                format_id = legible_id(head[8 : 8 + min(length, 12)])
                item = Item(ItemKind.DATA, offset, offset + 8, length, format_id, self.ordinal)
            case ItemKind.INDEX:
                if (length := word & 0xFFFFFF) < 20:
                    self._fail(offset, f"the index block has {length} bytes")
                item = Item(ItemKind.INDEX, offset, offset + 4, length - 4)
            case 0 if not any(self.window.read(offset, INDEX_BLOCK)):
                raise TruncatedError(
                    "PBIO_TRUNCATED",
                    f"an index block at offset {offset} is still being written",
                    file=self.window.name,
                    offset=offset,
                    hint=_TAIL,
                )
            case unknown:
                self._fail(offset, f"unknown kind of item {unknown:#04x}")
        if item.end > size:
            self._refuse_false_length(item, size)
            self._end_early(offset, item.end - offset, size - offset)
        return item

    def _learn(self, item: Item) -> None:
        body = self.read(item)
        known = self.formats.get(item.format_id)
        if known is None:
            self.formats[item.format_id] = self._format(item, body)
        elif known.body != body:
            raise PbioError(
                "PBIO_FORMAT_CONFLICT",
                f"the format ID {item.format_id.hex()} appears again with another body",
                file=self.window.name,
                offset=item.offset,
                hint="one of the two bodies is damaged; read the file up to here, or have it written again",
            )

    def _format(self, item: Item, body: bytes) -> Format:
        try:
            return Format.from_body(body, item.format_id)
        except PbioError as error:
            raise error.at(file=self.window.name, offset=item.offset) from None

    def _fail(self, offset: int, reason: str) -> NoReturn:
        raise PbioError(
            "PBIO_BAD_ITEM",
            reason,
            file=self.window.name,
            offset=offset,
            hint=GO_ON,
        )

    def _refuse_false_length(self, item: Item, size: int) -> None:
        """Raise PBIO_BAD_ITEM if sound items follow inside an item that claims bytes beyond the end of the file.

        A record whose header agrees with its length, as that of the last record of every growing file, is not searched.
        """
        from pbio_spark.wire.resync import next_sound  # which scans

        if not self._search or self._has_right_length(item):
            return
        end = min(size, item.payload + MOST_SEARCHED)
        place = next_sound(self.window.source, self.formats, item.offset + 1, end)
        if place is not None:
            claimed = f"the item claims {item.end - item.offset} bytes, {item.end - size} more than the file has"
            self._fail(item.offset, f"{claimed}, but a sound item follows at offset {place}")

    def _has_right_length(self, item: Item) -> bool:
        """Whether the header of a record and its item agree on its length."""
        form = self.formats.get(item.format_id) if item.kind is ItemKind.DATA else None
        if form is None:
            return False
        at, word_size = length_word(form)
        length = item.length - form.header_size
        if not word_size:
            return length == form.structs[0].record_length
        word = self.window.read(item.payload + at, word_size)
        return len(word) == word_size and int.from_bytes(word, form.byte_order) == length

    def _end_early(self, offset: int, needed: int, present: int) -> NoReturn:
        raise TruncatedError(
            "PBIO_TRUNCATED",
            f"truncated at offset {offset}: the item has {needed} bytes, but {present} are present",
            file=self.window.name,
            offset=offset,
            hint=_TAIL,
        )


_BP_FILES = frozenset({"md.idx", "md.0", "mmd.0", "data.0"})
_BP_HINT = 'read its folder with spark.read.format("bp5"), or look into it with `pbio bp5 ls`'
_FFS_HEAD = "an FFS file starts with 43 56 ff a9"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\3\4": "ZIP",
}
AVRO = b"Obj\1"
_BY_TABLE = "{} makes a table of it that open_writer takes"
_OTHERS = {
    b"PAR1": ("a Parquet", f"Spark's format parquet reads it; {_BY_TABLE.format('pyarrow.parquet.read_table')}"),
    AVRO: ("an Avro", "Spark's format avro reads it"),
    b"ORC": ("an ORC", f"Spark's format orc reads it; {_BY_TABLE.format('pyarrow.orc.read_table')}"),
    b"ARROW1": ("an Arrow", f"without Spark, {_BY_TABLE.format('pyarrow.feather.read_table')}"),
    b"\x89HDF": ("an HDF5", _FFS_HEAD),
    b"CDF": ("a netCDF", _FFS_HEAD),
}
"""How other files in the same folders begin, and what to do with them."""
_BOM = b"\xef\xbb\xbf"


def _what_it_is(head: bytes, name: str) -> tuple[str, str]:
    """What the first bytes say about a file that is not an FFS file, and a hint."""
    base = os.path.basename(name)
    if base in _BP_FILES or head[:4] == b"ADIO":
        return "this is a file of an ADIOS2 BP folder", _BP_HINT
    if any(head[:8] == (12).to_bytes(8, order) for order in ("little", "big")) and head[16:17] == b"\2":
        return "this is the file of format descriptions (mmd.0) of an ADIOS2 BP5 folder", _BP_HINT
    if head[:4] in (b"\2\0\0\x08", b"\2\0\0\x0a", b"\2\0\0\x0c") and len(legible_id(head[8:20])) == head[3]:
        return "the file starts with a format; an FFS file starts with 43 56 ff a9", (
            "its first four bytes are lost; restore them"
        )
    if head[:2] == b"\2\0" and len(legible_id(head[:12])) == 12:
        return f"this is a stream of records without a file head: it starts with the format ID {head[:12].hex()}", (
            "the records' formats are elsewhere: decode each record with from_pbio, and name the folder that has the "
            "formats with formatStore"
        )
    for start, what in _COMPRESSED.items():
        if head.startswith(start):
            return f"this is a {what} file", "decompress it first: FFS files are read as they are"
    for start, (what, hint) in _OTHERS.items():
        if head.startswith(start):
            return f"this is {what} file", hint
    return _what_text_it_is(head, base) or (f"the file starts with {head[:4].hex(' ')}", _FFS_HEAD)


def _what_text_it_is(head: bytes, base: str) -> tuple[str, str] | None:
    """The same for a file that starts with text; None for others."""
    try:
        text = getincrementaldecoder("utf-8")().decode(head.removeprefix(_BOM))  # the last letter may be cut
    except UnicodeDecodeError:
        return None
    suffix = os.path.splitext(base)[1].lower()
    if not text.strip() or not all(letter.isprintable() or letter in "\t\r\n" for letter in text):
        return None
    match text.strip()[0]:
        case "{":
            return "this looks like JSON", (
                "`pbio convert FILE -o FILE.ffs` makes records of JSON lines, one object in each; Spark's format json "
                "reads them, too"
            )
        case "[":
            return "this looks like a JSON array", (
                "Spark's format json reads it with multiLine=true; `pbio convert` takes JSON lines, one object in each"
            )
        case "<":
            return "this looks like XML", "Spark's format xml reads it"
    if suffix in (".csv", ".tsv"):
        return "this looks like CSV", f"Spark's format csv reads it; {_BY_TABLE.format('pyarrow.csv.read_csv')}"
    return f"this is text, which starts with {text.splitlines()[0][:20]!r}", _FFS_HEAD


def legible_id(start: bytes) -> bytes:
    """The format ID at the start of these bytes; empty if they do not start with a whole ID."""
    try:
        length = id_length(start)
    except PbioError:
        return b""
    return start[:length] if len(start) >= length else b""


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a local FFS file; PBIO_NOT_FFS if the path is a folder of another format."""
    if os.path.isdir(path):
        refuse_bp_folder(os.fspath(path), os.listdir(path))
    return open(path, "rb")


def refuse_bp_folder(folder: str, names: Iterable[str]) -> None:
    """Raises PBIO_NOT_FFS if a folder with files of these names is one of ADIOS2's BP4 and BP5 folders."""
    if "md.idx" in names:
        raise PbioError(
            "PBIO_NOT_FFS",
            "this is an ADIOS2 BP folder (it has md.idx), not a folder of FFS files",
            file=folder,
            hint='read it with spark.read.format("bp5"), or look into it with `pbio bp5 ls`',
        )
