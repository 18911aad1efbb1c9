"""Times as the Grid Forum has them: ISO 8601 with up to nine digits of a second's fraction, and Z or an offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


def text_to_time(text: str) -> datetime:
    """The time of a text, in UTC.

    Raises ValueError for what is not such a time, and for a fraction of a microsecond, which no time here can hold.

    >>> text_to_time("2000-11-09T21:51:45Z").isoformat(), text_to_time("2000-11-09T22:51:45.5+01:00").isoformat()
    ('2000-11-09T21:51:45+00:00', '2000-11-09T21:51:45.500000+00:00')
    """
    if text[4::3] == "--T::Z":
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass  # explained below
    made, rest = _parse(text)
    if rest:
        raise ValueError("finer than a microsecond; a field of text would keep it")
    return made


def text_to_microseconds(text: str) -> datetime:
    """`text_to_time`, but ignoring a fraction of a microsecond."""
    return _parse(text)[0]


def _parse(text: str) -> tuple[datetime, int]:
    """The time, and its nanoseconds beyond whole microseconds."""
    match = _TIME.fullmatch(text.strip(" \t\r\n"))
    if match is None:
        raise ValueError("not a time such as 2000-11-09T21:51:45.5Z, with Z or an offset")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    nanoseconds = int((match[7] or "").ljust(9, "0"))
    offset = timedelta(hours=int(match[9] or 0), minutes=int(match[10] or 0))
    if offset >= timedelta(hours=24) or int(match[10] or 0) > 59:
        raise ValueError("the offset of a time is not less than a day")
    zone = UTC if not offset else timezone(-offset if match[8] == "-" else offset)
    made = datetime(year, month, day, hour, minute, second, nanoseconds // 1000, zone)
    try:
        return made.astimezone(UTC), nanoseconds % 1000
    except OverflowError:
        raise ValueError("the time is before the year 1 or after 9999 in UTC") from None


def time_to_text(value: Any) -> str:
    """The text of a time, in UTC. Raises TypeError for a time without a zone.

    >>> time_to_text(text_to_time("2000-11-09T22:51:45.5+01:00"))
    '2000-11-09T21:51:45.500000Z'
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError("not a time with a zone")
    return value.astimezone(UTC).isoformat()[:-6] + "Z"
