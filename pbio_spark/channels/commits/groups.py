"""Where the events of a commit are, and their producers: as columns, since a commit may have thousands of channels."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pbio_spark.channels.commits.checked import (
    EARLIEST,
    LATEST,
    bad,
)
from pbio_spark.channels.position import Position

Int64s: TypeAlias = npt.NDArray[np.int64]

Load: TypeAlias = "Callable[[int, int], Int64s]"
"""Reads numbers from a file beside the log, given the index of the first and the count."""

Own: TypeAlias = "Int64s | Callable[[], Int64s] | None"
"""The value of each event of a group, or its reader; None if events have no values of their own."""

NO_NUMBER = -1
NO_TIME = -(2**63)
PLACES = ("channel", "file", "start", "end", "ordinal", "count")
ABSENT = {"producer": NO_NUMBER, "sequence": NO_NUMBER, "event_time": NO_TIME, "derivation": NO_NUMBER}
"""The value of an optional column that is not set."""

ROW = np.dtype([(name, np.int64) for name in (*PLACES, "format", *ABSENT)])
"""A group as a row: its format and its producer by their numbers among those of the commit."""


@dataclass(frozen=True, slots=True)
class Beside(Mapping[int, Int64s]):
    """Values of single events that are in a separate file and are loaded on first use.

    Attributes:
        places: by the index of a group, the number of its first value in the file, and its last value.
        rows: the groups.
        name: of the column that has the first event's value.
        load: reads the file; None until that is known.
    """

    places: Mapping[int, tuple[int, int]]
    rows: npt.NDArray[np.void]
    name: str
    load: Load | None = None

    def __getitem__(self, index: int) -> Int64s:
        first, last = self.places[index]
        row = self.rows[index]
        if self.load is None:
            bad("values of events lie in a file that the commit does not name")
        values = self.load(first, int(row["count"]))
        if values[-1] != last:
            bad(f"the {self.name} of events is not what the commit says")
        return check_values(values, self.name, row)

    def __contains__(self, index: object) -> bool:
        return index in self.places

    def __iter__(self) -> Iterator[int]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive events in a data file, of one channel, one producer and one format.

    Attributes:
        channel: its ID.
        file: which of the commit's files.
        start, end: byte offsets of item boundaries.
        ordinal: index of the first event among all records of the file.
        count: of events.
        format: the ID of their format, in hexadecimal.
        producer: the producer; None if unknown.
        sequence: the sequence number of the first event; without `sequences`, the others follow it.
        event_time: of the first event, in microseconds since 1970 UTC; without `event_times`, of all events.
        derivation: for derived events, the version of the commit that last changed the derivation.
        sequences, event_times: int64, of each event; or what reads them, see `resolved`.
    """

    channel: int
    file: int
    start: int
    end: int
    ordinal: int
    count: int
    format: str
    producer: str | None = None
    sequence: int | None = None
    event_time: int | None = None
    derivation: int | None = None
    sequences: Own = field(default=None, compare=False)
    event_times: Own = field(default=None, compare=False)

    def resolved(self) -> Self:
        """The group with the sequence numbers and times of its events loaded. Raises PBIO_BAD_LOG."""
        if not (callable(self.sequences) or callable(self.event_times)):
            return self
        return replace(self, sequences=_read(self.sequences), event_times=_read(self.event_times))

    def end_in(self, version: int) -> Position:
        """The position after its last event, in the commit of a version."""
        return Position(version, self.file, self.ordinal + self.count)

    def sequence_of(self, ordinals: Int64s) -> Int64s | None:
        """The sequence numbers of events, by their ordinals; None if they have none."""
        if self.sequence is None:
            return None
        known = _read(self.sequences)
        return ordinals - self.ordinal + self.sequence if known is None else known[ordinals - self.ordinal]

    def event_times_of(self, ordinals: Int64s) -> Int64s | None:
        """The event times of events, by their ordinals; None if they have none."""
        if self.event_time is None:
            return None
        known = _read(self.event_times)
        return np.full(len(ordinals), self.event_time) if known is None else known[ordinals - self.ordinal]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of a commit, in the order of their positions; `Group` says what the columns mean.

    Attributes:
        rows: of ROW.
        formats, producers: the values that the numbers in the rows refer to.
        sequences, event_times: those of each event, by the index of the group.
    """

    rows: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, ROW))
    formats: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    sequences: Mapping[int, Int64s] = field(default_factory=dict)
    event_times: Mapping[int, Int64s] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Self:
        """The groups of an iterable, in its order."""
        made = list(groups)
        formats, producers = _Numbers(), _Numbers()
        rows = [
            (
                *(getattr(one, name) for name in PLACES),
                formats.number(one.format),
                NO_NUMBER if one.producer is None else producers.number(one.producer),
                NO_NUMBER if one.sequence is None else one.sequence,
                NO_TIME if one.event_time is None else one.event_time,
                NO_NUMBER if one.derivation is None else one.derivation,
            )
            for one in made
        ]
        sequences = {i: own for i, one in enumerate(made) if (own := _read(one.sequences)) is not None}
        times = {i: own for i, one in enumerate(made) if (own := _read(one.event_times)) is not None}
        return cls(np.array(rows, ROW), formats.names, producers.names, sequences, times)

    @classmethod
    def concat(cls, parts: Iterable[Groups]) -> Self:
        """Several groups of groups, concatenated."""
        kept = list(parts)
        formats, producers = _Numbers(), _Numbers()
        sequences: dict[int, Int64s] = {}
        times: dict[int, Int64s] = {}
        first = 0
        for part in kept:
            if part.sequences or part.event_times:
                sequences |= {first + i: known for i, known in part.sequences.items()}
                times |= {first + i: known for i, known in part.event_times.items()}
            first += len(part.rows)
        if not first:
            return cls(np.empty(0, ROW), (), ())
        # As plain numbers, since numpy compares the fields of all arrays that it joins.
        rows = np.concatenate([part.rows.view(np.int64) for part in kept]).view(ROW)
        rows["format"] = formats.translate_all([(part.formats, part.rows["format"]) for part in kept])
        rows["producer"] = producers.translate_all([(part.producers, part.rows["producer"]) for part in kept])
        return cls(rows, formats.names, producers.names, sequences, times)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Group]:
        return map(self.group, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and groups_to_json(self) == groups_to_json(other)

    def group(self, index: int) -> Group:
        """The group at an index."""
        row = self.rows[index].tolist()
        own = _own(self.sequences, index), _own(self.event_times, index)
        return row_to_group(row, self.formats, self.producers, own=own)

    def having(self, channels: Container[int]) -> list[Group]:
        """The groups of some channels."""
        return [self.group(i) for i, one in enumerate(self.rows["channel"].tolist()) if one in channels]

    def take(self, indexes: Int64s) -> Groups:
        """The groups at some indexes."""
        at = list(enumerate(indexes.tolist()))
        sequences = {new: self.sequences[old] for new, old in at if old in self.sequences}
        times = {new: self.event_times[old] for new, old in at if old in self.event_times}
        return Groups(self.rows[indexes], self.formats, self.producers, sequences, times)

    def in_order(self) -> Groups:
        """The groups sorted by position; groups of channels that share events, by channel ID."""
        order = np.lexsort([self.rows[name] for name in ("channel", "start", "file")])
        return self if (np.diff(order) == 1).all() else self.take(order)

    def shared(self, channels: Sequence[int]) -> Groups:
        """The same events for other channels, all of which share them."""
        made = self.take(np.repeat(np.arange(len(self)), len(channels)))
        made.rows["channel"] = np.tile(np.array(channels, np.int64), len(self))
        return made

    def moved(self, file: int, further: int, ordinals: int) -> Groups:
        """The groups moved to another file, shifted by a number of bytes and records."""
        rows = self.rows.copy()
        rows["file"] = file
        rows["start"] += further
        rows["end"] += further
        rows["ordinal"] += ordinals
        return Groups(rows, self.formats, self.producers, self.sequences, self.event_times)

    @property
    def ordinals(self) -> Int64s:
        """The ordinals of all events, group by group."""
        firsts, counts = self.rows["ordinal"], self.rows["count"]
        ordinals: Int64s = np.repeat(firsts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return ordinals

    def channels(self, file: int) -> set[int]:
        """The channels of the events in one of the commit's files."""
        return set(self.rows["channel"][self.rows["file"] == file].tolist())

    @property
    def events(self) -> int:
        """The number of events."""
        return int(self.rows["count"].sum())

    def numbered(self) -> Iterator[tuple[int, int, str, int, int]]:
        """For the groups with sequence numbers: index, channel, producer, the first and the last number."""
        columns = self.rows[["channel", "producer", "sequence", "count"]]
        for i, (channel, producer, first, count) in enumerate(columns.tolist()):
            if first == NO_NUMBER:
                continue
            last = first + count - 1
            if i in self.sequences:
                own = self.sequences
                last = own.places[i][1] if isinstance(own, Beside) else int(own[i][-1])
            yield i, channel, self.producers[producer], first, last

    def numbers(self, index: int) -> Int64s:
        """The sequence numbers of the events of a group that has them."""
        row = self.rows[index]
        return self.sequences[index] if index in self.sequences else np.arange(row["count"]) + row["sequence"]


