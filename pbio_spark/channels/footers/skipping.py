"""Footers and a filter -> the events left to read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pbio_spark.channels.footers.footer import DamagedFooterError, Footer, read_footer
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.subscribe.reading import Extent, Piece
from pbio_spark.errors import PbioError
from pbio_spark.wire.resync import numbered

if TYPE_CHECKING:
    from pbio_spark.columns import Excluding

log = logging.getLogger("pbio_spark.channels")

LEAST = 64 << 10
"""The least bytes of a file's events that justify reading its footer."""
_KEPT = 1024
"""How many footers are remembered."""
_READERS = 16


@dataclass(slots=True)
class Skipped:
    """What is skipped: the files, and the numbers of groups, events and bytes."""

    files: set[str] = field(default_factory=set)
    groups: int = 0
    events: int = 0
    bytes: int = 0


class Footers:
    """The footers of the data files of a space, read when they are needed."""

    def __init__(self, folder: Folder, level: int = logging.DEBUG) -> None:
        """`level` is the log level of the message that reports how much is skipped."""
        self._folder = folder
        self._level = level
        self._known: dict[str, Footer | None] = {}

    def kept(self, pieces: Sequence[Piece], excluding_of: Callable[[Piece], Excluding | None]) -> list[Piece]:
        """Some events in order, without those that a filter certainly refuses.

        Args:
            excluding_of: what the filter certainly refuses among events of a piece's format.
        """
        known = [excluding_of(piece) for piece in pieces]
        sizes: dict[str, int] = {}
        for piece, excluding in zip(pieces, known, strict=True):
            if excluding is not None:
                sizes[piece.path] = sizes.get(piece.path, 0) + piece.bytes
        footers = self._read([path for path, size in sizes.items() if size >= LEAST])
        excluded: dict[tuple[str, str, int], npt.NDArray[np.bool_] | None] = {}
        made: list[Piece] = []
        skipped = Skipped()
        for piece, excluding in zip(pieces, known, strict=True):
            footer = footers.get(piece.path)
            parts = [piece]
            if footer is not None and excluding is not None:
                key = piece.path, piece.group.format, id(excluding)
                if key not in excluded:
                    excluded[key] = _excluded(footer, piece.group.format, excluding)
                parts = list(_kept(piece, footer, excluded[key]))
            left = sum(part.events for part in parts)
            if left < piece.events:
                skipped.files.add(piece.path)
                skipped.groups += 1
                skipped.events += piece.events - left
                skipped.bytes += piece.bytes - sum(part.bytes for part in parts)
            made += parts
        if skipped.groups:
            log.log(
                self._level,
                "the filter skips %s of %s and %s, about %d bytes",
                numbered(skipped.events, "event"),
                numbered(skipped.groups, "group"),
                numbered(len(skipped.files), "file"),
                skipped.bytes,
            )
        return made

    def _read(self, paths: Iterable[str]) -> dict[str, Footer]:
        wanted = list(paths)
        new = [path for path in wanted if path not in self._known]
        if len(new) > 1 and not self._folder.is_local:
            with ThreadPoolExecutor(_READERS) as pool:
                found = list(pool.map(self._footer, new))
        else:
            found = [self._footer(path) for path in new]
        self._known |= zip(new, found, strict=True)
        footers = {path: footer for path in wanted if (footer := self._known[path]) is not None}
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return footers

    def _footer(self, path: str) -> Footer | None:
        """The footer of a file; None if it has none that is readable: reading the events then reports what is wrong."""
        try:
            size = self._folder.size(path)
            if size is None:
                return None
            return read_footer(lambda start, length: self._folder.read_part(path, start, length), size)
        except DamagedFooterError as error:
            said = "the footer %s, so nothing of the file is skipped; `pbio space verify` checks it"
            log.warning(f"%s: {said}", self._folder.path(path), error)
        except (PbioError, FileNotFoundError) as error:
            log.debug("%s: %s", path, error)
        return None


def _excluded(footer: Footer, format_id: str, excluding: Excluding) -> npt.NDArray[np.bool_] | None:
    """The blocks in which the filter refuses all events of a format; None if unknown."""
    ranges = footer.of(format_id)
    if ranges is None:
        return None
    found = (ranges.records == 0) | excluding.excluded(ranges)
    return found if found.any() else None


def _kept(piece: Piece, footer: Footer, excluded: npt.NDArray[np.bool_] | None) -> Iterator[Piece]:
    """The parts of a piece in blocks that are not excluded; all of it where footer and log disagree."""
    place, start, end = piece.group, piece.start, piece.end
    offsets = footer.offsets
    first = int(np.searchsorted(offsets, start, side="right")) - 1
    last = int(np.searchsorted(offsets, end, side="left"))
    if excluded is None or first < 0 or last >= len(offsets) or not (here := excluded[first:last]).any():
        yield piece
        return
    ranges = footer.of(piece.group.format)
    events = 0 if ranges is None else int(ranges.records[first:last].sum())
    if here.all():
        if events < place.count:
            yield piece
        return
    ordinals = footer.ordinals[first : last + 1] - footer.ordinals[first] + place.ordinal
    if offsets[first] != start or offsets[last] != end or ordinals[-1] - place.ordinal != place.count:
        yield piece  # its blocks are not only its own
        return
    edges = np.flatnonzero(np.diff(here, prepend=True, append=True))
    for one, other in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        where = slice(one, other + 1, other - one)
        (begin, finish), (ordinal, stop) = offsets[first:][where].tolist(), ordinals[where].tolist()
        extent = Extent(begin - piece.shift, finish - piece.shift, ordinal, stop - ordinal)
        events_of = max(piece.first, ordinal), min(piece.stop, stop)
        if events_of[0] < events_of[1]:
            yield replace(piece, extent=extent, first=events_of[0], stop=events_of[1])
