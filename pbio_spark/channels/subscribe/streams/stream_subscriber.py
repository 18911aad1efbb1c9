"""A stream with a subscriber's name: where it resumes, and what it has finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import Subscriber
from pbio_spark.channels.subscribe.follower import READERS, LogFollower
from pbio_spark.channels.subscribe.offset import LogOffset

T = TypeVar("T")

DUE_EVERY = 1.0
"""How often, in seconds, a stream checks whether to record its presence."""


class StreamSubscriber:
    """Keeps the position of a stream on each channel, under one name.

    A channel without new events has nothing to acknowledge, so a stream over thousands of channels writes only for
    those with events in its batches.
    """

    def __init__(self, name: str, folder: Folder, log: LogFollower) -> None:
        self._name = name
        self._folder = folder
        self._log = log
        self._known: dict[int, Subscriber] = {}
        self._finished: LogOffset | None = None
        self._looked = 0.0

    def start(self, otherwise: LogOffset) -> LogOffset:
        """Where a new query resumes: each channel where it left off; `otherwise` if the name is new.

        A channel created since the name was last used is read from its beginning.
        """
        positions = {channel: known.position for channel, known in self._read().items()}
        if not positions:
            return otherwise
        last = max(positions.values())
        for channel in self._log.ids - positions.keys():
            positions[channel] = Position(channel) if channel >= last.version else otherwise.start(channel)
        return LogOffset.of(positions, self._log.end)

    def finish(self, place: LogOffset) -> None:
        """Record durably that all events before an offset have been processed."""
        if place != self._finished:
            is_first = self._finished is None
            channels = self._unfinished() if is_first else self._log.channels_in(place.position)
            channels |= self._log.ids - self._known.keys()
            self._finished = place
        elif time.monotonic() - self._looked < DUE_EVERY:
            return
        else:
            self._looked = time.monotonic()
            now = time.time_ns() // 1000
            channels = {channel for channel, known in self._known.items() if subscribers.is_due(known, now)}

        def acknowledge(channel: int) -> Subscriber:
            return subscribers.acknowledge(self._folder, channel, self._name, place.start(channel))

        self._known |= _at_once(acknowledge, channels & self._log.ids)

    def _unfinished(self) -> set[int]:
        """The channels with events after their last known acknowledgement."""
        self._known = self._read()
        infos = self._log.infos
        return {channel for channel, known in self._known.items() if infos[channel].last >= known.position.version}

    def _read(self) -> dict[int, Subscriber]:
        """The subscribers of this name, by channel."""

        def read(channel: int) -> Subscriber | None:
            return subscribers.read(self._folder, channel, self._name)

        return {channel: known for channel, known in _at_once(read, self._log.ids).items() if known is not None}


def _at_once(call: Callable[[int], T], channels: Collection[int]) -> dict[int, T]:
    """Calls a function for each channel, concurrently: each call waits for a disk or a server."""
    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip(channels, pool.map(call, channels), strict=True))
