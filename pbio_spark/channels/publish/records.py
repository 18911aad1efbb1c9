"""Records from elsewhere, in any format -> events; not re-encoded, but read as subscribers will.

A record is published byte for byte, so additional fields, byte order and transforms of the sender are kept.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morph import Rejection
from pbio_spark.channels.commits.checked import check_name
from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.publish.grouping.concentrate import column_of, concentrate
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.channels.publish.submission import WHOLE, Columns, Submission, channel_format
from pbio_spark.channels.publish.unreached import unreached_to_error
from pbio_spark.columns import Encoded, FilePart, ReadPlan, Request, Selection, find_route, plan_read, read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

_ROW = "\0row"
_PLANS = 64

Int32s: TypeAlias = "npt.NDArray[np.int32]"


@dataclass(frozen=True, slots=True)
class Records:
    """Records for a channel, as consecutive data items of a file (ffs-wire-format 2.2).

    Attributes:
        channel: its name.
        items: the bytes.
        offsets: int64, one more than records: where each item starts, then where the last one ends.
        formats: the formats of the records.
        numbers: int32, the index in `formats` for each record.
        producer: as in `Submission`.
        columns: as in `Submission`, without `channel`; they name columns of the channel's type.
    """

    channel: str
    items: bytes
    offsets: Int64s
    formats: tuple[Format, ...]
    numbers: Int32s
    producer: str | None = None
    columns: Columns = Columns()  # noqa: RUF009 - it never changes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def first(self, count: int) -> Records:
        """The first `count` records."""
        end = int(self.offsets[count])
        return replace(self, items=self.items[:end], offsets=self.offsets[: count + 1], numbers=self.numbers[:count])


class RecordPreparer:
    """Checks and groups records; caches what it compiled. Threads must not share one."""

    def __init__(self, formats: FormatStore) -> None:
        self._formats = formats
        self._plans: dict[tuple[str, frozenset[Format]], list[ReadPlan]] = {}
        self._stored: set[Format] = set()

    def prepare(self, records: Records, find: Callable[[str], ChannelInfo]) -> list[Prepared]:
        """The records as events that `Publisher.publish` takes, in their order.

        Their formats are in the space when this returns.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL; PBIO_REJECTED if a format does not reach the channel's type; for a bad
                record, what reading it raises, with its ordinal as `record`; PBIO_UNKNOWN_COLUMN,
                PBIO_INCOMPATIBLE_TYPE, PBIO_CANNOT_BE_NULL, PBIO_BAD_VALUE for `columns`; what the format store
                raises.
        """
        if not len(records):
            return []
        info = find(records.channel)
        if records.producer is not None:
            check_name(records.producer, "producer")
        used = np.unique(records.numbers)
        forms = [records.formats[number] for number in used.tolist()]
        for form in forms:
            self._check_id(form)
        table = self._read(info, records, forms)
        for form in forms:
            if form not in self._stored:
                self._formats.put(form)
                self._stored.add(form)
        said = Submission(records.channel, table, None, records.producer, columns=records.columns)
        encoded = Encoded(pa.py_buffer(records.items), records.offsets)
        bounds = [0, *(np.flatnonzero(np.diff(records.numbers)) + 1).tolist(), len(records)]
        made = []
        for start, stop in pairwise(bounds):
            form = records.formats[int(records.numbers[start])]
            run = _slice(encoded, start, stop) if len(bounds) > 2 else encoded
            made.append(_group(info, form, run, table.slice(start, stop - start), said))
        return made

    def check_columns(self, info: ChannelInfo, columns: Columns) -> None:
        """Raise what `prepare` raises for columns that the channel's type lacks or has with another type."""
        schema = record_to_arrow(channel_format(info, self._formats).record)
        nothing = pa.RecordBatch.from_pylist([], schema=schema)
        for name in columns.names:
            column_of(nothing, name)
        concentrate(nothing, np.empty(0, np.int64), (), Submission(info.name, nothing, columns=columns))

    def warm(self, info: ChannelInfo, form: Format) -> None:
        """Compile what records of a format need for a channel; other preparers then find it in the cache.

        Raises what `prepare` raises for any of them.
        """
        self._check_id(form)
        self._plans_of(info, [form])

    def _check_id(self, form: Format) -> None:
        """Raise PBIO_BAD_ID or PBIO_FORMAT_CONFLICT for a format that has another format's ID."""
        if form in self._stored:
            return
        form.verify_id()
        known = self._formats.get(form.id)
        if known is not None and known != form:
            reason = "the space has another body with this ID"
            raise PbioError(
                "PBIO_FORMAT_CONFLICT",
                reason,
                format=f"{form.name} ({form.id.hex()})",
                hint="have the sender register its format again, so that the ID is the hash of the body",
            )

    def _read(self, info: ChannelInfo, records: Records, forms: Sequence[Format]) -> pa.RecordBatch:
        """The metadata columns of the records, and the number of each; this reads all fields."""
        key = info.format, frozenset(forms)
        plans = self._plans.get(key)
        if plans is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plans = self._plans[key] = self._plans_of(info, forms)
        wanted = list(records.columns.names)
        found: list[pa.RecordBatch] = []
        for batch in _batches(plans[0], records):
            for name in wanted:
                column_of(batch, name)
            found.append(batch.select(wanted))
        for plan in plans[1:]:
            for _ in _batches(plan, records):
                pass
        rows = pa.array(np.arange(len(records)))
        if not wanted:
            return pa.RecordBatch.from_arrays([rows], names=[_ROW])
        table = pa.concat_batches(found)
        return pa.RecordBatch.from_arrays([*table.columns, rows], names=[*table.schema.names, _ROW])

    def _plans_of(self, info: ChannelInfo, forms: Sequence[Format]) -> list[ReadPlan]:
        """Plans that read records of some formats as the channel's type, as its subscribers will, and as a whole."""
        own = channel_format(info, self._formats)
        request = Request(((own.name, own.record),), policy=WHOLE)
        for form in forms:
            route = find_route(form, request, (own,), self._formats)
            if isinstance(route, Rejection):
                raise unreached_to_error(route, form, own, info.name)
        selection = Selection(record_to_arrow(own.record), request=request)
        plans = [plan_read(selection, (*forms, own), coming=forms, store=self._formats)]
        for form in forms:
            if form.record != own.record:
                with suppress(PbioError):  # it has no columns, so no reader reads it as a whole
                    whole = Selection(record_to_arrow(form.record), ids=(form.id,))
                    plans.append(plan_read(whole, forms, coming=[form], store=self._formats))
        return plans


