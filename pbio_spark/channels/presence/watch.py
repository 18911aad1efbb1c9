"""Tracks subscribers of channels that are derived only while they have some."""

from __future__ import annotations

import time
from datetime import timedelta

from pbio_spark.channels.commits.commit import Drop, Watch
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers

PRESENCE = timedelta(hours=1)
"""How long an idle subscriber without a name counts as present."""


def watch(history: History, folder: Folder, info: ChannelInfo, name: str, expire_after: timedelta = PRESENCE) -> bool:
    """Note that a subscriber is present; False if the channel was dropped meanwhile."""
    known = subscribers.read(folder, info.id, name)
    if known is not None and not subscribers.is_due(known, time.time_ns() // 1000):
        # Its presence was noted recently, so no program takes it for gone.
        with history.lock:
            now = history.catch_up().channels.get(info.id)
        if now is not None and now.is_watched:
            return True
    subscribers.acknowledge(folder, info.id, name, Position(info.id), expire_after)
    # A leaving subscriber drops the channel only if this commit and the file of this subscriber do not exist.
    history.commit(lambda state: Watch(info.id, True) if info.id in state.channels else None)
    with history.lock:
        is_there = info.id in history.catch_up().channels
    if not is_there:
        subscribers.forget(folder, info.id, name)
    return is_there


def release(history: History, folder: Folder, channel: int) -> None:
    """Once the last subscriber has left, drop a channel that was derived for subscribers, or stop deriving it."""

    def change(state: State) -> Drop | Watch | None:
        info = state.channels.get(channel)
        how = None if info is None else info.derivation
        if info is None or how is None or subscribers.files(folder, {channel}):
            return None
        if how.is_temporary and not state.children(channel):
            return Drop(channel)
        return Watch(channel, False) if how.when == "subscribed" and info.is_watched else None

    history.commit(change)
