"""Bytes by position, of a file or a buffer."""

from __future__ import annotations

import os
from mmap import mmap
from typing import BinaryIO, TypeAlias

Source: TypeAlias = bytes | bytearray | memoryview | mmap | BinaryIO

CHUNK = 1 << 16
"""The least bytes of one read of a file: many small items cost one read, and the header of a large record does not
fetch the record."""


class Window:
    """A seekable binary file or a buffer, read by position.

    The caller keeps the file: the window moves its position and never closes it. It asks for the size each time, since
    a file may grow. `chunk` is the least size of one read of a file.

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
        """The current number of bytes."""
        return self._file.seek(0, os.SEEK_END) if self._view is None else len(self._view)

    def read(self, offset: int, length: int) -> bytes:
        """The `length` bytes from `offset` on; fewer only at the end of the source."""
        if self._view is not None:
            return bytes(self._view[offset : offset + length])
        start = offset - self._chunk_start
        if not 0 <= start <= start + length <= len(self._chunk):
            self._chunk, self._chunk_start, start = self._fetch(offset, max(length, self._least)), offset, 0
        return self._chunk[start : start + length]

    def _fetch(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        pieces = [self._file.read(length)]
        while pieces[-1] and sum(map(len, pieces)) < length:  # an unbuffered file may return fewer bytes
            pieces.append(self._file.read(length - sum(map(len, pieces))))
        return b"".join(pieces)
