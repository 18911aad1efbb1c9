"""Named subscribers: the position of each, and when it was last seen, in a file of its own."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Container
from dataclasses import asdict, dataclass
from datetime import timedelta

from pbio_spark.channels.commits.checked import (
    a_name,
    a_number,
    a_position,
    a_time,
    bad,
    check_name,
    parse,
    span_to_microseconds,
)
from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.layout import (
    SUBSCRIBERS,
    is_subscriber_named,
    missing_path,
    name_to_channel,
    subscriber_path,
)
from pbio_spark.channels.position import Position
from pbio_spark.errors import PbioError

EXPIRE_AFTER = timedelta(days=7)

ANONYMOUS = "~"
"""The prefix of the names that record the presence of subscribers without a name. Nothing is kept for them, and nothing
waits for them."""

_LONGEST = 10_000
_RENEWALS = 4
"""How often, within `expire_after`, a subscriber with nothing to acknowledge records its presence."""


@dataclass(frozen=True, slots=True, order=True)
class Subscriber:
    """A named subscriber.

    Attributes:
        channel: the ID of its channel.
        name: unique on the channel.
        position: of the first event that it has not acknowledged.
        seen: when it was last present, by its own clock, in microseconds since 1970 UTC.
        expires_after: how long it may stay away before it expires, in microseconds.
    """

    channel: int
    name: str
    position: Position
    seen: int
    expires_after: int

    @property
    def is_anonymous(self) -> bool:
        """Whether it has only a generated name."""
        return self.name.startswith(ANONYMOUS)


def check_given(name: str) -> None:
    """Raise PBIO_BAD_OPTION unless a subscriber can be given this name."""
    check_name(name, "subscriber")
    if name.startswith(ANONYMOUS):
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"a subscriber's name cannot begin with {ANONYMOUS!r}: {name[:80]!r}",
            hint="names with this prefix are for subscribers without a name",
        )


def new_anonymous() -> str:
    """A name for a subscriber without one."""
    return f"{ANONYMOUS}{uuid.uuid4().hex}"


def read(folder: Folder, channel: int, name: str) -> Subscriber | None:
    """A subscriber; None if it does not exist. Raises PBIO_BAD_LOG, and PBIO_BAD_OPTION for an invalid name."""
    return read_file(folder, _path(channel, name))


def acknowledge(
    folder: Folder, channel: int, name: str, position: Position, expire_after: timedelta = EXPIRE_AFTER
) -> Subscriber:
    """Record durably that a subscriber has finished all events before a position, and that it is present.

    Acknowledgements are never taken back: an earlier position only records that the subscriber is present, a few times
    in `expire_after`. A program that polls may call this every time: it reads one small file.

    Raises:
        PbioError: PBIO_BAD_LOG if the subscriber's file is damaged; PBIO_BAD_OPTION for an invalid name or expiry.
    """
    known = read(folder, channel, name)
    now = time.time_ns() // 1000
    expires_after = span_to_microseconds(expire_after, "expire_after", is_positive=True)
    if known is not None:
        position = max(position, known.position)
        if (position, expires_after) == (known.position, known.expires_after) and not is_due(known, now):
            return known
    made = Subscriber(channel, name, position, now, expires_after)
    said = asdict(made) | {"position": str(position)}
    folder.replace(_path(channel, name), json.dumps(said).encode())
    return made


def is_due(subscriber: Subscriber, now: int) -> bool:
    """Whether a subscriber should record its presence again; it should after its clock was set."""
    return not 0 <= now - subscriber.seen < subscriber.expires_after // _RENEWALS


def forget(folder: Folder, channel: int, name: str) -> None:
    """Remove a subscriber, if it exists."""
    folder.remove(_path(channel, name))
    folder.remove(missing_path(channel, name))


def read_all(folder: Folder) -> list[Subscriber]:
    """All subscribers, by channel and name. Raises PBIO_BAD_LOG."""
    return sorted(found for path in files(folder) if (found := read_file(folder, path)) is not None)


def files(folder: Folder, channels: Container[int] | None = None) -> list[str]:
    """The files of the subscribers of all channels, or of some."""
    return [
        f"{SUBSCRIBERS}/{name}"
        for name in folder.names(SUBSCRIBERS)
        if (channel := name_to_channel(name)) is not None and (channels is None or channel in channels)
    ]


def of_name(folder: Folder, name: str) -> list[Subscriber]:
    """The subscribers of a name on all channels. Raises PBIO_BAD_LOG."""
    check_name(name, "subscriber")
    found = (read_file(folder, path) for path in files(folder) if is_subscriber_named(path, name))
    return [one for one in found if one is not None]


def read_file(folder: Folder, path: str) -> Subscriber | None:
    """The subscriber of a file; None if the file does not exist. Raises PBIO_BAD_LOG."""
    data = folder.read(path, _LONGEST)
    try:
        return None if data is None else _json_to_subscriber(data, path)
    except PbioError as error:
        raise error.at(file=path) from None


def _json_to_subscriber(data: bytes, path: str) -> Subscriber:
    made = parse(data)
    subscriber = Subscriber(
        a_number(made.get("channel")),
        a_name(made.get("name")),
        a_position(made.get("position")),
        a_time(made.get("seen")),
        a_number(made.get("expires_after"), least=1),
    )
    if path != _path(subscriber.channel, subscriber.name):
        bad("the file belongs to another subscriber")
    return subscriber


def _path(channel: int, name: str) -> str:
    check_name(name, "subscriber")
    return subscriber_path(channel, name)


def backlog(history: History, subscriber: Subscriber) -> tuple[int, int]:
    """The numbers of commits and events that a subscriber has not acknowledged.

    It reads every commit after the subscriber's position.
    """
    with history.lock:
        info = history.catch_up().channels.get(subscriber.channel)
    commits = events = 0
    first, end = (0, 0) if info is None else (max(info.first, subscriber.position.version), info.last + 1)
    for version in range(first, end):
        entry = history.entry(version)
        if entry is None or not isinstance(entry.change, Data):
            continue
        left = 0
        for group in history.groups(entry.change, {subscriber.channel}):
            place = max(Position(version, group.file, group.ordinal), subscriber.position)
            left += max(0, group.ordinal + group.count - place.ordinal) if place.file == group.file else 0
        commits += left > 0
        events += left
    return commits, events
