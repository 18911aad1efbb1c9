"""`pbio` in processes that begin with all imports done: to start one takes a moment, so it can be killed often."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

_NEEDED = (
    "numba",
    "pandas",
    "pyarrow.pandas_compat",
    "pydantic.type_adapter",
    "pbio_spark.channels.space",
    "pbio_spark.cli",
    "pbio_spark.gateways.evpath.inward",
    "pbio_spark.gateways.evpath.outward",
    "pbio_spark.gateways.grid.bindings.gateway",
    "pbio_spark.gateways.server",
)
"""What the package would import when it is used."""


class Forked:
    """A command in a process of its own, which starts when this is made."""

    def __init__(self, arguments: Sequence[str], output: Path) -> None:
        """
        Args:
            arguments: of `pbio`.
            output: a file for what it prints.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", __name__, *_NEEDED])
        self._output = output
        self._output.unlink(missing_ok=True)
        self._process: BaseProcess = context.Process(target=_run, args=(tuple(arguments), str(output)), daemon=True)
        self._process.start()

    def line(self) -> str:
        """The first line that it prints."""
        while not (said := self._output.read_text() if self._output.exists() else "").count("\n"):
            assert self._process.is_alive()
            time.sleep(0.002)
        return said.splitlines()[0]

    def kill(self) -> None:
        """End it at once, and wait until it has ended."""
        self._process.kill()
        self._process.join()
        self._process.close()


def _run(arguments: tuple[str, ...], output: str) -> None:
    from pbio_spark.cli import main

    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.argv = ["pbio", *arguments]
    main()
