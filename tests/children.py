"""Processes for tests that are killed: forked from one that has everything imported, so that starting costs nothing."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import fsspec.config

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.children",
        "pbio_spark.cli",
        "pydantic.type_adapter",  # these two are imported by others when they are used
        "pyarrow.pandas_compat",
        "pbio_spark.channels.space",
        "pbio_spark.gateways.evpath.inward",
        "pbio_spark.gateways.evpath.outward",
        "pbio_spark.gateways.server",
        "pbio_spark.kafka.inward",
        "confluent_kafka",
        "s3fs",
    ]
)


def start(out: Path, target: Callable[..., object], *arguments: Any) -> BaseProcess:
    """A process of this program that calls a function of a module, and ends with this one at the latest.

    Args:
        out: the file to which it prints, and writes its errors.
        arguments: of the function; they are pickled.
    """
    child = _CONTEXT.Process(target=_run, args=(str(out), dict(os.environ), target, arguments), daemon=True)
    child.start()
    return child


def wait_for_lines(process: BaseProcess, out: Path, more: int) -> None:
    """Wait until a process has printed so many more lines. Raises EOFError if it ends before that."""
    count = _lines(out) + more
    while process.is_alive():
        if _lines(out) >= count:
            return
        time.sleep(0.001)
    if _lines(out) < count:
        raise EOFError(f"the process has ended ({process.exitcode}): {out.read_text()[-2000:]}")


def end(process: BaseProcess) -> None:
    """Kill a process, if it is still there."""
    process.kill()
    process.join()


def _lines(out: Path) -> int:
    return out.read_bytes().count(b"\n") if out.exists() else 0


def run_pbio(*arguments: str) -> None:
    """What the command `pbio` does."""
    from pbio_spark.cli import main

    sys.argv = ["pbio", *arguments]
    main()


def _run(out: str, environment: Mapping[str, str], target: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    fsspec.config.conf.clear()
    fsspec.config.set_conf_env(fsspec.config.conf)
    if not os.environ.get("PBIO_LONG"):
        os.fsync = lambda _: None  # as in `tests.conftest`
    file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    target(*arguments)
