"""Rows of any channels and producers -> grouped by channel and producer, in order.

JECho's concentrator: events for thousands of channels travel as one batch, and only their groups are distinguished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ecode.suggest import did_you_mean
from pbio_spark.channels.commits.checked import check_name
from pbio_spark.channels.commits.groups import NO_NUMBER, NO_TIME, ROW, Groups, Int64s, are_dates
from pbio_spark.channels.publish.submission import SEQUENCES, Columns, Submission, to_microseconds
from pbio_spark.errors import PbioError


def concentrate(
    batch: pa.RecordBatch, channels: Int64s, fields: Sequence[str], submission: Submission
) -> tuple[pa.RecordBatch, Groups]:
    """Some columns of the rows, in order, and their groups, whose byte offsets and formats are still unknown.

    An event with the same channel, producer and number as another is a duplicate, and is left out.

    Args:
        channels: the channel's ID of each row.
        fields: the columns that are fields of events.

    Raises:
        PbioError: PBIO_UNKNOWN_COLUMN, PBIO_INCOMPATIBLE_TYPE, PBIO_CANNOT_BE_NULL and PBIO_BAD_VALUE for columns;
            PBIO_BAD_OPTION for what cannot be the name of a producer.
    """
    order, groups = group(batch, channels, submission)
    events = batch.select(fields)
    if order is None:
        return events, groups
    taken = pa.array(order)
    return pa.RecordBatch.from_arrays([one.take(taken) for one in events.columns], schema=events.schema), groups


def group(batch: pa.RecordBatch, channels: Int64s, submission: Submission) -> tuple[Int64s | None, Groups]:
    """The order of the rows, by index, or None if they are in order; and their groups in this order.

    Args:
        batch: must have the columns that the submission names.

    Otherwise as `concentrate`.
    """
    columns = submission.columns
    if columns == Columns():
        return None, one_group(channels, submission)
    event_time = _event_time(submission)
    producers, names = _producers(batch, submission)
    numbers = None if columns.sequence is None else _numbers(batch, columns.sequence)
    if numbers is not None and (producers == NO_NUMBER).any():
        row = int(np.argmin(producers))
        raise PbioError(
            "PBIO_CANNOT_BE_NULL",
            f"row {row}: a sequence number needs a producer",
            hint="name the producer of each row that has a number",
        )
    times = None if columns.event_time is None else _times(batch, columns.event_time)
    owners = _owners(channels, producers, len(names))
    order = _order(owners, numbers)
    if order is not None:
        owners = owners[order]
        numbers = None if numbers is None else numbers[order]
        times = None if times is None else times[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(len(owners), 1), np.bool_), owners[1:] != owners[:-1]]))
    rows = np.zeros(len(starts), ROW)
    firsts = starts if order is None else order[starts]
    rows["channel"], rows["producer"] = channels[firsts], producers[firsts]
    rows["ordinal"], rows["count"] = starts, np.diff(starts, append=len(owners))
    rows["sequence"], rows["event_time"], rows["derivation"] = NO_NUMBER, event_time, NO_NUMBER
    sequences, event_times = {}, {}
    if numbers is not None and len(starts):
        rows["sequence"] = numbers[starts]
        last = numbers[starts + rows["count"] - 1]
        sequences = _apart(numbers, rows, last - rows["sequence"] >= rows["count"])
    if times is not None and len(starts):
        rows["event_time"] = times[starts]
        differ = np.minimum.reduceat(times, starts) != np.maximum.reduceat(times, starts)
        event_times = _apart(times, rows, differ)
    return order, Groups(rows, (), names, sequences, event_times)


def one_group(channels: Int64s, submission: Submission) -> Groups:
    """The group of all rows, if they have one channel and no columns for what a submission says. Raises PBIO_BAD_VALUE.

    Args:
        channels: as for `concentrate`.
    """
    count = len(channels)
    if submission.sequence is not None and submission.sequence + count > SEQUENCES.stop:
        reason = f"{count} events from sequence number {submission.sequence} on pass the last one, {SEQUENCES[-1]}"
        raise PbioError("PBIO_BAD_VALUE", reason, hint="give the producer a new name and begin again at 0")
    rows = np.zeros(min(count, 1), ROW)
    rows["channel"], rows["count"] = channels[:1], count
    rows["producer"] = NO_NUMBER if submission.producer is None else 0
    rows["sequence"] = NO_NUMBER if submission.sequence is None else submission.sequence
    rows["event_time"], rows["derivation"] = _event_time(submission), NO_NUMBER
    return Groups(rows, (), () if submission.producer is None else (submission.producer,))


def _event_time(submission: Submission) -> int:
    return NO_TIME if submission.event_time is None else to_microseconds(submission.event_time)


def _apart(values: Int64s, rows: npt.NDArray[np.void], which: npt.NDArray[np.bool_]) -> dict[int, Int64s]:
    """The values of the events of some groups, by group."""
    return {
        i: values[rows["ordinal"][i] : rows["ordinal"][i] + rows["count"][i]] for i in np.flatnonzero(which).tolist()
    }


def _owners(channels: Int64s, producers: Int64s, names: int) -> npt.NDArray[np.integer[Any]]:
    """A number for each row's channel and producer, in their order, and as narrow as possible to sort fast."""
    present = np.bincount(channels) > 0 if channels.max(initial=0) < 1 << 24 else None
    if present is None:
        dense, most = np.unique(channels, return_inverse=True)[1], len(channels)
    else:
        dense, most = (np.cumsum(present) - 1)[channels], int(present.sum())
    owners = dense * (names + 1) + producers + 1
    return owners.astype(np.uint16) if most * (names + 1) < 1 << 16 else owners


