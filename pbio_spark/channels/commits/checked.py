"""Untrusted JSON -> values, each checked: anyone may have written a commit.

All functions raise PBIO_BAD_LOG for an unexpected value, except those that check a caller's argument: `check_name`,
`check_word`, `check_transaction` and `keep_to_value` raise PBIO_BAD_OPTION.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, NoReturn, TypeAlias

from ecode.suggest import did_you_mean
from pbio_spark.channels.log.layout import FORMAT_NAME, is_data_path, is_groups_path, is_numbers_path, is_states_path
from pbio_spark.channels.position import Position
from pbio_spark.errors import PbioError

MOST = 2**63 - 1
LARGEST = 2**61
"""The largest number of bytes or records: the sum of two still fits an int64."""
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last moment of the years 1 to 9999, in microseconds since 1970 UTC."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 200
_HALVES = re.compile("[\ud800-\udfff]")

VERIFY = "`pbio space verify` says what else is wrong with the space"
COPY = "put the file back from a copy of the space"
PUT_BACK = f"{COPY}; `pbio space verify` says what else is wrong with it"

Keep: TypeAlias = "Literal['always', 'subscribed'] | int"
"""How long events are kept: forever, until all named subscribers acknowledge them, or a number of microseconds."""


def parse(data: bytes) -> dict[str, Any]:
    """The object that JSON holds."""
    try:
        made = json.loads(data)
    except (ValueError, RecursionError):
        bad("not JSON, or only a part of it")
    return an_object(made)


def an_object(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        bad("expected a JSON object")
    return said


def a_list(said: Any, length: int | None = None) -> Sequence[Any]:
    if not isinstance(said, list) or length not in (None, len(said)):
        bad(f"expected a list{'' if length is None else f' of {length}'}")
    return said


def a_text(said: Any) -> str:
    if not is_text(said):
        bad("expected a string")
    return said  # type: ignore[no-any-return]


def a_name(said: Any) -> str:
    if not is_name(said):
        bad(f"{str(said)[:80]!r} is not a name")
    return said  # type: ignore[no-any-return]


def a_number(said: Any, least: int = 0, most: int = MOST) -> int:
    if type(said) is not int or not least <= said <= most:
        bad(f"{str(said)[:40]} is not a whole number from {least} to {most}")
    return said


def a_time(said: Any) -> int:
    """A time at which something happened in a space."""
    return a_number(said, most=LATEST)


def a_path(said: Any) -> str:
    """The path of a data file. A path that leads out of the space must not be followed."""
    if not isinstance(said, str) or not is_data_path(said):
        bad(f"{str(said)[:80]!r} is not the path of a data file")
    return said


def a_groups_path(said: Any) -> str:
    """The path of a file that has the groups of a commit."""
    if not isinstance(said, str) or not is_groups_path(said):
        bad(f"{str(said)[:80]!r} is not the path of a groups file")
    return said


def a_numbers_path(said: Any) -> str:
    """The path of a file that has the numbers of single events."""
    if not isinstance(said, str) or not is_numbers_path(said):
        bad(f"{str(said)[:80]!r} is not the path of a numbers file")
    return said


def a_states_path(said: Any) -> str:
    """The path of a file that has the states of derivations."""
    if not isinstance(said, str) or not is_states_path(said):
        bad(f"{str(said)[:80]!r} is not the path of a states file")
    return said


def a_position(said: Any) -> Position:
    try:
        return Position.parse(a_text(said))
    except PbioError as error:
        bad(error.reason)


def a_keep(said: Any) -> Keep:
    if said == "always":
        return "always"
    return "subscribed" if said == "subscribed" else a_number(said)


def a_format(said: Any) -> str:
    if not isinstance(said, str) or not FORMAT_NAME.fullmatch(said):
        bad(f"{str(said)[:40]!r} is not a format ID")
    return said


def a_digest(said: Any, *, is_first: bool = False) -> str:
    """The digest of a predecessor, which only the first commit lacks."""
    if not isinstance(said, str) or not (said == "" if is_first else _DIGEST.fullmatch(said)):
        bad(f"{str(said)[:80]!r} is not the digest of a commit")
    return said


def is_text(said: Any) -> bool:
    """Whether a value is a string that UTF-8 can encode: JSON also allows lone surrogates."""
    return isinstance(said, str) and not _HALVES.search(said)


def is_name(said: Any) -> bool:
    """Whether a value can be the name of a channel, a producer or a subscriber."""
    return isinstance(said, str) and said.isprintable() and 0 < len(said) <= _LONGEST_NAME


def check_name(text: str, what: str) -> None:
    """Raise PBIO_BAD_OPTION if a channel, a producer or a subscriber cannot have this name."""
    if not is_name(text):
        hint = f"give a string of 1 to {_LONGEST_NAME} characters that can be printed"
        hint += (
            "" if isinstance(text, str) or what != "channel" else "; the name comes first, then the type or the parent"
        )
        raise PbioError("PBIO_BAD_OPTION", f"{repr(text)[:80]} cannot be the name of a {what}", hint=hint)


def check_word(word: str, words: Sequence[str], what: str) -> None:
    """Raise PBIO_BAD_OPTION unless a word is one of those that an argument accepts."""
    if not isinstance(word, str) or word not in words:
        hint = did_you_mean(str(word), words) or f"use {' or '.join(words)}"
        raise PbioError("PBIO_BAD_OPTION", f"{what} cannot be {str(word)[:80]!r}", hint=hint)


def check_transaction(transaction: tuple[str, int]) -> None:
    """Raise PBIO_BAD_OPTION unless this is the name of an application and the number of a batch."""
    if not isinstance(transaction, tuple) or len(transaction) != 2:
        shown = str(transaction)[:80]
        raise PbioError("PBIO_BAD_OPTION", f"{shown!r} is not a transaction", hint="a name, and a whole number from 0")
    application, number = transaction
    if not is_text(application) or type(number) is not int or not 0 <= number <= MOST:
        shown = f"{str(application)[:80]!r}, {str(number)[:40]}"
        raise PbioError("PBIO_BAD_OPTION", f"{shown} is not a transaction", hint="a name, and a whole number from 0")


def span_to_microseconds(
    span: timedelta | float, what: str, *, takes_seconds: bool = False, is_positive: bool = False
) -> int:
    """A span of time, which may be a number of seconds if `takes_seconds`. Raises PBIO_BAD_OPTION for anything else,
    and for spans that are negative, longer than `MOST` microseconds, or zero if they must be positive."""
    try:
        exact = span if isinstance(span, timedelta) or not takes_seconds else timedelta(seconds=span)
        made = exact // timedelta(microseconds=1) if isinstance(exact, timedelta) else -1
    except (TypeError, ValueError, OverflowError):
        made = -1
    if not is_positive <= made <= MOST:
        hint = f"give a timedelta{', or seconds,' if takes_seconds else ''} {'over' if is_positive else 'from'} 0"
        hint += ", such as timedelta(hours=1)"
        raise PbioError("PBIO_BAD_OPTION", f"{what} cannot be {str(span)[:80]!r}", hint=hint)
    return made


def keep_to_value(keep: str | timedelta) -> Keep:
    """How long events are kept, as commits store it. Raises PBIO_BAD_OPTION."""
    if isinstance(keep, str) and keep in ("always", "subscribed"):
        return keep  # type: ignore[return-value]
    if not isinstance(keep, timedelta) or not 0 <= (kept := keep // timedelta(microseconds=1)) <= MOST:
        raise PbioError("PBIO_BAD_OPTION", f"events cannot be kept {keep!r}", hint="always, subscribed or a timedelta")
    return kept


def bad(reason: str, hint: str = VERIFY) -> NoReturn:
    raise PbioError("PBIO_BAD_LOG", reason, hint=hint)
