"""Data files written in the background: a task goes on while the disk or the store takes the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from pbio_spark.channels import Store

T = TypeVar("T")


class BackgroundFiles:
    """Adds files to a folder, one at a time, in a thread; a context manager, at whose end no file is being written.

    A failure is raised by the next call.
    """

    def __init__(self, folder: Store) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(1, "pbio-data-files")
        self._last: Future[None] | None = None

    def add(self, name: str, data: bytes | Sequence[Any]) -> None:
        """Begin to create a file, when the one before is there. Raises what creating that one raised."""
        self.wait()
        self._last = self._pool.submit(self._folder.add, name, data)

    def bring(self, finish: Callable[[T], None], file: T) -> None:
        """Begin to finish a file, when the one before is there. Raises what finishing that one raised."""
        self.wait()
        self._last = self._pool.submit(finish, file)

    def wait(self) -> None:
        """Wait until all files are there. Raises what creating the last one raised."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=True)
