"""Errors that begin with the reason, even through Spark.

Spark turns an error in its Python processes into one string: up to forty lines of traceback, then the message. It omits
the traceback if the variable `SPARK_HIDE_TRACEBACK` is set. Errors of these packages have a code, a location and a
hint; the code lines that raised them take one line at the end.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

from ecode.errors import EcodeError
from morph.errors import MorphError
from pbio_spark.errors import PbioError
from pbio_spark.source.settled import in_worker, settle

log = logging.getLogger("pbio_spark.source")

C = TypeVar("C", bound=type)

OURS = (PbioError, EcodeError, MorphError)

CALLED = (
    *("schema", "reader", "writer", "streamReader", "streamWriter"),
    *("partitions", "read", "write", "commit", "abort"),
    *("initialOffset", "latestOffset", "getDefaultReadLimit", "prepareForTriggerAvailableNow"),
)
"""The methods that Spark calls on a data source, its readers and its writers."""

FRAMES = 4
"""How many lines of code an error names, the innermost first."""


@contextmanager
def reason_first() -> Iterator[None]:
    """Raise errors of these packages so that Spark's message begins with their code and reason.

    Any other error is a defect or comes from another library; it keeps its traceback.
    """
    try:
        yield
    except OURS as error:
        if in_worker():
            log.debug("%s", error, exc_info=True)
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            error.add_note(f"  raised at: {_lines(error.__traceback__)}")
        raise


def says_reason_first(cls: C) -> C:
    """Wrap the methods that Spark calls on a class in `reason_first`."""
    for name in CALLED:
        method = getattr(cls, name, None)
        if method is not None and not method.__module__.startswith("pyspark"):
            setattr(cls, name, _wrapped(method))
    return cls


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            with reason_first():
                result = method(*args, **named)
        finally:
            settle()
        return _each(result) if inspect.isgenerator(result) else result

    return call


def _each(values: Iterator[Any]) -> Iterator[Any]:
    try:
        with reason_first():
            yield from values
    finally:
        settle()


def _lines(trace: TracebackType | None) -> str:
    """The innermost lines of these packages, e.g. `pbio_spark.formats.merge:31, pbio_spark.source.query.schema:12`."""
    places: dict[str, None] = {}
    for frame, number in reversed(list(traceback.walk_tb(trace))):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in ("pbio_spark", "morph", "ecode") and module != __name__:
            places[f"{module}:{number}"] = None
    return ", ".join(list(places)[:FRAMES])


@says_reason_first
class RefusedStream(DataSourceStreamReader):
    """A reader that raises an error as soon as it is used.

    Spark's planner of streams stops the reader after every error. If `streamReader()` itself raised it, there would be
    no reader, and the query would end with an `UnboundLocalError` instead.
    """

    def __init__(self, error: PbioError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    def latestOffset(self, *_: object) -> NoReturn:  # noqa: N802 - Spark passes a limit too
        raise self._error

    def partitions(self, start: object, end: object) -> NoReturn:
        raise self._error

    def read(self, partition: object) -> NoReturn:
        raise self._error
