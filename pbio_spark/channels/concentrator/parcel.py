"""Encoded events <-> the bytes of a message. What a process sends is checked before it comes near the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.channels.commits.checked import LARGEST, is_name
from pbio_spark.channels.commits.groups import ABSENT, NO_NUMBER, NO_TIME, ROW, Groups, Int64s, are_dates
from pbio_spark.channels.log.layout import FORMAT_NAME
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.channels.publish.submission import SEQUENCES
from pbio_spark.columns import Encoded
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

Lookup: TypeAlias = "Callable[[str], Format]"
"""The format of an ID in hexadecimal. Raises PBIO_UNKNOWN_FORMAT."""

_HEADER = 8
"""Bytes of an item before the record, which starts with its format ID (ffs-wire-format 2.2)."""
_DATA_ITEM = 3 << 56
"""The kind of a data item, before the six bytes of its length."""

_LIMITS = np.iinfo(np.int64)
_BOUNDS = {
    "channel": (1, LARGEST),
    "file": (0, 0),
    "format": (0, 0),
    "producer": (NO_NUMBER, LARGEST),
    "sequence": (NO_NUMBER, SEQUENCES[-1]),
    "derivation": (NO_NUMBER, NO_NUMBER),
}
_LEAST, _MOST = (
    np.array([_BOUNDS.get(name, (_LIMITS.min, _LIMITS.max))[i] for name in ROW.names or ()], np.int64) for i in (0, 1)
)
"""The range of each column of a group; the other columns are checked against each other."""


def prepared_to_message(events: Sequence[Prepared]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Events as JSON values, and the buffers that these describe."""
    said, buffers = [], []
    for one in events:
        groups = one.groups
        own = [(name, getattr(groups, name)) for name in ("sequences", "event_times")]
        said.append(
            {
                "format": one.format.id.hex(),
                "producers": list(groups.producers),
                "groups": len(groups),
                "events": len(one.encoded.offsets) - 1,
                "bytes": one.encoded.buffer.size,
                **{name: [[i, len(values)] for i, values in known.items()] for name, known in own if known},
            }
        )
        buffers += [_bytes_of(groups.rows), _bytes_of(one.encoded.offsets), one.encoded.buffer]
        buffers += [_bytes_of(values) for _, known in own for values in known.values()]
    return said, buffers


def size_of(events: Sequence[Prepared]) -> int:
    """The approximate number of bytes of the message."""
    return sum(
        one.encoded.buffer.size
        + 24 * len(one.encoded.offsets)
        + (ROW.itemsize + 8) * len(one.groups)
        + sum(len(name) + 20 for name in one.groups.producers)
        for one in events
    )


@dataclass(frozen=True, slots=True)
class Part:
    """Events of one format as they came: their lengths add up, and nothing else is known of them.

    Attributes:
        groups, events: how many there are.
        rows, offsets: int64s.
        items: the events.
        own: the index of a group and the values of its events, for numbers and for times.
    """

    format: Format
    producers: tuple[str, ...]
    groups: int
    events: int
    rows: memoryview
    offsets: memoryview
    items: memoryview
    own: tuple[list[tuple[int, Int64s]], ...]


def message_to_parts(said: Any, body: memoryview, lookup: Lookup) -> list[Part]:
    """The parts of a message, which share its memory.

    Raises PBIO_BAD_VALUE for lengths that do not add up, and PBIO_UNKNOWN_FORMAT.
    """
    if not isinstance(said, list) or not said:
        _bad("no events")
    body_ = _Body(body)
    made = [_part(one, body_, lookup) for one in said]
    body_.end()
    return made


def parts_to_prepared(messages: Sequence[Sequence[Part]]) -> list[list[Prepared] | PbioError]:
    """The events of each message; PBIO_BAD_VALUE for those that contradict themselves.

    All are checked in one pass, and one by one only if anything is wrong.
    """
    try:
        of_format: dict[str, list[Part]] = {}
        for message in messages:
            for part in message:
                of_format.setdefault(part.format.id.hex(), []).append(part)
        made = {name: iter(_checked(parts)) for name, parts in of_format.items()}
        return [[next(made[part.format.id.hex()]) for part in message] for message in messages]
    except PbioError as error:
        if len(messages) == 1:
            return [error]
    return [one for message in messages for one in parts_to_prepared([message])]


