"""Commits -> events of the type that a subscriber wants, from where it left off."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np

from ecode.errors import valid_text
from ecode.types import Record
from morph import Policy, Rejection
from pbio_spark.channels.commits.commit import Create
from pbio_spark.channels.footers.skipping import Footers
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History, has_events
from pbio_spark.channels.log.state import ChannelInfo, dropped_to_error
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.publish.submission import channel_format, stored_format, to_datetime
from pbio_spark.channels.subscribe.ahead import MOST_BYTES, MOST_PIECES, read_together
from pbio_spark.channels.subscribe.data_files import DataFiles
from pbio_spark.channels.subscribe.delivered import Delivery, Event
from pbio_spark.channels.subscribe.follower import LogFollower
from pbio_spark.channels.subscribe.offset import LogOffset
from pbio_spark.channels.subscribe.options import Start, SubscriptionOptions, check_handlers, checked_start, seconds_of
from pbio_spark.channels.subscribe.plan import PLACES, format_to_plan, split_place
from pbio_spark.channels.subscribe.reading import Piece, Stretch
from pbio_spark.channels.subscribe.unfilled import refuse_unfilled
from pbio_spark.columns import (
    ReadPlan,
    Request,
    check_filter,
    converter_to_unfilled,
    find_route,
    plan_to_excluding,
    records_to_targets,
    rejection_to_error,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

log = logging.getLogger("pbio_spark.channels")

Handler: TypeAlias = "Callable[[Event], object]"
Handlers: TypeAlias = "Handler | Mapping[Any, Handler]"
"""A handler, or one for each `Record` or `Format`, and under None one for the rest."""

NEAREST = Policy(same_name=False)
"""How events match a subscriber's types: as in the paper, but ignoring names, since a channel has one."""

_PAUSE = 0.001
_LONGEST_PAUSE = {True: 0.005, False: 0.5}
"""The longest wait of an idle subscriber between checks for the next commit: on a local disk, and elsewhere."""


