"""Subscribers with code at the sources of events, like JECho's eager handlers: modulators there, demodulators here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.watch import PRESENCE, release
from pbio_spark.channels.publish.submission import channel_format
from pbio_spark.channels.subscribe.delivered import Event
from pbio_spark.channels.subscribe.options import SubscriptionOptions
from pbio_spark.channels.subscribe.subscription import Handler, Handlers, Subscription
from pbio_spark.columns import records_to_targets
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

if TYPE_CHECKING:
    from pbio_spark.channels.derive.modulator import Modulator, ModulatorOptions
    from pbio_spark.channels.space import ChannelSpace

Demodulator: TypeAlias = "Callable[[Event], Any]"
"""Turns an event of the modulator into what the handler gets; None for nothing."""


class EagerSubscription(Subscription):
    """A subscription to a channel that sources derive while it has subscribers."""

    def __init__(
        self,
        space: ChannelSpace,
        info: ChannelInfo,
        handlers: Handlers | None,
        presence: str,
        options: SubscriptionOptions,
        demodulator: Demodulator | None = None,
    ) -> None:
        """
        Args:
            presence: the subscriber's name, or the generated name that marks it as present.
            demodulator: sees each event before the handler, which gets its result.
        """
        self._space = space
        self._presence = presence
        self._demodulators = [(0, demodulator)]
        self._presence_lock = threading.Lock()
        self._is_typed = isinstance(handlers, Mapping) and any(type_ is not None for type_ in handlers)
        name = None if presence.startswith(subscribers.ANONYMOUS) else presence
        super().__init__(space.folder, space.history, space.formats, info, handlers, name, options)

    def replace(
        self,
        modulator: Modulator | None = None,
        *,
        demodulator: Demodulator | None = None,
        **options: Unpack[ModulatorOptions],
    ) -> int:
        """Replace the code at the sources and here, from the same event on.

        Args:
            modulator: the new one; or its attributes as `options`, such as `filter=`.
            demodulator: turns its events into what the handler gets; None: the handler gets the events unchanged.

        Returns:
            The version since which the new code makes the events.

        Raises PBIO_BAD_PROGRAM; PBIO_BAD_OPTION while other subscribers share the code.
        """
        how = self.channel.derivation
        if how is not None and how.is_temporary and len(subscribers.files(self._folder, {self.channel.id})) > 1:
            raise PbioError(
                "PBIO_BAD_OPTION",
                "other subscribers share this code",
                hint="subscribe again with the other modulator; one with state= or parameters= is not shared",
            )
        version = self._space.replace_channel(self.channel.name, modulator, **options)
        self._demodulators.append((version, demodulator))
        if not self._is_typed:
            _, now = self._look_up()
            self._also_take(channel_format(now, self._formats))
        return version

    def set_parameters(self, values: Mapping[str, Any], *, lazy: timedelta | float | None = None) -> int:
        """Set parameters of the code; see `ChannelSpace.set_parameters`."""
        return self._space.set_parameters(self.channel.name, values, lazy=lazy)

    def close(self) -> None:
        """End the subscription. Without a name, nothing is kept: with the last subscriber, the code is removed.

        A named subscriber resumes where it left off, and its code stays until `unsubscribe` or until it expires.
        """
        if self._presence.startswith(subscribers.ANONYMOUS):
            self.unsubscribe()

    def unsubscribe(self) -> None:
        """End the subscription, under any name: with the last subscriber, the code at the sources is removed."""
        with self._presence_lock:  # another thread may be recording the subscriber's presence
            if self._is_closed:
                return
            self._is_closed = True
            subscribers.forget(self._folder, self.channel.id, self._presence)
        release(self._history, self._folder, self.channel.id)

    def _hand(self, handler: Handler, event: Event) -> None:
        demodulator = [one for since, one in self._demodulators if (event.derivation or 0) >= since][-1]
        made = event if demodulator is None else demodulator(event)
        if made is not None:
            handler(made)

    def _acknowledge(self, name: str, position: Position) -> None:
        with self._presence_lock:
            if not self._is_closed:
                super()._acknowledge(name, position)

    def _stay(self) -> None:
        if self.name is None:
            with self._presence_lock:
                if not self._is_closed:
                    here = Position(self.channel.id)
                    subscribers.acknowledge(self._folder, self.channel.id, self._presence, here, PRESENCE)
        super()._stay()

    def _also_take(self, form: Format) -> None:
        """Accept events of another type, too, with the handler of the first type."""
        known = next(iter(self._handlers.values()), None)
        types = dict(records_to_targets([*self._types.values(), form.record]))
        if known is not None and form.record not in self._types.values():
            self._handlers |= {name: known for name in types if name not in self._types}
        if form.record not in self._types.values():
            self._types = types
        self._plans.clear()
