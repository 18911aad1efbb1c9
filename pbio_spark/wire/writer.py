"""Writes files: the magic, comments, each format before its first record, records, and optionally the index."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import BinaryIO, Self, cast

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.paths import is_local, locate, trouble
from pbio_spark.wire.attributes import Attribute, attributes_to_bytes
from pbio_spark.wire.container import MAGIC, Item, ItemKind, Scanner
from pbio_spark.wire.encode import encode
from pbio_spark.wire.header import check_header
from pbio_spark.wire.hints.index import IndexWriter, check_room, read_block
from pbio_spark.wire.images import Value
from pbio_spark.written import written


def _opened(file: str | os.PathLike[str] | BinaryIO, *, append: bool) -> tuple[BinaryIO, bool]:
    """The file to write to, and whether it was opened here."""
    if hasattr(file, "write"):
        return cast("BinaryIO", file), False
    fs, path = locate(file)
    if not is_local(fs):
        hint = "pass fsspec.open(...).open(), or use pbio_spark.open_writer"
        raise PbioError("PBIO_BAD_PATH", "the path is not on the local disk", file=os.fsdecode(file), hint=hint)
    try:
        with trouble(fs, path):
            return written(open(path, "r+b" if append else "wb"), path), True
    except FileNotFoundError:
        is_there = os.path.isdir(os.path.dirname(path))
        reason, hint = "the folder of the file does not exist", "make it first"
        if is_there:
            reason, hint = "the file does not exist", "append=False creates it"
        raise PbioError("PBIO_PATH_NOT_FOUND", reason, file=path, hint=hint) from None


class FileWriter:
    """An FFS file being written; a context manager.

    Args:
        file: a path, or a binary file at its start; an index needs a file that can seek.
        indexed: interleave index blocks; decide this at the start of a file.
        append: continue at the end of a file, which must be readable and whole; an indexed file continues in its last
            block.
        owned: close a file object that the caller passed; otherwise it stays open.

    Raises:
        PbioError: what the file system refuses; PBIO_CANNOT_APPEND if the file has an index and `indexed` is false, or
            the reverse; and the errors of a `Scanner` in a file to append to.

    >>> import io
    >>> from ecode.types import INT32, Field, record
    >>> from pbio_spark.formats.layout import record_to_format
    >>> count = record_to_format(record("count", [Field("n", INT32)]))
    >>> file = io.BytesIO()
    >>> with FileWriter(file) as writer:
    ...     writer.comment("two counts")
    ...     writer.data(count, {"n": 1})
    ...     writer.data(count, {"n": 2})
    >>> [item.kind.name for item in Scanner(file.getvalue()).items()]
    ['COMMENT', 'FORMAT', 'DATA', 'DATA']
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        indexed: bool = False,
        append: bool = False,
        owned: bool = False,
    ) -> None:
        self._file, is_own = _opened(file, append=append)
        self._owned = owned or is_own
        self._formats: dict[bytes, Format] = {}
        self._index = IndexWriter(self._file) if indexed else None
        try:
            if append and self._file.seek(0, os.SEEK_END):
                self._go_on()
            else:
                self._file.write(MAGIC)
        except BaseException:
            self._close_file()
            raise

    def comment(self, text: str | bytes) -> None:
        """Writes a comment.

        Raises:
            PbioError: PBIO_BAD_VALUE if it contains a NUL or is longer than 2**24 - 2 bytes; PBIO_BAD_INDEX as for
                `data`.
        """
        if not isinstance(text, str | bytes):
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"a comment is text or bytes, not {type(text).__name__}",
                hint="convert it: str(value)",
            )
        try:
            data = text.encode() if isinstance(text, str) else text
        except UnicodeEncodeError as error:
            hint = "give bytes, or leave out the characters that UTF-8 lacks"
            raise PbioError("PBIO_BAD_VALUE", f"the comment is not text: {error.reason}", hint=hint) from None
        if 0 in data or len(data) + 1 >> 24:
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"the comment of {len(data)} bytes is too long or contains a NUL",
                hint="comments hold up to 16 MB of text without NUL",
            )
        if self._index is not None:
            self._index.check_end(len(data))
        self._file.write((ItemKind.COMMENT << 24 | len(data) + 1).to_bytes(4) + data + b"\0")

    def data(
        self,
        format: Format,  # noqa: A002
        record: bytes | dict[str, Value],
        attributes: Iterable[Attribute] | None = None,
    ) -> None:
        """Writes a record: values, or an encoded record with its header.

        Raises:
            PbioError: PBIO_BAD_VALUE or PBIO_BAD_RECORD if the record does not fit the format, PBIO_BAD_ATTRIBUTES if
                the file has no index to hold attributes or they do not fit, PBIO_FORMAT_CONFLICT if the file holds
                another format with the same ID, PBIO_BAD_INDEX if the file has an index and would become longer than
                an index can say. Nothing is written then.
        """
        if isinstance(record, dict):
            record = encode(format, record)
        elif not isinstance(record, bytes | bytearray | memoryview):
            reason = f"expected a dict of values or an encoded record, not {type(record).__name__}"
            raise PbioError(
                "PBIO_BAD_VALUE",
                reason,
                format=format.name,
                hint="a dict needs a key for each field; `encode` makes an encoded record",
            )
        else:
            check_header(format, record)
        listed = b"" if attributes is None else attributes_to_bytes(attributes, format.byte_order)
        if listed and self._index is None:
            raise PbioError(
                "PBIO_BAD_ATTRIBUTES",
                "the index holds attributes, and this file has no index",
                hint="open the writer with indexed=True",
            )
        if self._index is not None:
            check_room(format.id, listed)
            self._index.check_end(len(record) + len(format.body))
        self.describe(format)
        if self._index is not None:
            self._index.data_at_end(format.id, listed)
        self._file.write(record_to_item(record))

    def flush(self) -> None:
        """Passes the written data to the file system; an incomplete index block waits."""
        self._file.flush()

    def close(self) -> None:
        """Completes the index, and closes the file if this writer opened it."""
        try:
            if self._index is not None:
                self._index.flush()
            self._file.flush()
        finally:
            self._close_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def describe(self, format: Format) -> None:  # noqa: A002
        """Writes the item of a format, if the file lacks it; `data` does so before the first record that needs it.

        Raises PBIO_FORMAT_CONFLICT.
        """
        known = self._formats.get(format.id)
        if known is not None:
            if known.body != format.body:
                raise PbioError(
                    "PBIO_FORMAT_CONFLICT",
                    "the file holds another format with this ID",
                    format=format.id.hex(),
                    hint="one of the two bodies is damaged; write to another file",
                )
            return
        if self._index is not None:
            self._index.format_at_end(format.id)
        self._file.write(format_to_item(format))
        self._formats[format.id] = format

    def _go_on(self) -> None:
        scanner = Scanner(self._file, str(getattr(self._file, "name", "")))
        last: Item | None = None
        for item in scanner.items():
            if item.kind is ItemKind.INDEX:
                last = item
        indexed = self._index is not None
        if last is not None if not indexed else last is None and bool(scanner.formats):
            raise PbioError(
                "PBIO_CANNOT_APPEND",
                f"the file has {'no ' if indexed else 'an '}index",
                file=scanner.window.name,
                hint=f"append with indexed={not indexed}",
            )
        if last is not None:
            self._index = IndexWriter.resume(self._file, read_block(scanner, last), scanner)
        self._formats = scanner.formats
        self._file.seek(0, os.SEEK_END)

    def _close_file(self) -> None:
        if self._owned:
            self._file.close()


def format_to_item(format: Format) -> bytes:  # noqa: A002
    """The item that describes a format (ffs-wire-format 2.2)."""
    return (ItemKind.FORMAT << 24 | len(format.id)).to_bytes(4) + len(format.body).to_bytes(4) + format.id + format.body


def record_to_item(record: bytes) -> bytes:
    """The item of an encoded record (ffs-wire-format 2.2)."""
    return (ItemKind.DATA << 24 | len(record) >> 32).to_bytes(4) + (len(record) & 0xFFFFFFFF).to_bytes(4) + record