class _Body:
    """The bytes of a message, taken piece by piece."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def take(self, count: int) -> memoryview:
        end = self._at + count
        if end > len(self._body):
            _bad("the lengths add up to more bytes than there are")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def end(self) -> None:
        if self._at != len(self._body):
            _bad("the lengths add up to fewer bytes than there are")


def _part(said: Any, body: _Body, lookup: Lookup) -> Part:
    if not isinstance(said, dict):
        _bad("a part is not an object")
    format_id = said.get("format")
    if not isinstance(format_id, str) or not FORMAT_NAME.fullmatch(format_id):
        _bad("a format without an ID")
    producers = said.get("producers")
    if not isinstance(producers, list) or not all(map(is_name, producers)):
        _bad("producers without names")
    groups, events, size = (_count(said.get(name)) for name in ("groups", "events", "bytes"))
    if not groups or not events:
        _bad("a part without events")
    rows, offsets, items = body.take(ROW.itemsize * groups), body.take(8 * events + 8), body.take(size)
    own = tuple(_own(said.get(name, []), body, groups) for name in ("sequences", "event_times"))
    return Part(lookup(format_id), tuple(producers), groups, events, rows, offsets, items, own)


def _own(said: Any, body: _Body, groups: int) -> list[tuple[int, Int64s]]:
    """The values of single events of some groups."""
    made: dict[int, Int64s] = {}
    if not isinstance(said, list):
        _bad("values of events are not a list")
    for pair in said:
        if not isinstance(pair, list) or len(pair) != 2:
            _bad("values of events are not pairs")
        index, count = map(_count, pair)
        if index >= groups or index in made:
            _bad("values of events of a group that does not exist")
        made[index] = np.frombuffer(body.take(8 * count), np.int64).copy()  # aligned
    return list(made.items())


def _checked(parts: Sequence[Part]) -> Iterator[Prepared]:
    """The events of parts of one format. Raises PBIO_BAD_VALUE before the first one if any contradicts itself."""
    form = parts[0].format
    lengths = [(one.events, one.groups, len(one.items), len(one.producers)) for one in parts]
    events, groups, sizes, producers = np.array(lengths, np.int64).T
    items = b"".join(one.items for one in parts)
    offsets = np.frombuffer(b"".join(one.offsets for one in parts), np.int64)
    rows = np.frombuffer(bytearray(b"".join(one.rows for one in parts)), ROW)
    lasts = np.cumsum(events + 1) - 1
    if offsets[lasts - events].any() or (offsets[lasts] != sizes).any():
        _bad("the events do not fill their bytes")
    # All of them as one part: offsets of hostile sizes may wrap around here, and wrap back in the differences.
    is_start = np.ones(len(offsets), np.bool_)
    is_start[lasts] = False
    places = np.append(offsets[is_start] + np.repeat(_before(sizes), events), len(items))
    _check_items(np.frombuffer(items, np.uint8), places, form)
    moved = rows.copy()
    moved["ordinal"] += np.repeat(_before(events), groups)
    for name in ("start", "end"):
        moved[name] += np.repeat(_before(sizes), groups)
    _check_rows(moved, places, np.repeat(producers, groups))
    if (np.add.reduceat(moved["count"], _before(groups)) != events).any():
        _bad("the groups do not cover all events")
    buffer, names = pa.py_buffer(items), (form.id.hex(),)
    at, first, row = 0, 0, 0
    for part in parts:
        encoded = Encoded(buffer.slice(at, len(part.items)), offsets[first : first + part.events + 1])
        own = rows[row : row + part.groups]
        values = [_values(one, own, name) for one, name in zip(part.own, ("sequence", "event_time"), strict=True)]
        yield Prepared(form, encoded, Groups(own, names, part.producers, *values))
        at, first, row = at + len(part.items), first + part.events + 1, row + part.groups


def _before(counts: Int64s) -> Int64s:
    """The sum of all counts before each."""
    sums: Int64s = np.cumsum(counts) - counts
    return sums


def _values(own: Sequence[tuple[int, Int64s]], rows: npt.NDArray[np.void], name: str) -> dict[int, Int64s]:
    """The values of single events of some groups. Raises PBIO_BAD_VALUE if they contradict these."""
    for index, values in own:
        row = rows[index]
        is_right = len(values) == row["count"] and values[0] == row[name] != ABSENT[name]
        if is_right and name == "sequence":
            is_right = (np.diff(values) > 0).all() and values[-1] < SEQUENCES.stop
        if not is_right or (name == "event_time" and not are_dates(values).all()):
            _bad(f"the {name}s of events contradict their group")
    return dict(own)


def _check_items(items: npt.NDArray[np.uint8], offsets: Int64s, form: Format) -> None:
    """Raise unless each event is one data item of the format with all fields in place; the first and the last offset
    are right."""
    starts, sizes = offsets[:-1, None], offsets[1:] - offsets[:-1]
    start = _HEADER + len(form.id)
    least = _HEADER + form.header_size + form.structs[0].record_length
    if sizes.min(initial=least) < least or sizes.max(initial=0) > len(items):
        _bad("an event is too short, or too long")
    # So they are contiguous, and none is outside.
    heads = items[starts + np.arange(_HEADER)].view(">u8")[:, 0]
    ids = items[starts + np.arange(_HEADER, start)]
    if (heads != (sizes - _HEADER) | _DATA_ITEM).any() or (ids != np.frombuffer(form.id, np.uint8)).any():
        _bad("an event is not an item of its format")


def _check_rows(rows: npt.NDArray[np.void], offsets: Int64s, producers: Int64s) -> None:
    """Raise unless the groups are contiguous, cover all events, and have possible values.

    Args:
        producers: how many each group may choose from.
    """
    columns = rows.view(np.int64).reshape(-1, len(ROW.names or ()))
    ordinals, counts = rows["ordinal"], rows["count"]
    if counts.min(initial=1) <= 0 or counts.max(initial=0) >= len(offsets) or counts.sum() != len(offsets) - 1:
        _bad("the groups do not cover all events")
    ends = np.cumsum(counts)
    if (ordinals != ends - counts).any():
        _bad("the groups are not contiguous")
    if (rows["start"] != offsets[ordinals]).any() or (rows["end"] != offsets[ends]).any():
        _bad("the groups and their events are in different places")
    times = rows["event_time"]
    wrong = (
        (columns < _LEAST).any()
        or (columns > _MOST).any()
        or (rows["producer"] >= producers).any()
        or ((rows["sequence"] != NO_NUMBER) & (rows["producer"] == NO_NUMBER)).any()
        or not (are_dates(times) | (times == NO_TIME)).all()
        or (rows["sequence"] + counts > SEQUENCES.stop).any()
    )
    if wrong:
        _bad("a group has impossible values")


def _bytes_of(values: npt.NDArray[Any]) -> bytes:
    return values.tobytes()


def _count(said: Any) -> int:
    if type(said) is not int or not 0 <= said <= LARGEST:
        _bad("an invalid length")
    return said


def _bad(reason: str) -> NoReturn:
    raise PbioError("PBIO_BAD_VALUE", f"a publication for the concentrator contradicts itself: {reason}")
