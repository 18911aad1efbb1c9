"""A producer's events for a channel, encoded once, and refused here if the channel cannot deliver them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from ecode.suggest import did_you_mean
from morph import Policy, Rejection
from pbio_spark.channels.checked import check_name
from pbio_spark.channels.state import ChannelInfo
from pbio_spark.columns.encoder import Encoded, Encoder, format_to_encoder
from pbio_spark.columns.read import Part, Wanted, read_batches
from pbio_spark.columns.ways import Request, find_way
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow_schema import record_to_arrow
from pbio_spark.formats.arrow_to_record import arrow_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FormatStore

Rows: TypeAlias = "pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]]"

WHOLE = Policy(mismatch_threshold=0.0, same_name=False)
"""What a channel asks of an event: all fields of its type, directly or by the transforms of the event's format."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Submission:
    """Events for a channel.

    Attributes:
        channel: its name.
        events: rows by name, or Arrow columns. Columns may be more than the channel's type has fields.
        format: that they are to be written in. Without one, the channel's own; for columns that are others than the
            channel's, one made of the columns.
        producer: who made them.
        sequence: the number of the first event among its producer's for this channel; the others follow. Events whose
            numbers were published before are not published again.
        event_time: when what they tell of happened; with a time zone.
    """

    channel: str
    events: Rows
    format: Format | None = None
    producer: str | None = None
    sequence: int | None = None
    event_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission with its events as items of a file."""

    channel: int
    format: Format
    encoded: Encoded
    producer: str | None
    sequence: int | None
    event_time: int | None

    @property
    def count(self) -> int:
        return len(self.encoded.offsets) - 1

    def without(self, first: int) -> Prepared:
        """The events from the one at an index on."""
        start = int(self.encoded.offsets[first])
        encoded = Encoded(self.encoded.buffer.slice(start), self.encoded.offsets[first:] - start)
        sequence = None if self.sequence is None else self.sequence + first
        return replace(self, encoded=encoded, sequence=sequence)


class Preparer:
    """Encodes submissions; remembers encoders, and which formats a channel accepts."""

    def __init__(self, formats: FormatStore) -> None:
        self._formats = formats
        self._encoders: dict[tuple[Format, pa.Schema], Encoder] = {}
        self._stored: set[Format] = set()
        self._wanted: dict[tuple[str, Format], Wanted] = {}

    def prepare(self, submission: Submission, info: ChannelInfo) -> Prepared:
        """
        Raises:
            PbioError: PBIO_BAD_VALUE, PBIO_CANNOT_BE_NULL, PBIO_UNKNOWN_COLUMN and what else `format_to_encoder` and
                `Encoder.encode` raise; PBIO_REJECTED if the events do not reach the channel's type.
        """
        _check(submission)
        own = channel_format(info, self._formats)
        form = submission.format or _format_of(submission.events, own)
        batch = _batch(submission.events, form)
        key = form, batch.schema
        if key not in self._encoders:
            self._encoders[key] = format_to_encoder(form, batch.schema, wrap=True)
        encoded = self._encoders[key].encode(batch)
        if form != own:
            self._check_delivery(form, own, encoded)
        if form not in self._stored:
            self._formats.put(form)
            self._stored.add(form)
        return Prepared(
            info.id, form, encoded, submission.producer, submission.sequence, _microseconds(submission.event_time)
        )

    def _check_delivery(self, form: Format, own: Format, encoded: Encoded) -> None:
        """Read the events as the channel's type, as its subscribers will: nothing that fails there is published."""
        key = own.id.hex(), form
        if key not in self._wanted:
            request = Request(((own.name, own.record),), policy=WHOLE)
            way = find_way(form, request, (own,), self._formats)
            if isinstance(way, Rejection):
                raise PbioError(
                    "PBIO_REJECTED",
                    f"these events do not have all that the channel's type has: {way.explain()}",
                    format=f"{form.name} ({form.id.hex()})",
                    hint="add the missing fields, or a transform to the channel's format (pbio_spark.formats.evolve)",
                )
            wanted = Wanted(record_to_arrow(own.record), formats=(form, own), store=self._formats, request=request)
            self._wanted[key] = replace(wanted, converters={form.id: wanted.converter(form, fused=False)})
        # A part never begins at offset 0, where a file has its magic.
        data = b"\0" + encoded.buffer.to_pybytes()
        for _ in read_batches(self._wanted[key], Part("the events", 1, len(data)), io.BytesIO(data)):
            pass


def channel_format(info: ChannelInfo, formats: FormatStore) -> Format:
    """The format that describes a channel's type. Raises PBIO_UNKNOWN_FORMAT."""
    return stored_format(info.format, formats)


def stored_format(format_id: str, formats: FormatStore) -> Format:
    """The format of an ID. Raises PBIO_UNKNOWN_FORMAT."""
    found = formats.get(bytes.fromhex(format_id))
    if found is None:
        raise PbioError(
            "PBIO_UNKNOWN_FORMAT", "the space has lost the body of this format", format=format_id, hint="restore it"
        )
    return found


def type_to_format(type_: Format | pa.Schema | Any, name: str) -> Format:
    """The format for a channel's type: a format, a record type, or an Arrow schema, whose record is called `name`."""
    if isinstance(type_, Format):
        return type_
    return record_to_format(arrow_to_record(type_, name) if isinstance(type_, pa.Schema) else type_)


def _check(submission: Submission) -> None:
    if submission.producer is not None:
        check_name(submission.producer, "producer")
    if submission.sequence is not None:
        if submission.producer is None:
            raise PbioError("PBIO_BAD_OPTION", "a sequence number without a producer, whose it would be")
        if not 0 <= submission.sequence < 2**62:
            raise PbioError("PBIO_BAD_OPTION", f"{submission.sequence} cannot be a sequence number")


def _format_of(events: Rows, own: Format) -> Format:
    if not isinstance(events, pa.RecordBatch | pa.Table):
        return own
    names = record_to_arrow(own.record).names
    if set(events.schema.names) == set(names):
        return own
    return record_to_format(arrow_to_record(events.schema, own.name))


def _batch(events: Rows, form: Format) -> pa.RecordBatch:
    if isinstance(events, pa.RecordBatch):
        return events
    if isinstance(events, pa.Table):
        return pa.RecordBatch.from_struct_array(events.to_struct_array().combine_chunks())
    schema = record_to_arrow(form.record)
    for number, row in enumerate(events):
        for name in row:
            if name not in schema.names:
                raise PbioError(
                    "PBIO_UNKNOWN_COLUMN",
                    f"row {number}: there is no field {name!r}",
                    format=form.name,
                    hint=did_you_mean(str(name), schema.names)
                    or "events may have more than the channel's type: say with format= in which format",
                )
    try:
        return pa.RecordBatch.from_pylist(list(events), schema=schema)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise PbioError("PBIO_BAD_VALUE", f"a row does not fit the type: {error}", format=form.name) from error


def _microseconds(when: datetime | None) -> int | None:
    return None if when is None else to_microseconds(when)


def to_microseconds(when: datetime) -> int:
    """Microseconds since 1970 UTC. Raises PBIO_BAD_OPTION for a time without a zone."""
    if when.tzinfo is None:
        raise PbioError("PBIO_BAD_OPTION", f"{when} has no time zone", hint="such as datetime.now(UTC)")
    return (when - EPOCH) // timedelta(microseconds=1)


def to_datetime(microseconds: int) -> datetime:
    """The time, in UTC."""
    return EPOCH + timedelta(microseconds=microseconds)
