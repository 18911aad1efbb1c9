"""A summary of a batch: the number of its events, and a digest that does not depend on their order.

When Spark retries a batch it may split it differently and shuffle rows, but the contents stay the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from pbio_spark.channels.commits.groups import NO_NUMBER, NO_TIME, Groups, Int64s
from pbio_spark.columns import record_checksums

if TYPE_CHECKING:
    from ecode.native import Kernel
    from pbio_spark.columns import Encoded

UInt64s = npt.NDArray[np.uint64]

DIGESTS = 2**64
"""The upper bound of digests."""

_ODD, _SHIFT, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(31), np.uint64(32)


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a batch.

    Attributes:
        events: the number of events.
        digest: of their bytes, channels, producers, numbers and times, in any order.
    """

    events: int = 0
    digest: int = 0

    def __add__(self, other: Contents) -> Self:
        return type(self)(self.events + other.events, (self.digest + other.digest) % DIGESTS)


def contents_of(encoded: Encoded, groups: Groups, kernel: Kernel | None = None) -> Contents:
    """The contents of encoded events whose groups have positions as in a file of their own.

    Args:
        kernel: for `record_checksums`.

    >>> import pyarrow as pa
    >>> from pbio_spark.channels.commits.groups import Group
    >>> from pbio_spark.columns import Encoded
    >>> def of(data, channel=1):
    ...     groups = Groups.of([Group(channel, 0, 0, 4, 0, 2, "02" * 12)])
    ...     return contents_of(Encoded(pa.py_buffer(data), np.array([0, 2, 4])), groups)
    >>> of(b"aabb") == of(b"bbaa"), of(b"aabb") == of(b"abab"), of(b"aabb") == of(b"aabb", channel=2)
    (True, False, False)
    """
    if not len(groups):
        return Contents()
    rows = groups.rows
    records = _records(encoded, kernel)
    counts = rows["count"]
    if len(rows) == 1 and not (groups.event_times or rows["sequence"][0] != NO_NUMBER):
        # All events have the same values.
        alike = records[rows["ordinal"][0] :][: counts[0]] + _owners(groups)
        number, time = rows["sequence"].view(np.uint64), rows["event_time"].view(np.uint64)
        said = _mixed(_mixed(_mixed(alike) + number) + time)
        return Contents(len(said), int(said.sum(dtype=np.uint64)))
    whose = np.repeat(_owners(groups), counts)
    numbers = _of_events(rows["sequence"], counts, NO_NUMBER, groups.sequences, step=1)
    times = _of_events(rows["event_time"], counts, NO_TIME, groups.event_times, step=0)
    said = _mixed(_mixed(_mixed(records[groups.ordinals] + whose) + numbers.view(np.uint64)) + times.view(np.uint64))
    return Contents(len(said), int(said.sum(dtype=np.uint64)))


def _records(encoded: Encoded, kernel: Kernel | None) -> UInt64s:
    """A number for the bytes of each record."""
    lengths = np.diff(encoded.offsets).astype(np.uint64)
    records: UInt64s = record_checksums(encoded, kernel) + (lengths << _HALF)
    return records


def _mixed(values: UInt64s) -> UInt64s:
    values = (values ^ (values >> _SHIFT)) * _ODD
    mixed: UInt64s = values ^ (values >> _SHIFT)
    return mixed


def _owners(groups: Groups) -> UInt64s:
    """A number for the channel and the producer of each group."""
    names = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") for name in groups.producers]
    producers: UInt64s = np.array([*names, 0], np.uint64)[groups.rows["producer"]]  # the last one means no producer
    owners: UInt64s = _mixed(groups.rows["channel"].astype(np.uint64)) + producers
    return owners


def _of_events(firsts: Int64s, counts: Int64s, absent: int, own: Mapping[int, Int64s], *, step: int) -> Int64s:
    """A value for each event, from groups that have the first event's value and perhaps those of each."""
    begins = np.cumsum(counts) - counts
    values = np.repeat(firsts, counts)
    if step:
        values = np.where(values == absent, absent, values + np.arange(len(values)) - np.repeat(begins, counts))
    for index, known in own.items():
        values[begins[index] : begins[index] + counts[index]] = known
    return values