def _batches(plan: ReadPlan, records: Records) -> Iterator[pa.RecordBatch]:
    # A part never begins at offset 0, where a file has its magic.
    source = io.BytesIO(b"".join((b"\0", records.items)))
    yield from read_batches(plan, FilePart("", 1, len(records.items) + 1, 0, records=len(records)), source)


def _slice(encoded: Encoded, start: int, stop: int) -> Encoded:
    first, end = int(encoded.offsets[start]), int(encoded.offsets[stop])
    return Encoded(encoded.buffer.slice(first, end - first), encoded.offsets[start : stop + 1] - first)


def _group(
    info: ChannelInfo, form: Format, encoded: Encoded, table: pa.RecordBatch, submission: Submission
) -> Prepared:
    """The groups of records of one format, sorted by sequence numbers."""
    channels = np.full(table.num_rows, info.id)
    events, groups = concentrate(table, channels, [_ROW], submission)
    rows: Int64s = events.column(0).to_numpy() - table.column(table.num_columns - 1)[0].as_py()
    if len(rows) != table.num_rows or (np.diff(rows) != 1).any():
        encoded = encoded.take(rows)
    groups.rows["start"] = encoded.offsets[groups.rows["ordinal"]]
    groups.rows["end"] = encoded.offsets[groups.rows["ordinal"] + groups.rows["count"]]
    return Prepared(form, encoded, replace(groups, formats=(form.id.hex(),)))
