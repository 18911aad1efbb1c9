"""Data files of a space -> batches of the wanted events, with their metadata from the log.

A `Stretch` is read together: groups that are near each other in one file, however many, as columns. Small commits that
were compacted into one file are thus read as one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ecode.native.table import address_of
from pbio_spark.channels.commits.checked import PUT_BACK
from pbio_spark.channels.commits.groups import NO_NUMBER, NO_TIME, Group, Int64s
from pbio_spark.channels.position import Position
from pbio_spark.columns import METADATA_TYPE, BatchMaker, Chunk, Chunker, FilePart, ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.paths import trouble_at

_TIME = pa.timestamp("us", tz="UTC")

EVENT_TYPE = pa.struct(
    [
        *METADATA_TYPE,
        ("position", pa.string()),
        ("channel", pa.string()),
        ("producer", pa.string()),
        ("sequence", pa.int64()),
        ("event_time", _TIME),
        ("published", _TIME),
        ("derivation_version", pa.int64()),
    ]
)
"""The type of the metadata column of events: that of records in files, plus metadata from the log."""

_RUN = np.dtype(
    [(name, np.int64) for name in ("start", "end", "ordinal", "count", "first", "stop")]
    + [
        (name, np.int64)
        for name in ("version", "file", "channel", "producer", "sequence", "event_time", "published", "derivation")
    ]
)


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a group, with the attributes of `Group`."""

    start: int
    end: int
    ordinal: int
    count: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Some events of a group.

    Attributes:
        group: the group of the events.
        version: of its commit.
        published: when it was published, in microseconds since 1970 UTC.
        path: of the data file, below the root of the space.
        shift: of the group in the file, in bytes, after compaction.
        first, stop: the ordinals of the first of the events, and of the one after the last.
        extent: the part of the group in which they are; None for all of it.
    """

    group: Group
    version: int
    published: int
    path: str
    shift: int
    first: int
    stop: int
    extent: Extent | None = None

    @property
    def place(self) -> Extent:
        """The extent to walk in order to read them."""
        group = self.group
        return self.extent or Extent(group.start, group.end, group.ordinal, group.count)

    @property
    def start(self) -> int:
        return self.place.start + self.shift

    @property
    def end(self) -> int:
        return self.place.end + self.shift

    @property
    def events(self) -> int:
        return self.stop - self.first

    @property
    def bytes(self) -> int:
        """The approximate bytes of the events."""
        place = self.place
        return (place.end - place.start) * self.events // place.count

    def between(self, start: Position, end: Position | None = None) -> Piece | None:
        """The part between two positions; None if it is empty."""
        first, stop = self.first, self.stop
        place = self.version, self.group.file
        if place <= (start.version, start.file):
            first = max(first, start.ordinal) if place == (start.version, start.file) else stop
        if end is not None and place >= (end.version, end.file):
            stop = min(stop, end.ordinal) if place == (end.version, end.file) else first
        if (first, stop) == (self.first, self.stop):
            return self
        return replace(self, first=first, stop=stop) if first < stop else None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events in one data file that are read together, in the order of the file.

    Attributes:
        path: of the file, below the root of the space.
        runs: a row for each group, with the attributes of a `Piece`; producers by number.
        channels: the names of the channels, by ID.
        producers: the names of producers.
        own: by the number of the run, groups with times and sequence numbers for each event.
    """

    path: str
    runs: npt.NDArray[np.void]
    channels: Mapping[int, str]
    producers: tuple[str, ...]
    own: Mapping[int, Group] = field(default_factory=dict)

    @classmethod
    def of(cls, pieces: Sequence[Piece], names: Mapping[int, str]) -> Stretch:
        """The stretch of some pieces of one file; `names` are those of channels."""
        producers: dict[str, int] = {}
        rows = []
        own: dict[int, Group] = {}
        for number, piece in enumerate(pieces):
            group, extent = piece.group, piece.place
            who = NO_NUMBER if group.producer is None else producers.setdefault(group.producer, len(producers))
            sequence = NO_NUMBER if group.sequence is None else group.sequence + extent.ordinal - group.ordinal
            event_time = NO_TIME if group.event_time is None else group.event_time
            how = NO_NUMBER if group.derivation is None else group.derivation
            place = piece.start, piece.end, extent.ordinal, extent.count, piece.first, piece.stop
            said = who, sequence, event_time, piece.published, how
            rows.append((*place, piece.version, group.file, group.channel, *said))
            if group.sequences is not None or group.event_times is not None:
                own[number] = group.resolved()
        channels = {piece.group.channel: names[piece.group.channel] for piece in pieces}
        return cls(pieces[0].path, np.array(rows, _RUN), channels, tuple(producers), own)

    @property
    def version(self) -> int:
        """The version of the first commit that it has events of."""
        return int(self.runs["version"][0])


