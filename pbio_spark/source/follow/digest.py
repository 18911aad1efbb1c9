"""A digest of a file's records up to a place, by which the file is recognised.

The digest covers the bytes of all records, in order, and nothing else: neither index blocks, which an appending writer
overwrites, nor comments. It is a chain over blocks of at least 4 MB, cut where a record ends. So it does not depend on
the batches in which records were read, and hashing can resume at the last block but one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from ecode.native.table import address_of
from pbio_spark.columns import Chunk, Chunker
from pbio_spark.formats import Format
from pbio_spark.source.files.outlines import CHUNKS

BLOCK = 4 << 20
DIGITS = 24
HEAD_BYTES, HEAD_DIGITS = 4096, 8
"""How many bytes of the first record distinguish most files."""


@dataclass(frozen=True, slots=True)
class Base:
    """Where hashing can resume: an item boundary, the number of records before it, and their digest."""

    offset: int
    ordinal: int
    chain: str


START = Base(0, 0, "")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file up to which it has been read: the end of a record.

    Attributes:
        offset: of the byte after the record.
        ordinal: of the next record.
        digest: of all records before.
        base: of the block before the last one.
    """

    offset: int
    ordinal: int
    digest: str
    base: Base = START


class Digest:
    """The digest of the records of a file, as they are read."""

    def __init__(self, base: Base = START, head: str = "") -> None:
        """
        Args:
            head: of the first record, if that is before the base.
        """
        self.head = head
        self._before = base
        self._begin(base)

    def _begin(self, base: Base) -> None:
        self._base = base
        self._hash = hashlib.sha256(bytes.fromhex(base.chain))
        self._size = 0

    def copy(self) -> Digest:
        twin = Digest(self._base, self.head)
        twin._before, twin._hash, twin._size = self._before, self._hash.copy(), self._size
        return twin

    def add(self, chunk: Chunk, start: int, stop: int) -> None:
        """Add records of a chunk, which follow those already added."""
        ends = chunk.ends - address_of(chunk.data)
        sizes = np.cumsum(ends[start:stop] - chunk.positions[start:stop])
        if chunk.ordinal + start == 0 and stop > start and chunk.refused is None:
            first = chunk.data[chunk.positions[0] : min(ends[0], chunk.positions[0] + HEAD_BYTES)]
            self.head = hashlib.sha256(first.data).hexdigest()[:HEAD_DIGITS]
        begin, before = start, 0
        while begin < stop:
            end = min(start + int(np.searchsorted(sizes, before + BLOCK - self._size)) + 1, stop)
            self._feed(chunk, ends, begin, end)
            self._size += int(sizes[end - start - 1]) - before
            begin, before = end, int(sizes[end - start - 1])
            if self._size >= BLOCK:
                self._before = self._base
                self._begin(Base(chunk.offset + int(ends[end - 1]), chunk.ordinal + end, self._hash.hexdigest()))

    def _feed(self, chunk: Chunk, ends: np.ndarray, start: int, stop: int) -> None:
        """Hash records, contiguous ones together; for a record too large for memory, hash its size."""
        if chunk.refused is not None:
            self._hash.update(int(ends[0] - chunk.positions[0]).to_bytes(8))
            return
        gaps = np.flatnonzero(chunk.positions[start + 1 : stop] != ends[start : stop - 1]) + start + 1
        edges = [start, *gaps.tolist(), stop]
        for first, end in pairwise(edges):
            self._hash.update(chunk.data[chunk.positions[first] : ends[end - 1]].data)

    def mark(self, offset: int, ordinal: int) -> Mark:
        return Mark(offset, ordinal, self._hash.hexdigest()[:DIGITS], self._before)


@dataclass(frozen=True, slots=True)
class Marks:
    """The result of reading a file up to some places.

    Attributes:
        found: by offset, the marks of the places that are ends of records.
        digest: the digest of everything read.
        formats: the formats known there.
    """

    found: Mapping[int, Mark]
    digest: Digest
    formats: Mapping[bytes, Format]


def read_marks(
    source: BinaryIO,
    name: str,
    offsets: Sequence[int],
    base: Base = START,
    formats: Iterable[Format] = (),
    head: str = "",
    heads: frozenset[str] = frozenset(),
) -> Marks:
    """The marks of a file at some places, ascending, after a base.

    Args:
        formats: known beforehand.
        head: of the file, if the base is not its start.
        heads: of the candidate files; if it is none of them, no mark is found. Empty: any file.

    Raises PBIO_NOT_FFS, or what is wrong with a format body.
    """
    chunker = Chunker(source, name, tuple(formats), limits=CHUNKS)
    digest = Digest(base, head)
    found: dict[int, Mark] = {}
    for chunk in chunker.chunks(base.offset, offsets[-1], base.ordinal):
        if chunk.error is not None:
            break
        ends = chunk.offset + chunk.ends - address_of(chunk.data)
        done = 0
        for offset in offsets:
            row = int(np.searchsorted(ends, offset))
            if row < len(ends) and int(ends[row]) == offset:
                digest.add(chunk, done, row + 1)
                done = row + 1
                found[offset] = digest.mark(offset, chunk.ordinal + done)
        digest.add(chunk, done, len(ends))
        if heads and digest.head not in heads:
            return Marks({}, digest, {})
    return Marks(found, digest, {form.id: form for form in chunker.formats})
