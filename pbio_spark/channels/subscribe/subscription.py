"""Commits -> events of the type that a subscriber wants, from where it left off."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from ecode.errors import valid_text
from ecode.types import Record
from morph import Policy, Rejection
from pbio_spark.channels.commits.checked import check_word
from pbio_spark.channels.commits.entries import Create, Data, Drop, Entry
from pbio_spark.channels.log.blocks import Block, Placed
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History, has_events
from pbio_spark.channels.log.state import ChannelInfo, dropped_to_error
from pbio_spark.channels.position import Position
from pbio_spark.channels.publish.submission import channel_format, stored_format, to_datetime, to_microseconds
from pbio_spark.channels.subscribe import subscribers
from pbio_spark.channels.subscribe.ahead import MOST_BYTES, MOST_PIECES, read_together
from pbio_spark.channels.subscribe.delivered import Delivery, Event
from pbio_spark.channels.subscribe.reading import Piece, Stretch, find_moved, loss_to_error, read_stretch
from pbio_spark.channels.subscribe.wanted import PLACES, format_to_wanted, split_place
from pbio_spark.columns.files.read import Wanted
from pbio_spark.columns.programs.routes import Request, find_way, records_to_targets, rejection_to_error
from pbio_spark.columns.programs.unfilled import converter_to_unfilled
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

log = logging.getLogger("pbio_spark.channels")

Start: TypeAlias = "str | Position | datetime"
"""`earliest`, `latest`, a position, as itself or such as `12.0.7`, or a time of publication."""
Handler: TypeAlias = "Callable[[Event], object]"
Handlers: TypeAlias = "Handler | Mapping[Any, Handler]"
"""A handler, or one for each `Record` or `Format`, and for the rest under None."""

NEAREST = Policy(same_name=False)
"""How events find a subscriber's types: as the paper has it, but for the name, which on a channel the channel has."""

_PAUSE = 0.001
_LONGEST_PAUSE = {True: 0.005, False: 0.5}
"""The longest wait of an idle subscriber between two looks for the next commit: on a local disk, and elsewhere."""


