"""The options of a subscriber."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real
from typing import Any, Literal, TypeAlias, TypedDict

from ecode.types import Record
from pbio_spark.channels.commits.checked import check_word
from pbio_spark.channels.position import Position
from pbio_spark.channels.publish.submission import to_microseconds
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

Start: TypeAlias = "str | Position | datetime"
"""`earliest`, `latest`, a position as such or as text like `12.0.7`, or a time of publication."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The options of a subscriber: the keywords of `Channel.subscribe` after `handlers` and `name`.

    Attributes:
        skip_blocks: whether events that the filter refuses, by the footers of their files, are skipped unread.
        is_new: whether the name is new, so that there is nothing to resume.
    """

    start: Start
    filter: str | None
    mode: Literal["FAILFAST", "DROPMALFORMED"]
    on_reject: Literal["fail", "drop"]
    on_unfilled: Literal["fail", "warn", "ignore"]
    fail_on_loss: bool
    expire_after: timedelta
    skip_blocks: bool = True
    is_new: bool = False

    def __post_init__(self) -> None:
        check_word(self.mode, ("FAILFAST", "DROPMALFORMED"), "mode")
        check_word(self.on_reject, ("fail", "drop"), "on_reject")
        check_word(self.on_unfilled, ("fail", "warn", "ignore"), "on_unfilled")
        for name in ("fail_on_loss", "skip_blocks"):
            said = getattr(self, name)
            if not isinstance(said, bool):
                raise PbioError("PBIO_BAD_OPTION", f"{name} cannot be {str(said)[:80]!r}", hint="give True or False")


def checked_start(start: Start) -> Literal["earliest", "latest"] | Position | int:
    """A start as a word, a position, or microseconds since 1970. Raises PBIO_BAD_OPTION."""
    if isinstance(start, str):
        with suppress(PbioError):  # reported below
            start = Position.parse(start)
    if isinstance(start, Position):
        return max(start, Position(start.version))
    if isinstance(start, datetime):
        return to_microseconds(start)
    if start in ("earliest", "latest"):
        return start  # type: ignore[return-value]
    raise PbioError(
        "PBIO_BAD_OPTION",
        f"cannot start from {repr(start)[:80]}",
        hint="use earliest, latest, a position such as 12.0.7, or a datetime",
    )


def check_handlers(by_type: Mapping[Any, Any]) -> None:
    """Raise PBIO_BAD_OPTION unless handlers are functions keyed by record types, formats, or None."""
    hint = "give a function of an event, or functions by type: {record: handler, None: handler of the rest}"
    for type_, handler in by_type.items():
        if not isinstance(type_, Record | Format | None):
            reason = f"the key of a handler, {repr(type_)[:80]}, is not a record type"
            raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)
        if not callable(handler):
            raise PbioError("PBIO_BAD_OPTION", f"a handler cannot be {repr(handler)[:80]}", hint=hint)


class Subscribing(TypedDict, total=False):
    """The options, as keyword arguments."""

    start: Start
    name: str | None
    filter: str | None
    mode: Literal["FAILFAST", "DROPMALFORMED"]
    on_reject: Literal["fail", "drop"]
    on_unfilled: Literal["fail", "warn", "ignore"]
    fail_on_loss: bool
    expire_after: timedelta
    skip_blocks: bool


def seconds_of(timeout: float | timedelta | None) -> float | None:
    """How long to wait; None is for ever. Raises PBIO_BAD_OPTION for anything but a number, a timedelta, or None."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool) and not math.isnan(timeout)
    if timeout is not None and not is_number:
        reason = f"timeout cannot be {str(timeout)[:80]!r}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="give seconds, a timedelta, or None to wait forever")
    return timeout
