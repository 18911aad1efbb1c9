"""Writes data files in the background, so that a task continues meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from pbio_spark.channels import Store

T = TypeVar("T")


class BackgroundFiles:
    """Adds files to a folder, one at a time, in a thread. A context manager: at its end all files are written.

    A failure is raised by the next call.
    """

    def __init__(self, folder: Store) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(1, "pbio-data-files")
        self._last: Future[None] | None = None

    def add(self, name: str, data: bytes | Sequence[Any]) -> None:
        """Start to create a file once the previous one exists. Raises the previous file's error."""
        self.wait()
        self._last = self._pool.submit(self._folder.add, name, data)

    def bring(self, finish: Callable[[T], None], file: T) -> None:
        """Start to finish a file once the previous one is finished. Raises the previous file's error."""
        self.wait()
        self._last = self._pool.submit(finish, file)

    def wait(self) -> None:
        """Wait until all files are written. Raises the last file's error."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=True)