def read_stretch(
    plan: ReadPlan, stretch: Stretch, source: BinaryIO, name: str, shift: int = 0
) -> Iterator[pa.RecordBatch]:
    """The events of a stretch as batches of `plan.schema`, whose metadata column is of EVENT_TYPE or parts of it.

    Args:
        source, name: the open file, and its path for messages.
        shift: of the stretch in the file, in bytes.

    Raises what `read_batches` raises, and PBIO_BAD_LOG if the file has other events than the log says.
    """
    runs = stretch.runs
    part = FilePart(name, int(runs["start"][0]) + shift, int(runs["end"][-1]) + shift)
    with _failing(name):
        size = source.seek(0, os.SEEK_END)
    if part.start >= size:
        reason = f"the file has {size} bytes, but the log has events from byte {part.start} on"
        raise PbioError("PBIO_BAD_LOG", reason, file=name, hint=PUT_BACK)
    chunker = Chunker(source, name, plan.formats, plan.store, plan.limits, plan.walk)
    maker = EventMaker(plan, part, chunker.formats, stretch, shift)
    rest: Iterable[Stretch] = ()
    try:
        for chunk in _chunks(chunker, part, len(runs)):
            chosen = maker.choose(chunk)
            for batch in maker.chunk_to_batches(chosen) if chosen is not None else ():
                if batch.num_rows:
                    yield batch
            if maker.is_done:
                break
        maker.check()
    except _AstrayError:
        rest = maker.rest()
    maker.log_omissions()
    for alone in rest:
        yield from read_stretch(plan, alone, source, name, shift)


class _AstrayError(Exception):
    """Damage prevents reading a stretch as a whole. The log knows where each group begins: read them one by one."""


def _chunks(chunker: Chunker, part: FilePart, groups: int) -> Iterator[Chunk]:
    try:
        with _failing(part.name):
            yield from chunker.chunks(part.start, part.end, 0, joins=True)
    except PbioError as error:
        if groups > 1:
            raise _AstrayError from error
        raise


@contextmanager
def _failing(name: str) -> Iterator[None]:
    """Turn file system errors for an open file into PbioErrors."""
    try:
        with trouble_at(name):
            yield
    except FileNotFoundError:
        hint = "read again; the argument `grace` of vacuum says how long unneeded files stay for their readers"
        raise PbioError(
            "PBIO_FILE_SYSTEM", "the file was removed while it was being read", file=name, hint=hint
        ) from None


def _part(chunk: Chunk, kept: Int64s | slice) -> Chunk:
    """Some entries of a chunk."""
    columns = ("positions", "starts", "ends", "formats", "rights")
    return replace(chunk, **{name: getattr(chunk, name)[kept] for name in columns})


