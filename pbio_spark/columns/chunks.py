"""A part of a file -> chunks of records in memory, whatever formats they have.

Most of it is the compiled walk; this module feeds it bytes and deals with what it stops at: format items, formats that
only a store knows, damage, and the end of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel
from ecode.native.table import address_of
from pbio_spark.columns.walk import Stop, Walked, Walker
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import MAGIC, Item, Kind, Scanner, TruncatedError
from pbio_spark.wire.container import INDEX_BLOCK

UNKNOWN, DAMAGE = -1, -2
"""What `Chunk.formats` says of a record whose format nobody knows, and of bytes that are no record."""

FIRST_WINDOW = 1 << 18


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records in the order of the file, and the memory that they lie in.

    Attributes:
        data: uint8, the file's bytes from `offset` on.
        positions: int64, where in `data` their items begin.
        starts, ends: int64 addresses, of the record's first byte after its header and of the byte after its last.
        formats: int32, numbers of the walker's formats, UNKNOWN or DAMAGE.
        rights: bool, whether a record's header is right.
        ordinal: of the first record among all of the file.
        error: why the item of format DAMAGE, always the last one, ended the file.
    """

    data: npt.NDArray[np.uint8]
    offset: int
    positions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    formats: npt.NDArray[np.int32]
    rights: npt.NDArray[np.bool_]
    ordinal: int
    error: PbioError | None = None


class Chunker:
    """Reads chunks of one file.

    Args:
        source: the file, open for reading.
        name: of the file, for errors.
        formats: known beforehand.
        find_format: asked for formats that the file does not describe; None is no answer.
        most_records, most_bytes: of a chunk. One record may be larger.
        kernel: of the walk.
    """

    def __init__(
        self,
        source: BinaryIO,
        name: str,
        formats: Sequence[Format],
        find_format: Callable[[bytes], Format | None],
        most_records: int,
        most_bytes: int,
        kernel: Kernel | None = None,
    ) -> None:
        self.source = source
        self.name = name
        self.find_format = find_format
        self.most_records = most_records
        self.most_bytes = most_bytes
        self.walker = Walker(kernel)
        self.walker.learn(formats)
        self._buffer = np.empty(FIRST_WINDOW, np.uint8)
        self._data = self._buffer[:0]
        self._offset = 0

    @property
    def formats(self) -> list[Format]:
        """Those that `Chunk.formats` counts in; more may come with every chunk."""
        return self.walker.formats

    def chunks(self, start: int, end: int, ordinal: int) -> Iterator[Chunk]:
        """The records from one item boundary to another, or to the end of the file.

        Raises:
            PbioError: PBIO_NOT_FFS, or what is wrong with a format body. Damage, or a tail that is cut off, makes a
                last chunk of its own.
        """
        self._data, self._offset = self._buffer[:0], start
        self._more(0, end)
        if start == 0 and len(self._data):
            try:
                list(Scanner(bytes(self._data[: len(MAGIC)]), self.name).items())
            except TruncatedError as error:
                yield self._damage(0, ordinal, error)
                return
        position = len(MAGIC) if start == 0 else 0
        while True:
            walked = self.walker.walk(self._data, position, self.most_records)
            found = len(walked.positions)
            if found:
                yield self._chunk(walked, ordinal)
                ordinal += found
            position = walked.next
            if walked.stop is Stop.FULL:
                continue
            if walked.stop is Stop.END and self._more(position, end, found):
                position = 0
                continue
            if position >= len(self._data):
                return
            try:
                item = self._single(position)
            except PbioError as error:
                is_short = isinstance(error, TruncatedError) and not self._is_reserved(position)
                if is_short and self._more(position, end):
                    position = 0
                    continue
                if not isinstance(error, TruncatedError) and error.code != "PBIO_BAD_ITEM":
                    raise
                yield self._damage(position, ordinal, error)
                return
            if item.kind is Kind.DATA:
                if (form := self.find_format(item.format_id)) is not None:
                    self.walker.learn([form])
                    continue
                yield self._unknown(item, ordinal)
                ordinal += 1
            position = item.end

    def _single(self, position: int) -> Item:
        """Read the one item that the compiled walk leaves to us; its offsets are positions in the data."""
        known = {form.id: form for form in self.formats}
        scanner = Scanner(self._data.data, self.name, offset=position, formats=known)
        try:
            item = next(scanner.items(position + 1))
        except PbioError as error:
            if error.offset is not None:
                error.offset += self._offset
            raise
        self.walker.learn([form for form_id, form in scanner.formats.items() if form_id not in known])
        return item

    def _is_reserved(self, position: int) -> bool:
        """Whether an index block is still to be written here; more bytes would not change that."""
        head = self._data[position : position + INDEX_BLOCK]
        return len(head) == INDEX_BLOCK and not head.any()

    def _more(self, position: int, end: int, found: int = 0) -> bool:
        """Forget the data before a position, and read on behind the rest; False if nothing was there to be read.

        The window takes the size that holds a chunk of records like the last ones, or an item that did not fit.
        """
        rest = self._data[position:]
        if found:
            size = min(self.most_records * position // found + FIRST_WINDOW, self.most_bytes)
        else:
            size = len(self._buffer)
        size = max(size, 2 * len(rest), FIRST_WINDOW)
        buffer = self._buffer if size <= len(self._buffer) <= 4 * size else np.empty(size, np.uint8)
        buffer[: len(rest)] = rest
        self._offset += position
        read_from = self._offset + len(rest)
        wanted = min(len(buffer) - len(rest), end - read_from)
        filled = len(rest)
        self.source.seek(read_from)
        while wanted > 0 and (piece := self._read_into(buffer[filled : filled + wanted])):
            filled += piece
            wanted -= piece
        self._buffer, self._data = buffer, buffer[:filled]
        return filled > len(rest)

    def _read_into(self, room: npt.NDArray[np.uint8]) -> int:
        if hasattr(self.source, "readinto"):
            return int(self.source.readinto(room.data) or 0)
        piece = self.source.read(len(room))
        room[: len(piece)] = np.frombuffer(piece, np.uint8)
        return len(piece)

    def _chunk(self, walked: Walked, ordinal: int) -> Chunk:
        return Chunk(
            self._data,
            self._offset,
            walked.positions,
            walked.starts,
            walked.ends,
            walked.formats,
            walked.rights,
            ordinal,
        )

    def _unknown(self, item: Item, ordinal: int) -> Chunk:
        return self._lone(item.offset, item.end, UNKNOWN, ordinal, None)

    def _damage(self, position: int, ordinal: int, error: PbioError) -> Chunk:
        return self._lone(position, len(self._data), DAMAGE, ordinal, error)

    def _lone(self, position: int, end: int, form: int, ordinal: int, error: PbioError | None) -> Chunk:
        address = address_of(self._data)
        return Chunk(
            self._data,
            self._offset,
            np.array([position], np.int64),
            np.array([address + position], np.int64),
            np.array([address + end], np.int64),
            np.array([form], np.int32),
            np.array([False]),
            ordinal,
            error,
        )
