"""The bytes of a thin stream -> its stone, formats and records, as they arrive."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ecode.native.table import address_of
from pbio_spark.columns import Stop, Walker
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import MAGIC, Item, ItemKind, Scanner, TruncatedError
from pbio_spark.wire.container import LONGEST_HEAD

STONE = re.compile(rb"\s*[Ss]tone\s+(\d{1,9})\s*")
_MOST = 1 << 16
"""The most records to find at once."""

_HEAD = "a thin stream starts with 43 56 ff a9, then a comment `Stone N`, then formats and records as in an FFS file"

_OF_FILES = frozenset({"PBIO_BAD_ITEM", "PBIO_UNKNOWN_FORMAT", "PBIO_FORMAT_CONFLICT"})
"""Errors whose hints are about files."""
_RECONNECT = (
    "the stream is read up to here: connect again, send each format before its records, and check that nothing alters "
    "the bytes on the way"
)


@dataclass(frozen=True, slots=True)
class Taken:
    """Records of a stream, as consecutive items.

    Attributes:
        items: the bytes.
        lengths: int64, of the items.
        numbers: int32, the index of each record's format among the stream's formats.
    """

    items: bytes
    lengths: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lengths)


class ThinStream:
    """The thin stream of one connection.

    Attributes:
        stone: the destination of its records; None until it is named.
        records: how many have been read.
        error: the error of the stream, once known. The records before it are sound items.

    >>> from pbio_spark.formats import Format
    >>> from pbio_spark.wire import FileWriter
    >>> from ecode.types import INT32, Field, record
    >>> import io
    >>> file = io.BytesIO()
    >>> with FileWriter(file) as writer:
    ...     writer.comment("Stone 3")
    ...     writer.data(Format.of(record("count", [Field("n", INT32)])), {"n": 1})
    >>> stream = ThinStream("10.0.0.1:4711")
    >>> len(stream.feed(file.getvalue()[:-1])), stream.stone
    (0, 3)
    >>> len(stream.feed(file.getvalue()[-1:])), stream.is_cut
    (1, False)
    """

    def __init__(self, name: str, *, most_bytes: int = 16 << 20, most_formats: int = 1000) -> None:
        """
        Args:
            name: of the peer, for errors.
            most_bytes: of one item.
            most_formats: the most formats that the stream may describe.
        """
        self.stone: int | None = None
        self.records = 0
        self.error: PbioError | None = None
        self._name = name
        self._most_bytes = most_bytes
        self._most_formats = most_formats
        self._rest = bytearray()
        """The magic, then the rest of the stream after the last complete item."""
        self._gone = 0
        """How many bytes of the stream were dropped from `_rest` after its magic."""
        self._needed = len(MAGIC)
        """The length that `_rest` must reach before it is worth parsing."""
        self._known: dict[bytes, Format] = {}
        self._walker = Walker()

    @property
    def formats(self) -> list[Format]:
        """The formats described so far; records refer to them by index. It grows."""
        return self._walker.formats

    @property
    def waiting(self) -> int:
        """How many bytes of an incomplete item have arrived."""
        return len(self._rest) if self._rest[:4] != MAGIC else len(self._rest) - len(MAGIC)

    @property
    def is_cut(self) -> bool:
        """Whether the stream, if it ended now, would end inside an item."""
        return self.waiting > 0

    def feed(self, data: bytes) -> Taken:
        """The records that these bytes complete; none after an error."""
        self._rest += data
        if self.error is not None or len(self._rest) < self._needed:
            return _nothing()
        taken: list[Taken] = []
        rest = bytes(self._rest)
        position = len(MAGIC)
        try:
            if not rest.startswith(MAGIC):
                raise self._unlike(rest)
            while (after := self._step(rest, position, taken)) > position:
                position = after
        except PbioError as error:
            self.error = self._placed(error)
        del self._rest[len(MAGIC) : position]
        self._gone += position - len(MAGIC)
        self._needed -= position - len(MAGIC)
        made = _joined(taken)
        self.records += len(made)
        return made

    def _step(self, rest: bytes, position: int, taken: list[Taken]) -> int:
        """Read some items; returns where the next one begins, which is `position` if it is incomplete."""
        stop, after = Stop.OTHER, position
        if self.stone is not None:
            stop, after = self._walk(rest, position, taken)
        if stop is Stop.FULL:
            return after
        # The walk leaves items of less than 8 bytes alone, which short comments are.
        if after < len(rest) and (stop is Stop.OTHER or rest[after] == ItemKind.COMMENT):
            return self._single(rest, after)
        self._wait(rest, after)
        return after

    def _walk(self, rest: bytes, position: int, taken: list[Taken]) -> tuple[Stop, int]:
        """Read records, up to an item of another kind. Raises PBIO_UNKNOWN_FORMAT."""
        data = np.frombuffer(rest, np.uint8)
        walked = self._walker.walk(data, position, min(_MOST, (len(rest) - position) // 8 + 1))
        starts, ends = walked.positions, walked.ends - address_of(data)
        unknown = np.flatnonzero(walked.formats < 0)
        count = int(unknown[0]) if len(unknown) else len(starts)
        # Between records are comments and index blocks, which the walk does not report.
        before = np.concatenate([[position], ends[:count]])
        after = np.concatenate([starts[:count], [starts[count] if len(unknown) else walked.next]])
        first, pieces = 0, []
        wrong: PbioError | None = None
        for gap in np.flatnonzero(before != after).tolist():
            if gap > first:
                pieces.append(rest[int(starts[first]) : int(ends[gap - 1])])
            first = gap
            wrong = self._between(rest, int(before[gap]), int(after[gap]))
            if wrong is not None:
                count = gap
                break
        if count > first:
            pieces.append(rest[int(starts[first]) : int(ends[count - 1])])
        taken.append(Taken(b"".join(pieces), (ends - starts)[:count], walked.formats[:count]))
        if wrong is not None:
            raise wrong
        if len(unknown):
            scanner = self._scanner(rest, int(starts[count]))
            scanner.format_of(next(scanner.items()))
        return walked.stop, walked.next

    def _between(self, rest: bytes, start: int, end: int) -> PbioError | None:
        """The error in the comments between two places, if any."""
        scanner = self._scanner(rest, start)
        try:
            for item in scanner.items(end):
                self._note(scanner, item)
        except PbioError as error:
            return error
        return None

    def _single(self, rest: bytes, position: int) -> int:
        """Read an item of any kind; returns where it ends, or `position` if it is incomplete."""
        if rest[position : position + 1] == b"\0":
            raise PbioError("PBIO_BAD_ITEM", "zeros, where an item should begin", offset=position)
        scanner = self._scanner(rest, position)
        try:
            item = next(scanner.items())
        except TruncatedError:
            self._wait(rest, position)
            return position
        if item.kind is ItemKind.FORMAT and item.format_id not in self._known:
            if len(self._known) >= self._most_formats:
                raise PbioError(
                    "PBIO_LIMIT",
                    f"the stream describes more than {self._most_formats} formats",
                    offset=position,
                    hint="[evpath] formats in the gateway's configuration is the limit",
                )
            self._known[item.format_id] = scanner.formats[item.format_id]
            self._walker.learn([scanner.formats[item.format_id]])
        self._note(scanner, item)
        return item.end

    def _note(self, scanner: Scanner, item: Item) -> None:
        """Process a comment, or refuse a format or a record that comes too early. Raises PBIO_BAD_STREAM."""
        if item.kind is ItemKind.COMMENT:
            said = STONE.fullmatch(scanner.comment(item))
            if said is not None and self.stone not in (None, int(said[1])):
                reason = f"the stream was for stone {self.stone}, and is for stone {int(said[1])} from here on"
                raise PbioError("PBIO_BAD_STREAM", reason, offset=item.offset, hint="open a connection for each stone")
            self.stone = self.stone if said is None else int(said[1])
        elif item.kind is not ItemKind.INDEX and self.stone is None:
            what = "record" if item.kind is ItemKind.DATA else "format"
            reason = f"a {what} comes before the comment that names the stone"
            raise PbioError("PBIO_BAD_STREAM", reason, offset=item.offset, hint=_HEAD)

    def _wait(self, rest: bytes, position: int) -> None:
        """Wait for the rest of an item. Raises PBIO_LIMIT if it will be too long."""
        head = rest[position : position + 8]
        size = int.from_bytes(head[1:4])
        match head[:1]:
            case b"\1":
                size += 4
            case b"\2":
                size += 8 + int.from_bytes(head[4:8])
            case b"\3":
                size = 8 + ((size & 0xFFFF) << 32 | int.from_bytes(head[4:8]))
        # The head of a format has its ID, which may already be wrong.
        least = 4 if len(head) < 4 else LONGEST_HEAD if head[0] == ItemKind.FORMAT else 8
        self._needed = position + least
        if len(rest) >= self._needed and least > 4:
            if size > self._most_bytes:
                raise PbioError(
                    "PBIO_LIMIT",
                    f"an item claims {size} bytes, but only {self._most_bytes} are allowed",
                    offset=position,
                    hint="[limits] frame in the gateway's configuration is the limit",
                )
            self._needed = position + max(size, least)
        if len(rest) >= self._needed:
            self._needed = len(rest) + 1

    def _scanner(self, rest: bytes, position: int) -> Scanner:
        return Scanner(rest, self._name, offset=position, formats=self._known, search=False)

    def _unlike(self, rest: bytes) -> PbioError:
        reason = f"this is not a thin stream: it starts with {rest[:4].hex(' ')}"
        # Grid events begin with 4 bytes that give their length.
        is_grid = int.from_bytes(rest[:4]) + 4 == len(rest) and rest[4:5] == b"<"
        hint = "Grid messages go to the port of `pbio gateway serve --grid`" if is_grid else _HEAD
        return PbioError("PBIO_BAD_STREAM", reason, offset=0, hint=hint)

    def _placed(self, error: PbioError) -> PbioError:
        """The error, with the place in the stream."""
        if error.offset is not None:
            error.offset += self._gone
        if error.code in _OF_FILES:
            error.hint = _RECONNECT
        return error.at(file=self._name)


def _joined(taken: list[Taken]) -> Taken:
    if len(taken) == 1:
        return taken[0]
    if not taken:
        return _nothing()
    return Taken(
        b"".join(one.items for one in taken),
        np.concatenate([one.lengths for one in taken]),
        np.concatenate([one.numbers for one in taken]),
    )


def _nothing() -> Taken:
    return Taken(b"", np.empty(0, np.int64), np.empty(0, np.int32))
