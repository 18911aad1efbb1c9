"""`DatasetFolder`: the files of a BP5 folder, as bytes by position."""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pbio_spark.errors import PbioError
from pbio_spark.paths import opened, trouble_at

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Memory. Not a memoryview: one that an error's traceback keeps may crash Python's garbage collection."""

MOST_OPEN = 64
"""How many files of one folder are open at once: a large run has thousands of subfiles."""


class DatasetFolder:
    """The files of a folder. Files are opened when they are first read, and stay open until `close`."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self._open: OrderedDict[str, tuple[ExitStack, BinaryIO]] = OrderedDict()

    def file(self, name: str) -> str:
        """The path of a file, for errors."""
        return f"{self.path}/{name}"

    def size(self, name: str) -> int | None:
        """The current size of a file, in bytes; None if it does not exist."""
        try:
            source = self._source(name)
        except FileNotFoundError:
            return None
        with trouble_at(self.file(name)):
            return source.seek(0, os.SEEK_END)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` on, fewer at the end of the file.

        Raises FileNotFoundError, and what `opened` raises.
        """
        length = max(0, min(length, (self.size(name) or 0) - offset))  # allocate no more memory than the file has bytes
        buffer = np.empty(length, np.uint8)
        return buffer[: self.read_into(name, offset, buffer)].tobytes()

    def read_into(self, name: str, offset: int, target: Bytes) -> int:
        """Fill memory with the bytes from `offset` on; returns how many there were."""
        source = self._source(name)
        done = 0
        with trouble_at(self.file(name)):
            source.seek(offset)
            while done < len(target):
                count = source.readinto(target[done:])  # type: ignore[attr-defined]
                if not count:
                    break
                done += count
        return done

    def all_of(self, name: str) -> bytes | None:
        """The whole of a file; None if it does not exist."""
        size = self.size(name)
        return None if size is None else self.read(name, 0, size)

    def _source(self, name: str) -> BinaryIO:
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name][1]
        stack = ExitStack()
        try:
            source = stack.enter_context(opened(self.file(name)))
        except PbioError as error:
            if error.code == "PBIO_NOT_FFS":  # a folder or a device
                hint = "copy the folder again, with all its files"
                raise PbioError("PBIO_BAD_BP5", error.reason, file=self.file(name), hint=hint) from None
            raise
        self._open[name] = stack, source
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)[1][0].close()
        return source

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
