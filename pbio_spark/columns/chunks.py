"""A part of a file -> chunks of records in memory, whatever formats they have.

Most of it is the compiled walk; this module feeds it bytes and deals with what it stops at: format items, formats that
only a store knows, damage, and the end of the file.
"""

from __future__ import annotations

import os
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

MOST_BYTES = 2**31 - 1
"""The largest item; what is larger does not fit into columns, and is more likely damage."""

PAD = 1
"""Unused bytes in front of the window's data: position 0 is where a scanner looks for the magic."""


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
        self._data, self._offset = self._buffer[:PAD], start - PAD
        is_more, position = self._more(PAD, end), PAD
        if start == 0 and is_more:
            try:
                list(Scanner(self._data[PAD : PAD + len(MAGIC)].tobytes(), self.name).items())
            except TruncatedError as error:
                yield self._damage(PAD, ordinal, error)
                return
            position += len(MAGIC)
        while True:
            walked = self.walker.walk(self._data, position, self.most_records)
            found = len(walked.positions)
            if found:
                yield self._chunk(walked, ordinal)
                ordinal += found
            position = walked.next
            if walked.stop is Stop.FULL:
                continue
            if walked.stop is Stop.END and self._ends_before(position, end):
                is_more, position = self._more(position, end, found), PAD
                if is_more:
                    continue
            if position >= len(self._data):
                return
            try:
                item = self._single(position)
            except PbioError as error:
                if isinstance(error, TruncatedError) and self._ends_before(position, end):
                    is_more, position = self._more(position, end), PAD
                    if is_more:
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

    def _ends_before(self, position: int, end: int) -> bool:
        """Whether reading on can complete the item at a position: a length that lies must not be believed.

        Nor does it help where an index block is reserved and not yet written.
        """
        head = self._data[position : position + INDEX_BLOCK].tobytes()
        if len(head) == INDEX_BLOCK and not any(head):
            return False
        size = int.from_bytes(head[1:4])
        match head[:1]:
            case b"\2" if len(head) >= 8:
                size += 8 + int.from_bytes(head[4:8])
            case b"\3" if len(head) >= 8:
                size = 8 + ((size & 0xFFFF) << 32 | int.from_bytes(head[4:8]))
        if size > MOST_BYTES:
            return False
        last = self._offset + position + size
        return last <= end and last <= self.source.seek(0, os.SEEK_END)

    def _more(self, position: int, end: int, found: int = 0) -> bool:
        """Forget the data before a position, which becomes PAD, and read on behind the rest; False if there is no more.

        The window takes the size that holds a chunk of records like the last ones, or an item that did not fit.
        """
        rest = self._data[position:]
        if found:
            size = min(self.most_records * position // found + FIRST_WINDOW, self.most_bytes)
        else:
            size = len(self._buffer)
        size = max(size, 2 * len(rest), FIRST_WINDOW)
        buffer = self._buffer if size <= len(self._buffer) <= 4 * size else np.empty(size, np.uint8)
        filled = PAD + len(rest)
        buffer[PAD:filled] = rest
        self._offset += position - PAD
        read_from = self._offset + filled
        wanted = min(len(buffer) - filled, end - read_from)
        self.source.seek(read_from)
        while wanted > 0 and (piece := self._read_into(buffer[filled : filled + wanted])):
            filled += piece
            wanted -= piece
        self._buffer, self._data = buffer, buffer[:filled]
        return filled > PAD + len(rest)

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
