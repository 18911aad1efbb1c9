"""Keyword arguments of public calls: a misspelled one is an error with a suggestion, as for options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_OF_ANY_FILE_SYSTEM = frozenset(
    {"auto_mkdir", "asynchronous", "loop", "batch_size"}
    | {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache"}
)
"""Options that fsspec also accepts for the local disk; it ignores all others."""


def suggesting(call: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses unknown keywords, PBIO_BAD_OPTION, and suggests the closest.

    >>> suggesting(lambda *, filter=None: filter)(filtr="{ return 1; }")
    Traceback (most recent call last):
    pbio_spark.errors.PbioError: [PBIO_BAD_OPTION] unknown argument 'filtr'
      hint: did you mean 'filter'?
    """
    inner = call
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = inner.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    shown = [name for name in known if name not in ("self", "cls")]

    @wraps(call)
    def checked(*given: P.args, **named: P.kwargs) -> R:
        for name in named:
            if name not in known:
                raise unknown_argument(name, shown)
        return call(*given, **named)

    return checked


def suggesting_class(made: type[T]) -> type[T]:
    """`suggesting` for the constructor of a class."""
    setattr(made, "__init__", suggesting(made.__init__))  # noqa: B010 - a type checker lets methods be
    return made


def unknown_argument(name: str, known: Iterable[str]) -> PbioError:
    """The error for an unknown keyword."""
    names = list(known)
    hint = did_you_mean(name, names) or f"known: {', '.join(names)}"
    return PbioError("PBIO_BAD_OPTION", f"unknown argument {name!r}", hint=hint)


def check_storage_options(given: Iterable[str], own: Iterable[str], *, is_local: bool) -> None:
    """Raise PBIO_BAD_OPTION if options for fsspec have a misspelled argument of the package, or others on a local disk.

    Args:
        own: the other arguments of the call.
    """
    for name in given:
        if hint := did_you_mean(name, own):
            raise PbioError("PBIO_BAD_OPTION", f"unknown argument {name!r}", hint=hint)
        if is_local and name not in _OF_ANY_FILE_SYSTEM:
            hint = "leave it out: the local disk has no such options, unlike a URL such as s3://bucket/space"
            raise PbioError("PBIO_BAD_OPTION", f"unknown argument {name!r}", hint=hint)
