"""The data files that one task writes to channels, which nothing refers to yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pbio_spark.channels import (
    Deriver,
    Gatherer,
    Packed,
    Prepared,
    Preparer,
    StraightWriter,
    Submission,
    contents_of_all,
    is_straight,
    pack,
)
from pbio_spark.errors import PbioError
from pbio_spark.source.arrow import with_schema
from pbio_spark.source.channels.background import BackgroundFiles

if TYPE_CHECKING:
    from ecode.native import Kernel
    from pbio_spark.channels import Folder, State
    from pbio_spark.columns import NullValue

PIECE = 32 << 20
"""How many bytes a task gathers for one data file: enough to be worth a request and an fsync, few enough that columns,
records and what is derived from them fit into a worker's memory."""


@dataclass(frozen=True, slots=True)
class EventTask:
    """Writes rows of one schema as events.

    Attributes:
        root: of the space, for messages.
        number: of the task.
        state: the channels.
        submission: what applies to all events.
        null_value: as for `Preparer.prepare`.
        summing: for `contents_of`; None if contents are not needed.
        ranging: for `RangeMaker`.
    """

    root: str
    number: int
    folder: Folder
    schema: pa.Schema
    preparer: Preparer
    deriver: Deriver
    state: State
    submission: Submission
    null_value: NullValue | None
    summing: Kernel | None
    ranging: Kernel

    def write(self, iterator: Iterator[pa.RecordBatch]) -> list[Packed]:
        """Write all rows, or leave nothing.

        Raises what `Preparer.prepare` raises, and what `Folder.add` raises, each with the rows concerned.
        """
        rows = _Rows(f"{self.root}, rows {{}} to {{}} of partition {self.number}")
        packed: list[Packed] = []
        try:
            with BackgroundFiles(self.folder) as files:
                for one in self._written(iterator, rows, files):
                    packed.append(replace(one, task=self.number, events=()))
                files.wait()
        except PbioError as error:
            remove(self.folder, packed)
            if error.code == "PBIO_UNKNOWN_CHANNEL" and self.submission.columns.channel is not None:
                error.hint = "writing does not create channels: create it first (ChannelSpace.create_channel)"
            raise error.at(file=rows.place or self.root) from None
        except BaseException:
            remove(self.folder, packed)
            raise
        return packed

    def _written(self, iterator: Iterator[pa.RecordBatch], rows: _Rows, files: BackgroundFiles) -> Iterator[Packed]:
        """Data files that are written or being written."""
        first = next(iterator, None)
        if first is None:
            return
        rows.come(first.num_rows)
        batches = self._batches(first, iterator, rows)
        submission = self.submission
        if submission.columns.channel is None:
            info = self.state.named(submission.channel or "")
            if is_straight(self.folder, self.state, info, submission):
                made = StraightWriter(
                    self.folder,
                    self.preparer,
                    info,
                    submission,
                    self.null_value,
                    summing=self.summing,
                    ranging=self.ranging,
                )
                yield from _straight(made, batches, files)
                return
            prepared = _gathered(Gatherer(self.preparer, info, submission, self.null_value), batches, rows)
        else:
            prepared = self._of_many(batches, rows)
        for events in prepared:
            one = pack(files, self.deriver, events, self.state, self.ranging)
            yield one if self.summing is None else replace(one, contents=contents_of_all(events, self.summing))

    def _batches(
        self, first: pa.RecordBatch, others: Iterable[pa.RecordBatch], rows: _Rows
    ) -> Iterator[pa.RecordBatch]:
        yield with_schema(first, self.schema)
        for batch in others:
            rows.come(batch.num_rows)
            yield with_schema(batch, self.schema)

    def _of_many(self, batches: Iterable[pa.RecordBatch], rows: _Rows) -> Iterator[list[Prepared]]:
        """Events whose rows name their channels."""
        for piece in _pieces(batches):
            rows.all(piece.num_rows)
            of_piece = replace(self.submission, events=piece)
            if prepared := self.preparer.prepare(of_piece, self.state.named, self.null_value):
                yield prepared


def _straight(writer: StraightWriter, batches: Iterable[pa.RecordBatch], files: BackgroundFiles) -> Iterator[Packed]:
    try:
        for batch in batches:
            writer.add(batch)
            if writer.bytes >= PIECE:
                yield from _brought(writer, files)
        yield from _brought(writer, files)
    finally:
        writer.discard()


def _brought(writer: StraightWriter, files: BackgroundFiles) -> Iterator[Packed]:
    finished = writer.finished()
    if finished is None:
        return
    try:
        files.bring(writer.bring, finished)
    except BaseException:
        finished.file.discard()
        raise
    yield finished.packed


def _gathered(gatherer: Gatherer, batches: Iterable[pa.RecordBatch], rows: _Rows) -> Iterator[list[Prepared]]:
    """Events of about PIECE bytes: each result must be written before the next but one is taken."""
    for batch in batches:
        gatherer.add(batch)
        if gatherer.bytes >= PIECE:
            rows.all(gatherer.rows)
            yield gatherer.prepared()
    if gatherer.rows:
        rows.all(gatherer.rows)
        yield gatherer.prepared()


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches concatenated to about PIECE bytes."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= PIECE:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


@dataclass(slots=True)
class _Rows:
    """The rows of a task that an error concerns.

    Attributes:
        text: the message, with braces for the first and the last row.
        place: the message with the current rows; empty before the first row.
        end: the number of rows so far.
    """

    text: str
    place: str = ""
    end: int = 0

    def come(self, count: int) -> None:
        """Note that `count` new rows are the current ones."""
        self.end += count
        self.all(count)

    def all(self, count: int) -> None:
        """Note that the last `count` rows are the current ones."""
        self.place = self.text.format(self.end - count, self.end - 1)


def remove(folder: Folder, packed: Iterable[Packed]) -> None:
    """Remove data files that will not be published."""
    for one in packed:
        with suppress(PbioError):
            folder.remove(one.file.path)