class Subscription:
    """A subscriber of one channel. `Channel.subscribe` creates it.

    Events come in the order of the log, which for each producer is the order of its submissions. After a restart of a
    named subscriber, unacknowledged events come again, with the same positions.

    Attributes:
        channel: what was known about the channel at creation.
        name: the name under which its position is kept; None if it is not kept.
        position: of the next event to be delivered.
    """

    def __init__(
        self,
        folder: Folder,
        history: History,
        formats: FormatStore,
        info: ChannelInfo,
        handlers: Handlers | None,
        name: str | None,
        options: SubscriptionOptions,
    ) -> None:
        self.channel = info
        self.name = name
        self._is_closed = False
        self._folder = folder
        self._history = history
        self._formats = formats
        self._filter = options.filter
        self._mode = options.mode
        self._on_reject = options.on_reject
        self._on_unfilled = options.on_unfilled
        self._fail_on_loss = options.fail_on_loss
        self._expire_after = options.expire_after
        self._types: dict[str, Record]
        self._handlers: dict[str | None, Handler]
        self._set_handlers(handlers)
        self._plans: dict[str, tuple[ReadPlan, str | None] | None] = {}
        self._known = None if name is None or options.is_new else subscribers.read(folder, info.id, name)
        self._is_dropped, now = self._look_up()
        if name is not None and self._known is None:
            self._check_former(name)
        self._follower = LogFollower(folder, history, [now], fail_on_loss=self._fail_on_loss, known=info.id)
        self._footers = Footers(folder) if options.filter is not None and options.skip_blocks else None
        self._files = DataFiles(folder, history, fail_on_loss=self._fail_on_loss)
        position = self._find(options.start) if self._known is None else self._follower.checked(self._known.position)
        self.position = max(position, Position(info.id))  # nothing to wait for before the channel was created
        self._given = self._passed = self.position  # after the last event delivered, and the last one examined
        self.acknowledge()

    def deliveries(self, timeout: float | timedelta | None = 0) -> Iterator[Delivery]:
        """The events from `position` on, in batches; `position` is after each batch when it is delivered.

        Args:
            timeout: how long to wait at the end for another commit, in seconds or a timedelta; None waits forever.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL when the channel has been dropped and all its events were delivered;
                    PBIO_REJECTED for events that reach none of the subscriber's types; PBIO_BAD_OPTION after the
                    subscription has ended (if another thread ends it later, iteration stops); errors of the space.
        """
        if self._is_closed:
            raise PbioError("PBIO_BAD_OPTION", "the subscription has ended", hint="subscribe again")
        pause, waited = _PAUSE, 0.0
        longest = seconds_of(timeout)
        while not self._is_closed:
            self._stay()
            if self._read(self.position.version) is not None:
                pause, waited = _PAUSE, 0.0
                yield from self._deliver()
            else:
                self._pass_over()
                is_over = longest is not None and waited >= longest
                if self._history.check_end(self.position.version, now=is_over):
                    continue
                self._check_dropped()
                if is_over:
                    self._history.entry(self.position.version - 1)  # check that it still exists, unchanged
                    return
                time.sleep(pause)
                waited += pause
                pause = min(2 * pause, _LONGEST_PAUSE[self._folder.is_local])

    def events(self, timeout: float | timedelta | None = 0) -> Iterator[Event]:
        """The events from `position` on, one by one."""
        for delivery in self.deliveries(timeout):
            self.position = delivery.start  # Python may not be able to represent the first one: PBIO_BAD_VALUE
            for event in delivery.events():
                self.position = event.position.next
                yield event
            self.position = delivery.end

    def run(self, timeout: float | timedelta | None = 0) -> int:
        """Pass the events to the handlers and acknowledge each batch; returns the number of events.

        An event whose handler raises is not acknowledged; those before it are. Raises what `events` raises.
        """
        count = 0
        for delivery in self.deliveries(timeout):
            self.position = delivery.start  # in case of an error before a handler has seen one
            handler = self._handlers.get(delivery.type)
            if handler is None:
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    "the subscription has no handlers for these events",
                    hint="subscribe with a handler",
                )
            try:
                for event in delivery.events():
                    self.position = event.position
                    self._hand(handler, event)
                    self.position = event.position.next
                    count += 1
                self.position = delivery.end
            finally:
                self.acknowledge()
        self.acknowledge()  # records that the newer events were for other channels
        return count

    def _hand(self, handler: Handler, event: Event) -> None:
        handler(event)

    def close(self) -> None:
        """End the subscription; a named subscriber resumes where it left off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def acknowledge(self, position: Position | None = None) -> None:
        """Store `position` durably under the subscriber's name: it resumes there. Without a name, do nothing.

        Args:
            position: an earlier position, if some delivered events have not been processed yet.
        """
        if self.name is not None:
            self._acknowledge(self.name, self.position if position is None else position)

    def seek(self, start: Start) -> None:
        """Continue from another position. Acknowledged events stay acknowledged.

        Raises PBIO_BAD_OPTION, PBIO_EVENTS_GONE.
        """
        self.position = max(self._find(start), Position(self.channel.id))

    def _acknowledge(self, name: str, position: Position) -> None:
        self._known = subscribers.acknowledge(self._folder, self.channel.id, name, position, self._expire_after)

    def _stay(self) -> None:
        """Record from time to time that the subscriber is present, whatever it does with its events."""
        if self._known is not None and subscribers.is_due(self._known, time.time_ns() // 1000):
            self._acknowledge(self._known.name, self._known.position)

    def _pass_over(self) -> None:
        """Acknowledge unwanted events after the delivered ones: the subscriber will not do so itself, and a publisher
        would wait in vain."""
        if self._known is not None and self._given <= self._known.position < self._passed:
            self.acknowledge()

    def _look_up(self) -> tuple[bool, ChannelInfo]:
        """Whether the channel has been dropped, and what is known about it now."""
        with self._history.lock:
            channels = self._history.catch_up().channels
            return self.channel.id not in channels, channels.get(self.channel.id, self.channel)

    def _check_dropped(self) -> None:
        """Raise PBIO_UNKNOWN_CHANNEL if the channel has been dropped, so no more events can come."""
        if self._is_dropped and not self._is_closed:  # closing drops a channel that was derived for this subscriber
            with self._history.lock:
                is_recreated = self.channel.name in self._history.catch_up().names
            raise dropped_to_error(self.channel.name, recreated=is_recreated).at(file=self._folder.root)

    def _check_former(self, name: str) -> None:
        """Raise PBIO_EVENTS_GONE if the subscriber has unread events of an earlier channel of the same name."""
        for former in subscribers.of_name(self._folder, name):
            with self._history.lock:
                is_there = former.channel in self._history.state.channels
            entry = None if is_there else self._history.entry(former.channel)
            if entry is None or not isinstance(entry.change, Create) or entry.change.name != self.channel.name:
                continue
            if self._fail_on_loss and has_events(self._history, former.channel, former.position, self.channel.id):
                raise PbioError(
                    "PBIO_EVENTS_GONE",
                    f"the channel {self.channel.name!r} was dropped and created again before {name!r} had read its "
                    f"events from {former.position} on",
                    file=self._folder.root,
                    hint="fail_on_loss=False continues with the new one",
                )
            subscribers.forget(self._folder, former.channel, name)

    def _set_handlers(self, handlers: Handlers | None) -> None:
        by_type = handlers if isinstance(handlers, Mapping) else {} if handlers is None else {None: handlers}
        check_handlers(by_type)
        types = [type_ for type_ in by_type if type_ is not None]
        self._types = dict(records_to_targets(type_.record if isinstance(type_, Format) else type_ for type_ in types))
        self._handlers = {name: by_type[type_] for name, type_ in zip(self._types, types, strict=True)}
        if None in by_type:
            self._handlers[None] = by_type[None]
        self._takes_rest = None in self._handlers and bool(self._types)
        own = channel_format(self.channel, self._formats)
        if self._on_unfilled == "fail":
            unreached = [refuse_unfilled(*type_, own, self._formats, NEAREST) for type_ in self._types.items()]
            if unreached and all(unreached) and unreached[0] and self._on_reject == "fail" and not self._takes_rest:
                raise unreached[0]
        if not self._types:
            self._types[own.name] = own.record
            if None in self._handlers:
                self._handlers[own.name] = self._handlers[None]
        if self._filter is not None and len(self._types) > 1:
            hint = "subscribe once for each type, each with its filter"
            raise PbioError("PBIO_BAD_OPTION", "a filter needs one type, but the handlers have several", hint=hint)
        if self._filter is not None:
            check_filter(self._filter, *self._types.values())

    def _find(self, start: Start) -> Position:
        """The first position for a new subscriber."""
        where = checked_start(start)
        if where == "latest":
            self._check_dropped()
        return self._follower.start(where).start(self.channel.id)

    def _read(self, version: int) -> Sequence[Piece] | None:
        return self._follower.read(version, LogOffset(self.position))

    def _deliver(self) -> Iterator[Delivery]:
        """The events of a commit and of the available commits after it; then `position` is after them."""
        version = self.position.version
        self._follower.forget(version)
        waiting: list[Piece] = []
        size = 0
        while True:
            try:
                pieces = self._read(version)
            except PbioError:
                if not waiting:
                    raise
                break  # reported after the preceding events
            for whole in pieces or ():
                piece = whole.between(self.position)
                if piece is None:
                    continue
                is_full = size >= MOST_BYTES or len(waiting) >= MOST_PIECES
                if waiting and (is_full or piece.group.format != waiting[0].group.format):
                    yield from self._deliver_pieces(waiting)
                    waiting, size = [], 0
                waiting.append(piece)
                size += piece.end - piece.start
            self._is_dropped = self._is_dropped or self._follower.dropped is not None
            if self._follower.dropped is not None and self._follower.dropped[1] == version:
                yield from self._deliver_pieces(waiting)
                self._check_dropped()
            version += 1
            if not waiting:
                self.position = Position(version)
            if not self._follower.is_near(version):
                break
        yield from self._deliver_pieces(waiting)
        self.position = Position(version)

    def _deliver_pieces(self, pieces: Sequence[Piece]) -> Iterator[Delivery]:
        """The events of groups of one format."""
        self._stay()
        answer = self._plan_of(pieces[0].group.format) if pieces else None
        if answer is None:
            self._passed = max([self._passed, *(piece.group.end_in(piece.version) for piece in pieces)])
            return
        plan, type_ = answer
        passed = pieces[-1].group.end_in(pieces[-1].version)
        if self._footers is not None:
            excluding = plan_to_excluding(plan, stored_format(pieces[0].group.format, self._formats))
            pieces = self._footers.kept(pieces, lambda _: excluding)
        name, mode, together = self.channel.name, self._mode, None
        if len(pieces) > 1 and mode == "FAILFAST" and all(piece.extent is None for piece in pieces):
            together = read_together(self._folder, plan, pieces, {self.channel.id: name})
        if together is None:
            for piece in pieces:
                yield from self._deliver_piece(piece, plan, type_)
                self._passed = Position(piece.version, piece.group.file, piece.stop)
            self._passed = passed
            return
        for batch, runs in together:
            data, ordinals = split_place(batch)
            bounds = [0, *(np.flatnonzero(np.diff(runs)) + 1).tolist(), len(runs)]
            for start, end in pairwise(bounds):
                piece = pieces[runs[start]]
                own, published = ordinals[start:end], to_datetime(piece.published)
                part, version, group = data.slice(start, end - start), piece.version, piece.group
                delivery = Delivery(part, type_, version, own, group, published, name, mode)
                self.position = self._given = delivery.end
                yield delivery
        self._passed = passed

    def _deliver_piece(self, piece: Piece, plan: ReadPlan, type_: str | None) -> Iterator[Delivery]:
        resolved = self._follower.resolved(piece)
        if resolved is None:
            return
        name, group, published = self.channel.name, resolved.group, to_datetime(piece.published)
        for batch in self._files.read(plan, Stretch.of([resolved], {self.channel.id: name})):
            data, ordinals = split_place(batch)
            delivery = Delivery(data, type_, piece.version, ordinals, group, published, name, self._mode)
            self.position = self._given = delivery.end
            yield delivery

    def _plan_of(self, format_id: str) -> tuple[ReadPlan, str | None] | None:
        """The plan and the type for events of a format; None if they are dropped. Raises PBIO_REJECTED."""
        if format_id not in self._plans:
            self._plans[format_id] = self._find_plan(stored_format(format_id, self._formats))
        return self._plans[format_id]

    def _find_plan(self, form: Format) -> tuple[ReadPlan, str | None] | None:
        route = find_route(form, Request(tuple(self._types.items()), policy=NEAREST), (), self._formats)
        type_, record, request = None, form.record, None
        if not isinstance(route, Rejection):
            assert route.target is not None
            type_, record = route.target, self._types[route.target]
            request = Request(((type_, record),), policy=NEAREST, keep=self._filter)
        elif not self._takes_rest:
            if self._on_reject == "drop":
                return None
            raise rejection_to_error(route)
        schema = record_to_arrow(record).append(PLACES)
        plan = format_to_plan(form, schema, self._formats, request, mode=self._mode)
        converter = plan.converters[form.id]
        lacking = sorted(() if isinstance(converter, Rejection) else converter_to_unfilled(converter))
        if lacking and type_ is not None and self._on_unfilled != "ignore":
            log.warning(
                "channel %s: events of the format %s (%s) lack %s of the type %s, which are null there",
                self.channel.name,
                *map(valid_text, (form.name, form.id.hex(), ", ".join(lacking), type_)),
            )
        return plan, type_
