"""A row for each step, a column for each variable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.meta.scalars import read_scalars
from pbio_spark.bp5.rows.contents import Content, content_to_column, read_content
from pbio_spark.bp5.rows.finish import finish
from pbio_spark.bp5.rows.survey import chunks, halves
from pbio_spark.bp5.rows.wanted import DatasetPart, Wanted
from pbio_spark.bp5.rows.where import numbers_to_column, scalars_to_column
from pbio_spark.errors import PbioError


def read_steps(part: DatasetPart, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The steps of a part as batches of the wanted schema. Under FAILFAST it raises what is wrong with the first bad
    step; otherwise a bad step is a row with its sound values and the reason, or is left out."""
    with DatasetFolder(part.dataset.path) as folder:
        for steps in cut_steps(part, wanted.max_batch_bytes):
            yield from _Reader(part, wanted, folder, steps).batches()


def cut_steps(part: DatasetPart, most: int) -> Iterator[tuple[Step, ...]]:
    """The steps in groups with a limited size of metadata; all steps of a flattened dataset form one."""
    if part.dataset.index.header.flatten:
        yield from [part.steps] if part.steps else []
        return
    yield from map(tuple, chunks(part.steps, most))


class _Reader:
    """Reads some steps, whose metadata is held at once."""

    def __init__(self, part: DatasetPart, wanted: Wanted, folder: DatasetFolder, steps: tuple[Step, ...]) -> None:
        self.part = part
        self.wanted = wanted
        self.folder = folder
        self.steps = steps
        self.is_one = len(steps) == 1 or part.dataset.index.header.flatten

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            contents, rows = self._contents()
        except PbioError as error:
            if parts := halves(error, self.steps, flatten=self.part.dataset.index.header.flatten):
                for half in parts:
                    yield from _Reader(self.part, self.wanted, self.folder, tuple(half)).batches()
                return
            if self.wanted.mode == "FAILFAST":
                raise
            yield from self._one_by_one(np.arange(len(self.steps)))
            return
        for chosen in self._cut(contents, rows):
            some = {name: content.of_rows(chosen) for name, content in contents.items()}
            try:
                yield self._batch(some, chosen)
            except PbioError:
                if self.wanted.mode == "FAILFAST":
                    raise
                yield from self._one_by_one(chosen)

    def _contents(self) -> tuple[dict[str, Content], Int64s]:
        """The metadata of each variable, and the wanted rows."""
        dataset = self.part.dataset
        located = dataset.locate(self.folder, self.steps)
        rows = np.arange(located.rows)
        where = self.wanted.where
        if where is not None and len(rows):
            numbers = np.array([self.steps[row].number for row in rows.tolist()])
            columns = {
                given: numbers_to_column(numbers, "i8")
                if given.is_step
                else scalars_to_column(
                    read_scalars(located, given.name), located.rows, given.kind, self.part.scales.get(given.name)
                )
                for given in where.reads
            }
            rows = np.flatnonzero(where.mask(columns, located.rows))
        names = dict.fromkeys(column.variable for column in self.wanted.columns)
        return {name: read_content(dataset, located, name) for name in names}, rows

    def _cut(self, contents: dict[str, Content], rows: Int64s) -> Iterator[Int64s]:
        """The rows in groups whose values take about as many bytes as a batch should."""
        if not len(rows):
            return
        sizes = np.full(int(rows.max()) + 1, 8, np.int64)
        for content in contents.values():
            sizes += content.bytes_of_rows()[: len(sizes)]
        begin = size = 0
        for i, bytes_ in enumerate(sizes[rows].tolist()):
            if i > begin and (
                size + bytes_ > self.wanted.max_batch_bytes or i - begin >= self.wanted.records_per_batch
            ):
                yield rows[begin:i]
                begin, size = i, 0
            size += bytes_
        yield rows[begin:]

    def _batch(self, contents: dict[str, Content], rows: Int64s) -> pa.RecordBatch:
        columns = {
            column.name: content_to_column(
                contents[column.variable], column, self.wanted, self.part, self.folder, self.steps
            )
            for column in self.wanted.columns
        }
        return finish(columns, self._steps_of(rows), self.part, self.wanted)

    def _steps_of(self, rows: Int64s) -> Sequence[Step]:
        return [self.steps[row] for row in rows.tolist()]

    def _one_by_one(self, rows: Int64s) -> Iterator[pa.RecordBatch]:
        """The same rows, each separately, to isolate damage."""
        if not self.is_one:
            for row in rows.tolist():
                yield from _Reader(self.part, self.wanted, self.folder, (self.steps[row],)).batches()
        elif self.wanted.mode == "PERMISSIVE":
            yield self._damaged()

    def _damaged(self) -> pa.RecordBatch:
        """The row of a bad step: its sound values, and everything that is wrong."""
        dataset, errors = self.part.dataset, list[PbioError]()
        columns = {c.name: pa.nulls(1, self.wanted.schema.field(c.name).type) for c in self.wanted.columns}
        try:
            located = dataset.locate(self.folder, self.steps)
        except PbioError as error:
            errors.append(error)
        else:
            for column in self.wanted.columns:
                try:
                    content = read_content(dataset, located, column.variable)
                    columns[column.name] = content_to_column(
                        content, column, self.wanted, self.part, self.folder, self.steps
                    )
                except PbioError as error:
                    errors.append(error)
        return finish(columns, self.steps[:1], self.part, self.wanted, errors)