class EventMaker(BatchMaker):
    """Turns chunks of a data file into batches of the wanted events."""

    def __init__(self, plan: ReadPlan, part: FilePart, formats: list[Format], stretch: Stretch, shift: int) -> None:
        super().__init__(plan, part, formats)
        self._stretch = stretch
        self._starts = stretch.runs["start"] + shift
        self._ends = stretch.runs["end"] + shift
        self._counted = np.zeros(len(stretch.runs), np.int64)
        """How many records of each run have been read."""
        self._passed = 0
        """How many runs have been passed."""
        self._is_damaged = False
        self._run = self._ordinals = np.empty(0, np.int64)
        """For each entry of the last chosen chunk: the number of its run, and its ordinal."""

    def choose(self, chunk: Chunk) -> Chunk | None:
        """The wanted entries of a chunk; None if there are none."""
        runs = self._stretch.runs
        offsets = chunk.offset + chunk.positions
        if chunk.error is not None:
            if len(runs) > 1:
                raise _AstrayError
            self._is_damaged = True
            self._run, self._ordinals = np.zeros(1, np.int64), runs["ordinal"] + self._counted
            return chunk
        number, last = (np.searchsorted(self._starts, offsets[[0, -1]], side="right") - 1).tolist()
        if number == last >= 0 and offsets[-1] < self._ends[number]:
            return self._choose_in(number, chunk)
        run = np.searchsorted(self._starts, offsets, side="right") - 1
        inside = np.flatnonzero((run >= 0) & (offsets < self._ends[run]))
        run = run[inside]
        ordinals = runs["ordinal"][run] + self._counted[run] + np.arange(len(run)) - np.searchsorted(run, run)
        ends = chunk.offset + chunk.ends[inside] - address_of(chunk.data)
        self._count(chunk, *np.unique(run, return_counts=True), is_beyond=bool((ends > self._ends[run]).any()))
        is_wanted = (ordinals >= runs["first"][run]) & (ordinals < runs["stop"][run])
        self._run, self._ordinals = run[is_wanted], ordinals[is_wanted]
        kept = inside[is_wanted]
        if len(kept) == len(offsets):
            return chunk
        return _part(chunk, kept) if len(kept) else None

    def _choose_in(self, number: int, chunk: Chunk) -> Chunk | None:
        """The same of a chunk whose entries are all of one run, as most are: nothing is asked of each of them."""
        ordinal, first, stop = self._stretch.runs[["ordinal", "first", "stop"]][number].tolist()
        begin, count = ordinal + int(self._counted[number]), len(chunk.positions)
        end = chunk.offset + int(chunk.ends.max()) - address_of(chunk.data)
        self._count(chunk, np.array([number]), np.array([count]), is_beyond=end > self._ends[number])
        wanted = slice(min(max(first - begin, 0), count), min(max(stop - begin, 0), count))
        self._ordinals = np.arange(begin, begin + count)[wanted]
        self._run = np.full(len(self._ordinals), number)
        if len(self._ordinals) == count:
            return chunk
        return _part(chunk, wanted) if len(self._ordinals) else None

    def _count(self, chunk: Chunk, met: Int64s, counts: Int64s, *, is_beyond: bool) -> None:
        """Count the entries of a chunk that are in runs, if they agree with the log.

        Args:
            met, counts: the runs that have some, ascending, and how many each has.
            is_beyond: whether one ends after its run.
        """
        passed = int(np.searchsorted(self._ends, chunk.offset + chunk.positions[-1], side="right"))
        here = slice(self._passed, max(passed, int(met[-1]) + 1 if len(met) else 0))
        counted = self._counted[here].copy()
        counted[met - self._passed] += counts
        done = passed - self._passed
        if is_beyond or (counted[:done] != self._stretch.runs["count"][here][:done]).any():
            raise _AstrayError
        self._counted[here] = counted
        self._passed = passed

    @property
    def is_done(self) -> bool:
        """Whether all wanted events have been read."""
        last = self._stretch.runs[-1]
        return bool(self._counted[-1] >= last["stop"] - last["ordinal"])

    def check(self) -> None:
        """Raise PBIO_BAD_LOG if the file and the log disagree on events."""
        runs = self._stretch.runs
        needed = runs["stop"] - runs["ordinal"]
        wrong = (self._counted < needed) | (self._counted > runs["count"])
        if not wrong.any() or self._is_damaged:
            return
        if len(runs) > 1:
            raise _AstrayError
        raise PbioError(
            "PBIO_BAD_LOG",
            f"the file has {self._counted[0]} events where the log has {runs['count'][0]}",
            file=self.part.name,
            offset=self.part.start,
            hint=PUT_BACK,
        )

    def rest(self) -> Iterator[Stretch]:
        """The unread rest, group by group."""
        for number in range(self._passed, len(self._counted)):
            runs = self._stretch.runs[number : number + 1].copy()
            runs["first"] = np.maximum(runs["first"], runs["ordinal"] + self._counted[number])
            own = {0: self._stretch.own[number]} if number in self._stretch.own else {}
            if (runs["first"] < runs["stop"]).all():
                yield replace(self._stretch, runs=runs, own=own)

    def name_entry(self, chunk: Chunk, entry: int) -> str:
        """The position of an event: its commit, file and ordinal."""
        version, file = self._stretch.runs[["version", "file"]][self._run[entry]].tolist()
        return f"event {version}.{file}.{self._ordinals[entry]}"

    def metadata_arrays(self, chunk: Chunk, kept: Int64s) -> dict[str, Callable[[], pa.Array]]:
        stretch, runs = self._stretch, self._stretch.runs
        run, ordinals = self._run[kept], self._ordinals[kept]

        def position() -> pa.Array:
            first, last = (run[0], run[-1]) if len(run) else (0, -1)
            fronts = [f"{version}.{file}." for version, file in runs[["version", "file"]][first : last + 1].tolist()]
            front = pa.array(fronts, pa.string()).take(pa.array(run - first))
            return pc.binary_join_element_wise(front, pa.array(ordinals).cast(pa.string()), "")

        def named(names: Sequence[str], numbers: Int64s) -> pa.Array:
            return pa.array(names, pa.string()).take(pa.array(numbers, mask=numbers == NO_NUMBER))

        def channel() -> pa.Array:
            ids = np.array(sorted(stretch.channels), np.int64)
            return named([stretch.channels[i] for i in ids.tolist()], np.searchsorted(ids, runs["channel"][run]))

        def of_events(
            values: Int64s, absent: int, type_: pa.DataType, get: Callable[[Group], Callable[..., Any]]
        ) -> pa.Array:
            for number, group in stretch.own.items():
                at = np.flatnonzero(run == number)
                if len(at) and (known := get(group)(ordinals[at])) is not None:
                    values[at] = known
            return pa.array(values, mask=values == absent).cast(type_)

        def sequence() -> pa.Array:
            first = runs["sequence"][run]
            counted = np.where(first == NO_NUMBER, NO_NUMBER, first + ordinals - runs["ordinal"][run])
            return of_events(counted, NO_NUMBER, pa.int64(), lambda group: group.sequence_of)

        return {
            **super().metadata_arrays(chunk, kept),
            "ordinal": lambda: pa.array(ordinals),
            "run": lambda: pa.array(run),
            "position": position,
            "channel": channel,
            "producer": lambda: named(stretch.producers, runs["producer"][run]),
            "sequence": sequence,
            "event_time": lambda: of_events(
                runs["event_time"][run], NO_TIME, _TIME, lambda group: group.event_times_of
            ),
            "published": lambda: pa.array(runs["published"][run]).cast(_TIME),
            "derivation_version": lambda: pa.array(runs["derivation"][run], mask=runs["derivation"][run] == NO_NUMBER),
        }
