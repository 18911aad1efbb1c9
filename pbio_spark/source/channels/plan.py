"""Pieces of a log -> partitions: stretches of files, and their plans."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from morph import Rejection
from pbio_spark.channels import EVENT_TYPE, ChannelInfo, Footers, Piece, Stretch, channel_format, stored_format
from pbio_spark.columns import Excluding, ReadPlan, Request, find_route, plan_to_excluding, rejection_to_error
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.channels.log import ChannelLog, channels_hint, read_formats
from pbio_spark.source.files.planning import OPEN_COST, with_special_columns
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.plan import options_to_selection, selection_to_plan, with_formats
from pbio_spark.source.query.request import options_to_request
from pbio_spark.source.query.schema import announce, infer_schema, new_format
from pbio_spark.source.query.unfilled import Unfilled

NEAR = 64 << 10
"""The most bytes between two groups that are read rather than skipped."""

PARTITION_BYTES = 32 << 20
"""How many bytes of events one task reads by default: half a second's work for Spark."""

FILTERED_BYTES = 128 << 20
"""The same with a filter, which leaves Spark few rows: a task of fewer bytes costs more than its work."""

LOCAL_OPEN_COST = 256 << 10
"""The cost of opening a file on a local disk, in bytes that could be read instead."""


@dataclass(frozen=True, slots=True)
class TaskReading:
    """What one task reads: stretches in the order of the log, each with the number of its `ReadPlan`."""

    stretches: tuple[tuple[int, Stretch], ...] = ()

    @property
    def numbers(self) -> set[int]:
        """The numbers of all plans that the task needs."""
        return {number for number, _ in self.stretches}


class ChannelPlanner:
    """Plans the reading of channels, and caches what it compiled for a stream's next batches."""

    def __init__(self, log: ChannelLog, options: Options, schema: pa.Schema, *, is_projection: bool) -> None:
        """
        Args:
            is_projection: the user named the columns.

        Raises what `options_to_selection` and `options_to_request` raise.
        """
        self._log = log
        self._options = replace(options, format_store=log.space.root)
        self._is_projection = is_projection
        selection = options_to_selection(self._options, schema, (), EVENT_TYPE)
        self._base = replace(selection_to_plan(selection, self._options), store=log.space.formats)
        self._footers = Footers(log.space.folder, logging.INFO)
        self._unfilled = Unfilled(self._options, is_projection)
        self._met: set[str] = set()
        self._own: dict[str, tuple[ReadPlan, Format]] = {}
        """By ID, the formats of channels' types, and the plans that read them."""
        self._numbers: dict[str, int] = {}
        """By a channel's format, the number of the plan for its events."""
        self.plans: list[ReadPlan] = []
        for info in log.infos.values():
            self._number(info)

    def partitions(
        self, pieces: Iterable[Piece], *, is_stream: bool = False, known: frozenset[str] | None = None
    ) -> list[TaskReading]:
        """What tasks read; in a stream, all events of a producer are in one task.

        Args:
            known: the formats that a stream has seen, to announce new ones; None if unknown.

        Raises PBIO_NEW_FORMAT, PBIO_REJECTED, and what else `with_formats` raises.
        """
        found = list(pieces)
        self._learn(found, known, is_stream=is_stream)
        if self._options.skip_blocks and self._options.filter is not None:
            found = self._footers.kept(found, self._excluding)
        local = self._log.space.folder.is_local
        by_default = PARTITION_BYTES if self._options.filter is None else FILTERED_BYTES
        most = self._options.max_partition_bytes or by_default
        packed = _share(found, most) if is_stream else pack(found, most, LOCAL_OPEN_COST if local else OPEN_COST)
        return [TaskReading(tuple(self._stretches(part))) for part in packed]

    def _excluding(self, piece: Piece) -> Excluding | None:
        """What the filter certainly refuses among events of a piece's format."""
        plan = self.plans[self._number(self._log.infos[piece.group.channel])]
        return plan_to_excluding(plan, stored_format(piece.group.format, self._log.space.formats))

    def _learn(self, pieces: Sequence[Piece], met: frozenset[str] | None, *, is_stream: bool) -> None:
        """Compile what the events need and is not compiled yet."""
        formats: dict[int, dict[str, int]] = {}
        pairs: list[tuple[ReadPlan, Format]] = []
        for piece in pieces:
            sizes = formats.setdefault(self._number(self._log.infos[piece.group.channel]), {})
            sizes[piece.group.format] = sizes.get(piece.group.format, 0) + piece.bytes
        for number, sizes in formats.items():
            store = self._log.space.formats
            known = [stored_format(format_id, store) for format_id in sizes]
            for form in known if met is not None else ():
                if form.id.hex() not in (met or frozenset()) | self._met:
                    if self._options.on_new_format == "fail":
                        raise new_format(form)
                    announce(form, self._options)
            plan = self.plans[number]
            if any(form.id not in plan.converters for form in known):
                plan = replace(plan, formats=tuple(dict.fromkeys((*plan.formats, *known))))
                self.plans[number] = with_formats(plan, known, sum(sizes.values()))
            pairs += [(self.plans[number], form) for form in known]
        # A channel without events counts with its type, whose fields events will fill. In a stream all are to come.
        found = set() if is_stream else {piece.group.channel for piece in pieces}
        awaited = self._own_pairs({info.format for info in self._log.infos.values() if info.id not in found})
        self._unfilled.is_open = is_stream or not (pairs or awaited)
        ids = {form.id for _, form in pairs}
        pairs += [(plan, form) for plan, form in awaited if form.id not in ids]
        if not found:
            self._refuse_unreached(awaited)
        self._unfilled.check(pairs, self.plans, has_all=not awaited)
        self._met |= {format_id for sizes in formats.values() for format_id in sizes}

    def check_types(self) -> None:
        """Before a stream's first events: report columns that the channels' types leave null."""
        self._unfilled.is_open = True
        own = self._own_pairs({info.format for info in self._log.infos.values()})
        self._refuse_unreached(own)
        self._unfilled.check(own, self.plans, has_all=False)

    def _refuse_unreached(self, own: Sequence[tuple[ReadPlan, Format]]) -> None:
        """Raise PBIO_REJECTED if neither a channel's type nor any other format of the space reaches a wanted type."""
        options, space = self._options, self._log.space
        rejections = [found for plan, form in own if isinstance(found := plan.converters[form.id], Rejection)]
        if options.on_reject != "fail" or options.on_unfilled in ("warn", "ignore") or len(rejections) < len(own):
            return
        for request in dict.fromkeys(request for plan, _ in own if (request := plan.selection.request) is not None):
            for form in space.formats:
                with suppress(PbioError):  # it may belong to another channel
                    if not isinstance(find_route(form, request, (), space.formats), Rejection):
                        return
        for rejection in rejections:
            raise rejection_to_error(rejection)

    def _own_pairs(self, ids: Collection[str]) -> list[tuple[ReadPlan, Format]]:
        """The formats of channels' types, with the plans that read them."""
        for info in self._log.infos.values():
            if info.format in ids and info.format not in self._own:
                plan, form = self.plans[self._number(info)], channel_format(info, self._log.space.formats)
                if plan.selection.request is not None:
                    plan = _with_request(plan, replace(plan.selection.request, on_reject="drop"))
                self._own[info.format] = with_formats(plan, [form], 0), form
        return [self._own[format_id] for format_id in sorted(ids)]

    def _number(self, info: ChannelInfo) -> int:
        """The number of the plan for a channel's events."""
        if info.format not in self._numbers:
            own = channel_format(info, self._log.space.formats)
            columns = self._base.selection.data_schema if self._is_projection else None
            request = options_to_request(self._options, columns, (own,), channel=own.record)
            # One plan may serve all channels.
            if self.plans and self.plans[0].selection.request == request:
                self._numbers[info.format] = 0
            else:
                self._numbers[info.format] = len(self.plans)
                self.plans.append(_with_request(self._base, request))
        return self._numbers[info.format]

    def _stretches(self, pieces: Sequence[Piece]) -> Iterator[tuple[int, Stretch]]:
        names = {info.id: info.name for info in self._log.infos.values()}
        together: list[Piece] = []
        last = -1
        for piece in pieces:
            number = self._numbers[self._log.infos[piece.group.channel].format]
            if together and not (
                number == last and piece.path == together[-1].path and 0 <= piece.start - together[-1].end <= NEAR
            ):
                yield last, Stretch.of(together, names)
                together = []
            together.append(piece)
            last = number
        if together:
            yield last, Stretch.of(together, names)


