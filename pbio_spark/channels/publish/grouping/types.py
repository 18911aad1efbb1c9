"""Rows whose channels have different types, grouped together where the types are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pbio_spark.channels.commits.groups import NO_NUMBER, Groups, Int64s
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.named import AnyChannel
from pbio_spark.channels.publish.grouping.concentrate import column_of, concentrate, names_of
from pbio_spark.channels.publish.submission import Submission
from pbio_spark.columns import Encoded
from pbio_spark.errors import PbioError

Find: TypeAlias = "Callable[[AnyChannel], ChannelInfo]"
"""The channel of a name. Raises PBIO_UNKNOWN_CHANNEL."""


def named_channels(
    batch: pa.RecordBatch, name: str, default: AnyChannel | None, find: Find
) -> tuple[Int64s, list[ChannelInfo]]:
    """The index of each row's channel, and the channels, by the column that names them.

    Args:
        default: the channel of rows that name none.

    Raises what `names_of` and `find` raise; PBIO_CANNOT_BE_NULL for a row without a channel.
    """
    column = column_of(batch, name)
    codes, names = names_of(column, name, "channel", find(default).name if default else None)
    if None in names:
        row = int(np.flatnonzero(codes == names.index(None))[0])
        raise PbioError(
            "PBIO_CANNOT_BE_NULL",
            f"row {row}: the column {name!r} is null, and names no channel",
            hint="fill the column, or give channel= for rows without a name",
        )
    return codes, [find(str(one)) for one in names]


def in_runs(ids: Sequence[int], types: Sequence[int], codes: Int64s) -> tuple[Int64s, Int64s]:
    """Rows sorted by the type of their channel, then by channel.

    Args:
        ids: the ID of each channel.
        types: the number of each channel's type.
        codes: the index of each row's channel.

    Returns:
        int64, the indexes of the rows in order; and how many rows each type has.
    """
    numbers = np.array(types, np.int64)
    ranks = np.empty(len(ids), np.int64)
    ranks[np.lexsort((np.array(ids, np.int64), numbers))] = np.arange(len(ids))
    keys = ranks[codes]
    order = np.argsort(keys.astype(np.uint16) if len(ids) < 1 << 16 else keys, kind="stable")
    return order, np.bincount(numbers[codes], minlength=int(numbers.max(initial=-1)) + 1)


def concentrate_types(
    batch: pa.RecordBatch, channels: Int64s, counts: Int64s, fields: Sequence[str], submission: Submission
) -> tuple[pa.RecordBatch, Groups, Int64s]:
    """As `concentrate`, for rows that are sorted as by `in_runs`: the events of each type lie together.

    Args:
        counts: how many rows each type has.

    Returns:
        The events, their groups, and the index of the first group of each type.
    """
    firsts = np.concatenate([np.zeros(min(len(channels), 1), np.int64), np.flatnonzero(np.diff(channels)) + 1])
    # Numbered in the order of the rows, which is not that of the IDs.
    runs = np.arange(len(firsts)).repeat(np.diff(firsts, append=len(channels)))
    events, groups = concentrate(batch, runs, fields, submission)
    starts = np.cumsum(counts) - counts
    of_types = np.searchsorted(groups.rows["channel"], np.searchsorted(firsts, starts))
    groups.rows["channel"] = channels[firsts[groups.rows["channel"]]]
    return events, groups, of_types


def parted(encoded: Encoded, groups: Groups, firsts: Int64s) -> Iterator[tuple[Encoded, Groups]]:
    """Events in parts of consecutive groups, as if each part were a file; `firsts` has the first group of each.

    Changes the rows of `groups`, which the parts share.
    """
    rows, offsets = groups.rows, encoded.offsets
    stops = np.append(firsts[1:], len(rows))
    ordinals = rows["ordinal"][firsts]
    ends = np.append(ordinals[1:], len(offsets) - 1)
    further, before = (values.repeat(stops - firsts) for values in (offsets[ordinals], ordinals))
    rows["start"] -= further
    rows["end"] -= further
    rows["ordinal"] -= before
    plain = not groups.sequences and not groups.event_times
    for first, stop, ordinal, end in zip(*(each.tolist() for each in (firsts, stops, ordinals, ends)), strict=True):
        start, size = int(offsets[ordinal]), int(offsets[end] - offsets[ordinal])
        part = replace(groups, rows=rows[first:stop]) if plain else groups.take(np.arange(first, stop))
        own = _with_own_producers(part)
        yield Encoded(encoded.buffer.slice(start, size), offsets[ordinal : end + 1] - start), own


def _with_own_producers(groups: Groups) -> Groups:
    """The groups with only those producers that they name; changes their rows."""
    if len(groups.producers) < 2:
        return groups
    used, numbers = np.unique(groups.rows["producer"], return_inverse=True)
    absent = int(used[0] == NO_NUMBER)
    groups.rows["producer"] = numbers - absent  # NO_NUMBER is -1
    return replace(groups, producers=tuple(groups.producers[number] for number in used[absent:].tolist()))