class Subscription:
    """A subscriber of one channel. Made by `Channel.subscribe`.

    Each event comes in the order of the log, which for each producer is the order of its submissions. An event whose
    processing was not acknowledged comes again after a restart of a named subscriber; its position tells that it is the
    same.

    Attributes:
        channel: what was known of the channel when this was made.
        name: under which its position is kept; None if it is not.
        position: of the next event to be delivered.
    """

    def __init__(
        self,
        folder: Folder,
        history: History,
        formats: FormatStore,
        info: ChannelInfo,
        handlers: Handlers | None,
        start: Start,
        name: str | None,
        filter: str | None,  # noqa: A002 - the word of the option
        mode: Literal["FAILFAST", "DROPMALFORMED"],
        on_reject: Literal["fail", "drop"],
        fail_on_loss: bool,
        expire_after: timedelta,
    ) -> None:
        check_word(mode, ("FAILFAST", "DROPMALFORMED"), "mode")
        check_word(on_reject, ("fail", "drop"), "on_reject")
        self.channel = info
        self.name = name
        self._folder = folder
        self._history = history
        self._formats = formats
        self._filter = filter
        self._mode: Literal["FAILFAST", "DROPMALFORMED"] = mode
        self._on_reject = on_reject
        self._fail_on_loss = fail_on_loss
        self._expire_after = expire_after
        self._types: dict[str, Record]
        self._handlers: dict[str | None, Handler]
        self._set_handlers(handlers)
        self._wanted: dict[str, tuple[Wanted, str | None] | None] = {}
        self._known = None if name is None else subscribers.read(folder, info.id, name)
        self._drop = self._find_drop()
        if name is not None and self._known is None:
            self._check_former(name)
        position = self._find(start) if self._known is None else self._known.position
        self._check_end(position)
        self.position = max(position, Position(info.id))  # there is nothing to wait for in front of the channel
        self._given = self._passed = self.position  # behind the last event handed out, and the last one looked at
        self.acknowledge()

    def deliveries(self, timeout: float | None = 0) -> Iterator[Delivery]:
        """The events from `position` on, in batches; each is behind `position` when it is handed out.

        Args:
            timeout: seconds to wait for a further commit before the end; None waits forever.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL when the channel has been dropped and all its events were delivered;
                PBIO_REJECTED for events that reach no type of the subscriber; what is wrong with the space.
        """
        pause, waited = _PAUSE, 0.0
        while True:
            self._stay()
            block = self._history.block(self.position.version)
            if block is not None:
                pause, waited = _PAUSE, 0.0
                yield from self._deliver_block(block)
                self.position = Position(block.last + 1)
                continue
            entry = self._history.entry(self.position.version)
            if entry is not None:
                pause, waited = _PAUSE, 0.0
                yield from self._deliver(entry, self.position.version)
                self.position = Position(self.position.version + 1)
            else:
                self._pass_over()
                is_over = timeout is not None and waited >= timeout
                if self._history.check_end(self.position.version, now=is_over):
                    continue
                self._check_dropped()
                if is_over:
                    self._history.entry(self.position.version - 1)  # it is there still, and the same
                    return
                time.sleep(pause)
                waited += pause
                pause = min(2 * pause, _LONGEST_PAUSE[self._folder.is_local])

    def events(self, timeout: float | None = 0) -> Iterator[Event]:
        """The same, one by one."""
        for delivery in self.deliveries(timeout):
            for event in delivery.events():
                self.position = event.position.next
                yield event
            self.position = delivery.end

    def run(self, timeout: float | None = 0) -> int:
        """Hand the events to the handlers, acknowledging each batch; how many there were.

        An event whose handler raises is not acknowledged; those before it are.
        """
        count = 0
        for delivery in self.deliveries(timeout):
            handler = self._handlers.get(delivery.type)
            if handler is None:
                raise PbioError("PBIO_BAD_OPTION", "a subscription without handlers", hint="subscribe with a handler")
            try:
                for event in delivery.events():
                    self.position = event.position
                    handler(event)
                    count += 1
                self.position = delivery.end
            finally:
                self.acknowledge()
        self.acknowledge()  # that what came since was for other channels
        return count

    def acknowledge(self) -> None:
        """Keep `position` under the subscriber's name, durably: it goes on from there. Without a name, do nothing."""
        if self.name is not None:
            self._acknowledge(self.name, self.position)

    def _acknowledge(self, name: str, position: Position) -> None:
        self._known = subscribers.acknowledge(self._folder, self.channel.id, name, position, self._expire_after)

    def _stay(self) -> None:
        """Say, when it is time to, that the subscriber is there, whatever it does with its events."""
        if self._known is not None and subscribers.is_due(self._known, time.time_ns() // 1000):
            self._acknowledge(self._known.name, self._known.position)

    def _pass_over(self) -> None:
        """Acknowledge the events behind those handed out that the subscriber does not want: it will not do so itself,
        and whoever waits for it would wait in vain."""
        if self._known is not None and self._given <= self._known.position < self._passed:
            self.acknowledge()

    def _find_drop(self) -> ChannelInfo | None:
        """What has the name of the channel now, if it was dropped, or the channel itself if nothing has; else None."""
        with self._history.lock:
            state = self._history.catch_up()
            if self.channel.id in state.channels:
                return None
            return state.channels.get(state.names.get(self.channel.name, 0), self.channel)

    def _check_dropped(self) -> None:
        """Raise PBIO_UNKNOWN_CHANNEL if nothing can come any more."""
        if self._drop is not None:
            raise dropped_to_error(self.channel, anew=self._drop is not self.channel).at(file=self._folder.root)

    def _check_former(self, name: str) -> None:
        """Raise PBIO_EVENTS_GONE if the subscriber had events left of a channel that had this one's name before."""
        for former in subscribers.of_name(self._folder, name):
            with self._history.lock:
                is_there = former.channel in self._history.state.channels
            entry = None if is_there else self._history.entry(former.channel)
            if entry is None or not isinstance(entry.change, Create) or entry.change.name != self.channel.name:
                continue
            if self._fail_on_loss and has_events(self._history, former.channel, former.position, self.channel.id):
                raise PbioError(
                    "PBIO_EVENTS_GONE",
                    f"the channel {self.channel.name!r} was dropped and made anew before {name!r} had read its events "
                    f"from {former.position} on",
                    file=self._folder.root,
                    hint="fail_on_loss=False goes on with the new one",
                )
            subscribers.forget(self._folder, former.channel, name)

    def _check_end(self, position: Position) -> None:
        """Raise PBIO_BAD_OFFSET for a position behind what there will be next."""
        end = self._history.state.version + 1
        if position.version > end and position.version > (end := self._history.catch_up().version + 1):
            raise PbioError(
                "PBIO_BAD_OFFSET",
                f"{position} is after the end of the space, {Position(end)}",
                file=self._folder.root,
                hint="it may be of another space; `unsubscribe` forgets the position of a named subscriber",
            )

    def _set_handlers(self, handlers: Handlers | None) -> None:
        by_type = handlers if isinstance(handlers, Mapping) else {} if handlers is None else {None: handlers}
        types = [type_ for type_ in by_type if type_ is not None]
        self._types = dict(records_to_targets(type_.record if isinstance(type_, Format) else type_ for type_ in types))
        self._handlers = {name: by_type[type_] for name, type_ in zip(self._types, types, strict=True)}
        if None in by_type:
            self._handlers[None] = by_type[None]
        self._takes_rest = None in self._handlers and bool(self._types)
        if not self._types:
            own = channel_format(self.channel, self._formats)
            self._types[own.name] = own.record
            if None in self._handlers:
                self._handlers[own.name] = self._handlers[None]
        if self._filter is not None and len(self._types) > 1:
            raise PbioError("PBIO_BAD_OPTION", "a filter is written for one type, and there are several")

    def _find(self, start: Start) -> Position:
        """The first position of what a subscriber without a past wants."""
        if isinstance(start, str):
            with suppress(PbioError):  # it is told below
                start = Position.parse(start)
        if isinstance(start, Position):
            return max(start, Position(start.version))  # such as can be written down
        with self._history.lock:
            state = self._history.state
            first, end = state.channels.get(self.channel.id, self.channel).first, state.version + 1
        if start == "earliest":
            return Position(first)
        if isinstance(start, datetime):
            return Position(self._history.first_since(to_microseconds(start), first))
        if start != "latest":
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"{str(start)[:80]!r} is not a place to start from",
                hint="earliest, latest, a position such as 12.0.7, or a datetime",
            )
        self._check_dropped()
        return Position(end)

    def _deliver(self, entry: Entry, version: int) -> Iterator[Delivery]:
        if entry.change == Drop(self.channel.id):
            self._drop = self._find_drop()
            self._check_dropped()
        if not isinstance(entry.change, Data):
            return
        for group in self._history.groups(entry.change, {self.channel.id}):
            end = group.end_in(version)
            if end <= self.position:
                continue
            answer = self._wanted_of(group.format)
            if answer is not None:
                at = self.position
                is_here = (at.version, at.file) == (version, group.file)
                first = max(group.ordinal, at.ordinal) if is_here else group.ordinal
                path = entry.change.files[group.file].path
                yield from self._read(Piece(group, version, entry.time, path, 0, first, end.ordinal), *answer)
            self._passed = end

    def _deliver_block(self, block: Block) -> Iterator[Delivery]:
        """The events of commits that were folded, as far as they are still to come."""
        waiting: list[Piece] = []
        size = 0
        for one in block.walk({self.channel.id}, self.position.version):
            piece = None if isinstance(one, int) else self._placed_to_piece(one)
            if piece is None or (waiting and piece.group.format != waiting[0].group.format):
                yield from self._deliver_pieces(waiting)
                waiting, size = [], 0
            if isinstance(one, int):
                entry = self._history.entry(one)
                if entry is not None:
                    yield from self._deliver(entry, one)
            elif piece is not None and piece.events > 0:
                waiting.append(piece)
                size += piece.end - piece.start
            if size >= MOST_BYTES or len(waiting) >= MOST_PIECES:
                yield from self._deliver_pieces(waiting)
                waiting, size = [], 0
        yield from self._deliver_pieces(waiting)

    def _placed_to_piece(self, placed: Placed) -> Piece:
        """What is still to come of a group."""
        group, version, published, path = placed
        end, at = group.end_in(version), self.position
        if end <= at:
            first = end.ordinal
        elif (at.version, at.file) == (version, group.file):
            first = max(group.ordinal, at.ordinal)
        else:
            first = group.ordinal
        return Piece(group, version, published, path, 0, first, end.ordinal)

    def _moved(self, piece: Piece) -> Piece:
        """The same where it lies as far as is known."""
        located = self._history.located(piece.version, piece.path)
        return piece if located is None else replace(piece, path=located[0], further=located[1])

    def _deliver_pieces(self, pieces: Sequence[Piece]) -> Iterator[Delivery]:
        """The events of groups of one format."""
        self._stay()
        answer = self._wanted_of(pieces[0].group.format) if pieces else None
        if answer is None:
            self._passed = max([self._passed, *(piece.group.end_in(piece.version) for piece in pieces)])
            return
        wanted, type_ = answer
        together = None
        if len(pieces) > 1 and self._mode == "FAILFAST":
            moved = [self._moved(piece) for piece in pieces]
            together = read_together(self._folder, wanted, moved, {self.channel.id: self.channel.name})
        if together is None:
            for piece in pieces:
                yield from self._read(piece, wanted, type_)
                self._passed = piece.group.end_in(piece.version)
            return
        for batch, runs in together:
            data, ordinals = split_place(batch)
            bounds = [0, *(np.flatnonzero(np.diff(runs)) + 1).tolist(), len(runs)]
            for start, end in pairwise(bounds):
                piece = pieces[runs[start]]
                own, published = ordinals[start:end], to_datetime(piece.published)
                delivery = Delivery(data.slice(start, end - start), type_, piece.version, own, piece.group, published)
                self.position = self._given = delivery.end
                yield delivery
        self._passed = pieces[-1].group.end_in(pieces[-1].version)

    def _read(self, piece: Piece, wanted: Wanted, type_: str | None) -> Iterator[Delivery]:
        opened = self._open(piece)
        if opened is None:
            return
        file, name, further = opened
        with file:
            piece = replace(piece, group=piece.group.resolved())
            stretch = Stretch.of([piece], {self.channel.id: self.channel.name})
            for batch in read_stretch(wanted, stretch, file, self._folder.path(name), further):
                data, ordinals = split_place(batch)
                delivery = Delivery(data, type_, piece.version, ordinals, piece.group, to_datetime(piece.published))
                self.position = self._given = delivery.end
                yield delivery

    def _open(self, piece: Piece) -> tuple[Any, str, int] | None:
        """A data file, its present path, and how much further on it has what the log says; None if it may be lost."""
        try:
            return self._folder.open(piece.path), piece.path, 0
        except FileNotFoundError:
            moved = find_moved(self._folder, self._history, piece.path, piece.version)
        if moved is None:
            path = self._folder.path(piece.path)
            loss = loss_to_error(self._history, self.channel.id, self.channel.name, piece.version, path)
            if self._fail_on_loss or loss.code != "PBIO_EVENTS_GONE":
                raise loss
        return moved

    def _wanted_of(self, format_id: str) -> tuple[Wanted, str | None] | None:
        """How events of a format are read and as what; None if they are dropped. Raises PBIO_REJECTED."""
        if format_id not in self._wanted:
            self._wanted[format_id] = self._find_wanted(stored_format(format_id, self._formats))
        return self._wanted[format_id]

    def _find_wanted(self, form: Format) -> tuple[Wanted, str | None] | None:
        way = find_way(form, Request(tuple(self._types.items()), policy=NEAREST), (), self._formats)
        type_, record, request = None, form.record, None
        if not isinstance(way, Rejection):
            assert way.target is not None
            type_, record = way.target, self._types[way.target]
            request = Request(((type_, record),), policy=NEAREST, keep=self._filter)
        elif not self._takes_rest:
            if self._on_reject == "drop":
                return None
            raise rejection_to_error(way)
        schema = record_to_arrow(record).append(PLACES)
        wanted = format_to_wanted(form, schema, self._formats, request, mode=self._mode)
        converter = wanted.converters[form.id]
        lacking = sorted(() if isinstance(converter, Rejection) else converter_to_unfilled(converter))
        if lacking and type_ is not None:
            log.warning(
                "channel %s: events of the format %s (%s) lack %s of the type %s, which is null for them",
                self.channel.name,
                *map(valid_text, (form.name, form.id.hex(), ", ".join(lacking), type_)),
            )
        return wanted, type_
