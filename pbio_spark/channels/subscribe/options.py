"""How a subscriber wants its events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, TypedDict

from pbio_spark.channels.commits.checked import check_word
from pbio_spark.channels.position import Position

Start: TypeAlias = "str | Position | datetime"
"""`earliest`, `latest`, a position, as itself or such as `12.0.7`, or a time of publication."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a subscriber wants its events: the keywords of `Channel.subscribe` after `handlers` and `name`.

    Attributes:
        is_new: whether the name was noted just now, so that there is nothing to resume.
    """

    start: Start
    filter: str | None
    mode: Literal["FAILFAST", "DROPMALFORMED"]
    on_reject: Literal["fail", "drop"]
    on_unfilled: Literal["fail", "warn", "ignore"]
    fail_on_loss: bool
    expire_after: timedelta
    is_new: bool = False

    def __post_init__(self) -> None:
        check_word(self.mode, ("FAILFAST", "DROPMALFORMED"), "mode")
        check_word(self.on_reject, ("fail", "drop"), "on_reject")
        check_word(self.on_unfilled, ("fail", "warn", "ignore"), "on_unfilled")


class Subscribing(TypedDict, total=False):
    """The same, as keyword arguments."""

    start: Start
    name: str | None
    filter: str | None
    mode: Literal["FAILFAST", "DROPMALFORMED"]
    on_reject: Literal["fail", "drop"]
    on_unfilled: Literal["fail", "warn", "ignore"]
    fail_on_loss: bool
    expire_after: timedelta