def _with_request(plan: ReadPlan, request: Request | None) -> ReadPlan:
    return replace(plan, selection=replace(plan.selection, request=request))


def channels_to_schema(root: str, options: Options) -> pa.Schema:
    """The columns of the channels' types or of `readerFormat`, and those that options request.

    Raises PBIO_NO_SCHEMA without channels, PBIO_CANNOT_MERGE, and what `read_formats` and `check_names` raise.
    """
    space, formats = read_formats(root, options)
    if not formats and not options.reader_format:
        raise PbioError(
            "PBIO_NO_SCHEMA",
            f"no channel matches {options.channel_pattern!r}",
            file=root,
            hint="give the columns with .schema(...) or readerFormat; "
            + channels_hint([info.name for info in space.channels()]),
        )
    options = replace(options, format_store=root)
    return with_special_columns(infer_schema(formats, options), options, EVENT_TYPE)


def pack(pieces: Sequence[Piece], most: int, cost: int) -> list[list[Piece]]:
    """Pieces in order, grouped into as few partitions of about `most` bytes as there can be, alike in size.

    Args:
        cost: of opening a file, in bytes.
    """
    before = [""] + [piece.path for piece in pieces]
    sizes = [piece.bytes + cost * (piece.path != path) for piece, path in zip(pieces, before, strict=False)]
    total = sum(sizes)
    count = -(-total // (most + cost))
    partitions: dict[int, list[Piece]] = {}
    start = 0
    for piece, size in zip(pieces, sizes, strict=True):
        partitions.setdefault((start + size // 2) * count // max(total, 1), []).append(piece)
        start += size
    return list(partitions.values())


def _share(pieces: Sequence[Piece], most: int) -> list[list[Piece]]:
    """Pieces by producer, grouped into partitions of about `most` bytes, in order within each.

    All events of a producer are in one partition (DESIGN decision 19). Producers that appear together stay together,
    since their events are adjacent. Events without a producer have no order to keep.
    """
    sizes: dict[tuple[object, ...], int] = {}
    owners = [_owner(piece) for piece in pieces]
    for piece, owner in zip(pieces, owners, strict=True):
        sizes[owner] = sizes.get(owner, 0) + piece.bytes
    total = sum(sizes.values())
    count = -(-total // most)
    places: dict[tuple[object, ...], int] = {}
    before = 0
    for owner, size in sizes.items():
        places[owner] = (before + size // 2) * count // max(total, 1)
        before += size
    partitions: dict[int, list[Piece]] = {}
    for piece, owner in zip(pieces, owners, strict=True):
        partitions.setdefault(places[owner], []).append(piece)
    return [partitions[place] for place in sorted(partitions)]


def _owner(piece: Piece) -> tuple[object, ...]:
    """A key for events that stay together: the producer, else the file."""
    return (piece.path,) if piece.group.producer is None else (piece.group.producer, "")
