"""A producer's events for channels, as submitted, with their types and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ecode.types import Record
from morph import Policy
from pbio_spark.channels.commits.checked import EARLIEST, LATEST, check_name
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.named import AnyChannel
from pbio_spark.columns import Rows
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format, check_format
from pbio_spark.formats.arrow.spark_json_to_arrow import spark_json_to_arrow
from pbio_spark.formats.arrow.written import columns_to_record, writable
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.formats.store import FormatStore
from pbio_spark.keywords import suggesting_class


class SparkSchema(Protocol):
    """The part of `StructType` that is needed here, without importing Spark."""

    def jsonValue(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The schema as JSON values."""


AnyType: TypeAlias = "Format | Record | pa.Schema | SparkSchema | str | Mapping[str, Any]"
"""What a channel's type may be given as; the last two are a record type as JSON."""

WHOLE = Policy(mismatch_threshold=0.0, same_name=False)
"""What a channel requires of an event: all fields of its type, directly or by the transforms of the event's format."""

SEQUENCES = range(2**62)
"""The numbers that a producer may give its events."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@suggesting_class
@dataclass(frozen=True, slots=True)
class Columns:
    """Columns with values for each event that a submission otherwise sets for all events.

    A column is also a field of the events if the channel's type has one of its name.

    Attributes:
        channel, producer: names of columns of names.
        sequence: the name of a column of integers, by which the events of each producer are sorted.
        event_time: the name of a column of times.
    """

    channel: str | None = None
    producer: str | None = None
    sequence: str | None = None
    event_time: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are set."""
        return tuple(name for name in (self.channel, self.producer, self.sequence, self.event_time) if name is not None)


@suggesting_class
@dataclass(frozen=True, slots=True)
class Submission:
    """Events for a channel, or for many.

    Attributes:
        channel: a channel or its name; with `columns.channel`, for events that name none.
        events: rows by name, or Arrow columns; there may be more columns than the channel's type has fields.
        format: the format to write them in. By default the channel's own, or one made from the columns if these differ
            from the channel's.
        producer: the name of their producer.
        sequence: the number of the first event among its producer's for this channel; the others follow. Events whose
            numbers were already published are not published again.
        event_time: when the events happened; with a time zone.
        columns: the attributes that differ from event to event.
    """

    channel: AnyChannel | None
    events: Rows
    format: Format | None = None
    producer: str | None = None
    sequence: int | None = None
    event_time: datetime | None = None
    columns: Columns = Columns()


def check_submission(submission: Submission) -> None:
    """Raise PBIO_BAD_OPTION for a submission that no channel could take, whatever its events are."""
    if not isinstance(submission, Submission):
        reason = f"expected a Submission, not {type(submission).__name__}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="publish([Submission(channel, events)])")
    columns = submission.columns
    named = columns.names if isinstance(columns, Columns) else (columns,)
    for name in named:
        if not isinstance(name, str):
            reason = f"columns cannot be {str(name)[:80]!r}"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="such as Columns(producer='feed', sequence='number')")
    if submission.producer is not None:
        check_name(submission.producer, "producer")
    if columns != Columns() and not isinstance(submission.events, pa.RecordBatch | pa.Table):
        raise PbioError(
            "PBIO_BAD_OPTION", "columns= requires Arrow columns", hint="hand over a pyarrow.RecordBatch or Table"
        )
    if columns.channel is None and submission.channel is None:
        raise PbioError(
            "PBIO_BAD_OPTION", "the submission does not name a channel", hint="give channel=, or a column of channels"
        )
    if submission.format is not None:
        check_format(submission.format)
    if submission.sequence is not None:
        if columns.names:
            raise PbioError(
                "PBIO_BAD_OPTION",
                "sequence= cannot be combined with columns=",
                hint="name the column of the numbers in columns=",
            )
        is_number = isinstance(submission.sequence, int | np.integer) and not isinstance(submission.sequence, bool)
        if not is_number or int(submission.sequence) not in SEQUENCES:
            raise PbioError(
                "PBIO_BAD_OPTION", f"not a sequence number: {submission.sequence!r}", hint=f"from 0 to {SEQUENCES[-1]}"
            )
    has_numbers = submission.sequence is not None or columns.sequence is not None
    if has_numbers and submission.producer is None and columns.producer is None:
        raise PbioError("PBIO_BAD_OPTION", "a sequence number needs a producer", hint="give producer=, too")


def channel_format(info: ChannelInfo, formats: FormatStore) -> Format:
    """The format that describes a channel's type. Raises PBIO_UNKNOWN_FORMAT."""
    return stored_format(info.format, formats)


def stored_format(format_id: str, formats: FormatStore) -> Format:
    """The format of an ID. Raises PBIO_UNKNOWN_FORMAT."""
    found = formats.get(bytes.fromhex(format_id))
    if found is None:
        raise PbioError(
            "PBIO_UNKNOWN_FORMAT",
            "the space has lost the body of this format",
            format=format_id,
            hint="restore it from a copy",
        )
    return found


def type_to_format(type_: AnyType) -> Format:
    """The format for a channel's type. Channels of equal schemas share it, and so what is compiled for one of them.

    The format represents nulls, where the schema allows them, in hidden fields; other fields do not change.

    Raises what `record_to_format`, `columns_to_record` and `json_to_record` raise; PBIO_UNSUPPORTED_TYPE;
    PBIO_BAD_OPTION for no type.
    """
    if isinstance(type_, str) and not type_.lstrip().startswith("{"):
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"not a type of events: {type_[:80]!r}",
            hint='a record type is JSON, {"stock": {"price": "float64"}}; StructType.fromDDL(...) makes a schema',
        )
    if isinstance(type_, str | Mapping):
        type_ = json_to_record(type_)
    if isinstance(type_, Format):
        return type_
    if isinstance(type_, Record):
        return record_to_format(writable(type_))
    if isinstance(type_, pa.Schema):
        return record_to_format(columns_to_record(type_, "event", "mask"))
    if not hasattr(type_, "jsonValue"):
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"not a type of events: {str(type_)[:80]!r}",
            hint="a Record, such as record('stock', [Field('price', FLOAT64)]), a Format, an Arrow or Spark schema, or "
            'JSON: {"stock": {"price": "float64"}}',
        )
    return record_to_format(columns_to_record(spark_json_to_arrow(type_.jsonValue()), "event", "mask"))


def to_microseconds(when: datetime) -> int:
    """Microseconds since 1970 UTC. Raises PBIO_BAD_OPTION for a time without a zone, or without a date in UTC."""
    if not isinstance(when, datetime):
        raise PbioError("PBIO_BAD_OPTION", f"not a datetime: {str(when)[:80]!r}", hint="example: datetime.now(UTC)")
    if when.tzinfo is None:
        raise PbioError("PBIO_BAD_OPTION", f"{when} has no time zone", hint="example: datetime.now(UTC)")
    made = (when - EPOCH) // timedelta(microseconds=1)
    if not EARLIEST <= made <= LATEST:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"{when} is before the year 1 or after 9999 in UTC",
            hint="give a datetime with its time zone",
        )
    return made


def to_datetime(microseconds: int) -> datetime:
    """The time, in UTC."""
    return EPOCH + timedelta(microseconds=microseconds)
