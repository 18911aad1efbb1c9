"""`Channel`: a channel of a space, to publish to and to subscribe to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from pbio_spark.channels.commits.checked import check_name
from pbio_spark.channels.derive.reports import DerivationVersion, versions_of
from pbio_spark.channels.log.root import look
from pbio_spark.channels.log.state import ChannelInfo, dropped_to_error
from pbio_spark.channels.named import AnyChannel
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import EXPIRE_AFTER, new_anonymous
from pbio_spark.channels.presence.watch import PRESENCE, release, watch
from pbio_spark.channels.publish.batch import Published
from pbio_spark.channels.publish.delivery import SYNC_TIMEOUT
from pbio_spark.channels.publish.submission import Columns, Submission, channel_format
from pbio_spark.channels.subscribe.eager import Demodulator, EagerSubscription
from pbio_spark.channels.subscribe.options import Start, Subscribing, SubscriptionOptions
from pbio_spark.channels.subscribe.subscription import Handlers, Subscription
from pbio_spark.columns import Rows
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.keywords import suggesting

if TYPE_CHECKING:
    from pbio_spark.channels.derive.modulator import Modulator
    from pbio_spark.channels.space import ChannelSpace


class Channel:
    """A channel of a space. `ChannelSpace.channel` opens it.

    Attributes:
        space: the space that contains it.
        id: its number in the space; a channel created again under the same name gets a new one.
        name: its name in the space.
    """

    def __init__(self, space: ChannelSpace, info: ChannelInfo) -> None:
        self.space = space
        self.id = info.id
        self.name = info.name
        self._info = info

    @property
    def info(self) -> ChannelInfo:
        """The channel's state: each access asks the log for news. For a dropped channel, its last known state.

        Raises PBIO_NO_SPACE if the space is gone.
        """
        with self.space.history.lock:
            self._info = look(self.space.history, self.space.folder, self.space.id).channels.get(self.id, self._info)
        return self._info

    @property
    def format(self) -> Format:
        """The format that describes the channel's type. Raises PBIO_UNKNOWN_FORMAT if the space has lost it."""
        return channel_format(self.info, self.space.formats)

    @property
    def status(self) -> str:
        """Whether writers derive the channel's events; see `State.status`. Raises PBIO_UNKNOWN_CHANNEL."""
        with self.space.history.lock:
            self.space.history.catch_up()
            return self.space.history.state.status(self._find(self.name).id)

    def derivation_versions(self) -> list[DerivationVersion]:
        """The versions of a derived channel's derivation, oldest first; empty for other channels. Reads the log.

        Raises PBIO_UNKNOWN_CHANNEL if the channel has been dropped.
        """
        return versions_of(self.space.history, self._find(self.name))

    def last_sequence(self, producer: str) -> int | None:
        """The last sequence number of a producer on this channel, from the current log; None if it has none.

        Raises PBIO_UNKNOWN_CHANNEL if the channel has been dropped, and PBIO_BAD_OPTION for what cannot be a name.
        """
        check_name(producer, "producer")
        with self.space.history.lock:
            self.space.history.catch_up()
            return self.space.history.state.sequences.get((self._find(self.name).id, producer))

    def _find(self, name: AnyChannel) -> ChannelInfo:
        """The channel's state. Raises PBIO_UNKNOWN_CHANNEL if it was dropped, even if its name is in use again."""
        info = self.space.find(name)
        if info.id != self.id:
            raise dropped_to_error(self.name, recreated=True).at(file=self.space.root)
        return info

    @suggesting
    def submit(
        self,
        events: Rows | Mapping[str, Any],
        *,
        format: Format | None = None,  # noqa: A002
        producer: str | None = None,
        sequence: int | None = None,
        event_time: datetime | None = None,
        columns: Columns = Columns(),  # noqa: B008 - it never changes
        delivery: Literal["async", "sync"] = "async",
        sync_timeout: float | timedelta = SYNC_TIMEOUT,
    ) -> Published:
        """Publish events: when this returns, they are durable, and subscribers see all of them.

        Args: the attributes of `Submission`, and the arguments of `ChannelSpace.publish`; a mapping is one event.

        Raises:
            NotDeliveredError: PBIO_NOT_DELIVERED; the events are published.
            PbioError: nothing is published. PBIO_REJECTED if the events lack fields of the channel's type;
                PBIO_UNKNOWN_COLUMN, PBIO_CANNOT_BE_NULL, PBIO_BAD_VALUE for values; PBIO_UNKNOWN_CHANNEL if the channel
                    is gone; PBIO_NO_PERMISSION, PBIO_NO_ROOM, PBIO_FILE_SYSTEM. Only PBIO_OUTCOME_UNKNOWN leaves it
                    open whether they were published; it is safe to submit them again with the same producer and
                    sequence numbers.
        """
        rows: Rows = [events] if isinstance(events, Mapping) else events
        submission = Submission(self.name, rows, format, producer, sequence, event_time, columns)
        return self.space.publish_to([submission], self._find, delivery=delivery, sync_timeout=sync_timeout)

    @overload
    def subscribe(
        self,
        handlers: Handlers | None = None,
        *,
        modulator: Modulator,
        demodulator: Demodulator | None = None,
        **options: Unpack[Subscribing],
    ) -> EagerSubscription: ...

    @overload
    def subscribe(
        self,
        handlers: Handlers | None = None,
        *,
        modulator: None = None,
        demodulator: Demodulator | None = None,
        **options: Unpack[Subscribing],
    ) -> Subscription: ...

    @suggesting
    def subscribe(
        self,
        handlers: Handlers | None = None,
        *,
        start: Start = "latest",
        name: str | None = None,
        filter: str | None = None,  # noqa: A002
        mode: Literal["FAILFAST", "DROPMALFORMED"] = "FAILFAST",
        on_reject: Literal["fail", "drop"] = "fail",
        on_unfilled: Literal["fail", "warn", "ignore"] = "fail",
        fail_on_loss: bool = True,
        expire_after: timedelta = EXPIRE_AFTER,
        skip_blocks: bool = True,
        modulator: Modulator | None = None,
        demodulator: Demodulator | None = None,
    ) -> Subscription:
        """Subscribe to the channel's events, or to events that code derives from them at their sources.

        Args:
            handlers: a function that takes an `Event` of the channel's type; or functions by the type that they take.
                Each event goes to the type that it fits best; the rest go unchanged to the function under None.
            start: `earliest`, `latest`, a position such as `12.0.7`, or a time of publication; a named subscriber that
                has been here before resumes where it left off.
            name: the name under which the subscriber's position is kept.
            filter: E-code that selects events; its parameter `input` has the wanted type.
            mode: whether an event is an error, or left out and counted in the log, if it is damaged, the filter traps
                on it, or Python cannot represent it as an `Event` (a date after the year 9999).
            on_reject: what happens to events that reach no wanted type: an error, or nothing.
            on_unfilled: what happens to fields of the wanted types that, as far as the space knows, no event can fill:
                an error at once; or a warning when events come, as for fields that only some events lack; or nothing.
            fail_on_loss: whether events that are no longer kept are an error, PBIO_EVENTS_GONE, or skipped.
            expire_after: how long a named subscriber may stay away before it expires and nothing more is kept for it.
            skip_blocks: whether blocks of events are skipped unread, even damaged ones, if the values noted in data
                files show that `filter` refuses them all.
            modulator: code for the sources: a separate channel is derived for the subscriber, or shared with others
                that want the same, and dropped with the last of them. The result is an `EagerSubscription`.
            demodulator: turns each event into what the handler gets, or None for nothing; applies to `run` only.

        Raises:
            PbioError: PBIO_BAD_OPTION; PBIO_UNFILLED; PBIO_BAD_LOG if the named subscriber's file is damaged;
                    PBIO_UNKNOWN_CHANNEL if the channel was dropped and nothing of it is left to read; PBIO_EVENTS_GONE,
                    with `fail_on_loss`, if it was dropped and created again before the subscriber had read its events.
        """
        wishes = mode, on_reject, on_unfilled, fail_on_loss
        options, space = SubscriptionOptions(start, filter, *wishes, expire_after, skip_blocks), self.space
        if name is not None:
            subscribers.check_given(name)
        now = self.info  # its type may have changed
        how, expiry = now.derivation, expire_after if name else PRESENCE
        if modulator is not None:
            info, presence, is_new = space.attach(now, modulator, name, expiry)
            return EagerSubscription(space, info, handlers, presence, replace(options, is_new=is_new), demodulator)
        if how is not None and (how.is_temporary or how.when == "subscribed"):
            presence = name or new_anonymous()
            is_new = subscribers.read(space.folder, now.id, presence) is None
            if watch(space.history, space.folder, now, presence, expiry):
                return EagerSubscription(space, now, handlers, presence, replace(options, is_new=is_new), demodulator)
        if demodulator is not None:
            raise PbioError("PBIO_BAD_OPTION", "demodulator= needs modulator=", hint="give modulator= too, or neither")
        return Subscription(space.folder, space.history, space.formats, now, handlers, name, options)

    def unsubscribe(self, name: str) -> None:
        """Forget a named subscriber, if it exists: nothing more is kept for it.

        All code that it gave to the sources of this channel is removed, unless other subscribers share it.
        """
        space = self.space
        with space.history.lock:
            children = space.history.catch_up().children(self.id)
        own = [child.id for child in children if child.derivation is not None and child.derivation.is_temporary]
        codes = [id_ for id_ in own if subscribers.read(space.folder, id_, name) is not None]
        for id_ in (self.id, *codes):
            subscribers.forget(space.folder, id_, name)
        for id_ in codes if self.info.derivation is None else (self.id, *codes):
            release(space.history, space.folder, id_)
