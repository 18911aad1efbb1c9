"""Synchronous delivery: waits until all subscribers of a publication acknowledge it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta

from pbio_spark.channels.commits.checked import bad, check_word
from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import Subscriber
from pbio_spark.channels.upkeep.expiry import expired
from pbio_spark.errors import PbioError

SYNC_TIMEOUT = 60.0
"""Seconds."""

_PAUSE = 0.001
_LONGEST_PAUSE = {True: 0.02, False: 0.5}
"""The longest pause between two checks of the acknowledgements: on a local disk, and elsewhere."""
_MOST_NAMES = 10


class NotDeliveredError(PbioError):
    """PBIO_NOT_DELIVERED: events are published, but not all their subscribers acknowledged them in time.

    Attributes:
        version: of the commit that published them; None if all of them had been published before.
    """

    version: int | None


def seconds_to_wait(delivery: str, timeout: float | timedelta) -> float | None:
    """How long a publication waits for its subscribers; None, not at all, for `async`.

    Raises PBIO_BAD_OPTION for anything but `async` and `sync`, and for an impossible time.

    >>> seconds_to_wait("sync", timedelta(minutes=1))
    60.0
    """
    check_word(delivery, ("async", "sync"), "delivery")
    seconds = to_seconds(timeout, "subscribers")
    return seconds if delivery == "sync" else None


def to_seconds(timeout: float | timedelta, whom: str) -> float:
    """How long to wait, in seconds. Raises PBIO_BAD_OPTION for an impossible time.

    Args:
        whom: what the program waits for, for the error.
    """
    try:
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    except (OverflowError, TypeError, ValueError):
        seconds = math.nan
    if not (0 <= seconds < math.inf):
        raise PbioError(
            "PBIO_BAD_OPTION", f"cannot wait {str(timeout)[:40]} for {whom}", hint="give a timedelta, or seconds"
        )
    return seconds


def wait_for_subscribers(
    folder: Folder, history: History, channels: Iterable[int], version: int | None, seconds: float
) -> None:
    """Wait until every named subscriber that has not expired has acknowledged a publication.

    It does not wait for subscribers that join, or are forgotten, meanwhile.

    Args:
        channels: the IDs of the channels to which events were published directly. If all events for a channel were
            known, the last events published there, and on channels derived from it, count.
        version: of the commit; None if all was known.
        seconds: the timeout.

    Raises:
        NotDeliveredError: PBIO_NOT_DELIVERED, with the subscribers that are late, and their positions.
    """
    ends = _ends(history, channels, version)
    deadline = time.monotonic() + seconds
    late = _late(folder, subscribers.files(folder, ends), ends)
    pause = _PAUSE
    while late:
        left = deadline - time.monotonic()
        if left <= 0:
            raise _not_delivered(history, version, seconds, late)
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE[folder.is_local])
        late = _late(folder, late, ends)


def _late(folder: Folder, paths: Iterable[str], ends: Mapping[int, Position]) -> dict[str, Subscriber | PbioError]:
    """The subscribers that have not come that far, and those whose files cannot be read, by file."""
    late: dict[str, Subscriber | PbioError] = {}
    for path in paths:
        try:
            found = subscribers.read_file(folder, path)
        except PbioError as error:
            late[path] = error
            continue
        if found is None or found.is_anonymous or found.position >= ends[found.channel]:
            continue
        if not expired(folder, [found], time.time_ns() // 1000):
            late[path] = found
    return late


def _ends(history: History, channels: Iterable[int], version: int | None) -> dict[int, Position]:
    """The position that a channel's subscribers must have reached, by channel."""
    ends = {} if version is None else _ends_of(history, version)
    known = set(channels) - ends.keys()
    if not known:
        return ends
    with history.lock:
        state = history.catch_up()
        known |= {child for child, _ in state.descendants(known)} - ends.keys()
        lasts = {channel: state.channels[channel].last for channel in known & state.channels.keys()}
    for last in set(lasts.values()) - {0}:
        found = _ends_of(history, last)
        ends |= {channel: found[channel] for channel in known if lasts.get(channel) == last}
    return ends


def _ends_of(history: History, version: int) -> dict[int, Position]:
    """The position after the last event of each channel in a commit."""
    entry = history.entry(version)
    if entry is None or not isinstance(entry.change, Data):
        bad(f"commit {version} no longer has events")
    return {group.channel: group.end_in(version) for group in history.groups(entry.change)}


def _not_delivered(
    history: History, version: int | None, seconds: float, late: Mapping[str, Subscriber | PbioError]
) -> NotDeliveredError:
    shown = []
    for path, one in sorted(late.items()):
        if isinstance(one, PbioError):
            shown.append(f"that of {path} ({one.reason})")
        else:
            info = history.state.channels.get(one.channel)
            shown.append(
                f"{one.name!r} of {'a dropped channel' if info is None else repr(info.name)}, at {one.position}"
            )
    more = f", and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    error = NotDeliveredError(
        "PBIO_NOT_DELIVERED",
        f"the events {'had been published before' if version is None else f'are published in commit {version}'}, but "
        f"after {seconds:g} s these subscribers have not acknowledged them: {'; '.join(shown[:_MOST_NAMES])}{more}",
        hint="submitting them again with the same sequence numbers or transaction is safe, and waits again",
    )
    error.version = version
    return error
