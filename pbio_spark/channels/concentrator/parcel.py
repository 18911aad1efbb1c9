"""Encoded events <-> the bytes of a message. What a process sends is checked before it comes near the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.channels.commits.checked import LARGEST, is_name
from pbio_spark.channels.commits.groups import NO_NUMBER, NO_TIME, ROW, Groups, Int64s, are_dates
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
    "sequence": (NO_NUMBER, _LIMITS.max),
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


def message_to_prepared(said: Any, body: memoryview, lookup: Lookup) -> list[Prepared]:
    """The events of a message, which share its memory.

    Raises PBIO_BAD_VALUE for contradictions, and PBIO_UNKNOWN_FORMAT.
    """
    if not isinstance(said, list) or not said:
        _bad("no events")
    body_ = _Body(body)
    made = [_part(one, body_, lookup) for one in said]
    body_.end()
    return made


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

    def numbers(self, count: int) -> Int64s:
        return np.frombuffer(self.take(8 * count), np.int64).copy()  # aligned

    def end(self) -> None:
        if self._at != len(self._body):
            _bad("the lengths add up to fewer bytes than there are")


def _part(said: Any, body: _Body, lookup: Lookup) -> Prepared:
    if not isinstance(said, dict):
        _bad("a part is not an object")
    format_id = said.get("format")
    if not isinstance(format_id, str) or not FORMAT_NAME.fullmatch(format_id):
        _bad("a format without an ID")
    producers = said.get("producers")
    if not isinstance(producers, list) or not all(map(is_name, producers)):
        _bad("producers without names")
    count, events, size = (_count(said.get(name)) for name in ("groups", "events", "bytes"))
    rows = np.frombuffer(body.take(ROW.itemsize * count), ROW).copy()
    offsets = body.numbers(events + 1)
    items = body.take(size)
    form = lookup(format_id)
    _check_items(np.frombuffer(items, np.uint8), offsets, form)
    _check_rows(rows, offsets, len(producers))
    own = [_own(said.get(name, []), body, rows, name[:-1]) for name in ("sequences", "event_times")]
    if own[0] and (rows["sequence"][list(own[0])] == NO_NUMBER).any():
        _bad("numbers of events that have none")
    firsts = rows["sequence"] + rows["count"]
    if (firsts > SEQUENCES.stop).any() or any(values[-1] >= SEQUENCES.stop for values in own[0].values()):
        _bad("sequence numbers that are too large")
    groups = Groups(rows, (format_id,), tuple(producers), *own)
    return Prepared(form, Encoded(pa.py_buffer(items), offsets), groups)


def _own(said: Any, body: _Body, rows: npt.NDArray[np.void], name: str) -> dict[int, Int64s]:
    """The values of single events of some groups."""
    made: dict[int, Int64s] = {}
    if not isinstance(said, list):
        _bad(f"{name}s are not a list")
    for pair in said:
        if not isinstance(pair, list) or len(pair) != 2:
            _bad(f"{name}s are not pairs")
        index, count = map(_count, pair)
        if index >= len(rows) or index in made or count != rows["count"][index]:
            _bad(f"{name}s of a group that does not exist")
        values = body.numbers(count)
        is_right = (np.diff(values) > 0).all() if name == "sequence" else are_dates(values).all()
        if values[0] != rows[name][index] or not is_right:
            _bad(f"{name}s contradict their group")
        made[index] = values
    return made


def _check_items(items: npt.NDArray[np.uint8], offsets: Int64s, form: Format) -> None:
    """Raise unless each event is one data item of the format with all fields in place, and they fill the bytes."""
    starts, sizes = offsets[:-1, None], offsets[1:] - offsets[:-1]
    start = _HEADER + len(form.id)
    if offsets[0] != 0 or offsets[-1] != len(items):
        _bad("the events do not fill their bytes")
    least = _HEADER + form.header_size + form.structs[0].record_length
    if sizes.min(initial=least) < least or sizes.max(initial=0) > len(items):
        _bad("an event is too short, or too long")
    # So they are contiguous, and none is outside.
    heads = items[starts + np.arange(_HEADER)].view(">u8")[:, 0]
    ids = items[starts + np.arange(_HEADER, start)]
    if (heads != (sizes - _HEADER) | _DATA_ITEM).any() or (ids != np.frombuffer(form.id, np.uint8)).any():
        _bad("an event is not an item of its format")


def _check_rows(rows: npt.NDArray[np.void], offsets: Int64s, producers: int) -> None:
    """Raise unless the groups are contiguous and cover all events."""
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
        or rows["producer"].max(initial=NO_NUMBER) >= producers
        or ((rows["sequence"] != NO_NUMBER) & (rows["producer"] == NO_NUMBER)).any()
        or not (are_dates(times) | (times == NO_TIME)).all()
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
