"""Submissions -> events, encoded once and refused if their channels cannot deliver them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from morph import Rejection
from pbio_spark.channels.commits.groups import Groups, Int64s
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.publish.grouping.concentrate import column_of, concentrate, names_of, one_group
from pbio_spark.channels.publish.grouping.types import Find, concentrate_types, in_runs, named_channels, parted
from pbio_spark.channels.publish.submission import WHOLE, Columns, Submission, channel_format, check_submission
from pbio_spark.channels.publish.unreached import unreached_to_error
from pbio_spark.channels.subscribe.plan import format_to_plan
from pbio_spark.columns import (
    Encoded,
    Encoders,
    FilePart,
    NullValue,
    ReadPlan,
    Request,
    RowEncoder,
    find_route,
    format_to_row_encoder,
    read_batches,
    rows_to_batch,
    with_row,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.body.opt_info import Nulls, nulls_in
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FormatStore

_FEW = 100
"""The most rows that cost less without Arrow."""

_FEW_TYPES = 8
"""The most types for which the rows are filtered once per type; for more, they are sorted once."""

_MANY_ROWS = 1000
"""How many rows for each type are worth an encoder of its own: fewer cost less together with those of similar types."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Events of one format, encoded as items of a file, with their groups.

    Attributes:
        groups: where they are, as if `encoded` were the file.
    """

    format: Format
    encoded: Encoded
    groups: Groups

    def without(self, firsts: Mapping[int, int]) -> Prepared:
        """Leave out the first events of some groups: `firsts` maps the index of a group to how many."""
        if not firsts:
            return self
        rows = self.groups.rows.copy()
        sequences, times = dict(self.groups.sequences), dict(self.groups.event_times)
        for i, count in firsts.items():
            row = rows[i]
            row["count"] -= count
            row["ordinal"] += count
            row["start"] = self.encoded.offsets[row["ordinal"]]
            row["sequence"] += count
            if row["count"]:
                for name, known in (("sequence", sequences), ("event_time", times)):
                    if i in known:
                        known[i] = known[i][count:]
                        row[name] = known[i][0]
        groups = replace(self.groups, rows=rows, sequences=sequences, event_times=times)
        return replace(self, groups=groups.take(np.flatnonzero(rows["count"])))


class Preparer:
    """Encodes submissions; caches encoders and accepted formats. Pickles with what it compiled.

    Attributes:
        encoders: of the formats of events.
    """

    def __init__(
        self,
        formats: FormatStore,
        *,
        machine: str = "native",
        transforms: Sequence[tuple[Format, str]] = (),
        nulls: Nulls | None = None,
    ) -> None:
        """
        Args:
            machine: the machine that events are laid out for; `native` is that of the channel's own format.
            transforms: those that the format of events carries: the older format, and the program that converts to it.
            nulls: how a format made from columns represents null; None: as in the channel's own format.
        """
        self._formats = formats
        self._machine = machine
        self._transforms = tuple(transforms)
        self._nulls = nulls
        self.encoders = Encoders()
        self._warm: set[tuple[int, pa.Schema | None, Columns, NullValue | None]] = set()
        self._row_encoders: dict[tuple[str, Format | None], tuple[Format, RowEncoder] | None] = {}
        self._fields: dict[tuple[Format, pa.Schema, tuple[str, ...]], list[str]] = {}
        self._made: dict[tuple[Format, pa.Schema, tuple[str, ...]], Format] = {}
        self._stored: set[Format] = set()
        self._plans: dict[tuple[str, Format], ReadPlan] = {}

    def prepare(self, submission: Submission, find: Find, null_value: NullValue | None = None) -> list[Prepared]:
        """Encode the events of a submission, for all channels of one type together.

        Args:
            null_value: what replaces a null that a format cannot represent, as for `format_to_encoder`.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL; PBIO_REJECTED if the events do not reach a channel's type;
                PBIO_UNKNOWN_COLUMN, PBIO_CANNOT_BE_NULL, PBIO_BAD_VALUE for values, and what else `concentrate`,
                `format_to_encoder` and `Encoder.encode` raise.
        """
        check_submission(submission)
        if null_value is None and (few := self._of_few(submission, find)) is not None:
            return [few]
        made = []
        try:
            for infos, counts, rows, channels in self._by_type(submission, find):
                if rows.num_rows:
                    made += self._prepare_types(infos, counts, rows, channels, submission, null_value)
        except PbioError as error:
            raise with_row(error, submission.events) from None
        return made

    def _of_few(self, submission: Submission, find: Find) -> Prepared | None:
        """The events of a submission of few rows, encoded without Arrow; None if they need it. Raises what `prepare`
        raises."""
        rows = submission.events
        if type(rows) is not list or not 0 < len(rows) <= _FEW or submission.columns != Columns():
            return None
        info = find(submission.channel or "")
        key = info.format, submission.format
        if key not in self._row_encoders:
            self._row_encoders[key] = self._row_encoder(info, submission)
        found = self._row_encoders[key]
        encoded = None if found is None else found[1].encode(rows)
        if found is None or encoded is None:
            return None
        return self.finished(info, found[0], encoded, one_group(np.full(len(rows), info.id), submission))

    def _row_encoder(self, info: ChannelInfo, submission: Submission) -> tuple[Format, RowEncoder] | None:
        """The format of rows with all fields, and their encoder; None if they need Arrow."""
        own = submission.format or channel_format(info, self._formats)
        schema = pa.schema(list(record_to_arrow(own.record)))
        try:
            form, _ = self.written(info, schema, submission)
            encoder = format_to_row_encoder(form, schema)
        except PbioError:  # which Arrow's way raises again if it concerns these rows
            return None
        return None if encoder is None else (form, encoder)

    def prepare_all(self, submissions: Iterable[Submission], find: Find) -> list[Prepared]:
        """The events of some submissions, for one data file. Raises what `prepare` raises."""
        made = [one for submission in submissions for one in self.prepare(submission, find)]
        return by_channel(made)

    def check(self, submission: Submission) -> None:
        """Raise what `prepare` raises for all events with such columns, on any channel."""
        check_submission(submission)
        rows = rows_to_batch(submission.events, None).slice(0, 0)
        column = submission.columns.channel
        if column is not None:
            names_of(column_of(rows, column), column, "channel")
        concentrate(rows, np.empty(0, np.int64), (), submission)

    def fetch(self, infos: Iterable[ChannelInfo]) -> None:
        """Read the formats of channels all at once, which a bucket answers as fast as one."""
        self._formats.find(dict.fromkeys(bytes.fromhex(info.format) for info in infos))

    def warm(self, info: ChannelInfo, submission: Submission, null_value: NullValue | None = None) -> Format:
        """Compile what events with such columns need for a channel; returns their format.

        Raises what `prepare` raises for any of them.
        """
        own, events = channel_format(info, self._formats), submission.events
        schema = events.schema if isinstance(events, pa.RecordBatch | pa.Table) and submission.format is None else None
        key = self.encoders.shape(own), schema, submission.columns, null_value
        if key in self._warm:
            return own
        rows = rows_to_batch(events, submission.format or own).slice(0, 0)
        form = self._prepare(info, rows, np.empty(0, np.int64), submission, null_value).format
        if form == own and schema is not None:
            self._warm.add(key)
        return form

    def _prepare_types(
        self,
        infos: Sequence[ChannelInfo],
        counts: Int64s,
        rows: pa.RecordBatch,
        channels: Int64s,
        submission: Submission,
        null_value: NullValue | None,
    ) -> list[Prepared]:
        """Encode events for channels of some types, whose rows lie together; `infos` has a channel of each.

        If there are several, their formats have one shape, and the events are written in them.
        """
        if len(infos) > 1:
            with suppress(PbioError):  # what is wrong is said of the type concerned, below
                return self._prepare_alike(infos, counts, rows, channels, submission, null_value)
        made, stop = [], 0
        for info, count in zip(infos, counts.tolist(), strict=True):
            start, stop = stop, stop + count
            own = rows.slice(start, count), channels[start:stop]
            made.append(self._prepare(info, *own, submission, null_value))
        return made

    def _prepare_alike(
        self,
        infos: Sequence[ChannelInfo],
        counts: Int64s,
        rows: pa.RecordBatch,
        channels: Int64s,
        submission: Submission,
        null_value: NullValue | None,
    ) -> list[Prepared]:
        """As `_prepare_types`, with one run of an encoder."""
        formats = [channel_format(info, self._formats) for info in infos]
        _, fields = self.written(infos[0], rows.schema, submission)
        events, groups, firsts = concentrate_types(rows, channels, counts, fields, submission)
        # Events that repeat another are left out.
        of_types = np.add.reduceat(groups.rows["count"], firsts)
        encoded = self.encoders.encode(events, formats, of_types, null_value)
        _to_bytes(groups, encoded)
        parts = zip(formats, parted(encoded, groups, firsts), strict=True)
        return [Prepared(form, own, replace(mine, formats=(form.id.hex(),))) for form, (own, mine) in parts]

    def _prepare(
        self,
        info: ChannelInfo,
        rows: pa.RecordBatch,
        channels: Int64s,
        submission: Submission,
        null_value: NullValue | None,
    ) -> Prepared:
        """Encode events for channels of one type, one of which is `info`."""
        form, fields = self.written(info, rows.schema, submission)
        events, groups = concentrate(rows, channels, fields, submission)
        encoded = self.encoders.find(form, events.schema, null_value).encode(events)
        return self.finished(info, form, encoded, groups)

    def written(self, info: ChannelInfo, schema: pa.Schema, submission: Submission) -> tuple[Format, list[str]]:
        """The format that rows of a schema are written in, and the columns that are its fields."""
        form = submission.format or self.format_of(schema, channel_format(info, self._formats), submission.columns)
        key = form, schema, submission.columns.names
        if key not in self._fields:
            self._fields[key] = _fields(schema, form, submission.columns)
        return form, self._fields[key]

    def finished(self, info: ChannelInfo, form: Format, encoded: Encoded, groups: Groups) -> Prepared:
        """Encoded events with their groups, whose byte offsets and formats are filled in here.

        Raises what reading the events as the channel's type raises, if it differs from theirs.
        """
        own = channel_format(info, self._formats)
        _to_bytes(groups, encoded)
        if form != own:
            self._check_delivery(form, own, info.name, encoded)
        self.store(form)  # the channel's own too, which a copy of the space may have lost
        return Prepared(form, encoded, replace(groups, formats=(form.id.hex(),)))

    def format_of(self, schema: pa.Schema, own: Format, columns: Columns) -> Format:
        """The format for events of a channel: its own; or another if the columns differ from its fields, or for another
        machine, or with transforms."""
        key = own, schema, columns.names
        if key not in self._made:
            names = record_to_arrow(own.record).names
            fields = [field for field in schema if field.name in names or field.name not in columns.names]
            own_nulls = nulls_in(own.record)
            nulls = self._nulls or own_nulls
            given = {field.name for field in fields}
            # Counts follow from the arrays.
            has_all = given <= set(names) and set(names) - given <= own.record.structs[0].controls
            is_own = has_all and not self._transforms and nulls == own_nulls
            record = own.record if is_own else columns_to_record(pa.schema(fields), own.name, nulls)
            form = own if is_own and self._machine == "native" else record_to_format(record, self._machine)
            for prior, program in self._transforms:
                form = evolve(prior, form, program)
            self._made[key] = form
        return self._made[key]

    def store(self, form: Format) -> None:
        """Store a format for readers, before its first event."""
        if form not in self._stored:
            self._formats.put(form)
            self._stored.add(form)

    def _by_type(
        self, submission: Submission, find: Find
    ) -> Iterator[tuple[list[ChannelInfo], Int64s, pa.RecordBatch, Int64s]]:
        """For each type, or for types whose events can be encoded together: one channel of each type, how many rows
        each has, the rows for all channels of the types, and the channel of each row."""
        columns = submission.columns
        if columns.channel is None:
            info = find(submission.channel or "")
            batch = rows_to_batch(submission.events, submission.format or channel_format(info, self._formats))
            yield [info], np.array([batch.num_rows]), batch, np.full(batch.num_rows, info.id)
            return
        batch = rows_to_batch(submission.events, None)
        codes, infos = named_channels(batch, columns.channel, submission.channel, find)
        channels = np.array([info.id for info in infos], np.int64)[codes]
        of_type = {info.format: info for info in infos}
        if len(of_type) == 1:
            yield [infos[0]], np.array([batch.num_rows]), batch, channels
        elif len(of_type) <= _FEW_TYPES:
            types = np.array([info.format for info in infos])[codes]
            for format_id, info in sorted(of_type.items()):
                is_of = types == format_id
                yield [info], np.array([is_of.sum()]), batch.filter(pa.array(is_of)), channels[is_of]
        else:
            alike = self._alike(of_type, batch, submission)
            numbers = {info.format: number for number, info in enumerate(chain.from_iterable(alike))}
            order, counts = in_runs([info.id for info in infos], [numbers[info.format] for info in infos], codes)
            batch, channels = batch.take(pa.array(order)), channels[order]
            row = first = 0
            for together in alike:
                of_each = counts[first : first + len(together)]
                rows = int(of_each.sum())
                yield together, of_each, batch.slice(row, rows), channels[row : row + rows]
                row, first = row + rows, first + len(together)

    def _alike(
        self, of_type: Mapping[str, ChannelInfo], batch: pa.RecordBatch, submission: Submission
    ) -> list[list[ChannelInfo]]:
        """Channels of different types, in lists of those whose events can be encoded together."""
        if submission.format is not None or batch.num_rows > _MANY_ROWS * len(of_type):
            return [[info] for _, info in sorted(of_type.items())]
        of_shape: dict[int, list[ChannelInfo]] = {}
        alone = []
        for _, info in sorted(of_type.items()):
            own = channel_format(info, self._formats)
            together = of_shape.setdefault(self.encoders.shape(own), [])
            # Types of equal shape are all those of the events, or none is.
            if together or self.written(info, batch.schema, submission)[0] == own:
                together.append(info)
            else:
                alone.append([info])
        return [*filter(None, of_shape.values()), *alone]

    def _check_delivery(self, form: Format, own: Format, channel: str, encoded: Encoded) -> None:
        """Read the events as the channel's type, as its subscribers will: what fails there is not published."""
        key = own.id.hex(), form
        if key not in self._plans:
            request = Request(((own.name, own.record),), policy=WHOLE)
            route = find_route(form, request, (own,), self._formats)
            if isinstance(route, Rejection):
                raise unreached_to_error(route, form, own, channel)
            schema = record_to_arrow(own.record)
            self._plans[key] = format_to_plan(form, schema, self._formats, request, others=(own,))
        for _ in read_encoded(self._plans[key], encoded.buffer, "the events"):
            pass


