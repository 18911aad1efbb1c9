"""Which named subscribers are still present, as seen by a program that keeps events for them.

Every machine has its own clock, and a clock may be set at any time. If a single check by one clock could expire a
subscriber, a clock that jumps ahead would expire all of them at once. Times of publication do not help: a writer with a
fast clock takes the log with it for good. So expiry takes two checks, with real time between them:

1. A program compares the time at which a subscriber was last seen with its own clock. If they differ, in either
   direction, by half the time after which the subscriber expires, it notes that the subscriber is missing, and since
   when.
2. If such a note has existed for the other half, and the subscriber has not been seen since, the subscriber has
expired.

A subscriber that is present records that several times in that half (`subscribers.acknowledge`). A note refers to the
last record, and the next record makes it void, whatever the clocks show. A clock that was once ahead does not keep a
subscriber that has gone: its last record differs as well, and a note from the future is replaced. If clocks agree, no
subscriber expires early.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from pbio_spark.channels.commits.checked import a_number, parse
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.layout import missing_path
from pbio_spark.channels.presence.subscribers import Subscriber
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")


def expired(folder: Folder, subscribers: Iterable[Subscriber], now: int, *, note: bool = True) -> list[Subscriber]:
    """The subscribers that have expired.

    Args:
        now: by the caller's clock, in microseconds since 1970 UTC.
        note: whether to write notes about missing subscribers.
    """
    gone = []
    for subscriber in subscribers:
        half = subscriber.expires_after // 2
        if abs(now - subscriber.seen) < half:
            continue
        since = _missed_since(folder, subscriber)
        if since is None or since > now:
            if note:
                _note(folder, subscriber, now)
        elif now - since >= half:
            gone.append(subscriber)
    return gone


def _missed_since(folder: Folder, subscriber: Subscriber) -> int | None:
    """When a subscriber was first missed; None if that was not noted since it was last seen."""
    data = folder.read(missing_path(subscriber.channel, subscriber.name), 1000)
    if data is None:
        return None
    try:
        made = parse(data)
        seen, since = a_number(made.get("seen")), a_number(made.get("since"))
    except PbioError:
        return None  # a torn note is replaced
    return since if seen == subscriber.seen else None


def _note(folder: Folder, subscriber: Subscriber, now: int) -> None:
    try:
        folder.replace(
            missing_path(subscriber.channel, subscriber.name),
            json.dumps({"seen": subscriber.seen, "since": now}).encode(),
        )
    except PbioError as error:
        # The subscriber expires later than possible, but the caller can continue.
        log.warning("cannot note that the subscriber %r is missing: %s", subscriber.name, error)
