"""How far one growing file can be read: to the end of its last complete record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ecode.native.table import address_of
from pbio_spark.columns import UNKNOWN_FORMAT, Chunker
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.files.outlines import CHUNKS
from pbio_spark.source.follow.digest import Digest, Mark
from pbio_spark.wire import TruncatedError


@dataclass(frozen=True, slots=True)
class Advance:
    """A part of a file that can be read.

    Attributes:
        head: of the digest; empty without a record.
        formats: known formats of the file up to `to`, by ID.
        used: the formats of its records.
        has_unknown: whether some records have an unknown format.
        is_all: whether it has all complete records.
        damage: the damage after it, if any.
        cut: the incomplete last record of the file; None if the file ends properly.
    """

    start: Mark
    to: Mark
    head: str
    formats: Mapping[bytes, Format]
    used: tuple[Format, ...]
    has_unknown: bool
    is_all: bool
    damage: PbioError | None
    cut: TruncatedError | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be read after `start`."""
        return self.to.offset == self.start.offset and self.damage is None


def advance(
    source: BinaryIO,
    name: str,
    end: int,
    start: Mark,
    digest: Digest,
    known: Mapping[bytes, Format],
    room: int | None,
) -> Advance:
    """The next part of a file.

    Args:
        end: the size of the file.
        digest: the digest up to `start`, which is extended.
        known: the known formats of records before `start`.
        room: about how many bytes to read, but at least one record; None for all.

    Raises PBIO_NOT_FFS, or what is wrong with a format body.
    """
    before = digest.copy()
    found = _advance(source, name, end, start, digest, known, room)
    if found.has_unknown and start.offset:
        known = {**known, **formats_before(source, name, start.offset)}
        found = _advance(source, name, end, start, before, known, room)
    return found


def _advance(
    source: BinaryIO,
    name: str,
    end: int,
    start: Mark,
    digest: Digest,
    known: Mapping[bytes, Format],
    room: int | None,
) -> Advance:
    chunker = Chunker(source, name, tuple(known.values()), limits=CHUNKS)
    used: set[int] = set()
    to = start
    damage: PbioError | None = None
    cut: TruncatedError | None = None
    is_all, is_full = True, False
    for chunk in chunker.chunks(start.offset, end, start.ordinal):
        if isinstance(chunk.error, TruncatedError):
            cut = chunk.error
            break
        if chunk.error is not None:
            damage = chunk.error
            break
        if is_full:
            is_all = False
            break
        ends = chunk.offset + chunk.ends - address_of(chunk.data)
        count = len(ends)
        if room is not None and ends[-1] - start.offset >= room:
            count = int(np.searchsorted(ends, start.offset + room)) + 1
            # The limit may coincide with the last record: only the next chunk tells whether another follows.
            is_full, is_all = True, count == len(ends)
        used |= set(np.unique(chunk.formats[:count]).tolist())
        digest.add(chunk, 0, count)
        to = digest.mark(int(ends[count - 1]), chunk.ordinal + count)
        if not is_all:
            break
    formats = {form.id: form for form in chunker.formats}
    forms = tuple(form for number, form in enumerate(chunker.formats) if number in used)
    return Advance(start, to, digest.head, formats, forms, UNKNOWN_FORMAT in used, is_all, damage, cut)


def formats_before(source: BinaryIO, name: str, end: int) -> dict[bytes, Format]:
    """The formats that a file describes before an offset."""
    chunker = Chunker(source, name, limits=CHUNKS)
    for _ in chunker.chunks(0, end, 0):
        pass
    return {form.id: form for form in chunker.formats}
