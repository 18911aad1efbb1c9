"""A part of a file -> chunks of records in memory, of any formats.

The compiled walk does most of the work. This module feeds it bytes and handles its stops: format items, records too
large to read, damage, and the end of the file. It also looks up formats that only a store knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel
from ecode.native.table import address_of
from pbio_spark.columns.files.plan import BatchLimits
from pbio_spark.columns.files.walk import Stop, Walked, Walker
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatFinder
from pbio_spark.wire import MAGIC, Item, ItemKind, Scanner, TruncatedError
from pbio_spark.wire.container import GO_ON, INDEX_BLOCK, legible_id
from pbio_spark.wire.hints.sidecar import Point
from pbio_spark.wire.resync import resume

UNKNOWN_FORMAT, DAMAGE = -1, -2
"""The values of `Chunk.formats` for a record of unknown format, and for bytes that are not a record."""

FIRST_WINDOW = 1 << 18

MOST_BYTES = 2**31 - 1
"""The largest item that is read into memory; a larger record does not fit into columns."""

ASKED = 100_000
"""How many unknown IDs are remembered, to avoid repeated look-ups."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records in the order of the file, and their memory.

    Attributes:
        data: uint8, the file's bytes from `offset` on.
        positions: int64, where in `data` their items begin.
        starts, ends: int64 addresses, of the record's first byte after its header and of the byte after its last.
        formats: int32, numbers of the walker's formats, UNKNOWN_FORMAT or DAMAGE.
        rights: bool, whether a record's header is right.
        ordinal: of the first record among all of the file; if not `is_counted`, among those that were met.
        error: what is wrong with the item of format DAMAGE, always the last one.
        resumed: where reading resumes after it; None if it ends the file.
        left_out: how many bytes that skips, and how many records, if known.
        is_counted: whether the number of records before it is known.
        refused: why the record, the only one, is bad although its item is whole. Its bytes are not all in `data`.
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
    refused: PbioError | None = None
    resumed: int | None = None
    left_out: tuple[int, int | None] = (0, None)
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where reading may resume after damage.

    Attributes:
        anchors: item boundaries that an index or an outline names, ascending; the last may be the end of the file.
        search: whether to look for the next sound items elsewhere, too.
    """

    anchors: Sequence[Point] = ()
    search: bool = False


class Chunker:
    """Reads chunks of one file.

    Args:
        source: the file, open for reading.
        name: of the file, for errors.
        formats: known beforehand.
        store: asked for formats that the file does not describe.
        limits: limits of a chunk.
        kernel: of the walk.
        resumption: where to resume after damage.
    """

    def __init__(
        self,
        source: BinaryIO,
        name: str,
        formats: Sequence[Format] = (),
        store: FormatFinder | None = None,
        limits: BatchLimits = BatchLimits(),  # noqa: B008 - frozen
        kernel: Kernel | None = None,
        resumption: Resumption = Resumption(),
    ) -> None:
        self.source = source
        self.name = name
        self._store = store
        self._limits = limits
        self.walker = Walker(kernel)
        self.walker.learn(formats)
        self._buffer = np.empty(FIRST_WINDOW, np.uint8)
        self._data = self._buffer[:0]
        self._offset = 0
        self._asked: set[bytes] = set()
        self._is_counted = True
        self._resumption = resumption
        # Looks at what the compiled walk stops at, in the file itself.
        self._scanner = Scanner(source, name, formats={form.id: form for form in reversed(formats)})

    @property
    def formats(self) -> list[Format]:
        """The formats that `Chunk.formats` refers to; every chunk may add more."""
        return self.walker.formats

    def chunks(self, start: int, end: int, ordinal: int | None, *, joins: bool = False) -> Iterator[Chunk]:
        """The records from one item boundary to another, or to the end of the file.

        Args:
            ordinal: of the first record from `start` on; None if that is not known.
            joins: whether a chunk may have records from both sides of a format item.

        Raises:
            PbioError: PBIO_NOT_FFS, or what is wrong with a format body. Damage, or a truncated tail, makes a
                separate chunk, the last one unless `resume` finds where to continue.
        """
        self._data, self._offset = self._buffer[:0], start
        self._is_counted, ordinal = ordinal is not None, ordinal or 0
        cut = self._pass_magic() if start == 0 else None
        self._more(0, end)
        if cut is not None:
            yield self._damage(0, ordinal, cut, end)
            return
        position = self._scanner.offset if start == 0 else 0
        while True:
            walked = self.walker.walk(self._data, position, self._limits.most_records)
            walked = self._joined(walked, end) if joins else walked
            if self._ask(walked):
                continue
            false = self._false_length(walked, end)
            if false is not None:
                walked = walked.without_last()
            found = len(walked.positions)
            if found:
                yield self._chunk(walked, ordinal)
                ordinal += found
            position = walked.next
            if walked.stop is Stop.FULL and false is None:
                continue
            if false is None and walked.stop is Stop.END and self._ends_before(position, end):
                is_more, position = self._more(position, end, found), 0
                if is_more:
                    continue
            if position >= len(self._data):
                return
            item = self._single(position, end) if false is None else false
            if isinstance(item, PbioError):
                chunk = self._damage(position, ordinal, item, end)
                yield chunk
                if chunk.resumed is None:
                    return
                ordinal += chunk.left_out[1] or 0
                position = self._go_to(chunk.resumed, end)
                continue
            if item.kind is ItemKind.DATA:
                yield self._too_large(item, position, ordinal)
                ordinal += 1
            position = self._go_to(item.end, end)

    def _joined(self, walked: Walked, end: int) -> Walked:
        """The walk continued over format items, until something else needs a closer look."""
        seen = 0
        while walked.stop is Stop.OTHER:
            found = len(walked.positions)
            # An unknown record is looked up, and one that may be damaged is examined, before any more is read.
            if found > seen and (not walked.rights[-1] or walked.formats[seen:].min() < 0):
                break
            if (after := self._after_format(walked.next, end)) is None:
                break
            walked, seen = self.walker.walk_on(after), found
        return walked

    def _after_format(self, position: int, end: int) -> int | None:
        """The position after a sound format item in memory; None if that is not what lies there."""
        head = self._data[position : position + 20].tobytes()
        start = position + 8 + int.from_bytes(head[1:4])
        after = start + int.from_bytes(head[4:8])
        if head[:1] != b"\2" or after > min(len(self._data), end - self._offset):
            return None
        known = self._scanner.formats.get(head[8 : start - position])
        try:
            if known is None:
                return None if isinstance(self._single(position, end), PbioError) else after
        except PbioError:  # which is raised again when the records before the item have been read
            return None
        return after if known.body == self._data[start:after].tobytes() else None

    def _pass_magic(self) -> TruncatedError | None:
        """Check the magic at the start of the file; the error of a file that ends inside it."""
        self._scanner.offset = 0
        try:
            for _ in self._scanner.items(len(MAGIC)):
                pass
        except TruncatedError as error:
            return error
        return None

    def _go_to(self, offset: int, end: int) -> int:
        """The position of an offset, which may be after the data read so far."""
        if offset > self._offset + len(self._data):
            self._data, self._offset = self._buffer[:0], offset
            self._more(0, end)
        return offset - self._offset

    def _single(self, position: int, end: int) -> Item | PbioError:
        """The item at a position where the compiled walk stopped, or the damage there; learns a format."""
        self._scanner.offset = self._offset + position
        known = len(self._scanner.formats)
        try:
            item = next(self._scanner.items())
        except PbioError as error:
            if not isinstance(error, TruncatedError) and error.code != "PBIO_BAD_ITEM":
                raise
            return error
        if len(self._scanner.formats) > known:
            self.walker.learn([self._scanner.formats[item.format_id]])
        return self._crossing(item, end) if item.end > end else item

    def _false_length(self, walked: Walked, end: int) -> PbioError | None:
        """The error of a last record whose length contradicts its header, with no item after it."""
        if not len(walked.positions) or walked.rights[-1] or walked.formats[-1] < 0:
            return None
        after = self._offset + walked.next
        if after >= min(end, self.source.seek(0, os.SEEK_END)):
            return None
        try:
            next(Scanner(self.source, self.name, offset=after, formats=self._scanner.formats, search=False).items())
        except PbioError as error:
            if not isinstance(error, TruncatedError) and error.code != "PBIO_BAD_ITEM":
                return None
            offset = self._offset + int(walked.positions[-1])
            return PbioError(
                "PBIO_BAD_ITEM",
                f"the item claims {after - offset} bytes, but its record's header says otherwise, and no item follows",
                file=self.name,
                offset=offset,
                hint=GO_ON,
            )
        return None

    def _ask(self, walked: Walked) -> bool:
        """Look up the formats of records that are still unknown; returns whether one was found."""
        unknown = np.flatnonzero(walked.formats < 0)
        if not len(unknown):
            return False
        address = address_of(self._data)
        places = zip(walked.positions[unknown].tolist(), (walked.ends[unknown] - address).tolist(), strict=True)
        data = self._data.data
        new = {legible_id(bytes(data[at + 8 : min(at + 20, end)])) for at, end in places} - self._asked - {b""}
        store = self._store
        found = [] if store is None or not new else store.find(sorted(new))
        if len(self._asked) + len(new) > ASKED:
            self._asked.clear()
        self._asked |= new
        self.walker.learn(found)
        self._scanner.formats.update((form.id, form) for form in found)
        return bool(found)

    def _ends_before(self, position: int, end: int) -> bool:
        """Whether more data can complete the item at a position, since its length may be wrong.

        More data does not help for a reserved index block that is not yet written.
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
        """Drop the data before a position, which becomes 0, and read more; False at the end.

        The window is sized for a chunk of records like the last ones, or an item that did not fit.
        """
        rest = self._data[position:]
        if found:
            size = min(self._limits.most_records * position // found + FIRST_WINDOW, self._limits.most_bytes)
        else:
            size = len(self._buffer)
        size = max(size, 2 * len(rest), FIRST_WINDOW)
        buffer = self._buffer if size <= len(self._buffer) <= 4 * size else np.empty(size, np.uint8)
        filled = len(rest)
        buffer[:filled] = rest
        self._offset += position
        read_from = self._offset + filled
        wanted = min(len(buffer) - filled, end - read_from)
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
            is_counted=self._is_counted,
        )

    def _too_large(self, item: Item, position: int, ordinal: int) -> Chunk:
        form = self._scanner.formats.get(item.format_id)
        error = PbioError(
            "PBIO_RECORD_TOO_LARGE",
            f"a record of {item.length} bytes; records of up to {MOST_BYTES} can be read",
            file=self.name,
            offset=item.offset,
            format=None if form is None else form.name,
            hint="if its length is right, write it as several records",
        )
        number = UNKNOWN_FORMAT if form is None else self.formats.index(form)
        return replace(self._lone(position, item.end - self._offset, number, ordinal, None), refused=error)

    def _crossing(self, item: Item, end: int) -> PbioError:
        return TruncatedError(
            "PBIO_TRUNCATED",
            f"the item at offset {item.offset} reaches beyond offset {end}, where the next one should begin",
            file=self.name,
            offset=item.offset,
        )

    def _damage(self, position: int, ordinal: int, error: PbioError, end: int) -> Chunk:
        """The damage at a position as a separate chunk, up to where reading resumes."""
        offset = self._offset + position
        formats = self._scanner.formats
        anchors, search = self._resumption.anchors, self._resumption.search
        place = resume(self.source, formats, offset, end, anchors, search=search) if offset else None
        resumed, next_ordinal = place or (None, None)
        last = min(end, self.source.seek(0, os.SEEK_END)) if resumed is None else resumed
        if resumed is None:
            next_ordinal = next((anchor.ordinal for anchor in anchors if anchor.offset == last), None)
        else:
            error.reason = f"{error.reason}; reading can resume at offset {resumed}"
            error.hint = "with mode=PERMISSIVE or DROPMALFORMED, or with ignoreCorruptFiles=true, it does"
        chunk = self._lone(position, min(len(self._data), last - self._offset), DAMAGE, ordinal, error)
        records = None if next_ordinal is None else max(next_ordinal - ordinal, 0)
        self._is_counted = records is not None
        return replace(chunk, resumed=resumed, left_out=(last - offset, records))

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
            is_counted=self._is_counted,
        )