def _read(values: Own) -> Int64s | None:
    return values() if callable(values) else values


def _own(known: Mapping[int, Int64s], index: int) -> Own:
    """The values of a group's events, or their reader."""
    if isinstance(known, Beside):
        return partial(known.__getitem__, index) if index in known.places else None
    return known.get(index)


class _Numbers:
    """Unique names by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def translate_all(self, parts: Sequence[tuple[Sequence[str], Int64s]]) -> list[int]:
        """Translates the numbers of each part, which may use only a few of very many names, into numbers here."""
        made: list[int] = []
        for names, numbers in parts:
            known: dict[int, int] = {NO_NUMBER: NO_NUMBER}
            for number in numbers.tolist():
                if (own := known.get(number)) is None:
                    own = known[number] = self.number(names[number])
                made.append(own)
        return made

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def row_to_group(
    row: Sequence[int],
    formats: Sequence[str],
    producers: Sequence[str],
    first_file: int = 0,
    own: tuple[Own, Own] = (None, None),
) -> Group:
    """The group of a row of ROW.

    Args:
        first_file: the number of the commit's first file, if the rows number the files of several commits
            consecutively.
        own: the sequence numbers and times of its events, if stored for each event.
    """
    channel, file, start, end, ordinal, count, form, producer, sequence, event_time, derivation = row
    return Group(
        channel,
        file - first_file,
        start,
        end,
        ordinal,
        count,
        formats[form],
        None if producer == NO_NUMBER else producers[producer],
        None if sequence == NO_NUMBER else sequence,
        None if event_time == NO_TIME else event_time,
        None if derivation == NO_NUMBER else derivation,
        *own,
    )


def groups_to_json(groups: Groups) -> dict[str, Any]:
    """Groups as JSON values: a list for each column that has values.

    >>> groups_to_json(Groups.of([Group(1, 0, 32, 64, 0, 2, "02" * 12, "p", 7)]))["sequence"]
    [7]
    """
    made: dict[str, Any] = {name: groups.rows[name].tolist() for name in (*PLACES, "format")}
    made["formats"] = list(groups.formats)
    for name, absent in ABSENT.items():
        if (groups.rows[name] != absent).any():
            made[name] = [None if value == absent else value for value in groups.rows[name].tolist()]
    if groups.producers:
        made["producers"] = list(groups.producers)
    for name, known in (("sequences", groups.sequences), ("event_times", groups.event_times)):
        if isinstance(known, Beside):
            made[name] = [[i, first, last] for i, (first, last) in known.places.items()]
        elif known:
            made[name] = [[i, values.tolist()] for i, values in known.items()]
    return made


def set_aside(groups: Groups) -> tuple[Groups, list[Int64s]]:
    """Groups with the values of single events moved to a file, and the values in that file."""
    values: list[Int64s] = []
    count = 0

    def aside(known: Mapping[int, Int64s], name: str) -> Mapping[int, Int64s]:
        nonlocal count
        places = {}
        for i, own in known.items():
            places[i] = count, int(own[-1])
            values.append(own)
            count += len(own)
        return Beside(places, groups.rows, name) if places else {}

    sequences, times = aside(groups.sequences, "sequence"), aside(groups.event_times, "event_time")
    return replace(groups, sequences=sequences, event_times=times), values


def bound(groups: Groups, load: Load) -> Groups:
    """The groups, able to load the values that are in a file."""

    def of(known: Mapping[int, Int64s]) -> Mapping[int, Int64s]:
        return replace(known, load=load) if isinstance(known, Beside) else known

    return replace(groups, sequences=of(groups.sequences), event_times=of(groups.event_times))


def are_dates(times: Int64s) -> npt.NDArray[np.bool_]:
    """Which times are within the years 1 to 9999."""
    return (times >= EARLIEST) & (times <= LATEST)


def check_values(values: Int64s, name: str, row: np.void) -> Int64s:
    """Values of the events of a group. Raises PBIO_BAD_LOG if they are not valid."""
    is_right = (np.diff(values) > 0).all() if name == "sequence" else are_dates(values).all()
    if values[0] != row[name] or values[0] == ABSENT[name] or not is_right:
        bad(f"the {name} of events contradicts their group's")
    return values