def _order(owners: npt.NDArray[np.integer[Any]], numbers: Int64s | None) -> Int64s | None:
    """The order of the rows; None if they are already in order."""
    is_ordered = not (owners[1:] < owners[:-1]).any()
    order = np.arange(len(owners)) if is_ordered else np.argsort(owners, kind="stable")
    if numbers is None:
        return None if is_ordered else order
    is_rising, is_one = _compared(owners[order], numbers[order])
    if not is_rising.all():
        order = np.lexsort((numbers, owners))
        is_rising, is_one = _compared(owners[order], numbers[order])
    elif is_ordered and not is_one.any():
        return None
    kept: Int64s = order[~np.concatenate([np.zeros(min(len(order), 1), np.bool_), is_one])]
    return kept


def _compared(owners: npt.NDArray[np.integer[Any]], numbers: Int64s) -> tuple[npt.NDArray[np.bool_], ...]:
    """For all rows but the first: whether the number does not fall, and whether it repeats the same event."""
    is_other = owners[1:] != owners[:-1]
    return is_other | (numbers[1:] >= numbers[:-1]), ~is_other & (numbers[1:] == numbers[:-1])


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column by its name. Raises PBIO_UNKNOWN_COLUMN."""
    if name not in batch.schema.names:
        raise PbioError(
            "PBIO_UNKNOWN_COLUMN",
            f"unknown column {name!r}",
            hint=did_you_mean(name, batch.schema.names) or f"the columns are {', '.join(batch.schema.names)}",
        )
    return batch.column(name)


def names_of(column: pa.Array, name: str, what: str, absent: str | None = None) -> tuple[Int64s, list[str | None]]:
    """The number of each row's name in a column, and the names, which may be None. Raises PBIO_INCOMPATIBLE_TYPE."""
    try:
        strings = column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _unfit(column, name, f"names of {what}s") from None
    coded = (strings if absent is None else pc.fill_null(strings, absent)).dictionary_encode("encode")
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()


def _producers(batch: pa.RecordBatch, submission: Submission) -> tuple[Int64s, tuple[str, ...]]:
    column = submission.columns.producer
    if column is None:
        own = () if submission.producer is None else (submission.producer,)
        return np.full(batch.num_rows, len(own) - 1), own
    codes, names = names_of(column_of(batch, column), column, "producer", submission.producer)
    known = [name for name in names if name is not None]
    for name in known:
        check_name(name, "producer")
    numbers = np.cumsum([name is not None for name in names], dtype=np.int64) - 1
    numbers[[name is None for name in names]] = NO_NUMBER
    return numbers[codes], tuple(known)


def _numbers(batch: pa.RecordBatch, name: str) -> Int64s:
    column = column_of(batch, name)
    if not pa.types.is_integer(column.type):
        raise _unfit(column, name, "sequence numbers")
    made = _filled(column, name).cast(pa.int64(), safe=False).to_numpy()
    if (made < 0).any() or (made >= SEQUENCES.stop).any():
        raise PbioError(
            "PBIO_BAD_VALUE",
            f"the column {name!r} has numbers that are negative or too large",
            hint=f"give whole numbers from 0 to {SEQUENCES.stop - 1}",
        )
    return made  # type: ignore[no-any-return]


def _times(batch: pa.RecordBatch, name: str) -> Int64s:
    column = column_of(batch, name)
    if not pa.types.is_timestamp(column.type) or column.type.tz is None:
        raise _unfit(column, name, "times with a time zone")
    micros = pc.CastOptions(target_type=pa.timestamp("us", "UTC"), allow_time_truncate=True)
    try:
        made = _filled(column, name).cast(options=micros).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        made = np.array([NO_TIME])  # beyond the range of 8 bytes
    if not are_dates(made).all():
        raise PbioError(
            "PBIO_BAD_VALUE",
            f"the column {name!r} has times before the year 1 or after 9999",
            hint="check whether the column counts in a unit other than that of its type",
        )
    return made  # type: ignore[no-any-return]


def _filled(column: pa.Array, name: str) -> pa.Array:
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise PbioError(
            "PBIO_CANNOT_BE_NULL", f"row {row}: the column {name!r} is null", hint="fill the column, or leave it out"
        )
    return column


def _unfit(column: pa.Array, name: str, what: str) -> PbioError:
    return PbioError(
        "PBIO_INCOMPATIBLE_TYPE",
        f"the column {name!r} is {column.type}, and cannot hold {what}",
        hint="name a column of another type, or cast this one",
    )
