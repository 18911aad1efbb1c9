"""A file being written, whose failures name it and have a code: a disk is full only when bytes reach it."""

from __future__ import annotations

from typing import Any, BinaryIO, cast

from pbio_spark.paths import trouble_at


class _WrittenFile:
    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self._where = file, where

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError:
            with trouble_at(self._where):
                raise

    def flush(self) -> None:
        with trouble_at(self._where):
            self._file.flush()

    def close(self) -> None:
        with trouble_at(self._where):
            self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def written(file: BinaryIO, where: str) -> BinaryIO:
    """A file open for writing, of which `write`, `flush` and `close` raise PBIO_NO_ROOM, PBIO_NO_PERMISSION and
    PBIO_FILE_SYSTEM, with the path `where`, in place of OSError."""
    return cast(BinaryIO, _WrittenFile(file, where))
