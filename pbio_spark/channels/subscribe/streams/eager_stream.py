"""Code at the sources for a stream or a batch: a channel that is derived while the reader is present."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import timedelta

from pbio_spark.channels.derive.modulator import Modulator
from pbio_spark.channels.log.history import has_events
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import ANONYMOUS, EXPIRE_AFTER
from pbio_spark.channels.presence.watch import release
from pbio_spark.channels.space import ChannelSpace
from pbio_spark.channels.subscribe.offset import LogOffset
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.channels")

OF_BATCHES = f"{ANONYMOUS}batches"
"""The name that marks batches as readers of a channel."""

QUERY_PRESENCE = timedelta(days=1)
"""How long a query that was killed, or a batch that is not repeated, counts as a subscriber: longer than a micro-batch,
and than the time between two of them."""

LOOK_EVERY = 60.0
"""How often, in seconds, a stream checks whether to record its presence."""

ASK_EVERY = 2.0
"""How often, in seconds, a stream checks whether sources refuse its code."""


class EagerStream:
    """A channel that sources derive for one reader, or for several that want the same.

    Attributes:
        info: the channel.
        name: the reader's own, or a generated name that marks it as present.
        is_new: whether this name is new.
    """

    def __init__(
        self,
        space: ChannelSpace,
        parent: ChannelInfo,
        modulator: Modulator,
        name: str | None = None,
        *,
        fail_on_loss: bool = True,
    ) -> None:
        """
        Args:
            name: of a reader that returns, or has a name of its own; None for a new reader without a name.
            fail_on_loss: whether events that no source has derived are an error, or are skipped with a warning.

        Raises what `ChannelSpace.attach` raises.
        """
        self._space = space
        self._parent = parent
        self._fail_on_loss = fail_on_loss
        self._resumed: tuple[LogOffset, LogOffset] | None = None
        self._looked = time.monotonic()
        self._asked = time.monotonic()
        self._told: set[tuple[str | None, str, str | None]] = set()
        self._expire_after = QUERY_PRESENCE if name is None or name.startswith(ANONYMOUS) else EXPIRE_AFTER
        self.info, self.name, self.is_new = space.attach(parent, modulator, name, self._expire_after)

    @property
    def is_anonymous(self) -> bool:
        """Whether the code is removed with the reader."""
        return self.name.startswith(ANONYMOUS)

    def resumed(self, offset: LogOffset) -> LogOffset:
        """A stored offset, for the channel as it is now.

        Raises PBIO_EVENTS_GONE if sources have since published without the code, or with other code.
        """
        if offset.channels is None or self.info.id in offset.channels:
            return offset
        if self._resumed is None or self._resumed[0] != offset:
            self._resumed = offset, self._restarted(offset)
        return self._resumed[1]

    def _restarted(self, offset: LogOffset) -> LogOffset:
        """Where a reader starts on this channel that has read another one so far."""
        if has_events(self._space.history, self._parent.id, Position(offset.position.version), self.info.id):
            reason = (
                f"events of {self._parent.name!r} from {offset.position} on were published while no source ran this "
                "code: the stream was stopped, or had other code or parameters"
            )
            if self._fail_on_loss:
                hint = "under a name, with the option subscriber, the code stays while the stream is stopped; "
                hint += "failOnDataLoss=false continues without these events"
                raise PbioError("PBIO_EVENTS_GONE", reason, file=self._space.root, hint=hint)
            log.warning("%s: %s", self._space.root, reason)
        start = max(Position(self.info.id), offset.position)
        return replace(LogOffset.of({self.info.id: start}, start), formats=offset.formats)

    def stay(self) -> None:
        """Record from time to time that a reader without a name is present."""
        if self.is_anonymous and time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            start = Position(self.info.id)
            subscribers.acknowledge(self._space.folder, self.info.id, self.name, start, self._expire_after)

    def tell(self) -> None:
        """Warn, once each, about sources that derive nothing for the reader: the stream lacks their events."""
        if time.monotonic() - self._asked < ASK_EVERY:
            return
        self._asked = time.monotonic()
        for report in self._space.derivations():
            what = report.source, report.status, report.reason
            if (
                report.channel == self.info.name
                and report.status in ("refused", "suspended")
                and what not in self._told
            ):
                self._told.add(what)
                log.warning(
                    "%s: the source %s has %s this reader's code on %s, and makes no events for it: %s",
                    self._space.root,
                    report.source,
                    report.status,
                    report.parent,
                    report.reason,
                )

    def leave(self) -> None:
        """Leave: with the last reader, the code is removed. For a reader with a name, nothing changes."""
        if self.is_anonymous:
            subscribers.forget(self._space.folder, self.info.id, self.name)
            release(self._space.history, self._space.folder, self.info.id)
