"""Which named subscribers are still there, as one who keeps something for them sees it.

Every machine has its own clock, and a clock may be set at any time. If one look at one clock could expire a subscriber,
a clock that jumps ahead would expire all of them at once. The times of publication are no better: a writer whose clock
is ahead takes the log with it for good. So it takes two looks, with real time between them:

1. Whoever looks, and finds that the time at which a subscriber said that it is there is off its own clock, either way,
   by half the time after which it expires, notes that it misses the subscriber, and since when.
2. When such a note has stood for the other half, and the subscriber has said nothing since, it has expired.

A subscriber that is there says so several times in that half (`subscribers.acknowledge`); a note is about what it said
last, and then about nothing any more, whatever the clocks show. Nor does a clock that was once ahead keep one that has
gone: what it said is off as well, and a note from the future is made anew. Where clocks agree, nobody expires before
its time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from pbio_spark.channels.commits.checked import a_number, parse
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.layout import missing_path
from pbio_spark.channels.subscribe.subscribers import Subscriber
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")


def expired(folder: Folder, subscribers: Iterable[Subscriber], now: int, *, note: bool = True) -> list[Subscriber]:
    """Those of some subscribers that have expired.

    Args:
        now: by the caller's clock, in microseconds since 1970 UTC.
        note: whether to note who is missing. Who only wants to know writes nothing.
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
    """Since when a subscriber is missed; None if nobody has missed it since it was last there."""
    data = folder.read(missing_path(subscriber.channel, subscriber.name), 1000)
    if data is None:
        return None
    try:
        made = parse(data)
        seen, since = a_number(made.get("seen")), a_number(made.get("since"))
    except PbioError:
        return None  # a torn note: a new one is as good
    return since if seen == subscriber.seen else None


def _note(folder: Folder, subscriber: Subscriber, now: int) -> None:
    try:
        folder.replace(
            missing_path(subscriber.channel, subscriber.name),
            json.dumps({"seen": subscriber.seen, "since": now}).encode(),
        )
    except PbioError as error:
        # It expires later than it might; what the caller is about is not in danger.
        log.warning("the subscriber %r is missing, which could not be noted: %s", subscriber.name, error)
