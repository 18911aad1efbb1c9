"""Bytes by position, of a file or of a buffer; knows nothing of what they mean."""

from __future__ import annotations

import os
from mmap import mmap
from typing import BinaryIO, TypeAlias

Source: TypeAlias = bytes | bytearray | memoryview | mmap | BinaryIO

CHUNK = 1 << 16
"""What one read of a file fetches at least, in bytes: many small items cost one read, a large record is not fetched
for its header's sake."""


class Window:
    """A seekable binary file or a buffer, read by position.

    The file stays the caller's: the window moves its position and never closes it. Its size is asked for anew each
    time, since a file may grow. `chunk` is what one read of a file fetches at least.

    >>> window = Window(b"abcdef", "letters")
    >>> window.read(4, 10)
    b'ef'
    """

    def __init__(self, source: Source, name: str = "", chunk: int = CHUNK) -> None:
        self.name = name
        self.source = source
        self._least = chunk
        self._view: memoryview | None = None
        if isinstance(source, bytes | bytearray | memoryview | mmap):
            self._view = memoryview(source).cast("B")
        else:
            self._file = source
            self._chunk = b""
            self._chunk_start = 0

    def size(self) -> int:
        """The number of bytes there are now."""
        return self._file.seek(0, os.SEEK_END) if self._view is None else len(self._view)

    def read(self, offset: int, length: int) -> bytes:
        """The `length` bytes from `offset` on; fewer only where the source ends."""
        if self._view is not None:
            return bytes(self._view[offset : offset + length])
        start = offset - self._chunk_start
        if not 0 <= start <= start + length <= len(self._chunk):
            self._chunk, self._chunk_start, start = self._fetch(offset, max(length, self._least)), offset, 0
        return self._chunk[start : start + length]

    def _fetch(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        pieces = [self._file.read(length)]
        while pieces[-1] and sum(map(len, pieces)) < length:  # an unbuffered file may return less than was asked for
            pieces.append(self._file.read(length - sum(map(len, pieces))))
        return b"".join(pieces)