def _to_bytes(groups: Groups, encoded: Encoded) -> None:
    """Set the byte offsets of groups, by their ordinals among encoded events."""
    groups.rows["start"] = encoded.offsets[groups.rows["ordinal"]]
    groups.rows["end"] = encoded.offsets[groups.rows["ordinal"] + groups.rows["count"]]


def by_channel(events: list[Prepared]) -> list[Prepared]:
    """Groups events by channel, unless events of a submission with several channels require their order."""
    channels_of = [one.groups.rows["channel"] for one in events]
    if len(events) > 1 and all((channels == channels[0]).all() for channels in channels_of):
        events.sort(key=lambda one: int(one.groups.rows["channel"][0]))
    return events


def read_encoded(plan: ReadPlan, items: pa.Buffer, name: str) -> Iterator[pa.RecordBatch]:
    """Events that are not yet in a file, as batches. Raises what `read_batches` raises."""
    # A part never begins at offset 0, where a file has its magic.
    data = b"".join((b"\0", items))
    yield from read_batches(plan, FilePart(name, 1, len(data)), io.BytesIO(data))


def _fields(schema: pa.Schema, form: Format, columns: Columns) -> list[str]:
    """The columns that are fields of events, rather than only metadata."""
    if not columns.names:
        return list(schema.names)
    own = set(record_to_arrow(form.record).names)
    return [name for name in schema.names if name in own or name not in columns.names]
